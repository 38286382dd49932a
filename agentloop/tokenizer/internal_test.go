package tokenizer

import (
	"encoding/base64"
	"math"
	"os"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"golang.org/x/text/unicode/norm"

	"github.com/hermes-env/hermes-env/agentloop/tokenizer/ucd"
)

func TestNormalForm_IsThatOfUnicode9(t *testing.T) {
	for _, test := range []struct {
		text                 string
		nfc, nfd, nfkc, nfkd string
	}{
		{"é", "é", "e\u0301", "é", "e\u0301"},
		{"ﬁ①…", "ﬁ①…", "ﬁ①…", "fi1...", "fi1..."},
		{"각\u1100\u1161\u11A8", "각각", "\u1100\u1161\u11A8\u1100\u1161\u11A8", "각각", "\u1100\u1161\u11A8\u1100\u1161\u11A8"},
		{"\uac00\u11a7", "\uac00\u11a7", "\u1100\u1161\u11a7", "\uac00\u11a7", "\u1100\u1161\u11a7"},
		{"a\u0301\u0323", "\u1ea1\u0301", "a\u0323\u0301", "\u1ea1\u0301", "a\u0323\u0301"},
		{"\u0344", "\u0308\u0301", "\u0308\u0301", "\u0308\u0301", "\u0308\u0301"}, // excluded from composition
		{"\U00011938", "\U00011938", "\U00011938", "\U00011938", "\U00011938"},     // of Unicode 13
		{"\U00011935\U00011930", "\U00011935\U00011930", "\U00011935\U00011930", "\U00011935\U00011930", "\U00011935\U00011930"},
		{"a\u08d3\u0301", "a\u08d3\u0301", "a\u08d3\u0301", "a\u08d3\u0301", "a\u08d3\u0301"}, // a mark of Unicode 11 is like a letter
	} {
		require.Equal(t, test.nfc, nfc.String(test.text), "NFC of %+q", test.text)
		require.Equal(t, test.nfd, nfd.String(test.text), "NFD of %+q", test.text)
		require.Equal(t, test.nfkc, nfkc.String(test.text), "NFKC of %+q", test.text)
		require.Equal(t, test.nfkd, nfkd.String(test.text), "NFKD of %+q", test.text)
	}
}

// golang.org/x/text puts U+034F after 30 marks.
func TestNormalForm_PutsNothingBetweenManyMarks(t *testing.T) {
	many := strings.Repeat("\u0301", 100)
	require.Equal(t, "á"+many[2:], nfc.String("a"+many))
	require.Equal(t, "a"+many, nfd.String("a"+many))
	require.Equal(t, "a"+strings.Repeat("\u0323", 50)+strings.Repeat("\u0301", 50), nfd.String("a"+strings.Repeat("\u0301\u0323", 50)))
}

func FuzzNormalForm(f *testing.F) {
	for _, seed := range []string{"é e\u0301 각 \u1100\u1161\u11A8", "ﬁ①…½", "a\u0301\u0323\u0345\u0344", "\u0f71\u0f72\u0f80\u3099か", "ậ Å ΐ ᾳ", "\U0001D15E\U0001D160\u2126\u212A"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		marks := 0
		for _, r := range text {
			if marks++; !ucd.Mark9().Contains(r) {
				marks = 0
			}
			if !ucd.Assigned9().Contains(r) || marks > 10 {
				return // where the forms may differ
			}
		}
		if !utf8.ValidString(text) {
			return
		}
		require.Equal(t, norm.NFC.String(text), nfc.String(text))
		require.Equal(t, norm.NFD.String(text), nfd.String(text))
		require.Equal(t, norm.NFKC.String(text), nfkc.String(text))
		require.Equal(t, norm.NFKD.String(text), nfkd.String(text))
	})
}

func FuzzCharsmap(f *testing.F) {
	tok, err := os.ReadFile("testdata/unigram_compiled.json")
	require.NoError(f, err)
	_, rest, _ := strings.Cut(string(tok), `"precompiled_charsmap":"`)
	rules, _, _ := strings.Cut(rest, `"`)
	data, err := base64.StdEncoding.DecodeString(rules)
	require.NoError(f, err)
	f.Add(data, "ﬁx… ①②\u0308 e\u0301\u0323 \x01d İ")
	f.Add([]byte{4, 0, 0, 0, 0, 0, 0, 0, 'a', 0}, "a")
	f.Fuzz(func(t *testing.T, data []byte, text string) {
		m, err := parseCharsmap(base64.StdEncoding.EncodeToString(data))
		if err == nil && utf8.ValidString(text) {
			m.normalize(text)
		}
	})
}

// Cutting a long text where no token could join its parts changes none of its ids.
func FuzzBPE_CutsLongTextsWithoutAChange(f *testing.F) {
	var models []*bpe
	for _, name := range []string{"piece_prepend", "piece_unknown", "level_llama3"} {
		data, err := os.ReadFile("testdata/" + name + ".json")
		require.NoError(f, err)
		tok, err := Parse(data)
		require.NoError(f, err)
		models = append(models, tok.model.(*bpe))
	}
	require.NotNil(f, models[0].joints)
	f.Add("▁the▁agent▁runs▁the▁tools▁it's▁你好世界▁and▁▁▁▁▁a▁very▁long▁word:▁agentagentagentagentagentagentagent")
	f.Add(strings.Repeat("▁ab😀", 30))
	f.Add(strings.Repeat("<0x41>", 30))
	f.Fuzz(func(t *testing.T, text string) {
		if !utf8.ValidString(text) {
			return
		}
		for _, m := range models {
			got, err := m.encode(nil, text)
			require.NoError(t, err)
			want, err := m.encodeWhole(nil, text)
			require.NoError(t, err)
			require.Equal(t, want, got)
		}
	})
}

func TestParseScore_RoundsAsTheLibraryDoes(t *testing.T) {
	for text, want := range map[string]float64{
		"0":                         0,
		"-12":                       -12,
		"-3.4657509326934814":       -3.4657509326934814,
		"-7.00000000000000049":      -7, // the nearest number is -7.000000000000001
		"-6.99999999999999937":      -7,
		"1.5e3":                     1500,
		"1.5E-3":                    0.0015,
		"123456789012345678901":     123456789012345678901,
		"0.12345678901234567890123": 0.1234567890123456789,
		"1e-320":                    1e-320,
	} {
		got, ok := parseScore(text)
		require.True(t, ok, text)
		require.InDelta(t, want, got, math.Abs(want)*1e-15, text)
		if strings.HasPrefix(text, "-") {
			require.Equal(t, want, got, text)
		}
	}
	for _, text := range []string{"", "x", `"1"`, "null", "0x10", "1_0", "Inf", "nan", "01", "1e999"} {
		_, ok := parseScore(text)
		require.False(t, ok, text)
	}
}
