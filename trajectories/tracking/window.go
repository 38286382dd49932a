package tracking

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

// WindowConfig says what a Window keeps.
type WindowConfig struct {
	Prefix string // of the names, before the slash; "" is train
	// Sent and Rejected name the counts of what was sent and rejected; "" is
	// items_sent_to_api and items_rejected.
	Sent, Rejected string
	// Groups is how many groups the table of rollouts keeps, the latest ones; 0 keeps none.
	Groups int
	// PerGroup is how many rollouts of a group it shows; 0 shows none, negative all.
	PerGroup int
	// MaxText bounds the text of a rollout in the table, in bytes; 0 means 32 KiB.
	MaxText int
	// MaxTokens is the longest completion, for the share of those that come near it; 0
	// leaves that figure out.
	MaxTokens int
	// Requests is how many requests to a server its figures rest on, the latest ones; 0
	// means 1000.
	Requests int
}

// RolloutRow is one rollout in the table of rollouts.
type RolloutRow struct {
	Text  string
	Score float64
}

// Window adds up what happens in a run between two logs. It is safe for concurrent use
// and holds a bounded amount of memory.
type Window struct {
	config WindowConfig

	mu          sync.Mutex
	prepend     string
	completions lengths
	lengths     distribution
	groups      [][]RolloutRow
	samples     map[string]*distribution
	sampleOrder []string
	counts      map[string]float64
	countOrder  []string
	sent        int
	rejected    map[string]int
	reasons     []string
	servers     []*serverFigures
}

// serverFigures are the latest requests to one server, of training and of evaluation.
type serverFigures struct {
	times, attempts [2]ring
}

// NewWindow returns an empty window.
func NewWindow(config WindowConfig) *Window {
	if config.Prefix == "" {
		config.Prefix = "train"
	}
	if config.MaxText <= 0 {
		config.MaxText = 32 << 10
	}
	if config.Requests <= 0 {
		config.Requests = 1000
	}
	if config.Sent == "" {
		config.Sent = "items_sent_to_api"
	}
	if config.Rejected == "" {
		config.Rejected = "items_rejected"
	}
	w := &Window{config: config, rejected: make(map[string]int), counts: make(map[string]float64)}
	w.reset()
	return w
}

func (w *Window) reset() {
	w.completions, w.lengths, w.groups = make(lengths), distribution{}, nil
	w.samples, w.sampleOrder, w.sent = make(map[string]*distribution), nil, 0
	for reason := range w.rejected {
		w.rejected[reason] = 0
	}
	for name := range w.counts {
		w.counts[name] = 0
	}
}

// Prepend puts a name and _ before the names of all figures but those of servers, as a
// worker does once a trainer's server has named it.
func (w *Window) Prepend(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.prepend = name
}

// Completion counts a sequence by its trained tokens.
func (w *Window) Completion(tokens int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.completions[tokens]++
	w.lengths.add(float64(tokens))
}

// Sample adds a value to those that are described by mean, std, max and min under a
// name, for example train_perf/mainloop_timings in seconds.
func (w *Window) Sample(name string, value float64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sample(name, value)
}

func (w *Window) sample(name string, value float64) {
	d := w.samples[name]
	if d == nil {
		d = &distribution{}
		w.samples[name] = d
		w.sampleOrder = append(w.sampleOrder, name)
	}
	d.add(value)
}

// Count adds to a figure that is a sum, for example of tokens. A name that was counted
// once is there with every log, 0 where nothing was added.
func (w *Window) Count(name string, n float64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, known := w.counts[name]; !known {
		w.countOrder = append(w.countOrder, name)
	}
	w.counts[name] += n
}

// Sent counts a group that went to the trainer or into the group file, and how long it
// took from its first rollout's start.
func (w *Window) Sent(took time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sent++
	w.task(took, true)
}

// Rejected counts a group that came to nothing, with a short and stable reason.
func (w *Window) Rejected(reason string, took time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, known := w.rejected[reason]; !known {
		w.reasons = append(w.reasons, reason)
	}
	w.rejected[reason]++
	w.task(took, false)
}

func (w *Window) task(took time.Duration, succeeded bool) {
	if took <= 0 {
		return // not known: rollouts of an earlier session
	}
	perf := w.config.Prefix + "_perf/"
	w.sample(perf+"task_duration", took.Seconds())
	if succeeded {
		w.sample(perf+"succeeded_task_duration", took.Seconds())
	} else {
		w.sample(perf+"failed_task_duration", took.Seconds())
	}
}

// WantsRows says how many rollouts of a group of the given size Group would keep, so
// that nobody makes texts that nobody reads.
func (w *Window) WantsRows(size int) int {
	switch {
	case w.config.Groups <= 0 || w.config.PerGroup == 0:
		return 0
	case w.config.PerGroup < 0:
		return size
	}
	return min(size, w.config.PerGroup)
}

// Group puts rollouts of a group into the table of rollouts.
func (w *Window) Group(rows []RolloutRow) {
	n := w.WantsRows(len(rows))
	if n == 0 {
		return
	}
	kept := make([]RolloutRow, n)
	for i, r := range rows[:n] {
		kept[i] = RolloutRow{Text: cut(r.Text, w.config.MaxText), Score: r.Score}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.groups = append(w.groups, kept); len(w.groups) > w.config.Groups {
		w.groups = slices.Delete(w.groups, 0, len(w.groups)-w.config.Groups)
	}
}

// Request counts an answered request to the server with a number, counted from 0: how
// long it took once it was its turn, repeats included, and how often it was sent.
func (w *Window) Request(server int, evaluation bool, took time.Duration, attempts int) {
	if server < 0 {
		return
	}
	kind := 0
	if evaluation {
		kind = 1
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.servers) <= server {
		s := &serverFigures{}
		for k := range s.times {
			s.times[k].size, s.attempts[k].size = w.config.Requests, w.config.Requests
		}
		w.servers = append(w.servers, s)
	}
	w.servers[server].times[kind].add(took.Seconds())
	w.servers[server].attempts[kind].add(float64(attempts))
}

// Handled returns how many groups were sent or rejected since the last Flush.
func (w *Window) Handled() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := w.sent
	for _, count := range w.rejected {
		n += count
	}
	return n
}

// Flush returns the figures since the last Flush and begins anew. The figures of
// servers go on: they are about the latest requests. docs/metrics.md describes them.
func (w *Window) Flush() ([]Metric, []Table) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var metrics []Metric
	prefix := w.config.Prefix + "/"
	if w.lengths.n > 0 {
		name := prefix + "completion_lengths"
		metrics = append(metrics, Metric{name, w.lengths.mean}, Metric{name + "_std", w.lengths.std()},
			Metric{name + "_max", w.lengths.largest}, Metric{name + "_min", w.lengths.least},
			Metric{name + "_p95", w.completions.percentile(0.95)})
		if w.config.MaxTokens > 0 {
			metrics = append(metrics, Metric{name + "_near_limit", w.completions.above(0.95 * float64(w.config.MaxTokens))})
		}
	}
	rejected := 0
	for _, count := range w.rejected {
		rejected += count
	}
	metrics = append(metrics, Metric{prefix + w.config.Sent, float64(w.sent)}, Metric{prefix + w.config.Rejected, float64(rejected)})
	for _, reason := range w.reasons {
		metrics = append(metrics, Metric{w.config.Prefix + "_window/rejected/" + reason, float64(w.rejected[reason])})
	}
	for _, name := range w.countOrder {
		metrics = append(metrics, Metric{name, w.counts[name]})
	}
	for _, name := range w.sampleOrder {
		metrics = append(metrics, w.samples[name].metrics(name)...)
	}
	var tables []Table
	if len(w.groups) > 0 {
		t := Table{Name: prefix + "rollouts", Columns: []string{"text", "score"}}
		for _, group := range w.groups {
			for _, r := range group {
				t.Rows = append(t.Rows, []Cell{TextCell(r.Text), NumberCell(r.Score)})
			}
		}
		tables = append(tables, t)
	}
	if w.prepend != "" {
		for i := range metrics {
			metrics[i].Name = w.prepend + "_" + metrics[i].Name
		}
		for i := range tables {
			tables[i].Name = w.prepend + "_" + tables[i].Name
		}
	}
	for i, s := range w.servers {
		metrics = append(metrics, s.metrics(fmt.Sprintf("server/server_%d_", i))...)
	}
	w.reset()
	return metrics, tables
}

func (s *serverFigures) metrics(prefix string) []Metric {
	var metrics []Metric
	for kind, infix := range [2]string{"", "eval_"} {
		if len(s.times[kind].values) == 0 {
			continue
		}
		d := s.times[kind].distribution()
		name := prefix + infix + "request_time"
		metrics = append(metrics, Metric{name + "_avg", d.mean}, Metric{name + "_std", d.std()}, Metric{name + "_99p", s.times[kind].percentile(0.99)})
	}
	if len(s.attempts[0].values) > 0 {
		d := s.attempts[0].distribution()
		metrics = append(metrics, Metric{prefix + "average_num_attempts", d.mean})
	}
	if values := s.attempts[1].values; len(values) > 0 {
		again := 0
		for _, v := range values {
			if v > 1 {
				again++
			}
		}
		metrics = append(metrics, Metric{prefix + "eval_retry_rate", float64(again) / float64(len(values))})
	}
	return metrics
}

// cut shortens a text to about size bytes by leaving out its middle, since what a
// rollout was asked stands at its beginning and what came of it at its end.
func cut(text string, size int) string {
	if len(text) <= size {
		return strings.Clone(text) // the row must not hold on to a whole conversation
	}
	head, tail := size/2, len(text)-(size-size/2)
	for head > 0 && !utf8.RuneStart(text[head]) {
		head--
	}
	for tail < len(text) && !utf8.RuneStart(text[tail]) {
		tail++
	}
	return fmt.Sprintf("%s\n[… %d bytes left out …]\n%s", text[:head], tail-head, text[tail:])
}
