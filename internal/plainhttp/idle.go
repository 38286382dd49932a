package plainhttp

import (
	"net"
	"net/http"
	"slices"
	"time"
)

// connect returns an idle connection to the request's host, or a new one.
func (t *Transport) connect(req *http.Request) (*conn, error) {
	address := req.URL.Host
	if req.URL.Port() == "" {
		address = net.JoinHostPort(req.URL.Hostname(), "80")
	}
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
	dialed, err := t.Dial(req.Context(), "tcp", address)
	if err != nil {
		return nil, err
	}
	c := &conn{Conn: dialed, address: address}
	c.poll.init(dialed)
	return c, nil
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
