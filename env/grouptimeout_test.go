package env_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/agentloop"
	"github.com/hermes-env/hermes-env/agentloop/model/modeltest"
	"github.com/hermes-env/hermes-env/env"
	"github.com/hermes-env/hermes-env/env/config"
	"github.com/hermes-env/hermes-env/toolcontext"
	"github.com/hermes-env/hermes-env/trajectories"
)

// waiting is an environment whose verifier waits until it is told to stop.
func waiting() *counting {
	return &counting{items: 1, reward: func(ctx context.Context, _ env.Item, _ *agentloop.Result, _ *toolcontext.Context) (env.Score, error) {
		<-ctx.Done()
		return env.Score{}, ctx.Err()
	}}
}

func TestAGroupOverItsTimeIsCutOffAndItsItemIsNotTriedAgain(t *testing.T) {
	var asked atomic.Int64
	h := newHarness(t, func(*modeltest.Request) modeltest.Reply { asked.Add(1); return modeltest.Text("x") })
	sink := &memorySink{groups: map[int]trajectories.Group{}}
	h.change = func(o *env.Options) { o.Groups, o.Config.WorkerTimeout, o.Config.Retries = sink, 0.2, 3 }
	_, rollouts, err := h.run(t.Context(), config.Process, waiting())
	require.NoError(t, err)
	require.Len(t, rollouts, 2)
	for _, r := range rollouts {
		require.Equal(t, trajectories.OutcomeLimit, r.Outcome)
		require.Nil(t, r.Score)
		require.Zero(t, r.Retries)
		require.Equal(t, &trajectories.Failure{Class: "worker_timeout", Message: "the time limit of the group is reached: 0.2 s (env.worker_timeout)"}, r.Error)
	}
	require.Empty(t, sink.groups)
	require.Equal(t, env.DropGroupTimeout, env.DropReason(decisions(t, h.dir)[0].Reason))

	h.resume = true
	paid := asked.Load()
	e := waiting()
	_, again, err := h.run(t.Context(), config.Process, e)
	require.NoError(t, err)
	require.Len(t, again, 2)
	require.Zero(t, e.calls.Load())
	require.Equal(t, paid, asked.Load(), "nothing is paid for again")
}

func TestAGroupWithinItsTimeAndAnEvaluationAreLeftAlone(t *testing.T) {
	for name, tt := range map[string]struct {
		mode  config.Mode
		limit config.Seconds
	}{
		"a generous limit": {config.Process, 3600}, "no limit": {config.Process, 0}, "-1 is no limit": {config.Process, -1},
		"an evaluation has no groups": {config.Evaluate, 0.000001},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t, modeltest.Always(modeltest.Text("x")))
			h.change = func(o *env.Options) { o.Config.WorkerTimeout = tt.limit }
			summary, _, err := h.run(t.Context(), tt.mode, &counting{items: 2})
			require.NoError(t, err)
			require.Equal(t, summary.Rollouts, summary.Outcomes[trajectories.OutcomeScored])
		})
	}
}

func TestAnInterruptDuringAGroupsTimeLeavesItToBeResumed(t *testing.T) {
	h := newHarness(t, modeltest.Always(modeltest.Text("x")))
	h.change = func(o *env.Options) { o.Config.WorkerTimeout = 3600 }
	ctx, cancel := context.WithCancel(t.Context())
	e := waiting()
	wait := e.reward
	e.reward = func(ctx context.Context, item env.Item, r *agentloop.Result, tc *toolcontext.Context) (env.Score, error) {
		cancel()
		return wait(ctx, item, r, tc)
	}
	_, rollouts, err := h.run(ctx, config.Process, e)
	require.ErrorIs(t, err, env.ErrInterrupted)
	for _, r := range rollouts {
		require.Equal(t, trajectories.OutcomeCancelled, r.Outcome)
	}
}
