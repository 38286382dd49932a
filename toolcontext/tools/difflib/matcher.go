package difflib

import "sort"

// Match says that a[A:A+Size] equals b[B:B+Size].
type Match struct{ A, B, Size int }

// Matcher finds the matching blocks of two sequences. It indexes b once.
type Matcher[T comparable] struct {
	a, b   []T
	where  map[T][]int // positions of each element of b, popular ones left out
	blocks []Match
	row    []int // row[j+1] is the length of the match that ends at b[j] and the current a[i]
	above  []int // the same for a[i-1]; both all zero between searches
	limit  int   // comparisons allowed; 0 means any number
	work   int   // comparisons made
	spent  bool
}

// NewMatcher prepares the comparison of a with b. Elements of b that make up more
// than one percent of a sequence of 200 or more are popular: they start no match,
// they only extend one.
func NewMatcher[T comparable](a, b []T) *Matcher[T] {
	m := &Matcher[T]{a: a, b: b, where: make(map[T][]int), row: make([]int, len(b)+1), above: make([]int, len(b)+1)}
	for j, element := range b {
		m.where[element] = append(m.where[element], j)
	}
	if n := len(b); n >= 200 {
		limit := n/100 + 1
		for element, positions := range m.where {
			if len(positions) > limit {
				delete(m.where, element)
			}
		}
	}
	return m
}

// Limit bounds the work of the comparison to about n element comparisons. Without
// it the worst case is cubic in the length.
func (m *Matcher[T]) Limit(n int) *Matcher[T] {
	m.limit = max(n, 1)
	return m
}

// Work returns how many element comparisons were made so far.
func (m *Matcher[T]) Work() int { return m.work }

// longest finds the longest match within a[alo:ahi] and b[blo:bhi], the earliest in
// a and then in b among equals.
func (m *Matcher[T]) longest(alo, ahi, blo, bhi int) Match {
	best := Match{alo, blo, 0}
	var touched []int // positions set in above
search:
	for i := alo; i < ahi; i++ {
		positions := m.where[m.a[i]]
		positions = positions[sort.SearchInts(positions, blo):]
		positions = positions[:sort.SearchInts(positions, bhi)]
		for n, j := range positions {
			if !m.spend() {
				clearAt(m.row, positions[:n])
				break search
			}
			k := m.above[j] + 1
			m.row[j+1] = k
			if k > best.Size {
				best = Match{i - k + 1, j - k + 1, k}
			}
		}
		clearAt(m.above, touched)
		m.row, m.above, touched = m.above, m.row, positions
	}
	clearAt(m.above, touched)
	for best.A > alo && best.B > blo && m.a[best.A-1] == m.b[best.B-1] {
		best.A, best.B, best.Size = best.A-1, best.B-1, best.Size+1
	}
	for best.A+best.Size < ahi && best.B+best.Size < bhi && m.a[best.A+best.Size] == m.b[best.B+best.Size] {
		best.Size++
	}
	return best
}

func clearAt(row []int, positions []int) {
	for _, j := range positions {
		row[j+1] = 0
	}
}

func (m *Matcher[T]) spend() bool {
	if m.limit > 0 && m.work >= m.limit {
		m.spent = true
		return false
	}
	m.work++
	return true
}

// Blocks returns the matching blocks in order, adjacent ones merged, ended by an
// empty block at the ends of both sequences.
func (m *Matcher[T]) Blocks() []Match {
	if m.blocks != nil {
		return m.blocks
	}
	type span struct{ alo, ahi, blo, bhi int }
	queue := []span{{0, len(m.a), 0, len(m.b)}}
	var found []Match
	for len(queue) > 0 {
		s := queue[len(queue)-1]
		queue = queue[:len(queue)-1]
		x := m.longest(s.alo, s.ahi, s.blo, s.bhi)
		if x.Size == 0 {
			continue
		}
		found = append(found, x)
		if s.alo < x.A && s.blo < x.B {
			queue = append(queue, span{s.alo, x.A, s.blo, x.B})
		}
		if x.A+x.Size < s.ahi && x.B+x.Size < s.bhi {
			queue = append(queue, span{x.A + x.Size, s.ahi, x.B + x.Size, s.bhi})
		}
	}
	sort.Slice(found, func(i, j int) bool { return found[i].A < found[j].A })
	blocks := make([]Match, 0, len(found)+1)
	for _, x := range found {
		if n := len(blocks); n > 0 && blocks[n-1].A+blocks[n-1].Size == x.A && blocks[n-1].B+blocks[n-1].Size == x.B {
			blocks[n-1].Size += x.Size
			continue
		}
		blocks = append(blocks, x)
	}
	m.blocks = append(blocks, Match{len(m.a), len(m.b), 0})
	return m.blocks
}

// Ratio returns the similarity of the sequences in [0, 1]: twice the matching
// elements over all elements. ok is false when the limit was reached, the ratio
// then being too low.
func (m *Matcher[T]) Ratio() (ratio float64, ok bool) {
	matches := 0
	for _, x := range m.Blocks() {
		matches += x.Size
	}
	return quotient(matches, len(m.a)+len(m.b)), !m.spent
}

// UpperBound returns a cheap upper bound of Ratio: the elements both have, in any order.
func UpperBound[T comparable](a, b []T) float64 {
	bound := quotient(min(len(a), len(b)), len(a)+len(b))
	counts := make(map[T]int, len(b))
	for _, element := range b {
		counts[element]++
	}
	matches := 0
	for _, element := range a {
		if counts[element] > 0 {
			counts[element]--
			matches++
		}
	}
	return min(bound, quotient(matches, len(a)+len(b)))
}

// RatioText returns the similarity of two texts, character by character.
func RatioText(a, b string) float64 {
	if a == b {
		return 1
	}
	ratio, _ := NewMatcher([]rune(a), []rune(b)).Ratio()
	return ratio
}

func quotient(matches, length int) float64 {
	if length == 0 {
		return 1
	}
	return 2 * float64(matches) / float64(length)
}
