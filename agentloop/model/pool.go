package model

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// PoolConfig tunes how a pool treats failing servers; zero values give the defaults.
type PoolConfig struct {
	MaxFailures int           // infrastructure failures in a row before a server is ejected; 0 means 5
	Cooldown    time.Duration // first ejection; doubles with every failed probe; 0 means 5 s
	MaxCooldown time.Duration // longest ejection; 0 means 5 minutes
}

// Member is one server of a pool.
type Member struct {
	Client        Client
	Name          string  // for messages and Snapshot, for example the base URL
	Weight        float64 // share of the load; 0 means 1
	MaxConcurrent int     // requests in flight; 0 means DefaultMaxConcurrent, negative no limit
	Rates         Rates   // what may be sent per minute
}

// Pool is a Client over several servers (or one, for its limit). A request goes
// to the server with the fewest requests in flight for its weight; the requests
// of one Affinity stay on one server until it fails them. Requests above a
// server's limit wait in order of arrival.
//
// A server that refuses requests for its rate (429, or 503 with Retry-After) is left
// alone as long as it asks, and gets fewer requests at once, at the pace at which it
// took them before; both grow again while it refuses none. Others wait or go to other
// servers meanwhile. Under Retry the refused request waits with them, at its old place.
// While the server takes most requests, a refused one waits alone (RefusalsAdapt).
//
// A server that fails MaxFailures times in a row is left out for a while and
// then probed with one request. One that refuses everything (key, account,
// model or address) is left out at once and the request tries the others.
type Pool struct {
	members []Member

	mu    sync.Mutex
	state poolState
	timer *time.Timer // serves waiting requests when a cool-down or a wait for a rate ends

	waited time.Duration // because of rates, added up over the requests
}

// NewPool returns a pool over the members.
func NewPool(config PoolConfig, members ...Member) (*Pool, error) {
	if len(members) == 0 {
		return nil, errors.New("a pool of model servers needs at least one server")
	}
	if config.MaxFailures <= 0 {
		config.MaxFailures = 5
	}
	if config.Cooldown <= 0 {
		config.Cooldown = 5 * time.Second
	}
	if config.MaxCooldown <= 0 {
		config.MaxCooldown = 5 * time.Minute
	}
	p := &Pool{members: slices.Clone(members), state: poolState{config: config}}
	for i, m := range members {
		if m.Client == nil {
			return nil, fmt.Errorf("pool member %d (%s) has no client", i+1, m.Name)
		}
		if err := m.Rates.OnRefusal.check(); err != nil {
			return nil, fmt.Errorf("pool member %d (%s): %w", i+1, m.Name, err)
		}
		if !(m.Rates.RequestsPerMinute >= 0) || !(m.Rates.TokensPerMinute >= 0) {
			return nil, fmt.Errorf("pool member %d (%s): a limit per minute is negative or no number", i+1, m.Name)
		}
		state := memberState{weight: m.Weight, limit: m.MaxConcurrent}
		switch {
		case m.Weight == 0:
			state.weight = 1
		case !(m.Weight > 0):
			return nil, fmt.Errorf("pool member %d (%s): weight %v is not a positive number", i+1, m.Name, m.Weight)
		}
		switch {
		case m.MaxConcurrent == 0:
			state.limit = DefaultMaxConcurrent
		case m.MaxConcurrent < 0:
			state.limit = 0
		}
		state.throttle = newThrottle(m.Rates, state.limit)
		p.state.metered = p.state.metered || m.Rates.TokensPerMinute > 0
		p.state.members = append(p.state.members, state)
	}
	return p, nil
}

// ForServers returns a pool of chat clients that share one transport, unless a
// server brings its own. All problems of all servers are reported at once.
func ForServers(servers []Server, config PoolConfig) (*Pool, error) {
	return ForClients(servers, config, func(s Server) (Client, error) { return NewChat(s) })
}

// ForClients is ForServers with clients of any kind, which connect makes.
func ForClients(servers []Server, config PoolConfig, connect func(Server) (Client, error)) (*Pool, error) {
	shared := NewTransport(Limits{})
	var members []Member
	var problems []error
	for _, s := range servers {
		if s.Transport == nil {
			s.Transport = shared
		}
		client, err := connect(s)
		if err != nil {
			problems = append(problems, err)
			continue
		}
		members = append(members, Member{Client: &metered{client, s.Price}, Name: displayURL(s.BaseURL), Weight: s.Weight, MaxConcurrent: s.MaxConcurrent, Rates: s.Rates})
	}
	if len(problems) > 0 {
		return nil, errors.Join(problems...)
	}
	return NewPool(config, members...)
}

// CloseIdleConnections closes those of all members.
func (p *Pool) CloseIdleConnections() {
	for _, m := range p.members {
		closeIdle(m.Client)
	}
}

// Complete sends the request to one server, or to one after the other while they
// refuse everything. Time spent waiting for a slot is added to Response.Wait.
func (p *Pool) Complete(ctx context.Context, req *Request) (*Response, error) {
	return p.completeAgain(ctx, req, &ticket{})
}

// ticket is what a request keeps from one attempt to the next.
type ticket struct {
	began    time.Time     // when it came first
	place    uint64        // in the order of arrival, 0 when it never waited
	patience time.Duration // see acquire; 0 is endless
	alone    bool          // the last refusal for a rate concerned this request alone
}

func (p *Pool) completeAgain(ctx context.Context, req *Request, t *ticket) (*Response, error) {
	w := &waiter{affinity: req.Affinity, sequence: t.place}
	if p.state.metered {
		w.size = sizeOf(req)
	}
	var waited time.Duration
	for attempt := 1; ; attempt++ {
		began := time.Now()
		got, err := p.acquire(ctx, w, t)
		t.place = w.sequence
		if err != nil {
			return nil, err
		}
		waited += time.Since(began)
		resp, alone, err := p.send(ctx, req, w, got)
		t.alone = alone
		if err == nil {
			resp.Attempts += attempt - 1
			resp.Wait += waited
			return resp, nil
		}
		if v, _ := judge(err); v != unfit || attempt == len(p.members) {
			return nil, err
		}
		if w.tried == nil {
			w.tried = make([]bool, len(p.members))
		}
		w.tried[got.member] = true
	}
}

// sizeOf measures a request for the estimate of its tokens.
func sizeOf(req *Request) size {
	s := size{maxTokens: req.MaxTokens, tokens: len(req.Prompt)}
	if len(req.Prompt) > 0 {
		return s
	}
	for _, m := range req.Messages {
		s.bytes += len(m.JSON())
	}
	if req.Tools.Len() > 0 {
		s.bytes += len(req.Tools.JSON())
	}
	return s
}

// send runs one request and gives the slot back, also when the client panics.
func (p *Pool) send(ctx context.Context, req *Request, w *waiter, got slot) (resp *Response, alone bool, err error) {
	e := ended{verdict: unknown}
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		alone = p.state.release(time.Now(), got, w, e)
		p.arm()
	}()
	resp, err = p.members[got.member].Client.Complete(ctx, req)
	verdict, failure := judge(err)
	e.verdict = verdict
	switch {
	case failure != nil:
		e.reason, e.after = failure.Kind.Summary()+": "+failure.Message, failure.RetryAfter
	case err == nil:
		e.answered, e.prompt, e.completion = true, resp.Usage.PromptTokens, resp.Usage.CompletionTokens
	}
	return resp, alone, err
}

// judge says what the end of a request means for the server.
func judge(err error) (verdict, *Error) {
	if err == nil {
		return alive, nil
	}
	var failure *Error
	switch {
	case !errors.As(err, &failure):
		return unknown, nil
	case failure.Kind == KindCancelled:
		return unknown, failure
	case failure.limits():
		return limited, failure
	case failure.Fatal():
		return unfit, failure
	case failure.Retryable():
		return failing, failure
	}
	return alive, failure
}

// acquire waits for a slot. While servers refuse requests for their rate and not one is
// answered, it waits no longer than the patience of the ticket, unless that is 0.
func (p *Pool) acquire(ctx context.Context, w *waiter, t *ticket) (slot, error) {
	p.mu.Lock()
	if got, ok := p.state.acquire(time.Now(), w); ok {
		p.mu.Unlock()
		return got, nil
	}
	p.arm()
	held := p.state.held.read(time.Now())
	p.mu.Unlock()
	timing := heldIn(ctx)
	timing.enter(p)
	defer timing.leave()
	var expired <-chan time.Time
	if t.patience > 0 {
		left, _ := p.hopeless(t.began, t.patience)
		timer := time.NewTimer(left)
		defer timer.Stop()
		expired = timer.C
		for {
			select {
			case got := <-w.granted:
				p.note(held)
				return got, nil
			case <-ctx.Done():
				return p.leave(w, held, &Error{Kind: KindCancelled, Err: ctx.Err(), Message: ctx.Err().Error()})
			case <-expired:
				left, failure := p.hopeless(t.began, t.patience)
				if failure != nil {
					return p.leave(w, held, failure)
				}
				timer.Reset(left)
			}
		}
	}
	select {
	case got := <-w.granted:
		p.note(held)
		return got, nil
	case <-ctx.Done():
		return p.leave(w, held, &Error{Kind: KindCancelled, Err: ctx.Err(), Message: ctx.Err().Error()})
	}
}

// hopeless returns an error when a request that came then has waited for so long
// while servers refused everything, and else when to ask again.
func (p *Pool) hopeless(since time.Time, patience time.Duration) (time.Duration, *Error) {
	now := time.Now()
	p.mu.Lock()
	refused, why := p.state.refused, p.state.refusal
	p.mu.Unlock()
	if refused.IsZero() {
		return patience, nil
	}
	if refused.After(since) {
		since = refused
	}
	if left := patience - now.Sub(since); left > 0 {
		return left, nil
	}
	return 0, &Error{
		Kind: KindRateLimit, permanent: true, Hint: "is a quota used up? max_retry_time says how long is waited",
		Message: fmt.Sprintf("no request was let through for %s; the last was told: %s", now.Sub(since).Round(time.Second), why),
	}
}

// leave takes a request that is not sent any more out of the queues.
func (p *Pool) leave(w *waiter, held time.Duration, why *Error) (slot, error) {
	why.Request = "wait for a free model server"
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	p.waited += p.state.held.read(now) - held
	select {
	case got := <-w.granted: // the slot came at the same moment: give it on
		p.state.release(now, got, w, ended{verdict: unknown})
	default:
		p.state.abandon(now, w)
	}
	p.arm()
	return slot{}, why
}

// note adds what a request waited because of rates.
func (p *Pool) note(held time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waited += p.state.held.read(time.Now()) - held
}

// refusedSince returns when a server first refused a request for its rate since the
// last good answer; zero when none did.
func (p *Pool) refusedSince() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.state.refused
}

// pauseLeft returns when the first of the servers that have not failed may be asked
// again; 0 is now.
func (p *Pool) pauseLeft() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	least := time.Duration(-1)
	for i := range p.state.members {
		m := &p.state.members[i]
		if left := max(0, m.throttle.until.Sub(now)); !m.ejected && (least < 0 || left < least) {
			least = left
		}
	}
	return max(0, least)
}

// heldSoFar returns for how long requests were held back in all.
func (p *Pool) heldSoFar() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.state.held.read(time.Now())
}

// arm sets the timer that serves waiting requests when an ejected server may be
// probed, or its rate allows another one: no request need end at that moment.
func (p *Pool) arm() {
	if p.state.waiting == 0 {
		return
	}
	now := time.Now()
	next, ok := p.state.nextReturn(now)
	if !ok {
		return
	}
	if p.timer == nil {
		p.timer = time.AfterFunc(next.Sub(now), p.wake)
		return
	}
	p.timer.Reset(next.Sub(now))
}

func (p *Pool) wake() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.state.dispatch(time.Now())
	p.arm()
}

// MemberStatus is the state of one server of a pool at one moment.
type MemberStatus struct {
	Name          string
	Weight        float64
	MaxConcurrent int // 0 means no limit
	InFlight      int
	Waiting       int           // requests that wait for this server because of their Affinity
	Requests      int64         // sent so far
	Failed        int64         // of these, failures of the server
	Ejected       bool          // left out until ReturnIn is over and a probe succeeds
	ReturnIn      time.Duration // 0 when a probe is due or in flight
	Reason        string        // why it was ejected

	AtOnce   int           // requests in flight that refusals for its rate have left of MaxConcurrent; 0 means all
	Before   int           // requests in flight when it last refused one
	Refused  int64         // requests it refused for its rate
	PausedIn time.Duration // end of the pause that it asked for, 0 when there is none
}

// RateStatus says how far the rates of its servers hold a pool back.
type RateStatus struct {
	Waiting int           // requests that wait because of a rate now
	NextIn  time.Duration // when the next one may go; 0 when that depends on others
	AtOnce  int           // requests that may be in flight after refusals; 0 when there is no such limit
	Before  int           // requests in flight before the refusals that brought about AtOnce
	Refused int64         // requests refused so far (429, or 503 with Retry-After)
	Held    time.Duration // for how long requests were held back so far
	Waited  time.Duration // the same added up over the requests that waited
}

// Rates returns how far rates hold the pool back.
func (p *Pool) Rates() RateStatus {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	status := RateStatus{Held: p.state.held.read(now), Waited: p.waited}
	next, cut := time.Duration(-1), false
	for i := range p.state.members {
		m := &p.state.members[i]
		t := &m.throttle
		status.Refused += t.refusals
		if wait, held := p.state.heldBy(now, i); held {
			status.Waiting = p.state.waiting
			if next < 0 || wait < next {
				next = wait
			}
		}
		atOnce, before := m.limit, m.limit
		if t.window > 0 && t.window < t.before {
			atOnce, before, cut = t.window, t.before, true
		}
		status.AtOnce, status.Before = status.AtOnce+atOnce, status.Before+before
	}
	status.NextIn = max(0, next)
	if !cut {
		status.AtOnce, status.Before = 0, 0
	}
	return status
}

// Snapshot returns the state of all servers, in the order given, and the number
// of requests that wait for any of them.
func (p *Pool) Snapshot() (members []MemberStatus, waiting int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	for i := range p.state.members {
		m := &p.state.members[i]
		status := MemberStatus{
			Name: p.members[i].Name, Weight: m.weight, MaxConcurrent: m.limit, InFlight: m.inFlight, Waiting: m.bound.len(),
			Requests: m.requests, Failed: m.failed, Ejected: m.ejected, Reason: m.reason,
		}
		if m.ejected {
			status.ReturnIn = max(0, m.until.Sub(now))
		}
		status.AtOnce, status.Refused = m.throttle.window, m.throttle.refusals
		status.Before, status.PausedIn = m.throttle.before, max(0, m.throttle.until.Sub(now))
		members = append(members, status)
	}
	return members, p.state.anywhere.len()
}
