package tokenizer

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// preTokenizer cuts a piece into smaller ones, in order, and may change them.
type preTokenizer interface {
	split(p piece, yield func(piece))
}

func parsePreTokenizers(raw json.RawMessage) ([]preTokenizer, error) {
	if isNull(raw) {
		return nil, nil
	}
	var c struct {
		Type           string            `json:"type"`
		Pretokenizers  []json.RawMessage `json:"pretokenizers"`
		AddPrefixSpace *bool             `json:"add_prefix_space"`
		UseRegex       *bool             `json:"use_regex"`
		Pattern        json.RawMessage   `json:"pattern"`
		Behavior       string            `json:"behavior"`
		Invert         bool              `json:"invert"`
		Individual     bool              `json:"individual_digits"`
		Replacement    string            `json:"replacement"`
		PrependScheme  string            `json:"prepend_scheme"`
		Split          *bool             `json:"split"`
		Delimiter      string            `json:"delimiter"`
	}
	if err := json.Unmarshal(raw, &c); err != nil {
		return nil, fmt.Errorf("pre-tokenizer: %w", err)
	}
	one := func(p preTokenizer) ([]preTokenizer, error) { return []preTokenizer{p}, nil }
	switch c.Type {
	case "Sequence":
		var all []preTokenizer
		for _, part := range c.Pretokenizers {
			some, err := parsePreTokenizers(part)
			if err != nil {
				return nil, err
			}
			all = append(all, some...)
		}
		return all, nil
	case "ByteLevel":
		var all []preTokenizer
		if c.AddPrefixSpace == nil || *c.AddPrefixSpace {
			all = append(all, prefixSpace{})
		}
		if c.UseRegex == nil || *c.UseRegex {
			find, err := compilePattern(patternGPT2)
			if err != nil {
				return nil, err
			}
			all = append(all, splitter{find: find, behavior: isolated})
		}
		return append(all, byteLevel{}), nil
	case "Split":
		find, err := parsePattern(c.Pattern)
		if err != nil {
			return nil, fmt.Errorf("pre-tokenizer Split: %w", err)
		}
		b, err := parseBehavior(c.Behavior)
		if err != nil {
			return nil, fmt.Errorf("pre-tokenizer Split: %w", err)
		}
		return one(splitter{find: find, behavior: b, invert: c.Invert})
	case "Digits":
		b := contiguous
		if c.Individual {
			b = isolated
		}
		return one(splitter{find: findRunes(isNumeric), behavior: b})
	case "Punctuation":
		b := isolated
		if c.Behavior != "" {
			var err error
			if b, err = parseBehavior(c.Behavior); err != nil {
				return nil, fmt.Errorf("pre-tokenizer Punctuation: %w", err)
			}
		}
		return one(splitter{find: findRunes(isPunctuation), behavior: b})
	case "Whitespace":
		return one(splitter{find: findWords, behavior: removed, invert: true})
	case "WhitespaceSplit":
		return one(splitter{find: findRunes(unicode.IsSpace), behavior: removed})
	case "CharDelimiterSplit":
		return one(splitter{find: findLiteral(c.Delimiter), behavior: removed})
	case "BertPreTokenizer":
		return []preTokenizer{
			splitter{find: findRunes(unicode.IsSpace), behavior: removed},
			splitter{find: findRunes(isPunctuation), behavior: isolated},
		}, nil
	case "Metaspace":
		m, err := newMetaspace(c.Replacement, c.PrependScheme, c.AddPrefixSpace)
		if err != nil {
			return nil, err
		}
		all := []preTokenizer{m}
		if c.Split == nil || *c.Split {
			all = append(all, splitter{find: findLiteral(m.replacement), behavior: mergedWithNext})
		}
		return all, nil
	}
	return nil, unknown("pre-tokenizer", c.Type)
}

// behavior says what becomes of the matches of a pattern that cuts.
type behavior int

const (
	removed behavior = iota
	isolated
	mergedWithPrevious
	mergedWithNext
	contiguous
)

func parseBehavior(name string) (behavior, error) {
	switch name {
	case "Removed":
		return removed, nil
	case "Isolated":
		return isolated, nil
	case "MergedWithPrevious":
		return mergedWithPrevious, nil
	case "MergedWithNext":
		return mergedWithNext, nil
	case "Contiguous":
		return contiguous, nil
	}
	return 0, unknown("behavior", name)
}

type splitter struct {
	find     finder
	behavior behavior
	invert   bool // what doesn't match counts as the match
}

// span is a range of a piece; spans cover the piece without gaps.
type span struct {
	from, to int
	match    bool
}

func (s splitter) split(p piece, yield func(piece)) {
	emit := func(from, to int) {
		if from < to {
			yield(piece{text: p.text[from:to], start: p.start && from == 0})
		}
	}
	if s.behavior == isolated {
		done := 0
		s.find(p.text, func(from, to int) {
			emit(done, from)
			emit(from, to)
			done = to
		})
		emit(done, len(p.text))
		return
	}
	for _, sp := range s.behavior.join(s.spans(p.text)) {
		if s.behavior != removed || !sp.match {
			emit(sp.from, sp.to)
		}
	}
}

func (s splitter) spans(text string) []span {
	var spans []span
	done := 0
	s.find(text, func(from, to int) {
		if done < from {
			spans = append(spans, span{done, from, s.invert})
		}
		spans = append(spans, span{from, to, !s.invert})
		done = to
	})
	if done < len(text) {
		spans = append(spans, span{done, len(text), s.invert})
	}
	return spans
}

// join puts neighbouring spans together as the behavior asks.
func (b behavior) join(spans []span) []span {
	var out []span
	switch b {
	case mergedWithPrevious:
		for i, sp := range spans {
			if sp.match && i > 0 && !spans[i-1].match {
				out[len(out)-1].to = sp.to
			} else {
				out = append(out, sp)
			}
		}
	case mergedWithNext:
		for i, sp := range spans {
			if i > 0 && spans[i-1].match && !sp.match {
				out[len(out)-1].to = sp.to
			} else {
				out = append(out, sp)
			}
		}
	case contiguous:
		for i, sp := range spans {
			if i > 0 && spans[i-1].match == sp.match {
				out[len(out)-1].to = sp.to
			} else {
				out = append(out, sp)
			}
		}
	default:
		return spans
	}
	return out
}

// prefixSpace puts a space before a piece that begins with none.
type prefixSpace struct{}

func (prefixSpace) split(p piece, yield func(piece)) {
	if !strings.HasPrefix(p.text, " ") {
		p.text = " " + p.text
	}
	yield(p)
}

// byteLevel writes bytes as characters.
type byteLevel struct{}

func (byteLevel) split(p piece, yield func(piece)) {
	p.text = mapBytes(p.text)
	yield(p)
}

// metaspace writes spaces as a visible character, as SentencePiece does.
type metaspace struct {
	replacement string
	scheme      string // always, first or never
}

func newMetaspace(replacement, scheme string, addPrefixSpace *bool) (metaspace, error) {
	if replacement == "" {
		replacement = "▁"
	}
	if utf8.RuneCountInString(replacement) != 1 {
		return metaspace{}, fmt.Errorf("metaspace: the replacement %q is not one character", replacement)
	}
	if scheme == "" {
		scheme = "always"
		if addPrefixSpace != nil && !*addPrefixSpace {
			scheme = "never"
		}
	}
	if scheme != "always" && scheme != "first" && scheme != "never" {
		return metaspace{}, unknown("prepend_scheme", scheme)
	}
	return metaspace{replacement: replacement, scheme: scheme}, nil
}

func (m metaspace) split(p piece, yield func(piece)) {
	p.text = strings.ReplaceAll(p.text, " ", m.replacement)
	if (m.scheme == "always" || m.scheme == "first" && p.start) && !strings.HasPrefix(p.text, m.replacement) {
		p.text = m.replacement + p.text
	}
	yield(p)
}

// findRunes matches each character that is has by itself.
func findRunes(is func(rune) bool) finder {
	return func(s string, yield func(from, to int)) {
		for i, r := range s {
			if is(r) {
				yield(i, i+utf8.RuneLen(r))
			}
		}
	}
}

// findWords matches \w+|[^\w\s]+.
func findWords(s string, yield func(from, to int)) {
	const space, word, other = 0, 1, 2
	kind := func(r rune) int {
		switch {
		case isWord(r):
			return word
		case unicode.IsSpace(r):
			return space
		}
		return other
	}
	from, run := 0, space
	for i, r := range s {
		if k := kind(r); k != run {
			if run != space {
				yield(from, i)
			}
			from, run = i, k
		}
	}
	if run != space && from < len(s) {
		yield(from, len(s))
	}
}

func isNumeric(r rune) bool { return unicode.Is(unicode.N, r) }

func isPunctuation(r rune) bool {
	return r < 128 && (r >= '!' && r <= '/' || r >= ':' && r <= '@' || r >= '[' && r <= '`' || r >= '{' && r <= '~') ||
		unicode.Is(unicode.P, r)
}
