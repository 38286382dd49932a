package ssh

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox/inside"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox/owner"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox/program"
)

// Provider makes sandboxes that are directory trees on one other machine. It
// implements sandbox.Provider.
type Provider struct {
	config  Config
	pool    *pool
	owner   owner.Owner
	program program.Program

	preparing chan struct{} // held while the machine is looked at
	machine   *machine      // guarded by preparing

	mu       sync.Mutex
	closed   bool
	open     map[*Sandbox]struct{}
	creating sync.WaitGroup // Create and Reap under way
}

var _ sandbox.Provider = (*Provider)(nil)

// New checks the config and returns a provider. It does not connect; Check does.
func New(c Config) (*Provider, error) {
	c, err := c.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("configure ssh sandboxes: %w", err)
	}
	found, err := program.Find(c.Binary)
	if err != nil {
		return nil, fmt.Errorf("configure ssh sandboxes: %w", err)
	}
	return &Provider{
		config: c, pool: newPool(c), owner: owner.This(), program: found,
		preparing: make(chan struct{}, 1), open: map[*Sandbox]struct{}{},
	}, nil
}

// Name returns "ssh".
func (p *Provider) Name() string { return Name }

// Check connects, checks the machine and uploads the binary where it is not there
// yet, so that what is wrong is said before the first rollout.
func (p *Provider) Check(ctx context.Context) error {
	if err := p.enter(); err != nil {
		return err
	}
	defer p.creating.Done()
	_, err := p.prepared(ctx)
	return err
}

// Create makes a tree on the machine and starts the server in it.
func (p *Provider) Create(ctx context.Context, spec sandbox.Spec) (sandbox.Sandbox, error) {
	s, err := p.create(ctx, spec)
	if err != nil {
		return nil, fmt.Errorf("create an ssh sandbox: %w", err)
	}
	return s, nil
}

func (p *Provider) create(ctx context.Context, spec sandbox.Spec) (*Sandbox, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	if err := spec.Validate(); err != nil {
		return nil, err
	}
	if what := spec.ForContainers(); what != "" {
		return nil, fmt.Errorf("%s is %w: sandboxes over ssh are directories of an account", what, sandbox.ErrUnsupported)
	}
	if err := p.enter(); err != nil {
		return nil, err
	}
	defer p.creating.Done()
	m, err := p.prepared(ctx)
	if err != nil {
		return nil, err
	}
	s, err := p.start(ctx, m, spec)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	closed := p.closed
	if !closed {
		p.open[s] = struct{}{}
	}
	p.mu.Unlock()
	if closed {
		return nil, errors.Join(fmt.Errorf("the provider: %w", sandbox.ErrClosed), s.Close(ctx))
	}
	return s, nil
}

// start starts the server in a new tree, and removes the tree when that fails.
func (p *Provider) start(ctx context.Context, m machine, spec sandbox.Spec) (*Sandbox, error) {
	bounded, cancel := context.WithTimeoutCause(ctx, p.config.StartLimit, fmt.Errorf("the sandbox did not start within %v", p.config.StartLimit))
	defer cancel()
	s := &Sandbox{provider: p, machine: m, name: p.owner.NewName()}
	at, err := p.serve(bounded, m, s.name)
	if err == nil {
		s.stream = at
		s.Client, err = inside.Dial(at, inside.Options{
			Info:          sandbox.Info{Backend: Name, ID: s.name},
			Dir:           spec.Dir,
			Env:           spec.Env,
			HandshakeWait: p.config.StartLimit,
			EndWait:       p.config.CloseLimit / 2,
			Why:           at.fate,
		})
	}
	if err == nil && context.Cause(ctx) != nil {
		return nil, errors.Join(context.Cause(ctx), s.Close(ctx))
	}
	if err == nil {
		return s, nil
	}
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	// Nothing is left behind where the machine can still be reached.
	return nil, errors.Join(err, p.remove(ctx, m, s.name, true))
}

// enter registers a running Create.
func (p *Provider) enter() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return fmt.Errorf("the provider: %w", sandbox.ErrClosed)
	}
	p.creating.Add(1)
	return nil
}

func (p *Provider) forget(s *Sandbox) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.open, s)
}

// Close closes the sandboxes still open, waits for those being created, and ends
// the connections. A second Close does nothing.
func (p *Provider) Close(ctx context.Context) error {
	p.mu.Lock()
	again := p.closed
	p.closed = true
	left := make([]*Sandbox, 0, len(p.open))
	for s := range p.open {
		left = append(left, s)
	}
	p.mu.Unlock()
	if again {
		return nil
	}
	var g errgroup.Group
	g.SetLimit(16)
	errs := make([]error, len(left))
	for i, s := range left {
		g.Go(func() error { errs[i] = s.Close(ctx); return nil })
	}
	_ = g.Wait() // the functions keep their errors
	p.creating.Wait()
	return errors.Join(errors.Join(errs...), p.pool.close())
}
