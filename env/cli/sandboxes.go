package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox/local"
)

// newProvider makes the sandbox backend of that name.
func newProvider(backend string) (sandbox.Provider, error) {
	switch backend {
	case "local":
		return local.New(local.Config{Subreaper: true})
	}
	return nil, fmt.Errorf("sandbox backend %q is not available", backend)
}

type cleanupCommand struct{}

// Run removes what dead runs left behind.
func (c *cleanupCommand) Run(s *session) error {
	ctx, cancel := context.WithTimeout(s.ctx, 5*time.Minute)
	defer cancel()
	provider, err := newProvider("local")
	if err != nil {
		return fail(ExitSandbox, err)
	}
	n, err := provider.Reap(ctx)
	if err == nil {
		err = closeProvider(provider)
	}
	if err != nil {
		return fail(ExitSandbox, fmt.Errorf("clean up local sandboxes: %w", err))
	}
	fmt.Fprintf(s.app.Stdout, "removed %d local sandboxes of dead runs\n", n)
	return nil
}
