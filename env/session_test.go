package env_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/agentloop"
	"github.com/hermes-env/hermes-env/agentloop/model"
	"github.com/hermes-env/hermes-env/agentloop/model/modeltest"
	"github.com/hermes-env/hermes-env/agentloop/model/tokens"
	"github.com/hermes-env/hermes-env/env"
	"github.com/hermes-env/hermes-env/env/config"
	"github.com/hermes-env/hermes-env/toolcontext"
	"github.com/hermes-env/hermes-env/trajectories"
)

func TestOneSessionHoldsTheTokensOfAllStagesOfARollout(t *testing.T) {
	for name, c := range map[string]struct {
		carry     bool
		sequences int
	}{"one conversation is one sequence": {true, 1}, "two conversations are two": {false, 2}} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			require.NoError(t, modeltest.WriteFolder(dir, modeltest.ChatML))
			server := modeltest.NewTokenServer(t, modeltest.TokenConfig{API: modeltest.SGLang, Dir: dir, Script: modeltest.SampleInOrder(modeltest.Sample("done"))})
			client, err := model.NewSGLang(model.Server{BaseURL: server.URL, Model: "mock"})
			require.NoError(t, err)
			defer client.CloseIdleConnections()
			local, err := tokens.Open(dir, "")
			require.NoError(t, err)

			h := newHarness(t, nil)
			e := &staged{counting: counting{items: 1}, carry: c.carry}
			var seen []int
			e.reward2 = func(_ context.Context, stage int, r *agentloop.Result, _ *toolcontext.Context) (env.Score, error) {
				seen = append(seen, len(r.Sequences))
				return env.Score{Value: 1}, nil
			}
			opened := 0
			h.change = func(o *env.Options) {
				o.Environment = e
				o.Sessions = func() (model.Session, error) {
					opened++
					return tokens.New(tokens.Config{Client: client, Renderer: local})
				}
			}
			_, recs, err := h.run(t.Context(), config.Evaluate, &e.counting)
			require.NoError(t, err)
			require.Equal(t, 1, opened)
			require.Equal(t, []int{1, c.sequences}, seen, "verifiers see the tokens so far")
			rec := recs[0]
			require.Empty(t, rec.NotTrainable)
			require.Len(t, rec.Sequences, c.sequences)
			trained := 0
			for _, s := range rec.Sequences {
				for i, mask := range s.Masks {
					if mask != model.Masked {
						require.Equal(t, s.Tokens[i], mask)
						trained++
					}
				}
			}
			answer, err := local.Encode(t.Context(), "done"+modeltest.EndOfText)
			require.NoError(t, err)
			require.Equal(t, 2*len(answer), trained)
		})
	}
}

func TestASessionThatCanNotBeOpenedIsAFailureOfTheRollout(t *testing.T) {
	h := newHarness(t, nil)
	h.change = func(o *env.Options) {
		o.Sessions = func() (model.Session, error) { return nil, context.DeadlineExceeded }
	}
	_, recs, err := h.run(t.Context(), config.Evaluate, &counting{items: 1})
	require.NoError(t, err)
	require.Equal(t, trajectories.OutcomeModelError, recs[0].Outcome)
	require.Contains(t, recs[0].Error.Message, "open a token-exact session")
}
