package tokenizer

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"
)

// bpe is byte-pair encoding: the pair of neighbours that was merged first in
// training is merged first, the leftmost of equal pairs before the others.
type bpe struct {
	vocabulary
	merges       map[uint64]merge
	unk          int    // -1 when there is none
	missingUnk   string // the unknown token, if the vocabulary lacks it
	fuseUnk      bool
	byteFallback bool
	ignoreMerges bool
	prefix       string // of every symbol of a piece but the first
	suffix       string // of the last symbol of a piece
	byteTokens   [256]int

	// fused: pieces are bytes that the vocabulary holds as mapped characters.
	fused   bool
	symbols [256]int       // id of each byte
	whole   map[string]int // id by bytes, for ignoreMerges
	cache   *cache
}

type merge struct {
	rank, id int
}

func pair(left, right int) uint64 { return uint64(left)<<32 | uint64(right) }

type bpeFile struct {
	Dropout      *float64        `json:"dropout"`
	UnkToken     *string         `json:"unk_token"`
	Prefix       *string         `json:"continuing_subword_prefix"`
	Suffix       *string         `json:"end_of_word_suffix"`
	FuseUnk      bool            `json:"fuse_unk"`
	ByteFallback bool            `json:"byte_fallback"`
	IgnoreMerges bool            `json:"ignore_merges"`
	Vocab        map[string]int  `json:"vocab"`
	Merges       json.RawMessage `json:"merges"`
}

func parseBPE(raw json.RawMessage) (*bpe, error) {
	var f bpeFile
	if err := json.Unmarshal(raw, &f); err != nil {
		return nil, fmt.Errorf("model BPE: %w", err)
	}
	if f.Dropout != nil && *f.Dropout > 0 {
		return nil, fmt.Errorf("model BPE: dropout %g would make the ids random", *f.Dropout)
	}
	v, err := newVocabulary(f.Vocab)
	if err != nil {
		return nil, fmt.Errorf("model BPE: %w", err)
	}
	m := &bpe{vocabulary: v, unk: -1, fuseUnk: f.FuseUnk, byteFallback: f.ByteFallback, ignoreMerges: f.IgnoreMerges, cache: newCache()}
	if f.Prefix != nil {
		m.prefix = *f.Prefix
	}
	if f.Suffix != nil {
		m.suffix = *f.Suffix
	}
	if f.UnkToken != nil {
		id, ok := m.id(*f.UnkToken)
		if !ok {
			id, m.missingUnk = -1, *f.UnkToken
		}
		m.unk = id
	}
	m.byteTokens = m.byteFallbackTokens()
	return m, m.readMerges(f.Merges)
}

// readMerges takes both spellings: "a b" and ["a", "b"].
func (m *bpe) readMerges(raw json.RawMessage) error {
	var pairs [][2]string
	if err := json.Unmarshal(raw, &pairs); err != nil {
		var lines []string
		if err := json.Unmarshal(raw, &lines); err != nil {
			return fmt.Errorf("model BPE: merges are neither pairs nor lines: %w", err)
		}
		pairs = make([][2]string, 0, len(lines))
		for i, line := range lines {
			if strings.HasPrefix(line, "#version") {
				continue
			}
			left, right, ok := strings.Cut(line, " ")
			if !ok || strings.Contains(right, " ") {
				return fmt.Errorf("model BPE: merge %d, %q, is not two tokens", i, line)
			}
			pairs = append(pairs, [2]string{left, right})
		}
	}
	m.merges = make(map[uint64]merge, len(pairs))
	for rank, p := range pairs {
		left, okL := m.id(p[0])
		right, okR := m.id(p[1])
		joined, okJ := m.id(p[0] + strings.TrimPrefix(p[1], m.prefix))
		if !okL || !okR || !okJ {
			return fmt.Errorf("model BPE: merge %d of %q and %q names or makes a token that is not in the vocabulary", rank, p[0], p[1])
		}
		m.merges[pair(left, right)] = merge{rank: rank, id: joined}
	}
	return nil
}

// fuse lets the model take bytes instead of the characters they are mapped to. It
// reports whether it can: every byte needs a token.
func (m *bpe) fuse() bool {
	if m.prefix != "" || m.suffix != "" {
		return false
	}
	for b := range 256 {
		id, ok := m.id(bytesAsChars.char[b])
		if !ok {
			return false
		}
		m.symbols[b] = id
	}
	if m.ignoreMerges {
		m.whole = make(map[string]int, len(m.ids))
		for token, id := range m.ids {
			if bytes, ok := unmapBytes(token); ok {
				m.whole[bytes] = id
			}
		}
	}
	m.fused = true
	return true
}

func (m *bpe) encode(ids []int, piece string) ([]int, error) {
	if m.ignoreMerges {
		known := m.ids
		if m.fused {
			known = m.whole
		}
		if id, ok := known[piece]; ok {
			return append(ids, id), nil
		}
	}
	if len(piece) <= maxCachedPiece {
		if cached, ok := m.cache.get(piece); ok {
			return append(ids, cached...), nil
		}
	}
	merged, err := m.merged(piece)
	if err != nil {
		return nil, err
	}
	if len(piece) <= maxCachedPiece {
		m.cache.put(piece, merged)
	}
	return append(ids, merged...), nil
}

func (m *bpe) merged(piece string) ([]int, error) {
	symbols, err := m.split(piece)
	if err != nil {
		return nil, err
	}
	if len(symbols) > longPiece {
		return m.mergeLong(symbols), nil
	}
	return m.mergeShort(symbols), nil
}

// split returns the symbols that merging starts from.
func (m *bpe) split(piece string) ([]int, error) {
	symbols := make([]int, 0, len(piece))
	if m.fused {
		for i := range len(piece) {
			symbols = append(symbols, m.symbols[piece[i]])
		}
		return symbols, nil
	}
	pending := false // an unknown token waits for more of its kind to be fused with
	for i, r := range piece {
		end := i + utf8.RuneLen(r)
		symbol := piece[i:end]
		if i > 0 {
			symbol = m.prefix + symbol
		}
		if end == len(piece) {
			symbol += m.suffix
		}
		if id, ok := m.id(symbol); ok {
			if pending {
				symbols, pending = append(symbols, m.unk), false
			}
			symbols = append(symbols, id)
			continue
		}
		if m.byteFallback {
			if with, ok := appendByteTokens(symbols, symbol, &m.byteTokens); ok {
				symbols = with
				continue
			}
		}
		if m.missingUnk != "" {
			return nil, fmt.Errorf("the vocabulary has neither %q nor the unknown token %q", r, m.missingUnk)
		}
		// Without an unknown token the character is left out.
		if m.unk >= 0 {
			if pending && !m.fuseUnk {
				symbols = append(symbols, m.unk)
			}
			pending = true
		}
	}
	if pending {
		symbols = append(symbols, m.unk)
	}
	return symbols, nil
}
