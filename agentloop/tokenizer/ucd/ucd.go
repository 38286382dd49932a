// Package ucd holds the character properties that tokenizers depend on, from the
// Unicode Character Database.
//
// A tokenizer's ids depend on the Unicode version of the library that a model was
// trained with. Version 0.23 of Hugging Face's tokenizers library uses four:
//
//	16  the patterns that cut text (Oniguruma 6.9.10) and words (regex-syntax 0.8)
//	17  numbers and lower case (Rust's standard library), grapheme clusters (unicode-segmentation 1.13)
//	 9  NFC, NFD, NFKC, NFKD and combining marks (unicode-normalization-alignments 0.1)
//	 8  punctuation, control characters and accents of BERT (unicode_categories 0.1)
//
// The package never depends on the Unicode version of the Go release.
package ucd

//go:generate node generate.mjs

import (
	"encoding/base64"
	"encoding/binary"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"unicode"
)

// Set is a set of characters as an inversion list: at even places the starts of its
// ranges, at odd ones their ends, exclusive.
type Set []rune

// End is the first number that is not a character.
const End = unicode.MaxRune + 1

// Range returns the set of the characters from first to last.
func Range(first, last rune) Set { return Set{first, last + 1} }

// Contains tells whether r is in the set.
func (s Set) Contains(r rune) bool {
	lo, hi := 0, len(s)
	for lo < hi {
		if mid := (lo + hi) / 2; s[mid] <= r {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo%2 == 1
}

// Union returns the characters that are in any of the sets.
func Union(sets ...Set) Set {
	var out Set
	for _, s := range sets {
		if len(out) == 0 {
			out = s
		} else if len(s) > 0 {
			out = combine(1, out, s)
		}
	}
	return out
}

// Intersect returns the characters that are in both sets.
func Intersect(a, b Set) Set { return combine(2, a, b) }

// Negate returns the characters that are not in the set.
func (s Set) Negate() Set {
	if len(s) > 0 && s[0] == 0 {
		s = s[1:]
	} else {
		s = append(Set{0}, s...)
	}
	if len(s) > 0 && s[len(s)-1] == End {
		return s[: len(s)-1 : len(s)-1]
	}
	return append(s[:len(s):len(s)], End)
}

// combine returns the characters that are in at least need of two sets.
func combine(need int, a, b Set) Set {
	out := make(Set, 0, len(a)+len(b))
	for i, j := 0, 0; i < len(a) || j < len(b); {
		was := i%2+j%2 >= need
		at := rune(End)
		if i < len(a) {
			at = a[i]
		}
		if j < len(b) {
			at = min(at, b[j])
		}
		if i < len(a) && a[i] == at {
			i++
		}
		if j < len(b) && b[j] == at {
			j++
		}
		if (i%2+j%2 >= need) != was {
			out = append(out, at)
		}
	}
	return out
}

// The values of General_Category in the order of the table, shortened.
const categoryNames = "LuLlLtLmLoMnMcMeNdNlNoPcPdPsPePiPfPoSmScSkSoZsZlZpCcCfCsCoCn"

// Category returns the characters of a General_Category of Unicode 16, by its short
// name: one value such as Lu, the first letter of several such as L, or LC.
func Category(name string) (Set, bool) {
	if name == "LC" {
		return Union(category("Lu"), category("Ll"), category("Lt")), true
	}
	s := category(name)
	return s, s != nil
}

func category(name string) Set {
	if len(name) == 0 || len(name) > 2 {
		return nil
	}
	return categories().where(func(value byte) bool {
		return strings.HasPrefix(categoryNames[2*value:2*value+2], name)
	})
}

// Script returns the characters of a script of Unicode 16, by its long name without
// regard to case, spaces, hyphens and underscores.
func Script(name string) (Set, bool) {
	for i, script := range scriptNames {
		if Loose(script) == Loose(name) {
			return scripts().where(func(value byte) bool { return int(value) == i }), true
		}
	}
	return nil, false
}

// Loose returns the form in which names of properties are compared.
func Loose(name string) string {
	return strings.NewReplacer(" ", "", "-", "", "_", "").Replace(strings.ToLower(name))
}

// Properties of Unicode 16.
var (
	Alphabetic = set(alphabetic16)
	Lowercase  = set(lowercase16)
	Uppercase  = set(uppercase16)
	// Expanding are the characters whose full case folding is several characters.
	Expanding = set(expanding16)
)

// WhiteSpace returns the characters with the property White_Space; all versions that
// matter agree on them.
var WhiteSpace = sync.OnceValue(func() Set {
	return Union(Range('\t', '\r'), Range(0x85, 0x85), category("Z"))
})

// Word returns \w of Unicode regular expressions, of Unicode 16.
var Word = sync.OnceValue(func() Set {
	return Union(Alphabetic(), category("M"), category("Nd"), category("Pc"), Range(0x200C, 0x200D))
})

// Properties of other versions.
var (
	Number       = set(numbers17)    // category N of Unicode 17
	Assigned9    = set(assigned9)    // assigned in Unicode 9
	Mark9        = set(marks9)       // category M of Unicode 9
	Punctuation8 = set(punctuation8) // category P of Unicode 8
	Nonspacing8  = set(nonspacing8)  // category Mn of Unicode 8
)

// Other8 returns the categories Cc, Cf and Co of Unicode 8.
var Other8 = sync.OnceValue(func() Set {
	return Union(set(formats8)(), category("Cc"), category("Co"))
})

// Fold returns the simple case folding of Unicode 16: the character that stands for
// all that differ from r in case only.
func Fold(r rune) rune { return mapped(folds(), r) }

// Unfold returns the characters whose folding r is, r itself left out.
func Unfold(r rune) []rune { return unfolds()[r] }

// Folded returns the characters that others fold to.
func Folded() iter.Seq[rune] { return maps.Keys(unfolds()) }

// EndsWithExpansion tells whether folded text ends with the full folding of a single
// character that is several characters long, as that of ß is.
func EndsWithExpansion(folded string) bool {
	return slices.ContainsFunc(expansions(), func(e string) bool { return strings.HasSuffix(folded, e) })
}

// ToLower returns the simple lower case of Unicode 17.
func ToLower(r rune) rune {
	if r < 0x80 {
		if r >= 'A' && r <= 'Z' {
			r += 'a' - 'A'
		}
		return r
	}
	return mapped(lowers(), r)
}

var (
	folds      = sync.OnceValue(func() []group { return groups(folds16) })
	expansions = sync.OnceValue(func() []string { return strings.Fields(string(unpack(expansions16))) })
	lowers     = sync.OnceValue(func() []group { return groups(lower17) })
	unfolds    = sync.OnceValue(func() map[rune][]rune {
		out := map[rune][]rune{}
		for _, g := range folds() {
			for i := range g.n {
				r := g.first + i*g.step
				out[r+g.difference] = append(out[r+g.difference], r)
			}
		}
		return out
	})
)

// group is a number of characters at equal steps that map to others at the same distance.
type group struct{ first, n, step, difference rune }

func mapped(groups []group, r rune) rune {
	at, found := slices.BinarySearchFunc(groups, r, func(g group, r rune) int { return int(g.first - r) })
	if !found {
		at--
	}
	if at < 0 {
		return r
	}
	if g := groups[at]; (r-g.first)%g.step == 0 && (r-g.first)/g.step < g.n {
		return r + g.difference
	}
	return r
}

// unpack decodes a table. The tables are part of the program, so an error is a bug.
func unpack(table string) []byte {
	data, err := base64.StdEncoding.DecodeString(table)
	if err != nil {
		panic("ucd: " + err.Error())
	}
	return data
}

func number(data []byte) (rune, []byte) {
	x, n := binary.Uvarint(data)
	return rune(x), data[n:]
}

func set(table string) func() Set {
	return sync.OnceValue(func() Set {
		var out Set
		at := rune(0)
		for data := unpack(table); len(data) > 0; {
			var distance rune
			distance, data = number(data)
			at += distance
			out = append(out, at)
		}
		return out
	})
}

// runs holds a value for every character, as runs of equal ones.
type runs struct {
	starts []rune
	values []byte
}

var (
	categories = sync.OnceValue(func() runs { return unpackRuns(categories16) })
	scripts    = sync.OnceValue(func() runs { return unpackRuns(scripts16) })
)

func unpackRuns(table string) runs {
	var out runs
	at := rune(0)
	for data := unpack(table); len(data) > 0; {
		var length rune
		length, data = number(data)
		out.starts, out.values = append(out.starts, at), append(out.values, data[0])
		at, data = at+length, data[1:]
	}
	return out
}

// where returns the characters with the values that match.
func (r runs) where(match func(value byte) bool) Set {
	var out Set
	for i, start := range r.starts {
		if match(r.values[i]) != (len(out)%2 == 1) {
			out = append(out, start)
		}
	}
	if len(out)%2 == 1 {
		out = append(out, End)
	}
	return out
}

// of returns the value of a character.
func (r runs) of(c rune) byte {
	at, found := slices.BinarySearch(r.starts, c)
	if !found {
		at--
	}
	return r.values[at]
}

func groups(table string) []group {
	var out []group
	at := rune(0)
	for data := unpack(table); len(data) > 0; {
		var g group
		g.first, data = number(data)
		g.n, data = number(data)
		g.step, data = number(data)
		difference, n := binary.Varint(data)
		g.difference, data = rune(difference), data[n:]
		at += g.first
		g.first = at
		out = append(out, g)
	}
	return out
}
