package env

import (
	"encoding/json"
	"errors"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/agentloop/chat"
	"github.com/hermes-env/hermes-env/env/config"
	"github.com/hermes-env/hermes-env/trajectories"
)

// member makes a rollout of a group. Each change makes it special.
func member(attempt int, score float64, change ...func(*trajectories.Rollout)) *trajectories.Rollout {
	r := &trajectories.Rollout{ID: string(rune('a' + attempt)), Attempt: attempt, Outcome: trajectories.OutcomeScored, Score: &score,
		Messages: []chat.Message{chat.User("say something of some length"), chat.Assistant("something", "")}}
	for _, c := range change {
		c(r)
	}
	return r
}

// sampled gives a rollout sequences of the given lengths, whose last half is trained on.
func sampled(lengths ...int) func(*trajectories.Rollout) {
	return func(r *trajectories.Rollout) {
		for _, n := range lengths {
			s := trajectories.TokenSequence{Tokens: make([]int, n), Masks: make([]int, n), Logprobs: make([]float64, n)}
			for i := range n {
				s.Tokens[i], s.Masks[i], s.Logprobs[i] = i, -100, 1
				if i >= n/2 {
					s.Masks[i], s.Logprobs[i] = i, -0.5
				}
			}
			r.Sequences = append(r.Sequences, s)
		}
	}
}

func unscored(r *trajectories.Rollout) { r.Score, r.Outcome = nil, trajectories.OutcomeModelError }

func cutOff(r *trajectories.Rollout) {
	r.Timings.Turns = []trajectories.TurnTiming{{FinishReason: "tool_calls"}, {FinishReason: "length"}}
}

func recovered(r *trajectories.Rollout) {
	r.Timings.Turns = []trajectories.TurnTiming{{FinishReason: "length"}, {FinishReason: "stop"}}
}

func incomplete(r *trajectories.Rollout) { r.NotTrainable = "answer 2: no ids" }

func TestEveryRuleDropsAGroupOrTheRolloutItIsAbout(t *testing.T) {
	type members = []*trajectories.Rollout
	for name, c := range map[string]struct {
		rules   GroupRules
		members members
		reason  DropReason
		text    string
		rows    int   // of a group that is kept
		size    int   // its group_overrides.group_size
		left    []int // attempts left out
	}{
		"a group without tokens is kept": {GroupRules{}, members{member(0, 1), member(1, 0)}, "", "", 2, 0, nil},
		"one with a sequence each":       {GroupRules{}, members{member(0, 1, sampled(4)), member(1, 0, sampled(4))}, "", "", 2, 0, nil},
		"one whose rollout forked":       {GroupRules{}, members{member(0, 1, sampled(4, 4)), member(1, 0, sampled(4))}, "", "", 3, 3, nil},
		"a whole group of the size":      {GroupRules{Size: 2}, members{member(0, 1), member(1, 0)}, "", "", 2, 0, nil},

		"a rollout was never recorded": {GroupRules{Size: 3}, members{member(0, 1), member(1, 0)}, DropWrongSize, "2 rollouts, not 3", 0, 0, nil},
		"a rollout has no score":       {GroupRules{}, members{member(0, 1), member(1, 0, unscored)}, DropMissingMember, "attempt 1 ended as model_error", 0, 0, []int{1}},
		"equal scores are kept":        {GroupRules{}, members{member(0, 1), member(1, 1)}, "", "", 2, 0, nil},
		"equal scores are dropped":     {GroupRules{DropEqualScores: true}, members{member(0, 1), member(1, 1)}, DropEqualScores, "all 2 scores are 1", 0, 0, nil},
		"incomplete tokens":            {GroupRules{}, members{member(0, 1, sampled(4)), member(1, 0, sampled(4), incomplete)}, DropNotTrainable, "attempt 1 are incomplete: answer 2: no ids", 0, 0, []int{1}},
		"no tokens where they must be": {GroupRules{ExactTokens: true}, members{member(0, 1), member(1, 0)}, DropNotTrainable, "the tokens of attempt 0 are not known", 0, 0, []int{0, 1}},
		"tokens of some":               {GroupRules{}, members{member(0, 1, sampled(4)), member(1, 0)}, DropMixedTokens, "attempt 1 has no exact tokens", 0, 0, []int{1}},
		"shorter than the limit":       {GroupRules{MaxSequenceTokens: 5}, members{member(0, 1, sampled(4)), member(1, 0, sampled(4))}, "", "", 2, 0, nil},
		"exactly the limit":            {GroupRules{MaxSequenceTokens: 4}, members{member(0, 1, sampled(3)), member(1, 0, sampled(2, 4))}, DropTooLong, "attempt 1 has a sequence of 4 tokens", 0, 0, []int{1}},
		"no limit":                     {GroupRules{MaxSequenceTokens: -1}, members{member(0, 1, sampled(4)), member(1, 0, sampled(4))}, "", "", 2, 0, nil},
		"placeholders have no length":  {GroupRules{MaxSequenceTokens: 1, MinTrainedTokens: 9}, members{member(0, 1), member(1, 0)}, "", "", 2, 0, nil},
		"few trained tokens":           {GroupRules{MinTrainedTokens: 3}, members{member(0, 1, sampled(4)), member(1, 0, sampled(6))}, DropFewTokens, "attempt 0 has 2 trained tokens, fewer than 3", 0, 0, []int{0}},
		"enough over all branches":     {GroupRules{MinTrainedTokens: 3}, members{member(0, 1, sampled(4, 2)), member(1, 0, sampled(6))}, "", "", 3, 3, nil},
		"cut off and kept":             {GroupRules{Truncated: config.TruncatedKeep}, members{member(0, 1, cutOff), member(1, 0)}, "", "", 2, 0, nil},
		"cut off and dropped":          {GroupRules{Truncated: config.TruncatedDrop}, members{member(0, 1, cutOff), member(1, 0)}, DropTruncated, "attempt 0 was cut off", 0, 0, []int{0}},
		"cut off earlier":              {GroupRules{Truncated: config.TruncatedDrop}, members{member(0, 1, recovered), member(1, 0)}, "", "", 2, 0, nil},
		"no finite mean":               {GroupRules{Advantages: config.AdvantagesMean}, members{member(0, math.MaxFloat64), member(1, math.MaxFloat64/2)}, DropInvalid, "not a finite number", 0, 0, nil},
		"partial: one is left out":     {GroupRules{MinMembers: 2}, members{member(0, 1), member(1, 0, unscored), member(2, 0)}, "", "", 2, 2, []int{1}},
		"partial: whole":               {GroupRules{MinMembers: 2}, members{member(0, 1), member(1, 0)}, "", "", 2, 0, nil},
		"partial: each for its reason": {GroupRules{MinMembers: 1, MaxSequenceTokens: 6}, members{member(0, 1, unscored), member(1, 0, sampled(6)), member(2, 1, sampled(4), incomplete), member(3, 1), member(4, 0, sampled(4))}, "", "", 1, 1, []int{0, 1, 2, 3}},
		"partial: too few":             {GroupRules{MinMembers: 2}, members{member(0, 1, unscored), member(1, 0, unscored), member(2, 0)}, DropTooFewMembers, "1 of its 3 rollouts are left, fewer than 2 (env.partial_groups): attempt 0 ended as model_error; attempt 1", 0, 0, []int{0, 1}},
		"partial: the rest is equal":   {GroupRules{MinMembers: 2, DropEqualScores: true}, members{member(0, 1), member(1, 0, unscored), member(2, 1)}, DropEqualScores, "all 2 scores are 1", 0, 0, []int{1}},
		"partial: fork makes it whole": {GroupRules{MinMembers: 1, Size: 2}, members{member(0, 1, sampled(4, 4)), member(1, 0, unscored)}, "", "", 2, 0, []int{1}},
		"partial: nobody is left":      {GroupRules{MinMembers: 1}, members{member(0, 1, unscored)}, DropTooFewMembers, "0 of its 1", 0, 0, []int{0}},
	} {
		t.Run(name, func(t *testing.T) {
			v := c.rules.Judge(7, "item", c.members, GroupHooks{})
			require.Equal(t, c.reason, v.Reason, v.Text)
			var left []int
			for _, l := range v.LeftOut {
				left = append(left, l.Attempt)
				require.NotEmpty(t, l.Text)
				require.Contains(t, DropReasons(), l.Reason)
			}
			require.Equal(t, c.left, left)
			if c.reason != "" {
				require.Nil(t, v.Group)
				require.Contains(t, v.Text, c.text)
				require.Contains(t, DropReasons(), v.Reason)
				return
			}
			require.Empty(t, v.Text)
			require.Len(t, v.Group.Sequences, c.rows)
			require.Equal(t, c.size, v.Group.Size)
			require.Equal(t, 7, v.Group.Step)
			require.Equal(t, "item", v.Group.ItemID)
			_, err := trajectories.AppendGroup(nil, *v.Group, true)
			require.NoError(t, err)
		})
	}
}

func TestAdvantagesAreTheScoreWithinItsGroup(t *testing.T) {
	for name, c := range map[string]struct {
		how    string
		scores []float64
		want   []float64
	}{
		"left to the trainer":       {config.AdvantagesNone, []float64{1, 0}, nil},
		"less the mean":             {config.AdvantagesMean, []float64{1, 0, 0, 1, 0.5}, []float64{0.5, -0.5, -0.5, 0.5, 0}},
		"by the standard deviation": {config.AdvantagesMeanStd, []float64{3, 1, 1, 3}, []float64{1, -1, -1, 1}},
		"of the population":         {config.AdvantagesMeanStd, []float64{1, 2, 3}, []float64{-math.Sqrt(1.5), 0, math.Sqrt(1.5)}},
		"equal scores":              {config.AdvantagesMeanStd, []float64{0.1, 0.1, 0.1}, []float64{0, 0, 0}},
		"hardly different ones":     {config.AdvantagesMeanStd, []float64{0, 2e-9}, []float64{-0.1, 0.1}},
		"one alone":                 {config.AdvantagesMeanStd, []float64{5}, []float64{0}},
	} {
		t.Run(name, func(t *testing.T) {
			var members []*trajectories.Rollout
			for i, s := range c.scores {
				members = append(members, member(i, s, sampled(4)))
			}
			g := GroupRules{Advantages: c.how}.Judge(0, "item", members, GroupHooks{}).Group
			require.NotNil(t, g)
			for i, s := range g.Sequences {
				if c.want == nil {
					require.Nil(t, s.Advantage)
					continue
				}
				require.InDelta(t, c.want[i], *s.Advantage, 1e-12)
				require.Equal(t, []float64{0, 0, *s.Advantage, *s.Advantage}, s.AdvantagesOver(s.Masks))
			}
		})
	}
}

func TestARolloutWithBranchesCountsOnceInTheMean(t *testing.T) {
	members := []*trajectories.Rollout{member(0, 1, sampled(4, 4, 4)), member(1, 0, sampled(4))}
	g := GroupRules{Advantages: config.AdvantagesMean}.Judge(0, "item", members, GroupHooks{}).Group
	for i, want := range []float64{0.5, 0.5, 0.5, -0.5} {
		require.Equal(t, want, *g.Sequences[i].Advantage)
	}
}

func TestATruncatedRolloutIsKeptWithoutAnAdvantage(t *testing.T) {
	rules := GroupRules{Truncated: config.TruncatedZero, Advantages: config.AdvantagesMean}
	members := []*trajectories.Rollout{member(0, 1, cutOff, sampled(4)), member(1, 0, sampled(4)), member(2, 0, cutOff, sampled(4))}
	g := rules.Judge(0, "item", members, GroupHooks{Extend: func(g *trajectories.Group) error {
		g.Sequences[0].Overrides = json.RawMessage(`{"temperature":0.5}`)
		g.Sequences[2].Overrides = json.RawMessage(`{"set_advantage_to_zero":false}`)
		return nil
	}}).Group
	require.JSONEq(t, `{"temperature":0.5,"set_advantage_to_zero":true}`, string(g.Sequences[0].Overrides))
	require.Nil(t, g.Sequences[1].Overrides)
	require.JSONEq(t, `{"set_advantage_to_zero":false}`, string(g.Sequences[2].Overrides), "the environment has the last word")
	require.Zero(t, *g.Sequences[0].Advantage)
	require.InDelta(t, -1.0/3, *g.Sequences[1].Advantage, 1e-12, "it still counts in the mean")
}

func TestAnEnvironmentExtendsAGroupWithinItsBounds(t *testing.T) {
	two := func() []*trajectories.Rollout {
		return []*trajectories.Rollout{member(0, 1, sampled(2)), member(1, 0, sampled(2))}
	}
	for name, c := range map[string]struct {
		extend func(*trajectories.Group) error
		reason DropReason
		text   string
	}{
		"it fails":             {func(*trajectories.Group) error { return errors.New("no reference") }, DropEnvironmentError, "no reference"},
		"another size":         {func(g *trajectories.Group) error { g.Overrides = json.RawMessage(`{"group_size":3}`); return nil }, DropWrongSize, "2 sequences, and group_overrides.group_size says 3"},
		"the same size":        {func(g *trajectories.Group) error { g.Overrides = json.RawMessage(`{"group_size":2}`); return nil }, "", ""},
		"ragged":               {func(g *trajectories.Group) error { g.Sequences[1].RefLogprobs = []float64{0, 0}; return nil }, DropInvalid, "reference log-probabilities"},
		"overrides of no kind": {func(g *trajectories.Group) error { g.Sequences[1].Overrides = json.RawMessage(`[]`); return nil }, DropInvalid, "overrides of sequence 1"},
		"advantages of one":    {func(g *trajectories.Group) error { g.Sequences[1].Advantages = []float64{0, 7}; return nil }, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			v := GroupRules{Advantages: config.AdvantagesMean}.Judge(0, "item", two(), GroupHooks{Extend: c.extend})
			require.Equal(t, c.reason, v.Reason)
			require.Contains(t, v.Text, c.text)
		})
	}
}

func TestAGroupsKeyNamesItsRollouts(t *testing.T) {
	key := func(ids ...string) string {
		var members []*trajectories.Rollout
		for i, id := range ids {
			members = append(members, member(i, 1))
			members[i].ID = id
		}
		return GroupRules{}.Judge(3, "item", members, GroupHooks{}).Group.Key
	}
	require.Equal(t, key("a", "b"), key("a", "b"))
	require.NotEqual(t, key("a", "b"), key("a", "c"))
	require.Regexp(t, `^[0-9a-f]{32}$`, key("a"))
}

func TestRulesHaveTheSameFingerprintOnlyWhenTheyDecideAlike(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range []GroupRules{{}, {Size: 1}, {MinMembers: 1}, {DropEqualScores: true}, {ExactTokens: true}, {MaxSequenceTokens: 1}, {MinTrainedTokens: 1}, {Truncated: "drop"}, {Advantages: "mean"}} {
		require.False(t, seen[r.fingerprint()], "%+v", r)
		seen[r.fingerprint()] = true
	}
	require.Equal(t, GroupRules{}.fingerprint(), GroupRules{MaxSequenceTokens: -1}.fingerprint())
}
