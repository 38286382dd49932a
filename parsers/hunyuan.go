package parsers

// hunyuanMachine reads the formats of Hunyuan from A13B to Hy4:
//
//	<tool_calls>[{"name": "f", "arguments": {"a": 1}}]</tool_calls>
//
//	<tool_calls>
//	<tool_call>f<tool_sep>
//	<arg_key>a</arg_key>
//	<arg_value>1</arg_value>
//	</tool_call>
//	</tool_calls>
//
// <tool_sep> is missing in Hy4. Tokenizers may add a suffix to every tag, the
// same to each: <tool_calls:NAME>. The opening tag of the section tells it, and
// what follows that tag tells which format it is.
type hunyuanMachine struct {
	pos   int
	inner machine
}

const hunyuanOpen = "<tool_calls"

func newHunyuan() machine { return &hunyuanMachine{} }

func (m *hunyuanMachine) closers() []string { return nil }

func (m *hunyuanMachine) scan(p *pass) {
	for m.inner == nil {
		i := p.find(&m.pos, hunyuanOpen)
		if i < 0 {
			p.content(m.pos)
			return
		}
		p.content(i)
		m.pos = i
		if !m.open(p) {
			return
		}
	}
	m.inner.scan(p)
}

// open reads the opening tag and what follows it. It returns false when more
// text is needed.
func (m *hunyuanMachine) open(p *pass) bool {
	tag := m.pos + len(hunyuanOpen)
	end := tag
	for end < len(p.text) && (isNameByte(p.text[end]) || p.text[end] == ':' || p.text[end] == '-') {
		end++
		p.work++
	}
	if end == len(p.text) {
		return p.final && m.pass(tag)
	}
	suffix := p.text[tag:end]
	if p.text[end] != '>' || suffix != "" && (suffix[0] != ':' || len(suffix) == 1) {
		return m.pass(tag)
	}
	at, ok := p.skipSpace(end + 1)
	if !ok {
		return p.final && m.pass(tag)
	}
	open, closing := hunyuanOpen+suffix+">", "</tool_calls"+suffix+">"
	if c := p.text[at]; c == '[' || c == '{' {
		m.inner = &taggedJSON{open: []string{open}, close: []string{closing}, pos: m.pos}
	} else {
		g := hunyuan(suffix)
		g.pos = m.pos
		m.inner = g
	}
	p.tail = append([]string{closing}, p.tail...)
	return true
}

// pass goes behind what is not an opening tag.
func (m *hunyuanMachine) pass(pos int) bool {
	m.pos = pos
	return true
}

// hunyuan returns a machine for the tags of Hy3 and Hy4 with a suffix.
func hunyuan(suffix string) *glmMachine {
	tag := func(name string) (string, string) { return "<" + name + suffix + ">", "</" + name + suffix + ">" }
	g := &glmMachine{value: fittingArgument, sep: "<tool_sep" + suffix + ">"}
	open, end := tag("tool_calls")
	g.sections = []string{open, end}
	g.open, g.close = tag("tool_call")
	g.keyOpen, g.keyClose = tag("arg_key")
	g.valueOpen, g.valueClose = tag("arg_value")
	return g
}

// fittingArgument takes the first type of the schema that fits, a string last.
// Without a schema it is a string.
func fittingArgument(text string, types typeSet) string {
	if types&^typeString == 0 {
		return jsonString(text)
	}
	if types&typeString == 0 {
		return guessedArgument(text, types)
	}
	return textArgument(text, types&^typeString)
}
