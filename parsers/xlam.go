package parsers

import "strings"

// xlamMachine reads a JSON array of calls that stands at the beginning of the
// response, behind </think>, in a code block, behind [TOOL_CALLS] or between
// <tool_call> tags. The first array of calls counts and ends the search.
type xlamMachine struct {
	state xlamState
	pos   int
	value jsonScanner
}

type xlamState uint8

const (
	xlamStart  xlamState = iota // where an array may stand
	xlamSearch                  // looking for the next such place
	xlamValue                   // inside an array
	xlamDone                    // the calls were found
)

func newXLAM() machine { return &xlamMachine{} }

func (m *xlamMachine) closers() []string { return []string{"```", "</tool_call>"} }

func (m *xlamMachine) scan(p *pass) {
	for m.step(p) {
	}
}

// step takes one step and returns false when more text is needed.
func (m *xlamMachine) step(p *pass) bool {
	switch m.state {
	case xlamStart:
		at, ok := p.skipSpace(m.pos)
		m.pos = at
		if !ok {
			return false
		}
		m.state = xlamSearch
		if p.text[at] == '[' {
			m.value.reset(at)
			m.state = xlamValue
		}
	case xlamSearch:
		return m.search(p)
	case xlamValue:
		switch p.read(&m.value) {
		case scanMore:
			if !p.final {
				return false
			}
			m.state = xlamSearch
		case scanBad:
			m.state = xlamSearch
		case scanDone:
			calls, ok := callsFromJSON(p.text[m.pos:m.value.pos], callKeys{})
			if !ok || len(calls) == 0 {
				m.state = xlamSearch
				return true
			}
			for _, c := range calls {
				p.call(c, m.pos, m.value.pos)
			}
			m.state = xlamDone
		}
	case xlamDone:
		p.content(len(p.text))
		return false
	}
	return true
}

// search looks for the next place where an array may stand.
func (m *xlamMachine) search(p *pass) bool {
	i := p.indexAny(m.pos, "<[`")
	if i < 0 {
		m.pos = len(p.text)
		p.content(m.pos)
		return false
	}
	m.pos += i
	p.content(m.pos)
	words := []string{"</think>", "```json", "```", mistralCalls, "<tool_call>"}
	found, which := p.look(m.pos, words...)
	if found == lookMore && !p.final || found == lookFound && which == 2 && p.growing(m.pos, words[1]) {
		return false
	}
	if found != lookFound {
		m.pos++
		return true
	}
	if which > 0 { // the reasoning stays in the content
		p.mark(m.pos, len(words[which]))
	}
	m.pos += len(words[which])
	m.state = xlamStart
	return true
}

// growing reports whether the text ends inside word, which began at pos.
func (p *pass) growing(pos int, word string) bool {
	return !p.final && strings.HasPrefix(word, p.text[pos:])
}

// renderXLAM writes a bare array; behind content it needs a code block.
func renderXLAM(b *strings.Builder, content string, calls []Call) {
	if content == "" {
		renderArray("", "", "")(b, "", calls)
		return
	}
	renderArray("```json\n", "\n```", "\n\n")(b, content, calls)
}
