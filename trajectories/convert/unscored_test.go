package convert

import (
	"encoding/json"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/agentloop/chat"
	"github.com/hermes-env/hermes-env/trajectories"
)

// makeFailedRun records a good rollout and one of each outcome that has no score.
func makeFailedRun(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "run")
	run, err := trajectories.Create(dir, trajectories.Info{Command: "process", Environment: "test", Config: json.RawMessage(`{"a":1}`), Version: "1", Tools: testTools(t)})
	require.NoError(t, err)
	require.NoError(t, run.Append(t.Context(), rollout(t, 1, 1)))
	require.NoError(t, run.Append(t.Context(), rollout(t, 1, 2)))
	for i, outcome := range []trajectories.Outcome{trajectories.OutcomeCancelled, trajectories.OutcomeModelError, trajectories.OutcomeSandboxError, trajectories.OutcomeVerifierError} {
		r := rollout(t, 0, 0)
		r.ID, r.Outcome, r.Group, r.ItemID = string(outcome), outcome, 10+i, string(outcome)
		r.Messages = []chat.Message{chat.User("q")}
		require.NoError(t, run.Append(t.Context(), r))
	}
	require.NoError(t, run.Close(trajectories.StatusDone))
	return dir
}

func TestRun_LeavesUnscoredRolloutsOutOfTrainingData(t *testing.T) {
	dir := makeFailedRun(t)
	why := map[string]int64{}
	for _, outcome := range []string{"cancelled", "model_error", "sandbox_error", "verifier_error"} {
		why["outcome "+outcome+", which has no score (--include-unscored keeps it)"] = 1
	}
	for _, d := range Formats() {
		if d.Format == ATIF {
			continue // written as atif-jsonl is, in files of its own
		}
		t.Run(string(d.Format), func(t *testing.T) {
			o := Options{Inputs: []string{dir}, To: d.Format, Text: TextConfig{Parser: "hermes"}}
			report, _ := run(t, o)
			if d.Format.records() {
				require.EqualValues(t, 6, report.Kept, "a record of what happened is whole")
				return
			}
			require.EqualValues(t, 2, report.Kept)
			require.Equal(t, why, counts(report.Filtered))
			if d.Format == Preference || d.Format == Groups || d.Format == KTO {
				return // they need scores
			}
			o.Filter.IncludeUnscored = true
			report, _ = run(t, o)
			require.EqualValues(t, 6, report.Kept)
			o.Filter = Filter{Outcomes: []string{"cancelled"}}
			report, _ = run(t, o)
			require.EqualValues(t, 1, report.Kept, "an outcome that is asked for")
		})
	}
}

func TestRun_KeepsForeignRowsWithoutAScore(t *testing.T) {
	path := writeLines(t, "x.jsonl", `{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"}]}`)
	_, lines := run(t, Options{Inputs: []string{path}, To: Messages})
	require.Len(t, lines, 1)
}
