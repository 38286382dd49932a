package fuzzymatch

import (
	"errors"
	"strings"
)

var errRogueIndent = errors.New("the indentation of new_string can't be carried over: it does not correspond to that of old_string and the file. " +
	"Read the lines again and send them with the file's own indentation")

func indentOf(line string) string {
	return line[:len(line)-len(strings.TrimLeft(line, blanks))]
}

// reindent moves the new text to the indentation of the region. What the pattern's
// lines are indented by and what the file's are is learnt line by line; the first
// line counts for itself, because models often drop only its indentation.
func reindent(region, old, new string, lineStart bool) (string, error) {
	was, _ := pattern(old)
	is, _ := pattern(region)
	if len(was) != len(is) {
		return new, nil
	}
	shifts := shiftTable{}
	var first *shift
	moved := false
	for i := range was {
		if i == 0 && !lineStart || strings.TrimSpace(was[i]) == "" || !sameText(was[i], is[i]) {
			continue
		}
		s := shift{indentOf(was[i]), indentOf(is[i])}
		moved = moved || s.from != s.to
		if i == 0 {
			first = &s
			continue
		}
		shifts.learn(s)
	}
	if !moved {
		return new, nil
	}
	if len(shifts) == 0 && first != nil {
		shifts.learn(*first)
	}
	lines := strings.Split(new, "\n")
	for i, line := range lines {
		if strings.TrimSpace(line) == "" || i == 0 && !lineStart {
			continue
		}
		indent := indentOf(line)
		if i == 0 && first != nil && indent == first.from {
			lines[i] = first.to + line[len(indent):]
			continue
		}
		to, ok := shifts.apply(indent)
		if !ok {
			return "", errRogueIndent
		}
		lines[i] = to + line[len(indent):]
	}
	return strings.Join(lines, "\n"), nil
}

// sameText says whether two lines differ in white space and typography at most.
func sameText(a, b string) bool {
	return strings.Join(strings.Fields(plain(a)), " ") == strings.Join(strings.Fields(plain(b)), " ")
}

// shift says that lines the model indents by from are indented by to in the file.
type shift struct{ from, to string }

// shiftTable maps the model's indentations to the file's. A conflict maps to two.
type shiftTable map[string][]string

func (t shiftTable) learn(s shift) {
	for _, to := range t[s.from] {
		if to == s.to {
			return
		}
	}
	t[s.from] = append(t[s.from], s.to)
}

// apply returns the file's indentation for one of the model's: a known one, the
// longest known one it continues, or the shortest known one it falls short of.
func (t shiftTable) apply(indent string) (string, bool) {
	if to, ok := t[indent]; ok {
		return to[0], len(to) == 1
	}
	var longer, shorter string
	hasLonger, hasShorter := false, false
	for from := range t {
		if strings.HasPrefix(indent, from) && (!hasShorter || len(from) > len(shorter)) {
			shorter, hasShorter = from, true
		}
		if strings.HasPrefix(from, indent) && (!hasLonger || len(from) < len(longer)) {
			longer, hasLonger = from, true
		}
	}
	switch {
	case hasShorter:
		to := t[shorter]
		return to[0] + indent[len(shorter):], len(to) == 1
	case hasLonger:
		to := t[longer]
		rest, ok := strings.CutSuffix(to[0], longer[len(indent):])
		return rest, ok && len(to) == 1
	}
	return "", false
}

// unescapeLike resolves escapes in the new text the way they were resolved to find
// the old one: a tab or a carriage return only where the region has one, newlines
// when the whole of the old text was written on one line.
func unescapeLike(region, old, new string) string {
	newline := strings.Contains(old, `\n`) && !strings.Contains(old, "\n")
	return unescape(new, newline, strings.Contains(region, "\t"), strings.Contains(region, "\r"))
}
