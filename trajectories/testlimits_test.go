package trajectories

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTestLimitsOf_ReadsTheVerifierAndStages(t *testing.T) {
	for metadata, want := range map[string]TestLimits{
		``:   0,
		`{}`: 0,
		`{"verifier":{"isolated":true,"loaded_by_tests":[]}}`:                                     0,
		`{"verifier":{"loaded_by_tests":["/app/x.py"]}}`:                                          TestsLoadedCode,
		`{"verifier":{"isolated":false,"not_isolated":"no kernel"}}`:                              TestsNotIsolated,
		`{"verifier":{"changed_by_program":["/app/a","/app/b"]}}`:                                 TestFilesChanged,
		`{"stages":[{"verifier":{}},{"verifier":{"not_isolated":"x","loaded_by_tests":["/b"]}}]}`: TestsLoadedCode | TestsNotIsolated,
		`{"note":"loaded_by_tests"}`:                                                              0,
	} {
		require.Equal(t, want, TestLimitsOf([]byte(metadata)), metadata)
	}
	require.Equal(t, []string{"loaded_by_tests", "changed_by_program"}, (TestsLoadedCode | TestFilesChanged).Names())
	require.Equal(t, "/app/a", TestLimitExample([]byte(`{"verifier":{"changed_by_program":["/app/a","/app/b"]}}`), "changed_by_program"))
}

func TestEntry_KeepsTestLimitsInTheIndex(t *testing.T) {
	e, err := parseEntry([]byte(`{"rollout_id":"r","item_id":"i","step":0,"attempt":0,"outcome":"scored","score":1,"metadata":{"verifier":{"loaded_by_tests":["/app/x.py"],"changed_by_program":["/y"]}},"messages":[]}`))
	require.NoError(t, err)
	require.Equal(t, TestsLoadedCode|TestFilesChanged, e.TestLimits)
}

func TestRun_CountsTestLimitsOfRecordedRollouts(t *testing.T) {
	r := &Rollout{Metadata: []byte(`{"verifier":{"not_isolated":"no kernel"}}`)}
	require.Equal(t, TestsNotIsolated, r.Entry().TestLimits)
}
