package parsers

import "strings"

// taggedJSON reads formats that put JSON between two tags, such as
//
//	<tool_call>
//	{"name": "f", "arguments": {"a": 1}}
//	</tool_call>
//
// The JSON is one call object or an array of them. The end of the JSON is found
// by its grammar, so a tag inside a string is data. A malformed block makes the
// whole response plain text, unless the format is lenient. A missing closing tag
// at the end of the text is forgiven when the JSON is complete.
type taggedJSON struct {
	open  []string // any of them opens a block
	close []string // any of them closes it; none where the format has no closing tag
	// repeat says that blocks without a closing tag may follow each other;
	// otherwise what follows the first one is content.
	repeat bool
	// overlap is how many bytes at the end of the opening tag are JSON already.
	overlap int
	keys    callKeys
	// lead are markers that belong to the opening tag that follows them; before
	// it there may be a name if named is set.
	lead  []string
	named bool
	// lenient makes a malformed block content, instead of the whole response.
	lenient bool
	// only is the bracket the JSON must begin with, if only one will do.
	only byte

	state taggedState
	pos   int
	body  span // the JSON of the block that is being read
	value jsonScanner
}

type taggedState uint8

const (
	taggedText  taggedState = iota // before a block
	taggedLead                     // behind a lead, before the opening tag
	taggedBody                     // behind the opening tag
	taggedValue                    // inside the JSON
	taggedClose                    // behind the JSON
	taggedEnd                      // everything that follows is content
)

func (m *taggedJSON) scan(p *pass) {
	for !p.failed {
		switch m.state {
		case taggedText:
			markers := m.open
			if len(m.lead) > 0 {
				markers = append(append([]string{}, m.open...), m.lead...)
			}
			i, which := p.findAny(&m.pos, markers)
			switch {
			case i < 0:
				p.content(m.pos)
				return
			case which < len(m.open):
				m.pos = i + len(markers[which]) - m.overlap
				p.mark(i, m.pos-i)
				m.state = taggedBody
			default:
				m.pos = i + len(markers[which])
				if p.mark(i, m.pos-i); m.named {
					m.state, m.body.start = taggedLead, i
				}
			}
		case taggedLead:
			for m.pos < len(p.text) && (isNameByte(p.text[m.pos]) || strings.IndexByte("-.:/", p.text[m.pos]) >= 0) {
				m.pos++
				p.work++
			}
			found, which := p.look(m.pos, m.open...)
			if found == lookMore && !p.final {
				return
			}
			m.state = taggedText
			if found == lookFound {
				m.pos += len(m.open[which])
				p.opener = span{m.body.start, m.body.start}
				p.mark(m.body.start, m.pos-m.body.start)
				m.state = taggedBody
			}
		case taggedBody:
			var ok bool
			if m.pos, ok = p.skipSpace(m.pos); !ok {
				return
			}
			if c := p.text[m.pos]; (c == '{' || c == '[') && (m.only == 0 || c == m.only) {
				m.value.reset(m.pos)
				m.body.start = m.pos
				m.state = taggedValue
				continue
			}
			at := m.pos
			if !m.closeTag(p) {
				if m.state == taggedBody {
					return
				}
				continue
			}
			p.mark(at, m.pos-at) // an empty block
		case taggedValue:
			switch p.read(&m.value) {
			case scanMore:
				if p.final {
					m.reject(p)
					m.state = taggedEnd
				}
				return
			case scanBad:
				m.pos = m.value.pos
				m.reject(p)
				continue
			}
			m.pos, m.body.end = m.value.pos, m.value.pos
			m.state = taggedClose
			if len(m.close) == 0 {
				m.emit(p, m.pos)
				m.state = taggedEnd
				if m.repeat {
					m.state = taggedText
				}
			}
		case taggedClose:
			var ok bool
			if m.pos, ok = p.skipSpace(m.pos); !ok {
				if p.final {
					m.emit(p, m.pos)
				}
				return
			}
			if !m.closeTag(p) {
				if m.state != taggedClose {
					continue
				}
				if p.final && !p.failed { // the text was cut inside the closing tag
					m.emit(p, len(p.text))
				}
				return
			}
			m.emit(p, m.pos)
		case taggedEnd:
			p.content(len(p.text))
			return
		}
	}
}

// closeTag moves behind the closing tag that must stand here. It returns false
// when the text ends inside it, and when something else stands here.
func (m *taggedJSON) closeTag(p *pass) bool {
	if len(m.close) == 0 {
		m.reject(p)
		return false
	}
	found, which := p.look(m.pos, m.close...)
	switch found {
	case lookFound:
		m.pos += len(m.close[which])
		m.state = taggedText
		return true
	case lookOther:
		m.reject(p)
	}
	return false
}

// reject says that the block is malformed.
func (m *taggedJSON) reject(p *pass) {
	if !m.lenient {
		p.fail()
	}
	m.state = taggedText
}

func (m *taggedJSON) closers() []string { return m.close }

// emit records the calls of the block, which ends at end.
func (m *taggedJSON) emit(p *pass, end int) {
	calls, ok := callsFromJSON(p.text[m.body.start:m.body.end], m.keys)
	if !ok {
		m.reject(p)
		return
	}
	for _, c := range calls {
		if c.ID != "" && !p.ids.claim(c.ID) {
			c.ID = ""
		}
		p.call(c, m.body.start, end)
	}
}
