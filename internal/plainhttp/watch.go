package plainhttp

import (
	"sync"
	"time"
)

// watch ends what waits for a connection when its time is over. Its timer is not stopped
// after each call: it runs on, and finds that there is nothing to end, or when there is.
type watch struct {
	end func() // what to do then

	mu       sync.Mutex
	timer    *time.Timer
	rings    time.Time // when the timer does; zero while it doesn't run
	deadline time.Time // zero while there is nothing to end
	why      error
	ended    error
	stopped  bool
}

// until sets the deadline, and the error that over returns if it passes. A zero deadline
// is none.
func (w *watch) until(deadline time.Time, why error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.deadline, w.why = deadline, why
	if deadline.IsZero() || w.stopped || !w.rings.IsZero() && !w.rings.After(deadline) {
		return
	}
	w.set(deadline)
}

// set starts the timer. mu is held.
func (w *watch) set(at time.Time) {
	w.rings = at
	if w.timer == nil {
		w.timer = time.AfterFunc(time.Until(at), w.ring)
		return
	}
	w.timer.Reset(time.Until(at))
}

func (w *watch) ring() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rings = time.Time{}
	switch {
	case w.deadline.IsZero() || w.stopped:
	case time.Until(w.deadline) > 0:
		w.set(w.deadline)
	case w.ended == nil:
		w.ended = w.why
		w.end()
	}
}

// over ends the wait, and returns why if the deadline has passed before.
func (w *watch) over() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.deadline = time.Time{}
	return w.ended
}

// stop stops the timer for good.
func (w *watch) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stopped = true
	if w.timer != nil {
		w.timer.Stop()
	}
}
