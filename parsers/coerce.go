package parsers

import (
	"strconv"
	"strings"
)

// textArgument turns untyped text into the JSON text of an argument, for
// formats where a value is a string unless the schema says otherwise. Text that
// does not fit the schema stays a string: the tool then refuses it in words the
// model can act upon.
func textArgument(value string, types typeSet) string {
	if types == 0 || types == typeString {
		return jsonString(value)
	}
	trimmed := strings.TrimSpace(value)
	if strings.EqualFold(trimmed, "null") || trimmed == "None" && types&typeString == 0 {
		if types&typeString == 0 || types&typeNull != 0 {
			return "null"
		}
	}
	if types&typeString != 0 {
		return jsonString(value)
	}
	if types&typeInteger != 0 {
		if n, ok := integerText(trimmed); ok {
			return n
		}
	}
	if types&typeNumber != 0 {
		if n, ok := numberText(trimmed); ok {
			return n
		}
	}
	if types&typeBoolean != 0 {
		if strings.EqualFold(trimmed, "true") {
			return "true"
		}
		if strings.EqualFold(trimmed, "false") {
			return "false"
		}
	}
	if types&(typeObject|typeArray|typeOther) != 0 {
		if decoded, ok := decodeText(trimmed); ok {
			return decoded
		}
	}
	return jsonString(value)
}

// guessedArgument turns untyped text into the JSON text of an argument, for
// formats whose template writes strings as they are and everything else as
// JSON: what reads as JSON or as a Python literal is that, unless the schema
// asks for a string.
func guessedArgument(value string, types typeSet) string {
	if types == typeString {
		return jsonString(value)
	}
	trimmed := strings.TrimSpace(value)
	decoded, ok := decodeText(trimmed)
	if types&typeString != 0 && (!ok || typeOfJSON(decoded)&admits(types) == 0) {
		return jsonString(value)
	}
	if !ok && types&(typeObject|typeArray) != 0 && validJSON(`"`+trimmed+`"`) {
		decoded, ok = decodeText(unquote(`"` + trimmed + `"`)) // JSON that was escaped once too often
	}
	if ok {
		return decoded
	}
	return jsonString(trimmed)
}

// admits adds to the types the ones whose values they include.
func admits(types typeSet) typeSet {
	if types&typeNumber != 0 {
		types |= typeInteger
	}
	return types
}

// decodeText reads text as JSON, else as a Python literal, and returns it as
// JSON text in Python's style.
func decodeText(text string) (string, bool) {
	if validJSON(text) {
		return normalJSON(text), true
	}
	return pythonLiteral(text)
}

// integerText reads a decimal integer the way Python's int does, without
// underscores and foreign digits, and returns it as a JSON number.
func integerText(s string) (string, bool) {
	sign := ""
	switch {
	case strings.HasPrefix(s, "-"):
		sign, s = "-", s[1:]
	case strings.HasPrefix(s, "+"):
		s = s[1:]
	}
	if s == "" || strings.Trim(s, "0123456789") != "" {
		return "", false
	}
	s = strings.TrimLeft(s, "0")
	if s == "" {
		return "0", true
	}
	return sign + s, true
}

// numberText reads a decimal number the way Python's float does, without
// underscores, and returns it as a JSON number: the model's own digits if they
// form one. Infinity and NaN are no JSON numbers, nor is what overflows to them.
func numberText(s string) (string, bool) {
	if strings.Trim(s, "0123456789+-.eE") != "" {
		return "", false
	}
	if _, err := strconv.ParseFloat(s, 64); err != nil {
		return "", false
	}
	if s[0] != '+' && validJSON(s) {
		return s, true
	}
	sign := ""
	if s[0] == '-' || s[0] == '+' {
		sign, s = strings.TrimPrefix(s[:1], "+"), s[1:]
	}
	mantissa, exponent := s, ""
	if i := strings.IndexAny(s, "eE"); i >= 0 {
		mantissa, exponent = s[:i], s[i:]
	}
	whole, fraction, point := strings.Cut(mantissa, ".")
	if whole = strings.TrimLeft(whole, "0"); whole == "" {
		whole = "0"
	}
	if point && fraction == "" {
		fraction = "0"
	}
	if point {
		whole += "." + fraction
	}
	return sign + whole + exponent, true
}

func jsonString(s string) string {
	return string(appendJSONString(make([]byte, 0, len(s)+len(s)/16+2), s))
}

// jsonObject builds the JSON text of an object member by member. A repeated key
// keeps its first place and takes its last value.
type jsonObject struct {
	keys   []string
	values []string
	index  map[string]int
}

// set adds a member; value is JSON text. It reports whether the key was there.
func (o *jsonObject) set(key, value string) bool {
	if o.index == nil {
		o.index = make(map[string]int)
	}
	if i, ok := o.index[key]; ok {
		o.values[i] = value
		return true
	}
	o.index[key] = len(o.keys)
	o.keys = append(o.keys, key)
	o.values = append(o.values, value)
	return false
}

// text returns the object as JSON text in Python's style.
func (o *jsonObject) text() string {
	n := 2
	for i := range o.keys {
		n += len(o.keys[i]) + len(o.values[i]) + 6
	}
	b := append(make([]byte, 0, n), '{')
	for i, key := range o.keys {
		if i > 0 {
			b = append(b, ", "...)
		}
		b = appendJSONString(b, key)
		b = append(b, ": "...)
		b = append(b, o.values[i]...)
	}
	return string(append(b, '}'))
}
