package inside

import (
	"context"
	"fmt"
	"math"
	"time"
)

// Status is what a server says of its sandbox when it is asked whether it lives.
type Status struct {
	// Processes is how many processes there are beside the server.
	Processes int
	// Volatile says that something is kept in memory which the end of the sandbox would
	// take away: files on a tmpfs, shared memory.
	Volatile bool
	// Notes are sentences on what commands did to the server.
	Notes []string

	at time.Time // when it was asked
}

// maxStatus bounds the message of a status.
const maxStatus = 64 << 10

func (s Status) encode(e *encoder) {
	e.uint(uint64(s.Processes))
	e.bool(s.Volatile)
	e.strings(s.Notes)
}

func decodeStatus(d *decoder) Status {
	s := Status{Processes: int(d.bounded(math.MaxInt32)), Volatile: d.bool()}
	s.Notes = d.strings()
	return s
}

// Ping returns when the server has answered. It needs no process and no memory to
// speak of, so it works in a sandbox that is out of both.
func (c *Client) Ping(ctx context.Context) error {
	asked := time.Now()
	d, err := c.ask(ctx, newRequest(requestPing), maxStatus)
	if err != nil {
		return err
	}
	if err := c.keepStatus(asked, d); err != nil {
		return c.lost(err)
	}
	return nil
}

// keepStatus reads the answer to a ping that was sent at a time.
func (c *Client) keepStatus(asked time.Time, d *decoder) error {
	s := decodeStatus(d)
	if err := d.end(); err != nil {
		return fmt.Errorf("read the server's status: %w", err)
	}
	s.at = asked
	c.mu.Lock()
	defer c.mu.Unlock()
	c.status = s
	return nil
}

// Status returns what the server said last. known is false when something was asked of
// the server since that may have changed how many processes there are.
func (c *Client) Status() (s Status, known bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.status, !c.status.at.IsZero() && c.changing == 0 && c.status.at.After(c.changed)
}

// mayChange notes a request that can start processes; the function returned notes its end.
func (c *Client) mayChange() func() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.changing++
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.changing--
		c.changed = time.Now()
	}
}
