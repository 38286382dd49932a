package chat

import (
	"bytes"
	"unicode/utf16"
	"unicode/utf8"
	"unsafe"
)

// EachMember calls visit with the members of a JSON object in order, until it returns
// false; of anything but an object with none. raw must be valid JSON (see Valid). The
// key is decoded, the value is the member's own text; both may be parts of raw, which
// must not change as long as they are used.
func EachMember(raw []byte, visit func(key string, value []byte) bool) {
	i := skipSpace(raw, 0)
	if i >= len(raw) || raw[i] != '{' {
		return
	}
	for i = skipSpace(raw, i+1); i < len(raw) && raw[i] == '"'; {
		end := textEnd(raw, i)
		key := sharedText(raw[i:end])
		i = skipSpace(raw, skipSpace(raw, end)+1) // the colon
		end = valueEnd(raw, i)
		if !visit(key, raw[i:end]) {
			return
		}
		if i = skipSpace(raw, end); i < len(raw) && raw[i] == ',' {
			i = skipSpace(raw, i+1)
		}
	}
}

// EachElement calls visit with the elements of a JSON array in order, until it returns
// false; of anything but an array with none. raw must be valid JSON (see Valid).
func EachElement(raw []byte, visit func(value []byte) bool) {
	i := skipSpace(raw, 0)
	if i >= len(raw) || raw[i] != '[' {
		return
	}
	for i = skipSpace(raw, i+1); i < len(raw) && raw[i] != ']'; {
		end := valueEnd(raw, i)
		if !visit(raw[i:end]) {
			return
		}
		if i = skipSpace(raw, end); i < len(raw) && raw[i] == ',' {
			i = skipSpace(raw, i+1)
		}
	}
}

// textEnd returns the position after the string that begins at i, whose quotes are
// known to be there.
func textEnd(b []byte, i int) int {
	for i++; ; {
		n := bytes.IndexByte(b[i:], '"')
		if n < 0 {
			return len(b)
		}
		i += n + 1
		escapes := 0
		for k := i - 2; b[k] == '\\'; k-- { // at the latest the opening quote ends it
			escapes++
		}
		if escapes%2 == 0 {
			return i
		}
	}
}

// valueEnd returns the position after the valid value that begins at i.
func valueEnd(b []byte, i int) int {
	if i < len(b) && b[i] == '"' {
		return textEnd(b, i)
	}
	depth := 0
	for i < len(b) {
		switch b[i] {
		case '"':
			i = textEnd(b, i)
		case '{', '[':
			depth++
			i++
			continue
		case '}', ']':
			if depth == 0 {
				return i // of the scalar before it
			}
			depth--
			i++
		case ',', ' ', '\n', '\t', '\r':
			if depth == 0 {
				return i
			}
			i++
			continue
		default:
			i++
			continue
		}
		if depth == 0 {
			return i
		}
	}
	return i
}

// Unquote returns the text of a valid JSON string. Half of a surrogate pair becomes
// U+FFFD. The result shares no memory with raw.
func Unquote(raw []byte) string {
	inner := raw[1 : len(raw)-1]
	next := bytes.IndexByte(inner, '\\')
	if next < 0 {
		return string(inner)
	}
	out := make([]byte, 0, len(inner))
	for next >= 0 {
		out = append(out, inner[:next]...)
		var n int
		out, n = appendUnescaped(out, inner[next:])
		inner = inner[next+n:]
		next = bytes.IndexByte(inner, '\\')
	}
	out = append(out, inner...)
	return unsafe.String(unsafe.SliceData(out), len(out)) // nobody else has out
}

// sharedText is Unquote without the copy where there is nothing to decode.
func sharedText(raw []byte) string {
	inner := raw[1 : len(raw)-1]
	if bytes.IndexByte(inner, '\\') >= 0 {
		return Unquote(raw)
	}
	return unsafe.String(unsafe.SliceData(inner), len(inner))
}

// appendUnescaped decodes the escape at the start of s and returns its length.
func appendUnescaped(dst, s []byte) ([]byte, int) {
	switch c := s[1]; c {
	case 'b':
		return append(dst, '\b'), 2
	case 'f':
		return append(dst, '\f'), 2
	case 'n':
		return append(dst, '\n'), 2
	case 'r':
		return append(dst, '\r'), 2
	case 't':
		return append(dst, '\t'), 2
	case 'u':
		r, n := hexRune(s[2:]), 6
		if utf16.IsSurrogate(r) && len(s) >= 12 && s[6] == '\\' && s[7] == 'u' {
			if pair := utf16.DecodeRune(r, hexRune(s[8:])); pair != utf8.RuneError {
				return utf8.AppendRune(dst, pair), 12
			}
		}
		return utf8.AppendRune(dst, r), n
	default:
		return append(dst, c), 2
	}
}

// hexRune reads four hexadecimal digits.
func hexRune(s []byte) (r rune) {
	for _, c := range s[:4] {
		r <<= 4
		switch {
		case c <= '9':
			r |= rune(c - '0')
		case c >= 'a':
			r |= rune(c-'a') + 10
		default:
			r |= rune(c-'A') + 10
		}
	}
	return r
}
