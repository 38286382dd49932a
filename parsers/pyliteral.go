package parsers

import (
	"math/big"
	"strconv"
	"strings"
	"unicode/utf8"
)

// maxLiteralDepth bounds the nesting of a Python literal; Python's own parser
// gives up at a similar depth.
const maxLiteralDepth = 200

// maxRadixDigits bounds hexadecimal, octal and binary numbers, since turning a
// long one into decimal digits takes more than linear time.
const maxRadixDigits = 256

// pythonLiteral reads what Python's ast.literal_eval reads, as far as JSON can
// hold it: None, True, False, numbers, strings, lists, tuples and dicts. It
// returns the value as JSON text in Python's style.
func pythonLiteral(text string) (string, bool) {
	r := literalReader{text: text}
	b, ok := r.value(make([]byte, 0, len(text)), 0)
	if !ok {
		return "", false
	}
	if r.space(); r.pos != len(r.text) {
		return "", false
	}
	return string(b), true
}

// literalReader reads Python literals from text and appends them as JSON.
type literalReader struct {
	text string
	pos  int
	// json also accepts true, false and null, which models mix in.
	json bool
}

func (r *literalReader) space() {
	for r.pos < len(r.text) {
		switch r.text[r.pos] {
		case ' ', '\t', '\n', '\r', '\f':
			r.pos++
		default:
			return
		}
	}
}

// peek returns the next byte, 0 at the end.
func (r *literalReader) peek() byte {
	if r.pos < len(r.text) {
		return r.text[r.pos]
	}
	return 0
}

// take moves behind c and white space before it, if c is next.
func (r *literalReader) take(c byte) bool {
	r.space()
	if r.peek() == c && r.pos < len(r.text) {
		r.pos++
		return true
	}
	return false
}

func (r *literalReader) value(dst []byte, depth int) ([]byte, bool) {
	if depth > maxLiteralDepth {
		return dst, false
	}
	r.space()
	switch c := r.peek(); {
	case c == '[':
		r.pos++
		return r.items(dst, ']', depth)
	case c == '(':
		return r.tuple(dst, depth)
	case c == '{':
		r.pos++
		return r.dict(dst, depth)
	case c == '"' || c == '\'' || r.stringPrefix() > 0:
		s, ok := r.strings()
		return appendJSONString(dst, s), ok
	case c >= '0' && c <= '9' || c == '.' || c == '-' || c == '+':
		return r.number(dst)
	}
	for _, word := range []struct {
		python, json string
		isJSON       bool
	}{
		{"None", "null", false},
		{"True", "true", false},
		{"False", "false", false},
		{"null", "null", true},
		{"true", "true", true},
		{"false", "false", true},
	} {
		if strings.HasPrefix(r.text[r.pos:], word.python) && (r.json || !word.isJSON) {
			if after := r.pos + len(word.python); after == len(r.text) || !isNameByte(r.text[after]) {
				r.pos = after
				return append(dst, word.json...), true
			}
		}
	}
	return dst, false
}

// items reads the rest of a list or tuple.
func (r *literalReader) items(dst []byte, end byte, depth int) ([]byte, bool) {
	dst = append(dst, '[')
	for first := true; !r.take(end); first = false {
		if !first {
			if !r.take(',') {
				return dst, false
			}
			if r.take(end) {
				break
			}
			dst = append(dst, ", "...)
		}
		var ok bool
		if dst, ok = r.value(dst, depth+1); !ok {
			return dst, false
		}
	}
	return append(dst, ']'), true
}

// tuple reads a tuple, or a value that only stands in parentheses.
func (r *literalReader) tuple(dst []byte, depth int) ([]byte, bool) {
	r.pos++
	start := len(dst)
	if r.take(')') {
		return append(dst, "[]"...), true
	}
	dst = append(dst, '[')
	dst, ok := r.value(dst, depth+1)
	if !ok {
		return dst, false
	}
	if r.take(')') { // no comma, no tuple
		return append(dst[:start], dst[start+1:]...), true
	}
	for r.take(',') {
		if r.take(')') {
			return append(dst, ']'), true
		}
		dst = append(dst, ", "...)
		if dst, ok = r.value(dst, depth+1); !ok {
			return dst, false
		}
	}
	return append(dst, ']'), r.take(')')
}

// dict reads the rest of a dict. Keys that are no strings become the text they
// would have as JSON.
func (r *literalReader) dict(dst []byte, depth int) ([]byte, bool) {
	var object jsonObject
	for first := true; !r.take('}'); first = false {
		if !first {
			if !r.take(',') {
				return dst, false
			}
			if r.take('}') {
				break
			}
		}
		key, ok := r.value(nil, depth+1)
		if !ok || key[0] == '[' || key[0] == '{' || !r.take(':') {
			return dst, false
		}
		name := string(key)
		if name[0] == '"' {
			name = unquote(name)
		}
		value, ok := r.value(nil, depth+1)
		if !ok {
			return dst, false
		}
		object.set(name, string(value))
	}
	return append(dst, object.text()...), true
}

// stringPrefix returns the length of the prefix of a string literal that starts
// here (r, u and their capitals), 0 when none does.
func (r *literalReader) stringPrefix() int {
	if r.pos+1 < len(r.text) && strings.IndexByte("rRuU", r.text[r.pos]) >= 0 {
		if q := r.text[r.pos+1]; q == '"' || q == '\'' {
			return 1
		}
	}
	return 0
}

// strings reads one string literal and those that follow it directly, which
// Python joins.
func (r *literalReader) strings() (string, bool) {
	b, ok := r.oneString(nil)
	for ok {
		back := r.pos
		r.space()
		if c := r.peek(); c != '"' && c != '\'' && r.stringPrefix() == 0 {
			r.pos = back
			break
		}
		b, ok = r.oneString(b)
	}
	return string(b), ok
}

// oneString reads one string literal and appends what it holds.
func (r *literalReader) oneString(b []byte) ([]byte, bool) {
	raw := false
	if n := r.stringPrefix(); n > 0 {
		raw = r.text[r.pos]|0x20 == 'r'
		r.pos += n
	}
	q := r.text[r.pos]
	length := 1
	if strings.HasPrefix(r.text[r.pos:], `"""`) || strings.HasPrefix(r.text[r.pos:], "'''") {
		length = 3
	}
	r.pos += length
	for r.pos < len(r.text) {
		run := r.pos
		for r.pos < len(r.text) && r.text[r.pos] != q && r.text[r.pos] != '\\' && r.text[r.pos] != '\n' {
			r.pos++
		}
		b = append(b, r.text[run:r.pos]...)
		if r.pos == len(r.text) {
			break
		}
		switch c := r.text[r.pos]; {
		case c == q && (length == 1 || strings.Count(r.text[r.pos:min(r.pos+3, len(r.text))], r.text[r.pos:r.pos+1]) == 3):
			r.pos += length
			return b, true
		case c == '\n' && length == 1:
			return nil, false
		case c == '\\' && raw:
			if r.pos+1 == len(r.text) {
				return nil, false
			}
			b = append(b, c, r.text[r.pos+1])
			r.pos += 2
		case c == '\\':
			var ok bool
			if b, ok = r.escape(b); !ok {
				return nil, false
			}
		default: // a newline or quote inside triple quotes
			b = append(b, c)
			r.pos++
		}
	}
	return nil, false
}

// escape decodes the escape sequence at pos.
func (r *literalReader) escape(dst []byte) ([]byte, bool) {
	if r.pos+1 == len(r.text) {
		return dst, false
	}
	c := r.text[r.pos+1]
	r.pos += 2
	if i := strings.IndexByte(`abfnrtv\'"`, c); i >= 0 {
		return append(dst, "\a\b\f\n\r\t\v\\'\""[i]), true
	}
	digits := 0
	switch c {
	case '\n':
		return dst, true // a line continuation
	case 'x':
		digits = 2
	case 'u':
		digits = 4
	case 'U':
		digits = 8
	case '0', '1', '2', '3', '4', '5', '6', '7':
		v, n := rune(c-'0'), 1
		for ; n < 3 && r.peek() >= '0' && r.peek() <= '7'; n++ {
			v = v<<3 | rune(r.peek()-'0')
			r.pos++
		}
		return utf8.AppendRune(dst, v), true
	case 'N':
		return dst, false // names of characters are not known here
	default:
		return append(dst, '\\', c), true
	}
	if len(r.text)-r.pos < digits {
		return dst, false
	}
	v, err := strconv.ParseUint(r.text[r.pos:r.pos+digits], 16, 32)
	if err != nil || v > utf8.MaxRune || v >= 0xD800 && v < 0xE000 {
		return dst, false
	}
	r.pos += digits
	return utf8.AppendRune(dst, rune(v)), true
}

// number reads an integer or float with any number of signs before it.
func (r *literalReader) number(dst []byte) ([]byte, bool) {
	negative := false
	for r.peek() == '-' || r.peek() == '+' {
		negative = negative != (r.peek() == '-')
		r.pos++
		r.space()
	}
	start := r.pos
	for r.pos < len(r.text) && (isNameByte(r.text[r.pos]) || r.text[r.pos] == '.' ||
		(r.text[r.pos] == '+' || r.text[r.pos] == '-') && strings.IndexByte("eE", r.text[r.pos-1]) >= 0 && !isRadix(r.text[start:r.pos])) {
		r.pos++
	}
	word := r.text[start:r.pos]
	if word == "" || word[0] != '.' && (word[0] < '0' || word[0] > '9') {
		return dst, false
	}
	if strings.HasPrefix(word, "_") || strings.HasSuffix(word, "_") || strings.Contains(word, "__") {
		return dst, false
	}
	if isRadix(word) && len(word) <= maxRadixDigits {
		v, ok := new(big.Int).SetString(word, 0)
		if !ok {
			return dst, false
		}
		if negative {
			v.Neg(v)
		}
		return append(dst, v.String()...), true
	}
	plain := strings.ReplaceAll(word, "_", "")
	if strings.Trim(plain, "0") != "" && plain[0] == '0' && strings.Trim(plain, "0123456789") == "" {
		return dst, false // Python refuses leading zeros
	}
	if n, ok := integerText(plain); ok {
		if negative && n != "0" {
			dst = append(dst, '-')
		}
		return append(dst, n...), true
	}
	n, ok := numberText(plain)
	if !ok {
		return dst, false
	}
	if negative {
		dst = append(dst, '-')
	}
	return append(dst, n...), true
}

// isRadix reports whether a number starts with 0x, 0o or 0b.
func isRadix(s string) bool {
	return len(s) > 1 && s[0] == '0' && strings.IndexByte("xXoObB", s[1]) >= 0
}

func isNameByte(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= utf8.RuneSelf
}
