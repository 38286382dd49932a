package parsers

import (
	"strconv"
	"strings"
)

// renderFunc writes content, trimmed, and at least one call.
type renderFunc func(b *strings.Builder, content string, calls []Call)

// renderTagged writes each call as JSON between tags of its own.
func renderTagged(open, close, before, between string) renderFunc {
	return func(b *strings.Builder, content string, calls []Call) {
		separate(b, content, before)
		for i, c := range calls {
			if i > 0 {
				b.WriteString(between)
			}
			b.WriteString(open)
			callJSON(b, c, "arguments")
			b.WriteString(close)
		}
	}
}

// renderArray writes all calls as one JSON array between two tags.
func renderArray(open, close, before string) renderFunc {
	return func(b *strings.Builder, content string, calls []Call) {
		separate(b, content, before)
		b.WriteString(open)
		b.WriteByte('[')
		for i, c := range calls {
			if i > 0 {
				b.WriteString(", ")
			}
			callJSON(b, c, "arguments")
		}
		b.WriteByte(']')
		b.WriteString(close)
	}
}

// renderLlama writes bare JSON objects; the tag keeps them apart from content.
func renderLlama(b *strings.Builder, content string, calls []Call) {
	separate(b, content, "<|python_tag|>")
	for i, c := range calls {
		if i > 0 {
			b.WriteString("; ")
		}
		callJSON(b, c, "parameters")
	}
}

// renderMistral writes the newer form, with the id where it is one that
// mistral-common accepts.
func renderMistral(b *strings.Builder, content string, calls []Call) {
	b.WriteString(content)
	for _, c := range calls {
		b.WriteString(mistralCalls + c.Name)
		if len(c.ID) == 9 && strings.Trim(c.ID, alnum) == "" {
			b.WriteString(mistralCallID + c.ID)
		}
		b.WriteString(mistralArgs + strings.TrimSpace(c.Arguments))
	}
}

// renderDeepSeek writes the tokens of V3, with a code block, or of V3.1.
func renderDeepSeek(fenced bool) renderFunc {
	return func(b *strings.Builder, content string, calls []Call) {
		b.WriteString(content + deepseekCallsBegin)
		for i, c := range calls {
			args := strings.TrimSpace(c.Arguments)
			if !fenced {
				b.WriteString(deepseekCallBegin + c.Name + deepseekSep + args + deepseekCallEnd)
				continue
			}
			if i > 0 {
				b.WriteByte('\n')
			}
			b.WriteString(deepseekCallBegin + "function" + deepseekSep + c.Name)
			b.WriteString("\n```json\n" + args + "\n```" + deepseekCallEnd)
		}
		b.WriteString(deepseekCallsEnd)
	}
}

// renderKimi writes ids of Kimi's own kind as they are and makes up the others.
func renderKimi(b *strings.Builder, content string, calls []Call) {
	b.WriteString(content + kimiSectionBegin)
	for i, c := range calls {
		id := c.ID
		if !strings.HasPrefix(id, "functions."+c.Name+":") || !isDigits(id[strings.LastIndexByte(id, ':')+1:]) {
			id = "functions." + c.Name + ":" + strconv.Itoa(i)
		}
		b.WriteString(kimiCallBegin + id + kimiArgsBegin + strings.TrimSpace(c.Arguments) + kimiCallEnd)
	}
	b.WriteString(kimiSectionEnd)
}

func kimiResult(r Result) string {
	return "## Return of " + r.CallID + "\n" + r.Content
}

// llamaResult is the answer as JSON, the way the Llama templates put it.
func llamaResult(r Result) string {
	return `{"output": ` + jsonString(r.Content) + `}`
}

// mistralResult names the call it answers when it knows which, as the tokenizer
// versions with [CALL_ID] do.
func mistralResult(r Result) string {
	if r.CallID == "" {
		return "[TOOL_RESULTS]" + r.Content + "[/TOOL_RESULTS]"
	}
	return "[TOOL_RESULTS]" + r.CallID + "[TOOL_CONTENT]" + r.Content + "[/TOOL_RESULTS]"
}

// dsmlResults puts all answers into one element.
func dsmlResults(results []Result) []string {
	inner := joined("<result>", "</result>", "\n")(results)
	return []string{"<function_results>\n" + inner[0] + "\n</function_results>"}
}

// deepseekV3Results are the tokens of V3, which wraps all answers once more.
func deepseekV3Results(results []Result) []string {
	inner := joined("<\uff5ctool\u2581output\u2581begin\uff5c>", "<\uff5ctool\u2581output\u2581end\uff5c>", "\n")(results)
	return []string{"<\uff5ctool\u2581outputs\u2581begin\uff5c>" + inner[0] + "<\uff5ctool\u2581outputs\u2581end\uff5c>"}
}

// xmlLayout says how an xmlGrammar is laid out when it is written.
type xmlLayout struct {
	before, between string // after content; between blocks or, inside one, calls
	one             bool   // all calls share one block
	tight           bool   // no newlines behind opening and before closing tags
	bare            bool   // no block around the calls
	text            func(value string) string
	// open and key are the opening tags of a call and of an argument.
	open func(index int, name string) string
	key  func(key, value string) string
	// valueEnd precedes the closing tag of an argument, argEnd follows it.
	valueEnd, argEnd string
	prefix           string // between BEGIN and the opening tag of a call
	suffix           string // behind the closing tag of a call
}

// renderXML writes an xmlGrammar.
func renderXML(g *xmlGrammar, l xmlLayout) renderFunc {
	return func(b *strings.Builder, content string, calls []Call) {
		separate(b, content, l.before)
		newline := "\n"
		if l.tight {
			newline = ""
		}
		for i, c := range calls {
			if i > 0 {
				b.WriteString(l.between)
			}
			if !l.bare && (i == 0 || !l.one) {
				b.WriteString(g.blockOpen + newline)
			}
			b.WriteString(l.prefix + l.open(i+1, c.Name) + newline)
			eachMember(normalJSON(c.Arguments), func(key, value string) bool {
				b.WriteString(l.key(key, value) + l.text(value) + l.valueEnd + g.argClose + l.argEnd)
				return true
			})
			b.WriteString(g.callClose + l.suffix)
			if !l.bare && (!l.one || i == len(calls)-1) {
				b.WriteString(newline + g.blockClose)
			}
		}
	}
}

// glmLayout says what stands between the elements of a call.
type glmLayout struct {
	before, between  string // after content; between calls
	name, key, value string // after the name, a key and a value
}

// evenGLM puts the same between all elements.
func evenGLM(before, between, gap string) glmLayout {
	return glmLayout{before: before, between: between, name: gap, key: gap, value: gap}
}

// renderGLM writes the calls of a glmMachine.
func renderGLM(g *glmMachine, l glmLayout) renderFunc {
	return func(b *strings.Builder, content string, calls []Call) {
		separate(b, content, l.before)
		for i, c := range calls {
			if i > 0 {
				b.WriteString(l.between)
			}
			if i == 0 && len(g.sections) > 0 {
				b.WriteString(g.sections[0] + l.between)
			}
			b.WriteString(g.open + c.Name + g.sep + l.name)
			eachMember(normalJSON(c.Arguments), func(key, value string) bool {
				b.WriteString(g.keyOpen + key + g.keyClose + l.key)
				b.WriteString(g.valueOpen + jsonValueText(value) + g.valueClose + l.value)
				return true
			})
			b.WriteString(g.close)
		}
		if len(g.sections) > 0 {
			b.WriteString(l.between + g.sections[1])
		}
	}
}
