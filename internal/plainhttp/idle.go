package plainhttp

import (
	"context"
	"net"
	"net/http"
	"net/url"
	"slices"
	"time"
)

// connect returns an idle connection to the request's host, or a new one.
func (t *Transport) connect(req *http.Request) (*conn, error) {
	address := dialAddress(req.URL)
	for {
		c := t.take(address)
		if c == nil {
			break
		}
		if c.poll.alive() {
			return c, nil
		}
		_ = c.Close()
	}
	return t.dial(req.Context(), address)
}

// dialAddress returns host and port of a URL.
func dialAddress(u *url.URL) string {
	if u.Port() == "" {
		return net.JoinHostPort(u.Hostname(), "80")
	}
	return u.Host
}

// dial makes a connection. Another goroutine does, whose stack is freed afterwards: that of
// the caller would keep the size that dialing needs for as long as it lives.
func (t *Transport) dial(ctx context.Context, address string) (*conn, error) {
	type result struct {
		conn net.Conn
		err  error
	}
	dialed := make(chan result, 1)
	go func() {
		c, err := t.Dial(ctx, "tcp", address)
		dialed <- result{c, err}
	}()
	r := <-dialed
	if r.err != nil {
		return nil, r.err
	}
	return newConn(r.conn, address), nil
}

// take removes the connection that was used last from the idle ones.
func (t *Transport) take(address string) *conn {
	t.mu.Lock()
	defer t.mu.Unlock()
	list := t.idle[address]
	if len(list) == 0 {
		return nil
	}
	c := list[len(list)-1]
	list[len(list)-1] = nil
	t.idle[address] = list[:len(list)-1]
	c.reused = true
	return c
}

// put keeps a connection for another request.
func (t *Transport) put(c *conn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.idle[c.address]) >= t.IdlePerHost {
		_ = c.Close()
		return
	}
	if t.idle == nil {
		t.idle = map[string][]*conn{}
	}
	c.since = time.Now()
	t.idle[c.address] = append(t.idle[c.address], c)
	if !t.sweeping && t.IdleTimeout > 0 {
		t.sweeping = true
		time.AfterFunc(t.IdleTimeout, t.sweep)
	}
}

// sweep closes connections that were idle for too long.
func (t *Transport) sweep() {
	t.mu.Lock()
	defer t.mu.Unlock()
	before, next := time.Now().Add(-t.IdleTimeout), time.Time{}
	for address, list := range t.idle {
		n := 0
		for n < len(list) && !list[n].since.After(before) {
			_ = list[n].Close()
			n++
		}
		if list = slices.Delete(list, 0, n); len(list) == 0 {
			delete(t.idle, address)
			continue
		}
		t.idle[address] = list
		if next.IsZero() || list[0].since.Before(next) {
			next = list[0].since
		}
	}
	if t.sweeping = !next.IsZero(); t.sweeping {
		time.AfterFunc(next.Sub(before), t.sweep)
	}
}

// CloseIdleConnections closes the connections that wait for another request.
func (t *Transport) CloseIdleConnections() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, list := range t.idle {
		for _, c := range list {
			_ = c.Close()
		}
	}
	t.idle = nil
}
