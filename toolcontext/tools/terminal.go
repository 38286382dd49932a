package tools

import (
	"context"
	"errors"
	"fmt"
	"path"
	"regexp"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
)

// Terminal returns the terminal tool: a command in the rollout's session, or one in
// the background that the process tool looks after.
func Terminal() Tool {
	return Tool{
		Name:    "terminal",
		Toolset: "terminal",
		Description: "Run a shell command in the sandbox and wait for it to end. " +
			"The working directory and exported variables persist between calls. " +
			"stdout and stderr come back as one text; long output keeps its beginning and its end. " +
			"There is no interactive input: pass flags such as -y, and no pagers or editors. " +
			"Servers, watchers and long jobs: background=true, which returns a session_id for the process tool. " +
			"For files prefer read_file, write_file, patch and search_files over cat, echo, sed and grep.",
		Parameters: []byte(`{"type":"object","properties":{` +
			`"command":{"type":"string","description":"The command to run"},` +
			`"background":{"type":"boolean","default":false,"description":"Start the command and return at once; the process tool shows its output and ends it. The timeout does not apply"},` +
			`"timeout":{"type":"integer","minimum":1,"description":"Longest time to wait in seconds, normally at most 600; the command is killed after it (default: set by the environment)"},` +
			`"workdir":{"type":"string","description":"Absolute path of the directory to run this command in (default: the session's working directory)"},` +
			`"pty":{"type":"boolean","default":false,"description":"With background=true: run on a pseudo terminal, for interactive programs such as a REPL"}` +
			`},"required":["command"]}`),
		Handler: runTerminal,
	}
}

// TerminalResult is the terminal tool's result.
type TerminalResult struct {
	Output          string  `json:"output"`
	ExitCode        int     `json:"exit_code"`
	Error           *string `json:"error"` // why nothing was run; null otherwise
	Status          string  `json:"status,omitempty"`
	ExitCodeMeaning string  `json:"exit_code_meaning,omitempty"`
	PTYNote         string  `json:"pty_note,omitempty"` // why there was no pseudo terminal
	TimedOut        bool    `json:"-"`                  // the model reads exit code 124 and the marker in the output
}

// notRun is the result of a command that was refused.
func notRun(status, format string, args ...any) string {
	message := fmt.Sprintf(format, args...)
	return encode(TerminalResult{ExitCode: -1, Error: &message, Status: status})
}

// allowedDir lists the characters a workdir may consist of.
var allowedDir = regexp.MustCompile(`^[A-Za-z0-9/\\:_\-.~ +@=,]+$`)

func runTerminal(ctx context.Context, call *Call) (string, error) {
	options := call.State.options
	raw := call.Args.Raw("command")
	if raw == nil {
		return notRun("error", "Invalid command: expected string, got null"), nil
	}
	text, _, err := call.Args.String("command")
	if err != nil {
		return notRun("error", "Invalid command: expected string, got %s", kindOf(raw)), nil
	}
	if strings.TrimSpace(text) == "" {
		return notRun("error", "Invalid command: it is empty"), nil
	}
	if strings.ContainsRune(text, 0) {
		return notRun("error", "Invalid command: it contains a NUL character"), nil
	}
	background, err := call.Args.Bool("background")
	if err != nil {
		return notRun("error", "%v", err), nil
	}
	var timeout time.Duration
	if !background {
		if timeout, err = terminalTimeout(call.Args, options); err != nil {
			return ErrorResult(err.Error()), nil
		}
		if options.RefuseLongLived {
			if advice := longLived(text); advice != "" {
				return notRun("error", "%s", advice), nil
			}
		}
	}
	dir, refusal, err := workdir(ctx, call)
	if err != nil || refusal != "" {
		return refusal, err
	}
	if background {
		return runBackground(ctx, call, text, dir)
	}
	result, err := call.State.Run(ctx, RunOptions{Command: text, Dir: dir, Timeout: timeout})
	if err != nil {
		return "", err
	}
	if terminal, err := call.Args.Bool("pty"); err == nil && terminal {
		result.PTYNote = foregroundPTY
	}
	return encode(result), nil
}

// workdir returns the absolute directory that a call asks for, "" when it asks for
// none, or the result that refuses it.
func workdir(ctx context.Context, call *Call) (dir, refusal string, err error) {
	dir, ok, err := call.Args.String("workdir")
	if err != nil {
		return "", notRun("error", "%v", err), nil
	}
	if !ok || dir == "" {
		return "", "", nil
	}
	if !allowedDir.MatchString(dir) {
		return "", notRun("blocked", "workdir %q contains characters that are not allowed; cd inside the command instead", cutChars(dir, 200)), nil
	}
	if dir, err = call.State.Resolve(ctx, dir); err != nil {
		var broken *InfrastructureError
		if errors.As(err, &broken) {
			return "", "", err
		}
		return "", notRun("error", "%v", err), nil
	}
	return dir, "", nil
}

func terminalTimeout(args Arguments, options Options) (time.Duration, error) {
	seconds, err := args.Int("timeout", 0)
	if err != nil {
		return 0, err
	}
	if !args.Has("timeout") {
		return options.TerminalTimeout, nil
	}
	timeout := time.Duration(seconds) * time.Second
	switch limit := options.MaxTerminalTimeout; {
	case seconds < 1:
		return 0, fmt.Errorf("invalid timeout: %d; give at least 1 second", seconds)
	case timeout > limit:
		return 0, fmt.Errorf("timeout %ds is more than the %ds allowed for a foreground command; use a smaller timeout or split the work", seconds, int(limit.Seconds()))
	}
	return timeout, nil
}

// RunOptions is one command as State.Run takes it.
type RunOptions struct {
	Command  string
	Dir      string        // absolute; "" means the session's directory
	Timeout  time.Duration // 0 means the terminal tool's default; there is no upper limit
	MaxChars int           // characters of output kept; 0 means the terminal tool's limit
}

// Run runs a command exactly once, in the model's session or, after Detach,
// outside it, and shapes its result as the terminal tool does. An error is an
// *InfrastructureError; a failed, killed or interrupted command is a result.
func (s *State) Run(ctx context.Context, o RunOptions) (TerminalResult, error) {
	box, err := s.Sandbox(ctx)
	if err != nil {
		return TerminalResult{}, err
	}
	if o.Timeout <= 0 {
		o.Timeout = s.options.TerminalTimeout
	}
	if o.MaxChars <= 0 {
		o.MaxChars = s.options.MaxTerminalChars
	}
	defer s.moved()
	result, err := box.Exec(ctx, sandbox.Command{
		Script:  o.Command,
		Session: s.session(),
		Dir:     o.Dir,
		Timeout: o.Timeout,
		// Enough bytes that 40 % and 60 % of the characters are there in any script.
		MaxOutput: utf8.UTFMax * (o.MaxChars + 1000),
		Merge:     true,
	})
	if errors.Is(err, sandbox.ErrInvalidCommand) {
		message := "The command can't be run: " + err.Error()
		return TerminalResult{ExitCode: -1, Error: &message, Status: "error"}, nil
	}
	if err != nil {
		// Never again: the command may have run, and running it twice is worse than not at all.
		return TerminalResult{}, &InfrastructureError{Op: "run a command in the sandbox", Err: err}
	}
	text := shapeOutput(result.Stdout, o.MaxChars)
	shaped := TerminalResult{ExitCode: result.ExitCode, TimedOut: result.TimedOut}
	switch {
	case result.TimedOut:
		shaped.ExitCode = sandbox.ExitTimeout
		text = mark(text, fmt.Sprintf("[Command timed out after %ds]", int(o.Timeout.Seconds())))
	case result.Cancelled:
		shaped.ExitCode = sandbox.ExitCancelled
		text = mark(text, "[Command interrupted]")
	default:
		shaped.ExitCodeMeaning = exitCodeMeaning(o.Command, result.ExitCode)
	}
	shaped.Output = text
	return shaped, nil
}

func mark(text, marker string) string {
	if text == "" {
		return marker
	}
	return text + "\n" + marker
}

// shapeOutput makes one text of what was kept: cut to maxChars with 40 % from the
// start and 60 % from the end, without terminal escapes, trimmed. Characters that
// the sandbox had already dropped are counted as one per byte.
func shapeOutput(o sandbox.Output, maxChars int) string {
	head, tail := string(o.Head), string(o.Tail)
	omitted := int(o.Omitted())
	if omitted == 0 {
		head, tail = head+tail, ""
	}
	total := utf8.RuneCountInString(head) + utf8.RuneCountInString(tail) + omitted
	if total > maxChars {
		if omitted == 0 {
			tail = head
		}
		first := maxChars * 2 / 5
		head, tail = cutChars(head, first), lastChars(tail, maxChars-first)
		shown := utf8.RuneCountInString(head) + utf8.RuneCountInString(tail)
		head += fmt.Sprintf("\n\n... [OUTPUT TRUNCATED - %d chars omitted out of %d total] ...\n\n", total-shown, total)
		head += tail
	} else {
		head += tail
	}
	return strings.TrimSpace(stripEscapes(strings.ToValidUTF8(head, "\uFFFD")))
}

// lastChars returns the last n characters of s.
func lastChars(s string, n int) string {
	i := len(s)
	for ; n > 0 && i > 0; n-- {
		_, size := utf8.DecodeLastRuneInString(s[:i])
		i -= size
	}
	return s[i:]
}

// escapes matches ECMA-48 sequences: CSI, OSC and other strings, two-character
// escapes, and their eight-bit forms.
var escapes = regexp.MustCompile("\x1b(?:\\[[0-?]*[ -/]*[@-~]|\\][^\x07\x1b]*(?:\x07|\x1b\\\\)?|[PX^_][^\x1b]*(?:\x1b\\\\)?|[ -/]+[0-~]|[0-~])|\u009b[0-?]*[ -/]*[@-~]")

func stripEscapes(s string) string {
	if !strings.ContainsAny(s, "\x1b\u009b") {
		return s
	}
	return escapes.ReplaceAllString(s, "")
}

// exitCodeMeaning explains exit codes that are not failures, by the last command of the line.
func exitCodeMeaning(command string, code int) string {
	if code == 0 {
		return ""
	}
	switch program := lastProgram(command); program {
	case "grep", "egrep", "fgrep", "rg", "ag", "ack":
		if code == 1 {
			return "No matches found (not an error)"
		}
	case "diff", "colordiff":
		if code == 1 {
			return "Files differ (expected, not an error)"
		}
	case "find":
		if code == 1 {
			return "Some directories could not be read (the results may still be usable)"
		}
	case "test", "[":
		if code == 1 {
			return "Condition is false (expected, not an error)"
		}
	case "curl":
		switch code {
		case 6:
			return "Could not resolve the host"
		case 7:
			return "Could not connect to the host"
		case 22:
			return "The server answered with an error status"
		case 28:
			return "The operation timed out"
		}
	case "git":
		if code == 1 {
			return "Often normal: for example, git diff returns 1 when files differ"
		}
	}
	return ""
}

// lastProgram returns the base name of the program in the last segment of a
// command line, after leading assignments; "" when there is none.
func lastProgram(command string) string {
	segment := command
	for rest, start := blankQuoted(command), 0; ; {
		i := strings.IndexAny(rest[start:], "|;&\n")
		if i < 0 {
			break
		}
		start += i + 1
		if strings.TrimSpace(rest[start:]) != "" {
			segment = command[start:]
		}
	}
	for _, word := range strings.Fields(segment) {
		if name, _, ok := strings.Cut(word, "="); ok && isVariable(name) {
			continue
		}
		return path.Base(word)
	}
	return ""
}

func isVariable(name string) bool {
	for i, c := range name {
		letter := c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return name != ""
}

// blankQuoted replaces quoted and backslash-escaped characters by spaces, so that
// operators inside them are not seen. Lengths and positions stay.
func blankQuoted(command string) string {
	out := []byte(command)
	var quote byte
	for i := 0; i < len(out); i++ {
		c := out[i]
		switch {
		case quote == 0 && (c == '\'' || c == '"'):
			quote, out[i] = c, ' '
		case quote == c:
			quote, out[i] = 0, ' '
		case c == '\\' && quote != '\'':
			out[i] = ' '
			if i+1 < len(out) {
				i++
				out[i] = ' '
			}
		case quote != 0:
			out[i] = ' '
		}
	}
	return string(out)
}
