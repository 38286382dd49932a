package env

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/trajectories"
)

func TestSummarizeTestLimits_CountsRecords(t *testing.T) {
	entry := func(item string, limits trajectories.TestLimits) Record {
		return Record{Key: trajectories.Key{ItemID: item}, TestLimits: limits}
	}
	list := SummarizeTestLimits(slices.Values([]Record{
		entry("b", trajectories.TestsLoadedCode), entry("a", trajectories.TestsLoadedCode|trajectories.TestFilesChanged), entry("a", trajectories.TestsLoadedCode), entry("c", 0),
	}))
	require.Equal(t, []TestLimit{{trajectories.TestsLoadedCode, 3, []string{"a", "b"}}, {trajectories.TestFilesChanged, 1, []string{"a"}}}, list)
	require.Equal(t, "the tests of 2 items (3 rollouts) loaded the agent's code into their own process, where no harness can detect a forged reward: a, b (loaded_by_tests in the records)", list[0].Sentence())
	require.Contains(t, list[1].Sentence(), "the tests of 1 item (1 rollout) wrote files")
	names := map[string]float64{}
	for _, m := range (&Summary{TestLimits: list}).metrics() {
		names[m.Name] = m.Value
	}
	require.EqualValues(t, 3, names["train/loaded_by_tests"]+names["eval/loaded_by_tests"])
	require.EqualValues(t, 1, names["train/changed_by_program"]+names["eval/changed_by_program"])
}
