package singularity

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/hermes-env/hermes-env/internal/owner"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox/inside"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox/program"
)

// Provider makes sandboxes that are instances. It implements sandbox.Provider.
type Provider struct {
	config   Config
	owner    owner.Owner
	program  program.Program
	noServer error         // why program is none
	fetching chan struct{} // held while an image is looked for
	starting chan struct{} // one for each instance being started

	sandboxes sandbox.Register[*Sandbox]
}

var _ sandbox.Provider = (*Provider)(nil)

// New checks the config and returns a provider. An error that wraps ErrNoCommand
// says what to install.
func New(c Config) (*Provider, error) {
	c, err := c.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("configure singularity sandboxes: %w", err)
	}
	p := &Provider{
		config: c, owner: owner.This(),
		fetching: make(chan struct{}, 1), starting: make(chan struct{}, c.MaxStarting),
	}
	p.program, p.noServer = program.Find(c.Binary)
	if strings.ContainsAny(p.program.Path, ":,") {
		p.noServer = fmt.Errorf("%s has a colon or a comma in its name, so it can't be mounted; move it", p.program.Path)
	}
	return p, nil
}

// Check reports why no sandbox could be made: what Reap has no need of is a program
// that can serve.
func (p *Provider) Check() error { return p.noServer }

// Name returns "singularity".
func (p *Provider) Name() string { return Name }

// Create starts an instance and the server in it.
func (p *Provider) Create(ctx context.Context, spec sandbox.Spec) (sandbox.Sandbox, error) {
	s, err := p.create(ctx, spec)
	if err != nil {
		return nil, fmt.Errorf("create a singularity sandbox: %w", err)
	}
	return s, nil
}

func (p *Provider) create(ctx context.Context, spec sandbox.Spec) (*Sandbox, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	if err := errors.Join(spec.Validate(), p.noServer); err != nil {
		return nil, err
	}
	if what := unsupported(spec); what != "" {
		return nil, fmt.Errorf("%s is %w", what, sandbox.ErrUnsupported)
	}
	leave, err := p.sandboxes.Enter()
	if err != nil {
		return nil, err
	}
	defer leave()
	image, err := p.image(ctx, spec)
	if err != nil {
		return nil, err
	}
	select {
	case p.starting <- struct{}{}:
		defer func() { <-p.starting }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	s, err := p.start(ctx, spec, image)
	if err != nil {
		return nil, err
	}
	if err := p.sandboxes.Keep(ctx, s); err != nil {
		return nil, err
	}
	return s, nil
}

// unsupported names the first field of a spec that instances can't honour.
func unsupported(spec sandbox.Spec) string {
	spec.Image, spec.CPUs, spec.MemoryBytes, spec.PIDs, spec.Network = "", 0, 0, 0, ""
	return spec.ForContainers()
}

// Where things are in an instance.
const (
	binaryPath = "/.hermes-env/hermes-env"
	homePath   = "/home/agent"
)

// startArguments are those of "instance start" for a spec.
func (p *Provider) startArguments(spec sandbox.Spec, image, name, tree string) []string {
	args := []string{
		"instance", "start",
		"--containall", "--cleanenv", "--writable-tmpfs",
		"--home", filepath.Join(tree, "home") + ":" + homePath,
		"--workdir", filepath.Join(tree, "scratch"),
		"--bind", p.program.Path + ":" + binaryPath + ":ro",
	}
	if spec.CPUs > 0 {
		args = append(args, "--cpus", strconv.FormatFloat(spec.CPUs, 'f', -1, 64))
	}
	if spec.MemoryBytes > 0 {
		args = append(args, "--memory", strconv.FormatInt(spec.MemoryBytes, 10))
	}
	if spec.PIDs > 0 {
		args = append(args, "--pids-limit", strconv.FormatInt(spec.PIDs, 10))
	}
	if spec.Network == sandbox.NetworkNone {
		args = append(args, "--net", "--network", "none")
	}
	return append(args, image, name)
}

// start starts an instance and its server, and removes both when that fails.
func (p *Provider) start(ctx context.Context, spec sandbox.Spec, image string) (*Sandbox, error) {
	name := p.owner.NewName()
	s := &Sandbox{provider: p, name: name, tree: filepath.Join(p.config.BaseDir, name)}
	err := p.startIn(ctx, s, spec, image)
	if err == nil && context.Cause(ctx) != nil {
		return nil, errors.Join(context.Cause(ctx), s.Close(ctx))
	}
	if err != nil {
		return nil, errors.Join(err, p.remove(ctx, name))
	}
	return s, nil
}

func (p *Provider) startIn(ctx context.Context, s *Sandbox, spec sandbox.Spec, image string) error {
	if err := p.makeTree(s.tree); err != nil {
		return err
	}
	bounded, cancel := context.WithTimeoutCause(ctx, p.config.StartLimit, fmt.Errorf("it took longer than %v", p.config.StartLimit))
	defer cancel()
	if _, err := p.run(bounded, p.startArguments(spec, image, s.name, s.tree)...); err != nil {
		return fmt.Errorf("start an instance of %s: %w", image, err)
	}
	at, err := p.attach("exec", "--cleanenv", "--pwd", homePath, "instance://"+s.name, binaryPath, inside.Word)
	if err != nil {
		return fmt.Errorf("start the server in the instance: %w", err)
	}
	s.attached = at
	s.Client, err = inside.Dial(at, inside.Options{
		Info:          sandbox.Info{Backend: Name, ID: s.name, Image: p.reference(spec)},
		Dir:           spec.Dir,
		Env:           commandEnvironment(spec),
		HandshakeWait: p.config.StartLimit,
		EndWait:       p.config.CloseLimit / 2,
		Why:           at.fate,
		Idle:          p.config.Idle,
	})
	if err != nil {
		at.end(0)
		return fmt.Errorf("the server in the instance of %s: %w", image, err)
	}
	return nil
}

// makeTree makes the directories of a rollout, in a directory nobody else can enter.
func (p *Provider) makeTree(tree string) error {
	if err := os.MkdirAll(p.config.BaseDir, 0o700); err != nil {
		return fmt.Errorf("make the directory of the sandboxes: %w", err)
	}
	info, err := os.Lstat(p.config.BaseDir)
	if err != nil {
		return fmt.Errorf("look at the directory of the sandboxes: %w", err)
	}
	if !info.IsDir() || info.Mode().Perm()&0o022 != 0 || !ownedByUser(info) {
		return fmt.Errorf("%s is no directory of yours that only you can write; remove it", p.config.BaseDir)
	}
	for _, dir := range []string{"", "home", "scratch"} {
		if err := os.Mkdir(filepath.Join(tree, dir), 0o700); err != nil {
			return fmt.Errorf("make the sandbox's directory: %w", err)
		}
	}
	return nil
}

// commandEnvironment is what commands get beyond the image's environment.
func commandEnvironment(spec sandbox.Spec) map[string]string {
	env := map[string]string{"PAGER": "cat", "GIT_PAGER": "cat", "TERM": "dumb"}
	for name, value := range spec.Env {
		env[name] = value
	}
	return env
}

// Close closes the sandboxes still open and waits for those being created. A second
// Close does nothing.
func (p *Provider) Close(ctx context.Context) error {
	_, err := p.sandboxes.Close(ctx, 8)
	return err
}
