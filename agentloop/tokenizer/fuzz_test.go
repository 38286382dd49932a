package tokenizer_test

import (
	"os"
	"path/filepath"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/agentloop/tokenizer"
)

func FuzzParse(f *testing.F) {
	files, err := filepath.Glob("testdata/*.json")
	require.NoError(f, err)
	for _, file := range files {
		data, err := os.ReadFile(file)
		require.NoError(f, err)
		f.Add(data)
	}
	f.Fuzz(func(_ *testing.T, data []byte) {
		tok, err := tokenizer.Parse(data)
		if err != nil {
			return
		}
		ids, err := tok.Encode("the agent's 12 naïve <|end|> 你好\n", true)
		if err == nil {
			tok.Decode(ids, false)
			streamed(tok, ids, true)
		}
	})
}

func FuzzByteLevelTextComesBack(f *testing.F) {
	var toks []*tokenizer.Tokenizer
	for _, name := range []string{"level_llama3", "level_o200k", "level_tekken", "level_han", "level_steps"} {
		toks = append(toks, load(f, name))
	}
	f.Add("the agent's 12 naïve <|end|> 你好\n \r\n")
	f.Add("ǅʰÉ\u0301x'ſ\u00a0")
	f.Fuzz(func(t *testing.T, text string) {
		if !utf8.ValidString(text) {
			return
		}
		for _, tok := range toks {
			ids, err := tok.EncodeOrdinary(text)
			require.NoError(t, err)
			require.Equal(t, text, tok.Decode(ids, false))
			require.Equal(t, text, streamed(tok, ids, false))
		}
	})
}
