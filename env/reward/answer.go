package reward

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/hermes-env/hermes-env/parsers"
)

// extractor takes the part of a text that counts. ok is false where there is none.
type extractor func(text string) (part string, ok bool)

// newExtractor returns the extractor that a configuration names.
func newExtractor(how, pattern string) (extractor, error) {
	switch how {
	case "", "whole":
		return func(text string) (string, bool) { return text, strings.TrimSpace(text) != "" }, nil
	case "last_line":
		return lastLine, nil
	case "boxed":
		return lastBoxed, nil
	case "tag":
		if !tagName.MatchString(pattern) {
			return nil, fmt.Errorf("%q can't be the name of a tag", pattern)
		}
		return func(text string) (string, bool) { return lastTag(text, pattern) }, nil
	case "regex":
		re, err := compile(pattern)
		if err != nil {
			return nil, err
		}
		return func(text string) (string, bool) { return lastMatch(re, text) }, nil
	}
	return nil, fmt.Errorf("no way %q of finding the answer", how)
}

var tagName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.:-]*$`)

// withoutReasoning takes off the reasoning that a text begins with; all of it is
// reasoning when the block is not closed. Tags that are only spoken of further on stay.
// Some templates put the opening tag into the prompt, so it may be missing.
func withoutReasoning(text string) string {
	for _, tags := range parsers.ReasoningTags() {
		begins := strings.HasPrefix(strings.TrimSpace(text), tags.Open)
		opening, closing := strings.Index(text, tags.Open), strings.Index(text, tags.Close)
		if begins || closing >= 0 && opening < 0 {
			_, rest := parsers.SplitReasoning(text, parsers.ReasoningConfig{Tags: []parsers.TagPair{tags}})
			return rest
		}
	}
	return text
}

// compile compiles an expression that takes time linear in the text, whatever the text.
func compile(pattern string) (*regexp.Regexp, error) {
	if pattern == "" {
		return nil, fmt.Errorf("an expression is missing")
	}
	re, err := regexp.Compile(pattern)
	if err != nil {
		return nil, fmt.Errorf("%w (expressions are those of Go's regexp: no look-around, no back-references)", err)
	}
	return re, nil
}

// lastLine returns the last line that is not blank.
func lastLine(text string) (string, bool) {
	text = strings.TrimSpace(text)
	if i := strings.LastIndexAny(text, "\r\n"); i >= 0 {
		text = strings.TrimSpace(text[i+1:])
	}
	return text, text != ""
}

// lastMatch returns the first group of the last match, or the match where there is no group.
func lastMatch(re *regexp.Regexp, text string) (string, bool) {
	all := re.FindAllStringSubmatchIndex(text, -1)
	if len(all) == 0 {
		return "", false
	}
	m := all[len(all)-1]
	start, end := m[0], m[1]
	if len(m) > 2 {
		start, end = m[2], m[3]
	}
	if start < 0 { // the group took no part in the match
		return "", false
	}
	return text[start:end], true
}

// lastTag returns what stands between the last <tag> and the </tag> after it.
func lastTag(text, tag string) (string, bool) {
	start := strings.LastIndex(text, "<"+tag+">")
	if start < 0 {
		return "", false
	}
	text = text[start+len(tag)+2:]
	end := strings.Index(text, "</"+tag+">")
	if end < 0 {
		return "", false
	}
	return strings.TrimSpace(text[:end]), true
}

// lastBoxed returns the content of the last \boxed{…} or \fbox{…}, braces inside included.
func lastBoxed(text string) (string, bool) {
	all := boxCommand.FindAllStringIndex(text, -1)
	for i := len(all) - 1; i >= max(0, len(all)-maxOpenBoxes); i-- {
		if content, ok := braced(text[all[i][1]-1:]); ok {
			return strings.TrimSpace(content), true
		}
	}
	return "", false
}

// maxOpenBoxes bounds the work on texts with many boxes that are never closed.
const maxOpenBoxes = 64

var boxCommand = regexp.MustCompile(`\\(?:boxed|fbox)\s*\{`)

// braced returns what stands in the braces that a text begins with.
func braced(text string) (string, bool) {
	if !strings.HasPrefix(text, "{") {
		return "", false
	}
	depth := 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '{':
			depth++
		case '}':
			if depth--; depth == 0 {
				return text[1:i], true
			}
		}
	}
	return "", false
}
