package ucd

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"
)

// The characters with each value of General_Category in Unicode 16
// (https://www.unicode.org/Public/16.0.0/ucd/extracted/DerivedGeneralCategory.txt).
func TestCategory_HasTheCharactersOfUnicode16(t *testing.T) {
	for name, count := range map[string]int{
		"Lu": 1858, "Ll": 2258, "Lt": 31, "Lm": 404, "Lo": 136477, "Mn": 2020, "Mc": 468, "Me": 13, "Nd": 760, "Nl": 236, "No": 915,
		"Pc": 10, "Pd": 27, "Ps": 79, "Pe": 77, "Pi": 12, "Pf": 10, "Po": 640, "Sm": 950, "Sc": 63, "Sk": 125, "So": 7376,
		"Zs": 17, "Zl": 1, "Zp": 1, "Cc": 65, "Cf": 170, "Co": 137468, "Cs": 2048, "Cn": 819533,
		"L": 141028, "LC": 4147, "M": 2501, "N": 1911, "P": 855, "S": 8514, "Z": 19,
	} {
		set, ok := Category(name)
		require.True(t, ok, name)
		require.Equal(t, count, size(set), name)
	}
	for _, name := range []string{"", "X", "Lx", "Luu", "l"} {
		_, ok := Category(name)
		require.False(t, ok, name)
	}
}

// What Go's older tables know has kept its category, with these exceptions.
func TestCategory_AgreesWithGoOnOlderCharacters(t *testing.T) {
	changed := map[rune]string{}
	for name, table := range unicode.Categories {
		set, ok := Category(name)
		if !ok || len(name) != 2 || name == "Cn" || name == "LC" {
			continue
		}
		eachRune(table, func(r rune) {
			if !set.Contains(r) {
				changed[r] = name
			}
		})
	}
	require.LessOrEqual(t, len(changed), 5)
	require.Equal(t, map[rune]string{0x1171E: "Mn"}, changed)
}

func TestScript_FindsNamesLoosely(t *testing.T) {
	han, ok := Script("Han")
	require.True(t, ok)
	require.True(t, han.Contains('你'))
	require.False(t, han.Contains('か'))
	same, ok := Script("old south-ARABIAN")
	require.True(t, ok)
	require.True(t, same.Contains(0x10A60))
	_, ok = Script("Klingon")
	require.False(t, ok)
}

func TestVersions_DifferWhereTheLibraryDoes(t *testing.T) {
	for name, test := range map[string]struct {
		set     Set
		in, out []rune
	}{
		"letters of 16":      {category("L"), []rune{'a', 0x1C89, 0xA7CB, 0x105C9, 0x10D4A}, []rune{'1', 0x16EA0}},
		"words of 16":        {Word(), []rune{'_', 'é', '१', 0x0301, 0x200D, 0x897}, []rune{'-', '²', 0x11DE0, 0x16EA0}},
		"numbers of 17":      {Number(), []rune{'0', '½', 'Ⅷ', 0x11DE0}, []rune{'a'}},
		"marks of 9":         {Mark9(), []rune{0x0301, 0x0903, 0x8D4, 0x1CF2}, []rune{'a', 0x897, 0x1DFA}},
		"assigned in 9":      {Assigned9(), []rune{'a', 0x1F574, 0x1E922}, []rune{0x560, 0x1F996, 0x105C9}},
		"punctuation of 8":   {Punctuation8(), []rune{'!', '«', 0x166D}, []rune{'$', 0x61D, 0x2E43}},
		"accents of 8":       {Nonspacing8(), []rune{0x0301, 0x1734}, []rune{0x0903, 0x8D4}},
		"control chars of 8": {Other8(), []rune{0, '\n', 0xAD, 0xE000, 0x200B}, []rune{'a', 0x8E2, 0x890, 0x378}},
		"white space":        {WhiteSpace(), []rune{' ', '\v', 0x85, 0xA0, 0x2028, 0x3000}, []rune{0x200B, 0xFEFF}},
		"full case folding":  {Expanding(), []rune{'ß', 'ŉ', 'ﬃ', 'ᾳ', 'İ'}, []rune{'s', 'S'}},
	} {
		for _, r := range test.in {
			require.True(t, test.set.Contains(r), "%s: %U", name, r)
		}
		for _, r := range test.out {
			require.False(t, test.set.Contains(r), "%s: %U", name, r)
		}
	}
}

func TestToLower_IsThatOfUnicode17(t *testing.T) {
	for from, to := range map[rune]rune{'A': 'a', 'z': 'z', 'É': 'é', 'İ': 'i', 'ẞ': 'ß', 'Ω': 'ω', 'Ა': 'ა', 'Ꭰ': 'ꭰ', 0x1C89: 0x1C8A, 0xA7CE: 0xA7CF, 0x16EA0: 0x16EBB, 'ſ': 'ſ'} {
		require.Equal(t, string(to), string(ToLower(from)), "%U", from)
	}
	for r := range rune(End) {
		if lower := unicode.ToLower(r); lower != r && r != 'İ' {
			require.Equal(t, lower, ToLower(r), "%U", r)
		}
	}
}

func TestFold_JoinsWhatDiffersInCase(t *testing.T) {
	require.Equal(t, 's', Fold('ſ'))
	require.Equal(t, 'k', Fold('\u212A'))
	require.Equal(t, 'ß', Fold('ẞ'))
	require.Equal(t, 'é', Fold('É'))
	require.Equal(t, '1', Fold('1'))
	require.ElementsMatch(t, []rune{'S', 'ſ'}, Unfold('s'))
	require.ElementsMatch(t, []rune{'K', '\u212A'}, Unfold('k'))
	require.True(t, EndsWithExpansion("xss"))
	require.True(t, EndsWithExpansion("ffi"))
	require.False(t, EndsWithExpansion("'s"))
	require.False(t, EndsWithExpansion("'ll"))
	// Go's older orbits are the same.
	for r := range rune(End) {
		if next := unicode.SimpleFold(r); next != r {
			require.Equal(t, Fold(next), Fold(r), "%U", r)
		}
	}
}

func TestSet_AlgebraIsThatOfSets(t *testing.T) {
	a, b := Union(Range('a', 'm'), Range('x', 'z')), Union(Range('k', 'y'), Range(0, 0), Range(unicode.MaxRune, unicode.MaxRune))
	either, both, none := Union(a, b), Intersect(a, b), Union(a, b).Negate()
	for r := range rune(End) {
		inA, inB := r >= 'a' && r <= 'm' || r >= 'x' && r <= 'z', r >= 'k' && r <= 'y' || r == 0 || r == unicode.MaxRune
		if either.Contains(r) != (inA || inB) || both.Contains(r) != (inA && inB) || none.Contains(r) == (inA || inB) {
			t.Fatalf("%U", r)
		}
	}
	require.Equal(t, Set(nil), Union())
	require.Empty(t, Range(0, unicode.MaxRune).Negate())
	require.Equal(t, Set{0, End}, Set{}.Negate())
	require.Equal(t, a, a.Negate().Negate())
}

func TestGrapheme_EndsWhereTheRulesSay(t *testing.T) {
	for _, clusters := range [][]string{
		{"a", "b", " ", "\n"},
		{"\r\n", "\n", "\r", "a"},
		{"e\u0301", "x"},
		{"\n", "\u0301", "a"},                      // no mark joins a control character
		{"각", "\u1100\u1161\u11A8", "\u1100", "a"}, // Hangul
		{"🇩🇪", "🇫🇷", "🇩", "a"},                     // flags
		{"👨‍👩‍👧", "❤️", "👍🏽"},                      // emoji sequences
		{"a\u200d", "👩"},                           // no emoji before the joiner
		{"क्षि", "क", "क्"},                        // a conjunct
		{"क्\u0301ष"},                              // with a mark in it
		{"\u0600a", "\u0903"},                      // prepended, spacing mark after a break
		{"1️⃣", "①\u0308"},
	} {
		text := strings.Join(clusters, "")
		var got []string
		for text != "" {
			n := Grapheme(text)
			got = append(got, text[:n])
			text = text[n:]
		}
		if clusters[0] == "\u0600a" {
			clusters = []string{"\u0600a\u0903"}
		}
		require.Equal(t, clusters, got)
	}
}

// The tables change only when generate.mjs is run for other versions.
func TestTables_AreThoseThatWereCompared(t *testing.T) {
	h := sha256.New()
	for _, table := range []string{
		categories16, scripts16, alphabetic16, lowercase16, uppercase16, folds16, expanding16, expansions16, numbers17, lower17,
		breaks17, pictographic17, conjuncts17, consonants17, linkers17, assigned9, marks9, punctuation8, formats8, nonspacing8,
	} {
		h.Write(unpack(table))
	}
	require.Equal(t, "70cb39d258fbdadc8ed2494bb0d5db47d53d4fce1789fb97a6992e02cdc67dcb", hex.EncodeToString(h.Sum(nil)))
	linkers := set(linkers17)()
	require.Equal(t, 20, size(linkers))
	require.True(t, slices.IsSorted(linkers))
}

func eachRune(table *unicode.RangeTable, do func(rune)) {
	for _, x := range table.R16 {
		for r := rune(x.Lo); r <= rune(x.Hi); r += rune(x.Stride) {
			do(r)
		}
	}
	for _, x := range table.R32 {
		for r := rune(x.Lo); r <= rune(x.Hi); r += rune(x.Stride) {
			do(r)
		}
	}
}

func size(s Set) int {
	n := 0
	for i := 0; i < len(s); i += 2 {
		n += int(s[i+1] - s[i])
	}
	return n
}
