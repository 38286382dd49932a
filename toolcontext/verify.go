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
// verifiers of services, and is in Services. Such a process can act while the verifier
// runs.
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

// keeps is the sealing in the words of sandboxes.
func (s sealing) keeps() sandbox.Keep {
	return [...]sandbox.Keep{killEverything: sandbox.KeepNone, killNothing: sandbox.KeepAll, killOthers: sandbox.KeepServices}[s]
}

// Services returns what the last seal kept. known is false if the sandbox could not tell
// services from other processes, and SealServices ended all.
func (c *Context) Services() (kept []sandbox.Service, known bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.services), !c.unknownServices
}

// Ended returns the processes that the last seal ended, if the sandbox can list them.
func (c *Context) Ended() []sandbox.Service {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.endedProcesses)
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
	s := sealed{known: true}
	if box, closed := c.current(); box != nil && !closed {
		var err error
		if s, err = endProcesses(ctx, box, how); err != nil {
			return &tools.InfrastructureError{Op: "kill what the agent left running", Err: err}
		}
	}
	c.mu.Lock()
	c.services, c.endedProcesses, c.unknownServices, c.endedServices = s.kept, s.ended, !s.known, s.endedServices
	c.mu.Unlock()
	c.allowRestarts(false)
	c.state.Detach()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sealed = true
	return nil
}

// sealed is what became of the agent's processes.
type sealed struct {
	kept, ended   []sandbox.Service
	known         bool // services could be told from other processes
	endedServices bool // some that listened could not be kept
}

// endProcesses ends what runs in a sandbox, but for what is to be kept.
func endProcesses(ctx context.Context, box sandbox.Sandbox, how sealing) (sealed, error) {
	s := sealed{known: true}
	k, ok := box.(sandbox.ServiceKeeper)
	if !ok {
		return endWithoutList(ctx, box, how)
	}
	var err error
	s.kept, s.ended, err = k.KillOthers(ctx, how.keeps())
	switch {
	case err == nil:
		if how == killEverything {
			err = box.KillAll(ctx) // also what came up meanwhile
		}
		return s, err
	case errors.Is(err, sandbox.ErrUnsupported):
		return endWithoutList(ctx, box, how)
	case ctx.Err() != nil || box.KillAll(ctx) != nil:
		return s, err
	}
	// Processes that multiply faster than they can be listed are ended all the same.
	s.kept, s.ended = nil, []sandbox.Service{{Command: "all processes: " + err.Error()}}
	return s, nil
}

// endWithoutList is endProcesses for a sandbox that can't list its processes.
func endWithoutList(ctx context.Context, box sandbox.Sandbox, how sealing) (sealed, error) {
	switch how {
	case killNothing:
		return sealed{known: true}, nil
	case killEverything:
		return sealed{known: true}, box.KillAll(ctx)
	}
	r, err := box.Exec(ctx, sandbox.Command{Script: listening, Timeout: 10 * time.Second, MaxOutput: 1000})
	if err != nil {
		return sealed{}, err
	}
	return sealed{endedServices: r.ExitCode == someoneListens}, box.KillAll(ctx)
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
