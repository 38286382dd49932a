package env

import (
	"math"

	"github.com/hermes-env/hermes-env/env/config"
	"github.com/hermes-env/hermes-env/trajectories"
)

// leastDeviation keeps nearly equal scores from being blown up. It is the bound of the
// example trainer of Atropos, which normalises scores the same way by itself.
const leastDeviation = 1e-8

// advantages returns the advantage of every rollout of a group by attempt, empty when
// none are asked for. A rollout counts once however many sequences it has.
//
// config.AdvantagesMean is the score less the mean of the group, as in Dr. GRPO (Liu et
// al. 2025, arXiv:2503.20783); config.AdvantagesMeanStd divides that by the population
// standard deviation, as in GRPO (Shao et al. 2024, arXiv:2402.03300). Equal scores
// give 0 exactly.
func (r GroupRules) advantages(members []*trajectories.Rollout) map[int]float64 {
	if r.Advantages != config.AdvantagesMean && r.Advantages != config.AdvantagesMeanStd {
		return nil
	}
	list := make(map[int]float64, len(members))
	if equalScores(members) {
		for _, m := range members {
			list[m.Attempt] = 0
		}
		return list
	}
	n, sum, squares := float64(len(members)), 0.0, 0.0
	for _, m := range members {
		sum += *m.Score
	}
	mean := sum / n
	for _, m := range members {
		squares += (*m.Score - mean) * (*m.Score - mean)
	}
	scale := 1.0
	if r.Advantages == config.AdvantagesMeanStd {
		scale = math.Max(math.Sqrt(squares/n), leastDeviation)
	}
	for _, m := range members {
		list[m.Attempt] = (*m.Score - mean) / scale
	}
	return list
}
