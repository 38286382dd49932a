package tools

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
)

const (
	maxProcesses = 64
	// rollingChars is how much of the end of a process's output is kept.
	rollingChars = 200_000
	// rollingBytes makes the sandbox keep that many characters in any script: the end
	// is 60 % of what it keeps.
	rollingBytes = rollingChars*utf8.UTFMax*10/6 + 100
	// keepEnded is how long a process that has ended stays in the list.
	keepEnded   = 30 * time.Minute
	processMark = "proc_"
	// killedCode is what is reported for a process that the model ended, as
	// hermes-agent does: minus the number of SIGTERM.
	killedCode = -15
)

// process is a background process the model has started.
type process struct {
	id, command, dir string
	pid              int
	terminal         bool
	started          time.Time
	handle           sandbox.Process

	mu   sync.Mutex
	last *snapshot // once it has ended
}

// snapshot is what is known of a process at one moment.
type snapshot struct {
	text    string // the end of its output, made readable
	cut     bool   // output before text was dropped
	running bool
	uptime  time.Duration
	// What follows is set once it has ended.
	code           int
	reason, source string
}

func (v *snapshot) status() string {
	if v.running {
		return "running"
	}
	return "exited"
}

// exitCode is nil while the process runs.
func (v *snapshot) exitCode() *int {
	if v.running {
		return nil
	}
	return &v.code
}

// look asks the sandbox how the process is. Once it has ended nobody is asked again.
func (p *process) look(ctx context.Context) (*snapshot, error) {
	if last := p.ending(); last != nil {
		return last, nil
	}
	r, running, err := p.handle.Poll(ctx)
	switch {
	case errors.Is(err, sandbox.ErrEnded):
		return p.end(&snapshot{code: -1, reason: "lost", uptime: time.Since(p.started)}), nil
	case err != nil:
		return nil, processError(ctx, "look after a background process", err)
	case !running:
		return p.finish(r), nil
	}
	v := &snapshot{running: true, uptime: time.Since(p.started)}
	v.text, v.cut = rollingText(r.Stdout, true, p.terminal)
	return v, nil
}

// finish takes over how the process ended.
func (p *process) finish(r sandbox.Result) *snapshot {
	v := &snapshot{code: r.ExitCode, reason: "exited", uptime: r.Duration}
	v.text, v.cut = rollingText(r.Stdout, false, p.terminal)
	if r.Cancelled {
		v.code, v.reason, v.source = killedCode, "killed", "process.kill"
	}
	return p.end(v)
}

func (p *process) ending() *snapshot {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.last
}

// end keeps the first ending that is found.
func (p *process) end(v *snapshot) *snapshot {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.last == nil {
		p.last = v
	}
	return p.last
}

// processError tells a call that was interrupted from a sandbox that failed.
func processError(ctx context.Context, op string, err error) error {
	if ctx.Err() != nil && !errors.Is(err, sandbox.ErrClosed) && !errors.Is(err, sandbox.ErrLost) {
		return fmt.Errorf("%s: %w", op, context.Cause(ctx))
	}
	return &InfrastructureError{Op: op, Err: err}
}

// rollingText makes the end of what was kept readable: valid text without terminal
// escapes. cut says that something before it was dropped.
func rollingText(o sandbox.Output, running, terminal bool) (text string, cut bool) {
	raw := o.Tail
	if cut = o.Omitted() > 0; cut {
		for i := 0; i < utf8.UTFMax-1 && len(raw) > 0 && !utf8.RuneStart(raw[0]); i++ {
			raw = raw[1:] // the rest of a character whose start was dropped
		}
	} else {
		raw = o.Bytes()
	}
	if running {
		raw = wholeCharacters(raw)
	}
	text = strings.ToValidUTF8(string(raw), "\uFFFD")
	if last := lastChars(text, rollingChars); len(last) < len(text) {
		text, cut = last, true
	}
	text = stripEscapes(text)
	if terminal {
		text = strings.ReplaceAll(text, "\r\n", "\n")
	}
	return text, cut
}

// wholeCharacters drops a character at the end that has not fully arrived.
func wholeCharacters(b []byte) []byte {
	for i := 1; i < utf8.UTFMax && i <= len(b); i++ {
		if c := b[len(b)-i]; utf8.RuneStart(c) {
			if !utf8.FullRune(b[len(b)-i:]) {
				return b[:len(b)-i]
			}
			return b
		}
	}
	return b
}

// processList returns the processes, the oldest first, without those that ended
// long ago.
func (s *State) processList() []*process {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dropEnded(func(p *process, v *snapshot) bool {
		return time.Since(p.started)-v.uptime > keepEnded
	})
	return append([]*process(nil), s.processes...)
}

// dropEnded drops the processes that are known to have ended and that old says are
// not needed any more. The caller holds mu.
func (s *State) dropEnded(old func(*process, *snapshot) bool) {
	kept := s.processes[:0:0]
	for _, p := range s.processes {
		if v := p.ending(); v == nil || !old(p, v) {
			kept = append(kept, p)
		}
	}
	s.processes = kept
}

// errTooMany says that no further process is taken.
var errTooMany = fmt.Errorf("%d background processes are running, and no more are taken; end some with the process tool", maxProcesses)

// makeRoom reserves a place for one more process; release gives it back or fills
// it. When all places are taken the oldest process that has ended makes way.
func (s *State) makeRoom(ctx context.Context) error {
	if s.reserve() {
		return nil
	}
	for _, p := range s.processList() {
		if _, err := p.look(ctx); err != nil {
			return err
		}
	}
	s.mu.Lock()
	dropped := false
	s.dropEnded(func(*process, *snapshot) bool {
		first := !dropped
		dropped = true
		return first
	})
	s.mu.Unlock()
	if !s.reserve() {
		return errTooMany
	}
	return nil
}

func (s *State) reserve() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.processes)+s.starting >= maxProcesses {
		return false
	}
	s.starting++
	return true
}

// settle fills the place that makeRoom has reserved, or gives it back when p is
// nil. It reports false when the model's part has ended since it asked for p.
func (s *State) settle(p *process, detached bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.starting--
	if p == nil || s.detached != detached {
		return false
	}
	s.processes = append(s.processes, p)
	return true
}

// findProcess returns the process whose id starts with the given text, with or
// without the mark that all ids start with. why says in the model's words why there is none.
func (s *State) findProcess(id string) (found *process, why string) {
	prefix := strings.TrimPrefix(strings.TrimSpace(id), processMark)
	shown := cutChars(id, 100)
	if prefix == "" {
		return nil, fmt.Sprintf("No process with ID %s", shown)
	}
	for _, p := range s.processList() {
		switch rest := strings.TrimPrefix(p.id, processMark); {
		case rest == prefix:
			return p, ""
		case !strings.HasPrefix(rest, prefix):
		case found != nil:
			return nil, fmt.Sprintf("The ID %s is ambiguous: it fits %s and %s", shown, found.id, p.id)
		default:
			found = p
		}
	}
	if found == nil {
		return nil, fmt.Sprintf("No process with ID %s", shown)
	}
	return found, ""
}

// newProcessID returns an id that no other process has.
func newProcessID() string {
	var b [6]byte
	_, _ = rand.Read(b[:]) // never fails
	return processMark + hex.EncodeToString(b[:])
}
