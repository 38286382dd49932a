// Package oniguruma matches the regular expressions of tokenizer files, in the syntax
// and with the results of the Oniguruma library
// (https://github.com/kkos/oniguruma/blob/master/doc/RE), version 6.9.10 with Unicode 16.
//
// A pattern finds ranges of a text; what its groups captured is not kept. Backreferences,
// calls of groups, callouts, absent functions, conditionals, text segments and full case
// folding are errors when a pattern is compiled, never approximated.
package oniguruma

import (
	"fmt"
	"sync"
)

// Regexp is a compiled pattern. It is safe for concurrent use.
type Regexp struct {
	pattern  string
	program  []instruction
	alphabet *alphabet
	start    *charset // what a match begins with; nil if it may be empty
	leading  bool     // see search
	words    *charset // what \b goes by
	slots    int
	limit    int // of steps back in one search
	machines sync.Pool
}

// Compile parses a pattern.
func Compile(pattern string) (*Regexp, error) {
	n, err := parse(pattern)
	if err != nil {
		return nil, err
	}
	c := &compiler{}
	begin := firstOf(n)
	var start *charset
	if !begin.empty {
		start = c.alphabet.add(begin.set)
	}
	c.compile(n, accepted)
	c.emit(instruction{op: opMatch})
	if err := c.finish(); err != nil {
		return nil, fmt.Errorf("pattern %q: %w", pattern, err)
	}
	re := &Regexp{pattern: pattern, program: c.program, alphabet: &c.alphabet, start: start, slots: c.slots, words: c.words, limit: maxBacktracks}
	lead := c.program[0]
	re.leading = lead.op == opRun && lead.min <= 1 && lead.max > maxRepeat && lead.mode != lazy && start != nil
	re.machines.New = func() any { return &machine{re: re, slots: make([]int, re.slots)} }
	return re, nil
}

// String returns the pattern.
func (re *Regexp) String() string { return re.pattern }

// FindAll calls yield with the byte range of each match in s, from left to right. An
// empty match right after another match is left out. s must be UTF-8. The error is that
// of a pattern which backtracks without end.
func (re *Regexp) FindAll(s string, yield func(from, to int)) error {
	m := re.machines.Get().(*machine)
	defer func() {
		m.text = ""
		re.machines.Put(m)
	}()
	m.text, m.limit = s, len(s)
	ended := -1
	for at := 0; at <= len(s); {
		from, to, ok := m.search(at)
		if m.backtracks > re.limit {
			return fmt.Errorf("pattern %q: gave up on a text of %d bytes after %d steps back", re.pattern, len(s), re.limit)
		}
		if !ok {
			return nil
		}
		if from == to && to == ended {
			// The search starts over one character on.
			width := 1
			if at < len(s) {
				_, width = re.alphabet.at(s, at)
			}
			at += width
			continue
		}
		at, ended = to, to
		yield(from, to)
	}
	return nil
}
