package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/hermes-env/hermes-env/toolcontext/sandbox/docker"
)

// cleanImages removes the images that dead runs built, when remove says so, and else
// says how many there are. A later run builds them again when it needs them.
func (s *session) cleanImages(ctx context.Context, remove bool) error {
	p, err := docker.New(s.dockerConfig())
	if errors.Is(err, docker.ErrNoEngine) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("clean up images: %w", err)
	}
	n, size, err := p.ReapImages(ctx, !remove)
	megabytes := (size + 999_999) / 1_000_000
	switch {
	case remove && (n > 0 || err == nil):
		fmt.Fprintf(s.app.Stdout, "removed %d images built by dead runs (%d MB, with layers that they share)\n", n, megabytes)
	case n > 0:
		fmt.Fprintf(s.app.Stdout, "%d images built by dead runs are kept (%d MB, with layers that they share); %s removes them\n", n, megabytes, s.typed("cleanup --images"))
	}
	if err = errors.Join(err, closeProvider(p)); err != nil {
		return fmt.Errorf("clean up images: %w", err)
	}
	return nil
}
