package validation

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/trajectories"
)

var day = time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)

func scored(score float64) *trajectories.Rollout {
	passed := score >= 1
	return &trajectories.Rollout{
		Outcome: trajectories.OutcomeScored, Score: &score, Passed: &passed, FinishedAt: day,
		Timings:  trajectories.Timings{Total: 2},
		Sandbox:  &trajectories.Sandbox{Backend: "docker", Image: "img", Digest: "sha256:1"},
		Metadata: json.RawMessage(`{"verifier":{"test_stdout":"output of the tests\n"}}`),
	}
}

func unscored(outcome trajectories.Outcome, class, message string) *trajectories.Rollout {
	return &trajectories.Rollout{Outcome: outcome, Error: &trajectories.Failure{Class: class, Message: message}}
}

func times(n int, r *trajectories.Rollout) []*trajectories.Rollout {
	list := make([]*trajectories.Rollout, n)
	for i := range list {
		list[i] = r
	}
	return list
}

func TestJudgeTellsSoundItemsFromOthers(t *testing.T) {
	pass, miss, part := scored(1), scored(0), scored(0.5)
	crash := unscored(trajectories.OutcomeVerifierError, "RewardFileNotFoundError", "there is no reward")
	broken := unscored(trajectories.OutcomeSandboxError, "sandbox", "no such image")
	wrong := unscored(trajectories.OutcomeVerifierError, "oracle", "reference solution: exit code 3")
	late := scored(0)
	late.Outcome, late.StopReason = trajectories.OutcomeLimit, "time_limit"
	tests := map[string]struct {
		oracle, nop []*trajectories.Rollout
		want        Kind
		reasons     []string // parts of them, in order
		output      bool
	}{
		"the solution passes and nobody does not":       {times(3, pass), times(3, miss), Sound, nil, false},
		"nobody gets a part":                            {times(1, pass), times(1, part), Sound, nil, false},
		"the solution does not pass":                    {times(2, part), times(2, miss), Broken, []string{"the reference solution scores 0.5, which does not pass"}, true},
		"the solution runs out of time":                 {times(1, late), times(1, miss), Broken, []string{"cut off: time limit"}, false},
		"the solution fails":                            {times(1, wrong), times(1, miss), Broken, []string{"exit code 3"}, false},
		"nobody passes":                                 {times(2, pass), times(2, pass), Trivial, []string{"doing nothing scores 1, which passes"}, true},
		"nobody passes and the solution does not":       {times(1, miss), times(1, pass), Broken, []string{"scores 0,", "doing nothing scores 1"}, true},
		"the solution passes at times":                  {[]*trajectories.Rollout{pass, miss, pass}, times(3, miss), Flaky, []string{"the reference solution has different results: 2 × passed, 1 × not passed"}, true},
		"nobody passes at times":                        {times(2, pass), []*trajectories.Rollout{miss, pass}, Flaky, []string{"doing nothing has different results"}, true},
		"the verifier crashes at times":                 {[]*trajectories.Rollout{pass, crash}, times(2, miss), Flaky, []string{"1 × verifier_error (RewardFileNotFoundError)"}, false},
		"the verifier always crashes":                   {times(2, crash), times(2, crash), Failing, []string{"no score after the reference solution: there is no reward", "no score after doing nothing"}, false},
		"the verifier crashes when nothing was done":    {times(2, pass), times(2, crash), Failing, []string{"no score after doing nothing: there is no reward"}, false},
		"a sandbox failed once":                         {[]*trajectories.Rollout{pass, broken}, times(2, miss), Failing, []string{"sandbox_error: no such image"}, false},
		"a sandbox failed where results differ as well": {[]*trajectories.Rollout{pass, miss, broken}, times(3, miss), Failing, []string{"no such image"}, false},
		"there is no solution":                          {nil, times(2, miss), Unverifiable, []string{"no reference solution"}, false},
		"there is no solution and nobody passes":        {nil, times(2, pass), Trivial, []string{"doing nothing scores 1"}, true},
		"partial scores differ without passing":         {times(2, pass), []*trajectories.Rollout{miss, part}, Sound, nil, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var v Verdict
			require.NoError(t, v.Judge(test.oracle, test.nop))
			require.Equal(t, test.want, v.Kind)
			require.Len(t, v.Reasons, len(test.reasons), "%q", v.Reasons)
			for i, part := range test.reasons {
				require.Contains(t, v.Reasons[i], part)
			}
			if test.output {
				require.Equal(t, "output of the tests", v.TestOutput)
			}
			require.Equal(t, test.want != Sound && test.want != Unverifiable, v.Kind.Unsound())
		})
	}
}

func TestJudgeDescribesTheAttempts(t *testing.T) {
	var v Verdict
	require.NoError(t, v.Judge([]*trajectories.Rollout{scored(1), scored(0.5), unscored(trajectories.OutcomeVerifierError, "x", "y")}, times(1, scored(0))))
	mean := 0.75
	require.Equal(t, &Attempts{Passed: 1, Failed: 1, Errors: 1, Mean: &mean}, v.Oracle)
	require.Equal(t, 3, v.Oracle.Total())
	require.Equal(t, 1, v.Nop.Failed)
	require.Equal(t, 6.0, v.Seconds)
	require.Equal(t, "docker img sha256:1", strings.Join([]string{v.Backend, v.Image, v.ImageDigest}, " "))
	require.Equal(t, day, v.At)
}

func TestAnUnfinishedItemHasNoVerdict(t *testing.T) {
	cancelled := unscored(trajectories.OutcomeCancelled, "cancelled", "interrupted")
	for name, lists := range map[string][2][]*trajectories.Rollout{
		"nobody has not been tried": {times(1, scored(1)), nil},
		"the solution was stopped":  {{scored(1), cancelled}, times(2, scored(0))},
		"nobody was stopped":        {times(1, scored(1)), {cancelled}},
	} {
		t.Run(name, func(t *testing.T) {
			var v Verdict
			require.ErrorIs(t, v.Judge(lists[0], lists[1]), ErrUnfinished)
		})
	}
}

func TestTheOutputOfTheLastStageCounts(t *testing.T) {
	r := scored(0)
	r.Metadata = json.RawMessage(`{"stages":[{"verifier":{"test_stdout":"first"}},{"verifier":{"test_stdout":"second"}},{}]}`)
	require.Equal(t, "second", outputOf(r))
	r.Metadata = json.RawMessage(`{"verifier":{"test_stdout":"` + strings.Repeat("ä", 5000) + `end"}}`)
	out := outputOf(r)
	require.True(t, strings.HasPrefix(out, "…ä") && strings.HasSuffix(out, "end"))
	require.Equal(t, maxOutput+1, len([]rune(out)))
}
