package parsers

import "strings"

// miniMaxM3Machine reads the format of MiniMax-M3, in which every tag follows a
// marker of its own, written ~ here, and arguments are nested elements:
//
//	~<tool_call>
//	~<invoke name="f">~<city>Bern~</city>~<tags>~<item>a~</item>~</tags>~</invoke>
//	~</tool_call>
//
// A call that is not closed is content, so is one whose tags don't match.
type miniMaxM3Machine struct {
	state miniMaxM3State
	pos   int
	call  int // where the call that is being read stands
	start int // of what is behind its opening tag
}

type miniMaxM3State uint8

const (
	miniMaxM3Text miniMaxM3State = iota // outside of blocks
	miniMaxM3In                         // inside a block, between calls
	miniMaxM3Body                       // inside a call
)

// The tags of MiniMax-M3 that are the same in every call.
const (
	miniMaxM3Mark   = "]<]minimax[>["
	miniMaxM3Block  = miniMaxM3Mark + "<tool_call>"
	miniMaxM3Close  = miniMaxM3Mark + "</tool_call>"
	miniMaxM3Invoke = miniMaxM3Mark + "<invoke name="
	miniMaxM3End    = miniMaxM3Mark + "</invoke>"
)

func newMiniMaxM3() machine { return &miniMaxM3Machine{} }

func (m *miniMaxM3Machine) closers() []string { return []string{miniMaxM3Close} }

func (m *miniMaxM3Machine) scan(p *pass) {
	for m.step(p) {
	}
}

// step takes one step and returns false when more text is needed.
func (m *miniMaxM3Machine) step(p *pass) bool {
	switch m.state {
	case miniMaxM3Text:
		i := p.find(&m.pos, miniMaxM3Block)
		if i < 0 {
			p.content(m.pos)
			return false
		}
		p.mark(i, len(miniMaxM3Block))
		m.pos, m.state = i+len(miniMaxM3Block), miniMaxM3In
	case miniMaxM3In:
		i, which := p.findAny(&m.pos, []string{miniMaxM3Invoke, miniMaxM3Close})
		if i < 0 {
			p.content(m.pos)
			return false
		}
		if which == 1 {
			m.pos, m.state = i+len(miniMaxM3Close), miniMaxM3Text
			return true
		}
		p.content(i)
		m.call, m.start = i, i+len(miniMaxM3Invoke)
		m.pos, m.state = m.start, miniMaxM3Body
	case miniMaxM3Body:
		i, which := p.findAny(&m.pos, []string{miniMaxM3End, miniMaxM3Close})
		if i < 0 {
			return false
		}
		if m.pos, m.state = i, miniMaxM3In; which == 0 {
			m.pos = i + len(miniMaxM3End)
			m.invoke(p, p.text[m.start:i])
		}
	}
	return true
}

// invoke reads a call from behind "<invoke name=" to its closing tag.
func (m *miniMaxM3Machine) invoke(p *pass, body string) {
	tag, body, closed := strings.Cut(body, ">")
	name, _, ok := attributeHeader(tag)
	if !closed || !ok || name == "" {
		return
	}
	root := ""
	for _, t := range p.tools {
		if t.Name == name && isJSONObject(string(t.Parameters)) {
			root = trimJSONSpace(string(t.Parameters))
		}
	}
	if args, ok := m.arguments(body, root); ok {
		p.call(Call{Name: name, Arguments: args}, m.call, m.pos)
	}
}

// element is an element that is open.
type element struct {
	tag    string
	schema string
	text   string
	keys   []string // the tags of the children, each once
	values map[string][]string
}

// arguments reads the elements of a call. It returns false when they are not
// nested as they should.
func (m *miniMaxM3Machine) arguments(body, root string) (string, bool) {
	stack := []*element{{schema: root}}
	for i, chunk := range strings.Split(body, miniMaxM3Mark) {
		chunk := strings.TrimLeft(chunk, " \t\r\n")
		if i == 0 {
			if chunk != "" {
				return "", false
			}
			continue
		}
		top := stack[len(stack)-1]
		tag, text, closed := strings.Cut(chunk, ">")
		switch {
		case !closed || !strings.HasPrefix(tag, "<"):
			return "", false
		case tag[1:] == "":
			return "", false
		case tag[1] == '/':
			if len(stack) == 1 || top.tag != strings.TrimSpace(tag[2:]) || strings.TrimSpace(text) != "" {
				return "", false
			}
			stack = stack[:len(stack)-1]
			stack[len(stack)-1].add(top.tag, top.value(root))
		case len(stack) > maxLiteralDepth:
			return "", false
		default:
			name := strings.TrimSpace(tag[1:])
			stack = append(stack, &element{tag: name, schema: childSchema(top.schema, name, root), text: text})
		}
	}
	return stack[0].object(), len(stack) == 1
}

// add takes the value of a child that was closed.
func (e *element) add(tag, value string) {
	if e.values == nil {
		e.values = make(map[string][]string)
	}
	if e.values[tag] == nil {
		e.keys = append(e.keys, tag)
	}
	e.values[tag] = append(e.values[tag], value)
}

// value is the JSON of an element: a list if its children are items, an object
// if it has others, else its text in the type of the schema.
func (e *element) value(root string) string {
	types := typeSet(0)
	if e.schema != "" {
		types = typesOf(e.schema, root, 0)
	}
	blank := strings.TrimSpace(e.text) == ""
	switch {
	case len(e.keys) == 1 && e.keys[0] == "item" && types&typeObject == 0:
		return "[" + strings.Join(e.values["item"], ", ") + "]"
	case len(e.keys) > 0:
		return e.object()
	case types&typeArray != 0 && blank:
		return "[]"
	case types&typeObject != 0 && blank:
		return "{}"
	}
	return fittingArgument(e.text, types)
}

// object is the JSON of an element with children. Children of one name are a list.
func (e *element) object() string {
	var o jsonObject
	for _, key := range e.keys {
		if values := e.values[key]; len(values) == 1 {
			o.set(key, values[0])
		} else {
			o.set(key, "["+strings.Join(values, ", ")+"]")
		}
	}
	return o.text()
}

// childSchema returns the schema of a member of an object or of the items of a
// list, "" if it is unknown.
func childSchema(schema, name, root string) string {
	schema = resolved(schema, root)
	if !strings.HasPrefix(schema, "{") {
		return ""
	}
	if name == "item" {
		if items := memberValue(schema, "items"); items != "" {
			return items
		}
	}
	if properties := memberValue(schema, "properties"); strings.HasPrefix(properties, "{") {
		if child := memberValue(properties, name); child != "" {
			return child
		}
	}
	if more := memberValue(schema, "additionalProperties"); strings.HasPrefix(more, "{") {
		return more
	}
	return ""
}

// resolved follows the references of a schema.
func resolved(schema, root string) string {
	for range maxSchemaDepth {
		if !strings.HasPrefix(schema, "{") {
			return ""
		}
		ref := memberValue(schema, "$ref")
		if ref == "" {
			return schema
		}
		schema = reference(ref, root)
	}
	return ""
}

// renderMiniMaxM3 writes all calls into one block.
func renderMiniMaxM3(b *strings.Builder, content string, calls []Call) {
	separate(b, content, "\n")
	b.WriteString(miniMaxM3Block + "\n")
	for _, c := range calls {
		b.WriteString(miniMaxM3Invoke + `"` + c.Name + `">`)
		eachMember(normalJSON(c.Arguments), func(key, value string) bool {
			writeElement(b, key, value)
			return true
		})
		b.WriteString(miniMaxM3End + "\n")
	}
	b.WriteString(miniMaxM3Close)
}

// miniMaxM3Value is what tells values apart where their types are not known.
func miniMaxM3Value(value string) string {
	var b strings.Builder
	writeElement(&b, "", value)
	return b.String()
}

// writeElement writes one argument with everything in it.
func writeElement(b *strings.Builder, tag, value string) {
	b.WriteString(miniMaxM3Mark + "<" + tag + ">")
	switch value[0] {
	case '{':
		eachMember(value, func(key, item string) bool {
			writeElement(b, key, item)
			return true
		})
	case '[':
		eachItem(value, func(item string) bool {
			writeElement(b, "item", item)
			return true
		})
	default:
		b.WriteString(jsonValueText(value))
	}
	b.WriteString(miniMaxM3Mark + "</" + tag + ">")
}
