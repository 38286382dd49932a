package parsers

import "strings"

// tokenMachine reads formats whose calls are fenced by special tokens:
//
//	BEGIN header SEPARATOR arguments END
//
// behind a token that opens the section. The arguments are passed on as the
// model wrote them. A call whose END is missing is dropped, others stay.
type tokenMachine struct {
	gates      []string // any of them opens the section
	begin, sep string
	end        string
	section    []string // tokens that end the section
	// fenceOpen and fenceClose stand around the arguments, besides white space.
	// Where a format has them, the name is between SEPARATOR and fenceOpen.
	fenceOpen, fenceClose string
	// header takes the header of a call apart. At first args is empty and final
	// is false; when it then returns false it is asked again with the arguments.
	header func(p *pass, header, args string, final bool) (id, name string, ok bool)

	state tokenState
	pos   int
	body  int    // where the text behind BEGIN starts
	start int    // of the header, later of the arguments
	stop  int    // the end of arguments that are complete JSON
	head  string // the header
	id    string
	name  string
	known bool // id and name are
	value jsonScanner
}

type tokenState uint8

const (
	tokenText    tokenState = iota // before the section
	tokenBetween                   // in the section, between calls
	tokenHeader                    // behind BEGIN
	tokenFence                     // behind SEPARATOR, before the opening fence
	tokenArgs                      // before the arguments
	tokenValue                     // inside arguments that are JSON so far
	tokenFenced                    // behind complete JSON, before the closing fence
	tokenEnd                       // behind complete JSON, before END
	tokenPlain                     // inside arguments that are not JSON
)

func (m *tokenMachine) closers() []string { return m.section }

func (m *tokenMachine) scan(p *pass) {
	for m.step(p) {
	}
}

// step takes one step and returns false when more text is needed.
func (m *tokenMachine) step(p *pass) bool {
	switch m.state {
	case tokenText:
		i, which := p.findAny(&m.pos, m.gates)
		if i < 0 {
			p.content(m.pos)
			return false
		}
		p.mark(i, len(m.gates[which]))
		m.pos, m.state = i+len(m.gates[which]), tokenBetween
	case tokenBetween:
		markers := append([]string{m.begin}, m.gates...)
		i, which := p.findAny(&m.pos, markers)
		if i < 0 {
			p.content(m.pos)
			return false
		}
		p.mark(i, len(markers[which]))
		if m.pos = i + len(markers[which]); which == 0 {
			m.start, m.state = m.pos, tokenHeader
			m.body = m.pos
		}
	case tokenHeader:
		i, which := p.findAny(&m.pos, []string{m.sep, m.begin, m.end})
		if i < 0 {
			return false
		}
		if which != 0 {
			m.pos, m.state = i, tokenBetween
			return true
		}
		m.head = p.text[m.start:i]
		m.pos, m.state = i+len(m.sep), tokenArgs
		if m.fenceOpen != "" {
			m.start, m.state = m.pos, tokenFence
		}
	case tokenFence:
		return m.fence(p)
	case tokenArgs:
		return m.arguments(p)
	case tokenValue:
		switch p.read(&m.value) {
		case scanMore:
			if !p.final {
				p.grow(p.text[m.start:m.value.pos])
				return false
			}
			m.plain()
		case scanBad:
			p.grow(p.text[m.start:m.value.pos])
			m.plain()
		case scanDone:
			m.pos, m.stop, m.state = m.value.pos, m.value.pos, tokenEnd
			if m.fenceClose != "" {
				m.state = tokenFenced
			}
			p.grow(p.text[m.start:m.stop])
		}
	case tokenFenced:
		return m.expect(p, m.fenceClose)
	case tokenEnd:
		return m.expect(p, m.end)
	case tokenPlain:
		return m.malformed(p)
	}
	return true
}

// fence looks for the opening fence, before which the name stands. A token that
// comes first ends the call without arguments: it is dropped.
func (m *tokenMachine) fence(p *pass) bool {
	i, which := p.findFence(&m.pos, m.fenceOpen, []string{m.begin, m.end})
	if i < 0 {
		return false
	}
	if which >= 0 {
		m.pos, m.state = i, tokenBetween
		return true
	}
	m.head = p.text[m.start:i]
	m.pos, m.state = i+len(m.fenceOpen), tokenArgs
	return true
}

// arguments goes to the first byte of the arguments and opens the call.
func (m *tokenMachine) arguments(p *pass) bool {
	var ok bool
	if m.pos, ok = p.skipSpace(m.pos); !ok {
		return false
	}
	m.start, m.state = m.pos, tokenPlain
	m.id, m.name, m.known = m.header(p, m.head, "", false)
	if m.known {
		m.id = p.ids.unique(m.id)
	}
	if p.text[m.pos] == '{' {
		m.value.reset(m.pos)
		m.state = tokenValue
		if m.known {
			p.begin(m.id, m.name, m.body)
		}
	}
	return true
}

// plain goes on without the help of the JSON grammar.
func (m *tokenMachine) plain() {
	m.pos, m.state = m.start, tokenPlain
}

// expect wants word, after white space, behind complete JSON.
func (m *tokenMachine) expect(p *pass, word string) bool {
	var ok bool
	if m.pos, ok = p.skipSpace(m.pos); !ok && !p.final {
		return false
	}
	found, _ := p.look(m.pos, word)
	switch {
	case found == lookMore && !p.final:
		return false
	case found != lookFound:
		m.plain()
	case m.state == tokenFenced:
		m.pos, m.state = m.pos+len(word), tokenEnd
	default:
		m.pos, m.state = m.pos+len(word), tokenBetween
		m.emit(p, p.text[m.start:m.stop])
	}
	return true
}

// malformed takes everything up to END as the arguments; the start of another
// call before it means that this one has no end.
func (m *tokenMachine) malformed(p *pass) bool {
	i, which := p.findAny(&m.pos, []string{m.end, m.begin})
	if i < 0 {
		return false
	}
	if which == 1 {
		p.drop()
		m.pos, m.state = i, tokenBetween
		return true
	}
	args := strings.TrimSpace(p.text[m.start:i])
	m.pos = i + len(m.end)
	if m.fenceClose != "" {
		var fenced bool
		if args, fenced = strings.CutSuffix(args, m.fenceClose); !fenced {
			return true // END without the fence is part of the arguments
		}
	}
	m.state = tokenBetween
	m.emit(p, args)
	return true
}

// emit records the call.
func (m *tokenMachine) emit(p *pass, args string) {
	if !m.known {
		id, name, ok := m.header(p, m.head, args, true)
		if !ok {
			p.drop()
			return
		}
		m.id, m.name = p.ids.unique(id), name
	}
	p.call(verbatimCall(m.id, m.name, args, false), m.body, m.pos)
}

// findFence returns the position of fence or of one of the markers, whichever
// comes first at or after *from, and which marker it is (-1 for the fence). If
// there is none it returns -1 and moves *from to where one may still begin.
func (p *pass) findFence(from *int, fence string, markers []string) (int, int) {
	other := *from
	stop, which := p.findAny(&other, markers)
	if stop >= 0 {
		if i := strings.Index(p.text[*from:stop], fence); i >= 0 {
			return *from + i, -1
		}
		return stop, which
	}
	if i := p.find(from, fence); i >= 0 {
		return i, -1
	}
	*from = min(*from, other)
	return -1, -1
}
