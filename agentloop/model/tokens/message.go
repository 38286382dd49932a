package tokens

import (
	"encoding/json"
	"errors"
	"maps"
	"math/big"
	"slices"
	"strconv"
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
		if c.Name != other.calls[i].Name || !sameArguments(c.Arguments, other.calls[i].Arguments) {
			return "it writes other tool calls"
		}
	}
	return ""
}

// sameArguments says whether two JSON texts hold the same arguments, however they are
// spelled: escapes in text, the order of members, one that is repeated, and numbers, which
// a template writes as Python does (1e3 as 1000.0, 0.10 as 0.1). null and empty text, which
// servers take for no arguments, are the empty object.
func sameArguments(a, b string) bool {
	if a == b {
		return true
	}
	x, errX := decodeNumbers(a)
	y, errY := decodeNumbers(b)
	return errX == nil && errY == nil && sameValue(orNone(x), orNone(y))
}

func orNone(arguments any) any {
	if text, ok := arguments.(string); arguments == nil || ok && strings.TrimSpace(text) == "" {
		return map[string]any{}
	}
	return arguments
}

// decodeNumbers decodes JSON with numbers as they are spelled.
func decodeNumbers(text string) (v any, err error) {
	if !json.Valid([]byte(text)) {
		return nil, errors.New("not one JSON value")
	}
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	err = d.Decode(&v)
	return v, err
}

func sameValue(a, b any) bool {
	switch a := a.(type) {
	case json.Number:
		switch b := b.(type) {
		case json.Number:
			return sameNumber(a.String(), b.String())
		case string:
			return respelled(a, b)
		}
		return false
	case string:
		if n, ok := b.(json.Number); ok {
			return respelled(n, a)
		}
	case []any:
		b, ok := b.([]any)
		return ok && slices.EqualFunc(a, b, sameValue)
	case map[string]any:
		b, ok := b.(map[string]any)
		return ok && maps.EqualFunc(a, b, sameValue)
	}
	return a == b
}

// respelled says whether a text is an integer of more than 64 bits as SGLang writes it: as
// a float, which a parser that knows the argument for an integer reads as text.
func respelled(n json.Number, text string) bool {
	_, err := strconv.ParseInt(n.String(), 10, 64)
	_, isFloat := strconv.ParseFloat(text, 64)
	return errors.Is(err, strconv.ErrRange) && isFloat == nil && strings.Contains(text, "e+") && sameNumber(n.String(), text)
}

// sameNumber compares integers exactly and other numbers as the floats that they are
// read as.
func sameNumber(a, b string) bool {
	const float = ".eE"
	if !strings.ContainsAny(a, float) && !strings.ContainsAny(b, float) {
		x, okX := new(big.Int).SetString(a, 10)
		y, okY := new(big.Int).SetString(b, 10)
		return okX && okY && x.Cmp(y) == 0
	}
	// What overflows is infinite, which is no error here.
	x, _ := strconv.ParseFloat(a, 64)
	y, _ := strconv.ParseFloat(b, 64)
	return x == y
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
