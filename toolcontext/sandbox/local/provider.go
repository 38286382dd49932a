package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/hermes-env/hermes-env/internal/owner"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
)

// Name is the backend's name in configs.
const Name = "local"

// Provider makes local sandboxes. It implements sandbox.Provider.
type Provider struct {
	config    Config
	owner     owner.Owner
	inherited map[string]string
	groups    *cgroups
	orphans   *orphans
	madeBase  bool
	bash      bool      // the shell is bash
	buffers   sync.Pool // *[]byte, what output is read into

	mu     sync.Mutex
	open   map[*Sandbox]struct{}
	closed bool
}

var _ sandbox.Provider = (*Provider)(nil)

// New checks the config, makes the base directory and returns a provider. Files that
// this process itself inherited open are marked to be closed in every child it starts.
func New(c Config) (*Provider, error) {
	c, err := c.withDefaults()
	if err != nil {
		return nil, err
	}
	made, err := makeBase(c.BaseDir)
	if err != nil && c.Place == nil { // in a Place, programs can run without
		return nil, err
	}
	p := &Provider{
		config:    c,
		owner:     owner.This(),
		inherited: inherited(c.Environ, c.PassEnv, c.Place != nil),
		orphans:   newOrphans(),
		madeBase:  made,
		bash:      filepath.Base(c.Shell) == "bash",
		open:      map[*Sandbox]struct{}{},
	}
	sealFiles()
	p.buffers.New = func() any { b := make([]byte, 32<<10); return &b }
	if c.Subreaper {
		if err := p.orphans.adopt(); err != nil {
			return nil, fmt.Errorf("become the reaper of orphaned processes: %w", err)
		}
	}
	if !c.NoCgroups {
		p.groups = findCgroups(p.owner, c.Shell)
	}
	return p, nil
}

// makeBase makes the directory all sandboxes of this user share, and reports
// whether it was not there before.
func makeBase(dir string) (made bool, err error) {
	_, err = os.Stat(dir)
	made = errors.Is(err, os.ErrNotExist)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return false, fmt.Errorf("make the directory for local sandboxes: %w; choose a base directory you can write to", err)
	}
	info, err := os.Stat(dir)
	if err != nil {
		return false, fmt.Errorf("look at the directory for local sandboxes: %w", err)
	}
	// Somebody else's directory in a shared /tmp could be swapped under us.
	if uid, ok := fileOwner(info); ok && uid != os.Geteuid() && os.Geteuid() != 0 {
		return false, fmt.Errorf("the directory for local sandboxes %s belongs to user %d: remove it or choose another base directory", dir, uid)
	}
	return made, nil
}

// Name returns "local".
func (p *Provider) Name() string { return Name }

// Create makes the sandbox's directories. It fails when the Spec asks for what
// takes a container, or names an absolute Dir that does not exist.
func (p *Provider) Create(ctx context.Context, spec sandbox.Spec) (sandbox.Sandbox, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, fmt.Errorf("create a local sandbox: %w", err)
	}
	if wanted := spec.ForContainers(); wanted != "" {
		return nil, fmt.Errorf("create a local sandbox with %s: %w; use a container backend, or leave it out", wanted, sandbox.ErrUnsupported)
	}
	if err := spec.Validate(); err != nil {
		return nil, fmt.Errorf("create a local sandbox: %w", err)
	}
	s := newSandbox(p, spec)
	if err := s.makeDirs(); err != nil {
		return nil, errors.Join(fmt.Errorf("create a local sandbox: %w", err), removeTree(s.root))
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, errors.Join(fmt.Errorf("create a local sandbox: the provider: %w", sandbox.ErrClosed), removeTree(s.root))
	}
	p.open[s] = struct{}{}
	return s, nil
}

func (p *Provider) forget(s *Sandbox) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.open, s)
}

// only reports whether no other sandbox is open.
func (p *Provider) only() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.open) <= 1
}

// Close closes the sandboxes still open.
func (p *Provider) Close(ctx context.Context) error {
	p.mu.Lock()
	p.closed = true
	left := make([]*Sandbox, 0, len(p.open))
	for s := range p.open {
		left = append(left, s)
	}
	p.mu.Unlock()

	var g errgroup.Group
	g.SetLimit(8)
	errs := make([]error, len(left))
	for i, s := range left {
		g.Go(func() error { errs[i] = s.Close(ctx); return nil })
	}
	_ = g.Wait() // the functions keep their errors
	err := errors.Join(errs...)
	if p.config.Subreaper {
		err = errors.Join(err, p.orphans.killAll(ctx, p.config.KillWait))
	}
	if p.madeBase {
		_ = os.Remove(p.config.BaseDir) // stays when somebody else uses it
	}
	return err
}

// Reap removes the sandboxes of processes that no longer run, their directories
// and what still runs in them.
func (p *Provider) Reap(ctx context.Context) (int, error) {
	entries, err := os.ReadDir(p.config.BaseDir)
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("look for abandoned local sandboxes: %w", err)
	}
	var (
		reaped int
		errs   []error
	)
	for _, entry := range entries {
		if err := context.Cause(ctx); err != nil {
			return reaped, errors.Join(append(errs, err)...)
		}
		o, err := owner.ParseName(entry.Name())
		if err != nil || !entry.IsDir() || o.Alive() {
			continue
		}
		done, err := p.reap(ctx, entry.Name())
		if done {
			reaped++
		}
		if err != nil {
			errs = append(errs, err)
		}
	}
	if p.groups != nil {
		p.groups.reap()
	}
	return reaped, errors.Join(errs...)
}

// reap ends one abandoned sandbox. Several harnesses may try at once: killing
// twice does no harm, and the rename lets one of them win the directory.
func (p *Provider) reap(ctx context.Context, id string) (bool, error) {
	root := filepath.Join(p.config.BaseDir, id)
	if err := eradicate(ctx, scope{sandbox: id, root: root}, p.config.KillWait); err != nil {
		return false, fmt.Errorf("end what still runs in the abandoned sandbox %s: %w", root, err)
	}
	mine := filepath.Join(p.config.BaseDir, p.owner.NewName())
	if err := os.Rename(root, mine); err != nil {
		if errors.Is(err, os.ErrNotExist) {
			return false, nil
		}
		return false, fmt.Errorf("take over the abandoned sandbox %s: %w", root, err)
	}
	if err := removeTree(mine); err != nil {
		return true, fmt.Errorf("remove the abandoned sandbox %s: %w", mine, err)
	}
	return true, nil
}
