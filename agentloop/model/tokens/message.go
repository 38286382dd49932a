package tokens

import (
	"encoding/json"
	"reflect"
	"strings"

	"github.com/hermes-env/hermes-env/agentloop/chat"
	"github.com/hermes-env/hermes-env/parsers"
)

// said is what an answer says, apart from how it is written.
type said struct {
	reasoning string
	content   string
	calls     []parsers.Call
}

// read takes the text of an answer apart. open says that the prompt ended within
// reasoning. Without a parser all of it is content.
func read(parser *parsers.Format, text string, open bool, tools []parsers.Tool) said {
	if parser == nil {
		return said{content: text}
	}
	var s said
	var rest string
	s.reasoning, rest = parser.SplitReasoning(text, parsers.ReasoningConfig{Opened: open})
	parsed := parser.Parse(rest, tools)
	s.calls = parsed.Calls
	if parsed.Content != nil {
		s.content = *parsed.Content
	}
	return s
}

func (s said) message() chat.Message {
	calls := make([]chat.ToolCall, len(s.calls))
	for i, c := range s.calls {
		calls[i] = chat.ToolCall{ID: c.ID, Name: c.Name, Arguments: c.Arguments}
	}
	return chat.Assistant(s.content, s.reasoning, calls...)
}

// differs says what two readings of an answer differ in, "" when only in how it is
// written: white space at the ends, the spelling of arguments.
func (s said) differs(other said) string {
	switch {
	case strings.TrimSpace(s.reasoning) != strings.TrimSpace(other.reasoning):
		if strings.TrimSpace(other.reasoning) == "" {
			return "it leaves the reasoning out"
		}
		return "it writes other reasoning"
	case strings.TrimSpace(s.content) != strings.TrimSpace(other.content):
		return "it writes another text"
	case len(s.calls) != len(other.calls):
		return "it writes other tool calls"
	}
	for i, c := range s.calls {
		if c.Name != other.calls[i].Name || !sameJSON(c.Arguments, other.calls[i].Arguments) {
			return "it writes other tool calls"
		}
	}
	return ""
}

func sameJSON(a, b string) bool {
	if a == b {
		return true
	}
	var x, y any
	dx, dy := json.NewDecoder(strings.NewReader(a)), json.NewDecoder(strings.NewReader(b))
	dx.UseNumber()
	dy.UseNumber()
	return dx.Decode(&x) == nil && dy.Decode(&y) == nil && reflect.DeepEqual(x, y)
}

// parserTools gives parsers the argument types of formats that carry none.
func parserTools(set *chat.Toolset) []parsers.Tool {
	tools := make([]parsers.Tool, 0, set.Len())
	for _, d := range set.Definitions() {
		tools = append(tools, parsers.Tool{Name: d.Name, Description: d.Description, Parameters: json.RawMessage(d.Parameters)})
	}
	return tools
}

// opensReasoning says whether a prompt ends within reasoning, as templates of models
// that always think write it.
func opensReasoning(prompt string) bool {
	prompt = strings.TrimRight(prompt, " \t\r\n")
	for _, tag := range parsers.ReasoningTags() {
		if strings.HasSuffix(prompt, tag.Open) {
			return true
		}
	}
	return false
}
