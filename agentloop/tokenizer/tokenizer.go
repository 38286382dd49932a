package tokenizer

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"unicode/utf8"
)

// Tokenizer encodes and decodes. It is safe for concurrent use.
type Tokenizer struct {
	added          *addedVocabulary
	normalize      normalizer // nil changes nothing
	pre            []preTokenizer
	model          model
	prefix, suffix []int // what the post-processor puts around one sequence
	decode         decoderChain
	byteLevel      bool // the decoder maps characters to bytes and does nothing else
}

// model turns one pre-tokenized piece into ids.
type model interface {
	encode(ids []int, piece string) ([]int, error)
	token(id int) (string, bool)
	id(token string) (int, bool)
	size() int
}

// Load reads tokenizer.json from the folder of a model.
func Load(dir string) (*Tokenizer, error) {
	path := filepath.Join(dir, "tokenizer.json")
	t, err := LoadFile(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return t, err
	}
	for _, other := range []string{"tiktoken.model", "tokenizer.model", "tekken.json", "vocab.json", "vocab.txt"} {
		if _, statErr := os.Stat(filepath.Join(dir, other)); statErr == nil {
			return nil, fmt.Errorf("%w: the folder has its tokenizer as %s; save it as tokenizer.json first, for example with save_pretrained of a fast tokenizer of Hugging Face's transformers", err, other)
		}
	}
	return nil, err
}

// LoadFile reads one tokenizer.json.
func LoadFile(path string) (*Tokenizer, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("load a tokenizer: %w", err)
	}
	t, err := Parse(data)
	if err != nil {
		return nil, fmt.Errorf("load the tokenizer %s: %w", path, err)
	}
	return t, nil
}

// Encode returns the ids of text. Added tokens such as <|im_end|> are recognised in
// the text. addSpecial puts around them what the post-processor adds to a sequence,
// for example a begin-of-text token; leave it false for text that a chat template
// rendered. Bytes that aren't UTF-8 count as U+FFFD.
//
// The ids of a concatenation are not the concatenation of the ids: a caller that
// extends sampled tokens has to keep those and encode only what follows.
func (t *Tokenizer) Encode(text string, addSpecial bool) ([]int, error) {
	ids := make([]int, 0, len(t.prefix)+len(text)/3+len(t.suffix)+1)
	if addSpecial {
		ids = append(ids, t.prefix...)
	}
	ids, err := t.Append(ids, text)
	if err != nil {
		return nil, err
	}
	if addSpecial {
		ids = append(ids, t.suffix...)
	}
	return ids, nil
}

// Append appends the ids of text to ids, without what a post-processor adds.
func (t *Tokenizer) Append(ids []int, text string) ([]int, error) {
	return t.append(ids, text, false)
}

// EncodeOrdinary is Encode for text that must not be able to name a special token,
// such as what a user or a tool wrote: the characters of one are encoded like any others.
func (t *Tokenizer) EncodeOrdinary(text string) ([]int, error) {
	return t.append(nil, text, true)
}

// Count returns how many ids text has.
func (t *Tokenizer) Count(text string) (int, error) {
	ids, err := t.Append(make([]int, 0, len(text)/3+1), text)
	return len(ids), err
}

func (t *Tokenizer) append(ids []int, text string, ordinary bool) ([]int, error) {
	if !utf8.ValidString(text) {
		text = lossy([]byte(text))
	}
	var failure error
	err := t.added.split(text, t.normalize, ordinary, func(p piece, id int) {
		if failure != nil {
			return
		}
		if id >= 0 {
			ids = append(ids, id)
			return
		}
		ids, failure = t.appendPiece(ids, p, 0)
	})
	if err = cmp.Or(err, failure); err != nil {
		return nil, fmt.Errorf("tokenize: %w", err)
	}
	return ids, nil
}

// appendPiece takes a piece through the pre-tokenizers from number at on.
func (t *Tokenizer) appendPiece(ids []int, p piece, at int) ([]int, error) {
	if p.text == "" {
		return ids, nil
	}
	if at == len(t.pre) {
		return t.model.encode(ids, p.text)
	}
	return t.splitPiece(ids, p, at)
}

// splitPiece is apart from appendPiece, where its variables would be allocated for
// every piece.
func (t *Tokenizer) splitPiece(ids []int, p piece, at int) ([]int, error) {
	var failure error
	err := t.pre[at].split(p, func(q piece) {
		if failure == nil {
			ids, failure = t.appendPiece(ids, q, at+1)
		}
	})
	return ids, cmp.Or(err, failure)
}

// Decode returns the text of ids. skipSpecial leaves special tokens out. Bytes that
// make up no character become U+FFFD. An id that the tokenizer doesn't have is left out.
func (t *Tokenizer) Decode(ids []int, skipSpecial bool) string {
	if t.byteLevel {
		return lossy(t.appendBytes(nil, ids, skipSpecial))
	}
	return t.decode.text(t.tokens(ids, skipSpecial))
}

// DecodeBytes is Decode that keeps the bytes of an incomplete character, where
// the tokenizer works on bytes; else it is the same.
func (t *Tokenizer) DecodeBytes(ids []int, skipSpecial bool) []byte {
	if t.byteLevel {
		return t.appendBytes(nil, ids, skipSpecial)
	}
	return []byte(t.Decode(ids, skipSpecial))
}

func (t *Tokenizer) tokens(ids []int, skipSpecial bool) []string {
	tokens := make([]string, 0, len(ids))
	for _, id := range ids {
		if token, ok := t.Token(id); ok && !(skipSpecial && t.added.special(token)) {
			tokens = append(tokens, token)
		}
	}
	return tokens
}

func (t *Tokenizer) appendBytes(out []byte, ids []int, skipSpecial bool) []byte {
	for _, id := range ids {
		if token, ok := t.Token(id); ok && !(skipSpecial && t.added.special(token)) {
			out = appendMappedBytes(out, token)
		}
	}
	return out
}

// Token returns the text an id stands for in the file, before any decoding.
func (t *Tokenizer) Token(id int) (string, bool) {
	if token, ok := t.added.byID[id]; ok {
		return token.Content, true
	}
	return t.model.token(id)
}

// ID returns the id of a token as it is written in the file.
func (t *Tokenizer) ID(token string) (int, bool) {
	if added, ok := t.added.byContent[token]; ok {
		return added.ID, true
	}
	return t.model.id(token)
}

// IsSpecial tells whether an id is a special token.
func (t *Tokenizer) IsSpecial(id int) bool { return t.added.byID[id].Special }

// SpecialTokens returns the special tokens with their ids, ordered by id.
func (t *Tokenizer) SpecialTokens() []AddedToken {
	var special []AddedToken
	for _, id := range slices.Sorted(maps.Keys(t.added.byID)) {
		if token := t.added.byID[id]; token.Special {
			special = append(special, token)
		}
	}
	return special
}

// VocabSize is the number of different ids, added tokens included.
func (t *Tokenizer) VocabSize() int {
	n := t.model.size()
	for id := range t.added.byID {
		if _, ok := t.model.token(id); !ok {
			n++
		}
	}
	return n
}
