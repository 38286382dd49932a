package toolcontext_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/toolcontext"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
	"github.com/hermes-env/hermes-env/toolcontext/tools"
)

// watchedBox notes what a rollout's handle says to its sandbox.
type watchedBox struct {
	sandbox.Sandbox
	leases int
	allow  []bool
}

func (b *watchedBox) Lease() func()                 { b.leases++; return func() { b.leases-- } }
func (b *watchedBox) Events() []sandbox.Event       { return nil }
func (b *watchedBox) AllowRestarts(allow bool)      { b.allow = append(b.allow, allow) }
func (b *watchedBox) KillAll(context.Context) error { return nil }
func (b *watchedBox) Close(context.Context) error   { return nil }
func (b *watchedBox) Info() sandbox.Info            { return sandbox.Info{} }
func (b *watchedBox) Exec(context.Context, sandbox.Command) (sandbox.Result, error) {
	return sandbox.Result{}, nil
}

type watchedProvider struct {
	sandbox.Provider
	box *watchedBox
}

func (p watchedProvider) Create(context.Context, sandbox.Spec) (sandbox.Sandbox, error) {
	return p.box, nil
}

func TestARolloutHoldsItsSandboxAndLetsItStartAgainUntilItIsJudged(t *testing.T) {
	box := &watchedBox{}
	registry, err := tools.NewRegistry(tools.Builtin()...)
	require.NoError(t, err)
	tc, err := toolcontext.New(toolcontext.Config{Provider: watchedProvider{box: box}, Registry: registry})
	require.NoError(t, err)
	require.NoError(t, tc.Open(t.Context()))
	require.Equal(t, 1, box.leases)
	require.NoError(t, tc.Seal(t.Context()))
	require.NoError(t, tc.Unseal(t.Context()))
	require.Equal(t, []bool{false, true}, box.allow)
	require.NoError(t, tc.Cleanup(t.Context()))
	require.Zero(t, box.leases)

	late, err := toolcontext.New(toolcontext.Config{Provider: watchedProvider{box: box}, Registry: registry})
	require.NoError(t, err)
	require.NoError(t, late.Seal(t.Context()))
	require.NoError(t, late.Open(t.Context()))
	require.Equal(t, []bool{false, true, false}, box.allow, "one that only the verifier needs")
	require.NoError(t, late.Cleanup(t.Context()))
}
