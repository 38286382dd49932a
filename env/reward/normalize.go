package reward

import (
	"strings"
	"unicode"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// Normalize makes answers comparable that differ in form only: compatibility forms are unified (NFKC), letters folded to one
// case, punctuation (but not the signs of mathematics and currencies) becomes space, the English articles a, an, the are left
// out, and runs of white space become one space. A text of nothing but articles keeps them.
func Normalize(text string) string {
	text = cases.Fold().String(norm.NFKC.String(strings.ReplaceAll(text, decimalMark, " ")))
	text = strings.Map(func(r rune) rune {
		switch {
		case r == '\'' || r == '’':
			return -1 // don't and dont are the same word
		case unicode.IsPunct(r) || unicode.IsSpace(r) || unicode.IsControl(r):
			if r == '%' || r == '-' {
				return r
			}
			return ' '
		}
		return r
	}, keepDecimals(text))
	words := strings.Fields(text)
	kept := words[:0:0]
	for _, w := range words {
		w = strings.TrimRight(w, "-")
		if w == "a" || w == "an" || w == "the" || w == "" {
			continue
		}
		kept = append(kept, w)
	}
	if len(kept) == 0 {
		kept = words
	}
	return strings.ReplaceAll(strings.Join(kept, " "), decimalMark, ".")
}

// decimalMark stands for the point of a number while punctuation is taken out: a code point that is no character.
const decimalMark = "\U0010FFFF"

// keepDecimals protects points between digits, so that 3.14 and 314 stay different.
func keepDecimals(text string) string {
	runes := []rune(text)
	var out strings.Builder
	for i, r := range runes {
		if r == '.' && i > 0 && i+1 < len(runes) && unicode.IsDigit(runes[i-1]) && unicode.IsDigit(runes[i+1]) {
			out.WriteString(decimalMark)
			continue
		}
		out.WriteRune(r)
	}
	return out.String()
}
