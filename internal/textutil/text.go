// Package textutil has what messages for people are made with: texts cut to a length, the
// name that a misspelt one probably stands for, and words quoted for a shell.
package textutil

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// Shorten cuts s to a number of characters; an ellipsis follows what was cut.
func Shorten(s string, characters int) string {
	if len(s) <= characters {
		return s
	}
	n := 0
	for i := range s {
		if n == characters {
			return s[:i] + "…"
		}
		n++
	}
	return s
}

// Quote returns Shorten(s, characters) as a quoted string of Go.
func Quote(s string, characters int) string { return strconv.Quote(Shorten(s, characters)) }

// Line makes s one line: white space and control characters become one space.
func Line(s string) string {
	return strings.Join(strings.FieldsFunc(strings.ToValidUTF8(s, "\uFFFD"), func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsControl(r)
	}), " ")
}

// ShellQuote makes s one word of a POSIX shell.
func ShellQuote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// maxName is the length from which names are compared by their beginnings.
const maxName = 200

// Distance counts the insertions, deletions, replacements and swaps of neighbours that
// turn a into b. Very long texts are compared by their beginnings.
func Distance(a, b string) int {
	x, y := []rune(a[:min(len(a), maxName)]), []rune(b[:min(len(b), maxName)])
	before, row, next := make([]int, len(y)+1), make([]int, len(y)+1), make([]int, len(y)+1)
	for j := range row {
		row[j] = j
	}
	for i := range x {
		next[0] = i + 1
		for j := range y {
			cost := 1
			if x[i] == y[j] {
				cost = 0
			}
			next[j+1] = min(row[j+1]+1, next[j]+1, row[j]+cost)
			if i > 0 && j > 0 && x[i] == y[j-1] && x[i-1] == y[j] {
				next[j+1] = min(next[j+1], before[j-1]+1)
			}
		}
		before, row, next = row, next, before
	}
	return row[len(y)]
}

// Misspelt returns the candidate that name probably is with a few letters wrong, "" if none
// is that near: a third of the name's length, at least 1 and at most 4. Case counts for
// nothing, nor does the difference of "-" and "_". Of equally near candidates the first one
// wins.
func Misspelt(name string, candidates []string) string {
	if len(name) > maxName/2 {
		return ""
	}
	plain := plainName(name)
	best, bestDistance := "", max(1, min(4, len(name)/3))+1
	for _, c := range candidates {
		if d := Distance(plain, plainName(c)); d < bestDistance {
			best, bestDistance = c, d
		}
	}
	return best
}

// Nearest is Misspelt, and else the first candidate that begins with name.
func Nearest(name string, candidates []string) string {
	if near := Misspelt(name, candidates); near != "" || len(name) < 4 {
		return near
	}
	for _, c := range candidates {
		if strings.HasPrefix(plainName(c), plainName(name)) {
			return c
		}
	}
	return ""
}

func plainName(s string) string { return strings.ReplaceAll(strings.ToLower(s), "-", "_") }

// Rank returns at most n names, those of the least distance first, and of the same
// distance in their order. A negative distance leaves a name out.
func Rank(names []string, n int, distance func(name string) int) []string {
	type ranked struct {
		name     string
		distance int
	}
	var list []ranked
	for _, name := range names {
		if d := distance(name); d >= 0 {
			list = append(list, ranked{name, d})
		}
	}
	slices.SortStableFunc(list, func(a, b ranked) int { return cmp.Compare(a.distance, b.distance) })
	var nearest []string
	for _, r := range list[:min(n, len(list))] {
		nearest = append(nearest, r.name)
	}
	return nearest
}
