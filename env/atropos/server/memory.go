package server

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// budget is memory that requests take while they are read. One request at a time
// may take more than there is: if all waited for each other, none would end.
type budget struct {
	mu       sync.Mutex
	free     int64
	overdraw bool          // somebody does
	changed  chan struct{} // closed and replaced when some is given back
}

func newBudget(bytes int64) *budget { return &budget{free: bytes, changed: make(chan struct{})} }

// take takes memory, or returns what is closed when trying again may succeed.
func (b *budget) take(bytes int64) (ok, overdrawn bool, changed <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case bytes <= b.free:
		b.free -= bytes
		return true, false, nil
	case !b.overdraw:
		b.overdraw = true
		return true, true, nil
	}
	return false, false, b.changed
}

func (b *budget) give(bytes int64, overdrawn bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.free += bytes
	if overdrawn {
		b.overdraw = false
	}
	close(b.changed)
	b.changed = make(chan struct{})
}

// reservation is what one request has taken.
type reservation struct {
	server    *Server
	taken     int64
	overdrawn bool // and is not counted from then on
}

// Posts are held as they came, checked, and packed: see perByte times their length.
const perByte = 3

// grow takes memory for a body of so many bytes. It waits for others to give theirs
// back, within the server's patience.
func (m *reservation) grow(ctx context.Context, to int64) error {
	config := &m.server.config
	more := min(to*perByte, config.MaxMemory) - m.taken
	var deadline <-chan time.Time
	for more > 0 && !m.overdrawn {
		ok, overdrawn, changed := m.server.memory.take(more)
		if ok {
			m.overdrawn = overdrawn
			if !overdrawn {
				m.taken += more
			}
			return nil
		}
		if deadline == nil {
			timer := time.NewTimer(max(0, config.Patience))
			defer timer.Stop()
			deadline = timer.C
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		case <-deadline:
			m.server.counters.refused.Add(1)
			return &statusError{code: 503, retry: time.Second,
				detail: fmt.Sprintf("the requests being read use all %d bytes of memory for them: try again", config.MaxMemory)}
		}
	}
	return nil
}

func (m *reservation) release() {
	m.server.memory.give(m.taken, m.overdrawn)
	m.taken, m.overdrawn = 0, false
}
