package docker

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox/inside"
)

// entrypoint is what containers run: the server as their first process, or a shell
// that waits.
func (p *Provider) entrypoint() []string {
	if p.config.PlainExec {
		return []string{"/bin/sh", "-c", mainScript}
	}
	return []string{binaryPath, inside.Word}
}

// greetLimit bounds the wait for the server in a container that has started.
const greetLimit = 30 * time.Second

// serve makes the sandbox's client of the server at the other end of the stream,
// which is closed when that fails.
func (s *box) serve(ctx context.Context, at *stream, spec sandbox.Spec, image imageInfo) error {
	if s.provider.config.PlainExec {
		d, err := newPlain(ctx, s.provider, s.container, s.info, at, spec, image)
		if err != nil {
			_ = at.Close() // the cause is known
			return err
		}
		s.driver, s.info = d, d.info
		return nil
	}
	wait := greetLimit
	if deadline, ok := ctx.Deadline(); ok {
		wait = min(wait, time.Until(deadline))
	}
	client, err := inside.Dial(at, inside.Options{
		Info:          s.info,
		HandshakeWait: wait,
		Why:           func() string { return s.provider.fate(s.container, at) },
	})
	if err != nil {
		return fmt.Errorf("the server in the container (image %s, user %q): %w", s.info.Image, spec.User, err)
	}
	s.driver, s.info = client, client.Info()
	return nil
}

// fateLimit bounds asking the engine why a container ended.
const fateLimit = 10 * time.Second

// fate says in words what became of a container.
func (p *Provider) fate(id string, at *stream) string {
	ctx, cancel := context.WithTimeout(context.Background(), fateLimit)
	defer cancel()
	st, err := p.engine.inspect(ctx, id)
	// The stream ends a moment before the engine notes the end of the process.
	for range 20 {
		if err != nil || !st.Running {
			break
		}
		timer := time.NewTimer(50 * time.Millisecond)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
		}
		st, err = p.engine.inspect(ctx, id)
	}
	said := strings.TrimSpace(at.said.Output().String())
	if said != "" {
		said = "; its server said: " + said
	}
	return describe(st, err) + said
}
