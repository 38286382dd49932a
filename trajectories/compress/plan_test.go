package compress

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// turnsOf makes turns of 100 tokens from letters: s, h, g, t; digits set the hundreds of
// the turn before.
func turnsOf(spec string) []turn {
	roles := map[rune]string{'s': "system", 'h': "human", 'g': "gpt", 't': "tool"}
	var turns []turn
	for _, c := range spec {
		if role, ok := roles[c]; ok {
			turns = append(turns, turn{role: role, tokens: 100})
		} else {
			turns[len(turns)-1].tokens = 100 * int(c-'0')
		}
	}
	return turns
}

func TestTheRegionIsWhatTheRulesSay(t *testing.T) {
	tests := []struct {
		name  string
		turns string
		need  int
		last  int
		want  string // the summarised turns by number, "" for none
	}{
		{"just enough turns from the start", "shgtgtgtgtgtgtgt", 150, 4, "4-6"},
		{"a call keeps its answer, so a little more goes", "shgtgtgtgtgtgtgt", 250, 4, "4-8"},
		{"everything between when it is not enough", "shgtgtgtgtgt", 5000, 4, "4-8"},
		{"the end moves off the answers of a protected call", "shgtgtgtgtg", 5000, 4, "4-6"},
		{"several answers stay with their call", "shgtgttgttg", 100, 1, "4-7"},
		{"a late first tool turn splits, and the early stretch is enough", "shghghghghgtgtgt", 150, 2, "3-6"},
		{"a late first tool turn splits, and the later stretch has enough", "shghgtgtgtgtgtgtgt", 700, 2, "6-14"},
		{"the summary does not stand beside a human turn", "shghghgg", 150, 1, "3-6"},
		{"nothing but protected turns", "shgtg", 100, 4, ""},
		{"no turns at all", "", 100, 4, ""},
		{"no last turns are protected", "shgtgt", 5000, 0, "4-6"},
		{"an answer without a call is not where a region begins", "shgttttg", 100, 1, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			c := Defaults()
			c.ProtectedTurns.LastNTurns = test.last
			r, found := findRegion(turnsOf(test.turns), &c, test.need)
			got := ""
			if found {
				got = fmt.Sprintf("%d-%d", r.start, r.end)
			}
			require.Equal(t, test.want, got)
		})
	}
}

func TestATurnBesideAHumanIsSummarisedOnlyWhereTheNeedCanNotBeMetWithout(t *testing.T) {
	c := Defaults()
	c.ProtectedTurns.FirstGPT, c.ProtectedTurns.LastNTurns = false, 1
	r, found := findRegion(turnsOf("shg5g5g"), &c, 400)
	require.True(t, found)
	require.Equal(t, region{3, 4}, r, "turn 2 stays between the human turn and the summary")
	r, found = findRegion(turnsOf("shg5g1g"), &c, 400)
	require.True(t, found)
	require.Equal(t, region{2, 3}, r)
}

func TestNoRegionEverPartsACallFromItsAnswersOrTakesAProtectedTurn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spec := rapid.StringMatching(`[shgt]{0,30}`).Draw(t, "turns")
		c := Defaults()
		p := &c.ProtectedTurns
		p.FirstSystem = rapid.Bool().Draw(t, "system")
		p.FirstHuman = rapid.Bool().Draw(t, "human")
		p.FirstGPT = rapid.Bool().Draw(t, "gpt")
		p.FirstTool = rapid.Bool().Draw(t, "tool")
		p.LastNTurns = rapid.IntRange(0, 6).Draw(t, "last")
		turns := turnsOf(spec)
		need := rapid.IntRange(0, 4000).Draw(t, "need")
		r, found := findRegion(turns, &c, need)
		keep := protected(turns, &c)
		if !found {
			return
		}
		require.Less(t, r.start, r.end)
		require.NotEqual(t, "tool", turns[r.start].role)
		if r.end < len(turns) {
			require.NotEqual(t, "tool", turns[r.end].role)
		}
		for i := r.start; i < r.end; i++ {
			require.False(t, keep[i], "turn %d of %s is protected", i, spec)
		}
	})
}

func TestTheFirstOfARoleIsProtectedWhereverItStands(t *testing.T) {
	c := Defaults()
	c.ProtectedTurns.LastNTurns = 1
	require.Equal(t, []bool{true, true, true, false, false, false, true, false, true}, protected(turnsOf("shghghtgg"), &c))
	c.ProtectedTurns.FirstTool, c.ProtectedTurns.LastNTurns = false, 0
	require.Equal(t, []bool{true, true, true, false, false, false, false, false, false}, protected(turnsOf("shghghtgg"), &c))
}
