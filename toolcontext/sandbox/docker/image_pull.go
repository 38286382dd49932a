package docker

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
)

// PullPolicy says when images are pulled.
type PullPolicy string

// The policies for pulling.
const (
	PullMissing PullPolicy = "missing" // when the engine does not have them
	PullAlways  PullPolicy = "always"  // once by each provider, in case the registry has a newer one
	PullNever   PullPolicy = "never"
)

func (p PullPolicy) validate() error {
	switch p {
	case PullMissing, PullAlways, PullNever:
		return nil
	}
	return fmt.Errorf("there is no pull policy %q; there are missing, always and never", string(p))
}

// How often a pull is tried, and how long the pauses between are at first.
const (
	pullTries      = 4
	pullPause      = time.Second
	rateLimitPause = 15 * time.Second
)

// errStalled says that a pull or build made no progress for long.
var errStalled = errors.New("the engine reported no progress")

// fetch returns an image that the engine has, or pulls it.
func (i *images) fetch(ctx context.Context, ref string) (imageInfo, error) {
	info, err := i.engine.image(ctx, ref)
	switch {
	case err != nil && !errors.Is(err, errNoImage):
		return imageInfo{}, fmt.Errorf("look for the image %s: %w", ref, err)
	case err == nil && i.config.Pull != PullAlways:
		return info, nil
	case err != nil && i.config.Pull == PullNever:
		return imageInfo{}, fmt.Errorf("%w: the engine does not have %s, and env.image_pull is never; pull it by hand (docker pull %s) or load it (docker load, docker import)", ErrImageNotFound, ref, ref)
	}
	had := err == nil
	if had && isImageID(ref) {
		return info, nil // no registry knows it by that name
	}
	if err := i.share.pulls.Acquire(ctx, 1); err != nil {
		return imageInfo{}, context.Cause(ctx)
	}
	defer i.share.pulls.Release(1)
	if err := i.pull(ctx, ref); err != nil {
		return imageInfo{}, err
	}
	if info, err = i.engine.image(ctx, ref); err != nil {
		return imageInfo{}, fmt.Errorf("look for the image %s after pulling it: %w", ref, err)
	}
	if !had {
		i.budget.brought(imageKey(ref), ref, info)
	}
	return info, nil
}

// isImageID reports whether a reference is the digest of an image, as docker import
// and docker build print it.
func isImageID(ref string) bool { return strings.HasPrefix(ref, "sha256:") }

// pull pulls an image, again after trouble that may pass.
func (i *images) pull(ctx context.Context, ref string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, i.config.ImageLimit, fmt.Errorf("pulling the image %s took longer than %v", ref, i.config.ImageLimit))
	defer cancel()
	i.config.Progress(ref, "pulling")
	auth := i.logins.lookup(ctx, ref).encoded()
	cleared := false
	for try := 1; ; try++ {
		err := i.watched(ctx, func(ctx context.Context, progress func(jsonMessage)) error {
			return i.engine.pull(ctx, ref, auth, func(m jsonMessage) { progress(m) })
		}, i.report(ref))
		if err == nil {
			i.config.Progress(ref, "pulled")
			return nil
		}
		if cause := context.Cause(ctx); cause != nil {
			return cause
		}
		kind := diagnose(err)
		if kind == diskFull && !cleared && i.budget.clear(ctx) > 0 {
			cleared = true
			i.config.Progress(ref, "the engine's disk was full: removed images that are not needed now, pulling again")
			continue
		}
		if (kind != transient && kind != rateLimited) || try >= pullTries {
			return i.explainPull(ref, kind, err)
		}
		pause := i.pause(kind, try)
		i.config.Progress(ref, fmt.Sprintf("pulling again in %v: %v", pause.Round(100*time.Millisecond), err))
		if err := sleep(ctx, pause); err != nil {
			return err
		}
	}
}

// pause is how long to wait before the next try, longer each time and never the same
// for two who failed together.
func (i *images) pause(kind trouble, try int) time.Duration {
	base := i.config.pullPause
	if kind == rateLimited {
		base = i.config.rateLimitPause
	}
	d := base << (try - 1)
	return d + time.Duration(rand.Int64N(int64(d)/4+1))
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// watched runs work, and ends it when it reports no progress for a third of the time
// an image may take.
func (i *images) watched(ctx context.Context, work func(context.Context, func(jsonMessage)) error, report func(jsonMessage)) error {
	limit := i.config.ImageLimit / 3
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	dog := time.AfterFunc(limit, func() { cancel(fmt.Errorf("%w for %v", errStalled, limit)) })
	defer dog.Stop()
	err := work(ctx, func(m jsonMessage) {
		dog.Reset(limit)
		report(m)
	})
	if cause := context.Cause(ctx); err != nil && cause != nil {
		return cause
	}
	return err
}

// report passes the engine's progress on, one line for each change of state.
func (i *images) report(name string) func(jsonMessage) {
	states := map[string]string{}
	return func(m jsonMessage) {
		line := strings.TrimSpace(m.Stream)
		if line == "" && m.Status != "" && states[m.ID] != m.Status {
			states[m.ID] = m.Status
			line = strings.TrimSpace(m.ID + " " + m.Status)
		}
		if line != "" {
			i.config.Progress(name, line)
		}
	}
}
