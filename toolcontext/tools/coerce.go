package tools

import (
	"encoding/json"
	"math"
	"math/big"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/hermes-env/hermes-env/agentloop/chat"
)

// coerceArguments repairs the types models get wrong most often: a number, a
// boolean or a list sent as text. The rules are hermes-agent's. It works on the
// top-level arguments that the schema knows and leaves everything else untouched;
// it never rejects anything and never checks what is required.
func coerceArguments(s *schema, args chat.Object) chat.Object {
	if s == nil || len(s.properties) == 0 {
		return args
	}
	coerced := make(chat.Object, len(args))
	for i, field := range args {
		if p := s.properties[field.Key]; p != nil {
			field.Value = coerceArgument(p, field.Value)
		}
		coerced[i] = field
	}
	return coerced
}

func coerceArgument(p *schema, value json.RawMessage) json.RawMessage {
	v := gjson.ParseBytes(value)
	if len(p.types) == 1 && !p.typeList && p.types[0] == "array" && v.Type != gjson.Null && !v.IsArray() {
		if v.Type == gjson.String {
			if changed, ok := coerceText(p, v.Str); ok {
				return changed
			}
		}
		return concat("[", v.Raw, "]")
	}
	if v.Type != gjson.String {
		return walkContainer(p, v, 0)
	}
	if len(p.types) == 0 && !p.nullable {
		// Without a type of its own the position may still take a container in a branch.
		return walkText(p, v, 0)
	}
	if changed, ok := coerceText(p, v.Str); ok {
		return walkContainer(p, gjson.ParseBytes(changed), 0)
	}
	return value
}

// coerceText applies the scalar rules to a text value; ok says whether it changed.
func coerceText(p *schema, text string) (json.RawMessage, bool) {
	if p.nullable && strings.EqualFold(strings.TrimSpace(text), "null") {
		return json.RawMessage("null"), true
	}
	for _, kind := range p.types {
		if changed, ok := coerceTo(kind, text); ok {
			return changed, true
		}
	}
	return nil, false
}

func coerceTo(kind, text string) (json.RawMessage, bool) {
	switch kind {
	case "integer", "number":
		return parseNumber(text, kind == "integer")
	case "boolean":
		switch strings.ToLower(strings.TrimSpace(text)) {
		case "true":
			return json.RawMessage("true"), true
		case "false":
			return json.RawMessage("false"), true
		}
	case "array", "object":
		if chat.Valid([]byte(text)) {
			v := gjson.Parse(text)
			if kind == "array" && v.IsArray() || kind == "object" && v.IsObject() {
				return json.RawMessage(v.Raw), true
			}
		}
	}
	return nil, false
}

// maxNumberText bounds the digits looked at; no tool takes a longer number.
const maxNumberText = 400

// parseNumber reads text as Python's float() does (surrounding white space,
// exponents and underscores between digits; no hexadecimal). Integral values
// become integers of which no digit is lost; a fraction is kept for "number" only.
func parseNumber(text string, integerOnly bool) (json.RawMessage, bool) {
	text = strings.TrimSpace(text)
	if text == "" || len(text) > maxNumberText || !isPythonFloat(text) {
		return nil, false
	}
	text = strings.ReplaceAll(text, "_", "")
	if whole, ok := new(big.Int).SetString(text, 10); ok {
		return json.RawMessage(whole.String()), true
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsInf(f, 0) || math.IsNaN(f) {
		return nil, false
	}
	if f == math.Trunc(f) {
		whole, _ := new(big.Float).SetFloat64(f).Int(nil)
		return json.RawMessage(whole.String()), true
	}
	if integerOnly {
		return nil, false
	}
	encoded, err := json.Marshal(f)
	return encoded, err == nil
}

// isPythonFloat says whether text is a decimal float literal: digits with single
// underscores between them, an optional point, an optional exponent.
func isPythonFloat(text string) bool {
	i := 0
	sign := func() {
		if i < len(text) && (text[i] == '+' || text[i] == '-') {
			i++
		}
	}
	digits := func() bool {
		start := i
		for i < len(text) {
			switch c := text[i]; {
			case c >= '0' && c <= '9':
				i++
			case c == '_' && i > start && text[i-1] != '_' && i+1 < len(text) && text[i+1] >= '0' && text[i+1] <= '9':
				i++
			default:
				return i > start
			}
		}
		return i > start
	}
	sign()
	whole := digits()
	if i < len(text) && text[i] == '.' {
		i++
		whole = digits() || whole
	}
	if !whole {
		return false
	}
	if i < len(text) && (text[i] == 'e' || text[i] == 'E') {
		i++
		sign()
		if !digits() {
			return false
		}
	}
	return i == len(text)
}

// walkContainer goes through a list or an object looking for containers sent as
// text. Scalars inside are left alone. Unchanged values keep their bytes.
func walkContainer(s *schema, v gjson.Result, depth int) json.RawMessage {
	raw := json.RawMessage(v.Raw)
	if depth > maxSchemaDepth {
		return raw
	}
	switch {
	case v.IsArray():
		part := s.accepting("array")
		if part == nil || part.items == nil {
			return raw
		}
		return walkArray(part.items, v, depth)
	case v.IsObject():
		part := s.accepting("object")
		if part == nil || len(part.properties) == 0 {
			return raw
		}
		return walkObject(part.properties, v, depth)
	}
	return raw
}

func walkArray(items *schema, v gjson.Result, depth int) json.RawMessage {
	out, changed := []byte{'['}, false
	v.ForEach(func(_, element gjson.Result) bool {
		walked := walkText(items, element, depth+1)
		changed = changed || string(walked) != element.Raw
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(out, walked...)
		return true
	})
	if !changed {
		return json.RawMessage(v.Raw)
	}
	return append(out, ']')
}

func walkObject(properties map[string]*schema, v gjson.Result, depth int) json.RawMessage {
	object, changed := chat.Object{}, false
	v.ForEach(func(key, value gjson.Result) bool {
		walked := json.RawMessage(value.Raw)
		if p := properties[key.String()]; p != nil {
			walked = walkText(p, value, depth+1)
		}
		changed = changed || string(walked) != value.Raw
		object = append(object, chat.Field{Key: key.String(), Value: walked})
		return true
	})
	if !changed {
		return json.RawMessage(v.Raw)
	}
	return object.Append(nil)
}

// walkText decodes a text that holds a container where the schema takes one, then
// walks what it got; other values are walked as they are.
func walkText(s *schema, v gjson.Result, depth int) json.RawMessage {
	if v.Type != gjson.String {
		return walkContainer(s, v, depth)
	}
	text := strings.TrimSpace(v.Str)
	for _, c := range []struct{ open, kind string }{{"[", "array"}, {"{", "object"}} {
		if !strings.HasPrefix(text, c.open) || s.accepting(c.kind) == nil {
			continue
		}
		if decoded, ok := coerceTo(c.kind, text); ok {
			return walkContainer(s, gjson.ParseBytes(decoded), depth)
		}
	}
	return json.RawMessage(v.Raw)
}

func concat(parts ...string) json.RawMessage { return json.RawMessage(strings.Join(parts, "")) }
