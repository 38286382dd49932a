package env_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/agentloop"
	"github.com/hermes-env/hermes-env/agentloop/chat"
	"github.com/hermes-env/hermes-env/agentloop/model"
	"github.com/hermes-env/hermes-env/agentloop/model/modeltest"
	"github.com/hermes-env/hermes-env/env"
	"github.com/hermes-env/hermes-env/env/config"
	"github.com/hermes-env/hermes-env/toolcontext"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
	"github.com/hermes-env/hermes-env/trajectories"
)

// newBookedHarness is newHarness with a model server whose answers are counted.
func newBookedHarness(t *testing.T, script modeltest.Script, change func(*env.Options)) *harness {
	h := newHarness(t, script)
	h.change = func(o *env.Options) {
		pool, err := model.ForClients([]model.Server{{BaseURL: h.server.URL, Model: "mock", Price: &model.Price{Input: 1, Output: 10}}}, model.PoolConfig{},
			func(s model.Server) (model.Client, error) { return model.NewChat(s) })
		require.NoError(t, err)
		t.Cleanup(pool.CloseIdleConnections)
		o.Model = pool
		if change != nil {
			change(o)
		}
	}
	return h
}

// interruptedWhileScoring runs a session that is interrupted once so many conversations
// are being scored.
func interruptedWhileScoring(t *testing.T, h *harness, mode config.Mode, e *counting, scoring int64) []*trajectories.Rollout {
	ctx, cancel := context.WithCancelCause(t.Context())
	var waiting atomic.Int64
	e.reward = func(ctx context.Context, _ env.Item, _ *agentloop.Result, _ *toolcontext.Context) (env.Score, error) {
		if waiting.Add(1) == scoring {
			cancel(env.ErrInterrupted)
		}
		<-ctx.Done()
		return env.Score{}, ctx.Err()
	}
	_, rollouts, err := h.run(ctx, mode, e)
	require.ErrorIs(t, err, env.ErrInterrupted)
	return rollouts
}

func TestRunner_ScoresConversationsOfAnInterruptedSessionWithoutAskingTheModel(t *testing.T) {
	for mode, conversations := range map[config.Mode]int64{config.Evaluate: 2, config.Process: 2 * 2} {
		t.Run(string(mode), func(t *testing.T) {
			h := newBookedHarness(t, modeltest.Always(modeltest.Text("<think>why</think>x").WithUsage(10, 5)), nil)
			// All of them, so that no request is under way when the session is interrupted.
			cancelled := interruptedWhileScoring(t, h, mode, &counting{items: 2}, conversations)
			require.Len(t, cancelled, int(conversations))
			paid := h.server.RequestCount()
			ids := map[string]bool{}
			for _, r := range cancelled {
				require.Equal(t, trajectories.OutcomeCancelled, r.Outcome)
				ids[r.ID] = r.StopReason == string(agentloop.StopNatural)
			}

			h.resume = true
			var seen atomic.Int64
			e := &counting{items: 2, reward: func(_ context.Context, item env.Item, r *agentloop.Result, _ *toolcontext.Context) (env.Score, error) {
				if r.FinalText() != "<think>why</think>x" || r.TurnsUsed != 1 || !r.FinishedNaturally || r.Usage.PromptTokens != 10 || len(r.ReasoningPerTurn) != 1 || r.ReasoningPerTurn[0] != "why" {
					return env.Score{}, errors.New("another conversation")
				}
				seen.Add(1)
				return env.Score{Value: 1}, nil
			}}
			summary, rollouts, err := h.run(t.Context(), mode, e)
			require.NoError(t, err)
			require.Equal(t, len(rollouts), summary.Score.N)
			require.EqualValues(t, len(rollouts), seen.Load())
			require.Equal(t, len(rollouts), h.server.RequestCount(), "one request for each conversation, %d of them in the first session", paid)
			kept := 0
			for _, r := range rollouts {
				if ids[r.ID] {
					kept++
				}
				require.Equal(t, 1, r.Spend.Agent.Calls)
			}
			require.EqualValues(t, conversations, kept)
			require.Equal(t, len(rollouts), summary.Spent.Calls, "no answer is counted twice")
			require.Equal(t, len(rollouts), summary.Spent.Recorded)

			again, _, err := h.run(t.Context(), mode, &counting{items: 2})
			require.NoError(t, err)
			require.Equal(t, len(rollouts), again.Spent.Calls, "nor in later sessions")
		})
	}
}

func TestRunner_TriesOnlyTheScoreAgain(t *testing.T) {
	h := newBookedHarness(t, modeltest.Always(modeltest.Text("x").WithUsage(10, 5)), func(o *env.Options) { o.Config.Retries = 1 })
	var tries atomic.Int64
	e := &counting{items: 1}
	e.reward = func(context.Context, env.Item, *agentloop.Result, *toolcontext.Context) (env.Score, error) {
		if tries.Add(1) == 1 {
			return env.Score{}, &env.VerifierError{Class: "judge", Infrastructure: true, Err: errors.New("down")}
		}
		return env.Score{Value: 1}, nil
	}
	_, rollouts, err := h.run(t.Context(), config.Evaluate, e)
	require.NoError(t, err)
	require.Equal(t, trajectories.OutcomeScored, rollouts[0].Outcome)
	require.Equal(t, 1, rollouts[0].Retries)
	require.Equal(t, 1, h.server.RequestCount())
	require.Equal(t, trajectories.Bill{}, rollouts[0].Spend.FailedTries)
	require.Equal(t, 1, rollouts[0].Spend.Agent.Calls)
}

func TestRunner_ScoresFailedVerificationsAgainWithoutAskingTheModel(t *testing.T) {
	var again []trajectories.Outcome
	h := newBookedHarness(t, modeltest.Always(modeltest.Text("x").WithUsage(10, 5)), func(o *env.Options) { o.RetryOutcomes = again })
	failing := func(context.Context, env.Item, *agentloop.Result, *toolcontext.Context) (env.Score, error) {
		return env.Score{}, errors.New("the verifier has a bug")
	}
	_, first, err := h.run(t.Context(), config.Evaluate, &counting{items: 3, reward: failing})
	require.NoError(t, err)
	h.resume = true
	again = []trajectories.Outcome{trajectories.OutcomeVerifierError}
	_, rollouts, err := h.run(t.Context(), config.Evaluate, &counting{items: 3, reward: failing})
	require.NoError(t, err)
	require.Len(t, rollouts, 3)
	summary, rollouts, err := h.run(t.Context(), config.Evaluate, &counting{items: 3})
	require.NoError(t, err)
	require.Equal(t, 3, summary.Score.N)
	require.Equal(t, 3, h.server.RequestCount())
	require.ElementsMatch(t, idsOf(first), idsOf(rollouts), "a rollout keeps its name")
	require.Equal(t, 3, summary.Spent.Calls)
}

func TestRunner_RunsTheAgentAgainWhereTheConversationIsNotEnough(t *testing.T) {
	for name, c := range map[string]struct {
		script modeltest.Script
		resume *counting
	}{
		"its tools left something": {modeltest.Turns(noop(), modeltest.Text("x")), &counting{items: 1}},
		"it had a sandbox":         {modeltest.Turns(modeltest.Calls(chat.ToolCall{ID: "c", Name: "terminal", Arguments: `{"command":"true"}`}), modeltest.Text("x")), &counting{items: 1}},
		"the item is another":      {modeltest.Always(modeltest.Text("x")), &counting{items: 1, data: "new"}},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t, c.script)
			interruptedWhileScoring(t, h, config.Evaluate, &counting{items: 1}, 1)
			paid := h.server.RequestCount()
			h.resume = true
			summary, _, err := h.run(t.Context(), config.Evaluate, c.resume)
			require.NoError(t, err)
			require.Equal(t, 1, summary.Score.N)
			require.Greater(t, h.server.RequestCount(), paid)
		})
	}
}

// conversational is an environment whose reward reads only the conversation.
type conversational struct {
	counting
	instant  bool
	prepared atomic.Int64
}

func (e *conversational) ScoresConversation() bool { return true }
func (e *conversational) ScoresInstantly() bool    { return e.instant }

func (e *conversational) Prepare(context.Context, env.Item, *toolcontext.Context) error {
	e.prepared.Add(1)
	return nil
}

// watched are sandboxes that report the end of their processes.
type watched struct {
	sandbox.Provider
	created *atomic.Int64
	killing func()
}

type watchedBox struct {
	sandbox.Sandbox
	killing func()
}

func (p watched) Create(ctx context.Context, spec sandbox.Spec) (sandbox.Sandbox, error) {
	p.created.Add(1)
	box, err := p.Provider.Create(ctx, spec)
	return &watchedBox{box, p.killing}, err
}

func (b *watchedBox) KillAll(ctx context.Context) error {
	b.killing()
	return b.Sandbox.KillAll(ctx)
}

func TestRunner_StoresAConversationBeforeTheSandboxIsSealedIfTheScoreNeedsNone(t *testing.T) {
	for name, instant := range map[string]bool{"a reward that takes its time": false, "a reward that only computes": true} {
		t.Run(name, func(t *testing.T) {
			e := &conversational{counting: counting{items: 1}, instant: instant}
			command := chat.ToolCall{ID: "c", Name: "terminal", Arguments: `{"command":"true"}`}
			var store *trajectories.Run
			var created atomic.Int64
			var stored []string
			h := newBookedHarness(t, modeltest.Turns(modeltest.Calls(command, chat.ToolCall{ID: "d", Name: "noop", Arguments: "{}"}), modeltest.Text("x")), nil)
			change := h.change
			killing := func() {}
			h.change = func(o *env.Options) {
				change(o)
				store, o.Environment = o.Store, e
				o.Provider = watched{o.Provider, &created, killing}
			}

			ctx, cancel := context.WithCancelCause(t.Context())
			killing = func() {
				kept, err := store.Waiting(trajectories.Key{ItemID: "item-0"})
				if err == nil && kept != nil {
					stored = append(stored, kept.Messages[len(kept.Messages)-1].Text())
				}
				cancel(env.ErrInterrupted)
			}
			_, _, err := h.run(ctx, config.Evaluate, &e.counting)
			require.ErrorIs(t, err, env.ErrInterrupted)
			require.Equal(t, []string{"x"}, stored)
			require.EqualValues(t, 1, created.Load())
			paid := h.server.RequestCount()

			h.resume, killing = true, func() {}
			summary, rollouts, err := h.run(t.Context(), config.Evaluate, &e.counting)
			require.NoError(t, err)
			require.Equal(t, 1, summary.Score.N)
			require.Len(t, rollouts[0].Messages, 5, "with both calls and their results")
			require.Equal(t, "local", rollouts[0].Sandbox.Backend)
			require.Equal(t, paid, h.server.RequestCount(), "the model is not asked again")
			require.EqualValues(t, 1, created.Load(), "a stored conversation is scored without a sandbox")
			require.EqualValues(t, 1, e.prepared.Load())
		})
	}
}

// A rollout that is cut off while it is scored leaves no conversation behind once it is recorded.
func TestRunner_LeavesNothingWaitingWhenAllIsRecorded(t *testing.T) {
	var store *trajectories.Run
	h := newBookedHarness(t, modeltest.Always(modeltest.Text("x").WithUsage(10, 5)), func(o *env.Options) { store = o.Store })
	e := &counting{items: 8}
	e.reward = func(_ context.Context, item env.Item, _ *agentloop.Result, _ *toolcontext.Context) (env.Score, error) {
		kept, err := store.Waiting(trajectories.Key{ItemID: item.ID})
		if err != nil || kept == nil || kept.Messages[1].Text() != "x" || kept.Spend.Agent.Calls != 1 {
			return env.Score{}, errors.New("the conversation is not stored")
		}
		return env.Score{Value: 1}, nil
	}
	summary, _, err := h.run(t.Context(), config.Evaluate, e)
	require.NoError(t, err)
	require.Equal(t, 8, summary.Score.N)
	require.NoDirExists(t, h.dir+"/waiting")
}

func idsOf(rollouts []*trajectories.Rollout) (ids []string) {
	for _, r := range rollouts {
		ids = append(ids, r.ID)
	}
	return ids
}
