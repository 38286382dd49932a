package tokenizer

import (
	"slices"
	"sync"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/hermes-env/hermes-env/agentloop/tokenizer/ucd"
)

// normalForm is a Unicode normalization form of Unicode 9, to which characters that
// were assigned later are like any letter. Decompositions come from golang.org/x/text,
// whose newer tables have the same ones for the characters of Unicode 9; its own
// String would use the newer ones too and put U+034F between more than 30 marks.
type normalForm struct {
	form      norm.Form
	decompose norm.Form
	composes  bool
}

var (
	nfc  = normalForm{norm.NFC, norm.NFD, true}
	nfd  = normalForm{norm.NFD, norm.NFD, false}
	nfkc = normalForm{norm.NFKC, norm.NFKD, true}
	nfkd = normalForm{norm.NFKD, norm.NFKD, false}
)

// normalRune is a character and its canonical combining class.
type normalRune struct {
	r     rune
	class uint8
}

// String returns s in the form.
func (f normalForm) String(s string) string {
	// What is normal by the newer tables is normal by the older ones: they know fewer
	// decompositions, and characters they don't know are never reordered or composed.
	if f.form.IsNormalString(s) {
		return s
	}
	runes := f.decomposed(s)
	if f.composes {
		runes = compose(runes)
	}
	out := make([]byte, 0, len(s)+len(s)/8)
	for _, n := range runes {
		out = utf8.AppendRune(out, n.r)
	}
	return string(out)
}

// decomposed returns the decomposition of s in canonical order.
func (f normalForm) decomposed(s string) []normalRune {
	runes := make([]normalRune, 0, len(s))
	sorted := 0 // the marks from here to the end are not in order yet
	sort := func() {
		if len(runes)-sorted > 1 {
			slices.SortStableFunc(runes[sorted:], func(a, b normalRune) int { return int(a.class) - int(b.class) })
		}
	}
	add := func(r rune, class uint8) {
		if class == 0 {
			sort()
			sorted = len(runes) + 1
		}
		runes = append(runes, normalRune{r, class})
	}
	assigned := ucd.Assigned9()
	for i := 0; i < len(s); {
		if s[i] < utf8.RuneSelf {
			add(rune(s[i]), 0)
			i++
			continue
		}
		r, width := utf8.DecodeRuneInString(s[i:])
		char := s[i : i+width]
		i += width
		switch {
		case r >= hangulBase && r < hangulBase+hangulCount:
			index := r - hangulBase
			add(leadBase+index/(vowelCount*tailCount), 0)
			add(vowelBase+index%(vowelCount*tailCount)/tailCount, 0)
			if tail := index % tailCount; tail > 0 {
				add(tailBase+tail, 0)
			}
		case !assigned.Contains(r):
			add(r, 0)
		default:
			p := f.decompose.PropertiesString(char)
			parts := p.Decomposition()
			if parts == nil {
				add(r, p.CCC())
				continue
			}
			for len(parts) > 0 {
				part, n := utf8.DecodeRune(parts)
				add(part, f.decompose.Properties(parts).CCC())
				parts = parts[n:]
			}
		}
	}
	sort()
	return runes
}

// compose puts pairs together, in place.
func compose(runes []normalRune) []normalRune {
	out := runes[:0]
	starter := -1 // place in out
	blocker := -1 // class of the last character since the starter; -1 for none
	for _, n := range runes {
		if starter >= 0 && blocker < int(n.class) {
			if composed, ok := composition(out[starter].r, n.r); ok {
				out[starter].r = composed
				continue
			}
		}
		if n.class == 0 {
			starter, blocker = len(out), -1
		} else {
			blocker = int(n.class)
		}
		out = append(out, n)
	}
	return out
}

// The composition of Hangul syllables from their parts
// (https://www.unicode.org/versions/Unicode9.0.0/ch03.pdf, section 3.12).
const (
	hangulBase, leadBase, vowelBase, tailBase = 0xAC00, 0x1100, 0x1161, 0x11A7
	leadCount, vowelCount, tailCount          = 19, 21, 28
	hangulCount                               = leadCount * vowelCount * tailCount
)

func composition(a, b rune) (rune, bool) {
	switch {
	case a >= leadBase && a < leadBase+leadCount && b >= vowelBase && b < vowelBase+vowelCount:
		return hangulBase + ((a-leadBase)*vowelCount+b-vowelBase)*tailCount, true
	case a >= hangulBase && a < hangulBase+hangulCount && (a-hangulBase)%tailCount == 0 && b > tailBase && b < tailBase+tailCount:
		return a + b - tailBase, true
	}
	r, ok := compositions()[[2]rune{a, b}]
	return r, ok
}

// compositions are the pairs that canonical composition puts together.
var compositions = sync.OnceValue(func() map[[2]rune]rune {
	pairs := map[[2]rune]rune{}
	assigned := ucd.Assigned9()
	for i := 0; i+1 < len(assigned); i += 2 {
		for r := max(assigned[i], utf8.RuneSelf); r < min(assigned[i+1], 0xE0000); r++ {
			if r == hangulBase {
				r += hangulCount - 1
				continue
			}
			char := string(r)
			parts := norm.NFD.PropertiesString(char).Decomposition()
			if parts == nil || !norm.NFC.IsNormalString(char) {
				continue // the second are excluded from composition
			}
			last, n := utf8.DecodeLastRune(parts)
			if first := []rune(norm.NFC.String(string(parts[:len(parts)-n]))); len(first) == 1 {
				pairs[[2]rune{first[0], last}] = r
			}
		}
	}
	return pairs
})
