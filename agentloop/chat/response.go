package chat

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/tidwall/gjson"
)

// Normalize turns the "message" object of a server's answer into an assistant
// message that can be sent back to any server:
//
//   - null fields are dropped, except content; absent content becomes null next
//     to tool calls and "" without them;
//   - every tool call gets type "function", its arguments as a JSON string (an
//     object is encoded, null and blank become {}), and an id: a missing one, or
//     one for which taken reports true, is replaced by mint();
//   - reasoning found under another name or in a content part is also written as
//     reasoning_content, the field multi-turn chat templates read;
//   - all other fields stay as they came, in their order.
//
// Arguments that are not valid JSON are kept as the model wrote them.
func Normalize(raw []byte, taken func(id string) bool, mint func() string) (Message, error) {
	if m, ok := alreadyNormal(raw, taken); ok {
		return m, nil
	}
	return repair(raw, taken, mint)
}

func repair(raw []byte, taken func(id string) bool, mint func() string) (Message, error) {
	o, err := ParseObject(raw)
	if err != nil {
		return Message{}, fmt.Errorf("read the assistant message: %w", err)
	}
	kept := o[:0:0]
	for _, f := range o {
		if f.Key == "content" || f.Key == "role" || !isNull(f.Value) {
			kept = append(kept, f)
		}
	}
	o = kept
	o.Set("role", quote(string(RoleAssistant)))
	calls, err := normalizeCalls(&o, taken, mint)
	if err != nil {
		return Message{}, err
	}
	switch content := o.Get("content"); {
	case isNull(content) && len(calls) > 0:
		o.Set("content", json.RawMessage("null"))
	case isNull(content):
		o.Set("content", json.RawMessage(`""`))
	}
	m := Message{raw: compact(o.Append(nil)), role: RoleAssistant, calls: calls}
	p := m.parts()
	m.reasoning = p.findReasoning()
	sent := strings.TrimSpace(gjson.ParseBytes(o.Get("reasoning_content")).String())
	if m.reasoning != "" && sent == "" {
		o.Set("reasoning_content", quote(m.reasoning))
		m.raw = compact(o.Append(nil))
	}
	return m, nil
}

// alreadyNormal reads a message that needs no repair, which is what most servers
// send, in one pass. It says no whenever in doubt.
func alreadyNormal(raw []byte, taken func(string) bool) (Message, bool) {
	if !Valid(raw) {
		return Message{}, false
	}
	m := Message{raw: compact(raw), role: RoleAssistant}
	var role, content, reasoning bool
	var calls []byte
	normal := m.raw[0] == '{'
	EachMember(m.raw, func(key string, value []byte) bool {
		text := value[0] == '"'
		switch key {
		case "role":
			normal = !role && text && sharedText(value) == string(RoleAssistant)
			role = true
		case "content":
			normal = !content && (text || isNull(value))
			content = text
		case "reasoning_content":
			normal = !reasoning && text && strings.TrimSpace(sharedText(value)) != ""
			if reasoning = true; normal {
				m.reasoning = sharedText(value)
			}
		case "reasoning", "reasoning_details":
			normal = false
		case "tool_calls":
			normal = calls == nil
			calls = value
		default:
			normal = !isNull(value)
		}
		return normal
	})
	if normal && calls != nil { // not from within, where the stack is deeper
		m.calls, normal = readCalls(calls, taken)
	}
	return m, normal && role && (content || len(m.calls) > 0)
}

// readCalls reads a list of tool calls that needs no repair.
func readCalls(list []byte, taken func(string) bool) (calls []ToolCall, normal bool) {
	normal = true
	EachElement(list, func(item []byte) bool {
		c, ok := readCall(item)
		for _, other := range calls {
			ok = ok && other.ID != c.ID
		}
		normal = ok && c.ID != "" && strings.TrimSpace(c.Arguments) != "" && (taken == nil || !taken(c.ID))
		calls = append(calls, c)
		return normal
	})
	return calls, normal && len(calls) > 0
}

// readCall reads a tool call that needs no repair but, perhaps, of its values.
func readCall(item []byte) (c ToolCall, normal bool) {
	normal = true
	kind := false
	var id, function, name, arguments []byte
	EachMember(item, func(key string, value []byte) bool {
		switch key {
		case "id":
			normal = normal && id == nil
			id = value
		case "type":
			kind = string(value) == `"function"`
		case "function":
			normal = normal && function == nil
			function = value
		case "index":
			normal = false
		}
		return true
	})
	members := 0
	EachMember(function, func(key string, value []byte) bool {
		members++
		switch key {
		case "name":
			name = value
		case "arguments":
			arguments = value
		}
		return true
	})
	if !normal || !kind || members != 2 || !isString(id) || !isString(name) || !isString(arguments) {
		return c, false
	}
	return ToolCall{ID: sharedText(id), Name: sharedText(name), Arguments: sharedText(arguments)}, true
}

func isString(value []byte) bool { return len(value) > 0 && value[0] == '"' }

func normalizeCalls(o *Object, taken func(string) bool, mint func() string) ([]ToolCall, error) {
	list := o.Get("tool_calls")
	if list == nil {
		return nil, nil
	}
	parsed := gjson.ParseBytes(list)
	if !parsed.IsArray() {
		return nil, fmt.Errorf("read the assistant message: \"tool_calls\" is not an array: %s", excerpt(list))
	}
	var calls []ToolCall
	seen := make(map[string]bool)
	encoded := []byte{'['}
	for _, item := range parsed.Array() {
		call, err := ParseObject([]byte(item.Raw))
		if err != nil {
			return nil, fmt.Errorf("read the assistant message: tool call %d: %w", len(calls)+1, err)
		}
		function := gjson.ParseBytes(call.Get("function"))
		c := ToolCall{
			ID:        gjson.ParseBytes(call.Get("id")).String(),
			Name:      function.Get("name").String(),
			Arguments: argumentsText([]byte(function.Get("arguments").Raw)),
		}
		if c.ID == "" || seen[c.ID] || (taken != nil && taken(c.ID)) {
			c.ID = mint()
		}
		seen[c.ID] = true
		var f Object
		if function.IsObject() {
			if f, err = ParseObject([]byte(function.Raw)); err != nil {
				return nil, err
			}
		}
		f.Set("name", quote(c.Name))
		f.Set("arguments", quote(c.Arguments))
		call.Set("id", quote(c.ID))
		call.Set("type", json.RawMessage(`"function"`))
		call.Set("function", f.Append(nil))
		call.Delete("index") // a leftover of streaming that strict servers refuse
		if len(calls) > 0 {
			encoded = append(encoded, ',')
		}
		encoded = call.Append(encoded)
		calls = append(calls, c)
	}
	if len(calls) == 0 {
		o.Delete("tool_calls") // servers refuse an empty list in a request
		return nil, nil
	}
	o.Set("tool_calls", append(encoded, ']'))
	return calls, nil
}

// NativeReasoning returns the reasoning a server sent apart from the answer, in
// the first shape that has any: reasoning_content, reasoning (a string, or an
// object with text), the texts and summaries of reasoning_details, or thinking
// parts of the content. It returns "" when there is none.
func (m Message) NativeReasoning() string { return m.reasoning }

func (p *parts) findReasoning() string {
	for _, raw := range [...][]byte{p.reasoningContent, p.reasoning} {
		if len(raw) > 0 && raw[0] == '"' {
			if text := sharedText(raw); strings.TrimSpace(text) != "" {
				return text
			}
			continue
		}
		v := parse(raw)
		if text := v.Get("text"); v.IsObject() && text.Type == gjson.String && text.Str != "" {
			return text.Str
		}
	}
	if s := joinParts(parse(p.reasoningList), "text", "summary"); s != "" {
		return s
	}
	if len(p.content) == 0 || p.content[0] == '"' {
		return ""
	}
	var b strings.Builder
	parse(p.content).ForEach(func(_, part gjson.Result) bool {
		if t := part.Get("type").String(); t == "thinking" || t == "reasoning" {
			for _, key := range []string{"thinking", "text", "reasoning"} {
				if v := part.Get(key); v.Type == gjson.String {
					b.WriteString(v.Str)
					break
				} else if v.IsArray() {
					b.WriteString(contentText(v))
					break
				}
			}
		}
		return true
	})
	return b.String()
}

func joinParts(list gjson.Result, keys ...string) string {
	var texts []string
	if !list.IsArray() {
		return ""
	}
	list.ForEach(func(_, part gjson.Result) bool {
		for _, key := range keys {
			if v := part.Get(key); v.Type == gjson.String && v.Str != "" {
				texts = append(texts, v.Str)
				break
			}
		}
		return true
	})
	return strings.Join(texts, "\n")
}
