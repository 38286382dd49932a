package env

import (
	"math"
	"sort"
)

// Estimate is a mean with its standard error.
type Estimate struct {
	Mean     float64
	StdErr   float64 // NaN when it can't be estimated
	N        int     // observations
	Clusters int     // items they come from
}

// ClusteredMean averages scores of several attempts per item. Attempts of one
// item are not independent, so the standard error is clustered by item: with
// residuals e and C clusters, SE² = C/(C-1) · Σ_c (Σ_i e_ci)² / n², which with
// one attempt per item is the usual s/√n (Miller 2024, "Adding Error Bars to
// Evals", arXiv:2411.00640, with the small-sample factor). Fewer than two items
// give no standard error.
func ClusteredMean(scores map[string][]float64) Estimate {
	e := Estimate{StdErr: math.NaN(), Mean: math.NaN()}
	sum := 0.0
	for _, item := range sortedKeys(scores) {
		if len(scores[item]) == 0 {
			continue
		}
		e.Clusters++
		for _, s := range scores[item] {
			sum += s
			e.N++
		}
	}
	if e.N == 0 {
		return e
	}
	e.Mean = sum / float64(e.N)
	if e.Clusters < 2 {
		return e
	}
	squares := 0.0
	for _, item := range sortedKeys(scores) {
		residual := 0.0
		for _, s := range scores[item] {
			residual += s - e.Mean
		}
		squares += residual * residual
	}
	c := float64(e.Clusters)
	e.StdErr = math.Sqrt(c/(c-1)*squares) / float64(e.N)
	return e
}

// PassAtK is the unbiased estimate of the chance that at least one of k attempts
// passes, from n attempts of which c passed: 1 − C(n−c,k)/C(n,k) (Chen et al.
// 2021, "Evaluating Large Language Models Trained on Code", arXiv:2107.03374).
// It returns NaN when k is not in 1..n.
func PassAtK(n, c, k int) float64 {
	if k < 1 || k > n {
		return math.NaN()
	}
	if n-c < k {
		return 1
	}
	fail := 1.0
	for i := n - c + 1; i <= n; i++ {
		fail *= 1 - float64(k)/float64(i)
	}
	return 1 - fail
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys) // a fixed order of summation gives the same digits every time
	return keys
}
