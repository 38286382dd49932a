package fuzzymatch

import (
	"errors"
	"fmt"
	"strings"
)

// Strategy is the name of one way to find a text.
type Strategy string

// The strategies, in the order they are tried.
const (
	Exact                Strategy = "exact"
	LineTrimmed          Strategy = "line_trimmed"
	WhitespaceNormalized Strategy = "whitespace_normalized"
	IndentationFlexible  Strategy = "indentation_flexible"
	EscapeNormalized     Strategy = "escape_normalized"
	TrimmedBoundary      Strategy = "trimmed_boundary"
	UnicodeNormalized    Strategy = "unicode_normalized"
	BlockAnchor          Strategy = "block_anchor"
	ContextAware         Strategy = "context_aware"
)

// ErrNotFound is returned when no strategy finds the text.
var ErrNotFound = errors.New("could not find a match for old_string in the file")

// Result is what a replacement did.
type Result struct {
	Content  string
	Count    int      // replacements made
	Strategy Strategy // how the text was found, "" when AlreadyApplied
	// AlreadyApplied says that the file holds the new text and not the old one, so
	// that nothing was left to do.
	AlreadyApplied bool
}

// span is a range of bytes of the content.
type span struct{ start, end int }

// minApplied is the length from which the new text is distinctive enough to
// conclude that an edit was made before.
const minApplied = 8

// Replace replaces old by new in content: the one place where old is found, or all
// of them. Its errors are written for the model.
func Replace(content, old, new string, all bool) (Result, error) {
	switch {
	case old == "":
		return Result{}, errors.New("old_string is empty; give the text to replace")
	case strings.TrimSpace(old) == "":
		return Result{}, errors.New("old_string is only white space; include the text around it")
	case old == new:
		return Result{}, errors.New("old_string and new_string are identical; there is nothing to change")
	}
	for _, s := range chain() {
		spans := s.find(content, old)
		if s.name == Exact && len(spans) == 0 && len(new) >= minApplied && strings.Contains(content, new) {
			return Result{Content: content, AlreadyApplied: true}, nil
		}
		if len(spans) == 0 {
			continue
		}
		if len(spans) > 1 {
			if !all {
				return Result{}, ambiguous(content, spans)
			}
			if s.name == BlockAnchor || s.name == ContextAware {
				return Result{}, fmt.Errorf("replace_all refused: old_string is only similar to %d places (%s); give text that is in the file exactly", len(spans), s.name)
			}
		}
		replaced, err := apply(content, spans, s.name, old, new)
		if err != nil {
			return Result{}, err
		}
		return Result{Content: replaced, Count: len(spans), Strategy: s.name}, nil
	}
	return Result{}, ErrNotFound
}

type strategy struct {
	name Strategy
	find func(content, old string) []span
}

func chain() []strategy {
	return []strategy{
		{Exact, findExact},
		{LineTrimmed, findLineTrimmed},
		{WhitespaceNormalized, findWhitespaceNormalized},
		{IndentationFlexible, findIndentationFlexible},
		{EscapeNormalized, findEscapeNormalized},
		{TrimmedBoundary, findTrimmedBoundary},
		{UnicodeNormalized, findUnicodeNormalized},
		{BlockAnchor, findBlockAnchor},
		{ContextAware, findContextAware},
	}
}

// ambiguous lists where a text was found more than once.
func ambiguous(content string, spans []span) error {
	const shown, snippet = 5, 80
	var b strings.Builder
	fmt.Fprintf(&b, "found %d matches for old_string. Include more of the surrounding lines to make it unique, or set replace_all to true. Matches:", len(spans))
	for _, s := range spans[:min(shown, len(spans))] {
		line := 1 + strings.Count(content[:s.start], "\n")
		text, _, _ := strings.Cut(strings.TrimSpace(content[s.start:s.end]), "\n")
		if runes := []rune(text); len(runes) > snippet {
			text = string(runes[:snippet]) + "…"
		}
		fmt.Fprintf(&b, "\nL%d: %s", line, text)
	}
	if len(spans) > shown {
		fmt.Fprintf(&b, "\n… and %d more", len(spans)-shown)
	}
	return errors.New(b.String())
}

// apply puts the new text in place of every span.
func apply(content string, spans []span, name Strategy, old, new string) (string, error) {
	var out strings.Builder
	out.Grow(len(content))
	last := 0
	for _, s := range spans {
		text := new
		if name != Exact {
			var err error
			if text, err = fit(content, s, name, old, new); err != nil {
				return "", err
			}
		}
		out.WriteString(content[last:s.start])
		out.WriteString(text)
		last = s.end
	}
	out.WriteString(content[last:])
	return out.String(), nil
}

// fit adapts the new text to the region it replaces.
func fit(content string, s span, name Strategy, old, new string) (string, error) {
	region := content[s.start:s.end]
	for _, escaped := range []string{`\'`, `\"`} {
		if strings.Contains(old, escaped) && strings.Contains(new, escaped) && !strings.Contains(region, escaped) {
			return "", fmt.Errorf("old_string and new_string contain %s but the file does not: a backslash too many. Send the text without it", escaped)
		}
	}
	lineStart := s.start == 0 || content[s.start-1] == '\n'
	switch name {
	case EscapeNormalized:
		return unescapeLike(region, old, new), nil
	case UnicodeNormalized:
		if plain(old) == plain(region) {
			return keepTypography(region, old, new), nil
		}
		return reindent(region, old, keepLines(region, old, new), lineStart)
	}
	return reindent(region, old, new, lineStart)
}
