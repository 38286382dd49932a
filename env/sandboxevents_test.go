package env_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/agentloop"
	"github.com/hermes-env/hermes-env/agentloop/model/modeltest"
	"github.com/hermes-env/hermes-env/env"
	"github.com/hermes-env/hermes-env/env/config"
	"github.com/hermes-env/hermes-env/toolcontext"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
	"github.com/hermes-env/hermes-env/toolcontext/tools"
	"github.com/hermes-env/hermes-env/trajectories"
)

// eventful are sandboxes to which the same happens every time.
type eventful struct {
	sandbox.Provider
	events []sandbox.Event
}

type eventfulBox struct {
	sandbox.Sandbox
	events []sandbox.Event
}

func (p eventful) Create(ctx context.Context, spec sandbox.Spec) (sandbox.Sandbox, error) {
	box, err := p.Provider.Create(ctx, spec)
	return &eventfulBox{box, p.events}, err
}

func (b *eventfulBox) Events() []sandbox.Event { return b.events }
func (b *eventfulBox) AllowRestarts(bool)      {}

func TestRunner_RecordsWhatHappenedToSandboxesInEveryTry(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	h := newHarness(t, modeltest.Always(modeltest.Text("done")))
	h.change = func(o *env.Options) {
		o.Config.Retries = 1
		o.Provider = eventful{o.Provider, []sandbox.Event{
			{Kind: sandbox.EventRestarted, Text: "it ran out of memory", Inside: true, Lost: true, Time: at},
			{Kind: sandbox.EventServer, Text: "its limit was lowered", Inside: true, Time: at},
		}}
	}
	var tries atomic.Int64
	e := &counting{items: 1, reward: func(ctx context.Context, _ env.Item, _ *agentloop.Result, tc *toolcontext.Context) (env.Score, error) {
		if _, err := tc.Sandbox(ctx); err != nil {
			return env.Score{}, err
		}
		if tries.Add(1) == 1 {
			return env.Score{}, &tools.InfrastructureError{Op: "look", Err: fmt.Errorf("%w: it was killed from outside", sandbox.ErrLost)}
		}
		return env.Score{Value: 1}, nil
	}}
	summary, rollouts, err := h.run(t.Context(), config.Evaluate, e)
	require.NoError(t, err)
	require.Equal(t, trajectories.OutcomeScored, rollouts[0].Outcome)
	require.Equal(t, 1, rollouts[0].Retries, "what something outside ended is tried again")
	require.Equal(t, []trajectories.SandboxEvent{
		{Kind: "restarted", Text: "it ran out of memory", Inside: true, Lost: true, Try: 1, Time: at},
		{Kind: "server", Text: "its limit was lowered", Inside: true, Try: 1, Time: at},
		{Kind: "restarted", Text: "it ran out of memory", Inside: true, Lost: true, Try: 2, Time: at},
		{Kind: "server", Text: "its limit was lowered", Inside: true, Try: 2, Time: at},
	}, rollouts[0].Sandbox.Events)
	require.Equal(t, 2, summary.SandboxEnds)
	require.Equal(t, 1, summary.SandboxEndsIn)
}

func TestRunner_DoesNotTryAgainWhatTheRolloutItselfHasEnded(t *testing.T) {
	ended := &tools.InfrastructureError{Op: "run the tests", Err: fmt.Errorf("%w: %w: it ran out of memory", sandbox.ErrLost, sandbox.ErrEndedInside)}
	for name, e := range map[string]*counting{
		"while it is scored": {items: 1, reward: func(context.Context, env.Item, *agentloop.Result, *toolcontext.Context) (env.Score, error) {
			return env.Score{}, ended
		}},
		"while the agent works": {items: 1, oracle: func(context.Context, *toolcontext.Context) error { return ended }},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t, modeltest.Always(modeltest.Text("done")))
			h.change = func(o *env.Options) {
				o.Config.Retries = 3
				if e.oracle != nil {
					o.Agent = env.AgentOracle
				}
			}
			_, rollouts, err := h.run(t.Context(), config.Evaluate, e)
			require.NoError(t, err)
			require.Equal(t, trajectories.OutcomeVerifierError, rollouts[0].Outcome)
			require.Zero(t, rollouts[0].Retries)
			if e.oracle == nil {
				require.Equal(t, "sandbox_ended", rollouts[0].Error.Class)
			}
			require.Nil(t, rollouts[0].Score)
		})
	}
}

func TestRunner_CountsARolloutThatEndedItsSandboxAsZeroInTraining(t *testing.T) {
	ended := &tools.InfrastructureError{Op: "run the tests", Err: fmt.Errorf("%w: %w: it ran out of memory", sandbox.ErrLost, sandbox.ErrEndedInside)}
	h := newHarness(t, modeltest.Always(modeltest.Text("done")))
	h.change = func(o *env.Options) { o.Config.OnTampering = config.TamperingZero }
	e := &counting{items: 1, reward: func(context.Context, env.Item, *agentloop.Result, *toolcontext.Context) (env.Score, error) {
		return env.Score{}, ended
	}}
	_, rollouts, err := h.run(t.Context(), config.Evaluate, e)
	require.NoError(t, err)
	require.Equal(t, trajectories.OutcomeScored, rollouts[0].Outcome)
	require.Equal(t, 0.0, *rollouts[0].Score)
	require.False(t, *rollouts[0].Passed)
	require.Equal(t, "sandbox_ended", rollouts[0].Error.Class)
	require.Contains(t, rollouts[0].Error.Message, "ran out of memory")
}
