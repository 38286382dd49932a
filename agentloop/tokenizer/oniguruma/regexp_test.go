package oniguruma

import (
	"bufio"
	"encoding/json"
	"os"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// The golden files are what the library itself answers; testdata/reference.cjs says how
// they were made.
func TestRegexp_CutsWhereTheLibraryDoes(t *testing.T) {
	for _, name := range []string{"published", "random"} {
		t.Run(name, func(t *testing.T) {
			f, err := os.Open("testdata/" + name + ".jsonl")
			require.NoError(t, err)
			defer f.Close()
			lines := bufio.NewScanner(f)
			lines.Buffer(nil, 1<<20)
			refused := 0
			for lines.Scan() {
				var golden struct {
					Pattern string
					Texts   []string
					Parts   [][]int
				}
				require.NoError(t, json.Unmarshal(lines.Bytes(), &golden))
				re, err := Compile(golden.Pattern)
				if err != nil && name == "random" {
					require.ErrorContains(t, err, "is not supported")
					refused++
					continue
				}
				require.NoError(t, err)
				for i, text := range golden.Texts {
					require.Equal(t, golden.Parts[i], parts(t, re, text), "%s on %q", golden.Pattern, text)
				}
			}
			require.NoError(t, lines.Err())
			require.Less(t, refused, 30)
		})
	}
}

// parts returns the lengths of the parts of a text; those that no match covers are negative.
func parts(t *testing.T, re *Regexp, text string) []int {
	t.Helper()
	out := []int{}
	done := 0
	require.NoError(t, re.FindAll(text, func(from, to int) {
		if done < from {
			out = append(out, done-from)
		}
		if from < to {
			out = append(out, to-from)
		}
		done = to
	}))
	if done < len(text) {
		out = append(out, done-len(text))
	}
	return out
}

func TestRegexp_FindAllReportsEmptyMatches(t *testing.T) {
	for pattern, want := range map[string][][2]int{
		"a*":        {{0, 0}, {1, 3}, {4, 4}},
		"(?=b)":     {{0, 0}, {3, 3}},
		"":          {{0, 0}, {1, 1}, {2, 2}, {3, 3}, {4, 4}},
		"(?<=a)b|$": {{3, 4}},
		"x":         nil,
	} {
		re, err := Compile(pattern)
		require.NoError(t, err)
		var got [][2]int
		require.NoError(t, re.FindAll("baab", func(from, to int) { got = append(got, [2]int{from, to}) }))
		require.Equal(t, want, got, pattern)
	}
}

func TestRegexp_IgnoresCaseOfAllThatFoldsTogether(t *testing.T) {
	for pattern, texts := range map[string][]string{
		"(?i:'s|'t|'re|'ve|'m|'ll|'d)": {"'s", "'S", "'\u017f", "'Re", "'LL", "'D"},
		"(?i)k":                        {"k", "K", "\u212a"},
		"(?i:[a-z])":                   {"Q", "\u017f", "\u212a"},
		"(?i:σ)":                       {"σ", "Σ", "ς"},
	} {
		re, err := Compile(pattern)
		require.NoError(t, err)
		for _, text := range texts {
			require.Equal(t, []int{len(text)}, parts(t, re, text), "%s on %q", pattern, text)
		}
	}
}

func TestCompile_RefusesWhatItCannotMatchExactly(t *testing.T) {
	for pattern, want := range map[string]string{
		`(a`:                     "missing )",
		`a)`:                     "unmatched )",
		`[a`:                     "without ]",
		`[]`:                     "empty class",
		`[b-a]`:                  "end comes before its start",
		`[a-\d]`:                 "ends with a set",
		`[\d-a]`:                 "starts with a set",
		`[[:letter:]]`:           "unknown class [:letter:]",
		`*a`:                     "without a target",
		`a\`:                     "backslash at the end",
		`\p{Klingon}`:            "property Klingon at byte 0 is not supported",
		`\p{L`:                   "without }",
		`(a)\1`:                  `\1 at byte 3 is not supported`,
		`\X`:                     `\X at byte 0 is not supported`,
		`(?<a>b)\k<a>`:           `\k`,
		`(?~ab)`:                 "the group (?~",
		`(?(a)b)`:                "the group (?(",
		`(?W:\w)`:                "the group (?W",
		`(?{x})`:                 "the group (?{",
		`a{2,1}`:                 "higher number first",
		`a{1001}`:                "more than 1000 times",
		`(?:a?){2}`:              "may be empty more than once",
		`(?=a)*`:                 "repeating a condition",
		`(?i:ß)`:                 "fold to several",
		`(?i:ss)`:                "fold to several",
		`(?i:[ß])`:               "fold to several",
		`\x{zz}`:                 "is not supported",
		`\xE9`:                   "is not a character by itself",
		`\u12`:                   "four digits",
		`(?<=\b)a`:               `\b in a look behind`,
		"\xff":                   "is not UTF-8",
		strings.Repeat("(", 200): "nesting",
		strings.Repeat("((((a{99}b){99}", 1) + "){99})+){99}": "steps",
	} {
		_, err := Compile(pattern)
		require.ErrorContains(t, err, want, pattern)
		require.ErrorContains(t, err, "pattern ")
	}
}

func TestCompile_ReadsTheSpellingsOfTheSyntax(t *testing.T) {
	for pattern, text := range map[string]string{
		`\t\n\r\f\v\a\e`:          "\t\n\r\f\v\a\x1b",
		`\x41\x{1F600}\u00e9\012`: "A\U0001F600é\n",
		`a{,2}b{x`:                "aab{x",
		`[\]\-\\^\x41\n]+`:        "]-\\^A\n",
		`(?x) a b # comment`:      "ab",
		`a(?#comment \) )b`:       "ab",
		`(?m:.)\N\O`:              "\na\n",
		`\R\R`:                    "\r\n\u2028",
		`(?'name'a)(?<other>b)`:   "ab",
		`a(?i)b|c`:                "aC",
		`\p{Latin}\p{^Han}\P{Nd}\p{uppercase letter}`: "aaaA",
		`[[:^digit:]&&[^b]]`:                          "a",
		`]{}-`:                                        "]{}-",
		`[あ-ん&&[^い]]`:                                 "う",
	} {
		re, err := Compile(pattern)
		require.NoError(t, err, pattern)
		require.Equal(t, []int{len(text)}, parts(t, re, text), "%s on %q", pattern, text)
	}
}

// Each takes time in proportion to the text; with its square the test would never end.
func TestRegexp_TakesLongTexts(t *testing.T) {
	const size = 1 << 18
	for _, pattern := range []string{
		`(?i:'s|'t)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`,
		`[\p{Lu}\p{Lo}\p{M}]*[\p{Ll}\p{Lo}\p{M}]+|[\p{Lu}\p{Lo}\p{M}]+[\p{Ll}\p{Lo}\p{M}]*`,
		`\s+$`,
		` {2,}`,
		`\s*[\r\n]+`,
	} {
		re, err := Compile(pattern)
		require.NoError(t, err)
		for _, unit := range []string{"a", "A", " ", "1", "=", "\n", "é", "你", "a ", "\u0301"} {
			text := strings.Repeat(unit, size/len(unit))
			for _, text := range []string{text, text + "x", "x" + text + "\n"} {
				require.NoError(t, re.FindAll(text, func(int, int) {}))
			}
		}
	}
}

func TestRegexp_GivesUpOnEndlessBacktracking(t *testing.T) {
	re, err := Compile(`(?:a|a)*b`)
	require.NoError(t, err)
	re.limit = 1000
	err = re.FindAll(strings.Repeat("a", 64), func(int, int) {})
	require.ErrorContains(t, err, "gave up on a text of 64 bytes")
	require.NoError(t, re.FindAll("aab", func(int, int) {}), "the pattern can be used again")
}

func FuzzRegexp(f *testing.F) {
	for _, name := range []string{"published", "random"} {
		data, err := os.ReadFile("testdata/" + name + ".jsonl")
		require.NoError(f, err)
		for i, line := range strings.Split(strings.TrimSpace(string(data)), "\n") {
			var golden struct {
				Pattern string
				Texts   []string
			}
			require.NoError(f, json.Unmarshal([]byte(line), &golden))
			if name == "published" || i%20 == 0 {
				f.Add(golden.Pattern, golden.Texts[0])
			}
		}
	}
	f.Fuzz(func(t *testing.T, pattern, text string) {
		re, err := Compile(pattern)
		if err != nil || !utf8.ValidString(text) {
			return
		}
		last := -1
		err = re.FindAll(text, func(from, to int) {
			if from < last || to < from || to > len(text) || from == to && from == last && last >= 0 && from != 0 {
				t.Errorf("%q on %q: a match from %d to %d after %d", pattern, text, from, to, last)
			}
			if !utf8.ValidString(text[from:to]) {
				t.Errorf("%q on %q: the match from %d to %d cuts a character", pattern, text, from, to)
			}
			last = to
		})
		if err != nil && !strings.Contains(err.Error(), "gave up") {
			t.Error(err)
		}
	})
}

func BenchmarkFindAll(b *testing.B) {
	data, err := os.ReadFile("../../../docs/architecture.md")
	require.NoError(b, err)
	f, err := os.Open("testdata/published.jsonl")
	require.NoError(b, err)
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var golden struct{ Pattern string }
		require.NoError(b, json.Unmarshal(lines.Bytes(), &golden))
		re, err := Compile(golden.Pattern)
		require.NoError(b, err)
		b.Run(golden.Pattern[:min(len(golden.Pattern), 30)], func(b *testing.B) {
			b.SetBytes(int64(len(data)))
			for b.Loop() {
				if err := re.FindAll(string(data), func(int, int) {}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
