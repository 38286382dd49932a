package tokenizer

// longPiece is the number of symbols from which a heap finds the next merge faster
// than looking through all of them does. Without it a long piece, such as a line of
// one repeated character, would take time that grows with the square of its length.
const longPiece = 96

const noMerge = int32(1<<31 - 1)

// merge is what two neighbours become.
type merge struct {
	rank, id int32
}

// mergeTable holds the merges by their pairs, in open addressing: a lookup is one or two
// memory accesses, which is most of what merging does.
type mergeTable struct {
	entries []mergeEntry
	shift   uint
}

type mergeEntry struct {
	pair uint64 // 0 marks a free entry
	merge
}

func newMergeTable(n int) *mergeTable {
	bits := uint(4)
	for 1<<bits < 2*n {
		bits++
	}
	return &mergeTable{entries: make([]mergeEntry, 1<<bits), shift: 64 - bits}
}

// find returns the place of a pair, or the free place for it.
func (t *mergeTable) find(left, right int32) *mergeEntry {
	key := uint64(uint32(left))<<32 | uint64(uint32(right)) + 1
	for at := key * hashFactor >> t.shift; ; at++ {
		e := &t.entries[at&uint64(len(t.entries)-1)]
		if e.pair == key || e.pair == 0 {
			return e
		}
	}
}

func (t *mergeTable) put(left, right int32, m merge) {
	e := t.find(left, right)
	e.pair, e.merge = uint64(uint32(left))<<32|uint64(uint32(right))+1, m
}

func (t *mergeTable) get(left, right int32) merge {
	if e := t.find(left, right); e.pair != 0 {
		return e.merge
	}
	return merge{rank: noMerge}
}

// applyShort merges in place.
func (t *mergeTable) applyShort(symbols []int32) []int32 {
	if len(symbols) < 2 {
		return symbols
	}
	var space [longPiece]merge
	merges := space[:len(symbols)-1]
	for i := range merges {
		merges[i] = t.get(symbols[i], symbols[i+1])
	}
	for {
		best, at := noMerge, -1
		for i := range merges {
			if merges[i].rank < best {
				best, at = merges[i].rank, i
			}
		}
		if at < 0 {
			return symbols
		}
		symbols[at] = merges[at].id
		symbols = append(symbols[:at+1], symbols[at+2:]...)
		merges = append(merges[:at], merges[at+1:]...)
		if at < len(merges) {
			merges[at] = t.get(symbols[at], symbols[at+1])
		}
		if at > 0 {
			merges[at-1] = t.get(symbols[at-1], symbols[at])
		}
	}
}

// candidate is a merge that may still be possible when its turn comes.
type candidate struct {
	merge
	at          int32 // place of the left symbol
	left, right int32 // the symbols it was found for
}

func (c candidate) before(d candidate) bool {
	return c.rank < d.rank || c.rank == d.rank && c.at < d.at
}

// candidates is a binary heap.
type candidates []candidate

func (c *candidates) push(x candidate) {
	h := append(*c, x)
	at := len(h) - 1
	for at > 0 {
		above := (at - 1) / 2
		if !x.before(h[above]) {
			break
		}
		h[at] = h[above]
		at = above
	}
	h[at] = x
	*c = h
}

func (c *candidates) pop() candidate {
	h := *c
	top, x := h[0], h[len(h)-1]
	h = h[:len(h)-1]
	at := 0
	for {
		below := 2*at + 1
		if below >= len(h) {
			break
		}
		if below+1 < len(h) && h[below+1].before(h[below]) {
			below++
		}
		if !h[below].before(x) {
			break
		}
		h[at] = h[below]
		at = below
	}
	if len(h) > 0 {
		h[at] = x
	}
	*c = h
	return top
}

// applyLong does the same as applyShort with a heap over a linked list.
func (t *mergeTable) applyLong(symbols []int32) []int32 {
	n := int32(len(symbols))
	links := make([]struct{ next, prev int32 }, n)
	for i := range links {
		links[i].next, links[i].prev = int32(i)+1, int32(i)-1
	}
	queue := make(candidates, 0, n)
	consider := func(at int32) {
		if at < 0 || links[at].next >= n {
			return
		}
		left, right := symbols[at], symbols[links[at].next]
		if found := t.get(left, right); found.rank != noMerge {
			queue.push(candidate{merge: found, at: at, left: left, right: right})
		}
	}
	for i := range n {
		consider(i)
	}
	for len(queue) > 0 {
		c := queue.pop()
		right := n
		if symbols[c.at] >= 0 {
			right = links[c.at].next
		}
		if right >= n || symbols[c.at] != c.left || symbols[right] != c.right {
			continue // merged with another neighbour meanwhile
		}
		symbols[c.at], symbols[right] = c.id, -1
		links[c.at].next = links[right].next
		if links[right].next < n {
			links[links[right].next].prev = c.at
		}
		consider(links[c.at].prev)
		consider(c.at)
	}
	out := symbols[:0]
	for _, id := range symbols {
		if id >= 0 {
			out = append(out, id)
		}
	}
	return out
}
