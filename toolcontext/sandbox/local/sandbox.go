package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
)

// Sandbox is one rollout's directory tree and the processes started in it. It
// implements sandbox.Sandbox.
type Sandbox struct {
	provider *Provider
	spec     sandbox.Spec
	info     sandbox.Info
	root     string
	base     map[string]string // environment of every command
	since    uint64            // no process of the sandbox started before, in the unit of start times
	commands atomic.Int64      // how many were started
	session  session
	group    *cgroup // nil where there are no control groups

	life context.Context // ends when Close begins
	end  context.CancelFunc

	mu         sync.Mutex
	closed     bool
	calls      sync.WaitGroup // running methods and their streams
	leftovers  map[int]uint64 // sessions with background processes: id → when its command had ended
	background sync.WaitGroup // pumps that outlived their command
	pipes      map[*outputPipe]struct{}
	running    map[int]struct{} // processes of running commands

	closing  sync.Once
	closeErr error
}

func newSandbox(p *Provider, spec sandbox.Spec) *Sandbox {
	id := p.owner.NewName()
	root := filepath.Join(p.config.BaseDir, id)
	s := &Sandbox{
		provider:  p,
		spec:      spec,
		root:      root,
		since:     startClock(),
		leftovers: map[int]uint64{},
		pipes:     map[*outputPipe]struct{}{},
		running:   map[int]struct{}{},
		info: sandbox.Info{
			Backend: Name,
			ID:      id,
			Home:    filepath.Join(root, "home"),
			TempDir: filepath.Join(root, "tmp"),
		},
	}
	work := filepath.Join(root, "work")
	if place := p.config.Place; place != nil {
		s.info.Home, s.info.TempDir, work = place.Home, place.TempDir, place.Dir
	}
	s.info.Dir = s.resolve(spec.Dir, work)
	s.base = s.baseEnvironment()
	s.session.lock = make(chan struct{}, 1)
	s.life, s.end = context.WithCancel(context.Background())
	return s
}

// stateDir holds what passes between the harness and its shells. The first script
// makes it.
func (s *Sandbox) stateDir() string { return filepath.Join(s.root, "state") }

func (s *Sandbox) makeDirs() error {
	if s.provider.config.Place != nil {
		if err := os.MkdirAll(s.info.Dir, 0o755); err != nil {
			return fmt.Errorf("make its working directory: %w", err)
		}
		return nil
	}
	for _, dir := range []string{s.root, s.info.Home, filepath.Join(s.root, "work"), s.info.TempDir} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return fmt.Errorf("make its directory: %w; check the free space (df -h, df -i) and the permissions", err)
		}
	}
	if err := writeOwner(s.provider.owner, s.root, s.provider.config.Run, s.spec.Rollout); err != nil {
		return fmt.Errorf("note its owner: %w; check the free space (df -h, df -i)", err)
	}
	if filepath.IsAbs(s.spec.Dir) {
		if err := canEnter(s.info.Dir); err != nil {
			return fmt.Errorf("use %s as working directory: %w; the local backend uses this machine's directories as they are", s.info.Dir, err)
		}
		return nil
	}
	if err := os.MkdirAll(s.info.Dir, 0o755); err != nil {
		return fmt.Errorf("make its working directory: %w", err)
	}
	return nil
}

// Info describes the sandbox.
func (s *Sandbox) Info() sandbox.Info { return s.info }

// begin registers a running method, which must call the returned function when done.
func (s *Sandbox) begin() (func(), error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, sandbox.ErrClosed
	}
	s.calls.Add(1)
	return s.calls.Done, nil
}

// everything reports whether all processes there are belong to the sandbox.
func (s *Sandbox) everything() bool {
	return s.provider.config.Place != nil && s.provider.config.Place.Everything
}

// mayEndAll returns the mark of scopes that may end all processes there are as a last
// resort; nil where they may not.
func (s *Sandbox) mayEndAll() *atomic.Bool {
	if !s.everything() {
		return nil
	}
	return new(atomic.Bool)
}

// scope covers every process of the sandbox.
func (s *Sandbox) scope() scope {
	only := s.provider.only()
	s.mu.Lock()
	defer s.mu.Unlock()
	sc := scope{
		sandbox:      s.info.ID,
		root:         s.root,
		since:        s.since,
		sessions:     make(map[int]uint64, len(s.leftovers)),
		group:        s.group,
		orphans:      s.provider.orphans,
		claimOrphans: only,
		everything:   s.everything(),
		lastResort:   s.mayEndAll(),
	}
	for id, ended := range s.leftovers {
		sc.sessions[id] = ended
	}
	for pid := range s.running {
		sc.children = append(sc.children, pid)
	}
	for p := range s.pipes {
		sc.pipes = append(sc.pipes, p.inode)
	}
	return sc
}

// KillAll ends every process started in the sandbox. Commands still running return
// with the exit code of SIGKILL.
func (s *Sandbox) KillAll(ctx context.Context) error {
	done, err := s.begin()
	if err != nil {
		return err
	}
	defer done()
	return s.killAll(ctx)
}

func (s *Sandbox) killAll(ctx context.Context) error {
	if s.commands.Load() == 0 && !s.everything() {
		return nil
	}
	if err := eradicate(ctx, s.scope(), s.provider.config.KillWait); err != nil {
		return fmt.Errorf("end the processes of sandbox %s: %w", s.info.ID, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.leftovers)
	return nil
}

// Close ends every process, interrupts running calls with sandbox.ErrClosed and
// removes the sandbox's directory. It goes on when ctx ends before all is gone:
// what is left then is in the error.
func (s *Sandbox) Close(ctx context.Context) error {
	s.closing.Do(func() { s.closeErr = s.close(ctx) })
	return s.closeErr
}

func (s *Sandbox) close(ctx context.Context) error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.end()
	// Running commands see the end of life and kill what is theirs. A call that its
	// caller's reader holds up is not waited for longer than a kill may take.
	idle := make(chan struct{})
	go func() { s.calls.Wait(); close(idle) }()
	timer := time.NewTimer(s.provider.config.KillWait)
	select {
	case <-idle:
	case <-timer.C:
	}
	timer.Stop()
	// A cancelled rollout still has to be cleaned up; KillWait bounds it.
	kill := s.killAll(context.WithoutCancel(ctx))
	s.mu.Lock()
	for p := range s.pipes {
		p.close() // whoever escaped and holds the other end must not hold us
	}
	s.mu.Unlock()
	s.background.Wait()
	s.group.remove()
	err := removeTree(s.root)
	if err != nil {
		err = fmt.Errorf("remove the directory of sandbox %s: %w; remove %s by hand", s.info.ID, err, s.root)
	}
	s.provider.forget(s)
	return errors.Join(kill, err)
}
