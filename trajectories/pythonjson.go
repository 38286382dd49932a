package trajectories

import (
	"encoding/json"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// The published formats were written by Python's json.dumps with its default
// separators (", " and ": ") and ensure_ascii off. The functions here write the
// same bytes; numbers keep their digits and objects their key order.

const lowerHex = "0123456789abcdef"

// appendPythonString appends s as a JSON string as Python writes it: unlike
// chat.AppendString it leaves the character 0x7f alone. Invalid UTF-8 becomes U+FFFD.
func appendPythonString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= 0x20 && c != '"' && c != '\\' && c < utf8.RuneSelf {
			i++
			continue
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		if r >= utf8.RuneSelf && (r != utf8.RuneError || size > 1) {
			i += size
			continue
		}
		dst = append(dst, s[start:i]...)
		dst = appendPythonRune(dst, r)
		i += size
		start = i
	}
	dst = append(dst, s[start:]...)
	return append(dst, '"')
}

// appendPythonRune appends one character of a string, escaped where Python escapes it.
func appendPythonRune(dst []byte, r rune) []byte {
	switch {
	case r == '"' || r == '\\':
		return append(dst, '\\', byte(r))
	case r == '\n':
		return append(dst, '\\', 'n')
	case r == '\r':
		return append(dst, '\\', 'r')
	case r == '\t':
		return append(dst, '\\', 't')
	case r == '\b':
		return append(dst, '\\', 'b')
	case r == '\f':
		return append(dst, '\\', 'f')
	case r < 0x20:
		return append(dst, '\\', 'u', '0', '0', lowerHex[r>>4], lowerHex[r&0xf])
	}
	return utf8.AppendRune(dst, r)
}

// appendPythonJSON appends a JSON text, which must be valid, with Python's
// separators and escapes. It works through the text from left to right, so that
// depth costs nothing.
func appendPythonJSON(dst []byte, valid []byte) []byte {
	for i := 0; i < len(valid); {
		switch c := valid[i]; c {
		case ' ', '\t', '\n', '\r':
			i++
		case ',':
			dst = append(dst, ", "...)
			i++
		case ':':
			dst = append(dst, ": "...)
			i++
		case '"':
			dst, i = appendPythonStringToken(dst, valid, i)
		default:
			dst = append(dst, c)
			i++
		}
	}
	return dst
}

// appendPythonStringToken appends the JSON string that starts at valid[start] as
// Python writes it, and returns the position after it. A surrogate without its
// other half becomes U+FFFD: it has no UTF-8 form.
func appendPythonStringToken(dst, valid []byte, start int) (_ []byte, end int) {
	dst = append(dst, '"')
	i := start + 1
	for i < len(valid) && valid[i] != '"' {
		if valid[i] != '\\' {
			from := i
			for i < len(valid) && valid[i] != '"' && valid[i] != '\\' {
				i++
			}
			dst = appendValidUTF8(dst, valid[from:i])
			continue
		}
		if valid[i+1] != 'u' {
			if valid[i+1] == '/' {
				dst = append(dst, '/')
			} else {
				dst = append(dst, valid[i], valid[i+1]) // the short escapes are the same in Python
			}
			i += 2
			continue
		}
		r := hexRune(valid[i+2:])
		i += 6
		if utf16.IsSurrogate(r) {
			low := rune(utf8.RuneError)
			if i+6 <= len(valid) && valid[i] == '\\' && valid[i+1] == 'u' {
				low = hexRune(valid[i+2:])
			}
			if r = utf16.DecodeRune(r, low); r != utf8.RuneError {
				i += 6
			}
		}
		dst = appendPythonRune(dst, r)
	}
	return append(dst, '"'), i + 1
}

// hexRune reads the four hex digits of an escape.
func hexRune(digits []byte) rune {
	var r rune
	for _, c := range digits[:4] {
		switch {
		case c >= 'a':
			c -= 'a' - 10
		case c >= 'A':
			c -= 'A' - 10
		default:
			c -= '0'
		}
		r = r<<4 | rune(c)
	}
	return r
}

// appendValidUTF8 appends text with U+FFFD for every byte that is not UTF-8, one
// for each as chat.AppendString does.
func appendValidUTF8(dst, text []byte) []byte {
	if utf8.Valid(text) {
		return append(dst, text...)
	}
	for len(text) > 0 {
		r, size := utf8.DecodeRune(text)
		dst = utf8.AppendRune(dst, r)
		text = text[size:]
	}
	return dst
}

// embeddedJSON returns the JSON text of s when s is an object or an array, and
// nil when it is anything else.
func embeddedJSON(s string) []byte {
	trimmed := pythonStrip(s)
	if trimmed == "" || (trimmed[0] != '{' && trimmed[0] != '[') {
		return nil
	}
	raw := []byte(trimmed)
	// The standard library's check bounds the depth of nesting.
	if !json.Valid(raw) {
		return nil
	}
	return raw
}

// isPythonSpace says whether Python's str.strip removes r.
func isPythonSpace(r rune) bool { return unicode.IsSpace(r) || (r >= 0x1c && r <= 0x1f) }

func pythonStrip(s string) string { return strings.TrimFunc(s, isPythonSpace) }

func isBlank(s string) bool { return pythonStrip(s) == "" }
