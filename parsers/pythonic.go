package parsers

import "strings"

// pythonicMachine reads calls written as Python, in one of two wrappings:
//
//	[f(a='x', n=1), g()]
//
//	<function_calls>
//	f(a='x', n=1)
//	g()
//	</function_calls>
//
// The first is taken only where it is the whole response, since a list in prose
// looks alike; between <|python_start|> and <|python_end|> it may stand anywhere.
// All calls of a wrapping are read at its end or none.
type pythonicMachine struct {
	open, close string // the tags of the second wrapping
	list        bool   // the calls between the tags are a list, as in the first
	json        bool   // they may be a list of JSON objects too

	state pythonicState
	pos   int
	start int // of the text that holds the calls
}

type pythonicState uint8

const (
	pythonicText  pythonicState = iota // before the calls
	pythonicFirst                      // behind [, before the first call
	pythonicCalls                      // inside the calls
	pythonicDone                       // no calls, or no more
)

const (
	olmoOpen  = "<function_calls>"
	olmoClose = "</function_calls>"
	lfm2Open  = "<|tool_call_start|>"
	lfm2Close = "<|tool_call_end|>"
)

func newPythonic() machine { return &pythonicMachine{} }

func newOlmo3() machine { return &pythonicMachine{open: olmoOpen, close: olmoClose} }

// newLFM2 reads the calls of LFM2, a list between tokens.
func newLFM2() machine {
	return &pythonicMachine{open: lfm2Open, close: lfm2Close, list: true, json: true}
}

func (m *pythonicMachine) closers() []string { return nil }

func (m *pythonicMachine) scan(p *pass) {
	for m.step(p) {
	}
}

// step takes one step and returns false when more text is needed.
func (m *pythonicMachine) step(p *pass) bool {
	switch m.state {
	case pythonicText:
		if m.open != "" {
			i, _ := p.findAny(&m.pos, []string{m.open})
			if i < 0 {
				p.content(m.pos)
				return false
			}
			p.mark(i, len(m.open))
			m.pos = i + len(m.open)
			m.start, m.state = m.pos, pythonicCalls
			return true
		}
		return m.opening(p)
	case pythonicFirst:
		return m.first(p)
	case pythonicCalls:
		return m.calls(p)
	}
	p.content(len(p.text))
	return false
}

// opening expects [ at the beginning of the response.
func (m *pythonicMachine) opening(p *pass) bool {
	at, ok := p.skipSpace(m.pos)
	m.pos = at
	if !ok {
		return false
	}
	if p.text[at] != '[' {
		m.tagged()
	} else {
		m.start, m.pos, m.state = at+1, at+1, pythonicFirst
	}
	return true
}

// first expects a name and ( behind [, so that prose is not held back for long.
func (m *pythonicMachine) first(p *pass) bool {
	for m.pos < len(p.text) {
		switch c := p.text[m.pos]; {
		case isNameByte(c) || c == '.' || isJSONSpace(c):
			m.pos++
		case c == '(':
			m.state = pythonicCalls
			return true
		default:
			m.tagged()
			return true
		}
	}
	return false
}

// tagged takes lists between tags from here on, since the response is not one.
func (m *pythonicMachine) tagged() {
	m.open, m.close, m.list = llamaStart, llamaEnd, true
	m.state = pythonicText
}

// calls reads all the calls once their text is complete.
func (m *pythonicMachine) calls(p *pass) bool {
	end, next := len(p.text), len(p.text)
	if m.open != "" {
		if i := p.find(&m.pos, m.close); i >= 0 {
			end, next = i, i+len(m.close)
		} else if !p.final {
			return false
		}
	} else if !p.final {
		return false
	}
	calls, ok := m.read(p.text[m.start:end])
	m.state = pythonicDone
	if !ok {
		p.fail()
		return false
	}
	start := m.start
	if m.open == "" {
		start = 0
	}
	for _, c := range calls {
		p.call(c, start, next)
	}
	if m.pos = next; m.open != "" {
		m.state = pythonicText
	}
	return true
}

// read reads what holds the calls.
func (m *pythonicMachine) read(text string) ([]Call, bool) {
	if m.list {
		body := strings.TrimSpace(text)
		if m.json && validJSON(body) {
			calls, ok := callsFromJSON(body, callKeys{parameters: true})
			return calls, ok && len(calls) > 0
		}
		var opened bool
		if text, opened = strings.CutPrefix(body, "["); !opened {
			return nil, false
		}
	}
	r := literalReader{text: text, json: true}
	return r.calls(m.list || m.open == "")
}

// calls reads calls up to the end of the text: separated by commas and ended by
// a bracket, or on lines of their own.
func (r *literalReader) calls(list bool) ([]Call, bool) {
	var calls []Call
	for {
		r.space()
		if r.pos == len(r.text) {
			return calls, !list
		}
		c, ok := r.call()
		if !ok {
			return nil, false
		}
		calls = append(calls, c)
		if !list {
			continue
		}
		comma := r.take(',')
		if r.take(']') {
			return calls, r.rest()
		}
		if !comma {
			return nil, false
		}
	}
}

// rest reports whether nothing but tokens that end a turn is left.
func (r *literalReader) rest() bool {
	left := r.text[r.pos:]
	for _, token := range []string{llamaEnd, "<|eot|>", "<|eom|>", "<|eot_id|>", "<|eom_id|>"} {
		left = strings.ReplaceAll(left, token, "")
	}
	return strings.TrimSpace(left) == ""
}

// call reads one call with keyword arguments.
func (r *literalReader) call() (Call, bool) {
	start := r.pos
	for r.pos < len(r.text) && (isNameByte(r.text[r.pos]) || r.text[r.pos] == '.') {
		r.pos++
	}
	name := r.text[start:r.pos]
	if name == "" || name[0] >= '0' && name[0] <= '9' || name[0] == '.' || !r.take('(') {
		return Call{}, false
	}
	var args jsonObject
	for first := true; !r.take(')'); first = false {
		if !first {
			if !r.take(',') {
				return Call{}, false
			}
			if r.take(')') {
				break
			}
		}
		r.space()
		start := r.pos
		for r.pos < len(r.text) && isNameByte(r.text[r.pos]) {
			r.pos++
		}
		key := r.text[start:r.pos]
		if key == "" || !r.take('=') {
			return Call{}, false
		}
		value, ok := r.value(nil, 0)
		if !ok {
			return Call{}, false
		}
		args.set(key, string(value))
	}
	return Call{Name: name, Arguments: args.text()}, true
}

// renderPythonic writes the calls as Python; literals as the format has them.
func renderPythonic(open, separator, close string, literal func(b *strings.Builder, value string)) renderFunc {
	return func(b *strings.Builder, content string, calls []Call) {
		separate(b, content, "\n")
		b.WriteString(open)
		for i, c := range calls {
			if i > 0 {
				b.WriteString(separator)
			}
			b.WriteString(c.Name + "(")
			first := true
			eachMember(normalJSON(c.Arguments), func(key, value string) bool {
				if !first {
					b.WriteString(", ")
				}
				first = false
				b.WriteString(key + "=")
				literal(b, value)
				return true
			})
			b.WriteByte(')')
		}
		b.WriteString(close)
	}
}

// jsonLiteral leaves JSON as it is, which the format tolerates.
func jsonLiteral(b *strings.Builder, value string) { b.WriteString(value) }

// pythonText writes a JSON value as a Python literal. Strings keep the spelling
// of JSON, which Python reads alike but for surrogate pairs; those were
// resolved before.
func pythonText(b *strings.Builder, value string) {
	switch value[0] {
	case '{':
		b.WriteByte('{')
		first := true
		eachMember(value, func(key, item string) bool {
			if !first {
				b.WriteString(", ")
			}
			first = false
			b.WriteString(jsonString(key) + ": ")
			pythonText(b, item)
			return true
		})
		b.WriteByte('}')
	case '[':
		b.WriteByte('[')
		first := true
		eachItem(value, func(item string) bool {
			if !first {
				b.WriteString(", ")
			}
			first = false
			pythonText(b, item)
			return true
		})
		b.WriteByte(']')
	case '"':
		b.WriteString(value)
	default:
		b.WriteString(pythonValueText(value))
	}
}
