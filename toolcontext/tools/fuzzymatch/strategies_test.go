package fuzzymatch

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The strategies are tested one by one, because in the chain an earlier, more
// lenient one often takes what a later one would find.
func TestEachStrategyFindsItsOwnKindOfDifference(t *testing.T) {
	for _, c := range []struct {
		name         Strategy
		content, old string
		want         []string
	}{
		{Exact, "abab", "ab", []string{"ab", "ab"}},
		{Exact, "aaa", "aa", []string{"aa"}},
		{LineTrimmed, " a \n\tb\nx", "a\nb", []string{" a \n\tb"}},
		{LineTrimmed, "a\na\na", "a\na", []string{"a\na"}},
		{WhitespaceNormalized, "x\t y  z", "x y", []string{"x\t y"}},
		{IndentationFlexible, "    a\n\tb\nc", "a\n  b\n", []string{"    a\n\tb\n"}},
		{IndentationFlexible, "a \nb", "a\nb", nil},
		{EscapeNormalized, "a\n\tb\r", `a\n\tb\r`, []string{"a\n\tb\r"}},
		{EscapeNormalized, "a", "a", nil},
		{TrimmedBoundary, "  a\n b\nc  \n", "a\n b\nc", []string{"  a\n b\nc  "}},
		{TrimmedBoundary, "  a\n  b\nc  \n", "a\n b\nc", nil},
		{TrimmedBoundary, " a\n", "a", []string{" a"}},
		{TrimmedBoundary, " a \n b ", "a\nb", []string{" a \n b "}},
		{UnicodeNormalized, "a—b", "a--b", []string{"a—b"}},
		{UnicodeNormalized, "a—b", "a-", nil},
		{UnicodeNormalized, "plain", "plain", nil},
		{BlockAnchor, "{\nabcd\n}\n{\nzzzz\n}\n", "{\nabce\n}", []string{"{\nabcd\n}"}},
		{BlockAnchor, "a", "a", nil},
		{ContextAware, "hello world\n\nanother line", "hello worlds\n\nanother lines", []string{"hello world\n\nanother line"}},
		{ContextAware, "hello world\nsomething else", "hello worlds\nanother lines", nil},
	} {
		t.Run(string(c.name), func(t *testing.T) {
			for _, s := range chain() {
				if s.name != c.name {
					continue
				}
				var got []string
				for _, found := range s.find(c.content, c.old) {
					got = append(got, c.content[found.start:found.end])
				}
				require.Equal(t, c.want, got)
			}
		})
	}
}

func TestOccurrencesAreFoundOverlapping(t *testing.T) {
	require.Equal(t, []int{0, 1, 2}, occurrences([]string{"a", "a", "a", "a"}, []string{"a", "a"}))
	require.Equal(t, []int{2}, occurrences([]string{"a", "b", "a", "b", "c"}, []string{"a", "b", "c"}))
	require.Nil(t, occurrences([]string{"a"}, []string{"a", "b"}))
	require.Nil(t, occurrences([]string{"a"}, nil))
}
