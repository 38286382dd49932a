package oniguruma

import (
	"fmt"
	"unicode/utf8"

	"github.com/hermes-env/hermes-env/agentloop/tokenizer/ucd"
)

type opcode uint8

const (
	opMatch   opcode = iota // the end of the program or of a condition's
	opSet                   // one character of set
	opString                // the characters of text
	opRun                   // min to max characters of set
	opAlt                   // one of branches
	opJump                  // go on at x
	opMark                  // note the place in slot x
	opCheck                 // leave a loop to x when nothing matched since the mark in slot min
	opLook                  // the program at pc+1 matches, or not; go on at x
	opLookSet               // the next character is of set, or not
	opAtomic                // the program at pc+1; go on at x
	opAssert
	opHere // the place that a look behind started from
)

type instruction struct {
	op        opcode
	mode      runMode
	negative  bool
	behind    bool
	assertion assertion
	set       *charset
	next      *charset // what must follow a run, nil for anything
	text      string
	min, max  int
	x         int
	branches  []int
	masks     []uint64 // by class: the branches that may begin with it
	atEnd     uint64   // the branches that may match at the end of the text
	firsts    []*charset
}

type runMode uint8

const (
	possessive runMode = iota // as many as there are
	greedy                    // as many as there are, then fewer
	lazy                      // as few as possible, then more
)

const maxInstructions = 20_000

type compiler struct {
	program  []instruction
	alphabet alphabet
	slots    int
	words    *charset
	err      error
}

// first tells what a part of a pattern can begin with.
type first struct {
	set         ucd.Set
	empty       bool // it may match the empty text
	conditional bool // if it does, a condition has to hold
}

var accepted = first{empty: true}

func (f first) then(g first) first {
	if !f.empty {
		return f
	}
	return first{set: ucd.Union(f.set, g.set), empty: g.empty, conditional: f.conditional || g.conditional}
}

func firstOf(n *node) first {
	switch n.kind {
	case kindSet:
		return first{set: n.set}
	case kindConcat:
		return firstOfAll(n.subs)
	case kindAlternate:
		out := first{conditional: true}
		for _, sub := range n.subs {
			f := firstOf(sub)
			out.set, out.empty = ucd.Union(out.set, f.set), out.empty || f.empty
			if f.empty && !f.conditional {
				out.conditional = false
			}
		}
		return out
	case kindRepeat:
		f := firstOf(n.subs[0])
		if n.min == 0 {
			f.empty, f.conditional = true, false
		}
		return f
	case kindAtomic:
		return firstOf(n.subs[0])
	}
	return first{empty: true, conditional: true}
}

func firstOfAll(subs []*node) first {
	out := accepted
	for i := len(subs) - 1; i >= 0; i-- {
		out = firstOf(subs[i]).then(out)
	}
	return out
}

// either is what follows where a loop may go on with f or end before g.
func either(f, g first) first {
	return first{set: ucd.Union(f.set, g.set), empty: f.empty || g.empty, conditional: f.conditional || g.conditional}
}

func (c *compiler) emit(i instruction) int {
	if len(c.program) >= maxInstructions && c.err == nil {
		c.err = fmt.Errorf("it has more than %d steps", maxInstructions)
	}
	if c.err == nil {
		c.program = append(c.program, i)
	}
	return len(c.program) - 1
}

// compile appends the instructions of a part. follow is what comes after it.
func (c *compiler) compile(n *node, follow first) {
	if c.err != nil {
		return
	}
	switch n.kind {
	case kindSet:
		c.emit(instruction{op: opSet, set: c.alphabet.add(n.set)})
	case kindConcat:
		c.concat(n.subs, follow)
	case kindAlternate:
		c.alternate(n.subs, follow)
	case kindRepeat:
		if n.subs[0].kind == kindSet {
			c.run(n, follow, false)
		} else {
			c.repeat(n, follow)
		}
	case kindAtomic:
		if sub := n.subs[0]; sub.kind == kindRepeat && sub.subs[0].kind == kindSet && !sub.lazy {
			c.run(sub, follow, true)
			return
		}
		c.condition(instruction{op: opAtomic}, n.subs[0], accepted)
	case kindLook:
		c.look(n)
	case kindAssert:
		if c.words == nil && (n.assertion == wordBoundary || n.assertion == noWordBoundary) {
			c.words = c.alphabet.add(word())
		}
		c.emit(instruction{op: opAssert, assertion: n.assertion})
	}
}

func single(n *node) bool {
	return n.kind == kindSet && len(n.set) == 2 && n.set[1] == n.set[0]+1 && utf8.ValidRune(n.set[0])
}

func (c *compiler) concat(subs []*node, follow first) {
	follows := make([]first, len(subs))
	for i := len(subs) - 1; i >= 0; i-- {
		follows[i] = follow
		follow = firstOf(subs[i]).then(follow)
	}
	for i := 0; i < len(subs); i++ {
		var text []rune
		for j := i; j < len(subs) && single(subs[j]); j++ {
			text = append(text, subs[j].set[0])
		}
		if len(text) > 1 {
			c.emit(instruction{op: opString, text: string(text)})
			i += len(text) - 1
			continue
		}
		c.compile(subs[i], follows[i])
	}
}

// alternate compiles branches that end at the same place.
func (c *compiler) alternate(subs []*node, follow first) {
	const most = 64 // bits of a mask
	firsts := make([]first, 0, most)
	rest := subs
	if len(subs) > most {
		rest = subs[:most-1]
	}
	for _, sub := range rest {
		firsts = append(firsts, firstOf(sub).then(follow))
	}
	if len(subs) > most {
		firsts = append(firsts, first{empty: true, conditional: true})
	}
	at := c.branch(firsts)
	var jumps []int
	for i := range firsts {
		c.target(at, i)
		if i < len(rest) {
			c.compile(rest[i], follow)
		} else {
			c.alternate(subs[len(rest):], follow)
		}
		if i < len(firsts)-1 {
			jumps = append(jumps, c.emit(instruction{op: opJump}))
		}
	}
	for _, jump := range jumps {
		c.land(jump)
	}
}

// branch emits the choice between branches, whose places target sets later.
func (c *compiler) branch(firsts []first) int {
	i := instruction{op: opAlt, branches: make([]int, len(firsts)), firsts: make([]*charset, len(firsts))}
	for b, f := range firsts {
		if f.empty {
			i.atEnd |= 1 << b
		} else {
			i.firsts[b] = c.alphabet.add(f.set)
		}
	}
	return c.emit(i)
}

// target makes the next instruction the start of a branch.
func (c *compiler) target(at, branch int) {
	if c.err == nil {
		c.program[at].branches[branch] = len(c.program)
	}
}

// land makes the next instruction the target of a jump.
func (c *compiler) land(at int) {
	if c.err == nil {
		c.program[at].x = len(c.program)
	}
}

// run compiles the repetition of a set.
func (c *compiler) run(n *node, follow first, atomic bool) {
	set := n.subs[0].set
	disjoint := len(ucd.Intersect(set, follow.set)) == 0
	i := instruction{op: opRun, set: c.alphabet.add(set), min: n.min, max: n.max, mode: greedy}
	if i.max < 0 {
		i.max = int(^uint(0) >> 1)
	}
	switch {
	case atomic, n.max == n.min:
		i.mode = possessive
	case n.lazy:
		if i.mode = lazy; disjoint && !follow.empty && n.max < 0 {
			i.mode = possessive
		}
	case disjoint && !(follow.empty && follow.conditional):
		// Giving back a character of the set can't help: nothing that follows begins with one.
		i.mode = possessive
	}
	if i.mode != possessive && !follow.empty {
		i.next = c.alphabet.add(follow.set)
	}
	c.emit(i)
}

// repeat compiles the repetition of anything else as copies and a loop.
func (c *compiler) repeat(n *node, follow first) {
	sub := n.subs[0]
	begin := firstOf(sub)
	inner := either(begin, follow)
	for range n.min {
		c.compile(sub, inner)
	}
	again, leave := begin.then(inner), follow
	firsts, body, exit := []first{again, leave}, 0, 1
	if n.lazy {
		firsts, body, exit = []first{leave, again}, 1, 0
	}
	if n.max < 0 {
		at := c.branch(firsts)
		c.target(at, body)
		slot := c.slots
		if begin.empty {
			c.slots++
			c.emit(instruction{op: opMark, x: slot})
		}
		c.compile(sub, inner)
		check := -1
		if begin.empty {
			check = c.emit(instruction{op: opCheck, min: slot})
		}
		c.emit(instruction{op: opJump, x: at})
		if check >= 0 {
			c.land(check)
		}
		c.target(at, exit)
		return
	}
	var choices []int
	for range n.max - n.min {
		at := c.branch(firsts)
		choices = append(choices, at)
		c.target(at, body)
		c.compile(sub, inner)
	}
	for _, at := range choices {
		c.target(at, exit)
	}
}

// condition compiles a program of its own within the program.
func (c *compiler) condition(i instruction, sub *node, follow first, end ...instruction) {
	at := c.emit(i)
	c.compile(sub, follow)
	for _, e := range end {
		c.emit(e)
	}
	c.emit(instruction{op: opMatch})
	c.land(at)
}

func (c *compiler) look(n *node) {
	sub := n.subs[0]
	if sub.kind == kindSet {
		c.emit(instruction{op: opLookSet, negative: n.negative, behind: n.behind, set: c.alphabet.add(sub.set)})
		return
	}
	i := instruction{op: opLook, negative: n.negative, behind: n.behind}
	if !n.behind {
		c.condition(i, sub, accepted)
		return
	}
	i.min, i.max = width(sub)
	c.condition(i, sub, first{set: anything, empty: true, conditional: true}, instruction{op: opHere})
}

// width returns the least and the greatest number of characters that a part matches;
// the latter is -1 if there is none.
func width(n *node) (least, most int) {
	switch n.kind {
	case kindSet:
		return 1, 1
	case kindConcat:
		for _, sub := range n.subs {
			low, high := width(sub)
			least += low
			if most >= 0 {
				most += high
			}
			if high < 0 {
				most = -1
			}
		}
	case kindAlternate:
		least, most = width(n.subs[0])
		for _, sub := range n.subs[1:] {
			low, high := width(sub)
			least = min(least, low)
			if high < 0 || most < 0 {
				most = -1
			} else {
				most = max(most, high)
			}
		}
	case kindRepeat:
		low, high := width(n.subs[0])
		least = low * n.min
		switch {
		case n.max < 0 || high < 0:
			most = -1
		default:
			most = high * n.max
		}
	case kindAtomic:
		return width(n.subs[0])
	}
	return least, most
}

// finish fills what depends on the whole alphabet.
func (c *compiler) finish() error {
	if c.err != nil {
		return c.err
	}
	if err := c.alphabet.finish(); err != nil {
		return err
	}
	for at := range c.program {
		i := &c.program[at]
		if i.op != opAlt {
			continue
		}
		i.masks = make([]uint64, c.alphabet.classes)
		for class := range i.masks {
			for b, f := range i.firsts {
				if f == nil || f.members[class] {
					i.masks[class] |= 1 << b
				}
			}
		}
		i.firsts = nil
	}
	return nil
}
