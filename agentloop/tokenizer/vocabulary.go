package tokenizer

import (
	"fmt"
	"hash/maphash"
	"sync"
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

// Pieces longer than maxCachedPiece are rarely seen twice; a shard that is full
// starts again, which keeps the cache bounded.
const (
	maxCachedPiece = 64
	cacheShards    = 64
	shardPieces    = 1024
)

// cache remembers the ids of pieces: most of a text is words seen before.
type cache struct {
	seed   maphash.Seed
	shards [cacheShards]struct {
		sync.RWMutex
		ids map[string][]int
	}
}

func newCache() *cache {
	c := &cache{seed: maphash.MakeSeed()}
	for i := range c.shards {
		c.shards[i].ids = map[string][]int{}
	}
	return c
}

func (c *cache) get(piece string) ([]int, bool) {
	s := &c.shards[maphash.String(c.seed, piece)%cacheShards]
	s.RLock()
	ids, ok := s.ids[piece]
	s.RUnlock()
	return ids, ok
}

func (c *cache) put(piece string, ids []int) {
	s := &c.shards[maphash.String(c.seed, piece)%cacheShards]
	s.Lock()
	if len(s.ids) >= shardPieces {
		clear(s.ids)
	}
	s.ids[string([]byte(piece))] = ids // a copy: piece may hold on to a long text
	s.Unlock()
}
