package fuzzymatch

import "strings"

// text is a content split into lines, with the position of each.
type text struct {
	lines  []string // without their newlines
	starts []int
	size   int
}

func split(content string) text {
	t := text{lines: strings.Split(content, "\n"), size: len(content)}
	t.starts = make([]int, len(t.lines))
	at := 0
	for i, line := range t.lines {
		t.starts[i] = at
		at += len(line) + 1
	}
	return t
}

// pattern splits the text to find. A newline at its end belongs to its last line
// and makes no empty line of its own.
func pattern(old string) (lines []string, finalNewline bool) {
	trimmed, finalNewline := strings.CutSuffix(old, "\n")
	return strings.Split(trimmed, "\n"), finalNewline
}

// window returns the span of n lines from line i on, with the newline after them
// when the pattern had one and the content does.
func (t text) window(i, n int, finalNewline bool) span {
	end := t.starts[i+n-1] + len(t.lines[i+n-1])
	if finalNewline && end < t.size {
		end++
	}
	return span{t.starts[i], end}
}

func mapped(lines []string, f func(string) string) []string {
	out := make([]string, len(lines))
	for i, line := range lines {
		out[i] = f(line)
	}
	return out
}

// occurrences returns where the sequence of lines want begins in have, overlapping
// ones included, in time proportional to both (Knuth, Morris and Pratt).
func occurrences(have, want []string) []int {
	if len(want) == 0 || len(want) > len(have) {
		return nil
	}
	border := make([]int, len(want))
	for i, k := 1, 0; i < len(want); i++ {
		for k > 0 && want[i] != want[k] {
			k = border[k-1]
		}
		if want[i] == want[k] {
			k++
		}
		border[i] = k
	}
	var found []int
	for i, k := 0, 0; i < len(have); i++ {
		for k > 0 && (k == len(want) || have[i] != want[k]) {
			k = border[k-1]
		}
		if have[i] == want[k] {
			k++
		}
		if k == len(want) {
			found = append(found, i-k+1)
		}
	}
	return found
}

// findLines finds pattern lines that are equal to content lines once f made them alike.
func findLines(content, old string, f func(string) string) []span {
	t := split(content)
	want, finalNewline := pattern(old)
	return t.separate(occurrences(mapped(t.lines, f), mapped(want, f)), len(want), finalNewline)
}

// separate turns line numbers into spans that don't overlap, the first ones winning.
func (t text) separate(lines []int, n int, finalNewline bool) []span {
	var spans []span
	next := 0
	for _, i := range lines {
		if i < next {
			continue
		}
		spans = append(spans, t.window(i, n, finalNewline))
		next = i + n
	}
	return spans
}

// findText returns where want is in have, without overlaps.
func findText(have, want string) []span {
	if want == "" {
		return nil
	}
	var spans []span
	for at := 0; ; {
		i := strings.Index(have[at:], want)
		if i < 0 {
			return spans
		}
		spans = append(spans, span{at + i, at + i + len(want)})
		at += i + len(want)
	}
}
