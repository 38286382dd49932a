package chattemplate

import (
	"fmt"
	"math/big"
	"slices"
	"strings"
)

// Engine names the inference server whose treatment of messages is followed: servers
// don't hand them to a template as they come. docs/chat-templates.md has the rules.
type Engine string

// The engines there are rules of. "" is VLLM.
const (
	VLLM   Engine = "vllm"
	SGLang Engine = "sglang"
	// Transformers hands messages over as they are, the arguments of tool calls as the
	// text they are on the wire: apply_chat_template of transformers changes nothing.
	Transformers Engine = "transformers"
)

// prepare returns what an engine hands to a template in place of a message, as vLLM's
// parse_chat_messages and SGLang's chat endpoint do behind the validation of their
// requests. What a server would refuse is an error, but for one thing: arguments that
// the model wrote and that are no JSON object become an empty one, so that a mistake of
// the model does not end its conversation.
func prepare(message value, how preparation) (value, error) {
	m, ok := message.(*dict)
	if !ok {
		return nil, fmt.Errorf("it is not an object")
	}
	switch how.engine {
	case VLLM:
		return how.vllm(m)
	case SGLang:
		return how.sglang(m)
	case Transformers:
		return m, nil
	}
	return nil, fmt.Errorf("there are no rules for an engine named %q: use vllm, sglang or transformers", string(how.engine))
}

// preparation is an engine and the shape of content that it finds a template to want.
type preparation struct {
	engine Engine
	format contentFormat
}

func (p preparation) refuse(format string, args ...any) error {
	name := "vLLM"
	if p.engine == SGLang {
		name = "SGLang"
	}
	return fmt.Errorf("%s refuses %s", name, fmt.Sprintf(format, args...))
}

// vllm keeps role, content, tool_calls, reasoning, tool_call_id, name, task and, of a
// developer, tools.
func (p preparation) vllm(m *dict) (value, error) {
	roleValue, _ := m.get("role")
	role, _ := roleValue.(string)
	content, err := p.content(m, role)
	if err != nil {
		return nil, err
	}
	out := newDict(len(m.keys) + 1)
	out.setString("role", role)
	out.setString("content", content)
	switch role {
	case "assistant":
		if err := p.calls(out, m, role); err != nil {
			return nil, err
		}
		reasoning, _ := m.get("reasoning")
		if reasoning == nil {
			reasoning, _ = m.get("reasoning_content")
		}
		if reasoning != nil {
			out.setString("reasoning", reasoning)
			out.setString("reasoning_content", reasoning)
		}
	case "tool":
		if id, ok := m.get("tool_call_id"); ok {
			out.setString("tool_call_id", id)
		}
	}
	for _, field := range []string{"name", "task"} {
		v, _ := m.get(field)
		if text, ok := v.(string); ok {
			out.setString(field, text)
		}
	}
	if role == "developer" {
		tools, _ := m.get("tools")
		out.setString("tools", tools)
	}
	return out, nil
}

// sglangRoles are the roles of SGLang's requests beside user.
var sglangRoles = []string{"system", "assistant", "tool", "function", "developer", "latest_reminder"}

// sglang keeps role, content, tool_call_id, name, reasoning_content, tool_calls and
// tools where they are not null; of a user role and content.
func (p preparation) sglang(m *dict) (value, error) {
	roleValue, _ := m.get("role")
	role, _ := roleValue.(string)
	if lower := strings.ToLower(role); slices.Contains(sglangRoles, lower) {
		role = lower
	} else if role != "user" {
		return nil, p.refuse("the role %q", role)
	}
	content, err := p.content(m, role)
	if err != nil {
		return nil, err
	}
	out := newDict(len(m.keys))
	out.setString("role", role)
	given, _ := m.get("content")
	_, list := given.(*list)
	last := list && p.format == contentParts // a list of parts is put in anew, behind all else
	if !last {
		out.setString("content", content)
	}
	if role != "user" {
		for _, field := range []string{"tool_call_id", "name", "reasoning_content"} {
			v, _ := m.get(field)
			if text, ok := v.(string); ok {
				out.setString(field, text)
			}
		}
		if err := p.calls(out, m, role); err != nil {
			return nil, err
		}
		if tools, _ := m.get("tools"); tools != nil {
			out.setString("tools", tools)
		}
	}
	if last {
		out.setString("content", content)
	}
	return out, nil
}

// calls copies the tool calls of a message with their arguments parsed. vLLM leaves an
// empty list out; SGLang writes a call's missing fields as null.
func (p preparation) calls(out, m *dict, role string) error {
	v, _ := m.get("tool_calls")
	if v == nil {
		return nil
	}
	given, ok := v.(*list)
	if !ok {
		return p.refuse("tool_calls that are not a list")
	}
	if len(given.items) == 0 && p.engine != SGLang {
		return nil
	}
	calls := &list{items: make([]value, len(given.items))}
	for i, item := range given.items {
		call, ok := item.(*dict)
		if !ok {
			return p.refuse("a tool call that is not an object")
		}
		f, _ := call.get("function")
		function, ok := f.(*dict)
		if !ok {
			return p.refuse("a tool call without a function")
		}
		if p.engine == SGLang {
			calls.items[i] = sglangCall(call, function, role)
		} else {
			calls.items[i] = vllmCall(call, function)
		}
	}
	out.setString("tool_calls", calls)
	return nil
}

// vllmCall has the fields in the order of vLLM's type for calls, then all others.
func vllmCall(call, function *dict) value {
	arguments, _ := function.get("arguments")
	inner := newDict(len(function.keys))
	inner.setString("arguments", parsedArguments(arguments))
	copyFields(inner, function, "name")
	out := newDict(len(call.keys))
	copyFields(out, call, "id")
	out.setString("function", inner)
	copyFields(out, call, "type")
	addOthers(inner, function)
	addOthers(out, call)
	return out
}

func sglangCall(call, function *dict, role string) value {
	name, _ := function.get("name")
	arguments, _ := function.get("arguments")
	if text, ok := arguments.(string); ok && role == "assistant" {
		arguments = within64Bits(parsedArguments(text))
	}
	inner := newDict(2)
	inner.setString("name", name)
	inner.setString("arguments", arguments)
	out := newDict(4)
	for _, field := range []string{"id", "index"} {
		v, _ := call.get(field)
		out.setString(field, v)
	}
	out.setString("type", "function")
	out.setString("function", inner)
	return out
}

func copyFields(into, from *dict, names ...string) {
	for _, name := range names {
		if v, ok := from.get(name); ok {
			into.setString(name, v)
		}
	}
}

func addOthers(into, from *dict) {
	for i, k := range from.keys {
		name := k.(string) // the keys of JSON objects are strings
		if _, known := into.get(name); !known {
			into.setString(name, from.values[i])
		}
	}
}

// parsedArguments is the object that arguments say: as JSON text, the form of the wire,
// or as the object itself. All else is an empty one.
func parsedArguments(v value) value {
	if text, ok := v.(string); ok {
		v, _ = decodeJSON([]byte(text)) // nil for what is not JSON
	}
	if object, ok := v.(*dict); ok {
		return object
	}
	return newDict(0)
}

// within64Bits makes floats of the integers that take more than 64 bits, as the JSON
// library does that SGLang reads arguments with.
func within64Bits(v value) value {
	switch v := v.(type) {
	case *big.Int:
		if !v.IsUint64() {
			return toFloat(v)
		}
	case *list:
		for i, item := range v.items {
			v.items[i] = within64Bits(item)
		}
	case *dict:
		for i, item := range v.values {
			v.values[i] = within64Bits(item)
		}
	}
	return v
}
