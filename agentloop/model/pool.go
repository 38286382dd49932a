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
}

// Pool is a Client over several servers (or one, for its limit). A request goes
// to the server with the fewest requests in flight for its weight; the requests
// of one Affinity stay on one server until it fails them. Requests above a
// server's limit wait in order of arrival.
//
// A server that fails MaxFailures times in a row is left out for a while and
// then probed with one request. One that refuses everything (key, account,
// model or address) is left out at once and the request tries the others.
type Pool struct {
	members []Member

	mu    sync.Mutex
	state poolState
	timer *time.Timer // serves waiting requests when a cool-down ends
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
		members = append(members, Member{Client: &metered{client, s.Price}, Name: displayURL(s.BaseURL), Weight: s.Weight, MaxConcurrent: s.MaxConcurrent})
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
	w := &waiter{affinity: req.Affinity}
	var waited time.Duration
	for attempt := 1; ; attempt++ {
		began := time.Now()
		got, err := p.acquire(ctx, w)
		if err != nil {
			return nil, err
		}
		waited += time.Since(began)
		resp, err := p.send(ctx, req, w, got)
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

// send runs one request and gives the slot back, also when the client panics.
func (p *Pool) send(ctx context.Context, req *Request, w *waiter, got slot) (resp *Response, err error) {
	v, failure := unknown, (*Error)(nil)
	defer func() {
		reason, after := "", time.Duration(0)
		if failure != nil {
			reason, after = failure.Kind.Summary()+": "+failure.Message, failure.RetryAfter
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		p.state.release(time.Now(), got, w, v, reason, after)
		p.arm()
	}()
	resp, err = p.members[got.member].Client.Complete(ctx, req)
	v, failure = judge(err)
	return resp, err
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
	case failure.Fatal():
		return unfit, failure
	case failure.Retryable():
		return failing, failure
	}
	return alive, failure
}

// acquire waits for a slot.
func (p *Pool) acquire(ctx context.Context, w *waiter) (slot, error) {
	p.mu.Lock()
	if got, ok := p.state.acquire(time.Now(), w); ok {
		p.mu.Unlock()
		return got, nil
	}
	p.arm()
	p.mu.Unlock()
	select {
	case got := <-w.granted:
		return got, nil
	case <-ctx.Done():
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case got := <-w.granted: // the slot came at the same moment: give it on
		p.state.release(time.Now(), got, w, unknown, "", 0)
		p.arm()
	default:
		p.state.abandon(w)
	}
	return slot{}, &Error{
		Kind: KindCancelled, Request: "wait for a free model server", Err: ctx.Err(),
		Message: ctx.Err().Error(),
	}
}

// arm sets the timer that serves waiting requests when an ejected server may be
// probed: no request need end at that moment.
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
		members = append(members, status)
	}
	return members, p.state.anywhere.len()
}
