package fuzzymatch

import (
	"strings"
	"unicode/utf8"

	"github.com/hermes-env/hermes-env/toolcontext/tools/difflib"
)

// workLimit bounds the comparisons of one search, about half a second's worth.
// A search that would need more finds nothing: half a search could call a place
// unique that is not.
const workLimit = 20_000_000

const setupCost = 8

const (
	blockAlone   = 0.50 // similarity of the middle when one place has the anchors
	blockSeveral = 0.70 // and when several have
	lineSimilar  = 0.80
)

// effort is the work left of a search.
type effort struct{ left int }

// similar says whether the ratio of a and b reaches threshold; ok is false when
// the work is used up.
func (e *effort) similar(a, b []rune, threshold float64) (yes, ok bool) {
	if string(a) == string(b) {
		return true, true
	}
	total := len(a) + len(b)
	if 2*float64(min(len(a), len(b))) < threshold*float64(total) {
		return false, true
	}
	// Counting and indexing an element costs several times a comparison.
	e.left -= setupCost * total
	if e.left <= 0 {
		return false, false
	}
	if difflib.UpperBound(a, b) < threshold {
		return false, true
	}
	e.left -= setupCost * total
	if e.left <= 0 {
		return false, false
	}
	matcher := difflib.NewMatcher(a, b).Limit(e.left)
	ratio, ok := matcher.Ratio()
	e.left -= matcher.Work()
	return ok && ratio >= threshold, ok && e.left > 0
}

// findBlockAnchor looks for places whose first and last line are those of the
// pattern and whose middle is similar.
func findBlockAnchor(content, old string) []span {
	t := split(content)
	want, finalNewline := pattern(plain(old))
	n := len(want)
	if n < 2 || n > len(t.lines) {
		return nil
	}
	have := mapped(t.lines, plain)
	first, last := strings.TrimSpace(want[0]), strings.TrimSpace(want[n-1])
	var candidates []int
	for i := 0; i+n <= len(have); i++ {
		if strings.TrimSpace(have[i]) == first && strings.TrimSpace(have[i+n-1]) == last {
			candidates = append(candidates, i)
		}
	}
	threshold := blockAlone
	if len(candidates) > 1 {
		threshold = blockSeveral
	}
	middle := []rune(strings.Join(want[1:n-1], "\n"))
	work := &effort{workLimit}
	var spans []span
	for _, i := range candidates {
		if n > 2 {
			// Lengths first: joining the lines of many long candidates costs, too.
			work.left -= n
			length := n - 3
			for _, line := range have[i+1 : i+n-1] {
				length += utf8.RuneCountInString(line)
			}
			if 2*float64(min(length, len(middle))) < threshold*float64(length+len(middle)) && work.left > 0 {
				continue
			}
			yes, ok := work.similar([]rune(strings.Join(have[i+1:i+n-1], "\n")), middle, threshold)
			if !ok {
				return nil
			}
			if !yes {
				continue
			}
		}
		spans = append(spans, t.window(i, n, finalNewline))
	}
	return spans
}

// findContextAware looks for places where every line is similar to the pattern's,
// empty pattern lines aside.
func findContextAware(content, old string) []span {
	t := split(content)
	lines, finalNewline := pattern(old)
	n := len(lines)
	if n > len(t.lines) {
		return nil
	}
	want := make([][]rune, n)
	for j, line := range lines {
		want[j] = []rune(strings.TrimSpace(line))
	}
	have := make([][]rune, len(t.lines))
	for i, line := range t.lines {
		have[i] = []rune(strings.TrimSpace(line))
	}
	// The first and the last line sort out most places.
	order := append([]int{0, n - 1}, between(1, n-1)...)
	work := &effort{workLimit}
	var spans []span
	for i := 0; i+n <= len(have); i++ {
		fits := true
		for _, j := range order {
			boundary := j == 0 || j == n-1
			if len(want[j]) == 0 && !boundary {
				continue
			}
			work.left--
			yes, ok := work.similar(want[j], have[i+j], lineSimilar)
			if !ok || work.left <= 0 {
				return nil
			}
			if !yes {
				fits = false
				break
			}
		}
		if fits {
			spans = append(spans, t.window(i, n, finalNewline))
		}
	}
	return spans
}

func between(from, to int) []int {
	var out []int
	for i := from; i < to; i++ {
		out = append(out, i)
	}
	return out
}
