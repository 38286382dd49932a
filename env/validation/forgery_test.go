package validation

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/trajectories"
)

// forged is a rollout of a forgery.
func forged(name, control string, score float64, change ...func(*trajectories.Rollout)) *trajectories.Rollout {
	metadata, err := json.Marshal(map[string]string{"forgery": name, "forgery_control": control})
	if err != nil {
		panic(err)
	}
	did := score > 0
	r := &trajectories.Rollout{Outcome: trajectories.OutcomeScored, Score: &score, Passed: &did, Metadata: metadata}
	for _, c := range change {
		c(r)
	}
	return r
}

func failed(outcome trajectories.Outcome, class string) func(*trajectories.Rollout) {
	return func(r *trajectories.Rollout) {
		r.Outcome, r.Score, r.Passed, r.Error = outcome, nil, nil, &trajectories.Failure{Class: class, Message: "because"}
	}
}

func tampered(active bool) func(*trajectories.Rollout) {
	return func(r *trajectories.Rollout) {
		r.Tampering = []trajectories.Tampering{{Kind: "signal", Target: "/tests/test.sh", Active: active}}
	}
}

func TestJudgeForgeries_SortsResults(t *testing.T) {
	tests := map[string]struct {
		rollout *trajectories.Rollout
		control float64
		loaded  []string
		kind    Kind // before
		result  string
		want    Kind
	}{
		"no reward":                            {forged("f", "", 0), 0, nil, Sound, ForgeryStopped, Sound},
		"a reward":                             {forged("f", "", 1), 0, nil, Sound, ForgeryPassed, Forgeable},
		"a reward without solution":            {forged("f", "", 1), 0, nil, Unverifiable, ForgeryPassed, Forgeable},
		"a reward of a broken item":            {forged("f", "", 1), 0, nil, Broken, ForgeryPassed, Broken},
		"a trivial item":                       {forged("f", "", 1), 0, nil, Trivial, ForgeryUntried, Trivial},
		"a reward on the record":               {forged("f", "", 1, tampered(true)), 0, nil, Sound, ForgeryRecorded, Sound},
		"a reward with a note":                 {forged("f", "", 1, tampered(false)), 0, nil, Sound, ForgeryPassed, Forgeable},
		"refused":                              {forged("f", "", 0, failed(trajectories.OutcomeVerifierError, "tampered")), 0, nil, Sound, ForgeryRecorded, Sound},
		"no score":                             {forged("f", "", 0, failed(trajectories.OutcomeVerifierError, "RewardFileNotFoundError")), 0, nil, Sound, ForgeryErased, Sound},
		"no score by tampering without effect": {forged("f", "", 0, failed(trajectories.OutcomeVerifierError, "no_interpreter"), tampered(false)), 0, nil, Sound, ForgeryErased, Sound},
		"not possible":                         {forged("f", "", 0, failed(trajectories.OutcomeVerifierError, "forgery")), 0, nil, Sound, ForgeryUntried, Sound},
		"an erased failure":                    {forged("f", "", 0, failed(trajectories.OutcomeSandboxError, "setup")), 0, nil, Sound, ForgeryErased, Sound},
		"unused programs":                      {forged("f", "c", 1), 1, nil, Sound, ForgeryUntried, Sound},
		"a replaced program":                   {forged("f", "c", 1), 0, nil, Sound, ForgeryPassed, Forgeable},
		"a loaded program":                     {forged("f", "c", 1), 0, []string{"/app/x.py"}, Sound, ForgeryInProcess, Sound},
		"another way":                          {forged("f", "", 1), 0, []string{"/app/x.py"}, Sound, ForgeryPassed, Forgeable},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			v := Verdict{Kind: test.kind, LoadedByTests: test.loaded}
			require.NoError(t, v.JudgeForgeries([]*trajectories.Rollout{forged("c", "", test.control), test.rollout}))
			require.Equal(t, test.result, v.Forgeries[1].Result)
			require.Equal(t, test.want, v.Kind)
			require.Equal(t, test.result == ForgeryPassed, len(v.Reasons) > 0)
		})
	}
	// Where doing nothing gets no score either, it is not the forgery that brought that about.
	v := Verdict{Kind: Unverifiable, Nop: Attempts{Errors: 1}}
	require.NoError(t, v.JudgeForgeries([]*trajectories.Rollout{forged("f", "", 0, failed(trajectories.OutcomeVerifierError, "RewardFileNotFoundError"))}))
	require.Equal(t, ForgeryStopped, v.Forgeries[0].Result)
	v = Verdict{Kind: Sound}
	require.ErrorIs(t, v.JudgeForgeries([]*trajectories.Rollout{forged("f", "", 0, failed(trajectories.OutcomeCancelled, "cancelled"))}), ErrUnfinished)
}

func TestLoadedByTests_ReadsStages(t *testing.T) {
	r := &trajectories.Rollout{Metadata: []byte(`{"verifier":{"loaded_by_tests":["/b.py"]},"stages":[{"verifier":{"loaded_by_tests":["/a.py","/b.py"]}}]}`)}
	require.Equal(t, []string{"/a.py", "/b.py"}, LoadedByTests(r))
}
