package env

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOneAttemptPerItemGivesTheUsualStandardError(t *testing.T) {
	e := ClusteredMean(map[string][]float64{"a": {1}, "b": {0}, "c": {1}, "d": {1}})
	require.Equal(t, 0.75, e.Mean)
	require.InDelta(t, 0.5/math.Sqrt(4), e.StdErr, 1e-12) // s = 0.5, n = 4
	require.Equal(t, 4, e.Clusters)
}

func TestRepeatingAnItemDoesNotShrinkTheErrorBar(t *testing.T) {
	once := ClusteredMean(map[string][]float64{"a": {1}, "b": {0}, "c": {1}})
	tenfold := ClusteredMean(map[string][]float64{"a": ones(10, 1), "b": ones(10, 0), "c": ones(10, 1)})
	require.InDelta(t, once.StdErr, tenfold.StdErr, 1e-12, "ten identical attempts tell no more about other items than one")
	spread := ClusteredMean(map[string][]float64{"a": {1, 0}, "b": {0, 1}, "c": {1, 0}})
	require.Zero(t, spread.StdErr, "every item has the same mean")
}

func ones(n int, v float64) []float64 {
	list := make([]float64, n)
	for i := range list {
		list[i] = v
	}
	return list
}

func TestWithoutTwoItemsThereIsNoErrorBar(t *testing.T) {
	require.True(t, math.IsNaN(ClusteredMean(map[string][]float64{"a": {1, 0, 1}}).StdErr))
	require.True(t, math.IsNaN(ClusteredMean(nil).Mean))
	require.Equal(t, 1, ClusteredMean(map[string][]float64{"a": {1}, "b": nil}).Clusters)
}

func TestPassAtKIsTheShareOfSubsetsWithAPass(t *testing.T) {
	for n := 1; n <= 8; n++ {
		for c := 0; c <= n; c++ {
			for k := 1; k <= n; k++ {
				require.InDelta(t, countSubsets(n, c, k), PassAtK(n, c, k), 1e-12, "n=%d c=%d k=%d", n, c, k)
			}
		}
	}
	require.True(t, math.IsNaN(PassAtK(3, 1, 4)))
	require.True(t, math.IsNaN(PassAtK(3, 1, 0)))
	require.InDelta(t, 0.00999, PassAtK(100000, 10, 100), 1e-4, "large numbers don't overflow")
}

// countSubsets computes pass@k by going through all subsets of k attempts, of
// which the first c passed.
func countSubsets(n, c, k int) float64 {
	total, pass := 0, 0
	for set := range 1 << n {
		size, passed := 0, false
		for i := range n {
			if set&(1<<i) != 0 {
				size++
				passed = passed || i < c
			}
		}
		if size == k {
			total++
			if passed {
				pass++
			}
		}
	}
	return float64(pass) / float64(total)
}
