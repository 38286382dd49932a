package tokenizer

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/hermes-env/hermes-env/agentloop/tokenizer/ucd"
)

// preTokenizer cuts a piece into smaller ones, in order, and may change them.
type preTokenizer interface {
	split(p piece, yield func(piece)) error
}

// patternGPT2 is the pattern of the ByteLevel pre-tokenizer.
const patternGPT2 = `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`

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
		Length         *int              `json:"length"`
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
		return one(splitter{find: findRunes(ucd.Number().Contains), behavior: b})
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
	case "FixedLength":
		f := fixedLength(5)
		if c.Length != nil {
			f = fixedLength(*c.Length)
		}
		if f < 1 {
			return nil, fmt.Errorf("pre-tokenizer FixedLength: length %d is less than one character", f)
		}
		return one(f)
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

func (s splitter) split(p piece, yield func(piece)) error {
	emit := func(from, to int) {
		if from < to {
			yield(p.cut(from, to))
		}
	}
	if s.behavior == isolated {
		done := 0
		err := s.find(p.text, func(from, to int) {
			emit(done, from)
			emit(from, to)
			done = to
		})
		if err == nil {
			emit(done, len(p.text))
		}
		return err
	}
	if s.behavior == removed {
		done := 0
		err := s.find(p.text, func(from, to int) {
			if s.invert {
				emit(from, to)
			} else {
				emit(done, from)
			}
			done = to
		})
		if err == nil && !s.invert {
			emit(done, len(p.text))
		}
		return err
	}
	spans, err := s.spans(p.text)
	for _, sp := range s.behavior.join(spans) {
		emit(sp.from, sp.to)
	}
	return err
}

func (s splitter) spans(text string) ([]span, error) {
	var spans []span
	done := 0
	err := s.find(text, func(from, to int) {
		if done < from {
			spans = append(spans, span{done, from, s.invert})
		}
		spans = append(spans, span{from, to, !s.invert})
		done = to
	})
	if err != nil {
		return nil, err
	}
	if done < len(text) {
		spans = append(spans, span{done, len(text), s.invert})
	}
	return spans, nil
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
	}
	return out
}

// prefixSpace puts a space before a piece that begins with none.
type prefixSpace struct{}

func (prefixSpace) split(p piece, yield func(piece)) error {
	if !strings.HasPrefix(p.text, " ") {
		p.text, p.head = " "+p.text, p.head+1
	}
	yield(p)
	return nil
}

// byteLevel writes bytes as characters.
type byteLevel struct{}

func (byteLevel) split(p piece, yield func(piece)) error {
	p.text, p.head = mapBytes(p.text), len(mapBytes(p.text[:p.head]))
	yield(p)
	return nil
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

func (m metaspace) split(p piece, yield func(piece)) error {
	head := strings.Count(p.text[:p.head], " ")
	p.text, p.head = strings.ReplaceAll(p.text, " ", m.replacement), p.head+head*(len(m.replacement)-1)
	if (m.scheme == "always" || m.scheme == "first" && p.start) && !strings.HasPrefix(p.text, m.replacement) {
		p.text, p.head = m.replacement+p.text, p.head+len(m.replacement)
	}
	yield(p)
	return nil
}

// fixedLength is the number of characters of each part of a text.
type fixedLength int

func (f fixedLength) split(p piece, yield func(piece)) error {
	from, n := 0, 0
	for at := range p.text {
		if n == int(f) {
			yield(p.cut(from, at))
			from, n = at, 0
		}
		n++
	}
	if from < len(p.text) {
		yield(p.cut(from, len(p.text)))
	}
	return nil
}

// findRunes matches each character that is has by itself.
func findRunes(is func(rune) bool) finder {
	return func(s string, yield func(from, to int)) error {
		for i, r := range s {
			if is(r) {
				yield(i, i+utf8.RuneLen(r))
			}
		}
		return nil
	}
}

// findWords matches \w+|[^\w\s]+.
func findWords(s string, yield func(from, to int)) error {
	const space, word, other = 0, 1, 2
	words := ucd.Word()
	kind := func(r rune) int {
		switch {
		case words.Contains(r):
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
	return nil
}

func isPunctuation(r rune) bool {
	return r < 128 && (r >= '!' && r <= '/' || r >= ':' && r <= '@' || r >= '[' && r <= '`' || r >= '{' && r <= '~') ||
		ucd.Punctuation8().Contains(r)
}
