package oniguruma

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/hermes-env/hermes-env/agentloop/tokenizer/ucd"
)

type kind uint8

const (
	kindSet       kind = iota // one character
	kindConcat                // subs one after the other; none match the empty text
	kindAlternate             // the first of subs that leads to a match
	kindRepeat                // subs[0], min to max times
	kindLook                  // subs[0] ahead of the place or behind it
	kindAtomic                // subs[0] without backtracking into it
	kindAssert
)

// node is a part of a parsed pattern.
type node struct {
	kind      kind
	set       ucd.Set
	subs      []*node
	min, max  int // of a repetition; max is -1 for any number
	lazy      bool
	negative  bool // of a look
	behind    bool // of a look
	assertion assertion
}

type assertion uint8

const (
	textStart      assertion = iota // \A
	textEnd                         // \z
	lastLineEnd                     // \Z
	lineStart                       // ^
	lineEnd                         // $
	wordBoundary                    // \b
	noWordBoundary                  // \B
)

// Bounds that no published pattern comes near.
const (
	maxDepth  = 100
	maxRepeat = 1000
)

type parser struct {
	pattern string
	at      int
	depth   int
	behind  bool // within a look behind
	flags   flags
}

type flags struct {
	fold     bool // i
	dotAll   bool // m
	extended bool // x
}

// unsupported is the error for syntax that only the library supports.
func (p *parser) unsupported(what string) error {
	return fmt.Errorf("pattern %q: %s at byte %d is not supported", p.pattern, what, p.at)
}

func (p *parser) invalid(what string) error {
	return fmt.Errorf("pattern %q: %s at byte %d", p.pattern, what, p.at)
}

func (p *parser) more() bool { return p.at < len(p.pattern) }

// accept moves past a prefix of the rest.
func (p *parser) accept(prefix string) bool {
	if !strings.HasPrefix(p.pattern[p.at:], prefix) {
		return false
	}
	p.at += len(prefix)
	return true
}

func (p *parser) rune() rune {
	r, n := utf8.DecodeRuneInString(p.pattern[p.at:])
	p.at += n
	return r
}

func parse(pattern string) (*node, error) {
	if !utf8.ValidString(pattern) {
		return nil, fmt.Errorf("pattern %q is not UTF-8", pattern)
	}
	p := &parser{pattern: pattern}
	n, err := p.alternatives()
	if err == nil && p.more() {
		err = p.invalid("unmatched )")
	}
	return n, err
}

// alternatives parses to the end of the group. Options set in it end with it.
func (p *parser) alternatives() (*node, error) {
	if p.depth++; p.depth > maxDepth {
		return nil, p.unsupported(fmt.Sprintf("a nesting of more than %d groups", maxDepth))
	}
	outer := p.flags
	defer func() { p.depth--; p.flags = outer }()
	out := &node{kind: kindAlternate}
	for {
		n, err := p.sequence()
		if err != nil {
			return nil, err
		}
		out.subs = append(out.subs, n)
		if !p.accept("|") {
			break
		}
	}
	if len(out.subs) == 1 {
		return out.subs[0], nil
	}
	return out, nil
}

func (p *parser) sequence() (*node, error) {
	out := &node{kind: kindConcat}
	var folded []rune // the literals without gap before the next part, folded
	for p.more() && p.pattern[p.at] != '|' && p.pattern[p.at] != ')' {
		if p.skipComment() {
			continue
		}
		n, literal, err := p.atom()
		if err != nil {
			return nil, err
		}
		if n == nil { // options for the rest of the group, alternatives included
			rest, err := p.alternatives()
			if err != nil {
				return nil, err
			}
			out.subs = append(out.subs, rest)
			break
		}
		if literal < 0 || !p.flags.fold {
			folded = folded[:0]
		} else {
			folded = append(folded, ucd.Fold(literal))
			if ucd.Expanding().Contains(literal) || ucd.EndsWithExpansion(string(folded)) {
				return nil, p.unsupported("ignoring the case of characters that fold to several")
			}
		}
		was := p.at
		if n, err = p.quantified(n); err != nil {
			return nil, err
		}
		if p.at > was {
			folded = folded[:0]
		}
		out.subs = append(out.subs, n)
	}
	if len(out.subs) == 1 {
		return out.subs[0], nil
	}
	return out, nil
}

// skipComment moves past (?#…) and what the option x ignores.
func (p *parser) skipComment() bool {
	end := byte(0)
	switch {
	case p.accept("(?#"):
		end = ')'
	case p.flags.extended && p.accept("#"):
		end = '\n'
	case p.flags.extended && strings.IndexByte(" \t\n\r\f\v", p.pattern[p.at]) >= 0:
		p.at++
		return true
	default:
		return false
	}
	for p.more() {
		c := p.pattern[p.at]
		p.at++
		if c == '\\' && end == ')' {
			p.at++
		} else if c == end {
			break
		}
	}
	return true
}

// quantified applies the quantifiers that follow.
func (p *parser) quantified(n *node) (*node, error) {
	for p.more() {
		if p.flags.extended && p.skipComment() {
			continue
		}
		lowest, highest, interval := 0, -1, false
		switch {
		case p.accept("*"):
		case p.accept("+"):
			lowest = 1
		case p.accept("?"):
			highest = 1
		case p.pattern[p.at] == '{':
			var err error
			if lowest, highest, interval, err = p.interval(); err != nil {
				return nil, err
			}
			if !interval {
				return n, nil
			}
		default:
			return n, nil
		}
		if n.kind == kindLook || n.kind == kindAssert {
			return nil, p.unsupported("repeating a condition")
		}
		if lowest > 1 && firstOf(n).empty {
			return nil, p.unsupported("repeating what may be empty more than once")
		}
		repeat := &node{kind: kindRepeat, subs: []*node{n}, min: lowest, max: highest}
		fixed := interval && lowest == highest // where ? makes the whole optional
		switch {
		case !fixed && p.accept("?"):
			repeat.lazy = true
		case !interval && p.accept("+"):
			repeat = &node{kind: kindAtomic, subs: []*node{repeat}}
		}
		n = repeat
	}
	return n, nil
}

// interval parses {n}, {n,}, {,m} and {n,m}; what is none of them is literal text.
func (p *parser) interval() (lowest, highest int, ok bool, err error) {
	start := p.at
	number := func() int {
		n, digits := 0, 0
		for p.more() && p.pattern[p.at] >= '0' && p.pattern[p.at] <= '9' {
			n = min(n*10+int(p.pattern[p.at]-'0'), maxRepeat+1)
			p.at++
			digits++
		}
		if digits == 0 {
			return -1
		}
		return n
	}
	p.at++
	lowest = number()
	highest = lowest
	comma := p.accept(",")
	if comma {
		highest = number()
	}
	if !p.accept("}") || lowest < 0 && highest < 0 {
		p.at = start
		return 0, 0, false, nil
	}
	lowest = max(lowest, 0)
	if lowest > maxRepeat || highest > maxRepeat {
		return 0, 0, false, p.unsupported(fmt.Sprintf("a repetition of more than %d times", maxRepeat))
	}
	if highest >= 0 && lowest > highest {
		return 0, 0, false, p.unsupported("an interval with the higher number first")
	}
	return lowest, highest, true, nil
}

// atom parses one part. literal is its character when it is a single one, else -1. A nil
// node stands for options that hold for the rest of the group.
func (p *parser) atom() (n *node, literal rune, err error) {
	switch p.pattern[p.at] {
	case '(':
		p.at++
		n, err := p.group()
		return n, -1, err
	case '[':
		p.at++
		set, err := p.class()
		return &node{kind: kindSet, set: set}, -1, err
	case '.':
		p.at++
		return &node{kind: kindSet, set: p.dot()}, -1, nil
	case '^':
		p.at++
		return &node{kind: kindAssert, assertion: lineStart}, -1, nil
	case '$':
		p.at++
		return &node{kind: kindAssert, assertion: lineEnd}, -1, nil
	case '*', '+', '?':
		return nil, -1, p.invalid("a quantifier without a target")
	case '\\':
		return p.escape()
	}
	r := p.rune()
	return p.literal(r), r, nil
}

// dot is any character, with the exception of the line feed unless the option m says otherwise.
func (p *parser) dot() ucd.Set {
	if p.flags.dotAll {
		return anything
	}
	return ucd.Range('\n', '\n').Negate()
}

func (p *parser) literal(r rune) *node {
	set := ucd.Range(r, r)
	if p.flags.fold {
		set = foldSet(set)
	}
	return &node{kind: kindSet, set: set}
}

// group parses what follows an opening parenthesis.
func (p *parser) group() (*node, error) {
	out := &node{}
	behind := p.behind
	defer func() { p.behind = behind }()
	switch {
	case !p.accept("?"):
		if p.more() && p.pattern[p.at] == '*' {
			return nil, p.unsupported("a callout")
		}
		return p.closed(nil) // a capture is a group like any other
	case p.accept(":"):
		return p.closed(nil)
	case p.accept(">"):
		out.kind = kindAtomic
	case p.accept("="):
		out.kind = kindLook
	case p.accept("!"):
		out.kind, out.negative = kindLook, true
	case p.accept("<="):
		out.kind, out.behind, p.behind = kindLook, true, true
	case p.accept("<!"):
		out.kind, out.behind, out.negative, p.behind = kindLook, true, true, true
	case p.accept("<"), p.accept("'"):
		end := strings.IndexAny(p.pattern[p.at:], ">'")
		if end <= 0 {
			return nil, p.invalid("a group without a name")
		}
		p.at += end + 1
		return p.closed(nil)
	default:
		return p.options()
	}
	return p.closed(out)
}

// closed parses the content of a group and puts it into outer, if that is not nil.
func (p *parser) closed(outer *node) (*node, error) {
	n, err := p.alternatives()
	if err != nil {
		return nil, err
	}
	if !p.accept(")") {
		return nil, p.invalid("missing )")
	}
	if outer != nil {
		outer.subs = []*node{n}
		return outer, nil
	}
	return n, nil
}

// options parses (?imx-imx) and (?imx-imx:…).
func (p *parser) options() (*node, error) {
	outer, on := p.flags, true
	for p.more() {
		c := p.pattern[p.at]
		p.at++
		switch c {
		case '-':
			on = false
		case 'i':
			p.flags.fold = on
		case 'm':
			p.flags.dotAll = on
		case 'x':
			p.flags.extended = on
		case ')':
			return nil, nil
		case ':':
			n, err := p.closed(nil)
			p.flags = outer
			return n, err
		default:
			p.at--
			return nil, p.unsupported(fmt.Sprintf("the group (?%c", c))
		}
	}
	return nil, p.invalid("missing )")
}

// escape parses a backslash and what belongs to it, outside of a class.
func (p *parser) escape() (*node, rune, error) {
	if p.at+1 >= len(p.pattern) {
		return nil, -1, p.invalid("a backslash at the end")
	}
	asserted := func(a assertion) (*node, rune, error) {
		p.at += 2
		return &node{kind: kindAssert, assertion: a}, -1, nil
	}
	set := func(s ucd.Set) (*node, rune, error) {
		p.at += 2
		return &node{kind: kindSet, set: s}, -1, nil
	}
	c := p.pattern[p.at+1]
	if p.behind && strings.IndexByte("bBR", c) >= 0 { // which the library doesn't always find there
		return nil, -1, p.unsupported(`\` + string(c) + " in a look behind")
	}
	switch c {
	case 'A':
		return asserted(textStart)
	case 'z':
		return asserted(textEnd)
	case 'Z':
		return asserted(lastLineEnd)
	case 'b':
		return asserted(wordBoundary)
	case 'B':
		return asserted(noWordBoundary)
	case 'w':
		return set(word())
	case 'W':
		return set(word().Negate())
	case 'N':
		return set(ucd.Range('\n', '\n').Negate())
	case 'O':
		return set(anything)
	case 'R':
		p.at += 2
		breaks := &node{kind: kindSet, set: ucd.Union(ucd.Range('\n', '\r'), ucd.Range(0x85, 0x85), ucd.Range(0x2028, 0x2029))}
		crlf := &node{kind: kindConcat, subs: []*node{{kind: kindSet, set: ucd.Range('\r', '\r')}, {kind: kindSet, set: ucd.Range('\n', '\n')}}}
		return &node{kind: kindAtomic, subs: []*node{{kind: kindAlternate, subs: []*node{crlf, breaks}}}}, -1, nil
	case 'X', 'y', 'Y', 'G', 'K', 'k', 'g', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		return nil, -1, p.unsupported(`\` + string(c))
	case 'p', 'P':
		if s, isWord, err := p.property(); s != nil || err != nil {
			if isWord {
				s = ucd.Union(s, latinWord)
			}
			return &node{kind: kindSet, set: s}, -1, err
		}
	}
	if s := p.classEscape(); s != nil {
		return &node{kind: kindSet, set: s}, -1, nil
	}
	r, err := p.escapedRune()
	if err != nil {
		return nil, -1, err
	}
	return p.literal(r), r, nil
}

// escapedRune parses an escape that stands for one character.
func (p *parser) escapedRune() (rune, error) {
	p.at++
	c := p.rune()
	hex := func(most int) rune {
		out, digits := rune(0), 0
		for ; digits < most && p.more(); digits++ {
			d := strings.IndexByte("0123456789abcdef", p.pattern[p.at]|0x20)
			if d < 0 || p.pattern[p.at] < '0' {
				break
			}
			out = out<<4 | rune(d)
			p.at++
		}
		if digits == 0 {
			return -1
		}
		return out
	}
	switch c {
	case 't':
		return '\t', nil
	case 'n':
		return '\n', nil
	case 'r':
		return '\r', nil
	case 'f':
		return '\f', nil
	case 'v':
		return '\v', nil
	case 'a':
		return '\a', nil
	case 'e':
		return 0x1B, nil
	case 'u':
		start := p.at
		if r := hex(4); p.at == start+4 && utf8.ValidRune(r) {
			return r, nil
		}
		return 0, p.invalid(`\u without the four digits of a character`)
	case 'x':
		if p.accept("{") {
			r := hex(6)
			if !p.accept("}") || !utf8.ValidRune(r) {
				return 0, p.unsupported(`\x{ without the digits of one character`)
			}
			return r, nil
		}
		if r := hex(2); r >= 0 && r < 0x80 {
			return r, nil
		}
		return 0, p.unsupported(`\x of a byte that is not a character by itself`)
	case '0':
		r := rune(0)
		for digits := 0; digits < 2 && p.more() && p.pattern[p.at] >= '0' && p.pattern[p.at] <= '7'; digits++ {
			r = r<<3 | rune(p.pattern[p.at]-'0')
			p.at++
		}
		return r, nil
	case 'c', 'C', 'M', 'o':
		return 0, p.unsupported(`\` + string(c))
	}
	return c, nil // characters without a meaning of their own stand for themselves
}
