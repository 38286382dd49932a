package parsers

import "strings"

// llamaMachine reads calls that are bare JSON objects in the text:
//
//	<|python_tag|>{"name": "f", "parameters": {"a": 1}}; {"name": "g", …}
//
// Any object with a name and parameters or arguments is a call, unless it
// stands inside other braces: what is nested in another object, in prose in
// braces or in malformed JSON such as {{…}} is never a call.
type llamaMachine struct {
	pos      int
	scanning bool // an object that starts at pos is being read
	value    jsonScanner

	depth   int  // braces that were opened outside of complete objects
	strings bool // they are of JSON that broke, so braces in strings don't count
	quoted  bool
}

const (
	llamaTag   = "<|python_tag|>"
	llamaStart = "<|python_start|>"
	llamaEnd   = "<|python_end|>"
)

func newLlama3JSON() machine { return &llamaMachine{} }

// closers are what separates calls, and the end of a list of them.
func (m *llamaMachine) closers() []string { return []string{";", ",", "]", llamaEnd} }

func (m *llamaMachine) scan(p *pass) {
	for m.step(p) {
	}
}

// step takes one step and returns false when more text is needed.
func (m *llamaMachine) step(p *pass) bool {
	switch {
	case !m.scanning && m.depth == 0:
		return m.search(p)
	case !m.scanning:
		return m.nested(p)
	}
	switch p.read(&m.value) {
	case scanMore:
		if p.final {
			m.broken(p)
		}
		return p.final
	case scanBad:
		m.broken(p)
	case scanDone:
		m.object(p)
	}
	return true
}

// search goes on to the next object and starts to read it. It returns false
// when more text is needed.
func (m *llamaMachine) search(p *pass) bool {
	i := indexBrace(p.text[m.pos:])
	p.work += i + 1
	m.pos += i
	if m.pos == len(p.text) {
		p.content(m.pos)
		return false
	}
	next := byte(0) // unknown yet
	if m.pos+1 < len(p.text) {
		next = p.text[m.pos+1]
	}
	switch c := p.text[m.pos]; {
	case c == '<':
		return m.tag(p)
	case c == '[': // a list of calls perhaps
		p.mark(m.pos, 1)
		m.pos++
	case next == 0 && !p.final:
		p.content(m.pos)
		return false
	case next != 0 && next != '"' && next != '}' && !isJSONSpace(next):
		m.pos++ // prose, by far the most frequent case
		m.depth = 1
	default:
		p.content(m.pos)
		m.value.reset(m.pos)
		m.scanning = true
	}
	return true
}

// indexBrace returns the position of the first byte of s with which an object,
// a list of them or a tag may begin, len(s) if there is none.
func indexBrace(s string) int {
	for i := range len(s) {
		switch s[i] {
		case '{':
			return i
		case '<':
			if i+1 == len(s) || s[i+1] == '|' {
				return i
			}
		case '[':
			if i+1 == len(s) || s[i+1] == '{' || isJSONSpace(s[i+1]) {
				return i
			}
		}
	}
	return len(s)
}

// tag reads what may be a marker. Behind one, no brace before it counts.
func (m *llamaMachine) tag(p *pass) bool {
	markers := []string{llamaTag, llamaStart}
	switch found, which := p.look(m.pos, markers...); {
	case found == lookFound:
		p.mark(m.pos, len(markers[which]))
		m.pos += len(markers[which])
		m.depth, m.strings, m.quoted = 0, false, false
	case found == lookMore && !p.final:
		p.content(m.pos)
		return false
	default:
		m.pos++
	}
	return true
}

// nested goes on to where the open braces are closed.
func (m *llamaMachine) nested(p *pass) bool {
	start := m.pos
	defer func() { p.work += m.pos - start + 1 }()
	for ; m.depth > 0; m.pos++ {
		if m.pos >= len(p.text) {
			p.content(m.pos)
			return false
		}
		switch c := p.text[m.pos]; {
		case c == '<':
			return m.tag(p)
		case m.strings && c == '"':
			m.quoted = !m.quoted
		case m.quoted && c == '\\':
			if m.pos+1 == len(p.text) && !p.final {
				return false
			}
			m.pos = min(m.pos+1, len(p.text)-1)
		case m.quoted:
		case c == '{':
			m.depth++
		case c == '}':
			m.depth--
		}
	}
	m.strings, m.quoted = false, false
	return true
}

// broken goes behind JSON that turned out malformed, into the braces it opened,
// or to a tag inside of it.
func (m *llamaMachine) broken(p *pass) {
	m.scanning = false
	p.work += m.value.pos - m.pos
	if tag := strings.Index(p.text[m.pos:m.value.pos], llamaTag); tag >= 0 {
		m.pos += tag
		return
	}
	m.pos = m.value.pos
	m.strings = true
	m.quoted = m.value.state == inString || m.value.state == inKey || m.value.state == inEscape || m.value.state == inHex
	for _, object := range m.value.stack {
		if object {
			m.depth++
		}
	}
}

// object takes the complete object as a call if it is one, and goes behind it.
func (m *llamaMachine) object(p *pass) {
	start, end := m.pos, m.value.pos
	m.pos, m.scanning = end, false
	call, ok := callFromObject(p.text[start:end], callKeys{parameters: true, required: true})
	if ok {
		p.call(call, start, end)
	}
}
