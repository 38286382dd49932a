package parsers

import "strings"

// glmMachine reads the format of GLM and of the later LongCat models:
//
//	<tool_call>NAME
//	<arg_key>KEY</arg_key>
//	<arg_value>VALUE</arg_value>
//	</tool_call>
//
// A block counts when it is closed; an unusable one does not affect the others.
type glmMachine struct {
	open, close           string
	keyOpen, keyClose     string
	valueOpen, valueClose string
	// line demands that a newline ends the name; otherwise the name runs to the
	// first key and everything may stand on one line.
	line bool

	inside bool // inside a block, which starts at start
	start  int
	pos    int
}

func newGLM45() machine {
	m := glm("")
	m.line = true
	return m
}

func newGLM47() machine { return glm("") }

func newLongcatXML() machine { return glm("longcat_") }

// glm returns a machine for tags whose names begin with prefix.
func glm(prefix string) *glmMachine {
	return &glmMachine{
		open: "<" + prefix + "tool_call>", close: "</" + prefix + "tool_call>",
		keyOpen: "<" + prefix + "arg_key>", keyClose: "</" + prefix + "arg_key>",
		valueOpen: "<" + prefix + "arg_value>", valueClose: "</" + prefix + "arg_value>",
	}
}

func (m *glmMachine) closers() []string { return nil }

func (m *glmMachine) scan(p *pass) {
	for {
		if !m.inside {
			i, _ := p.findAny(&m.pos, []string{m.open})
			if i < 0 {
				p.content(m.pos)
				return
			}
			p.mark(i, len(m.open))
			m.pos = i + len(m.open)
			m.start = m.pos
			m.inside = true
		}
		i := p.find(&m.pos, m.close)
		if i < 0 {
			return
		}
		m.pos = i + len(m.close)
		m.block(p, p.text[m.start:i])
		m.inside = false
	}
}

// block reads what stands between the tags of one call.
func (m *glmMachine) block(p *pass, body string) {
	name, pairs, ok := m.header(body)
	if !ok {
		return
	}
	var args jsonObject
	for {
		end := strings.Index(pairs, m.keyClose)
		if end < 0 {
			break
		}
		start := strings.LastIndex(pairs[:end], m.keyOpen)
		rest := pairs[end+len(m.keyClose):]
		value, isPair := strings.CutPrefix(m.gap(rest), m.valueOpen)
		if start < 0 || !isPair {
			pairs = rest
			continue
		}
		key := strings.TrimSpace(pairs[start+len(m.keyOpen) : end])
		text, rest, closed := strings.Cut(value, m.valueClose)
		if !closed {
			break
		}
		args.set(key, guessedArgument(text, p.argTypes(name, key)))
		pairs = rest
	}
	p.call(Call{Name: name, Arguments: args.text()}, m.start, m.pos)
}

// header splits a block into the name and the pairs of keys and values.
func (m *glmMachine) header(body string) (string, string, bool) {
	end := strings.Index(body, m.keyOpen)
	if m.line {
		end = strings.IndexByte(body, '\n')
	}
	name, pairs := body, ""
	switch {
	case end >= 0:
		name, pairs = body[:end], body[end:]
	case m.line:
		return "", "", false
	}
	name = strings.TrimSpace(name)
	if !m.line {
		name = strings.TrimSpace(strings.TrimSuffix(name, `\n`))
	}
	if name == "" || strings.Contains(name, "<") {
		return "", "", false
	}
	return name, pairs, true
}

// gap skips what may stand between a key and its value: white space and, in the
// one-line layout, a newline written as two characters.
func (m *glmMachine) gap(s string) string {
	for {
		s = strings.TrimSpace(s)
		if m.line || !strings.HasPrefix(s, `\n`) {
			return s
		}
		s = s[2:]
	}
}
