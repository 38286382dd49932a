package convert

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/hermes-env/hermes-env/agentloop/chat"
	"github.com/hermes-env/hermes-env/trajectories"
)

// conversation is what a ShareGPT conversation says.
type conversation struct {
	messages []chat.Message
	tools    []json.RawMessage // from the generated system turn, nil when there is none
	lost     []string
}

// readConversation reads the turns of a ShareGPT conversation. The generated
// system turn (the Hermes function-calling prompt) becomes tool definitions; think
// blocks become reasoning, and call and response blocks become tool calls and
// their answers. A block that can't be read stays text.
func readConversation(turns []trajectories.Turn) conversation {
	c := conversation{}
	minted := 0
	for i := 0; i < len(turns); i++ {
		t := turns[i]
		switch t.From {
		case "system":
			if tools, ok := promptTools(t.Value); ok {
				c.tools = tools
				continue
			}
			c.messages = append(c.messages, chat.System(t.Value))
		case "human", "user":
			c.messages = append(c.messages, chat.User(t.Value))
		case "gpt", "assistant", "model", "chatgpt":
			content, reasoning, calls, ok := readAnswer(t.Value)
			if !ok {
				c.lost = append(c.lost, "tool_call blocks that are not JSON (kept as text)")
			}
			var answers []response
			if i+1 < len(turns) && isToolTurn(turns[i+1].From) {
				answers = readResponses(turns[i+1].Value)
				i++
			}
			matchIDs(calls, answers, &minted)
			c.messages = append(c.messages, chat.Assistant(content, reasoning, calls...))
			c.answers(answers)
		default:
			if isToolTurn(t.From) {
				c.answers(readResponses(t.Value))
				continue
			}
			c.lost = append(c.lost, fmt.Sprintf("turns from %.40q", t.From))
		}
	}
	return c
}

func isToolTurn(from string) bool {
	return from == "tool" || from == "function_response" || from == "observation"
}

// answers adds tool messages.
func (c *conversation) answers(answers []response) {
	for _, a := range answers {
		c.messages = append(c.messages, chat.Tool(a.id, a.content))
	}
}

// promptTools returns the tool definitions of the Hermes function-calling prompt,
// in OpenAI's shape.
func promptTools(prompt string) ([]json.RawMessage, bool) {
	if !strings.HasPrefix(prompt, "You are a function calling AI model.") {
		return nil, false
	}
	_, rest, ok := strings.Cut(prompt, "Here are the available tools:")
	if !ok {
		return nil, false
	}
	if _, rest, ok = strings.Cut(rest, "<tools>"); !ok {
		return nil, false
	}
	// Descriptions may hold the closing tag; what follows the last one is fixed.
	end := strings.LastIndex(rest, "</tools>")
	if end < 0 {
		return nil, false
	}
	list := strings.TrimSpace(rest[:end])
	if !chat.Valid([]byte(list)) || !gjson.Parse(list).IsArray() {
		return nil, false
	}
	tools := []json.RawMessage{}
	gjson.Parse(list).ForEach(func(_, v gjson.Result) bool {
		if v.Get("function").IsObject() {
			tools = append(tools, json.RawMessage(strings.Clone(v.Raw)))
			return true
		}
		d := []byte(`{"type":"function","function":{"name":`)
		d = chat.AppendString(d, v.Get("name").String())
		d = append(d, `,"description":`...)
		d = chat.AppendString(d, v.Get("description").String())
		d = append(d, `,"parameters":`...)
		if p := v.Get("parameters"); p.IsObject() {
			d = append(d, compact(p.Raw)...)
		} else {
			d = append(d, `{"type":"object","properties":{}}`...)
		}
		tools = append(tools, append(d, "}}"...))
		return true
	})
	return tools, true
}

// readAnswer takes the value of a gpt turn apart. ok is false when a call block
// can't be read: the blocks then stay in the content.
func readAnswer(value string) (content, reasoning string, calls []chat.ToolCall, ok bool) {
	content = value
	if rest, found := strings.CutPrefix(strings.TrimLeft(value, " \t\r\n"), "<think>"); found {
		if inner, after, closed := strings.Cut(rest, "</think>"); closed {
			reasoning = strings.TrimSuffix(strings.TrimPrefix(inner, "\n"), "\n")
			content = strings.TrimPrefix(after, "\n")
			if strings.TrimSpace(reasoning) == "" {
				reasoning = ""
			}
		}
	}
	start := strings.Index(content, "<tool_call>")
	if start < 0 {
		return content, reasoning, nil, true
	}
	before, rest := content[:start], content[start:]
	for strings.TrimSpace(rest) != "" {
		block, found := strings.CutPrefix(strings.TrimLeft(rest, " \t\r\n"), "<tool_call>")
		if !found {
			return content, reasoning, nil, false
		}
		call, after, found := readCall(block)
		if !found {
			return content, reasoning, nil, false
		}
		calls = append(calls, call)
		rest = after
	}
	return strings.TrimSuffix(before, "\n"), reasoning, calls, true
}

// readCall reads the JSON of a call up to its closing tag, which may also stand
// inside of a string of the call.
func readCall(block string) (call chat.ToolCall, rest string, ok bool) {
	const closing = "</tool_call>"
	for from := 0; ; {
		at := strings.Index(block[from:], closing)
		if at < 0 {
			return call, "", false
		}
		end := from + at
		text := strings.TrimSpace(block[:end])
		if chat.Valid([]byte(text)) {
			v := gjson.Parse(text)
			arguments := v.Get("arguments")
			call.Name = v.Get("name").String()
			switch {
			case !v.IsObject() || call.Name == "":
				return call, "", false
			case arguments.Type == gjson.String:
				call.Arguments = arguments.Str
			case arguments.Exists() && arguments.Type != gjson.Null:
				call.Arguments = compact(arguments.Raw)
			default:
				call.Arguments = "{}"
			}
			return call, block[end+len(closing):], true
		}
		from = end + len(closing)
	}
}

// response is one answer of a tool turn.
type response struct{ id, name, content string }

// readResponses reads the blocks of a tool turn; a turn without blocks is one answer.
func readResponses(value string) []response {
	const opening, closing = "<tool_response>", "</tool_response>"
	var list []response
	rest := value
	for strings.TrimSpace(rest) != "" {
		block, found := strings.CutPrefix(strings.TrimLeft(rest, " \t\r\n"), opening)
		if !found {
			return []response{{content: value}}
		}
		end, text := -1, ""
		for from := 0; ; {
			at := strings.Index(block[from:], closing)
			if at < 0 {
				break
			}
			candidate := strings.TrimSpace(block[:from+at])
			if chat.Valid([]byte(candidate)) && gjson.Parse(candidate).IsObject() {
				end, text = from+at, candidate
				break
			}
			from += at + len(closing)
		}
		if end < 0 {
			// Bare text between the tags, as other programs write it.
			bare, after, closed := strings.Cut(block, closing)
			if !closed {
				return []response{{content: value}}
			}
			list = append(list, response{content: strings.TrimSpace(bare)})
			rest = after
			continue
		}
		v := gjson.Parse(text)
		a := response{id: v.Get("tool_call_id").String(), name: v.Get("name").String()}
		switch content := v.Get("content"); {
		case content.Type == gjson.String:
			a.content = content.Str
		case content.Exists():
			a.content = content.Raw
		default:
			a.content = text
		}
		list = append(list, a)
		rest = block[end+len(closing):]
	}
	return list
}

// matchIDs gives the calls the ids of their answers: by name and position first.
// Calls and answers that are left get ids of their own.
func matchIDs(calls []chat.ToolCall, answers []response, minted *int) {
	used := make([]bool, len(answers))
	take := func(i, j int) {
		if answers[j].id == "" {
			*minted++
			answers[j].id = fmt.Sprintf("call_%d", *minted)
		}
		calls[i].ID, used[j] = answers[j].id, true
	}
	for i := range calls {
		if i < len(answers) && (answers[i].name == calls[i].Name || answers[i].name == "" || answers[i].name == "unknown") {
			take(i, i)
		}
	}
	for i := range calls {
		for j := range answers {
			if calls[i].ID == "" && !used[j] && answers[j].name == calls[i].Name {
				take(i, j)
			}
		}
		if calls[i].ID == "" {
			*minted++
			calls[i].ID = fmt.Sprintf("call_%d", *minted)
		}
	}
}

// compact returns JSON text without insignificant white space.
func compact(text string) string {
	raw := bytesOf(text)
	if !chat.Valid(raw) {
		return text
	}
	if short := chat.Compact(raw); len(short) < len(raw) {
		return string(short)
	}
	return text
}
