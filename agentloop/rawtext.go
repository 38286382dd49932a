package agentloop

import (
	"encoding/json"

	"github.com/hermes-env/hermes-env/agentloop/chat"
	"github.com/hermes-env/hermes-env/parsers"
)

// TextCalls says when tool calls are looked for in the text of an answer.
type TextCalls int

// When the text of an answer is parsed for tool calls.
const (
	// TextCallsAuto takes the server's own calls, and for an answer without any
	// the calls its text holds, if all of them name offered tools: some endpoints
	// leave calls unparsed.
	TextCallsAuto TextCalls = iota
	// TextCallsAlways treats the text as the model's raw output, as servers give
	// it that parse nothing.
	TextCallsAlways
	// TextCallsNever takes the server's own calls only.
	TextCallsNever
)

// readText finds reasoning and tool calls in the text of an answer and returns
// the message with both in their own fields, or the message unchanged.
func (l *loop) readText(m chat.Message) (chat.Message, error) {
	if l.cfg.Parser == nil || l.cfg.TextCalls == TextCallsNever || len(m.ToolCalls()) > 0 || l.offered.Len() == 0 {
		return m, nil
	}
	text := m.Text()
	if text == "" {
		return m, nil
	}
	reasoning, rest := l.cfg.Parser.SplitReasoning(text, parsers.ReasoningConfig{})
	parsed := l.cfg.Parser.Parse(rest, l.parserTools)
	if len(parsed.Calls) == 0 {
		return m, nil
	}
	calls := make([]chat.ToolCall, len(parsed.Calls))
	for i, c := range parsed.Calls {
		if l.cfg.TextCalls == TextCallsAuto && !l.tools.Offers(c.Name) {
			return m, nil // text that looks like a call, say a JSON example
		}
		calls[i] = chat.ToolCall{ID: c.ID, Name: c.Name, Arguments: c.Arguments}
	}
	content := ""
	if parsed.Content != nil {
		content = *parsed.Content
	}
	if native := m.NativeReasoning(); native != "" {
		reasoning = native
	}
	// The fields of a message built from the parts replace those of the answer;
	// whatever else the server sent stays.
	object, err := chat.ParseObject(m.JSON())
	if err != nil {
		return m, err
	}
	built, err := chat.ParseObject(chat.Assistant(content, reasoning, calls...).JSON())
	if err != nil {
		return m, err
	}
	for _, f := range built {
		object.Set(f.Key, f.Value)
	}
	return chat.Decode(object.Append(nil))
}

// ReasoningPerTurn returns what Result has under that name, for the answers of a recorded
// conversation.
func ReasoningPerTurn(messages []chat.Message) []string {
	var list []string
	for _, m := range messages {
		if m.Role() == chat.RoleAssistant {
			list = append(list, reasoningOf(m))
		}
	}
	return list
}

// reasoningOf returns the reasoning of an answer, sent apart or inline.
func reasoningOf(m chat.Message) string {
	if native := m.NativeReasoning(); native != "" {
		return native
	}
	text := m.Text()
	if text == "" {
		return ""
	}
	reasoning, _ := parsers.SplitReasoning(text, parsers.ReasoningConfig{})
	return reasoning
}

// parserToolsOf gives parsers the argument types of formats that carry none.
func parserToolsOf(set *chat.Toolset) []parsers.Tool {
	tools := make([]parsers.Tool, 0, set.Len())
	for _, d := range set.Definitions() {
		tools = append(tools, parsers.Tool{Name: d.Name, Description: d.Description, Parameters: json.RawMessage(d.Parameters)})
	}
	return tools
}
