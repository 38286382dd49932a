package tokenizer

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/hermes-env/hermes-env/agentloop/tokenizer/oniguruma"
)

// finder yields the matches of a pattern in s in order, as byte ranges that don't
// overlap. A match may be empty.
type finder func(s string, yield func(from, to int)) error

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
	case c.String != nil && *c.String != "":
		return findLiteral(*c.String), nil
	case c.String != nil:
		return compilePattern("") // matches between all characters
	case c.Regex != nil:
		return compilePattern(*c.Regex)
	}
	return nil, fmt.Errorf("pattern %.100s is neither a String nor a Regex", raw)
}

func findLiteral(literal string) finder {
	return func(s string, yield func(from, to int)) error {
		for at := 0; ; {
			i := strings.Index(s[at:], literal)
			if i < 0 {
				return nil
			}
			yield(at+i, at+i+len(literal))
			at += i + len(literal)
		}
	}
}

func compilePattern(pattern string) (finder, error) {
	re, err := oniguruma.Compile(pattern)
	if err != nil {
		return nil, err
	}
	return re.FindAll, nil
}

// replaceAll puts content in the place of every match, which it reports to matched.
func replaceAll(find finder, s, content string, matched func(from, to int)) (string, error) {
	var b strings.Builder
	done, found := 0, false
	err := find(s, func(from, to int) {
		matched(from, to)
		b.WriteString(s[done:from])
		b.WriteString(content)
		done, found = to, true
	})
	if err != nil || !found {
		return s, err
	}
	b.WriteString(s[done:])
	return b.String(), nil
}
