package parsers

import "strings"

// gemmaMachine reads the formats of the Gemma models:
//
//	<start_function_call>call:f{city:<escape>Bern<escape>,days:3}<end_function_call>
//	<|tool_call>call:f{city:<|"|>Bern<|"|>,days:3}<tool_call|>
//
// Text stands between two quote tokens, everything else is like JSON with bare
// keys. A block that does not read so is no call; the others stay.
type gemmaMachine struct {
	open, close, quote string
	// decode reads quoted arguments as JSON where that is possible and the
	// schema does not ask for a string.
	decode bool

	inside bool
	start  int
	pos    int
}

func newFunctionGemma() machine {
	return &gemmaMachine{open: "<start_function_call>", close: "<end_function_call>", quote: "<escape>", decode: true}
}

func newGemma4() machine {
	return &gemmaMachine{open: "<|tool_call>", close: "<tool_call|>", quote: `<|"|>`}
}

func (m *gemmaMachine) closers() []string { return nil }

func (m *gemmaMachine) scan(p *pass) {
	for {
		if !m.inside {
			i, _ := p.findAny(&m.pos, []string{m.open})
			if i < 0 {
				p.content(m.pos)
				return
			}
			p.mark(i, len(m.open))
			m.pos = i + len(m.open)
			m.start, m.inside = m.pos, true
		}
		end := p.find(&m.pos, m.close)
		next := end + len(m.close)
		if end < 0 {
			if !p.final {
				return
			}
			end, next = len(p.text), len(p.text)
		}
		m.block(p, span{m.start, end}, next)
		m.pos, m.inside = next, false
	}
}

// block reads call:NAME{…}, which ends at next with its closing tag.
func (m *gemmaMachine) block(p *pass, s span, next int) {
	body, ok := strings.CutPrefix(strings.TrimSpace(p.text[s.start:s.end]), "call:")
	brace := strings.IndexByte(body, '{')
	if !ok || brace < 0 {
		return
	}
	name := strings.TrimSpace(body[:brace])
	if name == "" || strings.ContainsAny(name, "<>\n") {
		return
	}
	r := gemmaReader{gemmaMachine: m, pass: p, tool: name, text: body, pos: brace}
	args, ok := r.object(nil, 0)
	if ok && strings.TrimSpace(body[r.pos:]) == "" {
		p.call(Call{Name: name, Arguments: string(args)}, s.start, next)
	}
}

// gemmaReader reads the arguments of one call and appends them as JSON.
type gemmaReader struct {
	*gemmaMachine
	pass *pass
	tool string
	text string
	pos  int
}

func (r *gemmaReader) space() { r.pos = skipJSONSpace(r.text, r.pos) }

// take moves behind token and white space before it, if it is next.
func (r *gemmaReader) take(token string) bool {
	r.space()
	if strings.HasPrefix(r.text[r.pos:], token) {
		r.pos += len(token)
		return true
	}
	return false
}

// quoted reads text up to the closing quote token.
func (r *gemmaReader) quoted() (string, bool) {
	text, _, ok := strings.Cut(r.text[r.pos:], r.quote)
	r.pos += min(len(text)+len(r.quote), len(r.text)-r.pos)
	return text, ok
}

func (r *gemmaReader) object(dst []byte, depth int) ([]byte, bool) {
	if depth > maxLiteralDepth || !r.take("{") {
		return dst, false
	}
	var object jsonObject
	for !r.take("}") {
		if len(object.keys) > 0 && !r.take(",") {
			return dst, false
		}
		key, ok := r.key()
		if !ok {
			return dst, false
		}
		value, ok := r.value(nil, depth, key)
		if !ok {
			return dst, false
		}
		object.set(key, string(value))
	}
	return append(dst, object.text()...), true
}

// key reads a key, bare or quoted, and the colon.
func (r *gemmaReader) key() (string, bool) {
	if r.take(r.quote) {
		key, ok := r.quoted()
		return key, ok && r.take(":")
	}
	colon := strings.IndexAny(r.text[r.pos:], ":,{}[]<")
	if colon < 1 || r.text[r.pos+colon] != ':' {
		return "", false
	}
	key := r.text[r.pos : r.pos+colon]
	r.pos += colon + 1
	return strings.TrimSpace(key), true
}

// value reads one value. The types of top-level arguments, named by key, come
// from the schema.
func (r *gemmaReader) value(dst []byte, depth int, key string) ([]byte, bool) {
	r.space()
	switch {
	case r.pos == len(r.text):
		return dst, false
	case r.text[r.pos] == '{':
		return r.object(dst, depth+1)
	case r.take("["):
		dst = append(dst, '[')
		for first := true; !r.take("]"); first = false {
			if !first {
				if !r.take(",") {
					return dst, false
				}
				dst = append(dst, ", "...)
			}
			var ok bool
			if depth > maxLiteralDepth {
				return dst, false
			}
			if dst, ok = r.value(dst, depth+1, ""); !ok {
				return dst, false
			}
		}
		return append(dst, ']'), true
	case r.take(r.quote):
		text, ok := r.quoted()
		if r.decode && depth == 0 && validJSON(text) && r.pass.argTypes(r.tool, key) != typeString {
			return append(dst, normalJSON(text)...), ok
		}
		return appendJSONString(dst, text), ok
	}
	end := strings.IndexAny(r.text[r.pos:], ",}]")
	if end < 0 {
		return dst, false
	}
	bare := strings.TrimSpace(r.text[r.pos : r.pos+end])
	r.pos += end
	switch {
	case bare == "":
		return dst, false
	case validJSON(bare):
		return append(dst, normalJSON(bare)...), true
	case bare == "None":
		return append(dst, "null"...), true
	}
	return appendJSONString(dst, bare), true
}

// renderGemma writes calls the way Gemma's template does.
func renderGemma(m *gemmaMachine) renderFunc {
	return func(b *strings.Builder, content string, calls []Call) {
		b.WriteString(content)
		for _, c := range calls {
			b.WriteString(m.open + "call:" + c.Name)
			m.write(b, normalJSON(c.Arguments))
			b.WriteString(m.close)
		}
	}
}

// write writes a JSON value with bare keys and quote tokens.
func (m *gemmaMachine) write(b *strings.Builder, value string) {
	first := true
	comma := func() {
		if !first {
			b.WriteByte(',')
		}
		first = false
	}
	switch value[0] {
	case '{':
		b.WriteByte('{')
		eachMember(value, func(key, item string) bool {
			comma()
			b.WriteString(key + ":")
			m.write(b, item)
			return true
		})
		b.WriteByte('}')
	case '[':
		b.WriteByte('[')
		eachItem(value, func(item string) bool {
			comma()
			m.write(b, item)
			return true
		})
		b.WriteByte(']')
	case '"':
		b.WriteString(m.quote + unquote(value) + m.quote)
	default:
		b.WriteString(value)
	}
}

// gemmaResults writes answers as the template writes a plain string.
func gemmaResults(open, close, quote string) func([]Result) []string {
	return func(results []Result) []string {
		var b strings.Builder
		for _, r := range results {
			b.WriteString(open + "response:" + r.Name + "{value:" + quote + r.Content + quote + "}" + close)
		}
		return []string{b.String()}
	}
}
