package oniguruma

import (
	"math/bits"
	"strings"
	"unicode/utf8"
)

// maxBacktracks is the limit for one search, that of the library.
const maxBacktracks = 10_000_000

// machine runs a program over one text.
type machine struct {
	re         *Regexp
	text       string
	stack      []frame
	slots      []int
	limit      int // where a match has to end: the end of the text, or where a look behind started from
	backtracks int
}

// frame is a place to go back to.
type frame struct {
	pc   int32 // of the instruction that left it; for frameSlot the slot
	kind frameKind
	pos  int
	low  int    // of a run: how far it may shrink or grow; of a slot: its old value
	mask uint64 // the branches that are left
}

type frameKind uint8

const (
	frameBranch frameKind = iota
	frameShrink
	frameGrow
	frameSlot
)

// search finds the first match that starts at or after at.
func (m *machine) search(at int) (from, to int, ok bool) {
	start := m.re.start
	for {
		m.backtracks = 0
		if start != nil {
			if at = m.skip(start, at); at >= len(m.text) {
				return 0, 0, false
			}
		}
		if to, ok := m.run(0, at); ok {
			return at, to, true
		}
		if at >= len(m.text) || m.backtracks > m.re.limit {
			return 0, 0, false
		}
		if m.re.leading {
			// The run at the start was tried at every length. What is left of it after
			// its first character ends at the same places.
			if end := m.advance(m.re.program[0].set, at, m.re.program[0].max); end > at {
				at = end
				continue
			}
		}
		_, width := m.re.alphabet.at(m.text, at)
		at += width
	}
}

// skip returns the next place with a character of the set.
func (m *machine) skip(set *charset, at int) int {
	for at < m.limit {
		switch set.lead[m.text[at]] {
		case in:
			return at
		case out:
			at++
		default:
			class, width := m.re.alphabet.at(m.text, at)
			if set.members[class] {
				return at
			}
			at += width
		}
	}
	return at
}

// advance returns the end of at most limit characters of the set.
func (m *machine) advance(set *charset, at, limit int) int {
	text := m.text[:m.limit]
	for limit > 0 && at < len(text) {
		switch set.lead[text[at]] {
		case in:
			at++
		case out:
			return at
		default:
			class, width := m.re.alphabet.at(text, at)
			if !set.members[class] {
				return at
			}
			at += width
		}
		limit--
	}
	return at
}

// holds tells whether the character at a place is of the set.
func (m *machine) holds(set *charset, at int) bool {
	if at >= len(m.text) {
		return false
	}
	class, _ := m.re.alphabet.at(m.text, at)
	return set.members[class]
}

func (m *machine) back(at int) int {
	for at--; at > 0 && !utf8.RuneStart(m.text[at]); at-- {
	}
	return at
}

// run runs the program from an instruction on, to the end of a match.
func (m *machine) run(pc, pos int) (end int, ok bool) {
	base := len(m.stack)
	program := m.re.program
	for {
		i := &program[pc]
		matched := true
		switch i.op {
		case opMatch:
			m.stack = m.stack[:base]
			return pos, true
		case opSet:
			if pos >= m.limit {
				matched = false
				break
			}
			class, width := m.re.alphabet.at(m.text, pos)
			if matched = i.set.members[class]; matched {
				pos += width
			}
		case opString:
			if matched = strings.HasPrefix(m.text[pos:m.limit], i.text); matched {
				pos += len(i.text)
			}
		case opRun:
			pos, matched = m.consume(i, pc, pos)
		case opAlt:
			mask := i.atEnd
			if pos < m.limit {
				if c := m.text[pos]; c < utf8.RuneSelf {
					mask = i.masks[m.re.alphabet.ascii[c]]
				} else {
					class, _ := m.re.alphabet.at(m.text, pos)
					mask = i.masks[class]
				}
			}
			if mask == 0 {
				matched = false
				break
			}
			if rest := mask & (mask - 1); rest != 0 {
				m.stack = append(m.stack, frame{pc: int32(pc), kind: frameBranch, pos: pos, mask: rest})
			}
			pc = i.branches[bits.TrailingZeros64(mask)]
			continue
		case opJump:
			pc = i.x
			continue
		case opMark:
			m.stack = append(m.stack, frame{pc: int32(i.x), kind: frameSlot, low: m.slots[i.x]})
			m.slots[i.x] = pos
		case opCheck:
			if m.slots[i.min] == pos {
				pc = i.x
				continue
			}
		case opLookSet:
			at := pos
			if i.behind {
				at = m.back(pos)
			}
			matched = (at >= 0 && m.holds(i.set, at)) != i.negative
		case opLook:
			if matched = m.look(i, pc, pos) != i.negative; matched {
				pc = i.x
				continue
			}
		case opAtomic:
			if pos, matched = m.run(pc+1, pos); matched {
				pc = i.x
				continue
			}
		case opAssert:
			matched = m.assert(i.assertion, pos)
		case opHere:
			matched = pos == m.limit
		}
		if matched {
			pc++
			continue
		}
		if pc, pos, ok = m.backtrack(base); !ok {
			return 0, false
		}
	}
}

// consume matches a run and leaves a frame if it could have another length.
func (m *machine) consume(i *instruction, pc, pos int) (int, bool) {
	if i.mode == possessive && i.min <= 1 {
		end := m.advance(i.set, pos, i.max)
		return end, end > pos || i.min == 0
	}
	low := pos
	for range i.min {
		if low >= m.limit {
			return pos, false
		}
		class, width := m.re.alphabet.at(m.text, low)
		if !i.set.members[class] {
			return pos, false
		}
		low += width
	}
	if i.mode == lazy {
		if i.max > i.min {
			m.stack = append(m.stack, frame{pc: int32(pc), kind: frameGrow, pos: low, low: i.max - i.min})
		}
		return low, true
	}
	end := m.advance(i.set, low, i.max-i.min)
	if i.mode == greedy && end > low {
		m.stack = append(m.stack, frame{pc: int32(pc), kind: frameShrink, pos: end, low: low})
	}
	return end, true
}

// backtrack takes up the newest frame above base.
func (m *machine) backtrack(base int) (pc, pos int, ok bool) {
	for len(m.stack) > base {
		if m.backtracks++; m.backtracks > m.re.limit {
			m.stack = m.stack[:base]
			return 0, 0, false
		}
		top := len(m.stack) - 1
		f := &m.stack[top]
		pc = int(f.pc)
		switch f.kind {
		case frameSlot:
			m.slots[pc] = f.low
			m.stack = m.stack[:top]
		case frameBranch:
			i := &m.re.program[pc]
			branch, pos := bits.TrailingZeros64(f.mask), f.pos
			if f.mask &= f.mask - 1; f.mask == 0 {
				m.stack = m.stack[:top]
			}
			return i.branches[branch], pos, true
		case frameShrink:
			i := &m.re.program[pc]
			pos := m.back(f.pos)
			for i.next != nil && pos > f.low && !m.holds(i.next, pos) {
				pos = m.back(pos)
			}
			if f.pos = pos; pos <= f.low {
				m.stack = m.stack[:top]
			}
			return pc + 1, pos, true
		case frameGrow:
			i := &m.re.program[pc]
			if f.low > 0 && f.pos < m.limit && m.holds(i.set, f.pos) {
				_, width := m.re.alphabet.at(m.text, f.pos)
				f.pos += width
				f.low--
				return pc + 1, f.pos, true
			}
			m.stack = m.stack[:top]
		}
	}
	return 0, 0, false
}

// look tells whether the program after a look matches ahead of a place or behind it.
func (m *machine) look(i *instruction, pc, pos int) bool {
	if !i.behind {
		_, ok := m.run(pc+1, pos)
		return ok
	}
	outer := m.limit
	m.limit = pos
	defer func() { m.limit = outer }()
	at := pos
	for n := 0; ; n++ {
		if n >= i.min {
			if _, ok := m.run(pc+1, at); ok {
				return true
			}
		}
		if at == 0 || n == i.max {
			return false
		}
		at = m.back(at)
	}
}

func (m *machine) assert(a assertion, pos int) bool {
	size := len(m.text)
	switch a {
	case textStart:
		return pos == 0
	case textEnd:
		return pos == size
	case lastLineEnd:
		return pos == size || pos == size-1 && m.text[pos] == '\n'
	case lineStart:
		return pos == 0 || pos < size && m.text[pos-1] == '\n'
	case lineEnd:
		return pos == size || m.text[pos] == '\n'
	}
	words := m.re.words
	before := pos > 0 && m.holds(words, m.back(pos))
	return (before != m.holds(words, pos)) == (a == wordBoundary)
}
