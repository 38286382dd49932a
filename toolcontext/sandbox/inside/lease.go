package inside

import (
	"fmt"
	"sync"
	"time"

	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
)

var _ sandbox.Leaser = (*Client)(nil)

// usage notes who needs a sandbox.
type usage struct {
	mu     sync.Mutex
	users  int       // leases, and calls under way
	unused time.Time // since when there are none
}

// enter notes a user; leave is for the one place that it is called from.
func (u *usage) enter() (leave func()) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.users++
	return func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		if u.users--; u.users == 0 {
			u.unused = time.Now()
		}
	}
}

// idle returns for how long nobody has used the sandbox.
func (u *usage) idle() time.Duration {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.users > 0 {
		return 0
	}
	return time.Since(u.unused)
}

// Lease keeps the sandbox although nobody uses it; see sandbox.Leaser.
func (c *Client) Lease() (release func()) { return sync.OnceFunc(c.usage.enter()) }

// expire gives the sandbox up when nobody uses it or holds a lease for Options.Idle.
func (c *Client) expire() bool {
	if c.options.Idle <= 0 || c.usage.idle() < c.options.Idle {
		return false
	}
	if c.options.Expired != nil {
		c.options.Expired()
	}
	_ = c.m.fail(fmt.Errorf("nobody used it for %v or held a lease", c.options.Idle))
	return true
}

// Drop closes the client without a word to the server, for backends that end its
// machine by other means. Calls under way return sandbox.ErrClosed.
func (c *Client) Drop() {
	c.once.Do(func() {
		c.mu.Lock()
		c.closed = true
		c.mu.Unlock()
		_ = c.m.fail(sandbox.ErrClosed)
		<-c.received
		<-c.watched
		<-c.relayed
	})
}
