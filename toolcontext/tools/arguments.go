package tools

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/hermes-env/hermes-env/agentloop/chat"
)

// Arguments are the arguments of a call, in the order the model wrote them.
type Arguments struct{ object chat.Object }

// parseArguments reads the arguments of a call. Nothing, blank and null mean no
// arguments; anything but an object is an error for the model.
func parseArguments(raw json.RawMessage) (Arguments, error) {
	text := strings.TrimSpace(string(raw))
	if text == "" || text == "null" {
		return Arguments{}, nil
	}
	if !chat.Valid([]byte(text)) {
		return Arguments{}, fmt.Errorf("invalid JSON in tool arguments: %s. Please retry with valid JSON", firstSyntaxError(text))
	}
	if !gjson.Parse(text).IsObject() {
		return Arguments{}, fmt.Errorf("tool arguments must be a JSON object, got %s", kindOf([]byte(text)))
	}
	object, err := chat.ParseObject([]byte(text))
	return Arguments{object}, err
}

func firstSyntaxError(text string) string {
	var ignored json.RawMessage
	if err := json.Unmarshal([]byte(text), &ignored); err != nil {
		return err.Error()
	}
	return "the text is not one JSON value"
}

// Raw returns the JSON of an argument, or nil when it is absent or null.
func (a Arguments) Raw(name string) json.RawMessage {
	raw := a.object.Get(name)
	if string(raw) == "null" {
		return nil
	}
	return raw
}

// Has says whether the argument is present and not null.
func (a Arguments) Has(name string) bool { return a.Raw(name) != nil }

// JSON returns the arguments as one object.
func (a Arguments) JSON() json.RawMessage { return a.object.Append(nil) }

// String returns a text argument; ok is false when it is absent or null. Another
// type is an error that names it.
func (a Arguments) String(name string) (value string, ok bool, err error) {
	raw := a.Raw(name)
	if raw == nil {
		return "", false, nil
	}
	v := gjson.ParseBytes(raw)
	if v.Type != gjson.String {
		return "", false, fmt.Errorf("invalid %s: expected string, got %s", name, kindOf(raw))
	}
	return v.Str, true, nil
}

// Required returns a text argument that must be there; it may be empty.
func (a Arguments) Required(name string) (string, error) {
	value, ok, err := a.String(name)
	if err == nil && !ok {
		err = fmt.Errorf("missing required argument: %s", name)
	}
	return value, err
}

// Int returns an integer argument, or fallback when it is absent or null. A number
// with a fraction is cut; anything else is an error.
func (a Arguments) Int(name string, fallback int) (int, error) {
	raw := a.Raw(name)
	if raw == nil {
		return fallback, nil
	}
	v := gjson.ParseBytes(raw)
	if v.Type != gjson.Number {
		return 0, fmt.Errorf("invalid %s: expected integer, got %s", name, kindOf(raw))
	}
	const bound = 1 << 31
	return int(math.Trunc(max(-bound, min(bound, v.Num)))), nil
}

// Bool returns a boolean argument, or false when it is absent or null. Anything
// else is an error.
func (a Arguments) Bool(name string) (bool, error) {
	raw := a.Raw(name)
	if raw == nil {
		return false, nil
	}
	switch string(raw) {
	case "true":
		return true, nil
	case "false":
		return false, nil
	}
	return false, fmt.Errorf("invalid %s: expected boolean, got %s", name, kindOf(raw))
}

// kindOf names the JSON type of a value the way a schema does.
func kindOf(raw []byte) string {
	v := gjson.ParseBytes(raw)
	switch {
	case v.IsArray():
		return "array"
	case v.IsObject():
		return "object"
	case v.Type == gjson.String:
		return "string"
	case v.Type == gjson.Number:
		return "number"
	case v.Type == gjson.Null:
		return "null"
	}
	return "boolean"
}
