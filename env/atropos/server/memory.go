package server

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"time"
)

// budget is memory that requests take while they are read. A part is reserved for one
// request at a time, which has all it may need: if all waited for each other, none
// would end.
type budget struct {
	reserve int64 // bytes, for the request that has it
	shared  int64 // bytes, for all others
	timer   *time.Timer

	mu       sync.Mutex
	free     int64 // of the shared part
	reserved bool  // a request has the reserve
	peak     int64 // bytes taken at once since the memory was last trimmed
	changed  chan struct{}
}

// trimDelay is how long all requests must be over before their memory goes back to
// the system.
const trimDelay = time.Second

// newBudget divides memory for requests of which each needs at most largest bytes.
func newBudget(bytes, largest int64) *budget {
	b := &budget{reserve: min(largest, bytes/4*3), changed: make(chan struct{})}
	b.shared = bytes - b.reserve
	b.free = b.shared
	b.timer = time.AfterFunc(time.Hour, b.trim)
	b.timer.Stop()
	return b
}

// take takes shared memory, or the reserve for a request that has taken some already,
// which it then gives back. Otherwise it returns what is closed when trying again may
// succeed.
func (b *budget) take(bytes, taken int64) (ok, reserved bool, changed <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case bytes <= b.free:
		b.free -= bytes
		ok = true
	case !b.reserved:
		b.reserved = true
		b.free += taken
		b.announce()
		ok, reserved = true, true
	default:
		return false, false, b.changed
	}
	b.peak = max(b.peak, b.used())
	return ok, reserved, nil
}

// used is how many bytes are taken. mu is held.
func (b *budget) used() int64 {
	used := b.shared - b.free
	if b.reserved {
		used += b.reserve
	}
	return used
}

func (b *budget) give(bytes int64, reserved bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.free += bytes
	if reserved {
		b.reserved = false
	}
	if b.used() == 0 && b.peak >= (b.shared+b.reserve)/8 {
		b.timer.Reset(trimDelay)
	}
	b.announce()
}

// announce wakes requests that wait. mu is held.
func (b *budget) announce() {
	close(b.changed)
	b.changed = make(chan struct{})
}

// trim gives the memory of large requests that are over back to the system, which the
// runtime would do minutes later.
func (b *budget) trim() {
	b.mu.Lock()
	idle := b.used() == 0
	if idle {
		b.peak = 0
	}
	b.mu.Unlock()
	if idle {
		debug.FreeOSMemory()
	}
}

// reservation is what one request has taken.
type reservation struct {
	server   *Server
	taken    int64 // of the shared memory
	reserved bool  // and the reserve, from then on
}

// Posts are held as they came, checked, and packed: see perByte times their length.
const perByte = 3

// grow takes memory for a body of so many bytes. It waits for others to give theirs
// back, within the server's patience.
func (m *reservation) grow(ctx context.Context, to int64) error {
	config := &m.server.config
	more := min(to*perByte, config.MaxMemory) - m.taken
	var deadline <-chan time.Time
	for more > 0 && !m.reserved {
		ok, reserved, changed := m.server.memory.take(more, m.taken)
		if ok {
			m.reserved = reserved
			m.taken += more
			if reserved {
				m.taken = 0
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
	m.server.memory.give(m.taken, m.reserved)
	m.taken, m.reserved = 0, false
}
