package convert

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"github.com/hermes-env/hermes-env/agentloop/chat"
	"github.com/hermes-env/hermes-env/trajectories"
)

// makeScoredRun records attempts of one item with the given scores; those from 0.5 passed.
func makeScoredRun(t *testing.T, scores ...float64) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "run")
	run, err := trajectories.Create(dir, trajectories.Info{Command: "process", Environment: "test", Config: json.RawMessage(`{"a":1}`), Version: "1", Tools: testTools(t)})
	require.NoError(t, err)
	for i, score := range scores {
		r := rollout(t, 1, 1)
		r.ID, r.Attempt, r.Score, r.Passed, r.Tampering = fmt.Sprint("r", i), i, &score, pointer(score >= 0.5), nil
		r.Messages[len(r.Messages)-1] = chat.Assistant(fmt.Sprint("answer ", i), "")
		require.NoError(t, run.Append(t.Context(), r))
	}
	require.NoError(t, run.Close(trajectories.StatusDone))
	return dir
}

func TestPairing_ChoosesBothSides(t *testing.T) {
	dir := makeScoredRun(t, 0.9, 0.8, 0.6, 0.4, 0.2, 0)
	tests := map[string]struct {
		pairing Pairing
		want    []string
	}{
		"the best and the worst":   {Pairing{}, []string{"r0>r5"}},
		"right and wrong":          {Pairing{Passed: true, PerPrompt: 3}, []string{"r0>r5", "r1>r4", "r2>r3"}},
		"a threshold on each side": {Pairing{ChosenMin: pointer(0.8), RejectedMax: pointer(0.2), PerPrompt: 9}, []string{"r0>r5", "r1>r4", "r0>r4", "r1>r5"}},
		"a margin":                 {Pairing{Margin: 0.7, PerPrompt: 9}, []string{"r0>r5", "r0>r4", "r1>r5"}},
		"many pairs of few rows":   {Pairing{ChosenMin: pointer(0.9), PerPrompt: 2}, []string{"r0>r5", "r0>r4"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			report, lines := run(t, Options{Inputs: []string{dir}, To: Preference, Pairing: test.pairing})
			var got []string
			for _, l := range lines {
				got = append(got, gjson.Get(l, "rollout_id_chosen").String()+">"+gjson.Get(l, "rollout_id_rejected").String())
			}
			require.ElementsMatch(t, test.want, got)
			require.EqualValues(t, len(test.want), report.Written)
			_, sample := run(t, Options{Inputs: []string{dir}, To: Preference, Pairing: test.pairing, Filter: Filter{Sample: 1}})
			require.Len(t, sample, 1)
		})
	}
	for why, pairing := range map[string]Pairing{
		"no row of its prompt is right enough to be chosen":   {ChosenMin: pointer(0.95)},
		"no row of its prompt is wrong enough to be rejected": {RejectedMax: pointer(-1.0)},
		"a rollout would be both":                             {ChosenMin: pointer(0.1), RejectedMax: pointer(0.2)},
	} {
		_, err := Run(t.Context(), Options{Inputs: []string{dir}, To: Preference, Pairing: pairing, Out: filepath.Join(t.TempDir(), "x")})
		require.ErrorContains(t, err, why)
	}
	_, err := Run(t.Context(), Options{Inputs: []string{dir}, To: Messages, Pairing: Pairing{Passed: true}, Out: filepath.Join(t.TempDir(), "x")})
	require.ErrorContains(t, err, "preference pairs and KTO rows")
}

func TestRun_WritesKTORows(t *testing.T) {
	dir := makeScoredRun(t, 0.9, 0.6, 0.2)
	o := Options{Inputs: []string{dir}, To: KTO, Out: filepath.Join(t.TempDir(), "set")}
	_, lines := run(t, o)
	var labels []bool
	for _, l := range lines {
		row := gjson.Parse(l)
		require.Equal(t, []string{"prompt", "completion", "label", "tools"}, columns(l))
		require.Equal(t, "user", row.Get("prompt.0.role").Str)
		require.Equal(t, "assistant", row.Get("completion.0.role").Str)
		require.True(t, row.Get("completion.0.tool_calls.0.function.arguments").IsObject())
		labels = append(labels, row.Get("label").Bool())
	}
	require.Equal(t, []bool{true, true, false}, labels)
	card, err := os.ReadFile(filepath.Join(o.Out, "README.md"))
	require.NoError(t, err)
	require.Contains(t, string(card), "- name: label\n    dtype: bool\n")

	report, lines := run(t, Options{Inputs: []string{dir}, To: KTO, Pairing: Pairing{ChosenMin: pointer(0.8), RejectedMax: pointer(0.3)}})
	require.Len(t, lines, 2)
	require.EqualValues(t, 1, counts(report.Filtered)["neither right nor wrong (--chosen-min and --rejected-max say which scores are)"])
}

// The rules are those of the services' checks: one answer of the assistant on each side,
// and an input that does not end with one.
func TestRun_WritesPreferencePairsOfServices(t *testing.T) {
	dir := makeScoredRun(t, 0.9, 0.2)
	for consumer, rules := range map[Consumer]func(*testing.T, gjson.Result){
		OpenAITuning: func(t *testing.T, input gjson.Result) {
			require.True(t, input.Get("tools").IsArray())
			require.Equal(t, "tool", input.Get("messages.@reverse.0.role").Str)
		},
		Together: func(t *testing.T, input gjson.Result) {
			require.Equal(t, []string{"messages"}, columns(input.Raw))
			previous := ""
			for _, m := range input.Get("messages").Array() {
				require.Equal(t, []string{"role", "content"}, columns(m.Raw))
				require.Contains(t, []string{"system", "user", "assistant"}, m.Get("role").Str)
				require.NotEqual(t, previous, m.Get("role").Str)
				previous = m.Get("role").Str
			}
			require.Equal(t, "user", previous)
		},
	} {
		_, lines := run(t, Options{Inputs: []string{dir}, To: Preference, For: consumer})
		require.Len(t, lines, 1)
		row := gjson.Parse(lines[0])
		require.Equal(t, []string{"input", "preferred_output", "non_preferred_output"}, columns(lines[0]))
		rules(t, row.Get("input"))
		for side, text := range map[string]string{"preferred_output": "answer 0", "non_preferred_output": "answer 1"} {
			require.EqualValues(t, 1, row.Get(side+".#").Int())
			require.Equal(t, "assistant", row.Get(side+".0.role").Str)
			require.Equal(t, text, row.Get(side+".0.content").Str)
		}
	}
	_, lines := run(t, Options{Inputs: []string{dir}, To: Preference, For: TRL})
	row := gjson.Parse(lines[0])
	require.Equal(t, []string{"prompt", "chosen", "rejected", "tools"}, columns(lines[0]))
	require.True(t, row.Get("chosen.0.tool_calls.0.function.arguments").IsObject())
	_, err := Run(t.Context(), Options{Inputs: []string{dir}, To: Preference, For: Verl, Out: filepath.Join(t.TempDir(), "x")})
	require.ErrorIs(t, err, ErrUsage)
}
