package tokenizer

import "container/heap"

// longPiece is the number of symbols from which a heap finds the next merge faster
// than looking through all of them does. Without it a long piece, such as a line of
// one repeated character, would take time that grows with the square of its length.
const longPiece = 96

const noMerge = int(^uint(0) >> 1)

func (m *bpe) rank(left, right int) int {
	if found, ok := m.merges[pair(left, right)]; ok {
		return found.rank
	}
	return noMerge
}

// mergeShort merges in place.
func (m *bpe) mergeShort(symbols []int) []int {
	if len(symbols) < 2 {
		return symbols
	}
	var space [longPiece]int
	ranks := space[:len(symbols)-1]
	for i := range ranks {
		ranks[i] = m.rank(symbols[i], symbols[i+1])
	}
	for {
		best, at := noMerge, -1
		for i, rank := range ranks {
			if rank < best {
				best, at = rank, i
			}
		}
		if at < 0 {
			return symbols
		}
		symbols[at] = m.merges[pair(symbols[at], symbols[at+1])].id
		symbols = append(symbols[:at+1], symbols[at+2:]...)
		ranks = append(ranks[:at], ranks[at+1:]...)
		if at < len(ranks) {
			ranks[at] = m.rank(symbols[at], symbols[at+1])
		}
		if at > 0 {
			ranks[at-1] = m.rank(symbols[at-1], symbols[at])
		}
	}
}

// candidate is a merge that may still be possible when its turn comes.
type candidate struct {
	merge
	at          int // place of the left symbol
	left, right int // the symbols it was found for
}

type candidates []candidate

func (c candidates) Len() int { return len(c) }
func (c candidates) Less(i, j int) bool {
	if c[i].rank != c[j].rank {
		return c[i].rank < c[j].rank
	}
	return c[i].at < c[j].at
}
func (c candidates) Swap(i, j int) { c[i], c[j] = c[j], c[i] }
func (c *candidates) Push(x any)   { *c = append(*c, x.(candidate)) }
func (c *candidates) Pop() any {
	last := (*c)[len(*c)-1]
	*c = (*c)[:len(*c)-1]
	return last
}

// mergeLong does the same with a heap over a linked list.
func (m *bpe) mergeLong(symbols []int) []int {
	n := len(symbols)
	next, prev := make([]int, n), make([]int, n)
	for i := range n {
		next[i], prev[i] = i+1, i-1
	}
	var queue candidates
	consider := func(at int) {
		if at < 0 || next[at] >= n {
			return
		}
		left, right := symbols[at], symbols[next[at]]
		if found, ok := m.merges[pair(left, right)]; ok {
			heap.Push(&queue, candidate{merge: found, at: at, left: left, right: right})
		}
	}
	for i := range n {
		consider(i)
	}
	for queue.Len() > 0 {
		c := heap.Pop(&queue).(candidate)
		right := n
		if symbols[c.at] >= 0 {
			right = next[c.at]
		}
		if right >= n || symbols[c.at] != c.left || symbols[right] != c.right {
			continue // merged with another neighbour meanwhile
		}
		symbols[c.at], symbols[right] = c.id, -1
		next[c.at] = next[right]
		if next[right] < n {
			prev[next[right]] = c.at
		}
		consider(prev[c.at])
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
