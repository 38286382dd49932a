package model

import (
	"slices"
	"time"
)

// poolState decides which server serves which request. It is a pure state
// machine: it holds no lock, starts nothing and is told the time.
//
// A server is healthy, or ejected until a point in time. After that point one
// request goes there as a probe; its end decides.
type poolState struct {
	config   PoolConfig
	members  []memberState
	anywhere waitQueue // requests that any server may serve
	sticky   affinities
	sequence uint64
	waiting  int
}

type memberState struct {
	weight   float64
	limit    int // requests in flight, 0 means no limit
	inFlight int
	bound    waitQueue // requests that wait for this server

	failures int           // infrastructure failures in a row
	ejected  bool          // until the time below and a good probe
	until    time.Time     // end of the cool-down
	cooldown time.Duration // its length
	probing  bool          // a probe is in flight
	reason   string        // why it was ejected

	requests, failed int64
}

// waiter is a request that waits for a slot. The pool learns the server from granted.
type waiter struct {
	affinity string
	tried    []bool // servers that must not be chosen; nil means none
	sequence uint64
	gone     bool // the request gave up
	granted  chan slot
}

// slot is the permission to send one request to a server.
type slot struct {
	member int
	probe  bool
}

// verdict is what the end of a request says about the server.
type verdict int

const (
	alive   verdict = iota // it answered, be it with a refusal of this request
	failing                // infrastructure failure
	unfit                  // it refuses all our requests: key, account, model or address
	unknown                // the request was cancelled
)

// acquire gives the request a slot, or queues it and returns false.
func (s *poolState) acquire(now time.Time, w *waiter) (slot, bool) {
	got, queue := s.place(now, w)
	if queue == nil {
		s.grant(w, got)
		return got, true
	}
	s.sequence++
	w.sequence = s.sequence
	w.granted = make(chan slot, 1)
	queue.push(w)
	s.waiting++
	return slot{}, false
}

// place chooses a server with a free slot for the request, or else the queue it belongs into.
func (s *poolState) place(now time.Time, w *waiter) (slot, *waitQueue) {
	if i, ok := s.sticky.get(w.affinity); ok && !w.excludes(i) && !s.members[i].ejected {
		if s.members[i].free() {
			return slot{member: i}, nil
		}
		return slot{}, &s.members[i].bound
	}
	best, usable := -1, -1
	for i := range s.members {
		m := &s.members[i]
		if w.excludes(i) || m.ejected && (m.probing || now.Before(m.until)) {
			continue
		}
		if usable < 0 || m.busier(&s.members[usable]) < 0 {
			usable = i
		}
		if m.free() && (best < 0 || m.busier(&s.members[best]) < 0) {
			best = i
		}
	}
	if best >= 0 {
		return slot{member: best, probe: s.members[best].ejected}, nil
	}
	if usable < 0 {
		// All are ejected: the one that comes back first is tried rather than
		// failing without having asked anyone.
		for i := range s.members {
			if !w.excludes(i) && (usable < 0 || s.members[i].until.Before(s.members[usable].until)) {
				usable = i
			}
		}
		if s.members[usable].free() {
			return slot{member: usable}, nil
		}
	}
	if w.tried != nil {
		return slot{}, &s.members[usable].bound // in the common queue it would hold up those behind it
	}
	return slot{}, &s.anywhere
}

func (w *waiter) excludes(i int) bool { return w.tried != nil && w.tried[i] }

func (m *memberState) free() bool { return m.limit == 0 || m.inFlight < m.limit }

// busier compares the load of two servers in proportion to their weights; equal
// loads are told apart by what they served so far, so that idle ones take turns.
func (m *memberState) busier(other *memberState) float64 {
	if d := float64(m.inFlight)/m.weight - float64(other.inFlight)/other.weight; d != 0 {
		return d
	}
	return float64(m.requests)/m.weight - float64(other.requests)/other.weight
}

func (s *poolState) grant(w *waiter, got slot) {
	m := &s.members[got.member]
	m.inFlight++
	m.requests++
	if got.probe {
		m.probing = true
	}
	s.sticky.set(w.affinity, got.member)
}

// abandon takes a waiting request out. The caller makes sure that it was not granted.
func (s *poolState) abandon(w *waiter) {
	w.gone = true
	s.waiting--
}

// release ends a request and serves those that wait.
func (s *poolState) release(now time.Time, got slot, w *waiter, v verdict, reason string, retryAfter time.Duration) {
	m := &s.members[got.member]
	m.inFlight--
	if got.probe {
		m.probing = false
	}
	switch v {
	case alive:
		m.failures, m.ejected, m.cooldown, m.reason = 0, false, 0, ""
	case failing, unfit:
		m.failed++
		m.failures++
		s.sticky.forget(w.affinity, got.member)
		base := s.config.Cooldown
		if v == unfit {
			base = max(base, s.config.MaxCooldown/5)
		}
		switch {
		case m.ejected && (got.probe || !now.Before(m.until)):
			s.eject(now, got.member, max(m.cooldown*2, base, retryAfter), reason)
		case !m.ejected && (v == unfit || m.failures >= s.config.MaxFailures):
			s.eject(now, got.member, max(base, retryAfter), reason)
		}
	case unknown:
	}
	s.dispatch(now)
}

func (s *poolState) eject(now time.Time, i int, cooldown time.Duration, reason string) {
	m := &s.members[i]
	m.ejected, m.reason = true, reason
	m.cooldown = min(cooldown, s.config.MaxCooldown)
	m.until = now.Add(m.cooldown)
	// What waits for this server goes elsewhere, in its old order.
	moved := m.bound.drain()
	for _, w := range moved {
		if got, queue := s.place(now, w); queue == nil {
			s.serve(w, got)
		} else {
			queue.insert(w)
		}
	}
}

func (s *poolState) serve(w *waiter, got slot) {
	s.waiting--
	s.grant(w, got)
	w.granted <- got // has room for one and is written once
}

// dispatch serves waiting requests in order of arrival as far as slots are free.
func (s *poolState) dispatch(now time.Time) {
	for s.waiting > 0 {
		var oldest *waiter
		var from *waitQueue
		var to slot
		consider := func(q *waitQueue) {
			w := q.peek()
			if w == nil || oldest != nil && oldest.sequence < w.sequence {
				return
			}
			if got, queue := s.place(now, w); queue == nil {
				oldest, from, to = w, q, got
			}
		}
		consider(&s.anywhere)
		for i := range s.members {
			if s.members[i].free() || s.members[i].ejected {
				consider(&s.members[i].bound)
			}
		}
		if oldest == nil {
			return
		}
		from.pop()
		s.serve(oldest, to)
	}
}

// nextReturn gives the earliest end of a cool-down that is still to come.
func (s *poolState) nextReturn(now time.Time) (time.Time, bool) {
	var next time.Time
	for i := range s.members {
		m := &s.members[i]
		if m.ejected && !m.probing && m.until.After(now) && (next.IsZero() || m.until.Before(next)) {
			next = m.until
		}
	}
	return next, !next.IsZero()
}

// waitQueue is a first-in, first-out queue whose waiters may leave early.
type waitQueue struct {
	list []*waiter
	head int
}

func (q *waitQueue) push(w *waiter) {
	if len(q.list) == cap(q.list) && len(q.list) >= 64 {
		q.compact()
	}
	q.list = append(q.list, w)
}

// insert puts a waiter at its place by order of arrival.
func (q *waitQueue) insert(w *waiter) {
	q.compact()
	at, _ := slices.BinarySearchFunc(q.list, w.sequence, func(other *waiter, sequence uint64) int {
		if other.sequence < sequence {
			return -1
		}
		return 1
	})
	q.list = slices.Insert(q.list, at, w)
}

func (q *waitQueue) peek() *waiter {
	for q.head < len(q.list) {
		if w := q.list[q.head]; !w.gone {
			return w
		}
		q.pop()
	}
	return nil
}

func (q *waitQueue) pop() {
	q.list[q.head] = nil
	if q.head++; q.head == len(q.list) {
		q.list, q.head = q.list[:0], 0
	}
}

// compact drops served and gone waiters.
func (q *waitQueue) compact() {
	kept := q.list[:0]
	for _, w := range q.list[q.head:] {
		if !w.gone {
			kept = append(kept, w)
		}
	}
	clear(q.list[len(kept):])
	q.list, q.head = kept, 0
}

func (q *waitQueue) drain() []*waiter {
	q.compact()
	drained := q.list
	q.list = nil
	return drained
}

func (q *waitQueue) len() int {
	n := 0
	for _, w := range q.list[q.head:] {
		if !w.gone {
			n++
		}
	}
	return n
}

// affinities remembers which server serves which rollout. It forgets the
// rollouts that were quiet longest: when the newer half is full it becomes the
// older one, so that memory stays bounded without anyone reporting ends.
type affinities struct {
	newer, older map[string]int
	half         int // size of one half, 0 means 65,536
}

func (a *affinities) get(key string) (int, bool) {
	if key == "" {
		return 0, false
	}
	if i, ok := a.newer[key]; ok {
		return i, true
	}
	i, ok := a.older[key]
	return i, ok
}

func (a *affinities) set(key string, member int) {
	if key == "" {
		return
	}
	half := a.half
	if half == 0 {
		half = 1 << 16
	}
	if a.newer == nil || len(a.newer) >= half {
		a.newer, a.older = make(map[string]int), a.newer
	}
	a.newer[key] = member
}

func (a *affinities) forget(key string, member int) {
	if i, ok := a.get(key); ok && i == member {
		delete(a.newer, key)
		delete(a.older, key)
	}
}
