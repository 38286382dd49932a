package env

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/trajectories"
)

func TestAGroupsLineHoldsAllSequencesOfItsRolloutsOrSaysWhatIsMissing(t *testing.T) {
	score := 0.5
	exact := trajectories.TokenSequence{Tokens: []int{1, 2}, Masks: []int{-100, 2}, Logprobs: []float64{1, -0.5}}
	plain := func() *trajectories.Rollout { return &trajectories.Rollout{Score: &score} }
	with := func(sequences ...trajectories.TokenSequence) *trajectories.Rollout {
		r := plain()
		r.Sequences = sequences
		return r
	}
	incomplete := with(exact)
	incomplete.Attempt, incomplete.NotTrainable = 1, "answer 2: no ids"
	for name, c := range map[string]struct {
		members []*trajectories.Rollout
		rows    int
		size    int
		why     string
	}{
		"without tokens":              {[]*trajectories.Rollout{plain(), plain()}, 2, 0, ""},
		"one sequence each":           {[]*trajectories.Rollout{with(exact), with(exact)}, 2, 0, ""},
		"a rollout that forked":       {[]*trajectories.Rollout{with(exact, exact), with(exact)}, 3, 3, ""},
		"a rollout that is not known": {[]*trajectories.Rollout{with(exact), incomplete}, 0, 0, "the tokens of attempt 1 are incomplete: answer 2: no ids"},
		"some with and some without":  {[]*trajectories.Rollout{with(exact), plain()}, 0, 0, "some have none"},
	} {
		t.Run(name, func(t *testing.T) {
			line, why := groupLine(7, c.members)
			if c.why != "" {
				require.Contains(t, why, c.why)
				return
			}
			require.Empty(t, why)
			require.Len(t, line.Sequences, c.rows)
			require.Equal(t, c.size, line.Size)
			for _, s := range line.Sequences {
				require.Equal(t, score, s.Score)
			}
		})
	}
}
