package model

import "time"

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
	metered  bool // a server has limits for tokens, so that the size of requests matters

	// refused is when a server first refused a request for its rate since the last
	// good answer of any; zero when none did.
	refused time.Time
	refusal string // what it said
	held    heldClock
}

type memberState struct {
	weight   float64
	limit    int // requests in flight, 0 means no limit
	part     int // of it that may be used, 0 means all; see Pool.SetShare
	inFlight int
	bound    waitQueue // requests that wait for this server
	throttle throttle

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
	size     size
	tried    []bool // servers that must not be chosen; nil means none
	sequence uint64 // order of arrival; one that was set before keeps its place
	gone     bool   // the request gave up
	granted  chan slot
}

// slot is the permission to send one request to a server.
type slot struct {
	member int
	probe  bool
	epoch  uint64  // of the server's throttle
	tokens float64 // what was taken from its bucket
}

// verdict is what the end of a request says about the server.
type verdict int

const (
	alive   verdict = iota // it answered, be it with a refusal of this request
	failing                // infrastructure failure
	limited                // it refuses the request for its rate
	unfit                  // it refuses all our requests: key, account, model or address
	unknown                // the request was cancelled
)

// ended is how a request ended.
type ended struct {
	verdict            verdict
	reason             string        // of a failure
	after              time.Duration // for which the server asks to be left alone
	answered           bool          // with a good answer, whose tokens are:
	prompt, completion int64
}

// acquire gives the request a slot, or queues it and returns false.
func (s *poolState) acquire(now time.Time, w *waiter) (slot, bool) {
	if s.waiting > 0 {
		s.dispatch(now) // what time alone has freed belongs to those that wait
	}
	got, queue := s.place(now, w)
	if queue == nil && s.waiting > 0 {
		queue = s.ahead(w, got.member)
	}
	if queue == nil {
		s.grant(now, w, got)
		return got.taken(w, &s.members[got.member]), true
	}
	w.granted = make(chan slot, 1)
	if w.sequence == 0 {
		s.sequence++
		w.sequence = s.sequence
		queue.push(w)
	} else {
		queue.insert(w)
	}
	s.waiting++
	s.mark(now)
	return slot{}, false
}

// ahead returns the queue in which others wait for the rate of a server, before whom
// a request must not be served; nil when there are none. Their requests may be larger.
func (s *poolState) ahead(w *waiter, member int) *waitQueue {
	m := &s.members[member]
	if m.throttle.idle() {
		return nil
	}
	for _, q := range []*waitQueue{&m.bound, &s.anywhere} {
		if first := q.peek(); first != nil && !first.excludes(member) && (w.sequence == 0 || first.sequence < w.sequence) {
			if w.tried != nil {
				return &m.bound // as place does
			}
			return q
		}
	}
	return nil
}

// place chooses a server with a free slot for the request, or else the queue it belongs into.
func (s *poolState) place(now time.Time, w *waiter) (slot, *waitQueue) {
	if i, ok := s.sticky.get(w.affinity); ok && !w.excludes(i) && !s.members[i].ejected {
		m := &s.members[i]
		if m.free(now, w) {
			return slot{member: i}, nil
		}
		if len(s.members) == 1 || !m.throttle.paused(now) {
			return slot{}, &m.bound
		}
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
		if m.free(now, w) && (best < 0 || m.busier(&s.members[best]) < 0) {
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
		if s.members[usable].free(now, w) {
			return slot{member: usable}, nil
		}
	}
	if w.tried != nil {
		return slot{}, &s.members[usable].bound // in the common queue it would hold up those behind it
	}
	return slot{}, &s.anywhere
}

func (w *waiter) excludes(i int) bool { return w.tried != nil && w.tried[i] }

// room says that the server may be sent another request as far as its configured
// limit goes.
func (m *memberState) room() bool {
	return (m.limit == 0 || m.inFlight < m.limit) && (m.part == 0 || m.inFlight < m.part)
}

func (m *memberState) free(now time.Time, w *waiter) bool {
	return m.room() && m.throttle.wait(now, m.throttle.cost.tokens(w.size)) == 0
}

// busier compares the load of two servers in proportion to their weights; equal
// loads are told apart by what they served so far, so that idle ones take turns.
func (m *memberState) busier(other *memberState) float64 {
	if d := float64(m.inFlight)/m.weight - float64(other.inFlight)/other.weight; d != 0 {
		return d
	}
	return float64(m.requests)/m.weight - float64(other.requests)/other.weight
}

// taken completes a slot that is granted now.
func (g slot) taken(w *waiter, m *memberState) slot {
	g.epoch, g.tokens = m.throttle.epoch, m.throttle.cost.tokens(w.size)
	return g
}

func (s *poolState) grant(now time.Time, w *waiter, got slot) {
	m := &s.members[got.member]
	m.throttle.grant(now, m.throttle.cost.tokens(w.size))
	m.inFlight++
	m.requests++
	if got.probe {
		m.probing = true
	}
	s.sticky.set(w.affinity, got.member)
}

// abandon takes a waiting request out. The caller makes sure that it was not granted.
func (s *poolState) abandon(now time.Time, w *waiter) {
	w.gone = true
	s.waiting--
	s.dispatch(now) // it may have kept smaller requests behind it waiting
}

// release ends a request and serves those that wait. It returns whether the request was
// refused for a rate that concerns no other.
func (s *poolState) release(now time.Time, got slot, w *waiter, e ended) (alone bool) {
	m := &s.members[got.member]
	m.inFlight--
	if got.probe {
		m.probing = false
	}
	if e.verdict != limited {
		m.throttle.end()
	}
	switch e.verdict {
	case alive:
		m.failures, m.ejected, m.cooldown, m.reason = 0, false, 0, ""
	case limited:
		m.failures, m.ejected, m.cooldown, m.reason = 0, false, 0, ""
		if s.refused.IsZero() {
			s.refused = now
		}
		s.refusal = e.reason
		m.throttle.correct(got.tokens, 0)
		if alone = m.throttle.refuse(now, got.epoch, e.after); !alone && len(s.members) > 1 {
			s.scatter(now, got.member)
		}
	case failing, unfit:
		m.failed++
		m.failures++
		s.sticky.forget(w.affinity, got.member)
		base := s.config.Cooldown
		if e.verdict == unfit {
			base = max(base, s.config.MaxCooldown/5)
		}
		switch {
		case m.ejected && (got.probe || !now.Before(m.until)):
			s.eject(now, got.member, max(m.cooldown*2, base, e.after), e.reason)
		case !m.ejected && (e.verdict == unfit || m.failures >= s.config.MaxFailures):
			s.eject(now, got.member, max(base, e.after), e.reason)
		}
	case unknown:
	}
	if e.answered {
		s.refused = time.Time{}
		m.throttle.succeed()
		if n := e.prompt + e.completion; n > 0 {
			m.throttle.cost.learn(w.size, e.prompt, e.completion)
			m.throttle.correct(got.tokens, float64(n))
		}
	}
	s.dispatch(now)
	return alone
}

func (s *poolState) eject(now time.Time, i int, cooldown time.Duration, reason string) {
	m := &s.members[i]
	m.ejected, m.reason = true, reason
	m.cooldown = min(cooldown, s.config.MaxCooldown)
	m.until = now.Add(m.cooldown)
	s.scatter(now, i)
}

// scatter sends what waits for a server elsewhere, in its old order.
func (s *poolState) scatter(now time.Time, i int) {
	moved := s.members[i].bound.drain()
	for _, w := range moved {
		if got, queue := s.place(now, w); queue == nil {
			s.serve(now, w, got)
		} else {
			queue.insert(w)
		}
	}
}

func (s *poolState) serve(now time.Time, w *waiter, got slot) {
	s.waiting--
	s.grant(now, w, got)
	w.granted <- got.taken(w, &s.members[got.member]) // has room for one and is written once
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
			if s.members[i].room() || s.members[i].ejected {
				consider(&s.members[i].bound)
			}
		}
		if oldest == nil {
			break
		}
		from.pop()
		s.serve(now, oldest, to)
	}
	s.mark(now)
}

// nextReturn gives the earliest moment at which time alone frees a server: the end of a
// cool-down, or of a wait for its rate.
func (s *poolState) nextReturn(now time.Time) (time.Time, bool) {
	var next time.Time
	sooner := func(at time.Time) {
		if at.After(now) && (next.IsZero() || at.Before(next)) {
			next = at
		}
	}
	for i := range s.members {
		m := &s.members[i]
		if m.ejected && !m.probing {
			sooner(m.until)
		}
		if wait, ok := s.heldBy(now, i); ok {
			sooner(now.Add(wait))
		}
	}
	return next, !next.IsZero()
}

// heldBy returns whether the rate of a server holds back a request that could be sent
// there otherwise, and how long if none that is in flight ends before.
func (s *poolState) heldBy(now time.Time, i int) (time.Duration, bool) {
	m := &s.members[i]
	if m.throttle.idle() || !m.room() {
		return 0, false
	}
	wait, held := time.Duration(0), false
	for j := -1; j < len(s.members); j++ {
		q := &s.anywhere
		if j >= 0 {
			q = &s.members[j].bound
		}
		w := q.peek()
		if w == nil || w.excludes(i) {
			continue
		}
		if j >= 0 && j != i {
			// A rollout may have moved to this server while an earlier request of it waits.
			if at, ok := s.sticky.get(w.affinity); !ok || at != i {
				continue
			}
		}
		d := m.throttle.wait(now, m.throttle.cost.tokens(w.size))
		if d == 0 {
			continue
		}
		if !held || d < wait {
			wait = d
		}
		held = true
	}
	return wait, held
}

// mark lets the clock of held-back requests run or stand still from now on.
func (s *poolState) mark(now time.Time) {
	holding := false
	for i := range s.members {
		if s.waiting == 0 {
			break
		}
		if _, holding = s.heldBy(now, i); holding {
			break
		}
	}
	s.held.set(now, holding)
}

// heldClock runs while requests are held back.
type heldClock struct {
	total time.Duration
	since time.Time // zero while it stands still
}

func (c *heldClock) set(now time.Time, running bool) {
	switch {
	case running && c.since.IsZero():
		c.since = now
	case !running && !c.since.IsZero():
		c.total += now.Sub(c.since)
		c.since = time.Time{}
	}
}

func (c *heldClock) read(now time.Time) time.Duration {
	if c.since.IsZero() {
		return c.total
	}
	return c.total + now.Sub(c.since)
}
