package env_test

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"github.com/hermes-env/hermes-env/agentloop"
	"github.com/hermes-env/hermes-env/agentloop/chat"
	"github.com/hermes-env/hermes-env/agentloop/model/modeltest"
	"github.com/hermes-env/hermes-env/env"
	"github.com/hermes-env/hermes-env/env/config"
	"github.com/hermes-env/hermes-env/toolcontext"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
	"github.com/hermes-env/hermes-env/toolcontext/tools"
	"github.com/hermes-env/hermes-env/trajectories"
)

// staged is counting with two stages for every item.
type staged struct {
	counting
	carry    bool
	limits   env.Limits
	describe json.RawMessage
	reward2  func(ctx context.Context, stage int, r *agentloop.Result, tc *toolcontext.Context) (env.Score, error)
	prepared func(tc *toolcontext.Context) error
}

func (e *staged) Stages(item env.Item) ([]env.Stage, error) {
	return []env.Stage{
		{Name: "first", Prompt: []chat.Message{chat.User("one")}, Limits: e.limits},
		{Name: "second", Prompt: []chat.Message{chat.User("two")}, Continue: e.carry, Limits: e.limits},
	}, nil
}

func (e *staged) StageReward(ctx context.Context, _ env.Item, stage int, r *agentloop.Result, tc *toolcontext.Context) (env.Score, error) {
	return e.reward2(ctx, stage, r, tc)
}

func (e *staged) CombineStages(_ env.Item, scores []env.Score) env.Score {
	sum := 0.0
	for _, s := range scores {
		sum += s.Value
	}
	return env.Score{Value: sum / float64(len(scores))}
}

func (e *staged) Describe(env.Item) json.RawMessage { return e.describe }

func (e *staged) Prepare(ctx context.Context, _ env.Item, tc *toolcontext.Context) error {
	if e.prepared == nil {
		return nil
	}
	return e.prepared(tc)
}

func TestStagesShareASandboxAndHaveConversationsAndScoresOfTheirOwn(t *testing.T) {
	for name, carry := range map[string]bool{"a new conversation": false, "the same conversation": true} {
		t.Run(name, func(t *testing.T) {
			var asked []int
			h := newHarness(t, modeltest.Script(func(r *modeltest.Request) modeltest.Reply {
				asked = append(asked, len(r.Get("messages").Array()))
				return modeltest.Text("done")
			}))
			e := &staged{counting: counting{items: 1}, carry: carry, describe: json.RawMessage(`{"category":"x"}`)}
			e.prepared = func(tc *toolcontext.Context) error {
				_, err := tc.Terminal(t.Context(), "export LEFT=over; cd /; echo prepared > ~/mark", time.Minute)
				return err
			}
			e.reward2 = func(ctx context.Context, stage int, r *agentloop.Result, tc *toolcontext.Context) (env.Score, error) {
				out, err := tc.Terminal(ctx, `cat ~/mark; echo "[$LEFT]"; echo `+[]string{"a", "b"}[stage]+` >> ~/mark`, time.Minute)
				require.NoError(t, err)
				want := []string{"prepared\n[]", "prepared\na\n[]"}[stage]
				require.Equal(t, want, out.Output)
				return env.Score{Value: float64(stage), Details: json.RawMessage(`{"n":` + []string{"0", "1"}[stage] + `}`)}, nil
			}
			h.change = func(o *env.Options) { o.Config.SystemPrompt, o.Environment = "be good", e }
			_, recs, err := h.run(t.Context(), config.Evaluate, &e.counting)
			require.NoError(t, err)
			require.Len(t, recs, 1)
			rec := recs[0]
			require.Equal(t, trajectories.OutcomeScored, rec.Outcome)
			require.Equal(t, 0.5, *rec.Score)
			require.Equal(t, 2, rec.TurnsUsed)
			require.Equal(t, []int{2, map[bool]int{false: 2, true: 4}[carry]}, asked)
			var roles []string
			for _, m := range rec.Messages {
				roles = append(roles, string(m.Role()))
			}
			require.Equal(t, []string{"system", "user", "assistant", "user", "assistant"}, roles)
			require.JSONEq(t, `{"category":"x","stages":[
				{"name":"first","message":0,"turns_used":1,"stop_reason":"natural","score":0,"verifier":{"n":0}},
				{"name":"second","message":3,"turns_used":1,"stop_reason":"natural","score":1,"verifier":{"n":1}}]}`, string(rec.Metadata))
		})
	}
}

func TestAStageWithoutAScoreLeavesTheWholeRolloutUnscored(t *testing.T) {
	h := newHarness(t, modeltest.Script(func(*modeltest.Request) modeltest.Reply { return modeltest.Text("done") }))
	e := &staged{counting: counting{items: 1}}
	e.reward2 = func(_ context.Context, stage int, _ *agentloop.Result, _ *toolcontext.Context) (env.Score, error) {
		if stage == 1 {
			return env.Score{}, &env.VerifierError{Class: "RewardFileNotFoundError", Err: errors.New("no file"), Details: json.RawMessage(`{"exit_code":3}`)}
		}
		return env.Score{Value: 1}, nil
	}
	h.change = func(o *env.Options) { o.Environment = e }
	_, recs, err := h.run(t.Context(), config.Evaluate, &e.counting)
	require.NoError(t, err)
	rec := recs[0]
	require.Equal(t, trajectories.OutcomeVerifierError, rec.Outcome)
	require.Nil(t, rec.Score)
	require.Equal(t, "RewardFileNotFoundError", rec.Error.Class)
	require.Equal(t, "stage 2 (second): no file", rec.Error.Message)
	require.EqualValues(t, 3, gjson.GetBytes(rec.Metadata, "stages.1.verifier.exit_code").Int())
}

// limited gives every item of counting the same limits.
type limited struct {
	counting
	limits env.Limits
}

func (e *limited) Limits(env.Item) env.Limits { return e.limits }

func TestAnItemsTimeLimitEndsTheAgentButNotTheVerification(t *testing.T) {
	h := newHarness(t, modeltest.Always(modeltest.Calls(chat.ToolCall{ID: "c", Name: "terminal", Arguments: `{"command":"touch ~/begun; sleep 60"}`})))
	e := &limited{counting: counting{items: 1}, limits: env.Limits{Agent: 300 * time.Millisecond, Verify: time.Minute}}
	e.reward = func(ctx context.Context, _ env.Item, r *agentloop.Result, tc *toolcontext.Context) (env.Score, error) {
		require.Equal(t, agentloop.StopTimeLimit, r.StopReason)
		deadline, _ := ctx.Deadline()
		require.Greater(t, time.Until(deadline), 30*time.Second, "the item's limit counts, not env.verify_timeout")
		out, err := tc.Terminal(ctx, "test -f ~/begun; echo $?; ps | grep -c '[s]leep 60'", 10*time.Second)
		require.NoError(t, err)
		require.Equal(t, "0\n0", out.Output)
		return env.Score{Value: 1}, nil
	}
	h.change = func(o *env.Options) { o.Environment = e }
	_, recs, err := h.run(t.Context(), config.Evaluate, &e.counting)
	require.NoError(t, err)
	require.Equal(t, trajectories.OutcomeLimit, recs[0].Outcome)
	require.Equal(t, 1.0, *recs[0].Score)
}

func TestProcessesStayForTheVerifierOnlyWhereAnItemSaysSo(t *testing.T) {
	for limits, keep := range map[env.Limits]bool{{KeepProcesses: true}: true, {}: false, {KeepServices: true}: false} { // it is no service
		h := newHarness(t, modeltest.Turns(modeltest.Calls(chat.ToolCall{ID: "c", Name: "terminal", Arguments: `{"command":"sleep 61 > /dev/null 2>&1 & echo $! > ~/pid"}`}), modeltest.Text("done")))
		e := &limited{counting: counting{items: 1}, limits: limits}
		e.reward = func(ctx context.Context, _ env.Item, _ *agentloop.Result, tc *toolcontext.Context) (env.Score, error) {
			out, err := tc.Terminal(ctx, "ps -o args= -p $(cat ~/pid) | grep -q '^sleep 61'", 10*time.Second)
			require.NoError(t, err)
			require.Equal(t, keep, out.ExitCode == 0)
			return env.Score{Value: 1}, nil
		}
		h.change = func(o *env.Options) { o.Environment = e }
		_, recs, err := h.run(t.Context(), config.Evaluate, &e.counting)
		require.NoError(t, err)
		require.Equal(t, trajectories.OutcomeScored, recs[0].Outcome)
	}
}

// preparing is a provider that records what it is asked to get ready.
type preparing struct {
	sandbox.Provider
	prepared chan string
	held     atomic.Int64
	most     atomic.Int64
}

func (p *preparing) Prepare(_ context.Context, spec sandbox.Spec) error {
	p.prepared <- spec.Env["ITEM"]
	return nil
}

func (p *preparing) Retain(sandbox.Spec) func() {
	p.most.Store(max(p.most.Load(), p.held.Add(1)))
	var once sync.Once
	return func() { once.Do(func() { p.held.Add(-1) }) }
}

func TestWhatComingItemsNeedIsFetchedAheadAndKeptUntilTheirLastAttempt(t *testing.T) {
	h := newHarness(t, modeltest.Always(modeltest.Text("done")))
	p := &preparing{prepared: make(chan string, 100)}
	e := &counting{items: 6}
	e.spec = func(item env.Item) (sandbox.Spec, error) {
		return sandbox.Spec{Env: map[string]string{"ITEM": item.ID}}, nil
	}
	h.change = func(o *env.Options) {
		p.Provider, o.Provider = o.Provider, p
		o.Config.Prefetch, o.Config.MaxEvalWorkers, o.Config.Attempts = 2, 1, 2
	}
	_, recs, err := h.run(t.Context(), config.Evaluate, e)
	require.NoError(t, err)
	require.Len(t, recs, 12)
	require.Zero(t, p.held.Load(), "everything is given back")
	require.Positive(t, p.most.Load())
	close(p.prepared)
	seen := map[string]bool{}
	for item := range p.prepared {
		seen[item] = true
	}
	require.Len(t, seen, 6)
}

func TestAResumedRunDoesJustTheOutcomesItIsToldTo(t *testing.T) {
	fail := true
	e := &counting{items: 4}
	e.reward = func(_ context.Context, item env.Item, _ *agentloop.Result, tc *toolcontext.Context) (env.Score, error) {
		switch {
		case fail && item.ID == "item-1":
			return env.Score{}, errors.New("the verifier broke")
		case fail && item.ID == "item-2":
			return env.Score{}, &tools.InfrastructureError{Op: "test", Err: errors.New("lost")}
		}
		return env.Score{Value: 1}, nil
	}
	h := newHarness(t, modeltest.Always(modeltest.Text("done")))
	_, recs, err := h.run(t.Context(), config.Evaluate, e)
	require.NoError(t, err)
	require.Len(t, recs, 4)
	fail, h.resume = false, true
	e.calls.Store(0)
	h.change = func(o *env.Options) {
		o.RetryOutcomes = []trajectories.Outcome{trajectories.OutcomeVerifierError}
	}
	_, recs, err = h.run(t.Context(), config.Evaluate, e)
	require.NoError(t, err)
	require.EqualValues(t, 1, e.calls.Load())
	outcomes := map[string]trajectories.Outcome{}
	for _, r := range recs {
		outcomes[r.ItemID] = r.Outcome
	}
	require.Equal(t, trajectories.OutcomeScored, outcomes["item-1"])
	require.Equal(t, trajectories.OutcomeSandboxError, outcomes["item-2"])
}
