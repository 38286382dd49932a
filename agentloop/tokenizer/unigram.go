package tokenizer

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// unkPenalty is how much less likely than the least likely token an unknown
// character is, as in SentencePiece.
const unkPenalty = 10.0

// unigram chooses the tokens whose probabilities have the highest product.
type unigram struct {
	vocabulary
	scores       []float64
	lowest       float64
	unk          int // -1 when there is none
	byteFallback bool
	byteTokens   [256]int
	trie         *byteTrie
	entries      int // of the file, those that others replace included
	cache        *cache
}

func (m *unigram) size() int { return m.entries }

func parseUnigram(raw json.RawMessage) (*unigram, error) {
	var f struct {
		UnkID        *int                `json:"unk_id"`
		Vocab        [][]json.RawMessage `json:"vocab"`
		ByteFallback bool                `json:"byte_fallback"`
	}
	if err := json.Unmarshal(raw, &f); err != nil {
		return nil, fmt.Errorf("model Unigram: %w", err)
	}
	m := &unigram{unk: -1, byteFallback: f.ByteFallback, lowest: math.Inf(1), entries: len(f.Vocab), cache: newCache()}
	ids := make(map[string]int, len(f.Vocab))
	for id, entry := range f.Vocab {
		var token string
		if len(entry) != 2 || json.Unmarshal(entry[0], &token) != nil {
			return nil, fmt.Errorf("model Unigram: entry %d of the vocabulary is not a token and its score", id)
		}
		score, ok := parseScore(string(entry[1]))
		if !ok {
			return nil, fmt.Errorf("model Unigram: the score %.40q of token %q is not a number", entry[1], token)
		}
		ids[token] = id // the last of equal tokens
		m.scores = append(m.scores, score)
		m.lowest = min(m.lowest, score)
	}
	m.trie = newByteTrie(ids)
	v, err := newVocabulary(ids)
	if err != nil {
		return nil, fmt.Errorf("model Unigram: %w", err)
	}
	m.vocabulary = v
	m.byteTokens = m.byteFallbackTokens()
	if f.UnkID != nil {
		if *f.UnkID < 0 || *f.UnkID >= len(f.Vocab) {
			return nil, fmt.Errorf("model Unigram: unk_id %d is not in the vocabulary of %d tokens", *f.UnkID, len(f.Vocab))
		}
		m.unk = *f.UnkID
	}
	return m, nil
}

// parseScore reads a JSON number as the library does, with an error of up to one unit in
// the last place: the digits as an integer, then one multiplication or division. Texts
// with several equally likely ways to cut them depend on it.
func parseScore(text string) (float64, bool) {
	if exact, err := strconv.ParseFloat(text, 64); err != nil || !json.Valid([]byte(text)) {
		return exact, false
	}
	digits, negative := strings.CutPrefix(text, "-")
	digits, exponentText, _ := strings.Cut(strings.ToLower(digits), "e")
	exponent, _ := strconv.Atoi(exponentText)
	whole, fraction, _ := strings.Cut(digits, ".")
	significand, full := uint64(0), false
	for i, c := range whole + fraction {
		digit := uint64(c - '0')
		full = full || significand > (math.MaxUint64-digit)/10
		switch {
		case full && i < len(whole): // a digit that doesn't fit counts as zero
			exponent++
		case !full:
			significand = significand*10 + digit
			if i >= len(whole) {
				exponent--
			}
		}
	}
	score := float64(significand)
	for ; exponent < -308 && score != 0; exponent += 308 {
		score /= 1e308
	}
	power, _ := strconv.ParseFloat("1e"+strconv.Itoa(max(exponent, -exponent)), 64)
	if exponent < 0 {
		score /= power
	} else {
		score *= power
	}
	if negative {
		score = -score
	}
	return score, true
}

// step is the best way to reach a place in the text.
type step struct {
	from  int // where its last token starts; -1: not reached
	score float64
	id    int // of that token; -1: an unknown character
}

func (m *unigram) encode(ids []int, piece string) ([]int, error) {
	if len(piece) > maxCachedPiece {
		return m.best(ids, piece)
	}
	slot := m.cache.slot(piece)
	if found := slot.get(piece); found != nil {
		return append(ids, found...), nil
	}
	return slot.fill(ids, piece, m.best)
}

// best is the Viterbi algorithm; neighbouring unknown characters become one token.
func (m *unigram) best(ids []int, piece string) ([]int, error) {
	best := make([]step, len(piece)+1)
	for i := range best {
		best[i].from = -1
	}
	reach := func(to int, s step) {
		if best[to].from < 0 || s.score > best[to].score {
			best[to] = s
		}
	}
	for at := 0; at < len(piece); {
		_, width := utf8.DecodeRuneInString(piece[at:])
		single := false
		for end, node := at, int32(0); end < len(piece); {
			var ok bool
			if node, ok = m.trie.next(node, piece[end]); !ok {
				break
			}
			end++
			if id := m.trie.ids[node]; id >= 0 {
				reach(end, step{from: at, score: best[at].score + m.scores[id], id: int(id)})
				single = single || end-at == width
			}
		}
		if !single {
			reach(at+width, step{from: at, score: best[at].score + m.lowest - unkPenalty, id: m.unk})
		}
		at += width
	}
	var parts []span // from the end; match marks unknown characters
	for end := len(piece); end > 0; end = best[end].from {
		s := best[end]
		unknown := s.id == m.unk
		if last := len(parts) - 1; unknown && last >= 0 && parts[last].match {
			parts[last].from = s.from
			continue
		}
		parts = append(parts, span{from: s.from, to: end, match: unknown})
	}
	for i := len(parts) - 1; i >= 0; i-- {
		token := piece[parts[i].from:parts[i].to]
		if id, ok := m.id(token); ok {
			ids = append(ids, id)
			continue
		}
		if m.byteFallback {
			if with, ok := appendByteTokens(ids, token, &m.byteTokens); ok {
				ids = with
				continue
			}
		}
		if m.unk < 0 {
			return nil, fmt.Errorf("the vocabulary has neither %q nor a token for what is unknown", token)
		}
		ids = append(ids, m.unk)
	}
	return ids, nil
}
