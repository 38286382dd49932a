package fuzzymatch

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/hermes-env/hermes-env/toolcontext/tools/difflib"
)

// Plain returns s with typographic quotes, dashes, ellipses, minus signs and
// spaces replaced by what a keyboard has.
func Plain(s string) string { return plain(s) }

func plain(s string) string {
	if isASCII(s) {
		return s
	}
	var b strings.Builder
	for _, part := range plainParts(s) {
		b.WriteString(part.plain)
	}
	return b.String()
}

func isASCII(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// plainPart is one character of a text and what it becomes. Bytes that are no
// UTF-8 stay themselves.
type plainPart struct {
	at, size int
	plain    string
}

func plainParts(s string) []plainPart {
	parts := make([]plainPart, 0, len(s))
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		p := s[i : i+size]
		switch r {
		case '‘', '’', '‚', '‛':
			p = "'"
		case '“', '”', '„', '‟':
			p = `"`
		case '—':
			p = "--"
		case '–', '‒', '‐', '‑', '−':
			p = "-"
		case '…':
			p = "..."
		default:
			if r >= utf8.RuneSelf && unicode.Is(unicode.Zs, r) {
				p = " "
			}
		}
		parts = append(parts, plainPart{i, size, p})
		i += size
	}
	return parts
}

// findUnicodeNormalized compares plain forms: as a whole first, then line by line
// without the white space around each.
func findUnicodeNormalized(content, old string) []span {
	want, have := plain(old), plain(content)
	if want == old && have == content {
		return nil
	}
	// back maps the beginning of each character's plain form to the character.
	back := map[int]int{}
	at := 0
	for _, p := range plainParts(content) {
		back[at] = p.at
		at += len(p.plain)
	}
	back[at] = len(content)
	var spans []span
	for _, s := range findText(have, want) {
		start, ok1 := back[s.start]
		end, ok2 := back[s.end]
		if ok1 && ok2 {
			spans = append(spans, span{start, end})
		}
	}
	if len(spans) > 0 {
		return spans
	}
	return findLines(content, old, func(line string) string { return strings.TrimSpace(plain(line)) })
}

// keepTypography writes the new text with the file's own characters wherever it
// says the same as the old text. old and region have the same plain form.
func keepTypography(region, old, new string) string {
	offsets := func(s string) (plainStart []int, byPlain map[int]int) {
		byPlain = map[int]int{}
		at := 0
		for _, p := range plainParts(s) {
			plainStart = append(plainStart, at)
			byPlain[at] = p.at
			at += len(p.plain)
		}
		byPlain[at] = len(s)
		return append(plainStart, at), byPlain
	}
	oldStarts, _ := offsets(old)
	_, regionAt := offsets(region)
	before, after := parts(old), parts(new)
	matcher := difflib.NewMatcher(before, after).Limit(workLimit)
	var out strings.Builder
	for _, c := range matcher.Opcodes() {
		if c.Tag == difflib.Equal {
			from, ok1 := regionAt[oldStarts[c.A1]]
			to, ok2 := regionAt[oldStarts[c.A2]]
			if ok1 && ok2 {
				out.WriteString(region[from:to])
				continue
			}
		}
		for _, s := range after[c.B1:c.B2] {
			out.WriteString(s)
		}
	}
	return out.String()
}

// parts returns the characters of s, each as its bytes.
func parts(s string) []string {
	var out []string
	for _, p := range plainParts(s) {
		out = append(out, s[p.at:p.at+p.size])
	}
	return out
}

// keepLines returns the new text with every line it shares with the old one as the
// file has it, indentation aside.
func keepLines(region, old, new string) string {
	was, _ := pattern(old)
	is, _ := pattern(region)
	if len(was) != len(is) {
		return new
	}
	files := make(map[string]string, len(was))
	for i, line := range was {
		files[line] = indentOf(line) + strings.TrimSpace(is[i])
	}
	lines := strings.Split(new, "\n")
	for i, line := range lines {
		if kept, ok := files[line]; ok && strings.TrimSpace(line) != "" {
			lines[i] = kept
		}
	}
	return strings.Join(lines, "\n")
}
