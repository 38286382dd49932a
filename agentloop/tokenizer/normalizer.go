package tokenizer

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// normalizer changes the text before it is cut.
type normalizer func(string) string

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
		return norm.NFC.String, nil
	case "NFD":
		return norm.NFD.String, nil
	case "NFKC":
		return norm.NFKC.String, nil
	case "NFKD":
		return norm.NFKD.String, nil
	case "Prepend":
		return func(s string) string {
			if s == "" {
				return s
			}
			return c.Prepend + s
		}, nil
	case "Replace":
		find, err := parsePattern(c.Pattern)
		if err != nil {
			return nil, fmt.Errorf("normalizer Replace: %w", err)
		}
		return func(s string) string { return replaceAll(find, s, c.Content) }, nil
	case "Lowercase":
		return lower, nil
	case "Strip":
		left, right := c.StripLeft == nil || *c.StripLeft, c.StripRight == nil || *c.StripRight
		return func(s string) string {
			if left {
				s = strings.TrimLeftFunc(s, unicode.IsSpace)
			}
			if right {
				s = strings.TrimRightFunc(s, unicode.IsSpace)
			}
			return s
		}, nil
	case "StripAccents":
		return stripAccents, nil
	case "ByteLevel":
		return mapBytes, nil
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
	return func(s string) string {
		for _, n := range all {
			s = n(s)
		}
		return s
	}, nil
}

// lower lower-cases each character by itself; the capital I with a dot is the one
// character that becomes two.
func lower(s string) string {
	if !strings.ContainsRune(s, 'İ') {
		return strings.Map(unicode.ToLower, s)
	}
	return strings.Map(unicode.ToLower, strings.ReplaceAll(s, "İ", "i\u0307"))
}

func stripAccents(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.Is(unicode.Mn, r) {
			return -1
		}
		return r
	}, s)
}

// bertNormalizer follows BERT's BasicTokenizer
// (https://github.com/google-research/bert/blob/master/tokenization.py).
func bertNormalizer(clean, chinese, accents, lowercase bool) normalizer {
	return func(s string) string {
		if clean {
			s = strings.Map(func(r rune) rune {
				switch {
				case r == '\t' || r == '\n' || r == '\r':
					return ' '
				case r == 0 || r == 0xFFFD || unicode.In(r, unicode.Cc, unicode.Cf, unicode.Co):
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
			s = stripAccents(norm.NFD.String(s))
		}
		if lowercase {
			s = lower(s)
		}
		return s
	}
}

func isChinese(r rune) bool {
	return r >= 0x4E00 && r <= 0x9FFF || r >= 0x3400 && r <= 0x4DBF || r >= 0x20000 && r <= 0x2A6DF ||
		r >= 0x2A700 && r <= 0x2B73F || r >= 0x2B740 && r <= 0x2B81F || r >= 0x2B920 && r <= 0x2CEAF ||
		r >= 0xF900 && r <= 0xFAFF || r >= 0x2F800 && r <= 0x2FA1F
}
