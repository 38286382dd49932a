package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"sync"
	"time"

	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox/inside"
)

// maxRestarts is how often a container is started again; what ends it more often will
// not stop doing so.
const maxRestarts = 10

// server is the program inside a container. When the container ends by itself, which
// takes no more than a rollout that uses up its memory, it is started again with its
// files. It implements driver and what inside.Client does beyond that.
type server struct {
	box  *box
	dial func(ctx context.Context, since int64) (*inside.Client, *stream, error)

	mu       sync.Mutex
	client   *inside.Client
	at       *stream // to its server
	events   []sandbox.Event
	told     bool  // a result has said so
	since    int64 // see inside.Options.DiskSince
	restarts int
	note     string // why it was started again the last time
	stopped  string // why the harness has ended the container, "" when it has not
	leases   map[*lease]struct{}
	forbid   bool
	gone     bool // it has ended and is not started again
	closed   bool

	stopping sync.Mutex // guards stopped, which is asked for while mu is held
}

var (
	_ driver            = (*server)(nil)
	_ sandbox.Starter   = (*server)(nil)
	_ sandbox.Cleaner   = (*server)(nil)
	_ sandbox.Leaser    = (*server)(nil)
	_ sandbox.Restarter = (*Sandbox)(nil)
	_ sandbox.Leaser    = (*Sandbox)(nil)
	_ sandbox.Restarter = (*server)(nil)
	_ sandbox.Process   = (*process)(nil)
)

// current returns the client that is to be asked.
func (s *server) current() *inside.Client {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.client
}

// awake returns a client whose container runs as far as is known, after starting it
// again where that is needed.
func (s *server) awake(ctx context.Context) *inside.Client {
	c := s.current()
	select {
	case <-c.Done():
		s.revive(ctx, c)
		return s.current()
	default:
		return c
	}
}

// revive starts the container again after the end of a client's server, unless that
// was done already. It reports whether there is a new server. Where something outside of
// the sandbox has ended it, that is only done if the rollout has lost nothing by it: what
// it was doing is no measure of it any more.
func (s *server) revive(ctx context.Context, dead *inside.Client) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.client != dead {
		return true
	}
	if s.closed || s.gone {
		return false
	}
	why := s.box.provider.ending(s.box.container, s.at, s.whyStopped)
	event := s.endOf(dead, why)
	if s.forbid || !why.again || s.restarts >= maxRestarts || event.Lost && !why.inside {
		s.events, s.gone = append(s.events, event), true
		return false
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.box.provider.config.StartLimit)
	defer cancel()
	if since := dead.Server().DiskSince; since != 0 {
		s.since = since
	}
	client, at, err := s.dial(ctx, s.since)
	if err != nil {
		s.box.provider.warnOnce(fmt.Sprintf("sandbox %s ended (%s) and can't be started again: %v", s.box.info.ID, why.words, err))
		s.events, s.gone = append(s.events, event), true
		return false
	}
	dead.Drop()
	for l := range s.leases {
		l.release = client.Lease()
	}
	event.Kind = sandbox.EventRestarted
	s.client, s.at, s.note, s.told, s.events = client, at, why.words, false, append(s.events, event)
	s.restarts++
	return true
}

// explain has a client's errors say why the server at the other end of a stream has ended.
func (s *server) explain(o *inside.Options, at *stream) {
	ending := func() ending { return s.box.provider.ending(s.box.container, at, s.whyStopped) }
	o.Why = func() string { return ending().words }
	o.EndedInside = func() bool { return ending().inside }
}

// lostWords are what a call gets that was under way when the container ended.
func (s *server) lostWords() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.told = true
	return "[the sandbox was started again because " + s.note + ": this command and all other processes were ended; files are kept, but the shell's directory, variables and functions are lost]\n"
}

// untold returns what the next command's result has to say first, once.
func (s *server) untold() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.note == "" || s.told {
		return ""
	}
	s.told = true
	return "[before this command the sandbox was started again because " + s.note + ": all processes were ended; files are kept, but the shell's directory, variables and functions are lost]\n"
}

// outputFor returns the output that words for the reader belong to.
func outputFor(r *sandbox.Result, c sandbox.Command) *sandbox.Output {
	if c.Merge || c.Terminal != nil {
		return &r.Stdout
	}
	return &r.Stderr
}

// ended is the result of a command that ended with its container.
func ended(c sandbox.Command, words string) sandbox.Result {
	r := sandbox.Result{ExitCode: exitKilled}
	*outputFor(&r, c) = sandbox.Output{Head: []byte(words), Total: int64(len(words))}
	return r
}

// Exec runs a command to its end, once: one that was sent when the container ended is
// not run again.
func (s *server) Exec(ctx context.Context, c sandbox.Command) (sandbox.Result, error) {
	if c.Validate() != nil {
		return s.current().Exec(ctx, c)
	}
	client := s.awake(ctx)
	first := s.untold()
	r, err := client.Exec(ctx, c)
	if errors.Is(err, sandbox.ErrLost) && s.revive(ctx, client) {
		r, err = ended(c, s.lostWords()), nil
	}
	if err == nil && first != "" {
		o := outputFor(&r, c)
		o.Head = append([]byte(first), o.Head...)
		o.Total += int64(len(first))
	}
	return r, err
}

// restarted gives the loss of a call its meaning where there is a new server.
func (s *server) restarted(ctx context.Context, client *inside.Client, err error) error {
	if errors.Is(err, sandbox.ErrLost) && s.revive(ctx, client) {
		s.mu.Lock()
		defer s.mu.Unlock()
		return fmt.Errorf("%w, because %s", sandbox.ErrRestarted, s.note)
	}
	return err
}

// Upload unpacks an archive; see sandbox.Sandbox.
func (s *server) Upload(ctx context.Context, tar io.Reader, dir string) error {
	c := s.awake(ctx)
	return s.restarted(ctx, c, c.Upload(ctx, tar, dir))
}

// Download returns an archive; see sandbox.Sandbox.
func (s *server) Download(ctx context.Context, path string) (io.ReadCloser, error) {
	c := s.awake(ctx)
	r, err := c.Download(ctx, path)
	return r, s.restarted(ctx, c, err)
}

// KillAll ends every process. When the container ends meanwhile none is left either.
func (s *server) KillAll(ctx context.Context) error {
	c := s.awake(ctx)
	err := s.restarted(ctx, c, c.KillAll(ctx))
	if errors.Is(err, sandbox.ErrRestarted) {
		return nil
	}
	return err
}

// Clean makes an empty directory; see sandbox.Cleaner.
func (s *server) Clean(ctx context.Context, path string, mode fs.FileMode) error {
	c := s.awake(ctx)
	return s.restarted(ctx, c, c.Clean(ctx, path, mode))
}

// Remove removes a path; see sandbox.Cleaner.
func (s *server) Remove(ctx context.Context, path string) error {
	c := s.awake(ctx)
	return s.restarted(ctx, c, c.Remove(ctx, path))
}

// Info describes the sandbox.
func (s *server) Info() sandbox.Info { return s.current().Info() }

// Lease keeps the sandbox although nobody uses it; see sandbox.Leaser. It holds for
// the servers that come after this one too.
func (s *server) Lease() (release func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.leases == nil {
		s.leases = map[*lease]struct{}{}
	}
	l := &lease{s.client.Lease()}
	s.leases[l] = struct{}{}
	return sync.OnceFunc(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.leases, l)
		l.release()
	})
}

// lease is what somebody holds, whatever server there is.
type lease struct{ release func() }

// Events returns what happened to the container so far.
func (s *server) Events() []sandbox.Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	status, _ := s.client.Status()
	s.collect(status)
	s.noteEnd()
	return slices.Clone(s.events)
}

// noteEnd makes an event of the end of a server that nothing has asked to be started again.
// s.mu is held.
func (s *server) noteEnd() {
	select {
	case <-s.client.Done():
	default:
		return
	}
	if s.closed || s.gone {
		return
	}
	why := s.box.provider.ending(s.box.container, s.at, s.whyStopped)
	s.events, s.gone = append(s.events, s.endOf(s.client, why)), true
}

// endOf is the event of the end of a server.
func (s *server) endOf(dead *inside.Client, why ending) sandbox.Event {
	status, known := dead.Status()
	s.collect(status)
	return sandbox.Event{Kind: sandbox.EventEnded, Text: why.words, Inside: why.inside, Time: time.Now(), Lost: !known || status.Processes > 0 || status.Volatile}
}

// collect makes events of what a server said.
func (s *server) collect(status inside.Status) {
	for _, note := range status.Notes {
		if !slices.ContainsFunc(s.events, func(e sandbox.Event) bool { return e.Kind == sandbox.EventServer && e.Text == note }) {
			s.events = append(s.events, sandbox.Event{Kind: sandbox.EventServer, Text: note, Inside: true, Time: time.Now()})
		}
	}
}

// AllowRestarts says whether it may be; see sandbox.Restarter.
func (s *server) AllowRestarts(allow bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forbid = !allow
	if s.forbid && s.box.layer != "" {
		releaseSpare(s.box.layer) // for the verifier
	}
	s.told = s.told || !allow // it is no business of a verifier's commands
}

// Close gives the client up. Removing the container ends what runs in it.
func (s *server) Close(context.Context) error {
	s.mu.Lock()
	s.noteEnd()
	s.closed = true
	c := s.client
	s.mu.Unlock()
	c.Drop()
	return nil
}

// Start runs a command in the background; see sandbox.Starter.
func (s *server) Start(ctx context.Context, c sandbox.Command) (sandbox.Process, error) {
	client := s.awake(ctx)
	p, err := client.Start(ctx, c)
	if errors.Is(err, sandbox.ErrLost) && s.revive(ctx, client) {
		return &process{server: s, command: c, client: client, words: s.lostWords()}, nil
	}
	if err != nil {
		return nil, err
	}
	return &process{Process: p, server: s, command: c, client: client}, nil
}

// process is a command in the background whose container may end before it.
type process struct {
	sandbox.Process // nil when it ended while it was started
	server          *server
	command         sandbox.Command
	client          *inside.Client

	mu    sync.Mutex
	words string // set when it has ended with its container
}

// gone reports whether an error means that the process ended with its container, and
// how that is told.
func (p *process) gone(ctx context.Context, err error) (sandbox.Result, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	lost := errors.Is(err, sandbox.ErrLost) || errors.Is(err, sandbox.ErrClosed) && p.server.current() != p.client
	if p.words == "" && lost && p.server.revive(ctx, p.client) {
		p.words = p.server.lostWords()
	}
	if p.words == "" {
		return sandbox.Result{}, false
	}
	return ended(p.command, p.words), true
}

// PID returns the process id inside the sandbox.
func (p *process) PID() int {
	if p.Process == nil {
		return 0
	}
	return p.Process.PID()
}

// Poll returns what is known now; see sandbox.Process.
func (p *process) Poll(ctx context.Context) (r sandbox.Result, running bool, err error) {
	if p.Process != nil {
		r, running, err = p.Process.Poll(ctx)
	}
	if r, ok := p.gone(ctx, err); ok {
		return r, false, nil
	}
	return r, running, err
}

// Wait returns how the command ended; see sandbox.Process.
func (p *process) Wait(ctx context.Context) (r sandbox.Result, err error) {
	if p.Process != nil {
		r, err = p.Process.Wait(ctx)
	}
	if r, ok := p.gone(ctx, err); ok {
		return r, nil
	}
	return r, err
}

// Write hands input to the command; see sandbox.Process.
func (p *process) Write(ctx context.Context, b []byte) (n int, err error) {
	if p.Process != nil {
		n, err = p.Process.Write(ctx, b)
	}
	if _, ok := p.gone(ctx, err); ok {
		return n, fmt.Errorf("write to a process that ended with its sandbox: %w", sandbox.ErrEnded)
	}
	return n, err
}

// CloseInput ends the command's input; see sandbox.Process.
func (p *process) CloseInput(ctx context.Context) (err error) {
	if p.Process != nil {
		err = p.Process.CloseInput(ctx)
	}
	if _, ok := p.gone(ctx, err); ok {
		return fmt.Errorf("end the input of a process that ended with its sandbox: %w", sandbox.ErrEnded)
	}
	return err
}

// Kill ends the command with all its descendants; see sandbox.Process.
func (p *process) Kill(ctx context.Context) (err error) {
	if p.Process != nil {
		err = p.Process.Kill(ctx)
	}
	if _, ok := p.gone(ctx, err); ok {
		return nil
	}
	return err
}
