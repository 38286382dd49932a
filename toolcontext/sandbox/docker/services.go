package docker

import (
	"context"
	"errors"
	"fmt"

	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
)

var (
	_ sandbox.ServiceKeeper = (*Sandbox)(nil)
	_ sandbox.Watcher       = (*Sandbox)(nil)
	_ sandbox.Supervisor    = (*Sandbox)(nil)
	_ sandbox.ServiceKeeper = (*server)(nil)
	_ sandbox.Watcher       = (*server)(nil)
)

// KillOthers ends everything but services; see sandbox.ServiceKeeper. A container that
// ends meanwhile has none left.
func (s *server) KillOthers(ctx context.Context, keep sandbox.Keep) (kept, ended []sandbox.Service, err error) {
	c := s.awake(ctx)
	kept, ended, err = c.KillOthers(ctx, keep)
	if err = s.restarted(ctx, c, err); errors.Is(err, sandbox.ErrRestarted) {
		return nil, nil, nil
	}
	return kept, ended, err
}

// Watch begins to note changes; see sandbox.Watcher.
func (s *server) Watch(ctx context.Context, dirs []string) error {
	return s.current().Watch(ctx, dirs)
}

// Watched returns what was noted; see sandbox.Watcher.
func (s *server) Watched(ctx context.Context, end bool) ([]sandbox.WatchEvents, bool, error) {
	return s.current().Watched(ctx, end)
}

// KillOthers ends everything but services; see sandbox.ServiceKeeper.
func (s *box) KillOthers(ctx context.Context, keep sandbox.Keep) (kept, ended []sandbox.Service, err error) {
	if k, ok := s.driver.(sandbox.ServiceKeeper); ok {
		return k.KillOthers(ctx, keep)
	}
	return nil, nil, fmt.Errorf("keep services without the server in the container: %w", sandbox.ErrUnsupported)
}

// Watch begins to note changes; see sandbox.Watcher.
func (s *box) Watch(ctx context.Context, dirs []string) error {
	if w, ok := s.driver.(sandbox.Watcher); ok {
		return w.Watch(ctx, dirs)
	}
	return fmt.Errorf("watch directories without the server in the container: %w", sandbox.ErrUnsupported)
}

// Watched returns what was noted; see sandbox.Watcher.
func (s *box) Watched(ctx context.Context, end bool) ([]sandbox.WatchEvents, bool, error) {
	if w, ok := s.driver.(sandbox.Watcher); ok {
		return w.Watched(ctx, end)
	}
	return nil, false, fmt.Errorf("watch directories without the server in the container: %w", sandbox.ErrUnsupported)
}

// ExecSupervised runs a command under a supervisor; see sandbox.Supervisor.
func (s *server) ExecSupervised(ctx context.Context, c sandbox.Command, p sandbox.Policy) (sandbox.Result, sandbox.Supervision, error) {
	return s.current().ExecSupervised(ctx, c, p)
}

// ExecSupervised runs a command under a supervisor; see sandbox.Supervisor.
func (s *box) ExecSupervised(ctx context.Context, c sandbox.Command, p sandbox.Policy) (sandbox.Result, sandbox.Supervision, error) {
	if v, ok := s.driver.(sandbox.Supervisor); ok {
		return v.ExecSupervised(ctx, c, p)
	}
	return sandbox.Result{}, sandbox.Supervision{}, fmt.Errorf("supervise a command without the server in the container: %w", sandbox.ErrUnsupported)
}
