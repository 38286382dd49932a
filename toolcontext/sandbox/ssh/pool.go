package ssh

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
)

// pool is the connections to one machine. Each carries as many sessions as the
// server lets it; another is made when all are full.
type pool struct {
	config Config
	dialer func(ctx context.Context) (*ssh.Client, error)
	turn   chan struct{} // held while a connection is made: servers drop many at once

	mu     sync.Mutex
	closed bool
	open   []*connection
	work   sync.WaitGroup // goroutines of connections and sessions
}

func newPool(c Config) *pool {
	p := &pool{config: c, turn: make(chan struct{}, 1)}
	p.dialer = p.dial
	return p
}

// connection is one connection to the machine.
type connection struct {
	client *ssh.Client
	gone   chan struct{} // closed when the connection has ended
	cause  error         // why; to be read after gone

	turn chan struct{} // held while a session is opened

	// Guarded by pool.mu.
	sessions int // slots taken
	granted  int // sessions that the server has opened
	limit    int
	ever     bool // the server has opened a session at all
}

// session is a channel of a connection. Its slot is given back once.
type session struct {
	*ssh.Session
	at      *connection
	release func()
}

// session opens a session on a connection that has room, or on a new one.
func (p *pool) session(ctx context.Context) (*session, error) {
	lost, closing := 0, 0
	for {
		at, err := p.reserve(ctx)
		if err != nil {
			return nil, err
		}
		s, err := p.openOn(ctx, at)
		var refused *ssh.OpenChannelError
		switch {
		case err == nil:
			return s, nil
		case errors.As(err, &refused):
			opened, ever := p.full(at)
			if !ever || closing == maxClosing {
				return nil, fmt.Errorf("%s opens no session: %w; its MaxSessions may be 0 or the account may run no commands", p.config.target(), err)
			}
			if opened == 0 {
				closing++
				select {
				case <-time.After(closingWait):
				case <-ctx.Done():
					return nil, context.Cause(ctx)
				}
			}
		case context.Cause(ctx) != nil:
			return nil, context.Cause(ctx) // openOn sees to the slot
		default:
			p.giveBack(at)
			_ = at.client.Close() // it is of no use any more
			if lost++; lost >= 3 {
				return nil, fmt.Errorf("open a session on %s: %w", p.config.target(), err)
			}
			<-at.gone
		}
	}
}

// reserve takes a slot of a connection.
func (p *pool) reserve(ctx context.Context) (*connection, error) {
	at, err := p.vacant()
	if at != nil || err != nil {
		return at, err
	}
	select {
	case p.turn <- struct{}{}:
		defer func() { <-p.turn }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	// The one whose turn it was before may have made room.
	if at, err = p.vacant(); at != nil || err != nil {
		return at, err
	}
	client, err := p.dialer(ctx)
	if err != nil {
		return nil, err
	}
	return p.add(client)
}

// vacant takes a slot of a connection that is there; nil where all are full.
func (p *pool) vacant() (*connection, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, sandbox.ErrClosed
	}
	for _, at := range p.open {
		if at.sessions < at.limit {
			at.sessions++
			return at, nil
		}
	}
	return nil, nil
}

// add takes a new connection into the pool, with one slot taken.
func (p *pool) add(client *ssh.Client) (*connection, error) {
	at := &connection{client: client, gone: make(chan struct{}), turn: make(chan struct{}, 1), sessions: 1, limit: p.config.SessionsPerConnection}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, errors.Join(sandbox.ErrClosed, client.Close())
	}
	p.open = append(p.open, at)
	p.work.Add(2)
	go func() {
		defer p.work.Done()
		at.cause = client.Wait()
		p.drop(at)
		close(at.gone)
	}()
	go func() {
		defer p.work.Done()
		p.keepAlive(at)
	}()
	return at, nil
}

func (p *pool) drop(at *connection) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, other := range p.open {
		if other == at {
			p.open = append(p.open[:i:i], p.open[i+1:]...)
			return
		}
	}
}

// giveBack gives a slot back that was reserved only.
func (p *pool) giveBack(at *connection) {
	p.mu.Lock()
	defer p.mu.Unlock()
	at.sessions--
}

// grant notes that the server has opened a session, and returns what ends that.
func (p *pool) grant(at *connection) (release func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	at.granted++
	at.ever = true
	return sync.OnceFunc(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		at.granted--
		at.sessions--
	})
}

// A server may still count sessions that are closed on our side already; it is
// asked again then, for five seconds.
const (
	maxClosing  = 100
	closingWait = 50 * time.Millisecond
)

// full notes that a server refuses one more session than a connection has, and
// gives the slot back. It returns how many sessions the connection has open, and
// whether it ever had one.
func (p *pool) full(at *connection) (opened int, ever bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	at.sessions--
	if at.granted > 0 {
		at.limit = min(at.limit, at.granted)
	}
	return at.granted, at.ever
}

// openOn opens a session on a connection, one after another, so that a refusal says
// how many the server allows.
func (p *pool) openOn(ctx context.Context, at *connection) (*session, error) {
	select {
	case at.turn <- struct{}{}:
	case <-at.gone:
		return nil, errors.New("the connection has ended")
	case <-ctx.Done():
		p.giveBack(at)
		return nil, context.Cause(ctx)
	}
	type answer struct {
		s   *session
		err error
	}
	answered := make(chan answer, 1)
	p.work.Add(1)
	go func() {
		defer p.work.Done()
		defer func() { <-at.turn }()
		opened, err := at.client.NewSession()
		if err != nil {
			answered <- answer{nil, err}
			return
		}
		answered <- answer{&session{Session: opened, at: at, release: p.grant(at)}, nil}
	}()
	select {
	case a := <-answered:
		return a.s, a.err
	case <-ctx.Done():
		p.work.Add(1)
		go func() {
			defer p.work.Done()
			a := <-answered
			if a.err != nil {
				p.giveBack(at)
				return
			}
			_ = a.s.Close() // nobody wants it any more
			a.s.release()
		}()
		return nil, context.Cause(ctx)
	}
}

// keepAlive asks the machine now and then whether it is there, and ends the
// connection when it does not say.
func (p *pool) keepAlive(at *connection) {
	ticker := time.NewTicker(p.config.KeepAlive)
	defer ticker.Stop()
	for {
		select {
		case <-at.gone:
			return
		case <-ticker.C:
		}
		silent := time.AfterFunc(2*p.config.KeepAlive, func() { _ = at.client.Close() })
		_, _, err := at.client.SendRequest("keepalive@openssh.com", true, nil)
		silent.Stop()
		if err != nil {
			_ = at.client.Close() // broken already
			return
		}
	}
}

// close ends all connections and waits for their goroutines.
func (p *pool) close() error {
	p.mu.Lock()
	p.closed = true
	left := append([]*connection(nil), p.open...)
	p.mu.Unlock()
	for _, at := range left {
		_ = at.client.Close() // the other side may have ended it already
	}
	p.turn <- struct{}{} // a connection being made is closed by its maker
	<-p.turn
	p.work.Wait()
	return nil
}

// dial makes a connection. Servers that are busy drop some; then it is tried again.
func (p *pool) dial(ctx context.Context) (*ssh.Client, error) {
	pause := 100 * time.Millisecond
	for try := 1; ; try++ {
		client, err := p.dialOnce(ctx)
		if err == nil || try == 4 || !dropped(err) {
			return client, err
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
			pause *= 3
		case <-ctx.Done():
			timer.Stop()
			return nil, context.Cause(ctx)
		}
	}
}

// dropped reports whether a server ended a connection before it said anything of it.
func dropped(err error) bool {
	return !errors.Is(err, ErrHostKey) && !errors.Is(err, ErrLogin) &&
		(errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE))
}

func (p *pool) dialOnce(ctx context.Context) (*ssh.Client, error) {
	c := p.config
	keys, err := c.newHostKeys()
	if err != nil {
		return nil, err
	}
	l, err := c.newLogin()
	if err != nil {
		return nil, err
	}
	defer func() { _ = l.close() }() // the agent is asked during the handshake only
	limited, cancel := context.WithTimeout(ctx, c.ConnectTimeout)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(limited, "tcp", c.address())
	if err != nil {
		if ctx.Err() == nil && limited.Err() != nil {
			err = fmt.Errorf("no answer within %v", c.ConnectTimeout)
		}
		return nil, fmt.Errorf("connect to %s: %w; check env.ssh_host and env.ssh_port, and that its SSH server can be reached from here", c.address(), err)
	}
	stop := context.AfterFunc(limited, func() { _ = conn.Close() })
	sc, channels, requests, err := ssh.NewClientConn(conn, c.address(), &ssh.ClientConfig{
		User:              c.User,
		Auth:              []ssh.AuthMethod{l.method},
		HostKeyAlgorithms: keys.algorithms,
		HostKeyCallback:   keys.callback,
	})
	if !stop() && err == nil {
		err = errors.Join(context.Cause(limited), sc.Close())
	}
	if err == nil {
		return ssh.NewClient(sc, channels, requests), nil
	}
	_ = conn.Close()
	switch {
	case errors.Is(err, ErrHostKey):
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case limited.Err() != nil:
		return nil, fmt.Errorf("connect to %s: no SSH server greets within %v", c.address(), c.ConnectTimeout)
	case strings.Contains(err.Error(), "unable to authenticate"):
		return nil, l.refused(c, err)
	case strings.Contains(err.Error(), "no common algorithm for host key") && len(keys.algorithms) > 0:
		return nil, fmt.Errorf("connect to %s: %w: the machine has no key of the kinds that are known of it (%s): %w; add one of its keys to %s",
			c.address(), ErrHostKey, strings.Join(keys.algorithms, ", "), err, keys.whereToAdd())
	}
	return nil, fmt.Errorf("connect to %s: %w", c.address(), err)
}
