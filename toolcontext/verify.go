package toolcontext

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
	"github.com/hermes-env/hermes-env/toolcontext/tools"
)

// verifierChars is how many characters of a verifier's command are kept.
const verifierChars = 1 << 20

// Terminal runs a command once and waits for its end. timeout 0 is the terminal
// tool's default; there is no upper limit. Before Seal the command runs in the
// agent's session, after it in the sandbox's own directory and environment. A
// command that fails or times out is a result; an error means that the sandbox
// failed or that ctx ended.
func (c *Context) Terminal(ctx context.Context, command string, timeout time.Duration) (tools.TerminalResult, error) {
	result, err := c.state.Run(ctx, tools.RunOptions{Command: command, Timeout: timeout, MaxChars: verifierChars})
	if err != nil {
		return result, err
	}
	if ctx.Err() != nil {
		// What an interrupted command printed must not be taken for an answer.
		return result, fmt.Errorf("run a command in the sandbox: %w", context.Cause(ctx))
	}
	return result, nil
}

// WriteFile replaces or creates a file in the sandbox, making its directories. The
// mode of an existing file stays. It works through the sandbox's shell: what must
// not be tampered with, such as tests, belongs in Sandbox.Upload.
func (c *Context) WriteFile(ctx context.Context, path string, content []byte) error {
	_, err := c.state.WriteBytes(ctx, path, content)
	return err
}

// Search returns the lines under path that match a regular expression, at most 1,000.
func (c *Context) Search(ctx context.Context, pattern, path string) (tools.SearchResult, error) {
	result, err := c.state.Search(ctx, tools.SearchQuery{Pattern: pattern, Path: path, Limit: 1000})
	switch {
	case err != nil:
		return result, err
	case result.Error != "":
		return result, fmt.Errorf("search %q in %s: %s", pattern, path, result.Error)
	case result.TimedOut:
		return result, fmt.Errorf("search %q in %s: the search timed out", pattern, path)
	}
	return result, nil
}

// Seal ends the agent's part: every process it left is killed, and from now on
// commands neither see its working directory nor its exported variables, and
// tools answer as if nothing had been read before. Without a sandbox there is
// nothing to kill. Its error is an *tools.InfrastructureError.
func (c *Context) Seal(ctx context.Context) error { return c.seal(ctx, killEverything) }

// SealKeeping is Seal without the killing: what the agent left running stays, for
// verifiers of services. Such a process can act while the verifier runs.
func (c *Context) SealKeeping(ctx context.Context) error { return c.seal(ctx, killNothing) }

// SealServices is Seal but for services, which go on (sandbox.ServiceKeeper) and are in
// Services. A sandbox that can't tell them apart is sealed as by Seal.
func (c *Context) SealServices(ctx context.Context) error { return c.seal(ctx, killOthers) }

// sealing says what Seal ends.
type sealing int

const (
	killEverything sealing = iota
	killNothing
	killOthers
)

// Services returns what the last SealServices kept. known is false when the sandbox
// could not tell services from other processes, and all were ended.
func (c *Context) Services() (kept []sandbox.Service, known bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.services), !c.unknownServices
}

// ServicesEnded says that the last SealServices ended processes that listened for
// connections, because the sandbox could not keep them.
func (c *Context) ServicesEnded() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.endedServices
}

func (c *Context) seal(ctx context.Context, how sealing) error {
	ctx, cancel := context.WithTimeout(ctx, c.config.CloseTimeout)
	defer cancel()
	if err := c.acquire(ctx); err != nil {
		return &tools.InfrastructureError{Op: "seal the sandbox", Err: err}
	}
	defer c.release()
	var services []sandbox.Service
	known, ended := true, false
	if box, closed := c.current(); box != nil && !closed && how != killNothing {
		var err error
		if services, known, ended, err = endProcesses(ctx, box, how); err != nil {
			return &tools.InfrastructureError{Op: "kill what the agent left running", Err: err}
		}
	}
	c.mu.Lock()
	c.services, c.unknownServices, c.endedServices = services, !known, ended
	c.mu.Unlock()
	c.allowRestarts(false)
	c.state.Detach()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sealed = true
	return nil
}

// endProcesses ends what runs in a sandbox, but for services where they are to be kept.
// ended says that some were that could not be.
func endProcesses(ctx context.Context, box sandbox.Sandbox, how sealing) (kept []sandbox.Service, known, ended bool, err error) {
	if how == killEverything {
		return nil, true, false, box.KillAll(ctx)
	}
	if k, ok := box.(sandbox.ServiceKeeper); ok {
		kept, err := k.KillOthers(ctx)
		if !errors.Is(err, sandbox.ErrUnsupported) {
			return kept, true, false, err
		}
	}
	r, err := box.Exec(ctx, sandbox.Command{Script: listening, Timeout: 10 * time.Second, MaxOutput: 1000})
	if err != nil {
		return nil, false, false, err
	}
	return nil, false, r.ExitCode == someoneListens, box.KillAll(ctx)
}

// someoneListens is what the script listening ends with when somebody does.
const someoneListens = 10

// listening looks for sockets that listen (TCP, Unix) or are bound (UDP), with nothing
// but the shell's own commands. The engine's own name server, at 127.0.0.11, is left out.
const listening = `for f in tcp:0A tcp6:0A udp:07 udp6:07; do
  [ -r /proc/net/${f%:*} ] || continue
  while read -r _ at _ state _; do
    case $at in 0B00007F:*) continue ;; esac
    [ "$state" = "${f#*:}" ] && exit 10
  done </proc/net/${f%:*}
done
[ -r /proc/net/unix ] || exit 0
while read -r _ _ _ flags _; do [ "$flags" = 00010000 ] && exit 10; done </proc/net/unix
exit 0`

// allowRestarts says whether the sandbox may start again when it ends by itself: not
// while a verifier works, whose results have to be of one sandbox.
func (c *Context) allowRestarts(allow bool) {
	if box, closed := c.current(); box != nil && !closed {
		if r, ok := box.(sandbox.Restarter); ok {
			r.AllowRestarts(allow)
		}
	}
}

// Another makes a second sandbox of the rollout's Spec, changed by change, for a
// verifier that wants one of its own. The caller closes it. Its error is an
// *tools.InfrastructureError.
func (c *Context) Another(ctx context.Context, change func(*sandbox.Spec)) (sandbox.Sandbox, error) {
	spec := c.config.Spec
	change(&spec)
	started := time.Now()
	box, err := c.config.Provider.Create(ctx, spec)
	c.mu.Lock()
	c.timings.Create += time.Since(started)
	c.timings.CreateOutsideTools += time.Since(started)
	c.mu.Unlock()
	if err != nil {
		return nil, &tools.InfrastructureError{Op: "open another sandbox", Err: fmt.Errorf("create the %s sandbox: %w", c.config.Provider.Name(), err)}
	}
	return box, nil
}

// Spec returns what sandbox the rollout has.
func (c *Context) Spec() sandbox.Spec { return c.config.Spec }

// Unseal gives a sealed sandbox back to an agent, for the next part of a task that
// has several. Its session starts in the sandbox's own directory. Its error is an
// *tools.InfrastructureError.
func (c *Context) Unseal(ctx context.Context) error {
	if err := c.acquire(ctx); err != nil {
		return &tools.InfrastructureError{Op: "unseal the sandbox", Err: err}
	}
	defer c.release()
	box, closed := c.current()
	if box != nil && !closed {
		dir := strings.ReplaceAll(box.Info().Dir, "'", `'\''`)
		if _, err := box.Exec(ctx, sandbox.Command{Script: "cd '" + dir + "'", Session: true, Timeout: c.config.CloseTimeout}); err != nil {
			return &tools.InfrastructureError{Op: "unseal the sandbox", Err: err}
		}
	}
	c.allowRestarts(true)
	c.state.Attach()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sealed = false
	return nil
}

// Cleanup removes the sandbox. It does so also when ctx has ended, within
// CloseTimeout or the deadline of ctx when that is sooner and not yet past. A
// second Cleanup does nothing; one that failed can be called again.
func (c *Context) Cleanup(ctx context.Context) error {
	limit := c.config.CloseTimeout
	if deadline, ok := ctx.Deadline(); ok {
		if left := time.Until(deadline); left > 0 {
			limit = min(limit, left)
		}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer cancel()
	if err := c.acquire(ctx); err != nil {
		return fmt.Errorf("remove the sandbox: it is still being created: %w", err)
	}
	defer c.release()
	c.mu.Lock()
	box := c.box
	c.closed = true
	c.mu.Unlock()
	if box == nil {
		return nil
	}
	started := time.Now()
	err := box.Close(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lease != nil {
		c.lease()
	}
	c.timings.Close += time.Since(started)
	if err != nil && !errors.Is(err, sandbox.ErrClosed) {
		return fmt.Errorf("remove the sandbox %s: %w", box.Info().ID, err)
	}
	return nil
}
