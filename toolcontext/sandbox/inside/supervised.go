package inside

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"

	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox/supervise"
)

var _ sandbox.Supervisor = (*Client)(nil)

// Bounds of what is told of a supervised command.
const (
	maxActs             = 200
	maxSupervisedAnswer = 4 << 20
)

// ExecSupervised runs a command under a supervisor; see sandbox.Supervisor.
func (c *Client) ExecSupervised(ctx context.Context, cmd sandbox.Command, p sandbox.Policy) (sandbox.Result, sandbox.Supervision, error) {
	var seen sandbox.Supervision
	if cmd.Args == nil || cmd.Session || cmd.Stdin != nil {
		return sandbox.Result{}, seen, fmt.Errorf("%w: only a command with Args, without Session and Stdin, is supervised", sandbox.ErrInvalidCommand)
	}
	e, err := encodeChecked(requestSupervised, cmd)
	if err != nil {
		return sandbox.Result{}, seen, err
	}
	for _, list := range [][]string{p.Results, p.Sealed, p.Code, p.Free, p.Foreign, p.TestFiles} {
		e.strings(list)
	}
	e.bool(p.Loads)
	e.bool(p.HideSealed)
	e.bool(p.Packages)
	if len(e.b) > maxRequest {
		return sandbox.Result{}, seen, fmt.Errorf("%w: the policy has %d bytes, more than %d", sandbox.ErrInvalidCommand, len(e.b), maxRequest)
	}
	r, err := c.exec(ctx, cmd, e, maxSupervisedAnswer, func(d *decoder) { seen = decodeSupervision(d) })
	return r, seen, err
}

// execSupervised runs a command under a supervisor, in the server.
func (s *server) execSupervised(ctx context.Context, d *decoder, reply *encoder) error {
	c, stdin := decodeCommand(d)
	p := sandbox.Policy{Results: d.strings(), Sealed: d.strings(), Code: d.strings(), Free: d.strings(), Foreign: d.strings(), TestFiles: d.strings(), Loads: d.bool(), HideSealed: d.bool(), Packages: d.bool()}
	if err := d.end(); err != nil {
		return err
	}
	if stdin || c.Args == nil || len(c.Args) == 0 {
		return fmt.Errorf("%w: a supervised command has arguments and no input", errProtocol)
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find the server's own program: %w: %w", sandbox.ErrUnsupported, err)
	}
	session, err := supervise.Start(p)
	if err != nil {
		return err
	}
	limit := outputLimit(c)
	merge := c.Merge
	c.Args = session.Args(self, c.Args)
	usage := s.disk.seen()
	defer s.disk.begin()()
	r, err := s.box.Exec(ctx, c)
	seen, failed := session.End()
	if err != nil {
		return err
	}
	if failed != nil && !r.Cancelled && !r.TimedOut {
		return errors.Join(failed, ctx.Err())
	}
	s.disk.explain(&r, merge, usage)
	encodeResult(reply, fit(r, limit))
	encodeSupervision(reply, seen)
	return nil
}

func encodeSupervision(e *encoder, seen sandbox.Supervision) {
	acts := seen.Acts[:min(len(seen.Acts), maxActs)]
	e.uint(uint64(len(acts)))
	for _, a := range acts {
		e.string(a.Kind)
		e.string(a.Target)
		e.string(a.Process)
		e.uint(uint64(a.Count))
	}
	e.uint(uint64(seen.ResultWrites))
	e.uint(uint64(seen.SealedWrites))
	e.bool(seen.Ran)
	e.bool(seen.Moved)
	e.strings(seen.Loaded)
	e.strings(seen.Changed)
	e.strings(seen.Added)
	e.strings(seen.Replaced)
	e.bool(seen.Installed)
	e.bool(seen.Lost || len(seen.Acts) > maxActs)
}

func decodeSupervision(d *decoder) sandbox.Supervision {
	var seen sandbox.Supervision
	for range d.bounded(maxActs) {
		seen.Acts = append(seen.Acts, sandbox.Act{Kind: d.string(), Target: d.string(), Process: d.string(), Count: int(d.bounded(math.MaxInt32))})
	}
	seen.ResultWrites = int(d.bounded(math.MaxInt32))
	seen.SealedWrites = int(d.bounded(math.MaxInt32))
	seen.Ran, seen.Moved = d.bool(), d.bool()
	if seen.Loaded = d.strings(); len(seen.Loaded) == 0 {
		seen.Loaded = nil
	}
	if seen.Changed = d.strings(); len(seen.Changed) == 0 {
		seen.Changed = nil
	}
	seen.Added, seen.Replaced, seen.Installed = d.strings(), d.strings(), d.bool()
	seen.Lost = d.bool()
	return seen
}
