package fuzzymatch

import "strings"

const blanks = " \t"

func findExact(content, old string) []span { return findText(content, old) }

// findLineTrimmed compares line by line without the white space around each.
func findLineTrimmed(content, old string) []span {
	return findLines(content, old, strings.TrimSpace)
}

// findIndentationFlexible compares line by line without leading white space.
func findIndentationFlexible(content, old string) []span {
	return findLines(content, old, func(line string) string { return strings.TrimLeft(line, " \t\r\f\v") })
}

// findWhitespaceNormalized takes every run of spaces and tabs as one space.
func findWhitespaceNormalized(content, old string) []span {
	have, starts, ends := collapse(content)
	want, _, _ := collapse(old)
	var spans []span
	for _, s := range findText(have, want) {
		spans = append(spans, span{starts[s.start], ends[s.end-1]})
	}
	return spans
}

// collapse replaces runs of spaces and tabs by one space. starts and ends give for
// each byte of the result the range it stands for.
func collapse(s string) (out string, starts, ends []int) {
	b := make([]byte, 0, len(s))
	starts, ends = make([]int, 0, len(s)), make([]int, 0, len(s))
	for i := 0; i < len(s); {
		j := i + 1
		c := s[i]
		if c == ' ' || c == '\t' {
			c = ' '
			for j < len(s) && (s[j] == ' ' || s[j] == '\t') {
				j++
			}
		}
		b, starts, ends = append(b, c), append(starts, i), append(ends, j)
		i = j
	}
	return string(b), starts, ends
}

// findEscapeNormalized takes \n, \t and \r written out in the pattern as the
// control characters they name.
func findEscapeNormalized(content, old string) []span {
	unescaped := unescape(old, true, true, true)
	if unescaped == old || strings.TrimSpace(unescaped) == "" {
		return nil
	}
	return findText(content, unescaped)
}

func unescape(s string, newline, tab, carriage bool) string {
	var pairs []string
	for _, e := range []struct {
		on       bool
		from, to string
	}{{newline, `\n`, "\n"}, {tab, `\t`, "\t"}, {carriage, `\r`, "\r"}} {
		if e.on {
			pairs = append(pairs, e.from, e.to)
		}
	}
	return strings.NewReplacer(pairs...).Replace(s)
}

// findTrimmedBoundary compares the first and the last line without the white space
// around them, the lines between exactly.
func findTrimmedBoundary(content, old string) []span {
	t := split(content)
	want, finalNewline := pattern(old)
	n := len(want)
	first, last := strings.TrimSpace(want[0]), strings.TrimSpace(want[n-1])
	fits := func(i int) bool {
		return i >= 0 && i+n <= len(t.lines) && strings.TrimSpace(t.lines[i]) == first && strings.TrimSpace(t.lines[i+n-1]) == last
	}
	var found []int
	if n > 2 {
		for _, i := range occurrences(t.lines, want[1:n-1]) {
			if fits(i - 1) {
				found = append(found, i-1)
			}
		}
	} else {
		for i := range t.lines {
			if fits(i) {
				found = append(found, i)
			}
		}
	}
	return t.separate(found, n, finalNewline)
}
