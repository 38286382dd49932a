package parsers

import (
	"slices"
)

// llamaMachine reads calls that are bare JSON objects in the text:
//
//	<|python_tag|>{"name": "f", "parameters": {"a": 1}}; {"name": "g", …}
//
// Any object with a name and parameters or arguments is a call. Other objects
// are passed over whole, so that what is nested in them is never a call. A {
// that starts no valid object is prose.
type llamaMachine struct {
	pos      int
	scanning bool // an object that starts at pos is being read
	value    jsonScanner
	failed   []failedScan
}

// failedScan is what reading an object taught about the objects inside of it
// before it turned out broken. Without that, every { of a broken text would be
// read to the end again.
type failedScan struct {
	end      int    // what lies behind was not seen
	complete []span // objects that are fine by themselves, in order
	broken   []int  // starts of objects that break where the outer one does
}

func newLlama3JSON() machine {
	return &llamaMachine{value: jsonScanner{track: true}}
}

func (m *llamaMachine) scan(p *pass) {
	for {
		if !m.scanning && !m.search(p) {
			return
		}
		if !m.scanning {
			continue
		}
		switch p.read(&m.value) {
		case scanMore:
			if !p.final {
				return
			}
			m.learn()
		case scanBad:
			m.learn()
		case scanDone:
			m.scanning = false
			m.object(p, span{m.pos, m.value.pos})
		}
	}
}

// search goes on to the next object and starts to read it, or takes it from
// what is known already. It returns false when more text is needed.
func (m *llamaMachine) search(p *pass) bool {
	i := p.indexAny(m.pos, "{<")
	if i < 0 {
		m.pos = len(p.text)
		p.content(m.pos)
		return false
	}
	m.pos += i
	if p.text[m.pos] == '<' {
		markers := []string{"<|python_tag|>", "<|python_start|>"}
		switch found, which := p.look(m.pos, markers...); {
		case found == lookFound:
			p.mark(m.pos)
			m.pos += len(markers[which])
		case found == lookMore && !p.final:
			p.content(m.pos)
			return false
		default:
			m.pos++
		}
		return true
	}
	if rest := p.text[m.pos+1:]; rest != "" && rest[0] != '"' && rest[0] != '}' && !isJSONSpace(rest[0]) {
		m.pos++ // prose, by far the most frequent case
		return true
	}
	known, broken := m.recall()
	switch {
	case known.end > 0:
		m.object(p, known)
	case broken:
		m.pos++
	default:
		p.content(m.pos)
		m.value.reset(m.pos)
		m.scanning = true
	}
	return true
}

// learn keeps what the failed scan has seen and goes behind its first byte.
func (m *llamaMachine) learn() {
	f := failedScan{end: m.value.pos, complete: slices.Clone(m.value.objects)}
	for _, frame := range m.value.stack {
		if frame.object && frame.open > m.pos {
			f.broken = append(f.broken, frame.open)
		}
	}
	m.scanning = false
	m.pos++
	if len(f.complete) > 0 || len(f.broken) > 0 {
		m.failed = append(m.failed, f)
	}
}

// recall looks up what failed scans know about the object at pos: its span if
// it is complete, or that it is broken.
func (m *llamaMachine) recall() (span, bool) {
	m.failed = slices.DeleteFunc(m.failed, func(f failedScan) bool { return f.end <= m.pos })
	for i := range m.failed {
		f := &m.failed[i]
		for len(f.complete) > 0 && f.complete[0].start < m.pos {
			f.complete = f.complete[1:]
		}
		for len(f.broken) > 0 && f.broken[0] < m.pos {
			f.broken = f.broken[1:]
		}
		if len(f.complete) > 0 && f.complete[0].start == m.pos {
			return f.complete[0], false
		}
		if len(f.broken) > 0 && f.broken[0] == m.pos {
			return span{}, true
		}
	}
	return span{}, false
}

// object takes the complete object s as a call if it is one, and goes behind it.
func (m *llamaMachine) object(p *pass, s span) {
	call, ok := callFromObject(p.text[s.start:s.end], callKeys{parameters: true, required: true})
	if ok {
		p.mark(s.start)
		p.call(call)
	}
	m.pos = s.end
}
