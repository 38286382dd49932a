package fuzzymatch_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/toolcontext/tools/fuzzymatch"
)

func TestTheStrictestStrategyThatFindsAnythingDecides(t *testing.T) {
	for _, c := range []struct {
		name              string
		content, old, new string
		want              string
		strategy          fuzzymatch.Strategy
	}{
		{"exact", "a b c\n", "b", "x", "a x c\n", fuzzymatch.Exact},
		{"deleting", "a b c\n", " b", "", "a c\n", fuzzymatch.Exact},
		{"trailing white space in the file", "a = 1  \nb = 2\n", "a = 1\nb = 2", "c = 3", "c = 3\n", fuzzymatch.LineTrimmed},
		{"a newline at the end of the pattern", "  a = 1\n  b = 2\nrest\n", "a = 1\nb = 2\n", "c = 3\n", "  c = 3\nrest\n", fuzzymatch.LineTrimmed},
		{"no newline at the end of the file", "  a = 1\n  b = 2", "a = 1\nb = 2\n", "c = 3\n", "  c = 3\n", fuzzymatch.LineTrimmed},
		{"indentation is added", "class A:\n        def f():\n            return 1\n", "    def f():\n        return 1", "    def f():\n        if x:\n            return 2\n        return 1",
			"class A:\n        def f():\n            if x:\n                return 2\n            return 1\n", fuzzymatch.LineTrimmed},
		{"indentation is removed", "def f():\n    return 1\n", "        def f():\n            return 1", "        def g():\n            return 1", "def g():\n    return 1\n", fuzzymatch.LineTrimmed},
		{"tabs for spaces", "\tif a {\n\t\tb()\n\t}\n", "    if a {\n        b()\n    }", "    if a {\n        b()\n        c()\n    }", "\tif a {\n\t\tb()\n\t\tc()\n\t}\n", fuzzymatch.LineTrimmed},
		{"only the first line lost its indentation", "    if a:\n        b()\n    z()\n", "if a: \n        b()", "if a:\n        b()\n    else:\n        c()", "    if a:\n        b()\n    else:\n        c()\n    z()\n", fuzzymatch.LineTrimmed},
		{"runs of spaces", "x  =   call( 1,\t2 )\n", "x = call( 1, 2 )", "x = 3", "x = 3\n", fuzzymatch.WhitespaceNormalized},
		{"runs of spaces inside a line", "if (a  ==  b) { run(); }\n", "a == b", "a != b", "if (a != b) { run(); }\n", fuzzymatch.WhitespaceNormalized},
		{"trailing space as part of the pattern", "\ta\u00a0 \n  b\n", "a\u00a0 \nb", "c", "\tc\n", fuzzymatch.LineTrimmed},
		{"escapes written out", "a\n\tb\n", `a\n\tb`, `a\n\tc`, "a\n\tc\n", fuzzymatch.EscapeNormalized},
		{"an escape in the new text stays where the file has no tab", "a\nb\n", `a\nb`, `print("\t")`, "print(\"\\t\")\n", fuzzymatch.EscapeNormalized},
		{"typographic quotes are kept", "say “hello” to it’s friend\n", `"hello" to it's`, `"goodbye" to it's`, "say “goodbye” to it’s friend\n", fuzzymatch.UnicodeNormalized},
		{"dashes and ellipses", "wait… a—b − c\n", "wait... a--b - c", "wait... a--b - d", "wait… a—b − d\n", fuzzymatch.UnicodeNormalized},
		{"typography and indentation", "    x = “a”\n    y = 1\n", "x = \"a\"\n  y = 1", "x = \"a\"\n  y = 2", "    x = “a”\n    y = 2\n", fuzzymatch.UnicodeNormalized},
		{"a block between its anchors", "func f() {\n\tx := compute(1)\n\ty := compute(2)\n\treturn x + y\n}\n", "func f() {\n\tx := compute(3)\n\ty := compute(2)\n\treturn x * y\n}", "func f() {\n\treturn 0\n}", "func f() {\n\treturn 0\n}\n", fuzzymatch.BlockAnchor},
		{"lines that are all similar", "total = price * quantity + taxes\nprint(total)\n", "total = price * quantity + tax\nprint(totals)", "print(0)", "print(0)\n", fuzzymatch.ContextAware},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := fuzzymatch.Replace(c.content, c.old, c.new, false)
			require.NoError(t, err)
			require.Equal(t, c.strategy, got.Strategy)
			require.Equal(t, c.want, got.Content)
			require.Equal(t, 1, got.Count)
		})
	}
}

func TestDamageIsRefused(t *testing.T) {
	for _, c := range []struct{ name, content, old, new, want string }{
		{"nothing to find", "a", "", "b", "old_string is empty"},
		{"only white space", "a \n", " \n", "b", "only white space"},
		{"nothing to change", "a", "a", "a", "identical"},
		{"not there", "alpha beta gamma\n", "completely other words here", "x", fuzzymatch.ErrNotFound.Error()},
		{"ambiguous", "x = 1\nx = 1\n", "x = 1", "y", "found 2 matches"},
		{"ambiguous loosely", "  x = 1 \n    x = 1 \n", "x = 1\n", "y", "found 2 matches"},
		{"a backslash too many", "print('it is')  \n", `print(\'it is\')` + "x", `print(\'it was\')`, "a backslash too many"},
		{"an indentation that can't be carried over", "\t\ta()\n\t\tb()\n", "        a()\n        b()", "        a()\n    c()", "can't be carried over"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := fuzzymatch.Replace(c.content, c.old, c.new, false)
			require.ErrorContains(t, err, c.want)
			require.Empty(t, got.Content)
		})
	}
}

func TestReplaceAllTakesEveryExactPlaceButNoSimilarOnes(t *testing.T) {
	got, err := fuzzymatch.Replace("aaa b aaa", "aa", "x", true)
	require.NoError(t, err)
	require.Equal(t, "xa b xa", got.Content)
	require.Equal(t, 2, got.Count)
	got, err = fuzzymatch.Replace("  f( 1 )\nz\n\tf( 1 )\n", "f( 1 ) ", "g(1)", true)
	require.NoError(t, err)
	require.Equal(t, "  g(1)\nz\n\tg(1)\n", got.Content)
	similar := "func f() {\n\tx := compute(1)\n\treturn x\n}\n"
	_, err = fuzzymatch.Replace(similar+similar, "func f() {\n\tx := compute(9)\n\treturn x\n}", "y", true)
	require.ErrorContains(t, err, "replace_all refused")
}

func TestAnAmbiguousMatchListsFivePlaces(t *testing.T) {
	_, err := fuzzymatch.Replace(strings.Repeat("pad\nhere it is\n", 7), "here it is", "x", false)
	require.EqualError(t, err, "found 7 matches for old_string. Include more of the surrounding lines to make it unique, or set replace_all to true. Matches:\nL2: here it is\nL4: here it is\nL6: here it is\nL8: here it is\nL10: here it is\n… and 2 more")
}

func TestAnEditMadeBeforeIsNoError(t *testing.T) {
	got, err := fuzzymatch.Replace("value = new()\n", "value = old()", "value = new()", false)
	require.NoError(t, err)
	require.True(t, got.AlreadyApplied)
	require.Equal(t, "value = new()\n", got.Content)
	_, err = fuzzymatch.Replace("short\n", "unlike anything at all", "short", false)
	require.ErrorIs(t, err, fuzzymatch.ErrNotFound, "a short text proves nothing")
}

// A model can send anything as old_string; without a bound on their work the
// lenient strategies would take hours for these.
func TestHostilePatternsAreGivenUpOn(t *testing.T) {
	for name, c := range map[string]struct{ content, old string }{
		"equal lines":         {strings.Repeat("}\n", 20_000), strings.Repeat("}\n", 5_000) + "x"},
		"similar long lines":  {strings.Repeat(strings.Repeat("abc", 900)+"\n", 200), strings.Repeat("acb", 880) + "!"},
		"similar short lines": {strings.Repeat("x = call(1, 2)\n", 5_000), strings.Repeat("x = call(3, 4)\n", 300) + "q"},
		"anchors everywhere":  {strings.Repeat("{\n", 8_000), "{\n" + strings.Repeat("{{\n", 200) + "{"},
		"blank lines":         {strings.Repeat("\n", 40_000), "a" + strings.Repeat("\n", 10_000) + "b"},
		"one huge line":       {strings.Repeat("a b ", 100_000), strings.Repeat("b a ", 80_000) + "c"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := fuzzymatch.Replace(c.content, c.old, "replacement text", false)
			require.ErrorIs(t, err, fuzzymatch.ErrNotFound)
		})
	}
}

func FuzzReplaceTouchesNothingButTheMatch(f *testing.F) {
	f.Add("a\n  b\nc\n", "a\nb", "x\ny", false)
	f.Add("say “hi”…\n", `say "hi"...`, `say "ho"...`, true)
	f.Add("\ta\\n\tb\r\n", `a\n\tb`, `c\td`, false)
	f.Add("\xff\xfe\x00\n", "\xff\n", "\x00", true)
	f.Fuzz(func(t *testing.T, content, old, new string, all bool) {
		if len(content) > 4000 || len(old) > 1000 || len(new) > 1000 {
			return
		}
		got, err := fuzzymatch.Replace(content, old, new, all)
		if err != nil {
			require.Empty(t, got.Content)
			return
		}
		if got.AlreadyApplied {
			require.Equal(t, content, got.Content)
			return
		}
		require.Positive(t, got.Count)
		if !all {
			require.Equal(t, 1, got.Count)
		}
		if got.Strategy == fuzzymatch.Exact {
			n := 1
			if all {
				n = -1
			}
			require.Equal(t, strings.Replace(content, old, new, n), got.Content)
		}
	})
}
