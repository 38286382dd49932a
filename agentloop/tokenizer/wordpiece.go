package tokenizer

import (
	"encoding/json"
	"fmt"
	"unicode/utf8"
)

// wordPiece takes the longest token at each place of a word; a word that can't be
// made of tokens is unknown as a whole. wordLevel is its case without parts.
type wordPiece struct {
	vocabulary
	unk     int // -1 when the vocabulary lacks it
	unkName string
	prefix  string // of every token of a word but the first
	longest int    // characters of a word; longer ones are unknown
	whole   bool   // only whole words are tokens
}

func parseWordPiece(raw json.RawMessage, wholeWords bool) (*wordPiece, error) {
	name := "WordPiece"
	if wholeWords {
		name = "WordLevel"
	}
	var f struct {
		Vocab   map[string]int `json:"vocab"`
		Unk     string         `json:"unk_token"`
		Prefix  string         `json:"continuing_subword_prefix"`
		Longest *int           `json:"max_input_chars_per_word"`
	}
	if err := json.Unmarshal(raw, &f); err != nil {
		return nil, fmt.Errorf("model %s: %w", name, err)
	}
	v, err := newVocabulary(f.Vocab)
	if err != nil {
		return nil, fmt.Errorf("model %s: %w", name, err)
	}
	m := &wordPiece{vocabulary: v, unk: -1, unkName: f.Unk, prefix: f.Prefix, longest: 100, whole: wholeWords}
	if f.Longest != nil {
		m.longest = *f.Longest
	}
	if id, ok := v.id(f.Unk); ok {
		m.unk = id
	}
	return m, nil
}

// unknown appends the unknown token for a word.
func (m *wordPiece) unknown(ids []int, word string) ([]int, error) {
	if m.unk < 0 {
		return nil, fmt.Errorf("the vocabulary has neither tokens for %.100q nor the unknown token %q", word, m.unkName)
	}
	return append(ids, m.unk), nil
}

func (m *wordPiece) encode(ids []int, word string) ([]int, error) {
	if m.whole {
		if id, ok := m.id(word); ok {
			return append(ids, id), nil
		}
		return m.unknown(ids, word)
	}
	if utf8.RuneCountInString(word) > m.longest {
		return m.unknown(ids, word)
	}
	start := len(ids)
	for at := 0; at < len(word); {
		end, found := len(word), -1
		for end > at {
			part := word[at:end]
			if at > 0 {
				part = m.prefix + part
			}
			if id, ok := m.id(part); ok {
				found = id
				break
			}
			_, n := utf8.DecodeLastRuneInString(word[at:end])
			end -= n
		}
		if found < 0 {
			return m.unknown(ids[:start], word)
		}
		ids = append(ids, found)
		at = end
	}
	return ids, nil
}
