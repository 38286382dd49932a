package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
)

// driver carries out what a sandbox is asked, in a container that runs: the client
// of the server inside, or plain calls of the engine.
type driver interface {
	Exec(ctx context.Context, c sandbox.Command) (sandbox.Result, error)
	Upload(ctx context.Context, tar io.Reader, dir string) error
	Download(ctx context.Context, path string) (io.ReadCloser, error)
	KillAll(ctx context.Context) error
	Close(ctx context.Context) error
	Info() sandbox.Info
}

var (
	_ driver = (*plain)(nil)
)

// box is a container and what carries out commands in it. It implements
// sandbox.Sandbox; a container without the server is no more than that.
type box struct {
	driver
	provider  *Provider
	container string // id
	info      sandbox.Info
	reserve   []string // capabilities of its server alone
	keepHome  bool     // its environment has HOME
	uploaded  bool     // the server was copied into it
	layer     string   // the directory of its writable layer, where that is a file system of its own

	release  func()                      // lets go of the image
	teardown func(context.Context) error // removes more than the container; nil where it is all
	// again starts the server once more; nil where it is the container's first process.
	again func(context.Context) (*stream, error)

	closing  sync.Once
	closeErr error
}

// Sandbox is a container with the server inside. It implements sandbox.Sandbox and
// sandbox.Starter.
type Sandbox struct {
	*box
	starter sandbox.Starter
}

var (
	_ sandbox.Sandbox = (*box)(nil)
	_ sandbox.Sandbox = (*Sandbox)(nil)
	_ sandbox.Starter = (*Sandbox)(nil)
)

// Start runs a command in the background; see sandbox.Starter.
func (s *Sandbox) Start(ctx context.Context, c sandbox.Command) (sandbox.Process, error) {
	return s.starter.Start(ctx, c)
}

// Lease keeps the sandbox although nobody uses it; see sandbox.Leaser.
func (s *Sandbox) Lease() (release func()) {
	if l, ok := s.driver.(sandbox.Leaser); ok {
		return l.Lease()
	}
	return func() {}
}

// Events returns what happened to the container; see sandbox.Restarter.
func (s *Sandbox) Events() []sandbox.Event {
	if r, ok := s.driver.(sandbox.Restarter); ok {
		return r.Events()
	}
	return nil
}

// AllowRestarts says whether it may be; see sandbox.Restarter.
func (s *Sandbox) AllowRestarts(allow bool) {
	if r, ok := s.driver.(sandbox.Restarter); ok {
		r.AllowRestarts(allow)
	}
}

// Info describes the sandbox. Its ID is the container's name.
func (s *box) Info() sandbox.Info { return s.info }

// Container returns the engine's id of the container.
func (s *box) Container() string { return s.container }

// Close ends every process and removes the container with its volumes, also when
// ctx has ended, within Config.CloseLimit. A second Close does nothing.
func (s *box) Close(ctx context.Context) error {
	s.closing.Do(func() { s.closeErr = s.close(ctx) })
	return s.closeErr
}

func (s *box) close(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx)
	bounded, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	// Ends calls under way with ErrClosed. Whether the far side still answers does not
	// matter: removing the container ends everything in it.
	_ = s.driver.Close(bounded)
	remove := func(ctx context.Context) error { return s.provider.removeContainer(ctx, s.container) }
	if s.teardown != nil {
		remove = s.teardown
	}
	err := remove(ctx)
	if s.layer != "" {
		_ = uncover(s.layer) // the engine has done so, unless it sees other mounts
	}
	s.provider.sandboxes.Forget(s)
	if s.release != nil {
		s.release()
	}
	if err != nil {
		return fmt.Errorf("close sandbox %s: %w", s.info.ID, err)
	}
	return nil
}

// errUnhealthy says that a health check never succeeded.
var errUnhealthy = errors.New("the sandbox did not become healthy")

// awaitHealthy runs the health check until it succeeds.
func (s *box) awaitHealthy(ctx context.Context, h *sandbox.Healthcheck) error {
	if h == nil {
		return nil
	}
	orElse := func(d, standard time.Duration) time.Duration {
		if d == 0 {
			return standard
		}
		return d
	}
	interval, timeout := orElse(h.Interval, 30*time.Second), orElse(h.Timeout, 30*time.Second)
	retries := h.Retries
	if retries == 0 {
		retries = 3
	}
	grace := time.Now().Add(h.StartPeriod)
	for failures := 0; ; {
		began := time.Now()
		r, err := s.Exec(ctx, sandbox.Command{Script: h.Script, Timeout: timeout, MaxOutput: 2000})
		if err != nil {
			return fmt.Errorf("run the health check: %w", err)
		}
		if r.Cancelled {
			return context.Cause(ctx)
		}
		if r.ExitCode == 0 {
			return nil
		}
		pause := interval
		if began.Before(grace) {
			pause = orElse(h.StartInterval, 5*time.Second)
		} else if failures++; failures >= retries {
			return fmt.Errorf("%w: its check failed %d times, at last with exit code %d: %s", errUnhealthy, failures, r.ExitCode, r.String())
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		}
	}
}
