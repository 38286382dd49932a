package convert

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"github.com/hermes-env/hermes-env/agentloop/chat"
	"github.com/hermes-env/hermes-env/trajectories"
)

// callingRun records two scored attempts whose calls have ids of their own.
func callingRun(t *testing.T, answers ...string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "run")
	run, err := trajectories.Create(dir, trajectories.Info{Command: "process", Environment: "test", Config: []byte(`{"a":1}`), Version: "1", Tools: testTools(t)})
	require.NoError(t, err)
	for i, answer := range answers {
		r := rollout(t, 1, 1)
		id := fmt.Sprintf("call_%d", i)
		r.ID, r.Attempt, r.Score, r.Passed, r.Tampering = fmt.Sprint("r", i), i, pointer(1-float64(i)), pointer(i == 0), nil
		r.Messages = []chat.Message{chat.User("q"), chat.Assistant("", "", chat.ToolCall{ID: id, Name: "terminal", Arguments: `{"command": "ls"}`}), chat.Tool(id, "out"), chat.Assistant(answer, "")}
		require.NoError(t, run.Append(t.Context(), r))
	}
	require.NoError(t, run.Close(trajectories.StatusDone))
	return dir
}

func TestRun_PairsDifferInMoreThanIDsOfCalls(t *testing.T) {
	differ, same := callingRun(t, "right", "wrong"), callingRun(t, "right", "right")
	for _, consumer := range []Consumer{"", TRL, OpenAITuning, Together} {
		_, lines := run(t, Options{Inputs: []string{differ}, To: Preference, For: consumer})
		require.Len(t, lines, 1)
		if consumer == OpenAITuning || consumer == Together {
			require.Equal(t, "right", gjson.Get(lines[0], "preferred_output.0.content").Str)
			require.Equal(t, "wrong", gjson.Get(lines[0], "non_preferred_output.0.content").Str)
		}
		_, err := Run(t.Context(), Options{Inputs: []string{same}, To: Preference, For: consumer, Out: filepath.Join(t.TempDir(), "x")})
		require.ErrorIs(t, err, ErrUsage)
		require.ErrorContains(t, err, "1 rows: "+reasonSameSides)
		report, lines := run(t, Options{Inputs: []string{differ, writeLines(t, "same.jsonl", `{"prompt":"z","chosen":"a","rejected":"a"}`)}, To: Preference, For: consumer})
		require.Len(t, lines, 1)
		require.EqualValues(t, 1, counts(report.Lost)[reasonSameSides])
	}
}

func TestDecode_PairsHaveTheirPromptOnce(t *testing.T) {
	const (
		user   = `{"role":"user","content":"how?"}`
		system = `{"role":"system","content":"s"}`
		first  = `{"role":"user","content":"one"},{"role":"assistant","content":"two"}`
	)
	for name, test := range map[string]struct{ prompt, before, want string }{
		"answers alone":                     {`"how?"`, "", "user"},
		"whole conversations":               {`"how?"`, user + ",", "user"},
		"whole conversations with a system": {`"how?"`, system + "," + user + ",", "system,user"},
		"a list, answers alone":             {"[" + system + "," + user + "]", "", "system,user"},
		"a list, whole conversations":       {"[" + system + "," + user + "]", system + "," + user + ",", "system,user"},
		"a list with a system of its own":   {"[" + system + "," + user + "]", user + ",", "system,user"},
		"sides with a system of their own":  {"[" + user + "]", system + "," + user + ",", "system,user"},
		"the last message of several":       {`"how?"`, first + "," + user + ",", "user,assistant,user"},
		"a prompt in a format of its own":   {`"<user>how?</user>"`, user + ",", "user"},
		"a prompt of several turns":         {"[" + first + "," + user + "]", first + "," + user + ",", "user,assistant,user"},
		"no prompt":                         {"null", user + ",", "user"},
		"system and user apart":             {"[" + system + "]", user + ",", "system,user"},
	} {
		t.Run(name, func(t *testing.T) {
			line := `{"prompt":` + test.prompt + `,"chosen":[` + test.before + `{"role":"assistant","content":"good"}],"rejected":[` + test.before + `{"role":"assistant","content":"bad"}]}`
			_, rows, err := (&decoder{}).decode("x.jsonl", record{number: 1, text: []byte(line)})
			require.NoError(t, err)
			for _, r := range rows {
				roles := ""
				for _, m := range r.Messages[:len(r.Messages)-1] {
					if roles != "" {
						roles += ","
					}
					roles += string(m.Role())
				}
				require.Equal(t, test.want, roles)
			}
		})
	}
}

func TestRun_KeepsGivenPairs(t *testing.T) {
	path := writeLines(t, "pairs.jsonl", `{"prompt":"q","chosen":"a","rejected":"b"}`, `{"prompt":"q","chosen":"c","rejected":"d"}`, `{"prompt":"p","chosen":"e","rejected":"f","score_chosen":2,"score_rejected":5}`)
	want := []string{"a>b", "c>d", "e>f"}
	for _, filter := range []Filter{{}, {Dedupe: DedupeConversation}} {
		_, lines := run(t, Options{Inputs: []string{path}, To: Preference, Filter: filter})
		var got []string
		for _, l := range lines {
			got = append(got, gjson.Get(l, "chosen.0.content").Str+">"+gjson.Get(l, "rejected.0.content").Str)
		}
		require.Equal(t, want, got)
	}
	_, lines := run(t, Options{Inputs: []string{path}, To: Preference, Filter: Filter{Dedupe: DedupePrompt}})
	require.Len(t, lines, 2)
	_, lines = run(t, Options{Inputs: []string{path}, To: Preference, Filter: Filter{Sample: 1}})
	require.Len(t, lines, 1)
	_, err := Run(t.Context(), Options{Inputs: []string{path}, To: Preference, Pairing: Pairing{Margin: 0.5}, Out: filepath.Join(t.TempDir(), "x")})
	require.ErrorContains(t, err, "closer than the margin")

	for _, o := range []Options{{For: TRL}, {To: Messages}, {To: OpenAI}, {To: ShareGPT}} {
		o.Inputs = []string{path}
		report, lines := run(t, o)
		require.Len(t, lines, 3, "SFT takes the chosen sides")
		require.EqualValues(t, 3, counts(report.Filtered)[reasonRejectedSide])
	}
	_, lines = run(t, Options{Inputs: []string{path}, To: KTO})
	require.Len(t, lines, 6)
	for i, l := range lines {
		require.Equal(t, i%2 == 0, gjson.Get(l, "label").Bool(), l)
	}
	out := filepath.Join(t.TempDir(), "set")
	run(t, Options{Inputs: []string{path}, To: Preference, For: TRL, Out: out})
	_, err = os.Stat(filepath.Join(out, "README.md"))
	require.NoError(t, err)
}
