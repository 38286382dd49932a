package tokenizer

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/dlclark/regexp2"
)

// finder yields the matches of a pattern in s in order, as byte ranges that don't
// overlap.
type finder func(s string, yield func(from, to int))

// parsePattern reads {"String": "…"} or {"Regex": "…"}.
func parsePattern(raw json.RawMessage) (finder, error) {
	var c struct {
		String *string `json:"String"`
		Regex  *string `json:"Regex"`
	}
	if err := json.Unmarshal(raw, &c); err != nil {
		return nil, fmt.Errorf("pattern %.100s: %w", raw, err)
	}
	switch {
	case c.String != nil:
		return findLiteral(*c.String), nil
	case c.Regex != nil:
		return compilePattern(*c.Regex)
	}
	return nil, fmt.Errorf("pattern %.100s is neither a String nor a Regex", raw)
}

func findLiteral(literal string) finder {
	return func(s string, yield func(from, to int)) {
		if literal == "" {
			return
		}
		for at := 0; ; {
			i := strings.Index(s[at:], literal)
			if i < 0 {
				return
			}
			yield(at+i, at+i+len(literal))
			at += i + len(literal)
		}
	}
}

// compilePattern takes a pattern of the Oniguruma library. The patterns that nearly
// every model uses have scanners of their own, five to ten times as fast.
func compilePattern(pattern string) (finder, error) {
	if scan := knownScanner(pattern); scan != nil {
		return func(s string, yield func(from, to int)) {
			for at := 0; at < len(s); {
				end := at + scan(s[at:])
				yield(at, end)
				at = end
			}
		}, nil
	}
	translated, err := translatePattern(pattern)
	if err != nil {
		return nil, err
	}
	re, err := regexp2.Compile(translated, regexp2.Unicode)
	if err != nil {
		return nil, fmt.Errorf("pattern %q: %w", pattern, err)
	}
	return func(s string, yield func(from, to int)) {
		runes := []rune(s)
		at, bytes := 0, 0 // a place in runes and the same in s
		advance := func(to int) int {
			for ; at < to; at++ {
				bytes += utf8.RuneLen(runes[at])
			}
			return bytes
		}
		m, err := re.FindRunesMatch(runes)
		for ; m != nil && err == nil; m, err = re.FindNextMatch(m) {
			if m.Length == 0 {
				continue
			}
			from := advance(m.Index)
			yield(from, advance(m.Index+m.Length))
		}
	}, nil
}

var (
	wordOrBracket     = regexp.MustCompile(`\\.|\[|\]`)
	classIntersection = regexp.MustCompile(`\[((?:[^\[\]\\]|\\p\{[^}]*\}|\\.)+)&&\[\^((?:[^\[\]\\]|\\p\{[^}]*\}|\\.)+)\]\]`)
	possessive        = regexp.MustCompile(`([^\\][*+?}])\+`)
)

// Oniguruma's \w: unlike .NET's it has no zero-width joiners, but six Latin-1 numbers.
const wordCharacters = `\p{L}\p{M}\p{Nd}\p{Nl}\p{Pc}²³¹¼½¾\x{24B6}-\x{24E9}\x{1F130}-\x{1F149}\x{1F150}-\x{1F169}\x{1F170}-\x{1F189}`

// translatePattern writes what differs between Oniguruma and .NET: \w and the
// intersection with a negated class. What it can't write so, it refuses.
func translatePattern(pattern string) (string, error) {
	inClass := 0
	var refused error
	pattern = wordOrBracket.ReplaceAllStringFunc(pattern, func(s string) string {
		switch s {
		case "[":
			inClass++
		case "]":
			inClass = max(0, inClass-1)
		case `\w`:
			if inClass > 0 {
				return wordCharacters
			}
			return "[" + wordCharacters + "]"
		case `\W`:
			if inClass == 0 {
				return "[^" + wordCharacters + "]"
			}
			refused = fmt.Errorf("pattern %q has \\W in a class, which this version can't read", pattern)
		case `\b`, `\B`, `\h`, `\H`, `\R`, `\X`:
			refused = fmt.Errorf("pattern %q has %s, which this version can't read", pattern, s)
		}
		return s
	})
	if refused != nil {
		return "", refused
	}
	translated := classIntersection.ReplaceAllString(pattern, `[$1-[$2]]`)
	if strings.Contains(translated, "&&") {
		return "", fmt.Errorf("pattern %q intersects classes in a way this version can't read", pattern)
	}
	if possessive.MatchString(strings.ReplaceAll(translated, `\\`, "")) {
		return "", fmt.Errorf("pattern %q has a possessive quantifier, which this version can't read", pattern)
	}
	return translated, nil
}

func replaceAll(find finder, s, content string) string {
	var b strings.Builder
	done := 0
	find(s, func(from, to int) {
		b.WriteString(s[done:from])
		b.WriteString(content)
		done = to
	})
	if done == 0 {
		return s
	}
	b.WriteString(s[done:])
	return b.String()
}
