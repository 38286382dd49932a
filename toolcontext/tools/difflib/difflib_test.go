package difflib_test

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/toolcontext/tools/difflib"
)

// golden holds values computed by CPython; see testdata/generate.py.
type golden struct {
	Ratios []struct {
		A, B  string
		Ratio float64
	}
	Diffs []struct{ A, B, Diff string }
}

func load(t testing.TB) golden {
	raw, err := os.ReadFile("testdata/golden.json")
	require.NoError(t, err)
	var g golden
	require.NoError(t, json.Unmarshal(raw, &g))
	require.Greater(t, len(g.Ratios), 50)
	require.Greater(t, len(g.Diffs), 20)
	return g
}

func TestRatiosAreThoseOfPython(t *testing.T) {
	for _, c := range load(t).Ratios {
		ratio, ok := difflib.NewMatcher([]rune(c.A), []rune(c.B)).Ratio()
		require.True(t, ok)
		require.Equal(t, c.Ratio, ratio, "%q and %q", c.A, c.B)
		require.GreaterOrEqual(t, difflib.UpperBound([]rune(c.A), []rune(c.B)), ratio)
	}
}

func TestUnifiedDiffsAreThoseOfPython(t *testing.T) {
	for _, c := range load(t).Diffs {
		require.Equal(t, c.Diff, difflib.Unified(c.A, c.B, "a/f", "b/f", 3), "%q and %q", c.A, c.B)
	}
}

func TestUnifiedMarksAMissingLastNewline(t *testing.T) {
	require.Equal(t, "--- a\n+++ b\n@@ -1 +1 @@\n-x\n\\ No newline at end of file\n+x\n", difflib.Unified("x", "x\n", "a", "b", 3))
}

func TestALimitEndsAnExpensiveComparison(t *testing.T) {
	a, b := []rune(strings.Repeat("ab", 80)), []rune(strings.Repeat("ba", 80))
	full, ok := difflib.NewMatcher(a, b).Ratio()
	require.True(t, ok)
	cut, ok := difflib.NewMatcher(a, b).Limit(10).Ratio()
	require.False(t, ok)
	require.LessOrEqual(t, cut, full)
}

func TestLongRepetitiveTextsAreComparedQuickly(t *testing.T) {
	var b strings.Builder
	for i := range 8_000 {
		fmt.Fprintf(&b, "line %d\n", i%100)
	}
	a := b.String()
	i := strings.Index(a[len(a)/2:], "line 99\n") + len(a)/2
	changed := a[:i] + "LINE\n" + a[i+len("line 99\n"):]
	diff := difflib.Unified(a, changed, "a", "b", 3)
	require.Equal(t, 1, strings.Count(diff, "@@ -"))
	require.Contains(t, diff, " line 98\n-line 99\n+LINE\n line 0\n")
	require.Empty(t, difflib.Unified(a, a, "a", "b", 3))
	require.Contains(t, difflib.Unified("1\n"+a+"2\n", "first\n"+a+"last\n", "a", "b", 3), "\n+first\n")
}

func FuzzUnifiedDiffTurnsOneTextIntoTheOther(f *testing.F) {
	f.Add("a\nb\nc\n", "a\nc\nd")
	f.Add("", "\n\n")
	f.Add("x\ny\n", "")
	f.Fuzz(func(t *testing.T, a, b string) {
		if len(a)+len(b) > 2000 {
			return // longer texts find nothing new
		}
		before, after := difflib.SplitLines(a), difflib.SplitLines(b)
		i, j := 0, 0
		for _, c := range difflib.NewMatcher(before, after).Opcodes() {
			require.Equal(t, [2]int{i, j}, [2]int{c.A1, c.B1})
			if c.Tag == difflib.Equal {
				require.Equal(t, before[c.A1:c.A2], after[c.B1:c.B2])
			}
			i, j = c.A2, c.B2
		}
		require.Equal(t, [2]int{len(before), len(after)}, [2]int{i, j})
		ratio, _ := difflib.NewMatcher([]rune(a), []rune(b)).Ratio()
		require.True(t, ratio >= 0 && ratio <= 1)
	})
}
