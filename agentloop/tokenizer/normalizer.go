package tokenizer

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/hermes-env/hermes-env/agentloop/tokenizer/ucd"
)

// normalizer changes the text before it is cut. shifted tells that it left out the
// beginning, so that what it returns doesn't begin where the text did.
type normalizer func(s string) (out string, shifted bool, err error)

// keeping is a normalizer that leaves out nothing at the beginning.
func keeping(change func(string) string) normalizer {
	return func(s string) (string, bool, error) { return change(s), false, nil }
}

// dropping is a normalizer that leaves out the first character if drop says so.
func dropping(drop func(rune) bool, change func(string) string) normalizer {
	return func(s string) (string, bool, error) {
		first, _ := utf8.DecodeRuneInString(s)
		return change(s), s != "" && drop(first), nil
	}
}

func parseNormalizer(raw json.RawMessage) (normalizer, error) {
	if isNull(raw) {
		return nil, nil
	}
	var c struct {
		Type        string            `json:"type"`
		Normalizers []json.RawMessage `json:"normalizers"`
		Prepend     string            `json:"prepend"`
		Pattern     json.RawMessage   `json:"pattern"`
		Content     string            `json:"content"`
		StripLeft   *bool             `json:"strip_left"`
		StripRight  *bool             `json:"strip_right"`
		Charsmap    *string           `json:"precompiled_charsmap"`

		CleanText          *bool `json:"clean_text"`
		HandleChineseChars *bool `json:"handle_chinese_chars"`
		StripAccents       *bool `json:"strip_accents"`
		Lowercase          *bool `json:"lowercase"`
	}
	if err := json.Unmarshal(raw, &c); err != nil {
		return nil, fmt.Errorf("normalizer: %w", err)
	}
	switch c.Type {
	case "Sequence":
		return sequenceOf(c.Normalizers)
	case "NFC":
		return keeping(nfc.String), nil
	case "NFD":
		return keeping(nfd.String), nil
	case "NFKC":
		return keeping(nfkc.String), nil
	case "NFKD":
		return keeping(nfkd.String), nil
	case "Nmt":
		return dropping(nmtDrops, nmt), nil
	case "Precompiled":
		if c.Charsmap == nil {
			return nil, fmt.Errorf("normalizer Precompiled: precompiled_charsmap is missing")
		}
		m, err := parseCharsmap(*c.Charsmap)
		if err != nil {
			return nil, fmt.Errorf("normalizer Precompiled: %w", err)
		}
		return keeping(m.normalize), nil
	case "Prepend":
		return keeping(func(s string) string {
			if s == "" {
				return s
			}
			return c.Prepend + s
		}), nil
	case "Replace":
		find, err := parsePattern(c.Pattern)
		if err != nil {
			return nil, fmt.Errorf("normalizer Replace: %w", err)
		}
		return func(s string) (string, bool, error) {
			shifted := false
			out, err := replaceAll(find, s, c.Content, func(from, to int) {
				shifted = shifted || from == 0 && to > 0 && c.Content == ""
			})
			return out, shifted, err
		}, nil
	case "Lowercase":
		return keeping(lower), nil
	case "Strip":
		left, right := c.StripLeft == nil || *c.StripLeft, c.StripRight == nil || *c.StripRight
		return dropping(func(r rune) bool { return left && unicode.IsSpace(r) }, func(s string) string {
			if left {
				s = strings.TrimLeftFunc(s, unicode.IsSpace)
			}
			if right {
				s = strings.TrimRightFunc(s, unicode.IsSpace)
			}
			return s
		}), nil
	case "StripAccents":
		return dropping(ucd.Mark9().Contains, func(s string) string { return remove(ucd.Mark9(), s) }), nil
	case "ByteLevel":
		return keeping(mapBytes), nil
	case "BertNormalizer":
		lowercase := c.Lowercase == nil || *c.Lowercase
		accents := lowercase
		if c.StripAccents != nil {
			accents = *c.StripAccents
		}
		return bertNormalizer(c.CleanText == nil || *c.CleanText, c.HandleChineseChars == nil || *c.HandleChineseChars, accents, lowercase), nil
	}
	return nil, unknown("normalizer", c.Type)
}

func sequenceOf(parts []json.RawMessage) (normalizer, error) {
	var all []normalizer
	for _, part := range parts {
		n, err := parseNormalizer(part)
		if err != nil {
			return nil, err
		}
		if n != nil {
			all = append(all, n)
		}
	}
	if len(all) == 0 {
		return nil, nil
	}
	return func(s string) (string, bool, error) {
		shifted := false
		for _, n := range all {
			out, shifts, err := n(s)
			if err != nil {
				return "", false, err
			}
			s, shifted = out, shifted || shifts
		}
		return s, shifted, nil
	}, nil
}

// lower lower-cases each character by itself; the capital I with a dot is the one
// character that becomes two.
func lower(s string) string {
	if strings.ContainsRune(s, 'İ') {
		s = strings.ReplaceAll(s, "İ", "i\u0307")
	}
	return strings.Map(ucd.ToLower, s)
}

// remove leaves out the characters of a set, none of which is ASCII.
func remove(set ucd.Set, s string) string {
	return strings.Map(func(r rune) rune {
		if r >= utf8.RuneSelf && set.Contains(r) {
			return -1
		}
		return r
	}, s)
}

// nmt cleans text as SentencePiece's rules for machine translation do.
func nmt(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case nmtDrops(r):
			return -1
		case r == '\t', r == '\n', r == '\f', r == '\r', r == 0x1680, r >= 0x200B && r <= 0x200F, r == 0x2028, r == 0x2029, r == 0x2581, r == 0xFEFF, r == 0xFFFD:
			return ' '
		}
		return r
	}, s)
}

func nmtDrops(r rune) bool {
	return r >= 1 && r <= 8 || r == 0x0B || r >= 0x0E && r <= 0x1F || r == 0x7F || r == 0x8F || r == 0x9F
}

// bertNormalizer follows BERT's BasicTokenizer
// (https://github.com/google-research/bert/blob/master/tokenization.py).
func bertNormalizer(clean, chinese, accents, lowercase bool) normalizer {
	return func(s string) (string, bool, error) {
		shifted := false
		starts := func(with func(rune) bool) bool {
			first, _ := utf8.DecodeRuneInString(s)
			return s != "" && with(first)
		}
		if clean {
			shifted = starts(bertDrops)
			s = strings.Map(func(r rune) rune {
				switch {
				case bertDrops(r):
					return -1
				case unicode.IsSpace(r):
					return ' '
				}
				return r
			}, s)
		}
		if chinese {
			var b strings.Builder
			for _, r := range s {
				if isChinese(r) {
					b.WriteByte(' ')
					b.WriteRune(r)
					b.WriteByte(' ')
				} else {
					b.WriteRune(r)
				}
			}
			s = b.String()
		}
		if accents {
			s = nfd.String(s)
			shifted = shifted || starts(ucd.Nonspacing8().Contains)
			s = remove(ucd.Nonspacing8(), s)
		}
		if lowercase {
			s = lower(s)
		}
		return s, shifted, nil
	}
}

func bertDrops(r rune) bool {
	return r == 0 || r == 0xFFFD || r != '\t' && r != '\n' && r != '\r' && ucd.Other8().Contains(r)
}

func isChinese(r rune) bool {
	return r >= 0x4E00 && r <= 0x9FFF || r >= 0x3400 && r <= 0x4DBF || r >= 0x20000 && r <= 0x2A6DF ||
		r >= 0x2A700 && r <= 0x2B73F || r >= 0x2B740 && r <= 0x2B81F || r >= 0x2B920 && r <= 0x2CEAF ||
		r >= 0xF900 && r <= 0xFAFF || r >= 0x2F800 && r <= 0x2FA1F
}
