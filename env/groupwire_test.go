package env

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"github.com/hermes-env/hermes-env/agentloop/chat"
	"github.com/hermes-env/hermes-env/env/atropos"
	"github.com/hermes-env/hermes-env/env/config"
	"github.com/hermes-env/hermes-env/trajectories"
)

var update = flag.Bool("update", false, "write golden files anew")

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(path, got, 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), string(got), "differs from testdata/%s; run with -update when the change is meant", name)
}

// fullGroup has every field there is.
func fullGroup(t *testing.T) *trajectories.Group {
	t.Helper()
	rules := GroupRules{MinMembers: 1, Advantages: config.AdvantagesMeanStd, Truncated: config.TruncatedZero, GenerationParams: json.RawMessage(`{"temperature":0.8}`)}
	members := []*trajectories.Rollout{member(0, 1, sampled(4)), member(1, 0, cutOff, sampled(2)), member(2, 0, unscored)}
	v := rules.Judge(3, "item", members, GroupHooks{Extend: func(g *trajectories.Group) error {
		g.Overrides = json.RawMessage(`{"task_id":"é <1>"}`)
		for i := range g.Sequences {
			s := &g.Sequences[i]
			n := len(s.Tokens)
			s.RefLogprobs = make([]float64, n)
			s.DistillTokenIDs, s.DistillLogprobs = make([][]int, n), make([][]float64, n)
			for at := 1; at < n; at++ {
				s.RefLogprobs[at] = -0.25
				s.DistillTokenIDs[at], s.DistillLogprobs[at] = []int{at, at + 1}, []float64{-0.125, -2}
			}
		}
		g.Sequences[0].Images = json.RawMessage(`["data:image/png;base64,AAAA"]`)
		g.Sequences[0].Overrides = json.RawMessage(`{"temperature":0.5}`)
		return nil
	}})
	require.NotNil(t, v.Group, v.Text)
	return v.Group
}

func TestAGroupOnTheWireHasEveryFieldAndIsWhatTheServerTakes(t *testing.T) {
	var lines []byte
	for _, c := range []struct {
		group    *trajectories.Group
		messages bool
	}{
		{fullGroup(t), true},
		{GroupRules{}.Judge(0, "item", []*trajectories.Rollout{member(0, 1, sampled(2)), member(1, 0, sampled(2))}, GroupHooks{}).Group, false},
		{GroupRules{}.Judge(0, "item", []*trajectories.Rollout{member(0, 1), member(1, 0)}, GroupHooks{}).Group, false},
	} {
		wire, err := WireGroup(c.group, c.messages)
		require.NoError(t, err)
		line, err := atropos.AppendGroup(nil, wire)
		require.NoError(t, err)
		taken, err := atropos.Rules{}.DecodeGroup(line)
		require.NoError(t, err)
		require.Len(t, c.group.Sequences, int(taken.Sequences))
		lines = append(append(lines, line...), '\n')
	}
	golden(t, "wire_groups.jsonl", lines)
}

func TestTheGroupFileHasEveryFieldToo(t *testing.T) {
	line, err := trajectories.AppendGroup(nil, *fullGroup(t), true)
	require.NoError(t, err)
	golden(t, "file_group.jsonl", append(line, '\n'))
	var keys []string
	gjson.ParseBytes(line).ForEach(func(key, _ gjson.Result) bool {
		keys = append(keys, key.Str)
		return true
	})
	require.Equal(t, []string{"tokens", "masks", "scores", "advantages", "ref_logprobs", "inference_logprobs", "messages", "group_overrides", "overrides", "images",
		"generation_params", "distill_token_ids", "distill_logprobs"}, keys)
}

func TestMessagesOnTheWireHaveARoleAndContent(t *testing.T) {
	bare, err := chat.Decode([]byte(`{"role":"assistant","tool_calls":[]}`))
	require.NoError(t, err)
	require.Equal(t, `{"role":"assistant","tool_calls":[],"content":null}`, string(wireMessages([]chat.Message{bare})[0]))
	require.Equal(t, string(chat.User("<x>").JSON()), string(wireMessages([]chat.Message{chat.User("<x>")})[0]))
}

func TestWhatDoesNotFitTogetherIsNotSent(t *testing.T) {
	g := fullGroup(t)
	g.Sequences[0].Masks = nil
	_, err := WireGroup(g, false)
	require.ErrorContains(t, err, "group of step 3: sequence 0 has 4 tokens and 0 mask values")
}
