package parsers

import "strings"

// The tokens of the harmony format of gpt-oss.
const (
	harmonyStart     = "<|start|>"
	harmonyChannel   = "<|channel|>"
	harmonyMessage   = "<|message|>"
	harmonyConstrain = "<|constrain|>"
	harmonyEnd       = "<|end|>"
	harmonyCall      = "<|call|>"
	harmonyReturn    = "<|return|>"
)

// harmonyMachine reads messages of the shape
//
//	<|start|>assistant<|channel|>commentary to=functions.f <|constrain|>json<|message|>{"a": 1}<|call|>
//
// A message with a recipient is a call. The token that ends it is missing when
// the server has stopped at it; arguments that are cut are passed on, marked.
type harmonyMachine struct {
	state harmonyState
	pos   int
	start int // of the header, later of the arguments
	name  string
	value jsonScanner
}

type harmonyState uint8

const (
	harmonyText   harmonyState = iota // outside of headers and calls
	harmonyHeader                     // inside a header
	harmonyBody                       // before the arguments of a call
	harmonyValue                      // inside arguments that are JSON so far
	harmonyClose                      // behind arguments that are complete JSON
	harmonyPlain                      // inside arguments that are not JSON
)

func newHarmony() machine { return &harmonyMachine{} }

func (m *harmonyMachine) closers() []string { return []string{harmonyCall, harmonyEnd, harmonyReturn} }

func (m *harmonyMachine) scan(p *pass) {
	for m.step(p) {
	}
}

// step takes one step and returns false when more text is needed.
func (m *harmonyMachine) step(p *pass) bool {
	switch m.state {
	case harmonyText:
		i, which := p.findAny(&m.pos, []string{harmonyStart, harmonyChannel})
		if i < 0 {
			p.content(m.pos)
			return false
		}
		p.content(i)
		m.start, m.state = i, harmonyHeader
		m.pos = i + len([]string{harmonyStart, harmonyChannel}[which])
	case harmonyHeader:
		i, which := p.findAny(&m.pos, []string{harmonyMessage, harmonyStart, harmonyEnd, harmonyCall, harmonyReturn})
		if i < 0 {
			return false
		}
		m.pos, m.state = i, harmonyText
		if which != 0 {
			if which > 1 {
				m.pos++ // an end without a beginning
			}
			return true
		}
		m.pos += len(harmonyMessage)
		if m.name = harmonyRecipient(p.text[m.start:i]); m.name != "" {
			p.mark(m.start, m.pos-m.start)
			m.state = harmonyBody
		}
	case harmonyBody:
		at, ok := p.skipSpace(m.pos)
		m.pos = at
		if !ok && !p.final {
			return false
		}
		m.start, m.state = at, harmonyPlain
		if ok && p.text[at] == '{' {
			m.value.reset(at)
			m.state = harmonyValue
			p.begin("", m.name, at)
		}
	case harmonyValue:
		switch p.read(&m.value) {
		case scanMore:
			if !p.final {
				p.grow(p.text[m.start:m.value.pos])
				return false
			}
			m.pos, m.state = m.start, harmonyPlain
		case scanBad:
			p.grow(p.text[m.start:m.value.pos])
			m.pos, m.state = m.start, harmonyPlain
		case scanDone:
			m.pos, m.state = m.value.pos, harmonyClose
			p.grow(p.text[m.start:m.pos])
		}
	case harmonyClose:
		return m.close(p)
	case harmonyPlain:
		return m.plain(p)
	}
	return true
}

// close expects the end of the call behind complete JSON.
func (m *harmonyMachine) close(p *pass) bool {
	at, ok := p.skipSpace(m.pos)
	if !ok {
		if p.final {
			m.emit(p, m.value.pos, false)
		}
		m.pos = at
		return false
	}
	found, _ := p.look(at, harmonyCall, harmonyEnd, harmonyReturn, harmonyStart)
	m.pos = at
	switch {
	case found == lookFound, found == lookMore && p.final:
		m.emit(p, m.value.pos, false)
		m.pos, m.state = at, harmonyText
	case found == lookMore:
		return false
	default:
		m.pos, m.state = m.start, harmonyPlain
	}
	return true
}

// plain takes everything up to the end of the message as the arguments.
func (m *harmonyMachine) plain(p *pass) bool {
	i, _ := p.findAny(&m.pos, []string{harmonyCall, harmonyEnd, harmonyReturn, harmonyStart})
	if i < 0 {
		if p.final {
			m.emit(p, len(p.text), true)
			m.pos, m.state = len(p.text), harmonyText
		}
		return false
	}
	m.emit(p, i, false)
	m.pos, m.state = i, harmonyText
	return true
}

// emit records the call whose arguments end at end.
func (m *harmonyMachine) emit(p *pass, end int, truncated bool) {
	p.call(verbatimCall("", m.name, p.text[m.start:end], truncated), m.start, end)
	m.state = harmonyText
}

// harmonyRecipient returns the tool a header addresses, "" when it addresses
// none. Built-in tools keep their namespace.
func harmonyRecipient(header string) string {
	header = strings.NewReplacer(harmonyStart, " ", harmonyChannel, " ", harmonyConstrain, " ").Replace(header)
	for _, field := range strings.Fields(header) {
		if to, ok := strings.CutPrefix(field, "to="); ok {
			switch to = strings.TrimPrefix(to, "functions."); to {
			case "assistant", "user", "all":
				return ""
			}
			return to
		}
	}
	return ""
}

// harmonySplit takes a response apart: analysis is reasoning, calls stay as
// they are, every other message loses its markup.
func harmonySplit(text string) (reasoning, rest string) {
	var thought, out []string
	for text != "" {
		start, open := harmonyNext(text, harmonyStart, harmonyChannel)
		if open == "" {
			out = append(out, text)
			break
		}
		if start > 0 {
			out = append(out, text[:start])
		}
		text = text[start:]
		at, token := harmonyNext(text[len(open):], harmonyMessage, harmonyStart, harmonyEnd, harmonyCall, harmonyReturn)
		at += len(open)
		if token == "" {
			at = len(text)
		}
		if token != harmonyMessage {
			out = append(out, text[:at])
			if text = text[at:]; token != harmonyStart && text != "" {
				out = append(out, text[:1]) // an end without a beginning
				text = text[1:]
			}
			continue
		}
		header, body := text[:at], text[at+len(harmonyMessage):]
		end, token := harmonyNext(body, harmonyEnd, harmonyCall, harmonyReturn, harmonyStart)
		rest := ""
		if token == "" {
			end = len(body)
		} else if rest = body[end:]; token != harmonyStart {
			rest = body[end+len(token):]
		}
		switch {
		case harmonyRecipient(header) != "":
			out = append(out, text[:len(text)-len(rest)])
		case harmonyChannelOf(header) == "analysis":
			thought = append(thought, strings.TrimSpace(body[:end]))
		default:
			out = append(out, body[:end])
		}
		text = rest
	}
	return strings.Join(thought, "\n"), strings.Join(out, "")
}

// harmonyChannelOf returns the channel a header names.
func harmonyChannelOf(header string) string {
	_, after, _ := strings.Cut(header, harmonyChannel)
	name, _, _ := strings.Cut(strings.TrimSpace(after), " ")
	name, _, _ = strings.Cut(name, "<")
	return name
}

// harmonyNext returns the first of the tokens in text and its position; "" when
// there is none.
func harmonyNext(text string, tokens ...string) (int, string) {
	p := pass{text: text, final: true}
	pos := 0
	i, which := p.findAny(&pos, tokens)
	if i < 0 {
		return 0, ""
	}
	return i, tokens[which]
}

// renderHarmony writes content as a preamble and each call as a message. The
// role of the first message is part of the prompt.
func renderHarmony(b *strings.Builder, content string, calls []Call) {
	if content != "" {
		b.WriteString(harmonyChannel + "commentary" + harmonyMessage + content + harmonyEnd)
	}
	for i, c := range calls {
		if i > 0 || content != "" {
			b.WriteString(harmonyStart + "assistant")
		}
		to := c.Name
		if to != "python" && !strings.HasPrefix(to, "browser.") {
			to = "functions." + to
		}
		b.WriteString(harmonyChannel + "commentary to=" + to + " " + harmonyConstrain + "json" + harmonyMessage)
		b.WriteString(strings.TrimSpace(c.Arguments) + harmonyCall)
	}
}

func harmonyResult(r Result) string {
	return harmonyStart + "functions." + r.Name + " to=assistant" + harmonyChannel + "commentary" + harmonyMessage + r.Content + harmonyEnd
}
