// Package spelling finds the name that a misspelt name stands for, so that messages can suggest it.
package spelling

import "strings"

// Nearest returns the candidate with the smallest edit distance to name, or "" if none is close
// enough to be a misspelling: a third of the name's length, at least 1 and at most 4. Case is
// ignored, "-" and "_" are equal. Of equally close candidates the first one wins.
func Nearest(name string, candidates []string) string {
	if len(name) > 100 {
		return ""
	}
	best, bestDistance := "", max(1, min(4, len(name)/3))+1
	for _, c := range candidates {
		if d := editDistance(Fold(name), Fold(c)); d < bestDistance {
			best, bestDistance = c, d
		}
	}
	return best
}

// Fold returns name in lower case and with "_" for "-".
func Fold(name string) string { return strings.ReplaceAll(strings.ToLower(name), "-", "_") }

// editDistance counts the insertions, deletions, replacements and swaps of
// neighbours that turn a into b (optimal string alignment).
func editDistance(a, b string) int {
	var before []int
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		next := make([]int, len(b)+1)
		next[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			next[j] = min(row[j]+1, next[j-1]+1, row[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				next[j] = min(next[j], before[j-2]+1)
			}
		}
		before, row = row, next
	}
	return row[len(b)]
}
