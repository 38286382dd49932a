package singularity

import (
	"context"
	"fmt"
	"os"
	"sync"
	"syscall"

	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox/inside"
)

// Sandbox is an instance. It implements sandbox.Sandbox and sandbox.Starter through
// the client of the server in it.
type Sandbox struct {
	*inside.Client
	provider *Provider
	name     string // of the instance and of its directory
	tree     string
	attached *attached

	closing  sync.Once
	closeErr error
}

var (
	_ sandbox.Sandbox = (*Sandbox)(nil)
	_ sandbox.Starter = (*Sandbox)(nil)
)

// Close ends every process, stops the instance and removes its directory, also when
// ctx has ended, within Config.CloseLimit. A second Close does nothing.
func (s *Sandbox) Close(ctx context.Context) error {
	s.closing.Do(func() { s.closeErr = s.close(ctx) })
	return s.closeErr
}

func (s *Sandbox) close(ctx context.Context) error {
	defer s.provider.sandboxes.Forget(s)
	// Whether the server still answers does not matter: stopping the instance ends
	// everything in it.
	_ = s.Client.Close(ctx)
	err := s.provider.remove(ctx, s.name)
	s.attached.end(s.provider.config.CloseLimit / 2)
	if err != nil {
		return fmt.Errorf("close sandbox %s: %w", s.name, err)
	}
	return nil
}

// ownedByUser reports whether a file belongs to the user of this process.
func ownedByUser(info os.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return !ok || int(st.Uid) == os.Getuid()
}
