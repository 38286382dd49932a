package parsers

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// machine reads one format. scan is called whenever text has grown, and goes on
// from where it stopped; each byte is looked at a bounded number of times
// however often scan is called. When p.final is set no more text will come and
// scan must come to its conclusions.
type machine interface {
	scan(p *pass)
}

// pass is one reading of one response: the text so far, what was recognised in
// it, and, for a stream, the events that follow from it. Both Parse and Stream
// run the same machine over a pass, which is why they agree.
type pass struct {
	text  string
	final bool
	tools []Tool
	types map[string]map[string]typeSet // argument types by tool, see argTypes
	ids   ids

	cut    int    // where content ends, -1 while no marker was seen
	calls  []Call // recognised so far
	failed bool   // all-or-nothing: the response is plain text after all

	// work counts the bytes looked at, which must stay proportional to the
	// length of the text however it is cut. Tests check that.
	work int

	stream  bool
	sent    int // bytes of text already given out as content
	events  []Event
	started int       // calls opened in the events
	open    *openCall // the call whose arguments are being given out
	revised bool      // something given out did not hold
}

// openCall is a call reported to the consumer of a stream before its end.
type openCall struct {
	index int
	id    string
	args  string // the arguments given out
	seen  int    // bytes of the arguments looked at
}

// find returns the position of marker at or after *from. If there is none it
// returns -1 and moves *from to where the marker may still begin.
func (p *pass) find(from *int, marker string) int {
	if i := strings.Index(p.text[*from:], marker); i >= 0 {
		p.work += i + len(marker)
		return *from + i
	}
	p.work += len(p.text) - *from
	*from = max(*from, len(p.text)-len(marker)+1)
	return -1
}

// findAny returns the position of the first of the markers at or after *from
// and which one it is, the earliest in the list where several match. All
// markers begin with the same byte. If there is none it returns -1 and moves
// *from to where one may still begin.
func (p *pass) findAny(from *int, markers []string) (int, int) {
	first := markers[0][0]
	for {
		i := strings.IndexByte(p.text[*from:], first)
		if i < 0 {
			p.work += len(p.text) - *from
			*from = len(p.text)
			return -1, -1
		}
		p.work += i + 1
		*from += i
		rest, partial := p.text[*from:], false
		for which, m := range markers {
			if strings.HasPrefix(rest, m) {
				if partial && !p.final {
					break // an earlier, longer marker may be growing here
				}
				return *from, which
			}
			partial = partial || strings.HasPrefix(m, rest)
		}
		if partial && !p.final {
			return -1, -1
		}
		*from++
	}
}

// indexAny returns how far from the position from the first of the ASCII chars
// is, -1 when there is none.
func (p *pass) indexAny(from int, chars string) int {
	i := strings.IndexAny(p.text[from:], chars)
	if p.work += i + 1; i < 0 {
		p.work += len(p.text) - from
	}
	return i
}

// read lets s go on with the text.
func (p *pass) read(s *jsonScanner) scanResult {
	from := s.pos
	result := s.scan(p.text)
	p.work += s.pos - from + 1
	return result
}

// skipSpace returns the first position at or after from that is not white
// space, and false when the end of the text came first.
func (p *pass) skipSpace(from int) (int, bool) {
	p.work++
	for from < len(p.text) {
		c := p.text[from]
		if c < utf8.RuneSelf {
			if c != ' ' && (c < '\t' || c > '\r') {
				return from, true
			}
			from++
			p.work++
			continue
		}
		rest := p.text[from:]
		if !p.final && !utf8.FullRuneInString(rest) {
			return from, false
		}
		r, size := utf8.DecodeRuneInString(rest)
		if !unicode.IsSpace(r) {
			return from, true
		}
		from += size
		p.work += size
	}
	return from, false
}

// lookahead says what stands at a position.
type lookahead uint8

const (
	lookMore  lookahead = iota // the text ends inside what is looked for
	lookFound                  // it is there
	lookOther                  // something else is there
)

// look says which of the words, if any, stands at pos.
func (p *pass) look(pos int, words ...string) (lookahead, int) {
	rest, partial := p.text[pos:], false
	for i, w := range words {
		if strings.HasPrefix(rest, w) {
			return lookFound, i
		}
		partial = partial || strings.HasPrefix(w, rest)
	}
	if partial {
		return lookMore, 0
	}
	return lookOther, 0
}

// content says that text up to end is content if no call comes before it.
func (p *pass) content(end int) {
	if p.cut >= 0 || !p.stream || p.started > 0 {
		return
	}
	p.give(end)
}

// give hands text up to end out as content, but for a rune that is not complete.
func (p *pass) give(end int) {
	if !p.final {
		end = wholeRunes(p.text, p.sent, end)
	}
	if end <= p.sent {
		return
	}
	p.events = append(p.events, Event{Kind: ContentDelta, Text: p.text[p.sent:end]})
	p.sent = end
}

// mark says that a marker stands at pos: content ends there if calls follow.
// Only the first mark counts.
func (p *pass) mark(pos int) {
	if p.cut < 0 {
		p.content(pos)
		p.cut = pos
	}
}

// unmark takes the mark back: what stood there was no marker after all.
func (p *pass) unmark() {
	if len(p.calls) == 0 {
		p.cut = -1
	}
}

// fail says that the response is malformed in a format that takes all or
// nothing: it is plain text as a whole.
func (p *pass) fail() {
	p.failed = true
	if p.started == 0 {
		p.cut = -1
		p.content(len(p.text))
	}
}

// begin opens a call before its arguments are complete, so that a stream can
// report it. It must be followed by call or drop.
func (p *pass) begin(id, name string) {
	if !p.stream || p.failed {
		return
	}
	if id == "" {
		id = p.ids.next()
	}
	p.open = &openCall{index: p.started, id: id}
	p.started++
	p.events = append(p.events, Event{Kind: CallStart, Index: p.open.index, ID: id, Name: name})
}

// grow reports how much of the open call's arguments is certain. args must
// begin with what the last grow was given. White space at its end is held back,
// because it is none of the arguments' if they end there.
func (p *pass) grow(args string) {
	o := p.open
	if o == nil {
		return
	}
	solid := len(o.args)
	for o.seen < len(args) && utf8.FullRuneInString(args[o.seen:]) {
		r, size := utf8.DecodeRuneInString(args[o.seen:])
		if o.seen += size; !unicode.IsSpace(r) {
			solid = o.seen
		}
	}
	if solid > len(o.args) {
		p.events = append(p.events, Event{Kind: ArgsDelta, Index: o.index, Text: args[len(o.args):solid]})
		o.args = args[:solid]
	}
}

// drop gives up the open call: it turned out not to be one.
func (p *pass) drop() {
	if p.open != nil {
		p.open = nil
		p.revised = true
	}
}

// call records a complete call, the open one if there is one. An empty id asks
// for a random one; so does one that was used before in this response.
func (p *pass) call(c Call) {
	if p.failed {
		return
	}
	switch {
	case p.open != nil:
		c.ID = p.open.id
	case c.ID == "":
		c.ID = p.ids.next()
	}
	p.calls = append(p.calls, c)
	if !p.stream {
		return
	}
	if p.open == nil {
		p.begin(c.ID, c.Name)
	}
	if !strings.HasPrefix(c.Arguments, p.open.args) {
		p.revised = true
	} else if rest := c.Arguments[len(p.open.args):]; rest != "" {
		p.events = append(p.events, Event{Kind: ArgsDelta, Index: p.open.index, Text: rest})
	}
	p.events = append(p.events, Event{
		Kind: CallEnd, Index: p.open.index,
		Truncated: c.Truncated, InvalidArguments: c.InvalidArguments,
	})
	p.open = nil
}

// result is what holds for the text as a whole.
func (p *pass) result() Parsed {
	if p.failed || len(p.calls) == 0 {
		return parsed(p.text, nil)
	}
	return parsed(p.text[:p.cut], p.calls)
}

// wholeRunes moves end back before a rune that the text ends inside of.
func wholeRunes(text string, start, end int) int {
	for i := end - 1; i >= start && i >= end-utf8.UTFMax; i-- {
		if utf8.RuneStart(text[i]) {
			if !utf8.FullRuneInString(text[i:]) {
				return i
			}
			break
		}
	}
	return end
}
