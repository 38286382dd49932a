package config

import "strings"

// nearest returns the candidate most like name, or "" when none is close enough to
// be what somebody meant. Of equally close candidates the first one wins.
func nearest(name string, candidates []string) string {
	if len(name) > 100 {
		return ""
	}
	norm := func(s string) string { return strings.ReplaceAll(strings.ToLower(s), "-", "_") }
	best, bestDistance := "", max(1, min(4, len(name)/3))+1
	for _, c := range candidates {
		if d := editDistance(norm(name), norm(c)); d < bestDistance {
			best, bestDistance = c, d
		}
	}
	if best == "" && len(name) >= 4 {
		for _, c := range candidates {
			if strings.HasPrefix(norm(c), norm(name)) {
				return c
			}
		}
	}
	return best
}

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
