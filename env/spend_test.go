package env_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/agentloop/model"
	"github.com/hermes-env/hermes-env/agentloop/model/modeltest"
	"github.com/hermes-env/hermes-env/agentloop/model/tokens"
	"github.com/hermes-env/hermes-env/env"
	"github.com/hermes-env/hermes-env/env/config"
)

func TestTokenExactSessionsArePaidForLikeOtherRequests(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, modeltest.WriteFolder(dir, modeltest.ChatML))
	server := modeltest.NewTokenServer(t, modeltest.TokenConfig{API: modeltest.SGLang, Dir: dir, Script: modeltest.SampleInOrder(modeltest.Sample("done"))})
	pool, err := model.ForClients([]model.Server{{BaseURL: server.URL, Model: "mock", Price: &model.Price{Input: 1, CachedInput: 1, Output: 10}}}, model.PoolConfig{},
		func(s model.Server) (model.Client, error) { return model.NewSGLang(s) })
	require.NoError(t, err)
	defer pool.CloseIdleConnections()
	local, err := tokens.Open(dir, "")
	require.NoError(t, err)
	h := newHarness(t, nil)
	h.change = func(o *env.Options) {
		o.Sessions = func() (model.Session, error) {
			return tokens.New(tokens.Config{Client: pool, Renderer: local})
		}
	}
	summary, recs, err := h.run(t.Context(), config.Evaluate, &counting{items: 3})
	require.NoError(t, err)
	for _, r := range recs {
		require.Equal(t, 1, r.Spend.Agent.Calls)
		require.Positive(t, r.Spend.Agent.PromptTokens)
		require.Equal(t, r.Usage.PromptTokens, r.Spend.Agent.PromptTokens)
		require.Equal(t, r.Usage.CompletionTokens, r.Spend.Agent.CompletionTokens)
		require.InDelta(t, float64(r.Usage.PromptTokens+10*r.Usage.CompletionTokens)/1e6, *r.Spend.Agent.USD, 1e-9)
	}
	require.True(t, summary.Spent.Priced())
	require.Equal(t, 3, summary.Spent.Rollouts)
}
