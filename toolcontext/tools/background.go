package tools

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
)

// backgroundResult is the terminal tool's result for a process it has started.
type backgroundResult struct {
	Output            string  `json:"output"`
	SessionID         string  `json:"session_id"`
	PID               int     `json:"pid"`
	ExitCode          int     `json:"exit_code"`
	Error             *string `json:"error"`
	NotifyOnComplete  *bool   `json:"notify_on_complete,omitempty"`
	NotifyUnsupported string  `json:"notify_unsupported,omitempty"`
	PTYNote           string  `json:"pty_note,omitempty"`
	Hint              string  `json:"hint,omitempty"`
}

const (
	notifyUnsupported = "Nothing can notify you here: notify_on_complete and watch_patterns were ignored. Use process(action=poll) or process(action=wait)."
	backgroundHint    = "Use the process tool with this session_id: poll or log to look at it, wait for its end, write or submit for input, kill to end it."
	foregroundPTY     = "pty needs background=true; the command ran without a pseudo terminal."
	shellDetach       = "Run the command in the foreground, or detach it in the shell with its output redirected: (COMMAND > /tmp/out.log 2>&1 &)"
)

// runBackground starts a command without waiting for its end. dir is absolute; ""
// means the session's directory.
func runBackground(ctx context.Context, call *Call, command, dir string) (string, error) {
	s := call.State
	terminal, err := call.Args.Bool("pty")
	if err != nil {
		return notRun("error", "%v", err), nil
	}
	box, err := s.Sandbox(ctx)
	if err != nil {
		return "", err
	}
	starter, ok := box.(sandbox.Starter)
	if !ok {
		return notRun("error", "Background processes are not supported by the %s sandbox. %s", box.Info().Backend, shellDetach), nil
	}
	p := &process{id: newProcessID(), command: command, dir: dir, terminal: terminal}
	note, err := s.start(ctx, box.Info(), starter, p)
	var broken *InfrastructureError
	switch {
	case errors.As(err, &broken):
		return "", err
	case err != nil:
		return notRun("", "Failed to start background process: %v", err), nil
	}
	result := backgroundResult{Output: "Background process started", SessionID: p.id, PID: p.pid, PTYNote: note}
	if wantsNotice(call.Args) {
		no := false
		result.NotifyOnComplete, result.NotifyUnsupported = &no, notifyUnsupported
	} else {
		result.Hint = backgroundHint
	}
	return encode(result), nil
}

// wantsNotice says whether the call asks to be told of events. Those arguments are
// not in the schema, so they are as the model wrote them.
func wantsNotice(args Arguments) bool {
	for _, name := range []string{"notify_on_complete", "watch_patterns", "notify"} {
		switch v := gjson.ParseBytes(args.Raw(name)); {
		case v.IsArray():
			if len(v.Array()) > 0 {
				return true
			}
		case v.Type == gjson.String:
			if text := strings.ToLower(strings.TrimSpace(v.Str)); text != "" && text != "false" {
				return true
			}
		case v.Type == gjson.True, v.Type == gjson.Number && v.Num != 0, v.IsObject():
			return true
		}
	}
	return false
}

// start starts p's command exactly once and takes p into the list. note tells of a
// terminal that could not be had. An error that is no *InfrastructureError is for
// the model: nothing runs then.
func (s *State) start(ctx context.Context, info sandbox.Info, starter sandbox.Starter, p *process) (note string, err error) {
	detached := !s.session()
	if err := s.makeRoom(ctx); err != nil {
		return "", err
	}
	registered := false
	defer func() {
		if !registered {
			s.settle(nil, detached)
		}
	}()
	env := map[string]string{}
	if detached {
		if p.dir == "" {
			p.dir = info.Dir
		}
	} else {
		var dir string
		if dir, env, err = s.surroundings(ctx, info.Dir); err != nil {
			return "", err
		}
		if p.dir == "" {
			p.dir = dir
		}
	}
	if env["PYTHONUNBUFFERED"] == "" {
		env["PYTHONUNBUFFERED"] = "1" // else Python's output arrives when it ends
	}
	command := sandbox.Command{Script: p.command, Dir: p.dir, Env: env, Merge: true, MaxOutput: rollingBytes}
	p.started = time.Now()
	if p.terminal {
		withTerminal := command
		withTerminal.Terminal = &sandbox.Terminal{}
		withTerminal.Env = terminalEnvironment(env)
		p.handle, err = starter.Start(ctx, withTerminal)
		if err != nil && ctx.Err() == nil && !errors.Is(err, sandbox.ErrClosed) && !errors.Is(err, sandbox.ErrLost) && !errors.Is(err, sandbox.ErrInvalidCommand) {
			// The sandbox is well and nothing was started, so this is no second run.
			note = fmt.Sprintf("The command runs without a pseudo terminal: %v", err)
			p.terminal, p.handle = false, nil
		}
	}
	if !p.terminal {
		p.handle, err = starter.Start(ctx, command)
	}
	switch {
	case errors.Is(err, sandbox.ErrInvalidCommand), errors.Is(err, sandbox.ErrUnsupported):
		return "", err
	case err != nil:
		return "", processError(ctx, "start a background process", err)
	}
	if p.pid = p.handle.PID(); p.pid == 0 {
		return "", p.failedStart(ctx)
	}
	registered = true
	if !s.settle(p, detached) {
		// What the model left running was killed before this one began.
		if err := p.handle.Kill(ctx); err != nil {
			return "", processError(ctx, "end a background process that came too late", err)
		}
		return "", errors.New("the rollout is over")
	}
	return note, nil
}

// failedStart says why a process could not be started.
func (p *process) failedStart(ctx context.Context) error {
	v, err := p.look(ctx)
	if err != nil {
		return err
	}
	if text := strings.TrimSpace(v.text); text != "" {
		return errors.New(cutChars(text, 300))
	}
	return fmt.Errorf("exit code %d", v.code)
}

func terminalEnvironment(env map[string]string) map[string]string {
	env = maps.Clone(env)
	// A pager or an editor would wait for keys that the model does not know of.
	env["PAGER"], env["GIT_PAGER"] = "cat", "cat"
	if env["TERM"] == "" {
		env["TERM"] = "dumb"
	}
	return env
}

// surroundingsScript prints the session's directory, a dot that keeps newlines at its
// end, and the exported variables, all ended by NUL.
const surroundingsScript = `command pwd && printf '.\000' && { command env -0 2>/dev/null || command cat /proc/self/environ; }`

// maxSurroundings bounds what surroundingsScript may print: no program can be
// started with more variables.
const maxSurroundings = 4 << 20

// surroundings returns what the session would give its next command: its working
// directory and exported variables. A background process belongs to no session, so
// it is given them. Without a readable answer there are fallback and none.
func (s *State) surroundings(ctx context.Context, fallback string) (dir string, env map[string]string, err error) {
	box, err := s.Sandbox(ctx)
	if err != nil {
		return "", nil, err
	}
	result, err := box.Exec(ctx, sandbox.Command{Script: surroundingsScript, Session: true, Timeout: s.options.FileTimeout, MaxOutput: maxSurroundings})
	switch {
	case err != nil:
		return "", nil, &InfrastructureError{Op: "ask for the session's variables", Err: err}
	case result.Cancelled:
		return "", nil, fmt.Errorf("interrupted: %w", context.Cause(ctx))
	case result.Stdout.Omitted() > 0:
		return "", nil, errors.New("the session's exported variables are too large; unset some")
	}
	dir, env = parseSurroundings(string(result.Stdout.Bytes()))
	if dir == "" {
		dir = fallback
	}
	return dir, env, nil
}

// parseSurroundings reads what surroundingsScript prints. What belongs to one shell
// and not to the session is left out; dir is "" when it can't be told.
func parseSurroundings(text string) (dir string, env map[string]string) {
	fields := strings.Split(text, "\x00")
	if known, ok := strings.CutSuffix(fields[0], "\n."); ok && path.IsAbs(known) {
		dir = known
	}
	env = map[string]string{}
	for _, entry := range fields[1:] {
		switch name, value, ok := strings.Cut(entry, "="); {
		case !ok, name == "", name == "_", name == "PWD", name == "SHLVL", name == "SHELLOPTS", name == "BASHOPTS":
		default:
			env[name] = value
		}
	}
	return dir, env
}
