package parsers

import "strings"

const (
	mistralCalls  = "[TOOL_CALLS]"
	mistralArgs   = "[ARGS]"
	mistralCallID = "[CALL_ID]"
)

// mistralMachine reads both generations of Mistral's format:
//
//	[TOOL_CALLS][{"name": "f", "arguments": {"a": 1}}, …]
//	[TOOL_CALLS]f[CALL_ID]abcdefghi[ARGS]{"a": 1}[TOOL_CALLS]…
//
// What follows a marker decides which. The end of the arguments is found by the
// JSON grammar, so that a marker inside a string is data.
type mistralMachine struct {
	state mistralState
	pos   int
	start int // of what follows the marker, later of the JSON
	seg   int // of what follows the marker
	id    string
	name  string
	value jsonScanner
}

type mistralState uint8

const (
	mistralText  mistralState = iota // before the first marker
	mistralMode                      // behind a marker
	mistralSkip                      // looking for the next marker
	mistralArray                     // array form: inside the JSON
	mistralName                      // name form: before the {
	mistralValue                     // name form: inside arguments that are JSON so far
	mistralPlain                     // name form: inside arguments that are not
)

func newMistral() machine { return &mistralMachine{} }

func (m *mistralMachine) closers() []string { return nil }

func (m *mistralMachine) scan(p *pass) {
	for m.step(p) {
	}
}

// step takes one step and returns false when more text is needed.
func (m *mistralMachine) step(p *pass) bool {
	switch m.state {
	case mistralText:
		i, _ := p.findAny(&m.pos, []string{mistralCalls})
		if i < 0 {
			p.content(m.pos)
			return false
		}
		p.mark(i, len(mistralCalls))
		m.segment(i + len(mistralCalls))
	case mistralMode:
		at, ok := p.skipSpace(m.pos)
		m.pos = at
		if !ok {
			return false
		}
		m.state = mistralName
		if p.text[at] == '[' || p.text[at] == '{' {
			m.start, m.state = at, mistralArray
			m.value.reset(at)
		}
	case mistralSkip:
		i := p.find(&m.pos, mistralCalls)
		if i < 0 {
			p.content(m.pos)
			return false
		}
		p.mark(i, len(mistralCalls))
		m.segment(i + len(mistralCalls))
	case mistralArray:
		return m.arrayForm(p)
	case mistralName:
		return m.header(p)
	case mistralValue:
		switch p.read(&m.value) {
		case scanMore:
			if !p.final {
				p.grow(p.text[m.start:m.value.pos])
				return false
			}
			m.pos, m.state = m.start, mistralPlain
		case scanBad:
			p.grow(p.text[m.start:m.value.pos])
			m.pos, m.state = m.start, mistralPlain
		case scanDone:
			m.emit(p, m.value.pos, false)
		}
	case mistralPlain:
		return m.malformed(p)
	}
	return true
}

// segment goes to what follows a marker.
func (m *mistralMachine) segment(at int) {
	m.pos, m.seg, m.state = at, at, mistralMode
}

// arrayForm reads the JSON of the array form. What follows it is content.
func (m *mistralMachine) arrayForm(p *pass) bool {
	switch p.read(&m.value) {
	case scanMore:
		if !p.final {
			return false
		}
		m.pos, m.state = m.seg, mistralSkip
		return true
	case scanBad:
		m.pos, m.state = m.seg, mistralSkip
		return true
	}
	m.pos, m.state = m.value.pos, mistralSkip
	if calls, ok := callsFromJSON(p.text[m.start:m.pos], callKeys{verbatimString: true, id: true}); ok {
		for _, c := range calls {
			if c.ID != "" && !p.ids.claim(c.ID) {
				c.ID = ""
			}
			p.call(c, m.start, m.pos)
		}
	}
	return true
}

// header reads the name and id, which end at the first {. A segment without one
// is no call, and what precedes [{ is no name: the array form starts there.
func (m *mistralMachine) header(p *pass) bool {
	for {
		i := p.indexAny(m.pos, "{[")
		if i < 0 {
			m.pos = len(p.text)
			return false
		}
		m.pos += i
		if p.text[m.pos] == '{' {
			break
		}
		switch found, _ := p.look(m.pos, mistralCalls); {
		case found == lookFound:
			m.state = mistralSkip
			return true
		case found == lookMore && !p.final:
			return false
		}
		if strings.HasPrefix(p.text[m.pos:], "[{") {
			m.start, m.state = m.pos, mistralArray
			m.value.reset(m.pos)
			return true
		}
		m.pos++
	}
	var id string
	m.name, id = mistralHeader(p.text[m.seg:m.pos])
	if m.name == "" {
		m.state = mistralSkip
		return true
	}
	if m.id = ""; id != "" && p.ids.claim(id) {
		m.id = id
	}
	m.start = m.pos
	m.value.reset(m.pos)
	m.state = mistralValue
	p.begin(m.id, m.name, m.seg)
	return true
}

// mistralHeader splits what precedes the arguments: NAME [CALL_ID] ID [ARGS],
// where the two markers may be missing.
func mistralHeader(head string) (name, id string) {
	head, _, _ = strings.Cut(head, mistralArgs)
	name, id, _ = strings.Cut(head, mistralCallID)
	return strings.TrimSpace(name), strings.TrimSpace(id)
}

// malformed takes arguments that are not JSON: up to the bracket that closes
// them, else everything up to the next marker.
func (m *mistralMachine) malformed(p *pass) bool {
	end := p.find(&m.pos, mistralCalls)
	if end < 0 {
		if !p.final {
			return false
		}
		end = len(p.text)
	}
	if n := balancedEnd(p.text[m.start:end]); n >= 0 {
		m.emit(p, m.start+n, false)
	} else {
		m.emit(p, end, true)
	}
	return true
}

// emit records the call whose arguments end at end.
func (m *mistralMachine) emit(p *pass, end int, truncated bool) {
	p.call(verbatimCall(m.id, m.name, p.text[m.start:end], truncated), m.seg, end)
	m.pos, m.state = end, mistralSkip
}

// balancedEnd returns the end of the bracketed text that s starts with, where
// brackets inside double quotes do not count; -1 when it is not closed.
func balancedEnd(s string) int {
	depth, quoted := 0, false
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			depth++
		case c == '}' || c == ']':
			if depth--; depth == 0 {
				return i + 1
			}
		}
	}
	return -1
}
