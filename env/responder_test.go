package env_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/agentloop"
	"github.com/hermes-env/hermes-env/agentloop/chat"
	"github.com/hermes-env/hermes-env/agentloop/model/modeltest"
	"github.com/hermes-env/hermes-env/env"
	"github.com/hermes-env/hermes-env/env/config"
	"github.com/hermes-env/hermes-env/toolcontext"
	"github.com/hermes-env/hermes-env/trajectories"
)

// talking replies to answers.
type talking struct {
	*counting
	respond func(soFar *agentloop.Result, tc *toolcontext.Context) ([]chat.Message, error)
}

func (e talking) Respond(_ context.Context, _ env.Item, soFar *agentloop.Result, tc *toolcontext.Context) ([]chat.Message, error) {
	return e.respond(soFar, tc)
}

func TestRunner_GoesOnWithTheRepliesOfTheEnvironment(t *testing.T) {
	again := func(n int) func(*agentloop.Result, *toolcontext.Context) ([]chat.Message, error) {
		return func(soFar *agentloop.Result, _ *toolcontext.Context) ([]chat.Message, error) {
			if soFar.TurnsUsed > n {
				return nil, nil
			}
			return []chat.Message{chat.User("and now?")}, nil
		}
	}
	for _, tt := range []struct {
		name     string
		respond  func(*agentloop.Result, *toolcontext.Context) ([]chat.Message, error)
		outcome  trajectories.Outcome
		stop     string
		messages int
	}{
		{"none", again(0), trajectories.OutcomeScored, "natural", 2},
		{"two", again(2), trajectories.OutcomeScored, "natural", 6},
		{"until the limit of turns", again(99), trajectories.OutcomeLimit, "turn_limit", 10},
		{"a failure", func(*agentloop.Result, *toolcontext.Context) ([]chat.Message, error) {
			return nil, errors.New("no partner")
		}, trajectories.OutcomeEnvironmentError, "", 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := newHarness(t, modeltest.Always(modeltest.Text("x")))
			e := talking{&counting{items: 1}, tt.respond}
			h.change = func(o *env.Options) { o.Environment = e }
			_, rollouts, err := h.run(t.Context(), config.Evaluate, e.counting)
			require.NoError(t, err)
			require.Len(t, rollouts, 1)
			r := rollouts[0]
			require.Equal(t, tt.outcome, r.Outcome)
			require.Len(t, r.Messages, tt.messages)
			if tt.stop != "" {
				require.Equal(t, tt.stop, r.StopReason)
			} else {
				require.Contains(t, r.Error.Message, "environment counting: reply to the agent: no partner")
			}
		})
	}
}

// answering has solutions that are answers, for all items but one.
type answering struct{ *counting }

func (answering) Oracle() {} // hides that of counting

func (answering) OracleAnswer(_ context.Context, item env.Item, _ *toolcontext.Context) (string, error) {
	if item.ID == "item-1" {
		return "", errors.New("no idea")
	}
	return "the answer", nil
}

func TestRunner_OraclesMayAnswerInText(t *testing.T) {
	e := answering{&counting{items: 2, reward: func(_ context.Context, _ env.Item, r *agentloop.Result, _ *toolcontext.Context) (env.Score, error) {
		if r.FinalText() == "the answer" {
			return env.Score{Value: 1}, nil
		}
		return env.Score{}, nil
	}}}
	h := newHarness(t, modeltest.Always(modeltest.Text("never asked")))
	h.change = func(o *env.Options) { o.Environment, o.Agent = e, env.AgentOracle }
	_, rollouts, err := h.run(t.Context(), config.Evaluate, e.counting)
	require.NoError(t, err)
	for _, r := range rollouts {
		if r.ItemID == "item-1" {
			require.Equal(t, trajectories.OutcomeVerifierError, r.Outcome)
			require.Contains(t, r.Error.Message, "reference solution: no idea")
			continue
		}
		require.EqualValues(t, 1, *r.Score)
		require.Equal(t, chat.RoleAssistant, r.Messages[len(r.Messages)-1].Role())
	}
	require.True(t, env.HasSolution(e, env.Item{}))
	require.False(t, env.HasSolution(withoutOracle{&counting{}}, env.Item{}))
}

type withoutOracle struct{ *counting }

func (withoutOracle) Oracle() {}
