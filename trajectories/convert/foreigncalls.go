package convert

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/hermes-env/hermes-env/agentloop/chat"
)

// speaksInRoles tells whether a conversation's turns are messages with a role, as in many published data sets, and not
// ShareGPT's pairs of from and value.
func speaksInRoles(list []byte) bool {
	var roles bool
	chat.EachElement(list, func(turn []byte) bool {
		roles = isObject(turn) && isText(memberOf(turn, "role")) && memberOf(turn, "from") == nil
		return false
	})
	return roles
}

// plainRole gives ShareGPT's names of roles those of chat messages.
func plainRole(message *chat.Object) {
	role := message.Get("role")
	if !isText(role) {
		return
	}
	switch chat.Unquote(role) {
	case "human":
		message.Set("role", []byte(`"user"`))
	case "gpt":
		message.Set("role", []byte(`"assistant"`))
	}
}

// plainCalls brings the tool calls of a foreign message into OpenAI's shape: calls, or the list of them, that are JSON within a
// text, and calls whose name and arguments stand on their own. What can't be read is an error, so that no call gets lost.
func plainCalls(message *chat.Object) error {
	list := message.Get("tool_calls")
	if list == nil || arePlainCalls(list) {
		return nil
	}
	list, err := unpacked(list)
	if err != nil {
		return fmt.Errorf("tool_calls: %w", err)
	}
	if list == nil {
		message.Delete("tool_calls")
		return nil
	}
	if !isList(list) {
		return fmt.Errorf("tool_calls: want a list, got %.80q", list)
	}
	changed := isText(message.Get("tool_calls"))
	calls := []byte{'['}
	number := 0
	chat.EachElement(list, func(call []byte) bool {
		var plain []byte
		if plain, err = plainCall(call); err != nil {
			err = fmt.Errorf("tool call %d: %w", number, err)
			return false
		}
		if number++; number > 1 {
			calls = append(calls, ',')
		}
		calls = append(calls, plain...)
		changed = changed || !bytes.Equal(plain, call)
		return true
	})
	if err != nil {
		return err
	}
	if number == 0 {
		message.Delete("tool_calls")
		return nil
	}
	if changed {
		message.Set("tool_calls", append(calls, ']'))
	}
	return nil
}

// arePlainCalls tells whether a list has calls and all of them are in OpenAI's shape.
func arePlainCalls(list []byte) bool {
	plain := false
	chat.EachElement(list, func(call []byte) bool {
		plain = isObject(call) && isNamedFunction(memberOf(call, "function"))
		return plain
	})
	return plain
}

func isNamedFunction(function []byte) bool {
	return isObject(function) && isText(memberOf(function, "name"))
}

// plainFunctions turns the one function_call that messages had before there were tool_calls into a tool call, and the answer of
// role function into one to it. number is the message's; answers is the id of the call before, which grows out of the number.
func plainFunctions(message *chat.Object, number int, answers *string) error {
	if role := message.Get("role"); isText(role) && chat.Unquote(role) == "function" {
		message.Set("role", []byte(`"tool"`))
		if message.Get("tool_call_id") == nil && *answers != "" {
			message.Set("tool_call_id", chat.AppendString(nil, *answers))
		}
	}
	call := message.Get("function_call")
	if call == nil || message.Get("tool_calls") != nil {
		return nil
	}
	call, err := unpacked(call)
	if err != nil {
		return fmt.Errorf("function_call: %w", err)
	}
	message.Delete("function_call")
	if call == nil {
		return nil
	}
	if !isObject(call) || !isText(memberOf(call, "name")) {
		return fmt.Errorf("function_call: want an object with a name, got %.80q", call)
	}
	*answers = fmt.Sprintf("call_%d", number)
	message.Set("tool_calls", append(appendCall([]byte{'['}, chat.AppendString(nil, *answers), call), ']'))
	return nil
}

// appendCall appends a call in OpenAI's shape whose name and arguments stand in an object; id is a JSON text or nil.
func appendCall(dst, id, call []byte) []byte {
	function := chat.Object{}
	function.Set("name", memberOf(call, "name"))
	if arguments := memberOf(call, "arguments"); arguments != nil {
		function.Set("arguments", arguments)
	}
	plain := chat.Object{}
	if id != nil {
		plain.Set("id", id)
	}
	plain.Set("type", []byte(`"function"`))
	plain.Set("function", function.Append(nil))
	return plain.Append(dst)
}

// plainCall returns one call in OpenAI's shape; one that has it stays as it is.
func plainCall(call []byte) ([]byte, error) {
	call, err := unpacked(call)
	if err != nil {
		return nil, err
	}
	if !isObject(call) {
		return nil, fmt.Errorf("want an object, got %.80q", call)
	}
	if function := memberOf(call, "function"); isObject(function) || !isText(memberOf(call, "name")) {
		if !isNamedFunction(function) {
			return nil, errors.New("it names no function")
		}
		return call, nil
	}
	id := memberOf(call, "id")
	if !isText(id) {
		id = nil
	}
	return appendCall(nil, id, call), nil
}

// unpacked returns the JSON that stands in a text, nil for an empty one, and anything else as it is.
func unpacked(value []byte) ([]byte, error) {
	if !isText(value) {
		return value, nil
	}
	text := chat.Unquote(value)
	if text == "" || text == "null" {
		return nil, nil
	}
	if !chat.Valid([]byte(text)) {
		return nil, fmt.Errorf("the text is no JSON: %.80q", text)
	}
	return []byte(text), nil
}
