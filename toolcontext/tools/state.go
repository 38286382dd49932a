package tools

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
)

// Options configures the built-in tools. The zero value is what benchmarks want.
type Options struct {
	// TerminalTimeout bounds a terminal command that names no timeout; 0 means 180 s.
	TerminalTimeout time.Duration
	// MaxTerminalTimeout is the longest timeout a command may ask for; 0 means 600 s.
	// It is never below TerminalTimeout.
	MaxTerminalTimeout time.Duration
	// MaxTerminalChars is how many characters of a command's output are shown, 40 %
	// from its start and 60 % from its end; 0 means 50,000.
	MaxTerminalChars int
	// RefuseLongLived makes the terminal refuse commands that look like servers or
	// background jobs, as hermes-agent does. Off by default: the rule also hits
	// harmless commands such as "pip install uvicorn".
	RefuseLongLived bool
	// AllowRepeatedReads switches off the answers that depend on earlier calls: the
	// "unchanged" note for a page read twice and the block on a call repeated four
	// times in a row. They are on by default, as in hermes-agent.
	AllowRepeatedReads bool
	// MaxReadChars is the size of a page above which read_file refuses; 0 means 100,000.
	MaxReadChars int
	// FileTimeout bounds one file operation; 0 means 60 s.
	FileTimeout time.Duration
	// SearchTimeout bounds one search; 0 means 60 s.
	SearchTimeout time.Duration
}

func (o Options) withDefaults() Options {
	fill := func(d *time.Duration, value time.Duration) {
		if *d <= 0 {
			*d = value
		}
	}
	fill(&o.TerminalTimeout, 180*time.Second)
	fill(&o.MaxTerminalTimeout, 600*time.Second)
	fill(&o.FileTimeout, 60*time.Second)
	fill(&o.SearchTimeout, 60*time.Second)
	o.MaxTerminalTimeout = max(o.MaxTerminalTimeout, o.TerminalTimeout)
	if o.MaxTerminalChars <= 0 {
		o.MaxTerminalChars = 50_000
	}
	if o.MaxReadChars <= 0 {
		o.MaxReadChars = 100_000
	}
	return o
}

// State is what the tools of one rollout share. It may be used from several goroutines at once.
type State struct {
	// UserTask is the beginning of the first user message, for tools that summarise.
	UserTask string

	options Options
	open    func(context.Context) (sandbox.Sandbox, error)

	mu       sync.Mutex
	detached bool   // see Detach
	cwd      string // the session's working directory; "" means ask it
	reads    readHistory
	failures map[string]int // patches that failed in a row, by path
	todo     todoList

	processes []*process // background processes of the model, the oldest first
	starting  int        // background processes about to be in that list
}

// NewState returns the state of a new rollout. open returns the rollout's one
// sandbox, creating it when needed; it is called for every operation.
func NewState(open func(context.Context) (sandbox.Sandbox, error), options Options) *State {
	return &State{options: options.withDefaults(), open: open}
}

// Sandbox returns the rollout's sandbox; its error is an *InfrastructureError.
func (s *State) Sandbox(ctx context.Context) (sandbox.Sandbox, error) {
	box, err := s.open(ctx)
	var broken *InfrastructureError
	if err != nil && !errors.As(err, &broken) {
		err = &InfrastructureError{Op: "open the sandbox", Err: err}
	}
	return box, err
}

// Detach ends the model's part of the rollout: from now on commands run outside the
// session the model used (so neither its working directory nor its exported
// variables matter), what it read is forgotten and repeated calls are no longer refused. Its
// background processes are forgotten too; killing them is the sandbox's part.
func (s *State) Detach() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.detached, s.cwd = true, ""
	s.reads, s.failures, s.processes = readHistory{}, nil, nil
}

// Attach undoes Detach: commands run in the model's session again, and nothing counts
// as read.
func (s *State) Attach() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.detached, s.cwd = false, ""
	s.reads = readHistory{}
}

// session says whether commands belong to the model's session.
func (s *State) session() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.detached
}

// moved records that a command may have changed the session's working directory.
func (s *State) moved() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cwd = ""
}

// note prepares the state for a call of the named tool.
func (s *State) note(tool string) {
	if tool == "read_file" || tool == "search_files" {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reads.interrupt()
}

// WorkingDir returns the directory that relative paths start from: where the
// session's last command left it. The session is asked once after each command.
func (s *State) WorkingDir(ctx context.Context) (string, error) {
	box, err := s.Sandbox(ctx)
	if err != nil {
		return "", err
	}
	s.mu.Lock()
	known, detached := s.cwd, s.detached
	s.mu.Unlock()
	switch {
	case detached:
		return box.Info().Dir, nil
	case known != "":
		return known, nil
	}
	// The dot keeps newlines at the end of a directory's name; "command" passes by a
	// function or an alias of that name.
	result, err := box.Exec(ctx, sandbox.Command{Script: `command pwd && printf .`, Session: true, Timeout: s.options.FileTimeout})
	if err != nil {
		return "", &InfrastructureError{Op: "ask for the working directory", Err: err}
	}
	dir, ok := strings.CutSuffix(string(result.Stdout.Bytes()), "\n.")
	if result.ExitCode != 0 || !ok || !path.IsAbs(dir) {
		// The command fails only when the session itself is spoilt; the start
		// directory is the best remaining guess.
		return box.Info().Dir, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.detached {
		s.cwd = dir
	}
	return dir, nil
}

// maxPath is the longest path Linux takes.
const maxPath = 4096

// Resolve makes a path of the model absolute inside the sandbox: "~" is the
// sandbox's home, relative paths start at WorkingDir. Links and ".." are left to
// the sandbox.
func (s *State) Resolve(ctx context.Context, name string) (string, error) {
	if strings.ContainsRune(name, 0) {
		return "", fmt.Errorf("invalid path %q: it contains a NUL character", cutChars(name, 200))
	}
	if len(name) > maxPath {
		return "", fmt.Errorf("invalid path %q…: it has %d bytes, more than the %d a path can have", cutChars(name, 80), len(name), maxPath)
	}
	box, err := s.Sandbox(ctx)
	if err != nil {
		return "", err
	}
	switch {
	case path.IsAbs(name):
		return name, nil
	case name == "~" || strings.HasPrefix(name, "~/"):
		return join(box.Info().Home, strings.TrimLeft(name[1:], "/")), nil
	}
	dir, err := s.WorkingDir(ctx)
	if err != nil {
		return "", err
	}
	return join(dir, name), nil
}

// join puts a relative name under dir. Unlike path.Join it keeps "..", which means
// something else where a directory is a link.
func join(dir, name string) string {
	for strings.HasPrefix(name, "./") {
		name = strings.TrimLeft(name[2:], "/")
	}
	if name == "." || name == "" {
		return dir
	}
	return strings.TrimSuffix(dir, "/") + "/" + name
}

// output is how a shell script of the tools ended.
type output struct {
	stdout, stderr []byte
	exit           int
	timedOut       bool
	cut            bool // stdout lost its middle
}

// shell runs a POSIX shell script with arguments outside the model's session, so
// that nothing the model exported or defined can change what it does.
func (s *State) shell(ctx context.Context, dir, script string, stdin []byte, timeout time.Duration, maxOutput int, args ...string) (output, error) {
	box, err := s.Sandbox(ctx)
	if err != nil {
		return output{}, err
	}
	command := sandbox.Command{
		Args:      append([]string{"sh", "-c", script, "sh"}, args...),
		Dir:       dir,
		Timeout:   timeout,
		MaxOutput: maxOutput,
	}
	if stdin != nil {
		command.Stdin = bytes.NewReader(stdin)
	}
	result, err := box.Exec(ctx, command)
	if errors.Is(err, sandbox.ErrInvalidCommand) {
		return output{}, fmt.Errorf("the file operation can't be run: %w", err)
	}
	if err != nil {
		return output{}, &InfrastructureError{Op: "run a file operation in the sandbox", Err: err}
	}
	if result.Cancelled {
		return output{}, fmt.Errorf("the file operation was interrupted: %w", context.Cause(ctx))
	}
	return output{
		stdout:   result.Stdout.Bytes(),
		stderr:   result.Stderr.Bytes(),
		exit:     result.ExitCode,
		timedOut: result.TimedOut,
		cut:      result.Stdout.Omitted() > 0,
	}, nil
}

// complaint returns what a failed script wrote to stderr, as one short line.
func (o output) complaint() error {
	if o.timedOut {
		return errors.New("the operation timed out")
	}
	text := strings.Join(strings.Fields(strings.ToValidUTF8(string(o.stderr), "�")), " ")
	if text == "" {
		text = fmt.Sprintf("exit code %d", o.exit)
	}
	return errors.New(cutChars(text, 300))
}
