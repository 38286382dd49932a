package compare

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/trajectories"
)

func pointer[T any](v T) *T { return &v }

func scored(item string, attempt int, score float64) trajectories.Entry {
	return trajectories.Entry{Key: trajectories.Key{ItemID: item, Attempt: attempt}, ItemDigest: "d", Outcome: trajectories.OutcomeScored, Score: &score, Passed: pointer(score >= 1)}
}

func failed(item string, o trajectories.Outcome) trajectories.Entry {
	return trajectories.Entry{Key: trajectories.Key{ItemID: item}, ItemDigest: "d", Outcome: o}
}

func side(entries ...trajectories.Entry) *Side {
	s := NewSide()
	for _, e := range entries {
		s.Add(e)
	}
	return s
}

func TestThePairedDifferenceIsTheOneWorkedOutByHand(t *testing.T) {
	// Item means: a ½ → 1, b 0 → 0, c 1 → 0, d 0 → 1; differences ½, 0, −1, 1.
	a := side(scored("a", 0, 1), scored("a", 1, 0), scored("b", 0, 0), scored("c", 0, 1), scored("d", 0, 0))
	b := side(scored("a", 0, 1), scored("b", 0, 0), scored("c", 0, 0), scored("d", 0, 1))
	r, err := Compare(a, b)
	require.NoError(t, err)
	require.Equal(t, 4, r.Paired.Items)
	require.InDelta(t, 0.125, r.Paired.Mean, 1e-12)
	require.InDelta(t, 0.375, r.Paired.MeanA, 1e-12)
	require.InDelta(t, 0.5, r.Paired.MeanB, 1e-12)
	// Σ (d − ⅛)² = 0.140625 + 0.015625 + 1.265625 + 0.765625 = 2.1875; / 3 / 4.
	se := math.Sqrt(2.1875 / 12)
	require.InDelta(t, se, *r.Paired.StdErr, 1e-12)
	require.InDelta(t, 0.125-3.182446*se, *r.Paired.Low, 1e-6, "Student's t with 3 degrees of freedom")
	require.InDelta(t, 0.125+3.182446*se, *r.Paired.High, 1e-6)
	require.Equal(t, SignTest{Better: 2, Worse: 1, Ties: 1, P: 1}, r.Sign)
	require.Nil(t, r.McNemar, "item a has two attempts")
	require.Equal(t, []string{"a", "d"}, r.Gained)
	require.Equal(t, []string{"c"}, r.Lost)
	require.Equal(t, "c", r.Items[0].ID, "the largest loss comes first")
}

func TestMcNemarIsExact(t *testing.T) {
	var a, b []trajectories.Entry
	add := func(n int, x, y float64) {
		for range n {
			id := fmt.Sprint("i", len(a))
			a, b = append(a, scored(id, 0, x)), append(b, scored(id, 0, y))
		}
	}
	add(10, 1, 1)
	add(2, 1, 0)
	add(9, 0, 1)
	add(5, 0, 0)
	r, err := Compare(side(a...), side(b...))
	require.NoError(t, err)
	require.Equal(t, 10, r.McNemar.BothPass)
	require.Equal(t, 2, r.McNemar.OnlyA)
	require.Equal(t, 9, r.McNemar.OnlyB)
	require.Equal(t, 5, r.McNemar.BothFail)
	// 2·(C(11,0)+C(11,1)+C(11,2)) / 2¹¹ = 134/2048.
	require.InDelta(t, 134.0/2048, r.McNemar.P, 1e-12)
}

func TestWhatHasNoPartnerOrNoScoreIsReported(t *testing.T) {
	changed := scored("changed", 0, 1)
	changed.ItemDigest = "other"
	a := side(scored("both", 0, 1), failed("both", trajectories.OutcomeSandboxError), scored("only a", 0, 1), failed("x", trajectories.OutcomeModelError), scored("y", 0, 1), scored("changed", 0, 1), failed("cut", trajectories.OutcomeCancelled), scored("gone", 0, 1))
	b := side(scored("both", 0, 1), scored("only b", 0, 1), scored("x", 0, 1), failed("y", trajectories.OutcomeVerifierError), changed, scored("cut", 0, 1), failed("gone", trajectories.OutcomeCancelled))
	r, err := Compare(a, b)
	require.NoError(t, err)
	require.Equal(t, []string{"only a", "gone"}, r.OnlyA)
	require.Equal(t, []string{"only b", "cut"}, r.OnlyB)
	require.Equal(t, []string{"x"}, r.UnscoredA)
	require.Equal(t, []string{"y"}, r.UnscoredB)
	require.Equal(t, []string{"changed"}, r.Changed)
	require.Equal(t, 1, r.Paired.Items)
	require.Nil(t, r.Paired.StdErr)
	// As zero: both ½ → 1, x 0 → 1, y 1 → 0.
	require.Equal(t, 3, r.UnscoredAsZero.Items)
	require.InDelta(t, 0.5/3, r.UnscoredAsZero.Mean, 1e-12)
	require.Equal(t, Counts{Attempted: 7, Scored: 5}, r.RolloutsA)
}

func TestRunsWithoutCommonScoresCannotBeCompared(t *testing.T) {
	r, err := Compare(side(scored("a", 0, 1)), side(scored("b", 0, 1)))
	require.ErrorIs(t, err, ErrNoPairs)
	require.Equal(t, []string{"a"}, r.OnlyA)
	_, err = Compare(NewSide(), NewSide())
	require.ErrorIs(t, err, ErrNoPairs)
}

func TestARunAgainstItselfShowsNoDifference(t *testing.T) {
	a := side(scored("a", 0, 1), scored("b", 0, 0.1), scored("c", 0, 0.7))
	r, err := Compare(a, a)
	require.NoError(t, err)
	require.Zero(t, r.Paired.Mean)
	require.Zero(t, *r.Paired.StdErr)
	require.Nil(t, r.Paired.P)
	require.Equal(t, 1.0, r.Sign.P)
}

func TestQuantilesAndProbabilitiesAreThoseOfTheTables(t *testing.T) {
	for _, test := range []struct{ p, freedom, want float64 }{
		{0.975, 1, 12.7062}, {0.975, 2, 4.30265}, {0.975, 10, 2.22814}, {0.975, 30, 2.04227}, {0.975, 88, 1.98729}, {0.975, 1e6, 1.95997}, {0.95, 5, 2.01505},
	} {
		require.InDelta(t, test.want, studentQuantile(test.p, test.freedom), 5e-5)
	}
	require.InDelta(t, 0.025, studentCDF(-2.22814, 10), 1e-6)
	for _, test := range []struct {
		one, other int
		want       float64
	}{{0, 0, 1}, {1, 0, 1}, {5, 0, 0.0625}, {0, 6, 0.03125}, {8, 2, 0.109375}, {3, 3, 1}} {
		require.InDelta(t, test.want, SignP(test.one, test.other), 1e-12)
	}
	require.InDelta(t, 1, SignP(5000, 5000), 1e-9, "no overflow")
}

func TestTheIntervalCoversTheTruthAsOftenAsItSays(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	const runs, items, attempts, effect = 1000, 40, 3, 0.1
	covered, found := 0, 0
	for range runs {
		a, b := NewSide(), NewSide()
		for i := range items {
			id := fmt.Sprint(i)
			p := 0.9 * rng.Float64() // so that the effect is the same everywhere
			for k := range attempts {
				a.Add(scored(id, k, draw(rng, p)))
				b.Add(scored(id, k, draw(rng, p+effect)))
			}
		}
		r, err := Compare(a, b)
		require.NoError(t, err)
		if *r.Paired.Low <= effect && effect <= *r.Paired.High {
			covered++
		}
		if *r.Paired.Low > 0 {
			found++
		}
	}
	require.InDelta(t, 0.95, float64(covered)/runs, 0.02)
	require.Greater(t, found, runs/3, "an effect of this size is mostly found")
}

func draw(rng *rand.Rand, p float64) float64 {
	if rng.Float64() < p {
		return 1
	}
	return 0
}
