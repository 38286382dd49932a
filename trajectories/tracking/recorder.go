package tracking

import (
	"sync"
	"time"
)

// RecorderConfig says when a Recorder logs; zero values give the defaults.
type RecorderConfig struct {
	Window *Window
	Sink   Sink // what becomes of the figures; it has to be a Fanout or never fail
	// MinItems is how many groups have to be over since the last log; 0 or less logs
	// with each.
	MinItems int
	// Every is the shortest time between two logs but the last; 0 means none.
	Every time.Duration
	// Now is the clock; nil is time.Now.
	Now func() time.Time
}

// Recorder logs the figures of a window as a run goes on. It is safe for concurrent use.
type Recorder struct {
	config RecorderConfig

	mu     sync.Mutex
	last   time.Time
	step   int
	closed bool
}

// NewRecorder returns a Recorder. The time until its first log counts from now.
func NewRecorder(config RecorderConfig) *Recorder {
	if config.Now == nil {
		config.Now = time.Now
	}
	return &Recorder{config: config, last: config.Now()}
}

// Window returns the window whose figures are logged.
func (r *Recorder) Window() *Window { return r.config.Window }

// Tick logs when enough has happened and enough time has gone by since the last log.
// more are figures that are asked for only then; nil has none.
func (r *Recorder) Tick(step int, more func() []Metric) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.config.Now()
	if r.closed || now.Sub(r.last) < r.config.Every || r.config.Window.Handled() < max(1, r.config.MinItems) {
		return
	}
	var extra []Metric
	if more != nil {
		extra = more()
	}
	r.log(step, extra)
	r.last = now
}

// Log logs now: the figures of the window and further ones, which win over those of the
// same name.
func (r *Recorder) Log(step int, more []Metric) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.closed {
		r.log(step, more)
		r.last = r.config.Now()
	}
}

func (r *Recorder) log(step int, more []Metric) {
	r.step = max(r.step, step)
	metrics, tables := r.config.Window.Flush()
	_ = r.config.Sink.Log(r.step, merge(metrics, more), tables) // the sinks' failures are theirs to tell
}

// Close ends the sinks. What the window holds and nobody logged is lost.
func (r *Recorder) Close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.closed {
		r.closed = true
		_ = r.config.Sink.Close() // as above
	}
}

// merge appends figures; one of a name that is there replaces it.
func merge(metrics, more []Metric) []Metric {
	place := make(map[string]int, len(metrics))
	for i, m := range metrics {
		place[m.Name] = i
	}
	for _, m := range more {
		if i, ok := place[m.Name]; ok {
			metrics[i] = m
			continue
		}
		place[m.Name] = len(metrics)
		metrics = append(metrics, m)
	}
	return metrics
}
