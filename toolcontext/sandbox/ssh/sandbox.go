package ssh

import (
	"context"
	"fmt"
	"sync"

	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox/inside"
)

// Sandbox is a tree on another machine. It implements sandbox.Sandbox and
// sandbox.Starter through the client of the server there.
type Sandbox struct {
	*inside.Client
	provider *Provider
	machine  machine
	name     string // of the tree
	stream   *stream

	closing  sync.Once
	closeErr error
}

var (
	_ sandbox.Sandbox = (*Sandbox)(nil)
	_ sandbox.Starter = (*Sandbox)(nil)
)

// Tree returns the sandbox's directory on the machine.
func (s *Sandbox) Tree() string { return s.machine.tree(s.name) }

// Close ends every process and removes the tree, also when ctx has ended and over a
// new connection when the old one is broken, within Config.CloseLimit. A second
// Close does nothing.
func (s *Sandbox) Close(ctx context.Context) error {
	s.closing.Do(func() { s.closeErr = s.close(ctx) })
	return s.closeErr
}

func (s *Sandbox) close(ctx context.Context) error {
	defer s.provider.sandboxes.Forget(s)
	lost := false
	select {
	case <-s.Done():
		lost = true
	default:
	}
	// One that was lost, or fails to end its processes, leaves them to be looked for.
	goodbye := s.Client.Close(ctx)
	kill := lost || goodbye != nil || !s.stream.awaitEnd()
	if err := s.provider.remove(ctx, s.machine, s.name, kill); err != nil {
		return fmt.Errorf("close sandbox %s: %w", s.name, err)
	}
	return nil
}
