package chat

import (
	"bytes"
	"encoding/json"
	"fmt"
	"unicode/utf8"
)

// Marshal encodes v as compact JSON without HTML escaping and without a trailing newline.
func Marshal(v any) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte{'\n'}), nil
}

const hexDigits = "0123456789abcdef"

// AppendString appends s to dst as a JSON string. Only what JSON demands is
// escaped: quotes, backslashes and control characters; invalid UTF-8 becomes
// U+FFFD, so the result is always valid JSON.
func AppendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= utf8.RuneSelf {
			r, size := utf8.DecodeRuneInString(s[i:])
			if r == utf8.RuneError && size == 1 {
				dst = append(dst, s[start:i]...)
				dst = append(dst, "\uFFFD"...)
				i++
				start = i
				continue
			}
			i += size
			continue
		}
		if c >= 0x20 && c != '"' && c != '\\' && c != 0x7f {
			i++
			continue
		}
		dst = append(dst, s[start:i]...)
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\r':
			dst = append(dst, '\\', 'r')
		case '\t':
			dst = append(dst, '\\', 't')
		case '\b':
			dst = append(dst, '\\', 'b')
		case '\f':
			dst = append(dst, '\\', 'f')
		default:
			dst = append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&0xf])
		}
		i++
		start = i
	}
	dst = append(dst, s[start:]...)
	return append(dst, '"')
}

// Field is one member of a JSON object whose order matters.
type Field struct {
	Key   string
	Value json.RawMessage // valid JSON
}

// Object is a JSON object that keeps the order of its members.
type Object []Field

// ParseObject reads the top-level members of a JSON object. A repeated key keeps
// its first position and its last value.
func ParseObject(raw []byte) (Object, error) {
	if !Valid(raw) {
		return nil, fmt.Errorf("invalid JSON: %s", excerpt(raw))
	}
	own := bytes.Clone(bytes.TrimSpace(raw))
	if own[0] != '{' {
		return nil, fmt.Errorf("want a JSON object, got %s", excerpt(raw))
	}
	var o Object
	EachMember(own, func(key string, value []byte) bool {
		o.Set(key, value[:len(value):len(value)])
		return true
	})
	return o, nil
}

// Get returns the value of key, or nil when the object has none.
func (o Object) Get(key string) json.RawMessage {
	for i := range o {
		if o[i].Key == key {
			return o[i].Value
		}
	}
	return nil
}

// Set replaces the value of key in place, or appends it.
func (o *Object) Set(key string, value json.RawMessage) {
	for i := range *o {
		if (*o)[i].Key == key {
			(*o)[i].Value = value
			return
		}
	}
	*o = append(*o, Field{key, value})
}

// Delete removes key when present.
func (o *Object) Delete(key string) {
	for i := range *o {
		if (*o)[i].Key == key {
			*o = append((*o)[:i:i], (*o)[i+1:]...)
			return
		}
	}
}

// Append writes the object to dst.
func (o Object) Append(dst []byte) []byte {
	dst = append(dst, '{')
	for i, f := range o {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = AppendString(dst, f.Key)
		dst = append(dst, ':')
		dst = append(dst, f.Value...)
	}
	return append(dst, '}')
}

// MarshalJSON writes the members in order.
func (o Object) MarshalJSON() ([]byte, error) { return o.Append(nil), nil }

// UnmarshalJSON reads the members in order.
func (o *Object) UnmarshalJSON(raw []byte) error {
	if string(bytes.TrimSpace(raw)) == "null" {
		*o = nil
		return nil
	}
	parsed, err := ParseObject(raw)
	*o = parsed
	return err
}

func quote(s string) json.RawMessage { return AppendString(nil, s) }

func isNull(raw []byte) bool { return len(raw) == 0 || string(raw) == "null" }

// Compact returns valid JSON without insignificant white space, which may be raw itself.
func Compact(raw []byte) []byte {
	if isCompact(raw) {
		return raw
	}
	return compact(raw)
}

// compact returns a copy without insignificant white space; raw must be valid JSON.
func compact(raw []byte) []byte {
	if isCompact(raw) {
		return append(make([]byte, 0, len(raw)), raw...)
	}
	var buf bytes.Buffer
	buf.Grow(len(raw))
	if err := json.Compact(&buf, raw); err != nil {
		return raw
	}
	return buf.Bytes()
}

// isCompact says whether valid JSON has no white space outside of its strings.
func isCompact(raw []byte) bool {
	for i := 0; i < len(raw); {
		switch raw[i] {
		case '"':
			i = textEnd(raw, i)
		case ' ', '\n', '\t', '\r':
			return false
		default:
			i++
		}
	}
	return true
}

func excerpt(raw []byte) string {
	const limit = 80
	s := string(bytes.TrimSpace(raw))
	if len(s) > limit {
		cut := limit
		for cut > 0 && !utf8.RuneStart(s[cut]) {
			cut--
		}
		s = s[:cut] + "…"
	}
	return fmt.Sprintf("%q", s)
}
