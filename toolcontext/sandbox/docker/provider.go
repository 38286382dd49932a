package docker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"time"

	"github.com/hermes-env/hermes-env/internal/owner"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox/program"
)

// Name is the backend's name in configs.
const Name = "docker"

// ErrNoEngine is wrapped by New when no container engine answers.
var ErrNoEngine = errors.New("no container engine answers")

// Provider makes sandboxes that are containers. It implements sandbox.Provider.
type Provider struct {
	config Config
	engine *engine
	at     endpoint
	local  bool // the engine is reached through a socket of this machine
	owner  owner.Owner
	binary program.Program
	// noBinary says why binary is none.
	noBinary error
	images   *images
	starts   *starts

	life context.Context // ends when Close has closed all sandboxes
	end  context.CancelFunc

	relays     chan struct{} // connections of sandboxes through their proxies
	networking chan struct{} // held while network is looked for
	network    string        // the shared network's id, once it is known

	sandboxes sandbox.Register[*box]

	mu      sync.Mutex
	upload  bool        // mounts are refused: the engine sees other files
	files   filesLevel  // lowered where the engine refuses
	share   serverShare // lowered where the engine refuses
	disks   diskImages
	noDisks string // why containers get no file systems of their own, "" where they do
	noQuota bool   // the storage driver can't bound the writable layer
	warned  map[string]bool
}

var (
	_ sandbox.Provider = (*Provider)(nil)
	_ sandbox.Preparer = (*Provider)(nil)
)

// connectLimit bounds the first question to an engine.
const connectLimit = 15 * time.Second

// New checks the config, connects to an engine and returns a provider. An error
// that wraps ErrNoEngine says how to get one.
func New(c Config) (*Provider, error) {
	c, err := c.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("configure docker sandboxes: %w", err)
	}
	e, at, err := findEngine(c)
	if err != nil {
		return nil, err
	}
	p := &Provider{
		config: c,
		engine: e,
		at:     at,
		local:  at.local(),
		owner:  owner.This(),
		starts: newStarts(c.MaxStarting),
		upload: c.Upload,
		warned: map[string]bool{},

		relays:     make(chan struct{}, c.MaxConnections),
		networking: make(chan struct{}, 1),
	}
	if e.info.OS != "linux" {
		return nil, errors.Join(fmt.Errorf("the engine at %s runs %s containers; switch it to linux ones", at.host, e.info.OS), e.close())
	}
	p.chooseServer()
	p.life, p.end = context.WithCancel(context.Background())
	p.images = newImages(p.life, e, c, buildLabels(p.labels("")))
	return p, nil
}

// findServer finds the program that serves inside containers, or why there is none.
func (p *Provider) findServer() (program.Program, error) {
	found, err := program.Find(p.config.Binary)
	if arch := p.engine.info.Arch; err == nil && found.Arch != arch {
		err = fmt.Errorf("%s is for %s and the engine runs %s; set %s to one for linux/%s", found.Path, found.Arch, arch, program.Variable, arch)
	}
	if err != nil {
		return program.Program{}, err
	}
	return found, nil
}

// chooseServer finds the program that serves inside containers. Where this program
// can't and no other is configured, commands go through the engine's exec call.
func (p *Provider) chooseServer() {
	if p.config.PlainExec {
		return
	}
	p.binary, p.noBinary = p.findServer()
	if p.noBinary != nil && p.config.Binary == "" {
		p.config.PlainExec = true
		p.warnOnce(fmt.Sprintf("commands in containers are slow (about 20 a second) and can't run in the background: %v", p.noBinary))
		p.noBinary = nil
	}
}

// Check reports why no sandbox could be made, which New does not: what others have
// left can be removed all the same.
func (p *Provider) Check() error { return p.noBinary }

// findEngine connects to the first engine that answers.
func findEngine(c Config) (*engine, endpoint, error) {
	list, err := endpoints(c)
	if err != nil {
		return nil, endpoint{}, fmt.Errorf("find a container engine: %w", err)
	}
	if len(list) == 0 {
		return nil, endpoint{}, fmt.Errorf("%w: there is no socket of Docker or podman in the usual places; %s", ErrNoEngine, howToStart())
	}
	var errs []error
	for _, at := range list {
		ctx, cancel := context.WithTimeout(context.Background(), connectLimit)
		e, err := connect(ctx, at)
		cancel()
		if err == nil {
			return e, at, nil
		}
		if errors.Is(err, os.ErrPermission) {
			err = fmt.Errorf("%w; add yourself to the group docker (sudo usermod -aG docker $USER, then log in again) or set DOCKER_HOST to a rootless engine", err)
		}
		errs = append(errs, err)
	}
	return nil, endpoint{}, fmt.Errorf("%w: %w; %s", ErrNoEngine, errors.Join(errs...), howToStart())
}

func howToStart() string {
	if runtime.GOOS == "darwin" {
		return "start Docker Desktop, or podman machine start, or set DOCKER_HOST"
	}
	return "start one (sudo systemctl start docker, or sudo dockerd), or set DOCKER_HOST"
}

// Name returns "docker".
func (p *Provider) Name() string { return Name }

// Create pulls or builds the image where that is needed, and starts a container.
// When ctx ends first, what was begun is finished and removed.
func (p *Provider) Create(ctx context.Context, spec sandbox.Spec) (sandbox.Sandbox, error) {
	s, err := p.create(ctx, spec)
	if err != nil {
		return nil, fmt.Errorf("create a docker sandbox: %w", err)
	}
	if starter, ok := s.driver.(sandbox.Starter); ok {
		return &Sandbox{s, starter}, nil
	}
	return s, nil
}

func (p *Provider) create(ctx context.Context, spec sandbox.Spec) (*box, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	if err := errors.Join(spec.Validate(), p.noBinary); err != nil {
		return nil, err
	}
	if orElse(spec.Network, p.config.Network) == sandbox.NetworkAllowlist && p.config.PlainExec {
		return nil, fmt.Errorf("a network with allowed hosts is %w without the server in the container: see HERMES_ENV_SANDBOX_BINARY in docs/docker.md", sandbox.ErrUnsupported)
	}
	leave, err := p.sandboxes.Enter()
	if err != nil {
		return nil, err
	}
	defer leave()
	release := p.Retain(spec)
	s, err := p.createFromImage(ctx, spec)
	if err != nil {
		release()
		return nil, err
	}
	s.release = release
	if err := s.awaitHealthy(ctx, spec.Healthcheck); err != nil {
		return nil, errors.Join(err, s.Close(ctx))
	}
	if err := p.sandboxes.Keep(ctx, s); err != nil {
		return nil, err
	}
	return s, nil
}

// createFromImage makes and starts a container, and once more when its image was
// removed between looking for it and using it.
func (p *Provider) createFromImage(ctx context.Context, spec sandbox.Spec) (*box, error) {
	if spec.Compose != nil {
		return p.createComposed(ctx, spec)
	}
	for try := 1; ; try++ {
		image, err := p.images.of(ctx, spec)
		if err != nil {
			return nil, err
		}
		if err := p.starts.acquire(ctx); err != nil {
			return nil, err
		}
		s, err := p.startSandbox(ctx, spec, image)
		p.starts.release(err == nil || context.Cause(ctx) != nil)
		if err == nil || try > 1 || !errors.Is(err, errNoImage) {
			return s, err
		}
	}
}

// warnOnce tells the user of something that works less well than it could.
func (p *Provider) warnOnce(message string) {
	p.mu.Lock()
	said := p.warned[message]
	p.warned[message] = true
	p.mu.Unlock()
	if !said {
		p.config.Warn(message)
	}
}

// Close closes the sandboxes still open, waits for those being created, and leaves
// the engine. A second Close does nothing.
func (p *Provider) Close(ctx context.Context) error {
	p.images.stop(errStopped) // pulls and builds end now
	first, err := p.sandboxes.Close(ctx, 8)
	if !first {
		return nil
	}
	p.images.close()
	p.end()
	return errors.Join(err, p.engine.close())
}
