package stats

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/agentloop/chat"
	"github.com/hermes-env/hermes-env/trajectories"
)

var (
	acted = trajectories.Tampering{Kind: "signal", Target: "pytest", Detail: "SIGKILL", Active: true}
	noted = trajectories.Tampering{Kind: "replaced", Target: "/usr/bin/curl"}
)

func tamperedRollout(item string, attempt int, entries ...trajectories.Tampering) *trajectories.Rollout {
	r := rollout(item, attempt, pointer(1.0))
	r.Tampering = entries
	return r
}

func TestCollector_CountsTampering(t *testing.T) {
	rollouts := []*trajectories.Rollout{
		tamperedRollout("a", 0, noted, acted), tamperedRollout("a", 1, acted, acted), tamperedRollout("b", 0, noted), tamperedRollout("c", 0),
	}
	describe := func(filter trajectories.TamperedFilter) *Result {
		c := New(Config{Tampered: filter, Top: 2})
		for _, r := range rollouts {
			c.Rollout(r)
		}
		return c.Result()
	}
	r := describe("")
	require.Equal(t, 4, r.Rows)
	require.Zero(t, r.Skipped)
	require.Equal(t, 2, r.Tampering.Rows)
	require.Equal(t, 1, r.Tampering.Items)
	require.Equal(t, 1, r.Tampering.Noted)
	require.Equal(t, []Count{{"signal", 2}}, r.Tampering.Kinds)
	require.Equal(t, []Count{{"replaced", 1}}, r.Tampering.NotedKinds)
	require.Len(t, r.Tampering.Listed, 2)
	require.Equal(t, []trajectories.Tampering{acted, noted}, r.Tampering.Listed[0].Tampering)

	for filter, rows := range map[trajectories.TamperedFilter]int{trajectories.TamperedExclude: 2, trajectories.TamperedOnly: 2, trajectories.TamperedNoted: 1, trajectories.TamperedInclude: 4} {
		r := describe(filter)
		require.Equal(t, rows, r.Rows, filter)
		require.Equal(t, 4-rows, r.Skipped, filter)
		require.Equal(t, rows, r.Score.N, filter)
	}

	r = New(Config{}).Result()
	require.False(t, r.Tampering.Found())
	raw, err := chat.Marshal(r.Tampering)
	require.NoError(t, err)
	require.JSONEq(t, `{"rows":0,"items":0,"noted_rows":0,"kinds":[],"noted_kinds":[],"listed":[]}`, string(raw))
}

func TestCollector_ReadsTamperingOfEveryForm(t *testing.T) {
	list := `[{"kind":"signal","target":"pytest","detail":"","active":true}]`
	text, err := json.Marshal(list)
	require.NoError(t, err)
	details, err := json.Marshal(`{"tampering":` + list + `}`)
	require.NoError(t, err)
	for name, line := range map[string]string{
		"sharegpt": `{"rollout_id":"r","tampered":true,"conversations":[{"from":"human","value":"x"}],"metadata":{"tampering":` + string(text) + `}}`,
		"messages": `{"messages":[{"role":"user","content":"x"}],"prompt_tokens":1,"details":` + string(details) + `}`,
		"foreign":  `{"messages":[{"role":"user","content":"x"}],"tampering":` + list + `}`,
		"rollout":  `{"rollout_id":"r","item_id":"i","step":0,"attempt":0,"outcome":"limit","tampering":` + list + `,"messages":[],"started_at":"2026-01-01T00:00:00Z","finished_at":"2026-01-01T00:00:00Z"}`,
	} {
		c := New(Config{Tampered: trajectories.TamperedOnly})
		require.NoError(t, c.Line([]byte(line)), name)
		require.Equal(t, []Count{{"signal", 1}}, c.Result().Tampering.Kinds, name)
	}
}
