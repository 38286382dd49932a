package tools

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
)

const (
	listPreviewChars = 200
	listCommandChars = 200
	pollPreviewChars = 1000
	endPreviewChars  = 2000 // of a process that was waited for or killed
	defaultLogLines  = 200
	// inputWait bounds the wait for a process to read its input.
	inputWait = 10 * time.Second
	// afterwards bounds a last look at a process when the call was interrupted.
	afterwards = 5 * time.Second
)

// processActions are what the process tool can do, in the order of its schema.
const processActions = "list, poll, log, wait, kill, write, submit, close"

// Process returns the tool that manages what terminal has started in the
// background. It also answers to its later name, process_manage.
func Process() Tool {
	return Tool{
		Name:    "process",
		Toolset: "terminal",
		Aliases: []string{"process_manage"},
		Description: "Manage background processes started with terminal(background=true). " +
			"list: show all; poll: status and the latest output; log: the output by lines; wait: block until it ends or the timeout passes; " +
			"kill: end it with all it started; write: send input as it is; submit: send input and a newline, like Enter; close: end its input.",
		Parameters: []byte(`{"type":"object","properties":{` +
			`"action":{"type":"string","enum":["list","poll","log","wait","kill","write","submit","close"],"description":"What to do"},` +
			`"session_id":{"type":"string","description":"The id that terminal returned, or the beginning of it (for every action but list)"},` +
			`"data":{"type":"string","description":"Text to send (write and submit)"},` +
			`"timeout":{"type":"integer","minimum":1,"description":"Longest time to wait in seconds (wait); cut to the terminal's own default timeout"},` +
			`"offset":{"type":"integer","description":"First line to show, 0 for the first there is (log; default: the last lines)"},` +
			`"limit":{"type":"integer","minimum":1,"description":"Number of lines to show (log; default 200)"}` +
			`},"required":["action"]}`),
		Handler: runProcess,
	}
}

type processEntry struct {
	SessionID        string `json:"session_id"`
	Command          string `json:"command"`
	Dir              string `json:"cwd"`
	PID              int    `json:"pid"`
	StartedAt        string `json:"started_at"`
	Uptime           int    `json:"uptime_seconds"`
	Status           string `json:"status"`
	Preview          string `json:"output_preview"`
	ExitCode         *int   `json:"exit_code,omitempty"`
	ExitedAt         string `json:"exited_at,omitempty"`
	CompletionReason string `json:"completion_reason,omitempty"`
}

type pollResult struct {
	SessionID         string `json:"session_id"`
	Command           string `json:"command"`
	Status            string `json:"status"`
	PID               int    `json:"pid"`
	Uptime            int    `json:"uptime_seconds"`
	Preview           string `json:"output_preview"`
	ExitCode          *int   `json:"exit_code,omitempty"`
	CompletionReason  string `json:"completion_reason,omitempty"`
	TerminationSource string `json:"termination_source,omitempty"`
}

type logResult struct {
	SessionID  string `json:"session_id"`
	Command    string `json:"command"`
	Status     string `json:"status"`
	Output     string `json:"output"`
	TotalLines int    `json:"total_lines"`
	Showing    string `json:"showing"`
	Truncated  bool   `json:"truncated,omitempty"` // lines before the first were dropped
}

type waitResult struct {
	Status            string `json:"status"`
	SessionID         string `json:"session_id"`
	Command           string `json:"command"`
	ExitCode          *int   `json:"exit_code,omitempty"`
	CompletionReason  string `json:"completion_reason,omitempty"`
	TerminationSource string `json:"termination_source,omitempty"`
	Output            string `json:"output"`
	Running           bool   `json:"process_running,omitempty"`
	TimeoutNote       string `json:"timeout_note,omitempty"`
}

type killResult struct {
	Status            string `json:"status"`
	SessionID         string `json:"session_id"`
	Error             string `json:"error,omitempty"`
	Survivors         []int  `json:"survivors,omitempty"`
	Running           bool   `json:"process_running,omitempty"`
	ExitCode          *int   `json:"exit_code,omitempty"`
	CompletionReason  string `json:"completion_reason,omitempty"`
	TerminationSource string `json:"termination_source,omitempty"`
	Output            string `json:"output"`
}

type inputResult struct {
	Status       string `json:"status"`
	Error        string `json:"error,omitempty"`
	BytesWritten *int   `json:"bytes_written,omitempty"`
	Message      string `json:"message,omitempty"`
	ExitCode     *int   `json:"exit_code,omitempty"`
}

func runProcess(ctx context.Context, call *Call) (string, error) {
	action, _, err := call.Args.String("action")
	if err != nil {
		return ErrorResult(err.Error()), nil
	}
	var run func(context.Context, *Call, *process) (string, error)
	switch action = strings.ToLower(strings.TrimSpace(action)); action {
	case "list":
		return listProcesses(ctx, call.State)
	case "poll":
		run = pollProcess
	case "log":
		run = logProcess
	case "wait":
		run = waitProcess
	case "kill":
		run = killProcess
	case "write", "submit":
		run = func(ctx context.Context, call *Call, p *process) (string, error) {
			return writeProcess(ctx, call, p, action)
		}
	case "close":
		run = closeProcess
	case "":
		return ErrorResult("missing required argument: action. Use one of: " + processActions), nil
	default:
		return ErrorResult(fmt.Sprintf("Unknown process action: %s. Use one of: %s", cutChars(action, 100), processActions)), nil
	}
	id := textOf(gjson.ParseBytes(call.Args.Raw("session_id")))
	if id == "" {
		return ErrorResult("session_id is required for " + action), nil
	}
	p, why := call.State.findProcess(id)
	if p == nil {
		return encode(inputResult{Status: "not_found", Error: why}), nil
	}
	return run(ctx, call, p)
}

func seconds(d time.Duration) int { return int(max(0, d).Seconds()) }

func listProcesses(ctx context.Context, s *State) (string, error) {
	entries := []processEntry{}
	for _, p := range s.processList() {
		v, err := p.look(ctx)
		if err != nil {
			return "", err
		}
		e := processEntry{
			SessionID: p.id, Command: cutChars(p.command, listCommandChars), Dir: p.dir, PID: p.pid,
			StartedAt: p.started.UTC().Format(time.RFC3339), Uptime: seconds(v.uptime), Status: v.status(),
			Preview: lastChars(v.text, listPreviewChars), ExitCode: v.exitCode(), CompletionReason: v.reason,
		}
		if !v.running {
			e.ExitedAt = p.started.Add(v.uptime).UTC().Format(time.RFC3339)
		}
		entries = append(entries, e)
	}
	return encode(struct {
		Processes []processEntry `json:"processes"`
	}{entries}), nil
}

func pollProcess(ctx context.Context, _ *Call, p *process) (string, error) {
	v, err := p.look(ctx)
	if err != nil {
		return "", err
	}
	return encode(pollResult{
		SessionID: p.id, Command: p.command, Status: v.status(), PID: p.pid, Uptime: seconds(v.uptime),
		Preview: lastChars(v.text, pollPreviewChars), ExitCode: v.exitCode(), CompletionReason: v.reason, TerminationSource: v.source,
	}), nil
}

func logProcess(ctx context.Context, call *Call, p *process) (string, error) {
	offset, err := call.Args.Int("offset", -1)
	if err != nil {
		return ErrorResult(err.Error()), nil
	}
	limit, err := call.Args.Int("limit", defaultLogLines)
	if err != nil {
		return ErrorResult(err.Error()), nil
	}
	v, err := p.look(ctx)
	if err != nil {
		return "", err
	}
	var lines []string
	if v.text != "" {
		lines = strings.Split(strings.TrimSuffix(v.text, "\n"), "\n")
	}
	limit = min(max(1, limit), len(lines))
	first := len(lines) - limit
	if call.Args.Has("offset") {
		first = min(max(0, offset), len(lines))
	}
	shown := lines[first:min(len(lines), first+limit)]
	return encode(logResult{
		SessionID: p.id, Command: p.command, Status: v.status(), Output: strings.Join(shown, "\n"),
		TotalLines: len(lines), Showing: fmt.Sprintf("%d lines", len(shown)), Truncated: v.cut,
	}), nil
}

func waitProcess(ctx context.Context, call *Call, p *process) (string, error) {
	longest := call.State.options.TerminalTimeout
	limit, note := longest, ""
	if call.Args.Has("timeout") {
		asked, err := call.Args.Int("timeout", 0)
		if err != nil {
			return ErrorResult(err.Error()), nil
		}
		if asked < 1 {
			return ErrorResult(fmt.Sprintf("invalid timeout: %d; give at least 1 second", asked)), nil
		}
		if limit = time.Duration(asked) * time.Second; limit > longest {
			limit, note = longest, fmt.Sprintf("Requested wait of %ds was clamped to the limit of %ds", asked, int(longest.Seconds()))
		}
	}
	v, interrupted, err := p.await(ctx, limit)
	if err != nil {
		return "", err
	}
	r := waitResult{Status: v.status(), SessionID: p.id, Command: p.command, ExitCode: v.exitCode(),
		CompletionReason: v.reason, TerminationSource: v.source, Output: lastChars(v.text, endPreviewChars), TimeoutNote: note}
	if v.running {
		r.Status, r.Running, r.Output = "timeout", true, lastChars(v.text, pollPreviewChars)
		switch {
		case interrupted:
			r.Status, r.TimeoutNote = "interrupted", ""
		case note == "":
			r.TimeoutNote = fmt.Sprintf("Waited %ds, the process is still running", int(limit.Seconds()))
		default:
			r.TimeoutNote += "; the process is still running"
		}
	}
	return encode(r), nil
}

// await waits for the end of the process, at most for limit, and says how it is
// then; interrupted means that ctx ended first.
func (p *process) await(ctx context.Context, limit time.Duration) (v *snapshot, interrupted bool, err error) {
	if v := p.ending(); v != nil {
		return v, false, nil
	}
	waiting, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	result, err := p.handle.Wait(waiting)
	switch {
	case err == nil:
		return p.finish(result), false, nil
	case errors.Is(err, sandbox.ErrEnded), waiting.Err() == nil,
		errors.Is(err, sandbox.ErrClosed), errors.Is(err, sandbox.ErrLost):
		if errors.Is(err, sandbox.ErrEnded) {
			v, err := p.look(waiting)
			return v, false, err
		}
		return nil, false, &InfrastructureError{Op: "wait for a background process", Err: err}
	}
	interrupted = ctx.Err() != nil
	looking, cancel := context.WithTimeout(context.WithoutCancel(ctx), afterwards)
	defer cancel()
	v, err = p.look(looking)
	return v, interrupted, err
}

func killProcess(ctx context.Context, call *Call, p *process) (string, error) {
	if v := p.ending(); v != nil {
		return encode(alreadyKilled(p, v)), nil
	}
	ctx, cancel := context.WithTimeout(ctx, call.State.options.FileTimeout)
	defer cancel()
	err := p.handle.Kill(ctx)
	switch {
	case err == nil, errors.Is(err, sandbox.ErrEnded):
	case ctx.Err() != nil, errors.Is(err, sandbox.ErrClosed), errors.Is(err, sandbox.ErrLost):
		return "", processError(ctx, "end a background process", err)
	default:
		r := killResult{Status: "error", SessionID: p.id, Error: cutChars(err.Error(), maxErrorChars), Survivors: []int{p.pid}, Running: true}
		return encode(r), nil
	}
	v, err := p.look(ctx)
	if err != nil {
		return "", err
	}
	r := alreadyKilled(p, v)
	if v.reason == "killed" {
		r.Status, r.ExitCode = "killed", nil
	}
	return encode(r), nil
}

func alreadyKilled(p *process, v *snapshot) killResult {
	return killResult{Status: "already_exited", SessionID: p.id, ExitCode: v.exitCode(), CompletionReason: v.reason,
		TerminationSource: v.source, Output: lastChars(v.text, endPreviewChars)}
}

func writeProcess(ctx context.Context, call *Call, p *process, action string) (string, error) {
	raw := call.Args.Raw("data")
	data := ""
	switch v := gjson.ParseBytes(raw); {
	case raw == nil && action == "write":
		return ErrorResult("data is required for write"), nil
	case raw == nil:
	case v.Type == gjson.String:
		data = v.Str
	default:
		data = string(raw) // a number, say: the characters the model wrote
	}
	if action == "submit" {
		data += "\n"
	}
	if done, err := p.ended(ctx); done != "" || err != nil {
		return done, err
	}
	writing, cancel := context.WithTimeout(ctx, inputWait)
	defer cancel()
	n, err := p.handle.Write(writing, []byte(data))
	switch {
	case err == nil:
		return encode(inputResult{Status: "ok", BytesWritten: &n}), nil
	case errors.Is(err, sandbox.ErrEnded):
		if done, err := p.ended(ctx); done != "" || err != nil {
			return done, err
		}
		return encode(inputResult{Status: "error", Error: "the input of the process is closed", BytesWritten: &n}), nil
	case ctx.Err() == nil && writing.Err() != nil && !errors.Is(err, sandbox.ErrClosed) && !errors.Is(err, sandbox.ErrLost):
		why := fmt.Sprintf("the process does not read its input: %d of %d bytes were taken within %ds", n, len(data), int(inputWait.Seconds()))
		return encode(inputResult{Status: "error", Error: why, BytesWritten: &n}), nil
	}
	return "", processError(ctx, "write to a background process", err)
}

func closeProcess(ctx context.Context, _ *Call, p *process) (string, error) {
	if done, err := p.ended(ctx); done != "" || err != nil {
		return done, err
	}
	if err := p.handle.CloseInput(ctx); err != nil && !errors.Is(err, sandbox.ErrEnded) {
		return "", processError(ctx, "end the input of a background process", err)
	}
	message := "stdin closed"
	if p.terminal {
		message = "EOF sent"
	}
	return encode(inputResult{Status: "ok", Message: message}), nil
}

// ended returns the result for a call that needs a running process, "" when it runs.
func (p *process) ended(ctx context.Context) (string, error) {
	v, err := p.look(ctx)
	if err != nil || v.running {
		return "", err
	}
	return encode(inputResult{Status: "already_exited", Error: "the process has ended", ExitCode: v.exitCode()}), nil
}
