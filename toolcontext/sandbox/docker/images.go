package docker

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
)

// images gets images for sandboxes: each is pulled or built once, however many
// rollouts want it at the same time, and kept while somebody needs it.
type images struct {
	engine *engine
	config Config
	share  *Share
	logins *logins
	budget *budget
	labels map[string]string // of images built here
	// classic is set once the engine has shown that its BuildKit can't be used.
	classic atomic.Bool

	life context.Context // waiting for images ends with it
	stop context.CancelCauseFunc
	work sync.WaitGroup // the budget's goroutine

	mu      sync.Mutex
	known   map[string]imageInfo
	hasTemp map[string]bool // image id → whether it has a /tmp
}

// errStopped ends the waiting for images when the provider is closed.
var errStopped = fmt.Errorf("the provider: %w", sandbox.ErrClosed)

func newImages(life context.Context, e *engine, c Config, labels map[string]string) *images {
	i := &images{
		engine: e, config: c, share: c.Share, labels: labels,
		logins: &logins{get: c.Getenv, warn: c.Warn, warned: map[string]bool{}},
		budget: newBudget(c.ImageBudget, c.ImageIdle),
		known:  map[string]imageInfo{}, hasTemp: map[string]bool{},
	}
	i.budget.remove, i.budget.forget = e.untag, i.forgetKey
	i.budget.tell = c.Progress
	i.life, i.stop = context.WithCancelCause(life)
	if c.ImageBudget > 0 {
		i.work.Go(func() { i.budget.keep(i.life) })
	}
	return i
}

// close ends the waiting for images and removes those that are too many.
func (i *images) close() {
	i.stop(errStopped)
	i.work.Wait()
}

// imageKey is what an image is known by here, and buildKey one that is built.
func imageKey(ref string) string { return "image\x00" + ref }

func buildKey(dir string, o sandbox.BuildOptions) string {
	return fmt.Sprintf("build\x00%s\x00%s\x00%s\x00%q\x00%v", filepath.Clean(dir), o.Dockerfile, o.Target, o.Args, o.Force)
}

// key is what the image of a spec is known by.
func (i *images) key(spec sandbox.Spec) string {
	switch {
	case spec.Build != "":
		return buildKey(spec.Build, spec.BuildOptions)
	case spec.Image != "":
		return imageKey(spec.Image)
	}
	return imageKey(i.config.Image)
}

// of returns the image of a spec, which the engine then has.
func (i *images) of(ctx context.Context, spec sandbox.Spec) (imageInfo, error) {
	switch {
	case spec.Build != "":
		return i.built(ctx, spec.Build, spec.BuildOptions)
	case spec.Image != "":
		info, err := i.named(ctx, spec.Image)
		if err != nil && spec.ImageHint != "" && ctx.Err() == nil {
			err = fmt.Errorf("%w; %s", err, spec.ImageHint)
		}
		return info, err
	case i.config.Image != "":
		return i.named(ctx, i.config.Image)
	}
	return imageInfo{}, errors.New("neither the item nor the configuration names an image; set env.docker_image (--env.docker_image IMAGE)")
}

// named returns an image that the engine has, or pulls it.
func (i *images) named(ctx context.Context, ref string) (imageInfo, error) {
	return i.once(ctx, imageKey(ref), "", func(ctx context.Context) (imageInfo, error) { return i.fetch(ctx, ref) })
}

// once runs get for a key unless its result is known or on its way. What is on its way
// is shared with other providers, apart from what only this one wants (own).
func (i *images) once(ctx context.Context, key, own string, get func(context.Context) (imageInfo, error)) (imageInfo, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(i.life, func() { cancel(context.Cause(i.life)) })()
	i.mu.Lock()
	info, ok := i.known[key]
	i.mu.Unlock()
	if ok {
		return info, nil
	}
	info, err := i.share.once(ctx, i.engine.info.Endpoint+"\x00"+string(i.config.Pull)+"\x00"+own+key, get)
	if err == nil {
		i.mu.Lock()
		i.known[key] = info
		i.mu.Unlock()
	}
	return info, err
}

// forget makes the next use of an image look for it again: it was removed meanwhile.
func (i *images) forget(id string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for key, info := range i.known {
		if info.ID == id {
			delete(i.known, key)
		}
	}
}

func (i *images) forgetKey(key string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	delete(i.known, key)
}

// Prepare pulls or builds the image of a spec, or those of its compose project; see
// sandbox.Preparer.
func (p *Provider) Prepare(ctx context.Context, spec sandbox.Spec) error {
	err := p.prepareImages(ctx, spec)
	if err != nil {
		return fmt.Errorf("prepare a docker sandbox: %w", err)
	}
	return nil
}

func (p *Provider) prepareImages(ctx context.Context, spec sandbox.Spec) error {
	if err := spec.Validate(); err != nil {
		return err
	}
	leave, err := p.sandboxes.Enter()
	if err != nil {
		return err
	}
	defer leave()
	if spec.Compose == nil {
		_, err := p.images.of(ctx, spec)
		return err
	}
	j, err := p.newProject(spec)
	if err != nil {
		return err
	}
	return j.getImages(ctx)
}

// Retain keeps the image of a spec, or those of its compose project; see
// sandbox.Preparer.
func (p *Provider) Retain(spec sandbox.Spec) (release func()) {
	if spec.Compose != nil {
		j, err := p.newProject(spec)
		if err != nil {
			return func() {} // Create will say why
		}
		return j.retain()
	}
	return p.images.budget.retain(p.images.key(spec))
}

// ReapImages removes the images that runs of this machine built whose processes are
// dead, and returns how many those were and their size in bytes. With dryRun it only
// counts. Images that containers use stay.
func (p *Provider) ReapImages(ctx context.Context, dryRun bool) (n int, size int64, err error) {
	found, err := p.engine.listImages(ctx, labelBuildPlace+"="+p.owner.Place)
	if err != nil {
		return 0, 0, fmt.Errorf("look for images of dead runs: %w", err)
	}
	var errs []error
	for _, image := range found {
		if !p.abandoned(buildOwner(image.Labels)) {
			continue
		}
		name := image.Tag
		if name == "" {
			name = image.ID
		}
		if !dryRun {
			if err := p.engine.untag(ctx, name); err != nil {
				errs = append(errs, fmt.Errorf("remove the image %s: %w", name, err))
				continue
			}
		}
		n++
		size += image.Size
	}
	return n, size, errors.Join(errs...)
}

// imageIdle is how long an image is kept that nobody needs, although they are too many.
const imageIdle = 30 * time.Second
