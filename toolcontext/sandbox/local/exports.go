package local

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// parseExports reads what "export -p" prints in bash (declare -x NAME="value",
// also $'value'), dash and busybox (export NAME='value'). Variables without a
// value, and arrays, which no process inherits, are left out. It reports false for
// text no shell prints.
func parseExports(text string) (map[string]string, bool) {
	env := map[string]string{}
	r := exportReader{text: text}
	for {
		r.skip(" \t\n")
		if r.text == "" {
			return env, true
		}
		switch r.until(" \t\n") {
		case "declare", "typeset", "export":
		default:
			return nil, false
		}
		array := false
		for r.skip(" \t"); strings.HasPrefix(r.text, "-"); r.skip(" \t") {
			array = array || strings.ContainsAny(r.until(" \t\n"), "aA")
		}
		name := r.until("= \t\n")
		if !isIdentifier(name) {
			return nil, false
		}
		if !strings.HasPrefix(r.text, "=") {
			continue
		}
		r.text = r.text[1:]
		value, ok := r.value(array)
		if !ok || strings.IndexByte(value, 0) >= 0 {
			return nil, false
		}
		if !array {
			env[name] = value
		}
	}
}

// exportReader takes shell words off the front of text.
type exportReader struct{ text string }

func (r *exportReader) skip(chars string) { r.text = strings.TrimLeft(r.text, chars) }

// until takes everything before the first of chars.
func (r *exportReader) until(chars string) string {
	i := strings.IndexAny(r.text, chars)
	if i < 0 {
		i = len(r.text)
	}
	word := r.text[:i]
	r.text = r.text[i:]
	return word
}

// value takes one value with its quotes resolved; that of an array runs to the end
// of the line.
func (r *exportReader) value(array bool) (string, bool) {
	var b strings.Builder
	for r.text != "" {
		c := r.text[0]
		switch {
		case c == '\n', !array && (c == ' ' || c == '\t'):
			return b.String(), true
		case c == '\'':
			end := strings.IndexByte(r.text[1:], '\'')
			if end < 0 {
				return "", false
			}
			b.WriteString(r.text[1 : 1+end])
			r.text = r.text[end+2:]
		case c == '"':
			r.text = r.text[1:]
			if !r.double(&b) {
				return "", false
			}
		case strings.HasPrefix(r.text, "$'"):
			r.text = r.text[2:]
			if !r.ansi(&b) {
				return "", false
			}
		case c == '\\' && len(r.text) > 1:
			b.WriteByte(r.text[1])
			r.text = r.text[2:]
		default:
			b.WriteByte(c)
			r.text = r.text[1:]
		}
	}
	return b.String(), true
}

// double takes the rest of a "…" string.
func (r *exportReader) double(b *strings.Builder) bool {
	for {
		i := strings.IndexAny(r.text, "\"\\")
		if i < 0 || r.text[i] == '\\' && i+1 == len(r.text) {
			return false
		}
		b.WriteString(r.text[:i])
		if r.text[i] == '"' {
			r.text = r.text[i+1:]
			return true
		}
		switch c := r.text[i+1]; c {
		case '"', '\\', '$', '`':
			b.WriteByte(c)
		case '\n':
		default:
			b.WriteByte('\\')
			b.WriteByte(c)
		}
		r.text = r.text[i+2:]
	}
}

// ansi takes the rest of a $'…' string.
func (r *exportReader) ansi(b *strings.Builder) bool {
	for {
		i := strings.IndexAny(r.text, "'\\")
		if i < 0 || r.text[i] == '\\' && i+1 == len(r.text) {
			return false
		}
		b.WriteString(r.text[:i])
		if r.text[i] == '\'' {
			r.text = r.text[i+1:]
			return true
		}
		c := r.text[i+1]
		r.text = r.text[i+2:]
		switch {
		case strings.IndexByte("abeEfnrtv", c) >= 0:
			b.WriteByte("\a\b\x1b\x1b\f\n\r\t\v"[strings.IndexByte("abeEfnrtv", c)])
		case c == 'x':
			if v, ok := r.digits(16, 2); ok {
				b.WriteByte(byte(v))
			}
		case c == 'u', c == 'U':
			width := 4
			if c == 'U' {
				width = 8
			}
			if v, ok := r.digits(16, width); ok && v <= utf8.MaxRune {
				b.WriteRune(rune(v))
			}
		case '0' <= c && c <= '7':
			r.text = string(c) + r.text
			if v, ok := r.digits(8, 3); ok {
				b.WriteByte(byte(v))
			}
		default:
			b.WriteByte(c)
		}
	}
}

// digits takes at most width digits of a number.
func (r *exportReader) digits(base, width int) (uint64, bool) {
	n := 0
	for n < width && n < len(r.text) {
		if _, err := strconv.ParseUint(r.text[n:n+1], base, 8); err != nil {
			break
		}
		n++
	}
	v, err := strconv.ParseUint(r.text[:n], base, 64)
	r.text = r.text[n:]
	return v, err == nil
}
