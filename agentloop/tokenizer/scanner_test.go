package tokenizer

import (
	"testing"

	"github.com/dlclark/regexp2"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// The scanners written by hand cut exactly where the patterns do.
func TestScannersCutWhereTheirPatternsDo(t *testing.T) {
	alphabet := []rune("aAbBéÉǅʰא你\u0301'sStTrReEvVlLmMdDſ019½Ⅷ .,/!_-\n\r\t\u00a0\u3000\u200b😀𝐀𐐨\x00")
	for name, pattern := range map[string]string{"gpt2": patternGPT2, "llama3": patternLlama3, "qwen2": patternQwen2, "o200k": patternO200k, "tekken": patternTekken} {
		t.Run(name, func(t *testing.T) {
			scan := knownScanner(pattern)
			re := regexp2.MustCompile(pattern, regexp2.Unicode)
			rapid.Check(t, func(t *rapid.T) {
				text := rapid.StringOfN(rapid.SampledFrom(alphabet), 1, 24, -1).Draw(t, "text")
				var got, want []string
				for rest := text; rest != ""; {
					n := scan(rest)
					got = append(got, rest[:n])
					rest = rest[n:]
				}
				for m, err := re.FindStringMatch(text); m != nil; m, err = re.FindNextMatch(m) {
					if err != nil {
						t.Fatal(err)
					}
					want = append(want, m.String())
				}
				require.Equal(t, want, got)
			})
		})
	}
}
