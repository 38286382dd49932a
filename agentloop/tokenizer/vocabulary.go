package tokenizer

import (
	"fmt"
	"hash/maphash"
	"strings"
	"sync/atomic"
	"unicode/utf8"
)

// maxID bounds the ids of a file, which index tables.
const maxID = 1 << 22

// vocabulary holds tokens as the file writes them.
type vocabulary struct {
	ids    map[string]int
	tokens []string
	known  []bool
}

func newVocabulary(ids map[string]int) (vocabulary, error) {
	v := vocabulary{ids: ids}
	top := -1
	for token, id := range ids {
		if id < 0 || id > maxID {
			return v, fmt.Errorf("token %q has the id %d, which is out of range", token, id)
		}
		top = max(top, id)
	}
	v.tokens, v.known = make([]string, top+1), make([]bool, top+1)
	for token, id := range ids {
		if v.known[id] {
			return v, fmt.Errorf("tokens %q and %q have the same id %d", v.tokens[id], token, id)
		}
		v.tokens[id], v.known[id] = token, true
	}
	return v, nil
}

func (v *vocabulary) size() int { return len(v.ids) }

func (v *vocabulary) id(token string) (int, bool) {
	id, ok := v.ids[token]
	return id, ok
}

func (v *vocabulary) token(id int) (string, bool) {
	if id < 0 || id >= len(v.tokens) || !v.known[id] {
		return "", false
	}
	return v.tokens[id], true
}

// byteFallbackTokens returns the ids of <0x00> to <0xFF>, -1 for those missing.
func (v *vocabulary) byteFallbackTokens() [256]int {
	var ids [256]int
	for b := range ids {
		ids[b] = -1
		if id, ok := v.id(fmt.Sprintf("<0x%02X>", b)); ok {
			ids[b] = id
		}
	}
	return ids
}

// appendByteTokens appends one token for each byte of s; ok is false, and nothing
// appended, when one is missing.
func appendByteTokens(ids []int, s string, tokens *[256]int) ([]int, bool) {
	start := len(ids)
	for i := range len(s) {
		id := tokens[s[i]]
		if id < 0 {
			return ids[:start], false
		}
		ids = append(ids, id)
	}
	return ids, true
}

// runeTable holds the ids of the tokens that are one character.
type runeTable struct {
	low  [0x800]int32 // 0: none, else the id + 1
	high map[rune]int32
}

func newRuneTable(ids map[string]int) *runeTable {
	t := &runeTable{high: map[rune]int32{}}
	for token, id := range ids {
		r, n := utf8.DecodeRuneInString(token)
		switch {
		case n == 0 || n != len(token) || r == utf8.RuneError && n == 1:
		case int(r) < len(t.low):
			t.low[r] = int32(id) + 1
		default:
			t.high[r] = int32(id) + 1
		}
	}
	return t
}

func (t *runeTable) id(r rune) (int, bool) {
	if int(r) < len(t.low) {
		return int(t.low[r]) - 1, t.low[r] > 0
	}
	id := t.high[r]
	return int(id) - 1, id > 0
}

// byteTrie finds the tokens that begin at a place. Its edges are a hash table, a step
// one or two memory accesses.
type byteTrie struct {
	ids   []int32 // by node: the token that ends there, or -1
	edges []trieEdge
	shift uint
}

type trieEdge struct {
	from uint64 // the node and the byte, plus one; 0 marks a free entry
	to   int32
}

func newByteTrie(ids map[string]int) *byteTrie {
	t := &byteTrie{ids: []int32{-1}}
	t.resize(10)
	for token, id := range ids {
		node := int32(0)
		for i := range len(token) {
			e := t.find(node, token[i])
			if e.from == 0 {
				if 2*len(t.ids) > len(t.edges) {
					t.resize(64 - t.shift + 1)
					e = t.find(node, token[i])
				}
				e.from, e.to = uint64(node)<<8|uint64(token[i])+1, int32(len(t.ids))
				t.ids = append(t.ids, -1)
			}
			node = e.to
		}
		if token != "" {
			t.ids[node] = int32(id)
		}
	}
	return t
}

func (t *byteTrie) resize(bits uint) {
	old := t.edges
	t.edges, t.shift = make([]trieEdge, 1<<bits), 64-bits
	for _, e := range old {
		if e.from != 0 {
			*t.find(int32((e.from-1)>>8), byte(e.from-1)) = e
		}
	}
}

// find returns the edge of a byte at a node, or the free entry for it.
func (t *byteTrie) find(node int32, c byte) *trieEdge {
	key := uint64(node)<<8 | uint64(c) + 1
	for at := key * hashFactor >> t.shift; ; at++ {
		e := &t.edges[at&uint64(len(t.edges)-1)]
		if e.from == key || e.from == 0 {
			return e
		}
	}
}

// next follows an edge.
func (t *byteTrie) next(node int32, c byte) (int32, bool) {
	e := t.find(node, c)
	return e.to, e.from != 0
}

// hashFactor spreads keys over a table whose size is a power of two (Fibonacci hashing).
const hashFactor = 0x9E3779B97F4A7C15

// Pieces longer than maxCachedPiece are rarely seen twice.
const (
	maxCachedPiece = 64
	cacheSlots     = 1 << 15
)

// cache remembers the ids of pieces: most of a text is words seen before. A piece has
// one slot, which the last one that needs it keeps, so the cache is bounded and has no lock.
type cache struct {
	seed  maphash.Seed
	slots [cacheSlots]cacheSlot
}

type cacheSlot struct {
	atomic.Pointer[cachedPiece]
}

type cachedPiece struct {
	piece string
	ids   []int
}

func newCache() *cache { return &cache{seed: maphash.MakeSeed()} }

func (c *cache) slot(piece string) *cacheSlot {
	return &c.slots[maphash.String(c.seed, piece)%cacheSlots]
}

// get returns the ids of a piece, or nil.
func (s *cacheSlot) get(piece string) []int {
	if found := s.Load(); found != nil && found.piece == piece {
		return found.ids
	}
	return nil
}

// fill appends the computed ids of a piece, and keeps them.
func (s *cacheSlot) fill(ids []int, piece string, compute func([]int, string) ([]int, error)) ([]int, error) {
	computed, err := compute(make([]int, 0, 4), piece)
	if err != nil {
		return nil, err
	}
	// A copy of the piece, which may be a part of a long text.
	s.Store(&cachedPiece{piece: strings.Clone(piece), ids: computed})
	return append(ids, computed...), nil
}
