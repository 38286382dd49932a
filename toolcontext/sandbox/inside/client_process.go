package inside

import (
	"context"
	"fmt"

	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
)

// process is a background process of the sandbox. It implements sandbox.Process.
type process struct {
	c     *Client
	id    uint64
	pid   int
	limit int // bytes kept of each stream
}

// Start runs a command in the background; see sandbox.Starter.
func (c *Client) Start(ctx context.Context, cmd sandbox.Command) (sandbox.Process, error) {
	input := cmd.Stdin
	cmd.Stdin = nil
	if input != nil {
		return nil, fmt.Errorf("%w: input of a background process comes by Process.Write, not by Stdin", sandbox.ErrInvalidCommand)
	}
	e, err := encodeChecked(requestStart, cmd)
	if err != nil {
		return nil, err
	}
	defer c.mayChange()()
	d, err := c.ask(ctx, e, 64)
	if err != nil {
		return nil, err
	}
	p := &process{c: c, id: d.uint(), pid: int(d.bounded(1 << 31)), limit: outputLimit(cmd)}
	if err := d.end(); err != nil {
		return nil, c.lost(err)
	}
	return p, nil
}

func (p *process) request(kind requestKind) *encoder {
	e := newRequest(kind)
	e.uint(p.id)
	return e
}

// PID returns the process id inside the sandbox.
func (p *process) PID() int { return p.pid }

// Poll returns what is known now; see sandbox.Process.
func (p *process) Poll(ctx context.Context) (sandbox.Result, bool, error) {
	d, err := p.c.ask(ctx, p.request(requestPoll), resultLimit(p.limit))
	if err != nil {
		return sandbox.Result{}, false, err
	}
	running := d.bool()
	r := decodeResult(d, p.limit)
	if err := d.end(); err != nil {
		return sandbox.Result{}, false, p.c.lost(err)
	}
	return r, running, nil
}

// Write hands input to the command; see sandbox.Process.
func (p *process) Write(ctx context.Context, b []byte) (int, error) {
	sent := 0
	for first := true; first || sent < len(b); first = false {
		part := b[sent:min(len(b), sent+maxInput)]
		e := p.request(requestWrite)
		e.bytes(part)
		d, err := p.c.ask(ctx, e, 64)
		if err != nil {
			return sent, err
		}
		n := d.bounded(uint64(len(part)))
		if err := d.end(); err != nil {
			return sent, p.c.lost(err)
		}
		sent += int(n)
	}
	return sent, nil
}

// CloseInput ends the command's input; see sandbox.Process.
func (p *process) CloseInput(ctx context.Context) error {
	_, err := p.c.ask(ctx, p.request(requestCloseInput), 0)
	return err
}

// Kill ends the command and its descendants; see sandbox.Process.
func (p *process) Kill(ctx context.Context) error {
	_, err := p.c.ask(ctx, p.request(requestKill), 0)
	return err
}

// Wait returns how the command ended; see sandbox.Process.
func (p *process) Wait(ctx context.Context) (sandbox.Result, error) {
	d, err := p.c.ask(ctx, p.request(requestWait), resultLimit(p.limit))
	if err != nil {
		return sandbox.Result{}, err
	}
	r := decodeResult(d, p.limit)
	if err := d.end(); err != nil {
		return sandbox.Result{}, p.c.lost(err)
	}
	return r, nil
}
