package docker

import (
	"context"
	"sync"
)

// firstStarts is how many containers start at once before any has succeeded.
const firstStarts = 2

// starts limits how many containers are being started at once, apart from how many
// run. The limit begins low and grows by one with every success, so that the first
// wave of a run does not hit a cold engine all at once, and halves with a failure.
type starts struct {
	max int

	mu      sync.Mutex
	limit   int
	running int
	queue   []chan struct{} // closed when its waiter may go, in order
}

func newStarts(max int) *starts { return &starts{max: max, limit: min(firstStarts, max)} }

// acquire waits for a place.
func (s *starts) acquire(ctx context.Context) error {
	s.mu.Lock()
	if s.running < s.limit && len(s.queue) == 0 {
		s.running++
		s.mu.Unlock()
		return nil
	}
	turn := make(chan struct{})
	s.queue = append(s.queue, turn)
	s.mu.Unlock()
	select {
	case <-turn:
		return nil
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, t := range s.queue {
		if t == turn {
			s.queue = append(s.queue[:i], s.queue[i+1:]...)
			return context.Cause(ctx)
		}
	}
	s.running-- // the turn came at the same instant: pass it on
	s.admit()
	return context.Cause(ctx)
}

// release gives a place back and says whether the start went well.
func (s *starts) release(ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ok {
		s.limit = min(s.limit+1, s.max)
	} else {
		s.limit = max(s.limit/2, 1)
	}
	s.running--
	s.admit()
}

func (s *starts) admit() {
	for s.running < s.limit && len(s.queue) > 0 {
		close(s.queue[0])
		s.queue = s.queue[1:]
		s.running++
	}
}
