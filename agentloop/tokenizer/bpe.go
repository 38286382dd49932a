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
	merges       *mergeTable
	unk          int    // -1 when there is none
	missingUnk   string // the unknown token, if the vocabulary lacks it
	fuseUnk      bool
	byteFallback bool
	ignoreMerges bool
	prefix       string // of every symbol of a piece but the first
	suffix       string // of the last symbol of a piece
	byteTokens   [256]int
	runes        *runeTable // ids of the tokens of one character
	joints       *joints    // nil if long pieces can't be cut

	// fused: pieces are bytes that the vocabulary holds as mapped characters.
	fused   bool
	symbols [256]int32     // id of each byte
	whole   map[string]int // id by bytes, for ignoreMerges
	cache   *cache
}

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
	m := &bpe{vocabulary: v, unk: -1, fuseUnk: f.FuseUnk, byteFallback: f.ByteFallback, ignoreMerges: f.IgnoreMerges, runes: newRuneTable(v.ids), cache: newCache()}
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
	m.merges = newMergeTable(len(pairs))
	for rank, p := range pairs {
		left, okL := m.id(p[0])
		right, okR := m.id(p[1])
		joined, okJ := m.id(p[0] + strings.TrimPrefix(p[1], m.prefix))
		if !okL || !okR || !okJ {
			return fmt.Errorf("model BPE: merge %d of %q and %q names or makes a token that is not in the vocabulary", rank, p[0], p[1])
		}
		m.merges.put(int32(left), int32(right), merge{rank: int32(rank), id: int32(joined)})
	}
	if m.prefix == "" && m.suffix == "" {
		m.joints = newJoints(m, pairs)
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
		m.symbols[b] = int32(id)
	}
	if m.ignoreMerges {
		m.whole = make(map[string]int, len(m.ids))
		for token, id := range m.ids {
			if bytes, ok := unmapBytes(token); ok {
				m.whole[bytes] = id
			}
		}
	}
	m.fused, m.joints = true, nil
	return true
}

func (m *bpe) encode(ids []int, piece string) ([]int, error) {
	if len(piece) <= maxCachedPiece {
		slot := m.cache.slot(piece)
		if found := slot.get(piece); found != nil {
			return append(ids, found...), nil
		}
		return slot.fill(ids, piece, m.encodeWhole)
	}
	if id, ok := m.wholeToken(piece); ok {
		return append(ids, id), nil
	}
	if m.joints == nil || m.joints.cut(piece) == len(piece) {
		return m.encodePart(ids, piece)
	}
	var err error
	for piece != "" && err == nil {
		n := m.joints.cut(piece)
		if m.ignoreMerges { // the cache has whole pieces
			ids, err = m.encodePart(ids, piece[:n])
		} else {
			ids, err = m.encode(ids, piece[:n])
		}
		piece = piece[n:]
	}
	return ids, err
}

// wholeToken returns the token that a piece is without any merges.
func (m *bpe) wholeToken(piece string) (int, bool) {
	if !m.ignoreMerges {
		return 0, false
	}
	known := m.ids
	if m.fused {
		known = m.whole
	}
	id, ok := known[piece]
	return id, ok
}

// encodeWhole encodes a piece.
func (m *bpe) encodeWhole(ids []int, piece string) ([]int, error) {
	if id, ok := m.wholeToken(piece); ok {
		return append(ids, id), nil
	}
	return m.encodePart(ids, piece)
}

// encodePart encodes what is merged by itself: a piece or a part of a long one.
func (m *bpe) encodePart(ids []int, part string) ([]int, error) {
	merged, err := m.merged(part)
	for _, id := range merged {
		ids = append(ids, int(id))
	}
	return ids, err
}

func (m *bpe) merged(part string) ([]int32, error) {
	symbols, err := m.split(part)
	if err != nil {
		return nil, err
	}
	if len(symbols) > longPiece {
		return m.merges.applyLong(symbols), nil
	}
	return m.merges.applyShort(symbols), nil
}

// split returns the symbols that merging starts from.
func (m *bpe) split(piece string) ([]int32, error) {
	symbols := make([]int32, 0, len(piece))
	if m.fused {
		for i := range len(piece) {
			symbols = append(symbols, m.symbols[piece[i]])
		}
		return symbols, nil
	}
	pending := false // an unknown token waits for more of its kind to be fused with
	for i, r := range piece {
		end := i + utf8.RuneLen(r)
		id, ok := m.symbol(r, i == 0, end == len(piece))
		if ok {
			if pending {
				symbols, pending = append(symbols, int32(m.unk)), false
			}
			symbols = append(symbols, int32(id))
			continue
		}
		if m.byteFallback {
			if with, ok := m.appendBytes(symbols, r, i == 0, end == len(piece)); ok {
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
				symbols = append(symbols, int32(m.unk))
			}
			pending = true
		}
	}
	if pending {
		symbols = append(symbols, int32(m.unk))
	}
	return symbols, nil
}

// symbol returns the id of a character at its place in a piece.
func (m *bpe) symbol(r rune, first, last bool) (int, bool) {
	if m.prefix == "" && m.suffix == "" {
		return m.runes.id(r)
	}
	return m.id(m.affixed(r, first, last))
}

func (m *bpe) affixed(r rune, first, last bool) string {
	symbol := string(r)
	if !first {
		symbol = m.prefix + symbol
	}
	if last {
		symbol += m.suffix
	}
	return symbol
}

func (m *bpe) appendBytes(symbols []int32, r rune, first, last bool) ([]int32, bool) {
	start := len(symbols)
	symbol := m.affixed(r, first, last)
	for i := range len(symbol) {
		id := m.byteTokens[symbol[i]]
		if id < 0 {
			return symbols[:start], false
		}
		symbols = append(symbols, int32(id))
	}
	return symbols, true
}

// joints holds the pairs of characters that are neighbours within some token. Every
// merge joins the last character of its left side with the first one of its right side,
// so a piece can be cut between any other two without a change to its ids. That turns a
// whole text into words, most of which are in the cache.
type joints struct {
	ascii  [utf8.RuneSelf][utf8.RuneSelf]bool
	others map[uint64]struct{}
	known  *runeTable // if not nil, only characters that have tokens can be cut from each other
}

// newJoints returns nil when tokens that are not made of characters take part in merges.
func newJoints(m *bpe, pairs [][2]string) *joints {
	apart := map[string]bool{}
	complete := m.byteFallback
	for b, id := range m.byteTokens {
		if id >= 0 {
			apart[m.tokens[id]] = true
		}
		complete = complete && m.byteTokens[b] >= 0
	}
	if m.unk >= 0 {
		apart[m.tokens[m.unk]] = true
	}
	j := &joints{others: map[uint64]struct{}{}}
	if !complete {
		j.known = m.runes // unknown characters are fused with each other
	}
	for _, p := range pairs {
		if apart[p[0]] || apart[p[1]] {
			return nil
		}
		a, _ := utf8.DecodeLastRuneInString(p[0])
		b, _ := utf8.DecodeRuneInString(p[1])
		if a < utf8.RuneSelf && b < utf8.RuneSelf {
			j.ascii[a][b] = true
		} else {
			j.others[uint64(a)<<32|uint64(b)] = struct{}{}
		}
	}
	return j
}

// cut returns the length of the first part of a piece that nothing joins with the rest.
func (j *joints) cut(piece string) int {
	before, at := utf8.DecodeRuneInString(piece)
	for at < len(piece) {
		r, width := rune(piece[at]), 1
		if r >= utf8.RuneSelf {
			r, width = utf8.DecodeRuneInString(piece[at:])
		}
		if !j.joined(before, r) {
			return at
		}
		before, at = r, at+width
	}
	return at
}

func (j *joints) joined(a, b rune) bool {
	if a < utf8.RuneSelf && b < utf8.RuneSelf {
		if j.ascii[a][b] {
			return true
		}
	} else if _, ok := j.others[uint64(a)<<32|uint64(b)]; ok {
		return true
	}
	if j.known == nil {
		return false
	}
	_, knownA := j.known.id(a)
	_, knownB := j.known.id(b)
	return !knownA || !knownB
}
