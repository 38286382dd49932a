package parsers

import (
	"cmp"
	"slices"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// jsonWriter writes JSON the way Python's json.dumps(ensure_ascii=False) does:
// ", " and ": " between elements, escapes resolved, non-ASCII as it is. Key
// order and the digits of numbers stay; a repeated key keeps its first place
// and takes its last value. The zero value is ready for use.
type jsonWriter struct {
	out     []byte
	members []member // members of the objects that are open, innermost last
	edits   []edit   // objects with a repeated key, to be put right at the end
}

// member is where one key and its value stand in the output. The key of a
// repeated member is empty: the first one has its value.
type member struct{ key, value span }

// edit says that the object in span at of the output consists of members only.
// Edits wait for the end because moving values about at every level would cost
// depth times length.
type edit struct {
	at      span
	members []member
}

// normalJSON returns valid JSON text in Python's style.
func normalJSON(text string) string {
	w := jsonWriter{out: make([]byte, 0, len(text)+len(text)/8)}
	w.value(text, 0)
	return w.text()
}

// text returns what was written, with repeated keys resolved.
func (w *jsonWriter) text() string {
	if len(w.edits) == 0 {
		return string(w.out)
	}
	slices.SortFunc(w.edits, func(a, b edit) int { return cmp.Compare(a.at.start, b.at.start) })
	return string(w.resolve(make([]byte, 0, len(w.out)), span{0, len(w.out)}))
}

// resolve appends the piece s of the output to dst with all edits applied.
func (w *jsonWriter) resolve(dst []byte, s span) []byte {
	pos := s.start
	for {
		i, _ := slices.BinarySearchFunc(w.edits, pos, func(e edit, pos int) int { return cmp.Compare(e.at.start, pos) })
		if i == len(w.edits) || w.edits[i].at.start >= s.end {
			return append(dst, w.out[pos:s.end]...)
		}
		e := w.edits[i]
		dst = append(append(dst, w.out[pos:e.at.start]...), '{')
		for n, m := range e.members {
			if n > 0 {
				dst = append(dst, ", "...)
			}
			dst = append(append(dst, w.out[m.key.start:m.key.end]...), ": "...)
			dst = w.resolve(dst, m.value)
		}
		dst = append(dst, '}')
		pos = e.at.end
	}
}

// value writes the valid JSON value that starts at or after pos and returns the
// position behind it.
func (w *jsonWriter) value(text string, pos int) int {
	pos = skipJSONSpace(text, pos)
	switch text[pos] {
	case '{':
		return w.object(text, pos)
	case '[':
		w.out = append(w.out, '[')
		pos = skipJSONSpace(text, pos+1)
		for first := true; text[pos] != ']'; first = false {
			if !first {
				w.out = append(w.out, ", "...)
				pos++ // the comma
			}
			pos = skipJSONSpace(text, w.value(text, pos))
		}
		w.out = append(w.out, ']')
		return pos + 1
	case '"':
		return w.str(text, pos)
	}
	end := pos
	for end < len(text) && !isJSONSpace(text[end]) && text[end] != ',' && text[end] != '}' && text[end] != ']' {
		end++
	}
	w.out = append(w.out, text[pos:end]...)
	return end
}

func (w *jsonWriter) object(text string, pos int) int {
	start, base := len(w.out), len(w.members)
	var index map[string]int // only for objects with many keys
	repeated := false
	w.out = append(w.out, '{')
	pos = skipJSONSpace(text, pos+1)
	for text[pos] != '}' {
		if len(w.members) > base {
			w.out = append(w.out, ", "...)
			pos = skipJSONSpace(text, pos+1) // the comma
		}
		var m member
		m.key.start = len(w.out)
		pos = skipJSONSpace(text, w.str(text, pos)) + 1 // the colon
		m.key.end = len(w.out)
		w.out = append(w.out, ": "...)
		m.value.start = len(w.out)
		pos = skipJSONSpace(text, w.value(text, pos))
		m.value.end = len(w.out)
		var at int
		at, index = w.find(base, m.key, index)
		if at >= 0 {
			w.members[at].value = m.value
			repeated = true
			m.key.end = m.key.start
		}
		w.members = append(w.members, m)
	}
	w.out = append(w.out, '}')
	if repeated {
		e := edit{at: span{start, len(w.out)}}
		for _, m := range w.members[base:] {
			if m.key.end > m.key.start {
				e.members = append(e.members, m)
			}
		}
		w.edits = append(w.edits, e)
	}
	w.members = w.members[:base]
	return pos + 1
}

// find looks for the key among the members of the innermost object. Keys are
// compared as written, which is one spelling per key since they were normalised.
func (w *jsonWriter) find(base int, key span, index map[string]int) (int, map[string]int) {
	name := w.out[key.start:key.end]
	const few = 8
	if len(w.members)-base <= few {
		for i := base; i < len(w.members); i++ {
			if k := w.members[i].key; string(w.out[k.start:k.end]) == string(name) {
				return i, nil
			}
		}
		return -1, nil
	}
	if index == nil {
		index = make(map[string]int)
		for i := base; i < len(w.members); i++ {
			if k := w.members[i].key; k.end > k.start {
				index[string(w.out[k.start:k.end])] = i
			}
		}
	}
	if i, ok := index[string(name)]; ok {
		return i, index
	}
	index[string(name)] = len(w.members)
	return -1, index
}

// str writes the string literal at pos and returns the position behind it.
func (w *jsonWriter) str(text string, pos int) int {
	w.out = append(w.out, '"')
	pos++
	for {
		run := pos
		for text[pos] != '"' && text[pos] != '\\' {
			pos++
		}
		w.out = append(w.out, text[run:pos]...)
		if text[pos] == '"' {
			w.out = append(w.out, '"')
			return pos + 1
		}
		r, n := unescape(text[pos:])
		pos += n
		if utf16.IsSurrogate(r) { // a lone one: Python keeps it, so does the escape
			const hex = "0123456789abcdef"
			w.out = append(w.out, '\\', 'u', hex[r>>12&15], hex[r>>8&15], hex[r>>4&15], hex[r&15])
			continue
		}
		w.out = appendJSONRune(w.out, r)
	}
}

// unescape decodes the valid escape at the beginning of s and returns its
// length. Two escapes that form a surrogate pair are decoded as one; a lone
// surrogate is returned as such.
func unescape(s string) (rune, int) {
	switch s[1] {
	case 'b':
		return '\b', 2
	case 'f':
		return '\f', 2
	case 'n':
		return '\n', 2
	case 'r':
		return '\r', 2
	case 't':
		return '\t', 2
	case 'u':
		r := hexRune(s[2:6])
		if utf16.IsSurrogate(r) && len(s) >= 12 && s[6] == '\\' && s[7] == 'u' {
			if pair := utf16.DecodeRune(r, hexRune(s[8:12])); pair != utf8.RuneError {
				return pair, 12
			}
		}
		return r, 6
	}
	return rune(s[1]), 2
}

func hexRune(s string) rune {
	var r rune
	for i := range len(s) {
		r <<= 4
		switch c := s[i]; {
		case c >= 'a':
			r |= rune(c-'a') + 10
		case c >= 'A':
			r |= rune(c-'A') + 10
		default:
			r |= rune(c - '0')
		}
	}
	return r
}

// appendJSONRune appends r as it stands inside a JSON string.
func appendJSONRune(dst []byte, r rune) []byte {
	if r < utf8.RuneSelf {
		return appendJSONByte(dst, byte(r))
	}
	return utf8.AppendRune(dst, r)
}

func appendJSONByte(dst []byte, c byte) []byte {
	const hex = "0123456789abcdef"
	switch {
	case c == '"' || c == '\\':
		return append(dst, '\\', c)
	case c >= 0x20:
		return append(dst, c)
	}
	switch c {
	case '\n':
		return append(dst, '\\', 'n')
	case '\r':
		return append(dst, '\\', 'r')
	case '\t':
		return append(dst, '\\', 't')
	case '\b':
		return append(dst, '\\', 'b')
	case '\f':
		return append(dst, '\\', 'f')
	}
	return append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
}

// appendJSONString appends s as a JSON string. Bytes that are not UTF-8 stay as
// they are: nothing the model wrote is replaced.
func appendJSONString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	run := 0
	for i := 0; i < len(s); i++ {
		if c := s[i]; c < 0x20 || c == '"' || c == '\\' {
			dst = append(dst, s[run:i]...)
			dst = appendJSONByte(dst, c)
			run = i + 1
		}
	}
	dst = append(dst, s[run:]...)
	return append(dst, '"')
}

// unquote decodes the valid JSON string literal lit. A lone surrogate becomes
// U+FFFD, since no string can hold it.
func unquote(lit string) string {
	body := lit[1 : len(lit)-1]
	i := strings.IndexByte(body, '\\')
	if i < 0 {
		return body
	}
	b := make([]byte, 0, len(body))
	for {
		b = append(b, body[:i]...)
		r, n := unescape(body[i:])
		b = utf8.AppendRune(b, r)
		body = body[i+n:]
		if i = strings.IndexByte(body, '\\'); i < 0 {
			return string(append(b, body...))
		}
	}
}

func skipJSONSpace(text string, pos int) int {
	for pos < len(text) && isJSONSpace(text[pos]) {
		pos++
	}
	return pos
}

// skipJSONValue returns the position behind the valid JSON value at pos.
func skipJSONValue(text string, pos int) int {
	depth := 0
	for ; pos < len(text); pos++ {
		switch text[pos] {
		case '"':
			for pos++; text[pos] != '"'; pos++ {
				if text[pos] == '\\' {
					pos++
				}
			}
		case '{', '[':
			depth++
			continue
		case '}', ']':
			if depth == 0 {
				return pos // behind a number or literal
			}
			depth--
		case ',', ' ', '\n', '\r', '\t':
			if depth == 0 {
				return pos
			}
			continue
		default:
			continue
		}
		if depth == 0 {
			return pos + 1
		}
	}
	return pos
}

// eachMember calls yield with every key, decoded, and value text of the valid
// JSON object, in order.
func eachMember(object string, yield func(key, value string) bool) {
	pos := skipJSONSpace(object, skipJSONSpace(object, 0)+1)
	for pos < len(object) && object[pos] != '}' {
		end := skipJSONValue(object, pos)
		key := unquote(object[pos:end])
		pos = skipJSONSpace(object, skipJSONSpace(object, end)+1)
		end = skipJSONValue(object, pos)
		if !yield(key, object[pos:end]) {
			return
		}
		if pos = skipJSONSpace(object, end); pos < len(object) && object[pos] == ',' {
			pos = skipJSONSpace(object, pos+1)
		}
	}
}

// eachItem calls yield with the text of every item of the valid JSON array.
func eachItem(array string, yield func(item string) bool) {
	pos := skipJSONSpace(array, skipJSONSpace(array, 0)+1)
	for pos < len(array) && array[pos] != ']' {
		end := skipJSONValue(array, pos)
		if !yield(array[pos:end]) {
			return
		}
		if pos = skipJSONSpace(array, end); pos < len(array) && array[pos] == ',' {
			pos = skipJSONSpace(array, pos+1)
		}
	}
}
