package sandbox

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sync/errgroup"
)

// Register is what a Provider knows of its sandboxes: which are open, whether more
// may be made, and who is making one. The zero value is ready; its methods may be
// called from many goroutines at once.
type Register[S interface {
	comparable
	Close(ctx context.Context) error
}] struct {
	mu     sync.Mutex
	closed bool
	open   map[S]struct{}
	inside sync.WaitGroup // between Enter and leave
}

// Enter is called by what needs the provider open until leave is called, such as
// making a sandbox. Once Close has been called it wraps ErrClosed.
func (r *Register[S]) Enter() (leave func(), err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, fmt.Errorf("the provider: %w", ErrClosed)
	}
	r.inside.Add(1)
	return r.inside.Done, nil
}

// Keep notes a sandbox that was made after Enter. Where Close was called meanwhile it
// closes the sandbox and wraps ErrClosed.
func (r *Register[S]) Keep(ctx context.Context, s S) error {
	r.mu.Lock()
	closed := r.closed
	if !closed {
		if r.open == nil {
			r.open = map[S]struct{}{}
		}
		r.open[s] = struct{}{}
	}
	r.mu.Unlock()
	if closed {
		return errors.Join(fmt.Errorf("the provider: %w", ErrClosed), s.Close(ctx))
	}
	return nil
}

// Forget removes a sandbox that is closed; one that is not there is fine.
func (r *Register[S]) Forget(s S) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.open, s)
}

// Close closes the sandboxes that are open, so many at once, and returns when
// everybody who entered has left. Only the first call does, and reports true.
func (r *Register[S]) Close(ctx context.Context, atOnce int) (first bool, err error) {
	r.mu.Lock()
	first = !r.closed
	r.closed = true
	left := make([]S, 0, len(r.open))
	for s := range r.open {
		left = append(left, s)
	}
	r.mu.Unlock()
	if !first {
		return false, nil
	}
	var g errgroup.Group
	g.SetLimit(atOnce)
	errs := make([]error, len(left))
	for i, s := range left {
		g.Go(func() error { errs[i] = s.Close(ctx); return nil })
	}
	_ = g.Wait() // the functions keep their errors
	r.inside.Wait()
	return true, errors.Join(errs...)
}
