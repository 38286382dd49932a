package chat

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unsafe"

	"github.com/tidwall/gjson"
)

// Role says who speaks in a message.
type Role string

// The roles of the OpenAI chat shape. Other roles (developer, function, …) are carried unchanged.
const (
	RoleSystem    Role = "system"
	RoleUser      Role = "user"
	RoleAssistant Role = "assistant"
	RoleTool      Role = "tool"
)

// Message is one immutable chat message. The zero value is not a message.
type Message struct {
	raw       json.RawMessage // never changes once the message exists
	role      Role
	calls     []ToolCall
	reasoning string // see NativeReasoning
}

// ToolCall is one call a model asked for. Arguments is the JSON text the model
// wrote, which may be invalid; ID is never empty in a normalised message.
type ToolCall struct {
	ID        string
	Name      string
	Arguments string
}

// System returns a system message.
func System(text string) Message { return plain(RoleSystem, text) }

// User returns a user message.
func User(text string) Message { return plain(RoleUser, text) }

// Tool returns the message that answers the call with the given id.
func Tool(callID, content string) Message {
	raw := append(make([]byte, 0, len(content)+len(callID)+64), `{"role":"tool","tool_call_id":`...)
	raw = AppendString(raw, callID)
	raw = append(raw, `,"content":`...)
	raw = AppendString(raw, content)
	return Message{raw: append(raw, '}'), role: RoleTool}
}

// Assistant returns an assistant message. Empty reasoning and no calls leave
// their keys out; empty text together with calls is written as null.
func Assistant(text, reasoning string, calls ...ToolCall) Message {
	raw := append(make([]byte, 0, len(text)+len(reasoning)+96), `{"role":"assistant","content":`...)
	if text == "" && len(calls) > 0 {
		raw = append(raw, "null"...)
	} else {
		raw = AppendString(raw, text)
	}
	if reasoning != "" {
		raw = append(raw, `,"reasoning_content":`...)
		raw = AppendString(raw, reasoning)
	}
	if len(calls) > 0 {
		raw = append(raw, `,"tool_calls":`...)
		raw = appendCalls(raw, calls)
	}
	return Message{raw: append(raw, '}'), role: RoleAssistant, calls: calls, reasoning: reasoning}
}

func plain(role Role, text string) Message {
	raw := append(make([]byte, 0, len(text)+40), `{"role":"`...)
	raw = append(raw, role...)
	raw = append(raw, `","content":`...)
	raw = AppendString(raw, text)
	return Message{raw: append(raw, '}'), role: role}
}

func appendCalls(dst []byte, calls []ToolCall) []byte {
	dst = append(dst, '[')
	for i, c := range calls {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, `{"id":`...)
		dst = AppendString(dst, c.ID)
		dst = append(dst, `,"type":"function","function":{"name":`...)
		dst = AppendString(dst, c.Name)
		dst = append(dst, `,"arguments":`...)
		dst = AppendString(dst, c.Arguments)
		dst = append(dst, "}}"...)
	}
	return append(dst, ']')
}

// Decode reads a message from its JSON encoding, which it keeps (compacted).
// It fails when raw is not a JSON object with a string role; all else is accepted.
func Decode(raw []byte) (Message, error) {
	if !Valid(raw) {
		return Message{}, fmt.Errorf("decode chat message: invalid JSON: %s", excerpt(raw))
	}
	return DecodeValid(raw)
}

// DecodeValid is Decode for a part of a text that is known to be valid JSON.
func DecodeValid(raw []byte) (Message, error) {
	m := Message{raw: compact(raw)}
	if m.raw[0] != '{' {
		return Message{}, fmt.Errorf("decode chat message: want an object, got %s", excerpt(raw))
	}
	return m.decode(m.parts())
}

// DecodeMembers makes a message of its members, which must be valid JSON. It shares no
// memory with them.
func DecodeMembers(o Object) (Message, error) {
	size := 2
	for _, f := range o {
		size += len(f.Key) + len(f.Value) + 4
	}
	raw := append(make([]byte, 0, size), '{')
	var p parts
	for i, f := range o {
		if i > 0 {
			raw = append(raw, ',')
		}
		raw = append(AppendString(raw, f.Key), ':')
		begin := len(raw)
		if f.Value[0] == '{' || f.Value[0] == '[' {
			raw = append(raw, Compact(f.Value)...)
		} else {
			raw = append(raw, f.Value...)
		}
		p.set(f.Key, raw[begin:len(raw):len(raw)])
	}
	return Message{raw: append(raw, '}')}.decode(p)
}

// decode sets what is kept of a message beside its text.
func (m Message) decode(parts parts) (Message, error) {
	if len(parts.role) <= 2 || parts.role[0] != '"' {
		return Message{}, fmt.Errorf("decode chat message: \"role\" is missing or not a string: %s", excerpt(m.raw))
	}
	switch role := Role(sharedText(parts.role)); role {
	case RoleSystem, RoleUser, RoleAssistant, RoleTool:
		m.role = role
	default:
		m.role = Role(strings.Clone(string(role)))
	}
	switch {
	case isNull(parts.calls):
	case parts.calls[0] == '[':
		EachElement(parts.calls, func(call []byte) bool {
			m.calls = append(m.calls, decodeCall(call))
			return true
		})
	default:
		m.calls = append(m.calls, decodeCall(parts.calls))
	}
	if m.role == RoleAssistant {
		m.reasoning = parts.findReasoning()
	}
	return m, nil
}

// decodeCall reads a call of a message; its strings share the message's memory. Of a
// repeated member the first counts.
func decodeCall(call []byte) ToolCall {
	var id, function, name, arguments []byte
	first := func(field *[]byte, value []byte) {
		if *field == nil {
			*field = value
		}
	}
	EachMember(call, func(key string, value []byte) bool {
		switch key {
		case "id":
			first(&id, value)
		case "function":
			first(&function, value)
		}
		return true
	})
	EachMember(function, func(key string, value []byte) bool {
		switch key {
		case "name":
			first(&name, value)
		case "arguments":
			first(&arguments, value)
		}
		return true
	})
	return ToolCall{ID: scalarText(id), Name: scalarText(name), Arguments: argumentsText(arguments)}
}

// scalarText returns the text of a string, "" for null and for nothing, and of another
// value its JSON.
func scalarText(value []byte) string {
	if len(value) > 0 && value[0] == '"' {
		return sharedText(value)
	}
	return parse(value).String()
}

// parts are the members of a message that this package knows; of a repeated one the
// first counts.
type parts struct {
	role, content, calls, callID               []byte
	reasoningContent, reasoning, reasoningList []byte
}

func (m Message) parts() (p parts) {
	EachMember(m.raw, func(key string, value []byte) bool {
		p.set(key, value)
		return true
	})
	return p
}

func (p *parts) set(key string, value []byte) {
	var field *[]byte
	switch key {
	case "role":
		field = &p.role
	case "content":
		field = &p.content
	case "tool_calls":
		field = &p.calls
	case "tool_call_id":
		field = &p.callID
	case "reasoning_content":
		field = &p.reasoningContent
	case "reasoning":
		field = &p.reasoning
	case "reasoning_details":
		field = &p.reasoningList
	}
	if field != nil && *field == nil {
		*field = value
	}
}

// parse reads a value of a message without copying it; strings taken from it share the
// message's memory, which is safe because it never changes.
func parse(value []byte) gjson.Result {
	if len(value) == 0 {
		return gjson.Result{}
	}
	return gjson.Parse(unsafe.String(&value[0], len(value)))
}

// argumentsText gives the JSON text of arguments in whichever shape a server
// sends them: a string holding JSON (the standard), the object itself, null or nothing.
func argumentsText(value []byte) string {
	switch {
	case isNull(value):
		return "{}"
	case value[0] == '"':
		if text := sharedText(value); strings.TrimSpace(text) != "" {
			return text
		}
		return "{}"
	default:
		return string(compact(value))
	}
}

// Role returns who speaks.
func (m Message) Role() Role { return m.role }

// JSON returns the encoding of the message, shared and not to be modified.
func (m Message) JSON() json.RawMessage { return m.raw }

// IsZero says whether m is the zero value, which is no message.
func (m Message) IsZero() bool { return m.raw == nil }

// ToolCalls returns the calls of an assistant message in order, shared and not to be modified.
func (m Message) ToolCalls() []ToolCall { return m.calls }

// ToolCallID returns the id a tool message answers, or "".
func (m Message) ToolCallID() string { return parse(m.member("tool_call_id")).String() }

// member returns the first value of a key.
func (m Message) member(name string) (first []byte) {
	EachMember(m.raw, func(key string, value []byte) bool {
		if key == name {
			first = value
		}
		return first == nil
	})
	return first
}

// Get returns the raw value of a top-level field, or nil when there is none.
func (m Message) Get(field string) json.RawMessage {
	var found json.RawMessage
	EachMember(m.raw, func(key string, value []byte) bool {
		if key == field {
			found = value
		}
		return true
	})
	return bytes.Clone(found)
}

// Text returns the text of the content: the string itself, or the text parts
// joined; null, absent and non-text content give "".
func (m Message) Text() string {
	content := m.member("content")
	if len(content) > 0 && content[0] == '"' {
		return sharedText(content)
	}
	return contentText(parse(content))
}

func contentText(content gjson.Result) string {
	if content.Type == gjson.String {
		return content.Str
	}
	if !content.IsArray() {
		return ""
	}
	var b strings.Builder
	content.ForEach(func(_, part gjson.Result) bool {
		switch {
		case part.Type == gjson.String:
			b.WriteString(part.Str)
		case part.Get("type").String() == "text", part.Get("type").String() == "output_text":
			b.WriteString(part.Get("text").String())
		}
		return true
	})
	return b.String()
}

// With returns a copy of m with one top-level field set to value, which must be valid JSON.
func (m Message) With(field string, value json.RawMessage) (Message, error) {
	o, err := ParseObject(m.raw)
	if err != nil {
		return Message{}, err
	}
	o.Set(field, value)
	return Decode(o.Append(nil))
}

// WithArguments returns a copy of m in which every tool call has the arguments
// that change returns for it. All else stays as it is.
func (m Message) WithArguments(change func(ToolCall) string) (Message, error) {
	list := []byte{'['}
	for i, item := range parse(m.member("tool_calls")).Array() {
		call, err := ParseObject([]byte(item.Raw))
		if err != nil {
			return Message{}, err
		}
		function, err := ParseObject(call.Get("function"))
		if err != nil {
			return Message{}, err
		}
		function.Set("arguments", quote(change(m.calls[i])))
		call.Set("function", function.Append(nil))
		if i > 0 {
			list = append(list, ',')
		}
		list = call.Append(list)
	}
	return m.With("tool_calls", append(list, ']'))
}

// MarshalJSON returns the encoding as it is. Use Marshal of this package, or an
// encoder with HTML escaping off, to keep it byte for byte.
func (m Message) MarshalJSON() ([]byte, error) {
	if m.raw == nil {
		return []byte("null"), nil
	}
	return m.raw, nil
}

// UnmarshalJSON reads a message; see Decode.
func (m *Message) UnmarshalJSON(raw []byte) error {
	if isNull(raw) {
		*m = Message{}
		return nil
	}
	decoded, err := Decode(append([]byte(nil), raw...))
	*m = decoded
	return err
}
