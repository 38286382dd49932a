package trajectories

import (
	"encoding/json"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/tidwall/gjson"
)

// The published formats were written by Python's json.dumps with its default
// separators (", " and ": ") and ensure_ascii off. The functions here write the
// same bytes; numbers keep their digits and objects their key order.

const lowerHex = "0123456789abcdef"

// appendPythonString appends s as a JSON string as Python writes it: unlike
// chat.AppendString it leaves the character 0x7f alone. Invalid UTF-8 becomes U+FFFD.
func appendPythonString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	for i := 0; i < len(s); {
		c := s[i]
		if c >= utf8.RuneSelf {
			r, size := utf8.DecodeRuneInString(s[i:])
			dst = utf8.AppendRune(dst, r)
			i += size
			continue
		}
		i++
		switch {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c == '\n':
			dst = append(dst, '\\', 'n')
		case c == '\r':
			dst = append(dst, '\\', 'r')
		case c == '\t':
			dst = append(dst, '\\', 't')
		case c == '\b':
			dst = append(dst, '\\', 'b')
		case c == '\f':
			dst = append(dst, '\\', 'f')
		case c < 0x20:
			dst = append(dst, '\\', 'u', '0', '0', lowerHex[c>>4], lowerHex[c&0xf])
		default:
			dst = append(dst, c)
		}
	}
	return append(dst, '"')
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
			end, escaped := stringEnd(valid, i)
			if escaped {
				dst = appendPythonString(dst, gjson.ParseBytes(valid[i:end]).Str)
			} else {
				dst = appendPythonString(dst, string(valid[i+1:end-1]))
			}
			i = end
		default:
			dst = append(dst, c)
			i++
		}
	}
	return dst
}

// stringEnd returns the position after the string that starts at valid[start],
// and whether it contains an escape.
func stringEnd(valid []byte, start int) (end int, escaped bool) {
	for i := start + 1; i < len(valid); i++ {
		switch valid[i] {
		case '\\':
			escaped = true
			i++
		case '"':
			return i + 1, escaped
		}
	}
	return len(valid), escaped
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
