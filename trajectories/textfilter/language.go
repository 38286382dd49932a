package textfilter

import (
	"fmt"
	"regexp"
	"sort"
	"strings"
	"unicode"

	"github.com/abadojack/whatlanggo"
)

// Limits of recognising a language.
const (
	languageLetters    = 2000 // that are looked at
	minLanguageLetters = 60   // below which a text in an alphabet is too short to tell
	minConfidence      = 0.5
)

// Languages says in which language texts are. It is safe for concurrent use.
type Languages struct {
	code *regexp.Regexp
	wish map[string]bool
}

// ParseLanguages takes codes of ISO 639-1 or 639-3: en, deu.
func ParseLanguages(codes []string) (*Languages, error) {
	known := map[string]string{}
	var names []string
	for lang := range whatlanggo.Langs {
		short := shortCode(lang)
		known[short], known[lang.Iso6393()] = short, short
		names = append(names, short)
	}
	l := &Languages{code: regexp.MustCompile("(?s)```.*?(?:```|$)|`[^`\n]*`|https?://\\S+|<[^<>\n]{1,200}>"), wish: map[string]bool{}}
	for _, code := range codes {
		short, ok := known[strings.ToLower(code)]
		if !ok {
			sort.Strings(names)
			return nil, fmt.Errorf("unknown language %q; there are: %s", code, strings.Join(names, ", "))
		}
		l.wish[short] = true
	}
	return l, nil
}

func shortCode(lang whatlanggo.Lang) string {
	if code := lang.Iso6391(); code != "" {
		return code
	}
	return lang.Iso6393()
}

// Wants says whether a language is among those asked for.
func (l *Languages) Wants(code string) bool { return l.wish[code] }

// Detect returns the code of a text's language, "" if the text is too short or its language
// is uncertain. Code, links and tags don't count.
func (l *Languages) Detect(text string) string {
	if len(text) > 16*languageLetters {
		text = strings.ToValidUTF8(text[:16*languageLetters], "")
	}
	text = l.code.ReplaceAllString(text, " ")
	letters, han, kana, end := 0, 0, 0, len(text)
	for i, r := range text {
		if !unicode.IsLetter(r) {
			continue
		}
		if letters++; letters == languageLetters {
			end = i
			break
		}
		switch {
		case unicode.Is(unicode.Han, r):
			han++
		case unicode.In(r, unicode.Hiragana, unicode.Katakana):
			kana++
		}
	}
	// A Chinese character says as much as several letters.
	if letters+5*(han+kana) < minLanguageLetters {
		return ""
	}
	if 3*(han+kana) >= letters {
		if 10*kana >= han+kana {
			return "ja"
		}
		return "zh"
	}
	info := whatlanggo.Detect(text[:end])
	if info.Lang < 0 || info.Confidence < minConfidence {
		return ""
	}
	return shortCode(info.Lang)
}
