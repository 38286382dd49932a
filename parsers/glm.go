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
	valueOpen, valueClose string   // valueOpen may be empty
	typeOpen, typeClose   string   // around a type between key and value, if there is one
	sep                   string   // may end the name
	sections              []string // what opens and what closes a section of calls, if anything
	// value turns the text of a value into JSON.
	value func(text string, types typeSet) string
	// json takes JSON calls in a block in place of elements.
	json bool
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
		value: guessedArgument,
	}
}

func (m *glmMachine) closers() []string { return m.sections }

func (m *glmMachine) scan(p *pass) {
	for {
		if !m.inside {
			markers := []string{m.open}
			if len(m.sections) > 0 {
				markers = append(markers, m.sections[0])
			}
			i, which := p.findAny(&m.pos, markers)
			if i < 0 {
				p.content(m.pos)
				return
			}
			p.mark(i, len(markers[which]))
			m.pos = i + len(markers[which])
			if which > 0 {
				continue
			}
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
	if body := strings.TrimSpace(body); m.json && (strings.HasPrefix(body, "{") || strings.HasPrefix(body, "[")) {
		if !validJSON(body) {
			return
		}
		calls, ok := callsFromJSON(body, callKeys{parameters: true, function: true})
		for _, c := range calls {
			if ok {
				p.call(c, m.start, m.pos)
			}
		}
		return
	}
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
		value, types, isPair := m.valueOf(rest)
		if start < 0 || !isPair {
			pairs = rest
			continue
		}
		key := strings.TrimSpace(pairs[start+len(m.keyOpen) : end])
		text, rest, closed := strings.Cut(value, m.valueClose)
		if !closed {
			break
		}
		if known := p.argTypes(name, key); known != 0 {
			types = known
		}
		args.set(key, m.value(text, types))
		pairs = rest
	}
	p.call(Call{Name: name, Arguments: args.text()}, m.start, m.pos)
}

// valueOf goes behind what opens the value that follows a key, and reads the
// type the model wrote there, if the format has one.
func (m *glmMachine) valueOf(s string) (value string, types typeSet, ok bool) {
	if m.valueOpen == "" {
		return s, 0, true
	}
	s = m.gap(s)
	if m.typeOpen != "" {
		if rest, typed := strings.CutPrefix(s, m.typeOpen); typed {
			name, behind, closed := strings.Cut(rest, m.typeClose)
			if !closed {
				return "", 0, false
			}
			s, types = m.gap(behind), typeNamed(name)
		}
	}
	value, ok = strings.CutPrefix(s, m.valueOpen)
	return value, types, ok
}

// header splits a block into the name and the pairs of keys and values.
func (m *glmMachine) header(body string) (string, string, bool) {
	end := strings.Index(body, m.keyOpen)
	if m.line {
		line := strings.IndexByte(body, '\n')
		if text := strings.Index(body, `\n`); text >= 0 && (line < 0 || text < line) && (end < 0 || text < end) {
			return m.nameOf(body[:text], body[text+2:]) // a newline written as two characters
		}
		end = line
	}
	name, pairs := body, ""
	switch {
	case end >= 0:
		name, pairs = body[:end], body[end:]
	case m.line:
		return "", "", false
	}
	return m.nameOf(name, pairs)
}

// nameOf checks what may be a name.
func (m *glmMachine) nameOf(name, pairs string) (string, string, bool) {
	if m.sep != "" {
		name, _, _ = strings.Cut(name, m.sep)
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

// gap skips what may stand between a key and its value: white space, a newline
// written as two characters too.
func (m *glmMachine) gap(s string) string {
	for {
		s = strings.TrimSpace(s)
		if !strings.HasPrefix(s, `\n`) {
			return s
		}
		s = s[2:]
	}
}
