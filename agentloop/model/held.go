package model

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// Held tells how long the requests of one caller were held back by the rates of
// servers, as far as a Pool sent them. Its methods may be called at any time.
type Held struct {
	outer *Held // of the context around

	mu      sync.Mutex
	total   time.Duration
	waiting int // requests that wait in a pool
	pool    *Pool
	began   time.Duration // what the pool's clock showed when the first of them came
	onLeave func()
}

type heldKey struct{}

// WithHeld returns a context whose requests are measured.
func WithHeld(ctx context.Context) (context.Context, *Held) {
	h := &Held{outer: heldIn(ctx)}
	return context.WithValue(ctx, heldKey{}, h), h
}

func heldIn(ctx context.Context) *Held {
	h, _ := ctx.Value(heldKey{}).(*Held)
	return h
}

// Total returns for how long requests were held back so far; several at a time
// count once. Waiting for other requests to end, within the configured limit of
// requests at once, doesn't count.
func (h *Held) Total() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.waiting == 0 {
		return h.total
	}
	return h.total + h.pool.heldSoFar() - h.began
}

// enter and leave enclose the wait of one request. A nil Held measures nothing.
func (h *Held) enter(p *Pool) {
	if h == nil {
		return
	}
	h.outer.enter(p)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.waiting++; h.waiting == 1 {
		h.pool, h.began = p, p.heldSoFar()
	}
}

func (h *Held) leave() {
	if h == nil {
		return
	}
	h.outer.leave()
	h.mu.Lock()
	if h.waiting--; h.waiting == 0 {
		h.total += h.pool.heldSoFar() - h.began
		h.pool = nil
	}
	h.mu.Unlock()
	if h.onLeave != nil {
		h.onLeave()
	}
}

// WithTimeout is context.WithTimeoutCause with a clock that stands still while requests
// of this context are held back by the rates of servers.
func WithTimeout(ctx context.Context, limit time.Duration, cause error) (context.Context, *Held, context.CancelFunc) {
	base, cancel := context.WithCancelCause(ctx)
	measured, held := WithHeld(base)
	t := &timeoutContext{Context: measured, held: held, started: time.Now(), limit: limit, done: make(chan struct{})}
	context.AfterFunc(base, func() { close(t.done) })
	t.mu.Lock()
	defer t.mu.Unlock()
	held.onLeave = t.adjust
	t.timer = time.AfterFunc(limit, func() {
		if left := t.left(); left > 0 {
			// A request is being held back, or was a moment ago; its end sets the exact time.
			t.rearm(max(left, leastRecheck))
			return
		}
		t.expired.Store(true)
		cancel(cause)
	})
	return t, held, func() {
		cancel(nil)
		t.mu.Lock()
		defer t.mu.Unlock()
		t.timer.Stop()
	}
}

// leastRecheck keeps a timer from running hot while its clock stands still.
const leastRecheck = 20 * time.Millisecond

// timeoutContext has a channel of its own, so that contexts made from it end with its
// error, and not with that of the context it wraps.
type timeoutContext struct {
	context.Context
	held    *Held
	started time.Time
	limit   time.Duration
	expired atomic.Bool
	done    chan struct{}

	mu    sync.Mutex
	timer *time.Timer
}

// left returns how much of the limit is left.
func (t *timeoutContext) left() time.Duration {
	return t.limit - (time.Since(t.started) - t.held.Total())
}

func (t *timeoutContext) adjust() { t.rearm(t.left()) }

func (t *timeoutContext) rearm(left time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.Context.Err() == nil {
		t.timer.Reset(left)
	}
}

// Done is closed at the end of the limit or of the context around.
func (t *timeoutContext) Done() <-chan struct{} { return t.done }

// Err returns context.DeadlineExceeded when the limit has run out.
func (t *timeoutContext) Err() error {
	err := t.Context.Err()
	if err != nil && t.expired.Load() {
		return context.DeadlineExceeded
	}
	return err
}

// Deadline returns when the limit runs out if nothing is held back from now on.
func (t *timeoutContext) Deadline() (time.Time, bool) {
	own := t.started.Add(t.limit + t.held.Total())
	if outer, ok := t.Context.Deadline(); ok && outer.Before(own) {
		return outer, true
	}
	return own, true
}

// AfterFunc lets contexts made from this one end with it without a goroutine each.
func (t *timeoutContext) AfterFunc(f func()) (stop func() bool) {
	return context.AfterFunc(t.Context, f)
}
