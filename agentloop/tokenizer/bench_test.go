//go:build unix

package tokenizer_test

import (
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/agentloop/tokenizer"
)

// corpus is prose and code with the words of a real text's distribution: the
// documentation and the sources of this repository.
func corpus(b *testing.B) string {
	b.Helper()
	var text strings.Builder
	for _, path := range []string{"../../docs/formats.md", "../../docs/architecture.md", "../../docs/config.md", "tokenizer.go", "bpe.go", "testdata/make_tokenizers.py"} {
		data, err := os.ReadFile(path)
		require.NoError(b, err)
		text.Write(data)
	}
	return text.String()
}

// HERMES_ENV_TOKENIZER names a tokenizer.json to measure instead of the small ones
// that come with the tests.
func tokenizersToMeasure(b *testing.B) map[string]*tokenizer.Tokenizer {
	b.Helper()
	if path := os.Getenv("HERMES_ENV_TOKENIZER"); path != "" {
		tok, err := tokenizer.LoadFile(path)
		require.NoError(b, err)
		return map[string]*tokenizer.Tokenizer{"given": tok}
	}
	toks := map[string]*tokenizer.Tokenizer{}
	for _, name := range []string{"level_llama3", "level_o200k", "level_steps", "piece_prepend", "unigram"} {
		toks[name] = load(b, name)
	}
	return toks
}

// processorTime is what this process has used, which other programs on the machine don't
// change much.
func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var usage syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

func BenchmarkEncode(b *testing.B) {
	text := corpus(b)
	for name, tok := range tokenizersToMeasure(b) {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			var ids []int
			rounds, start := 0, processorTime(b)
			for b.Loop() {
				var err error
				if ids, err = tok.Append(ids[:0], text); err != nil {
					b.Fatal(err)
				}
				rounds++
			}
			b.ReportMetric(float64(rounds*len(text))/1e6/(processorTime(b)-start).Seconds(), "MB/cpu-s")
		})
	}
}

func BenchmarkDecode(b *testing.B) {
	text := corpus(b)
	for name, tok := range tokenizersToMeasure(b) {
		b.Run(name, func(b *testing.B) {
			ids, err := tok.Encode(text, false)
			require.NoError(b, err)
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				tok.Decode(ids, false)
			}
		})
		b.Run(name+"/streamed", func(b *testing.B) {
			ids, err := tok.Encode(text, false)
			require.NoError(b, err)
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				streamed(tok, ids, false)
			}
		})
	}
}

func BenchmarkLoad(b *testing.B) {
	path := os.Getenv("HERMES_ENV_TOKENIZER")
	if path == "" {
		path = "testdata/level_llama3.json"
	}
	data, err := os.ReadFile(path)
	require.NoError(b, err)
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		if _, err := tokenizer.Parse(data); err != nil {
			b.Fatal(err)
		}
	}
}
