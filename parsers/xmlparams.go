package parsers

import "strings"

// xmlGrammar is a format that writes each argument into an element of its own:
//
//	<tool_call>
//	<function=NAME>
//	<parameter=KEY>
//	VALUE
//	</parameter>
//	</function>
//	</tool_call>
type xmlGrammar struct {
	blockOpen, blockClose string
	callOpen, callClose   string   // callOpen is the part before the name
	argOpen, argClose     string   // argOpen is the part before the key
	callAlso, argAlso     []string // other spellings of callOpen and argOpen
	lead, trail           []string // tokens that may stand directly before and behind a call
	// header reads the rest of an opening tag, up to its >.
	header func(tag string) (name string, attrs string, ok bool)
	// value turns the text of an argument into JSON.
	value func(text, attrs string, types typeSet) string
	// bare accepts calls without a block around them if the text has no block.
	bare bool
	// forgiving takes a call whose end is missing, marked as truncated;
	// otherwise such a call is content.
	forgiving bool
	// strict makes a call content if the end of one of its arguments is missing
	// or something else than arguments stands in it.
	strict bool
	// wrapped unwraps arguments that a model put into one argument of its own.
	wrapped bool
	// tagEnd ends an opening tag; it is > if empty.
	tagEnd string
	// cdata reads a value that begins with <![CDATA[ to the end of that section.
	cdata bool
	// json takes JSON calls in a block in place of elements.
	json bool
	// quiet opens and loud closes text in which nothing is a call.
	quiet, loud []string
}

const (
	cdataOpen  = "<![CDATA["
	cdataClose = "]]>"
)

// xmlMachine reads an xmlGrammar.
type xmlMachine struct {
	*xmlGrammar
	between []string // see betweenCalls

	state xmlState
	pos   int
	first int // where the first call outside a block stands
	call  int // where the call that is being read stands
	body  int // where what follows its opening tag starts

	inBlock bool // a block was seen, so calls outside of one do not count
	name    string
	key     string
	attrs   string
	start   int // of the value that is being read
	args    jsonObject
	raw     string          // JSON in place of arguments
	shown   strings.Builder // the arguments as far as a stream has given them out
	inner   jsonScanner     // JSON in place of elements
}

type xmlState uint8

const (
	xmlText   xmlState = iota // outside of blocks
	xmlQuiet                  // inside text that holds no calls
	xmlHold                   // behind a call outside a block: does a block follow?
	xmlOpen                   // at the beginning of a block that may hold JSON
	xmlJSON                   // inside JSON in a block
	xmlBlock                  // inside a block, between calls
	xmlHeader                 // inside the opening tag of a call
	xmlCall                   // inside a call, between arguments
	xmlKey                    // inside the opening tag of an argument
	xmlValue                  // inside an argument
	xmlCDATA                  // inside a CDATA section of an argument
)

func (m *xmlMachine) closers() []string {
	if m.blockClose == "" {
		return m.trail
	}
	return append([]string{m.blockClose}, m.trail...)
}

func (m *xmlMachine) scan(p *pass) {
	for m.step(p) {
	}
	if p.final && m.state >= xmlCall {
		m.cutOff(p)
	}
}

// step takes one step and returns false when more text is needed.
func (m *xmlMachine) step(p *pass) bool {
	switch m.state {
	case xmlText:
		if m.blockOpen == "" {
			m.state = xmlBlock
			return true
		}
		markers := append([]string{m.blockOpen}, m.quiet...)
		if m.bare && !m.inBlock {
			markers = []string{m.blockOpen, m.callOpen}
		}
		i, which := p.findAny(&m.pos, markers)
		switch {
		case i < 0:
			p.content(m.pos)
			return false
		case which == 0:
			m.enter(p, i)
		case m.bare:
			p.content(i)
			m.first, m.pos = i, i+len(m.callOpen)
			m.state = xmlHold
		default:
			m.pos = i + len(markers[which])
			m.state = xmlQuiet
		}
	case xmlQuiet:
		i, _ := p.findAny(&m.pos, m.loud)
		p.content(m.pos)
		if i < 0 {
			return false
		}
		m.state = xmlText
	case xmlOpen:
		at, ok := p.skipSpace(m.pos)
		if m.pos = at; !ok {
			return false
		}
		m.state = xmlBlock
		if p.text[at] == '{' || p.text[at] == '[' {
			m.inner.reset(at)
			m.state = xmlJSON
		}
	case xmlJSON:
		return m.jsonBlock(p)
	case xmlHold:
		if i := p.find(&m.pos, m.blockOpen); i >= 0 {
			m.enter(p, i)
			return true
		}
		if !p.final {
			return false
		}
		m.pos, m.state = m.first, xmlBlock
	case xmlBlock:
		markers := m.betweenCalls()
		i, which := p.findAny(&m.pos, markers)
		if i < 0 {
			p.content(m.pos)
			return false
		}
		switch {
		case which == 0 || which >= len(markers)-len(m.callAlso):
			p.content(i)
			m.pos, m.state = i+len(markers[which]), xmlHeader
			m.call = i
		case which == 1:
			m.leave(i)
		default:
			p.mark(i, len(markers[which]))
			m.pos = i + len(markers[which])
		}
		m.start = m.pos
	case xmlHeader, xmlKey:
		return m.tag(p)
	case xmlCall:
		markers := []string{m.argOpen, m.callClose, m.callOpen, m.blockClose}
		if m.blockClose == "" {
			markers = append(markers[:3], m.argAlso...)
		}
		i, which := p.findAny(&m.pos, markers)
		if i < 0 {
			return false
		}
		length := len(markers[which])
		if m.blockClose == "" && which > 2 {
			which = 0
		}
		if m.strict && (which > 1 || strings.TrimSpace(p.text[m.start:i]) != "") {
			p.drop()
			m.pos, m.state = i, xmlBlock
			return true
		}
		switch which {
		case 0:
			m.pos, m.state = i+length, xmlKey
			m.start = m.pos
		case 1:
			m.bodyOf(p, i)
			m.pos, m.state = i+len(m.callClose), xmlBlock
			m.emit(p, m.pos, false)
		case 2: // the end of this call is missing
			m.end(p, i, false)
			m.pos, m.state = i+len(m.callOpen), xmlHeader
			m.start, m.call = m.pos, i
		case 3:
			m.end(p, i, false)
			m.leave(i)
		}
	case xmlCDATA:
		i := p.find(&m.pos, cdataClose)
		if i < 0 {
			return false
		}
		m.pos, m.state = i+len(cdataClose), xmlValue
	case xmlValue:
		if m.cdata && m.pos == m.start {
			at, ok := p.skipSpace(m.pos)
			if !ok {
				return false
			}
			switch found, _ := p.look(at, cdataOpen); {
			case found == lookMore && !p.final:
				return false
			case found == lookFound:
				m.pos, m.state = at+len(cdataOpen), xmlCDATA
				return true
			}
		}
		markers := []string{m.argClose, m.argOpen, m.callClose, m.blockClose}
		if m.strict {
			markers = []string{m.argClose, m.callOpen, m.callClose}
		}
		i, which := p.findAny(&m.pos, markers)
		if i < 0 {
			return false
		}
		if m.strict && which > 0 {
			p.drop()
			m.pos, m.state = i, xmlBlock
			return true
		}
		m.setArg(p, p.text[m.start:i])
		m.pos, m.state = i, xmlCall
		if which == 0 {
			m.pos += len(m.argClose)
		}
		m.start = m.pos
	}
	return true
}

// betweenCalls are the markers that may come next in a block: what opens a call
// stands first and, in other spellings, last.
func (m *xmlMachine) betweenCalls() []string {
	if m.between == nil {
		m.between = append(make([]string, 0, 3+len(m.lead)+len(m.callAlso)), m.callOpen)
		if m.blockOpen != "" {
			m.between = append(append(m.between, m.blockClose, m.blockOpen), m.lead...)
		}
		m.between = append(m.between, m.callAlso...)
	}
	return m.between
}

// enter goes behind the opening tag of a block.
func (m *xmlMachine) enter(p *pass, at int) {
	p.mark(at, len(m.blockOpen))
	m.inBlock = true
	m.pos, m.state = at+len(m.blockOpen), xmlBlock
	if m.json {
		m.state = xmlOpen
	}
}

// jsonBlock reads JSON at the beginning of a block. What is not a call is read as
// elements.
func (m *xmlMachine) jsonBlock(p *pass) bool {
	start := m.pos
	switch p.read(&m.inner) {
	case scanMore:
		if !p.final {
			return false
		}
	case scanDone:
		calls, ok := callsFromJSON(p.text[start:m.inner.pos], callKeys{parameters: true})
		if !ok {
			break
		}
		for _, c := range calls {
			p.call(c, start, m.inner.pos)
		}
		m.pos = m.inner.pos
	}
	m.state = xmlBlock
	return true
}

// leave goes behind the closing tag of a block. Without blocks that is only a
// stray tag.
func (m *xmlMachine) leave(at int) {
	m.pos, m.state = at+len(m.blockClose), xmlBlock
	if m.inBlock {
		m.state = xmlText
	}
}

// tag reads the opening tag of a call or of an argument up to its >. A tag
// without one is skipped.
func (m *xmlMachine) tag(p *pass) bool {
	inCall := m.state == xmlKey
	skip := 1
	if m.tagEnd != "" {
		i := p.find(&m.pos, m.tagEnd)
		if i < 0 {
			return false
		}
		m.pos, skip = i, len(m.tagEnd)
	} else {
		i := p.indexAny(m.pos, "<>")
		if i < 0 {
			m.pos = len(p.text)
			return false
		}
		m.pos += i
	}
	m.state = xmlBlock
	if inCall {
		m.state = xmlCall
	}
	if p.text[m.pos] == '<' && skip == 1 {
		return true
	}
	name, attrs, ok := m.header(p.text[m.start:m.pos])
	m.pos += skip
	switch {
	case !ok || name == "" && !inCall:
	case inCall:
		m.key, m.attrs, m.start, m.state = name, attrs, m.pos, xmlValue
	default:
		m.name, m.state = name, xmlCall
		m.args, m.raw = jsonObject{}, ""
		m.shown = strings.Builder{}
		m.body, m.start = m.pos, m.pos
		p.begin("", name, m.call)
		if strings.TrimSpace(attrs) == "/" { // <invoke name="NAME"/>
			m.state = xmlBlock
			m.emit(p, m.pos, false)
		}
	}
	return true
}

// setArg records the argument that was read, and shows it to a stream.
func (m *xmlMachine) setArg(p *pass, text string) {
	value := m.value(text, m.attrs, p.argTypes(m.name, m.key))
	again := m.args.set(m.key, value)
	if p.open == nil || again {
		return // a repeated key is put right by the call as a whole
	}
	wrapper := m.wrapped && len(m.args.keys) == 1 && isWrapper(m.key)
	separator := ", "
	if len(m.args.keys) == 1 {
		separator = "{"
	}
	m.shown.WriteString(separator)
	m.shown.WriteString(jsonString(m.key))
	m.shown.WriteString(": ")
	m.shown.WriteString(value)
	if !wrapper {
		p.grow(m.shown.String())
	}
}

// bodyOf takes JSON that stands in a call in place of arguments as they are.
func (m *xmlMachine) bodyOf(p *pass, end int) {
	if body := strings.TrimSpace(p.text[m.body:end]); len(m.args.keys) == 0 && strings.HasPrefix(body, "{") {
		m.raw = body
	}
}

// isWrapper reports whether a model may put all arguments into one of that name.
func isWrapper(key string) bool { return key == "arguments" || key == "input" || key == "properties" }

// unwrapped returns the arguments that stand in a single argument that the
// tool doesn't have, if the tool has all of them; false otherwise.
func (m *xmlMachine) unwrapped(p *pass) (string, bool) {
	if !m.wrapped || len(m.args.keys) != 1 || !isWrapper(m.args.keys[0]) {
		return "", false
	}
	p.argTypes(m.name, "")
	known := p.types[m.name]
	if _, has := known[m.args.keys[0]]; has || len(known) == 0 {
		return "", false
	}
	inner := m.args.values[0]
	if inner[0] == '"' {
		inner = unquote(inner)
	}
	if !isJSONObject(inner) {
		return "", false
	}
	all := true
	eachMember(trimJSONSpace(inner), func(key, _ string) bool {
		_, all = known[key]
		return all
	})
	return normalJSON(trimJSONSpace(inner)), all
}

// emit records the call, whose text ends at end.
func (m *xmlMachine) emit(p *pass, end int, truncated bool) {
	c := Call{Name: m.name, Arguments: m.args.text(), Truncated: truncated}
	if inner, ok := m.unwrapped(p); ok {
		c.Arguments = inner
	} else if isJSONObject(m.raw) {
		c.Arguments = normalJSON(m.raw)
	} else if m.raw != "" {
		c.Arguments, c.InvalidArguments = m.raw, true
	}
	p.call(c, m.call, end)
}

// end records a call whose end is missing, or drops it.
func (m *xmlMachine) end(p *pass, at int, truncated bool) {
	if m.forgiving {
		m.emit(p, at, truncated)
	} else {
		p.drop()
	}
}

// cutOff ends the call that the end of the text has cut.
func (m *xmlMachine) cutOff(p *pass) {
	if m.state >= xmlValue && m.forgiving {
		m.setArg(p, p.text[m.start:])
	}
	m.end(p, len(p.text), true)
	m.state, m.pos = xmlBlock, len(p.text)
}

// equalsHeader reads the rest of <function=NAME>.
func equalsHeader(tag string) (string, string, bool) {
	return strings.TrimSpace(tag), "", true
}

// attributeHeader reads the rest of <invoke name="NAME">, from the name on;
// quotes may be single, double or missing. What follows the name is attrs.
func attributeHeader(tag string) (string, string, bool) {
	tag = strings.TrimSpace(tag)
	if tag == "" {
		return "", "", false
	}
	if q := tag[0]; q == '"' || q == '\'' {
		end := strings.IndexByte(tag[1:], q)
		if end < 0 {
			return "", "", false
		}
		return strings.TrimSpace(tag[1 : 1+end]), tag[2+end:], true
	}
	name, attrs, _ := strings.Cut(tag, " ")
	return name, attrs, true
}

// qwen3Coder is the format of Qwen3-Coder.
func qwen3Coder() *xmlGrammar {
	return &xmlGrammar{
		blockOpen: "<tool_call>", blockClose: "</tool_call>",
		callOpen: "<function=", callClose: "</function>",
		argOpen: "<parameter=", argClose: "</parameter>",
		header: equalsHeader, value: lineValue,
		bare: true, forgiving: true,
	}
}

// lineValue reads a value that stands on lines of its own: one newline on
// either side is markup, everything else is data.
func lineValue(text, _ string, types typeSet) string {
	return textArgument(strings.TrimSuffix(strings.TrimPrefix(text, "\n"), "\n"), types)
}

func newQwen3Coder() machine { return &xmlMachine{xmlGrammar: qwen3Coder()} }

// functionTag and parameterLine write the opening tags of qwen3Coder.
func functionTag(_ int, name string) string { return "<function=" + name + ">" }

func parameterLine(key, _ string) string { return "<parameter=" + key + ">\n" }
