package report

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/trajectories"
	"github.com/hermes-env/hermes-env/trajectories/stats"
)

func tamperedRollout(item, text string, active bool) *trajectories.Rollout {
	r := rollout(item, 0, pointer(1.0), "plain")
	r.Tampering = []trajectories.Tampering{{Kind: "reward_write", Target: "/logs/verifier/reward.txt", Detail: text, Active: active}, {Kind: "replaced", Target: "/usr/bin/curl"}}
	return r
}

func TestWriteRun_ShowsTamperingInTheOverviewAndPerRollout(t *testing.T) {
	page := build(t, Config{}, Run{Title: "x"}, tamperedRollout("a", "written by pid 7", true), tamperedRollout("b", "", false), rollout("c", 0, pointer(0.0), "plain"))
	requireSafe(t, page, 3)
	require.Contains(t, page, `<dt>tampered</dt><dd><a href="#tampering">1</a></dd><dd class="small">noted in 1</dd>`)
	require.Contains(t, page, `The agent acted on its verification in 1 rollout of 1 item. In 1 more something was noted that had no effect or was undone.`)
	require.Contains(t, page, `<b>reward_write</b> /logs/verifier/reward.txt · written by pid 7`)
	require.Contains(t, page, `replaced <em>noted</em> /usr/bin/curl`)
	require.Contains(t, page, `<th scope="row"><a href="#t1">b</a></th>`)
	require.Contains(t, page, `<option value="tampered">`)
	require.Contains(t, page, `<option value="noted">`)
	require.Contains(t, page, `data-tags="tampered"`)
	require.Contains(t, page, `data-tags="noted"`)
	require.Contains(t, page, "a, attempt 0: passed, score 1, the agent tampered with the verification: reward_write, 2 turns")
	require.Contains(t, page, "b, attempt 0: passed, score 1, noted: replaced, reward_write, 2 turns")
	require.Contains(t, page, ">✓ ⚑</a>")
	transcripts := unpack(t, page)
	require.Equal(t, []tampered{{"reward_write", "/logs/verifier/reward.txt · written by pid 7", true}, {"replaced", "/usr/bin/curl", false}}, transcripts[0].Tampered)
	require.Empty(t, transcripts[2].Tampered)
}

func TestWriteRun_SaysNothingOfTamperingWhereThereWasNone(t *testing.T) {
	page := build(t, Config{}, Run{Title: "x"}, rollout("c", 0, pointer(0.0), "plain"))
	page = script.ReplaceAllString(page, "")
	require.NotContains(t, page, "tamper")
	require.NotContains(t, page, "⚑")
}

func TestWriteRun_ShowsHostileTamperingAsText(t *testing.T) {
	r := tamperedRollout("a", hostile, true)
	r.Tampering[1].Kind, r.Tampering[1].Target = hostile, hostile
	for range 60 {
		r.Tampering = append(r.Tampering, trajectories.Tampering{Kind: hostile, Target: hostile, Detail: strings.Repeat(hostile, 100)})
	}
	requireSafe(t, build(t, Config{}, Run{Title: "x"}, r), 1)
	require.Contains(t, build(t, Config{Groups: true}, Run{Title: "x"}, r), `data-tags="same tampered"`)
	c := stats.New(stats.Config{})
	c.Rollout(r)
	var out bytes.Buffer
	require.NoError(t, WriteStatistics(&out, "title", "", "1", time.Unix(0, 0), c.Result()))
	requireSafe(t, out.String(), 0)
	require.Contains(t, out.String(), "<dt>tampered</dt>")
}
