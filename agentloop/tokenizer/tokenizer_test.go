package tokenizer_test

import (
	"bufio"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/agentloop/tokenizer"
)

// Goldens are what the library that defines the format answers; testdata/make_tokenizers.py
// says how they were made.
func TestIDsAndTextAreThoseOfTheLibraryThatDefinesTheFormat(t *testing.T) {
	texts := decodeLines[string](t, "testdata/texts.jsonl")
	files, err := filepath.Glob("testdata/*.json")
	require.NoError(t, err)
	require.Greater(t, len(files), 20)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".json"), func(t *testing.T) {
			tok, err := tokenizer.LoadFile(file)
			require.NoError(t, err)
			golden := decodeLines[struct {
				IDs              []int
				Plain            int
				Decoded, Skipped string
			}](t, strings.TrimSuffix(file, ".json")+".golden.jsonl")
			require.Len(t, golden, len(texts))
			for i, text := range texts {
				want := golden[i]
				ids, err := tok.Encode(text, true)
				require.NoError(t, err)
				require.Equal(t, append([]int{}, want.IDs...), ids, "ids of %q", text)
				n, err := tok.Count(text)
				require.NoError(t, err)
				require.Equal(t, want.Plain, n, "count of %q", text)
				require.Equal(t, want.Decoded, tok.Decode(ids, false), "text of %v", ids)
				require.Equal(t, want.Skipped, tok.Decode(ids, true), "text without special tokens of %v", ids)
				require.Equal(t, want.Decoded, streamed(tok, ids, false), "streamed text of %v", ids)
				require.Equal(t, want.Skipped, streamed(tok, ids, true), "streamed text without special tokens of %v", ids)
			}
		})
	}
}

func streamed(tok *tokenizer.Tokenizer, ids []int, skipSpecial bool) string {
	s := tok.Stream(skipSpecial)
	var b strings.Builder
	for _, id := range ids {
		b.WriteString(s.Next(id))
	}
	b.WriteString(s.Flush())
	return b.String()
}

func TestAStreamNeverEndsWithinACharacter(t *testing.T) {
	tok := load(t, "level_llama3")
	ids, err := tok.Encode("🚀é☃", false)
	require.NoError(t, err)
	require.Greater(t, len(ids), 5)
	s := tok.Stream(false)
	for _, id := range ids {
		part := s.Next(id)
		require.True(t, utf8.ValidString(part))
		require.NotContains(t, part, "\uFFFD")
	}
	require.Empty(t, s.Flush())

	s = tok.Stream(false)
	require.Empty(t, s.Next(ids[0]))
	require.Equal(t, "\uFFFD", s.Flush(), "a character cut short ends as one replacement character")
}

func TestByteLevelTokenizersKeepTheBytesOfACutCharacter(t *testing.T) {
	tok := load(t, "level_llama3")
	ids, err := tok.Encode("😀", false)
	require.NoError(t, err)
	require.Len(t, ids, 1) // trained on
	ids, err = tok.Encode("🚀", false)
	require.NoError(t, err)
	var whole []byte
	for _, id := range ids {
		whole = append(whole, tok.DecodeBytes([]int{id}, false)...)
	}
	require.Equal(t, "🚀", string(whole))
}

func TestOrdinaryTextCanNotNameSpecialTokens(t *testing.T) {
	tok := load(t, "level_llama3")
	end, ok := tok.ID("<|end|>")
	require.True(t, ok)
	require.True(t, tok.IsSpecial(end))
	ids, err := tok.Encode("a<|end|>b", false)
	require.NoError(t, err)
	require.Contains(t, ids, end)
	ids, err = tok.EncodeOrdinary("a<|end|>b<tool_call>")
	require.NoError(t, err)
	require.NotContains(t, ids, end)
	require.Equal(t, "a<|end|>b<tool_call>", tok.Decode(ids, true))
	call, ok := tok.ID("<tool_call>")
	require.True(t, ok)
	require.Contains(t, ids, call, "added tokens that aren't special are ordinary text")
}

func TestTokensAreFoundByTextAndByID(t *testing.T) {
	tok := load(t, "level_llama3")
	id, ok := tok.ID("<|start|>")
	require.True(t, ok)
	token, ok := tok.Token(id)
	require.True(t, ok)
	require.Equal(t, "<|start|>", token)
	_, ok = tok.Token(1 << 30)
	require.False(t, ok)
	_, ok = tok.ID("no such token")
	require.False(t, ok)
	require.Empty(t, tok.Decode([]int{-1, 1 << 30}, false))
	special := tok.SpecialTokens()
	require.Equal(t, "<|start|>", special[0].Content)
	highest := 0
	for i := range 1 << 12 {
		if _, ok := tok.Token(i); ok {
			highest++
		}
	}
	require.Equal(t, highest, tok.VocabSize())
}

func TestBytesThatAreNoTextCountAsReplacementCharacters(t *testing.T) {
	tok := load(t, "level_llama3")
	broken, err := tok.Encode("a\xe2\x82b\xff\xfe", false)
	require.NoError(t, err)
	replaced, err := tok.Encode("a\uFFFDb\uFFFD\uFFFD", false)
	require.NoError(t, err)
	require.Equal(t, replaced, broken)
}

func TestAFileThisVersionCanNotReadExactlyIsRefused(t *testing.T) {
	model := `"model":{"type":"BPE","vocab":{"a":0,"b":1,"ab":2},"merges":["a b"]}`
	tests := map[string]struct{ file, want string }{
		"no JSON":                     {`{`, "not a tokenizer.json"},
		"no model":                    {`{"added_tokens":[]}`, "it has no model"},
		"unknown model":               {`{"model":{"type":"Neural"}}`, `doesn't know the model "Neural"`},
		"unknown normalizer":          {`{"normalizer":{"type":"Rot13"},` + model + `}`, `normalizer "Rot13"`},
		"unknown nested normalizer":   {`{"normalizer":{"type":"Sequence","normalizers":[{"type":"Rot13"}]},` + model + `}`, `normalizer "Rot13"`},
		"rules that are missing":      {`{"normalizer":{"type":"Precompiled"},` + model + `}`, "precompiled_charsmap is missing"},
		"rules cut short":             {`{"normalizer":{"type":"Precompiled","precompiled_charsmap":"AAE="},` + model + `}`, "shorter than its header"},
		"rules without their trie":    {`{"normalizer":{"type":"Precompiled","precompiled_charsmap":"ZAAAAA=="},` + model + `}`, "does not fit"},
		"rules not in base64":         {`{"normalizer":{"type":"Precompiled","precompiled_charsmap":"%"},` + model + `}`, "base64"},
		"unknown pre-tokenizer":       {`{"pre_tokenizer":{"type":"UnicodeScripts"},` + model + `}`, `pre-tokenizer "UnicodeScripts"`},
		"unknown decoder":             {`{"decoder":{"type":"Rot13"},` + model + `}`, `decoder "Rot13"`},
		"unknown post-processor":      {`{"post_processor":{"type":"Magic"},` + model + `}`, `post-processor "Magic"`},
		"unknown behavior":            {`{"pre_tokenizer":{"type":"Split","pattern":{"String":"a"},"behavior":"Swallowed"},` + model + `}`, `behavior "Swallowed"`},
		"pattern that is none":        {`{"pre_tokenizer":{"type":"Split","pattern":{"Regex":"(a"},"behavior":"Isolated"},` + model + `}`, `pattern "(a"`},
		"pattern that calls itself":   {`{"pre_tokenizer":{"type":"Split","pattern":{"Regex":"(?<a>b\\g<a>?)"},"behavior":"Isolated"},` + model + `}`, "is not supported"},
		"pieces without a length":     {`{"pre_tokenizer":{"type":"FixedLength","length":0},` + model + `}`, "length 0"},
		"first behind another":        {`{"normalizer":{"type":"NFC"},"pre_tokenizer":{"type":"Sequence","pretokenizers":[{"type":"Whitespace"},{"type":"Metaspace","replacement":"_","prepend_scheme":"first"}]},` + model + `}`, `prepend_scheme "first"`},
		"dropout":                     {`{"model":{"type":"BPE","dropout":0.1,"vocab":{},"merges":[]}}`, "random"},
		"merge of unknown tokens":     {`{"model":{"type":"BPE","vocab":{"a":0},"merges":["a c"]}}`, "not in the vocabulary"},
		"merge of three":              {`{"model":{"type":"BPE","vocab":{"a":0},"merges":["a a a"]}}`, "is not two tokens"},
		"two tokens with one id":      {`{"model":{"type":"BPE","vocab":{"a":0,"b":0},"merges":[]}}`, "same id"},
		"id out of range":             {`{"model":{"type":"BPE","vocab":{"a":99999999999},"merges":[]}}`, "out of range"},
		"negative id":                 {`{"model":{"type":"BPE","vocab":{"a":-1},"merges":[]}}`, "out of range"},
		"score without a number":      {`{"model":{"type":"Unigram","vocab":[["a","b"]]}}`, "is not a number"},
		"unigram entry without score": {`{"model":{"type":"Unigram","unk_id":0,"vocab":[["a"]]}}`, "entry 0"},
		"unigram unk out of range":    {`{"model":{"type":"Unigram","unk_id":3,"vocab":[["a",0]]}}`, "unk_id 3"},
		"template with two sequences": {`{"post_processor":{"type":"TemplateProcessing","single":[{"Sequence":{"id":"A"}},{"Sequence":{"id":"A"}}],"special_tokens":{}},` + model + `}`, "has 2"},
		"template with a stranger":    {`{"post_processor":{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"x"}},{"Sequence":{"id":"A"}}],"special_tokens":{}},` + model + `}`, `"x" is not among`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := tokenizer.Parse([]byte(test.file))
			require.ErrorContains(t, err, test.want)
		})
	}
	_, err := tokenizer.Load(t.TempDir())
	require.ErrorContains(t, err, "tokenizer.json")
}

func TestEncode_RefusesATextWithoutATokenForIt(t *testing.T) {
	for name, test := range map[string]struct{ model, want string }{
		"Unigram":   {`{"type":"Unigram","vocab":[["a",-1]]}`, `neither "b"`},
		"BPE":       {`{"type":"BPE","unk_token":"?","vocab":{"a":0},"merges":[]}`, `neither 'b' nor the unknown token "?"`},
		"WordLevel": {`{"type":"WordLevel","unk_token":"?","vocab":{"a":0}}`, `neither tokens for "ab" nor the unknown token "?"`},
		"WordPiece": {`{"type":"WordPiece","unk_token":"?","continuing_subword_prefix":"##","vocab":{"a":0}}`, `neither tokens for "ab"`},
	} {
		tok, err := tokenizer.Parse([]byte(`{"model":` + test.model + `}`))
		require.NoError(t, err, "%s: the library too loads it", name)
		ids, err := tok.Encode("a", false)
		require.NoError(t, err)
		require.Equal(t, []int{0}, ids)
		_, err = tok.Encode("ab", false)
		require.ErrorContains(t, err, test.want, name)
	}
}

func TestEncode_TakesNoWordLongerThanTheModelAllows(t *testing.T) {
	tok, err := tokenizer.Parse([]byte(`{"model":{"type":"WordPiece","unk_token":"?","continuing_subword_prefix":"##","max_input_chars_per_word":0,"vocab":{"?":0,"a":1}}}`))
	require.NoError(t, err)
	ids, err := tok.Encode("a", false)
	require.NoError(t, err)
	require.Equal(t, []int{0}, ids)
}

func TestEncode_RefusesATextThatAPatternGivesUpOn(t *testing.T) {
	tok, err := tokenizer.Parse([]byte(`{"pre_tokenizer":{"type":"Split","pattern":{"Regex":"(?:a|a)*b"},"behavior":"Isolated"},"model":{"type":"WordLevel","unk_token":"?","vocab":{"?":0}}}`))
	require.NoError(t, err)
	_, err = tok.Encode(strings.Repeat("a", 100), false)
	require.ErrorContains(t, err, "gave up on a text of 100 bytes")
}

func TestLoad_SaysWhichOtherTokenizerTheFolderHas(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "tiktoken.model"), []byte("x"), 0o644))
	_, err := tokenizer.Load(dir)
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.ErrorContains(t, err, "as tiktoken.model; save it as tokenizer.json first")
}

// What the text of a decoder adds up to may change with every further token.
func TestStream_WaitsForTheEndWhereNothingIsCertain(t *testing.T) {
	tok, err := tokenizer.Parse([]byte(`{"decoder":{"type":"Sequence","decoders":[{"type":"Fuse"},{"type":"Replace","pattern":{"String":"ab"},"content":"-"}]},
		"model":{"type":"WordLevel","unk_token":"?","vocab":{"?":0,"a":1,"b":2}}}`))
	require.NoError(t, err)
	s := tok.Stream(false)
	require.Empty(t, s.Next(1))
	require.Empty(t, s.Next(2))
	require.Equal(t, "-", s.Flush())
}

// The published tokenizer of DeepSeek-V3 has quantifiers as characters of a class.
func TestParse_AcceptsThePatternOfDeepSeekV3(t *testing.T) {
	tok := load(t, "level_deepseek")
	ids, err := tok.Encode("3.14159*+x (你好) the end\n", false)
	require.NoError(t, err)
	require.Equal(t, "3.14159*+x (你好) the end\n", tok.Decode(ids, false))
}

// A line of one repeated character is one piece: its time must not grow with the
// square of its length, which a test of a megabyte would show by never ending.
func TestEncode_TakesLongTexts(t *testing.T) {
	for _, name := range []string{"level_llama3", "level_deepseek", "level_looks", "level_qwen2", "piece_prepend", "piece_first", "unigram", "unigram_compiled", "wordpiece", "suffix"} {
		tok := load(t, name)
		for _, unit := range []string{"ab", " ", "e\u0323\u0301", "\u0301\u0323", "你", "="} {
			long := strings.Repeat(unit, 1<<15)
			ids, err := tok.Encode(long, false)
			require.NoError(t, err)
			if name == "level_llama3" || name == "piece_prepend" {
				require.Equal(t, long, tok.Decode(ids, false), name)
			}
		}
	}
}

func TestOneTokenizerServesManyAtOnce(t *testing.T) {
	tok := load(t, "level_qwen2")
	want, err := tok.Encode("the agent runs the tools it's 1234", false)
	require.NoError(t, err)
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range 200 {
				got, err := tok.Encode("the agent runs the tools it's 1234", false)
				if err != nil || len(got) != len(want) {
					t.Errorf("ids %v, error %v", got, err)
					return
				}
			}
		})
	}
	group.Wait()
}

func TestTheConfigurationBesideTheTokenizerIsRead(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string) {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644))
	}
	c, err := tokenizer.LoadConfig(dir)
	require.NoError(t, err)
	require.Empty(t, c.ChatTemplates)

	write("special_tokens_map.json", `{"bos_token":"<s>","pad_token":{"content":"<pad>"}}`)
	write("tokenizer_config.json", `{"bos_token":{"content":"<b>","lstrip":false},"eos_token":"</s>","unk_token":null,
		"chat_template":[{"name":"default","template":"D"},{"name":"tool_use","template":"T"}],"model_max_length":1e30}`)
	write("generation_config.json", `{"eos_token_id":[2,7]}`)
	c, err = tokenizer.LoadConfig(dir)
	require.NoError(t, err)
	require.Equal(t, tokenizer.Config{
		BOSToken: "<b>", EOSToken: "</s>", PadToken: "<pad>",
		ChatTemplates: map[string]string{"default": "D", "tool_use": "T"}, EOSTokenIDs: []int{2, 7},
	}, c)

	write("chat_template.jinja", "J")
	write("additional_chat_templates/rag.jinja", "R")
	write("generation_config.json", `{"eos_token_id":2}`)
	c, err = tokenizer.LoadConfig(dir)
	require.NoError(t, err)
	require.Equal(t, map[string]string{"default": "J", "tool_use": "T", "rag": "R"}, c.ChatTemplates)
	require.Equal(t, []int{2}, c.EOSTokenIDs)

	for name, broken := range map[string]string{
		"tokenizer_config.json":  `{"bos_token":7}`,
		"generation_config.json": `{"eos_token_id":"x"}`,
		"chat_template.json":     `{"chat_template":3}`,
	} {
		saved, _ := os.ReadFile(filepath.Join(dir, name))
		write(name, broken)
		_, err = tokenizer.LoadConfig(dir)
		require.ErrorContains(t, err, name)
		require.NoError(t, os.Remove(filepath.Join(dir, name)))
		if saved != nil {
			write(name, string(saved))
		}
	}
}

func load(t testing.TB, name string) *tokenizer.Tokenizer {
	t.Helper()
	tok, err := tokenizer.LoadFile(filepath.Join("testdata", name+".json"))
	require.NoError(t, err)
	return tok
}

func decodeLines[T any](t testing.TB, path string) []T {
	t.Helper()
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	var out []T
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var v T
		require.NoError(t, json.Unmarshal(lines.Bytes(), &v))
		out = append(out, v)
	}
	require.NoError(t, lines.Err())
	return out
}
