package ssh

import (
	"context"
	"errors"
	"fmt"

	"github.com/hermes-env/hermes-env/internal/owner"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox/inside"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox/program"
)

// Provider makes sandboxes that are directory trees on one other machine. It
// implements sandbox.Provider.
type Provider struct {
	config   Config
	pool     *pool
	owner    owner.Owner
	program  program.Program
	noServer error // why program is none

	preparing chan struct{} // held while the machine is looked at
	machine   *machine      // guarded by preparing

	sandboxes sandbox.Register[*Sandbox]
}

var _ sandbox.Provider = (*Provider)(nil)

// New checks the config and returns a provider. It does not connect; Check does.
func New(c Config) (*Provider, error) {
	c, err := c.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("configure ssh sandboxes: %w", err)
	}
	p := &Provider{config: c, pool: newPool(c), owner: owner.This(), preparing: make(chan struct{}, 1)}
	p.program, p.noServer = program.Find(c.Binary) // Reap has no need of it
	return p, nil
}

// Name returns "ssh".
func (p *Provider) Name() string { return Name }

// Check connects, checks the machine and uploads the binary where it is not there
// yet, so that what is wrong is said before the first rollout.
func (p *Provider) Check(ctx context.Context) error {
	leave, err := p.sandboxes.Enter()
	if err != nil {
		return err
	}
	defer leave()
	_, err = p.prepared(ctx)
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
	leave, err := p.sandboxes.Enter()
	if err != nil {
		return nil, err
	}
	defer leave()
	m, err := p.prepared(ctx)
	if err != nil {
		return nil, err
	}
	s, err := p.start(ctx, m, spec)
	if err != nil {
		return nil, err
	}
	if err := p.sandboxes.Keep(ctx, s); err != nil {
		return nil, err
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
			Idle:          p.config.Idle,
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

// Close closes the sandboxes still open, waits for those being created, and ends
// the connections. A second Close does nothing.
func (p *Provider) Close(ctx context.Context) error {
	first, err := p.sandboxes.Close(ctx, 16)
	if !first {
		return nil
	}
	return errors.Join(err, p.pool.close())
}
