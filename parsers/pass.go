package parsers

import (
	"slices"
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
	// closers are the markers that may stand directly behind a call and belong
	// to it, such as the end of the section the calls are in.
	closers() []string
}

// turnEnds are tokens that end a turn. Directly behind a call they are markup.
var turnEnds = [...]string{
	"<|im_end|>", "<|eot_id|>", "<|eom_id|>", "<|eot|>", "<|eom|>", "<|end|>", "<|end_of_text|>", "<|endoftext|>", "</s>", "<end_of_turn>", "<turn|>",
	"<\uff5cend\u2581of\u2581sentence\uff5c>", "<|END_OF_TURN_TOKEN|>", "<|message_sep|>", "<|observation|>", "<seed:eos>", "[EOS]",
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

	calls  []Call // recognised so far
	failed bool   // all-or-nothing: the response is plain text after all

	// Text before taken is either content, as pieces say, or markup of calls.
	taken  int
	pieces []span // the content; each but the first begins behind a call
	behind bool   // taken is behind a call, whose closers may follow
	tail   []string
	// opener is a marker that belongs to a call if one follows, and is content
	// if anything else does; up to blank, only white space is known to follow.
	opener span
	blank  int

	// work counts the bytes looked at, which must stay proportional to the
	// length of the text however it is cut. Tests check that.
	work int

	stream  bool
	sent    int  // text before it is given out as content, or markup
	given   int  // where the content given out ends
	fresh   bool // a call came since
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
	// before is how the text was divided when the call was opened, for the case
	// that it turns out not to be one.
	before division
}

// division is the part of a pass that says how its text divides.
type division struct {
	taken  int
	pieces int // how many there are
	last   span
	behind bool
	opener span
	blank  int
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
// and which one it is, the earliest in the list where several match. If there
// is none it returns -1 and moves *from to where one may still begin.
func (p *pass) findAny(from *int, markers []string) (int, int) {
	first, more := firstBytes(markers)
	for {
		var i int
		if more == 0 {
			i = strings.IndexByte(p.text[*from:], first)
		} else {
			i = indexEither(p.text[*from:], first, more)
		}
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

// firstBytes returns the bytes that the markers begin with, of which there may
// be two; the second is 0 if they all begin alike.
func firstBytes(markers []string) (first, more byte) {
	first = markers[0][0]
	for _, m := range markers[1:] {
		if m[0] != first {
			more = m[0]
		}
	}
	return first, more
}

// indexEither returns the position of the first of two bytes, -1 if neither
// occurs.
func indexEither(s string, a, b byte) int {
	for i := range len(s) {
		if s[i] == a || s[i] == b {
			return i
		}
	}
	return -1
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

// content says that text up to end holds no call that was not recorded: it is
// content, but for what belongs to the call before it or may belong to the next.
func (p *pass) content(end int) {
	if p.behind && !p.skipClosers(end) {
		return
	}
	if p.held() {
		for p.blank < end {
			r, size := utf8.DecodeRuneInString(p.text[p.blank:])
			if !unicode.IsSpace(r) {
				break
			}
			p.blank += size
			p.work += size
		}
		if p.blank >= end {
			return
		}
	}
	p.assign(end)
}

// held reports whether the text that comes next is an opener.
func (p *pass) held() bool {
	return p.opener.end > p.opener.start && p.opener.start == p.taken
}

// skipClosers goes behind the white space and the closers that follow a call.
// It returns false when end comes first.
func (p *pass) skipClosers(end int) bool {
	for {
		at, ok := p.skipSpace(p.taken)
		p.taken = at
		if !ok || at >= end {
			return false
		}
		found, which := p.look(at, p.tail...)
		size := 0
		if found == lookFound {
			size = len(p.tail[which])
		} else if ends, which := p.look(at, turnEnds[:]...); ends == lookFound {
			found, size = lookFound, len(turnEnds[which])
		} else if ends == lookMore && !p.final {
			found = lookMore
		}
		switch {
		case found == lookFound:
			p.taken += size
		case found == lookMore && !p.final:
			return false
		case found == lookMore && len(p.text)-at > 1: // the text was cut inside a closer
			p.taken = len(p.text)
			return false
		default:
			p.behind = false
			if n := len(p.pieces); n > 0 && p.pieces[n-1].start == p.pieces[n-1].end {
				p.pieces = p.pieces[:n-1]
			}
			p.pieces = append(p.pieces, span{at, at})
			return true
		}
	}
}

// assign makes text up to end content, and hands it out.
func (p *pass) assign(end int) {
	if len(p.pieces) == 0 {
		p.pieces = append(p.pieces, span{})
	}
	if end > p.taken {
		p.taken = end
		p.pieces[len(p.pieces)-1].end = end
		p.opener = span{}
	}
	p.give(end)
}

// give hands text of the last piece up to end out, but for a rune that is not
// complete. Pieces are joined by a newline where no white space parts them.
func (p *pass) give(end int) {
	if !p.stream {
		return
	}
	from := p.sent
	if n := len(p.pieces); n > 0 {
		from = max(from, p.pieces[n-1].start)
	}
	for n := 1; n < utf8.UTFMax && end < len(p.text) && end > from && !utf8.RuneStart(p.text[end]); n++ {
		end-- // a scan may stop inside a rune
	}
	if !p.final {
		end = wholeRunes(p.text, from, end)
	}
	if end <= from {
		return
	}
	text := p.text[from:end]
	if p.fresh && needsNewline(p.text[:p.given]) {
		text = "\n" + text
	}
	p.fresh, p.given = false, end
	p.events = append(p.events, Event{Kind: ContentDelta, Text: text})
	p.sent = end
}

// mark says that a marker of n bytes stands at pos. It belongs to the call that
// follows, together with markers that only white space separates from it.
func (p *pass) mark(pos, n int) {
	p.content(pos)
	if p.held() && p.blank >= pos {
		p.opener.end = pos + n
	} else {
		p.opener = span{pos, pos + n}
	}
	p.blank = pos + n
}

// take says that text from start to end, besides the opener before and the
// closers behind it, is a call.
func (p *pass) take(start, end int) {
	p.content(start)
	if !p.behind {
		p.give(p.taken)
	}
	p.taken = max(p.taken, end)
	p.sent = p.taken
	p.behind, p.opener, p.fresh = true, span{}, true
}

// close says that the text is complete: what is left of it is content.
func (p *pass) close() {
	if p.failed || p.behind && !p.skipClosers(len(p.text)) {
		return
	}
	p.assign(len(p.text))
}

// joined is the content: its pieces, with a newline between those that no white
// space parts.
func (p *pass) joined() string {
	filled := func(s span) bool { return s.end > s.start }
	switch first := slices.IndexFunc(p.pieces, filled); {
	case first < 0:
		return ""
	case !slices.ContainsFunc(p.pieces[first+1:], filled):
		return p.text[p.pieces[first].start:p.pieces[first].end]
	}
	var b strings.Builder
	before := ""
	for _, s := range p.pieces {
		piece := p.text[s.start:s.end]
		if piece == "" {
			continue
		}
		if needsNewline(before) {
			b.WriteByte('\n')
		}
		b.WriteString(piece)
		before = piece
	}
	return b.String()
}

// needsNewline reports whether the next piece of content would run together
// with the one before it.
func needsNewline(before string) bool {
	last, size := utf8.DecodeLastRuneInString(before)
	return size > 0 && !unicode.IsSpace(last)
}

// fail says that the response is malformed in a format that takes all or
// nothing: it is plain text as a whole.
func (p *pass) fail() {
	p.failed = true
	if p.started == 0 {
		p.give(len(p.text))
	}
}

// begin opens a call before its arguments are complete, so that a stream can
// report it. Its text begins at start. It must be followed by call or drop.
func (p *pass) begin(id, name string, start int) {
	if !p.stream || p.failed {
		return
	}
	before := division{taken: p.taken, pieces: len(p.pieces), behind: p.behind, opener: p.opener, blank: p.blank}
	if before.pieces > 0 {
		before.last = p.pieces[before.pieces-1]
	}
	p.take(start, start)
	if id == "" {
		id = p.ids.next()
	}
	p.open = &openCall{index: p.started, id: id, before: before}
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
		b := p.open.before
		p.taken, p.behind, p.opener, p.blank = b.taken, b.behind, b.opener, b.blank
		if p.pieces = p.pieces[:b.pieces]; b.pieces > 0 {
			p.pieces[b.pieces-1] = b.last
		}
		p.open = nil
		p.revised = true
	}
}

// call records a complete call whose text is from start to end, the open one if
// there is one. An empty id asks for a random one; so does one that was used
// before in this response.
func (p *pass) call(c Call, start, end int) {
	if p.failed {
		return
	}
	p.take(start, end)
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
		p.begin(c.ID, c.Name, end)
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
	return parsed(p.joined(), p.calls)
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
