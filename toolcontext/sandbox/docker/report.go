package docker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hermes-env/hermes-env/internal/owner"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
)

// Report is what an engine offers to sandboxes, for people who look for the reason
// why something does not work.
type Report struct {
	Endpoint string // URL, as in DOCKER_HOST
	From     string // what named the endpoint
	Local    bool   // it is a socket of this machine

	Podman              bool   // the engine is podman, not Docker
	Version, APIVersion string // of the engine; the API version is its newest
	OS, Arch            string // Arch as Go names it
	StorageDriver       string
	BackingFS           string // file system below the storage driver
	Root                string // directory of the engine's data, on the engine's machine
	CgroupVersion       string // "1", "2", or "" where the engine does not say
	CgroupDriver        string
	MemoryLimit         bool // containers' memory can be bounded
	SwapLimit           bool // and what they swap
	PIDsLimit           bool
	CPULimit            bool
	Seccomp             bool // system calls are filtered
	UserNamespace       bool // root in a container is nobody outside
	Rootless            bool

	Bridge     bool     // the network that sandboxes share is there
	Ranges     []string // its address ranges
	Images     int
	Held       int    // containers of harnesses that live
	Abandoned  int    // containers of dead ones
	Scratch    int    // images that a Try which was killed left behind
	HasImage   bool   // the engine has Config.Image
	Server     string // program that would serve inside containers
	ServerNone error  // why there is none
}

// labelTry marks the empty images of Try.
const labelTry = "hermes-env.try"

// Inspect asks the engine what it is. It makes and changes nothing. An error that
// wraps ErrNoEngine says that none answers; os.ErrPermission is wrapped where a
// socket refuses this user.
func Inspect(ctx context.Context, c Config) (Report, error) {
	c, err := c.withDefaults()
	if err != nil {
		return Report{}, fmt.Errorf("configure docker sandboxes: %w", err)
	}
	e, at, err := answering(ctx, c)
	if err != nil {
		return Report{}, err
	}
	r := Report{Endpoint: at.host, From: at.from, Local: at.local()}
	return r, errors.Join(r.fill(ctx, e, c), e.close())
}

// answering connects to the first engine that answers before ctx ends.
func answering(ctx context.Context, c Config) (*engine, endpoint, error) {
	list, err := endpoints(c)
	if err != nil {
		return nil, endpoint{}, fmt.Errorf("find a container engine: %w", err)
	}
	if len(list) == 0 {
		return nil, endpoint{}, fmt.Errorf("%w: there is no socket of Docker or podman in the usual places", ErrNoEngine)
	}
	var errs []error
	for _, at := range list {
		e, err := connect(ctx, at)
		if err == nil {
			return e, at, nil
		}
		errs = append(errs, err)
	}
	return nil, endpoint{}, fmt.Errorf("%w: %w", ErrNoEngine, errors.Join(errs...))
}

func (r *Report) fill(ctx context.Context, e *engine, c Config) error {
	if err := e.describe(ctx, r); err != nil {
		return err
	}
	ranges, err := e.bridge(ctx)
	if err != nil {
		return err
	}
	r.Bridge, r.Ranges = len(ranges) > 0, ranges
	p := &Provider{config: c, engine: e, local: r.Local, owner: owner.This()}
	found, err := e.list(ctx, labelPlace+"="+p.owner.Place)
	if err != nil {
		return fmt.Errorf("look for containers of dead runs: %w", err)
	}
	for _, c := range found {
		if p.abandoned(c.Labels) {
			r.Abandoned++
		} else {
			r.Held++
		}
	}
	if r.Scratch, err = e.countImages(ctx, labelTry); err != nil {
		return err
	}
	if c.Image != "" {
		_, err := e.image(ctx, c.Image)
		if err != nil && !errors.Is(err, errNoImage) {
			return fmt.Errorf("look at the image %s: %w", c.Image, err)
		}
		r.HasImage = err == nil
	}
	server, err := p.findServer()
	r.Server, r.ServerNone = server.Path, err
	return nil
}

// DiskBound says what keeps a sandbox within its disk.
type DiskBound string

// What there is.
const (
	DiskByEngine DiskBound = "engine" // the engine's storage driver
	DiskByMount  DiskBound = "mount"  // a file system of its own, on a loop device
	DiskByWatch  DiskBound = "watch"  // the server in it, which counts
	DiskByNone   DiskBound = "none"
)

// Tried is how a sandbox was that Try made.
type Tried struct {
	Took time.Duration // until it served
	Disk DiskBound
	// NoMount says why the sandbox has no file system of its own.
	NoMount string
}

// Try makes one sandbox without a network, as Create does, and removes it: from
// Config.Image when the engine has that, else from an empty image of its own, which
// goes too. Nothing is pulled.
func Try(ctx context.Context, c Config) (r Tried, err error) {
	p, err := New(c)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, p.Close(context.WithoutCancel(ctx))) }()
	image := p.config.Image
	if image != "" {
		if _, err := p.engine.image(ctx, image); err != nil {
			image = ""
		}
	}
	if image == "" {
		if image, err = p.engine.importEmpty(ctx, labelTry); err != nil {
			return r, fmt.Errorf("make an empty image: %w", err)
		}
		defer func() { err = errors.Join(err, p.dropTried(ctx, image)) }()
	}
	start := time.Now()
	s, err := p.Create(ctx, sandbox.Spec{Image: image, Network: sandbox.NetworkNone, Rollout: "try"})
	if err != nil {
		return r, err
	}
	r.Took = time.Since(start)
	r.Disk, r.NoMount = p.diskBound(s)
	return r, s.Close(context.WithoutCancel(ctx))
}

// diskBound says what keeps a sandbox within its disk.
func (p *Provider) diskBound(s sandbox.Sandbox) (bound DiskBound, noMount string) {
	if own, ok := s.(*Sandbox); ok && own.layer != "" {
		return DiskByMount, ""
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.config.DiskBytes < 0:
		return DiskByNone, ""
	case !p.noQuota:
		return DiskByEngine, ""
	case p.config.PlainExec:
		return DiskByNone, p.noDisks
	}
	return DiskByWatch, p.noDisks
}

// dropTried removes an empty image, also when ctx has ended.
func (p *Provider) dropTried(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), p.config.CloseLimit)
	defer cancel()
	if err := p.engine.removeImage(ctx, id); err != nil {
		return fmt.Errorf("remove the empty image %s: %w", id, err)
	}
	return nil
}
