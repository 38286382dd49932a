package dataset

import (
	"bytes"
	"errors"
	"fmt"
	"unicode/utf8"
)

// maxDepth is how deeply values may nest: enough for any data, and far from what would exhaust a stack.
const maxDepth = 512

// jsonText turns the text of a JSON value into compact, valid JSON with no key twice. It keeps buffers between values and
// serves one goroutine.
type jsonText struct {
	src  []byte
	pos  int
	out  []byte
	keep map[string]bool // top-level keys to keep; nil keeps all

	members   []member // open objects' members, innermost last
	scratch   []byte
	notFinite string // a NaN or Infinity that became null
	doubled   bool   // a key stood twice in an object
	duplicate string // that key
}

// member is one key of an object being written: spans of out.
type member struct{ key, keyEnd, value, valueEnd int }

// remarks says what was changed in the last value, or "".
func (t *jsonText) remarks() error {
	switch {
	case t.notFinite != "":
		return fmt.Errorf("%s is not JSON and is read as null", t.notFinite)
	case t.doubled:
		return fmt.Errorf("key %q stands twice in one object; the last value counts", t.duplicate)
	}
	return nil
}

// object reads src as exactly one JSON object and returns its compact form, in a buffer of its own.
func (t *jsonText) object(src []byte) ([]byte, error) {
	t.src, t.pos, t.out = src, 0, t.out[:0]
	t.members, t.notFinite, t.doubled = t.members[:0], "", false
	t.space()
	if t.pos < len(src) && src[t.pos] != '{' {
		return nil, fmt.Errorf("want a JSON object, got %s%s", kindOf(src[t.pos:]), excerpt(src))
	}
	if err := t.value(0); err != nil {
		return nil, err
	}
	t.space()
	if t.pos < len(src) {
		return nil, t.errorf("text after the end of the object: %s", snippet(src[t.pos:]))
	}
	return bytes.Clone(t.out), nil
}

// kindOf names what text that is no object begins with.
func kindOf(text []byte) string {
	switch c := text[0]; {
	case c == '[':
		return "an array"
	case c == '"':
		return "a string"
	case c == '-' || c >= '0' && c <= '9':
		return "a number"
	case bytes.HasPrefix(text, []byte("true")), bytes.HasPrefix(text, []byte("false")):
		return "true or false"
	case bytes.HasPrefix(text, []byte("null")):
		return "null"
	}
	return "something that isn't JSON"
}

// excerpt is the start of a bad row for a message, in quotes.
func excerpt(src []byte) string { return ": " + snippet(src) }

func snippet(src []byte) string {
	const limit = 40
	src = bytes.TrimSpace(src)
	if len(src) > limit {
		cut := limit
		for cut > 0 && !utf8.RuneStart(src[cut]) {
			cut--
		}
		return fmt.Sprintf("%q…", src[:cut])
	}
	return fmt.Sprintf("%q", src)
}

func (t *jsonText) errorf(format string, args ...any) error {
	return fmt.Errorf("broken JSON at byte %d: %w", t.pos+1, fmt.Errorf(format, args...))
}

func (t *jsonText) space() {
	for t.pos < len(t.src) {
		switch t.src[t.pos] {
		case ' ', '\t', '\n', '\r':
			t.pos++
		default:
			return
		}
	}
}

var errEnd = errors.New("the text ends in the middle")

func (t *jsonText) value(depth int) error {
	if t.pos >= len(t.src) {
		return t.errorf("%w", errEnd)
	}
	if depth > maxDepth {
		return t.errorf("values nest more than %d deep", maxDepth)
	}
	switch c := t.src[t.pos]; {
	case c == '{':
		return t.objectValue(depth)
	case c == '[':
		return t.arrayValue(depth)
	case c == '"':
		return t.stringValue()
	case c == '-' && bytes.HasPrefix(t.src[t.pos:], []byte("-Infinity")):
		return t.nullFor("-Infinity")
	case c == '-' || c >= '0' && c <= '9':
		return t.numberValue()
	}
	for _, word := range [...]string{"true", "false", "null"} {
		if bytes.HasPrefix(t.src[t.pos:], []byte(word)) {
			t.out = append(t.out, word...)
			t.pos += len(word)
			return t.wordEnd()
		}
	}
	for _, word := range [...]string{"NaN", "Infinity"} {
		if bytes.HasPrefix(t.src[t.pos:], []byte(word)) {
			return t.nullFor(word)
		}
	}
	return t.errorf("want a value, got %s", snippet(t.src[t.pos:]))
}

// nullFor writes null for one of the words with which Python writes numbers that JSON has not.
func (t *jsonText) nullFor(word string) error {
	t.notFinite = word
	t.out = append(t.out, "null"...)
	t.pos += len(word)
	return t.wordEnd()
}

func (t *jsonText) wordEnd() error {
	if t.pos < len(t.src) {
		if c := t.src[t.pos]; c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' {
			return t.errorf("want a value, got a word that isn't one")
		}
	}
	return nil
}

func (t *jsonText) objectValue(depth int) error {
	start, first := len(t.out), len(t.members)
	var index map[string]int // of large objects: decoded key → index in members
	doubled := false
	t.out = append(t.out, '{')
	t.pos++
	t.space()
	if t.pos < len(t.src) && t.src[t.pos] == '}' {
		t.pos++
		t.out = append(t.out, '}')
		return nil
	}
	for {
		before := len(t.out)
		if len(t.members) > first {
			t.out = append(t.out, ',')
		}
		m := member{key: len(t.out)}
		if t.pos >= len(t.src) {
			return t.errorf("%w", errEnd)
		}
		if t.src[t.pos] != '"' {
			return t.errorf("want a key in double quotes, got %s", snippet(t.src[t.pos:]))
		}
		if err := t.stringValue(); err != nil {
			return err
		}
		m.keyEnd = len(t.out)
		t.space()
		if t.pos >= len(t.src) {
			return t.errorf("%w", errEnd)
		}
		if t.src[t.pos] != ':' {
			return t.errorf("want a colon after the key, got %s", snippet(t.src[t.pos:]))
		}
		t.pos++
		t.space()
		t.out = append(t.out, ':')
		m.value = len(t.out)
		if err := t.value(depth + 1); err != nil {
			return err
		}
		m.valueEnd = len(t.out)
		if depth == 0 && t.keep != nil && !t.keep[string(t.decoded(m))] {
			t.out = t.out[:before]
		} else if twin := t.twin(first, m, &index); twin >= 0 {
			t.doubled, t.duplicate = true, string(t.decoded(m))
			t.members[twin].value, t.members[twin].valueEnd = m.value, m.valueEnd
			doubled = true
		} else {
			t.members = append(t.members, m)
		}
		t.space()
		if t.pos >= len(t.src) {
			return t.errorf("%w", errEnd)
		}
		c := t.src[t.pos]
		if c != ',' && c != '}' {
			return t.errorf("want a comma or the end of the object, got %s", snippet(t.src[t.pos:]))
		}
		t.pos++
		if c == '}' {
			break
		}
		t.space()
	}
	if doubled {
		t.rewrite(start, t.members[first:])
	}
	t.members = t.members[:first]
	t.out = append(t.out, '}')
	return nil
}

// decoded returns the text of m's key, valid until the next change of out.
func (t *jsonText) decoded(m member) []byte {
	key := t.out[m.key+1 : m.keyEnd-1]
	if bytes.IndexByte(key, '\\') < 0 {
		return key
	}
	return unquote(string(t.out[m.key:m.keyEnd]))
}

// twin returns the index of the member of this object with m's key, or -1. Small objects are compared one by one; large ones
// get an index, so that an object of very many keys costs no more per key.
func (t *jsonText) twin(first int, m member, index *map[string]int) int {
	const small = 16
	key := t.decoded(m)
	if *index == nil && len(t.members)-first < small {
		for i := first; i < len(t.members); i++ {
			if bytes.Equal(t.decoded(t.members[i]), key) {
				return i
			}
		}
		return -1
	}
	if *index == nil {
		*index = make(map[string]int, 2*small)
		for i := first; i < len(t.members); i++ {
			(*index)[string(t.decoded(t.members[i]))] = i
		}
	}
	if i, ok := (*index)[string(key)]; ok {
		return i
	}
	(*index)[string(key)] = len(t.members)
	return -1
}

// rewrite puts the object that began at start together again: each key once, where it first stood, with its last value.
func (t *jsonText) rewrite(start int, members []member) {
	t.scratch = append(t.scratch[:0], '{')
	for i, m := range members {
		if i > 0 {
			t.scratch = append(t.scratch, ',')
		}
		t.scratch = append(t.scratch, t.out[m.key:m.keyEnd]...)
		t.scratch = append(t.scratch, ':')
		t.scratch = append(t.scratch, t.out[m.value:m.valueEnd]...)
	}
	t.out = append(t.out[:start], t.scratch...)
}

func (t *jsonText) arrayValue(depth int) error {
	t.out = append(t.out, '[')
	t.pos++
	t.space()
	if t.pos < len(t.src) && t.src[t.pos] == ']' {
		t.pos++
		t.out = append(t.out, ']')
		return nil
	}
	for {
		if err := t.value(depth + 1); err != nil {
			return err
		}
		t.space()
		if t.pos >= len(t.src) {
			return t.errorf("%w", errEnd)
		}
		c := t.src[t.pos]
		if c != ',' && c != ']' {
			return t.errorf("want a comma or the end of the list, got %s", snippet(t.src[t.pos:]))
		}
		t.out = append(t.out, c)
		t.pos++
		if c == ']' {
			return nil
		}
		t.space()
	}
}

// stringValue copies a string literal as it is written: which characters are escaped is the source's choice.
func (t *jsonText) stringValue() error {
	start := t.pos
	ascii := true
	for i := t.pos + 1; i < len(t.src); i++ {
		switch c := t.src[i]; {
		case c == '"':
			text := t.src[start : i+1]
			if !ascii && !utf8.Valid(text) {
				t.pos = start + badUTF8(text)
				return t.errorf("the text is not UTF-8; convert the file to UTF-8")
			}
			t.out = append(t.out, text...)
			t.pos = i + 1
			return nil
		case c == '\\':
			if i+1 >= len(t.src) {
				t.pos = i
				return t.errorf("%w", errEnd)
			}
			i++
			switch t.src[i] {
			case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
			case 'u':
				if i+4 >= len(t.src) {
					t.pos = i
					return t.errorf("%w", errEnd)
				}
				if _, ok := hex4(string(t.src[i+1:i+5]), 0); !ok {
					t.pos = i
					return t.errorf("want four hexadecimal digits after \\u")
				}
				i += 4
			default:
				t.pos = i
				return t.errorf("%q is not an escape in a string", t.src[i-1:i+1])
			}
		case c < 0x20:
			t.pos = i
			return t.errorf("a string holds the control character 0x%02x unescaped", c)
		case c >= 0x80:
			ascii = false
		}
	}
	t.pos = len(t.src)
	return t.errorf("%w", errEnd)
}

// badUTF8 is the offset of the first byte that is not UTF-8.
func badUTF8(text []byte) int {
	for i := 0; i < len(text); {
		r, n := utf8.DecodeRune(text[i:])
		if r == utf8.RuneError && n == 1 {
			return i
		}
		i += n
	}
	return len(text)
}

func (t *jsonText) numberValue() error {
	start, i := t.pos, t.pos
	digits := func() bool {
		from := i
		for i < len(t.src) && t.src[i] >= '0' && t.src[i] <= '9' {
			i++
		}
		return i > from
	}
	bad := func() error {
		t.pos = i
		return t.errorf("%s is not a number", snippet(t.src[start:min(i+1, len(t.src))]))
	}
	if t.src[i] == '-' {
		i++
	}
	if i < len(t.src) && t.src[i] == '0' {
		i++
		if i < len(t.src) && t.src[i] >= '0' && t.src[i] <= '9' {
			return bad()
		}
	} else if !digits() {
		return bad()
	}
	if i < len(t.src) && t.src[i] == '.' {
		i++
		if !digits() {
			return bad()
		}
	}
	if i < len(t.src) && (t.src[i] == 'e' || t.src[i] == 'E') {
		i++
		if i < len(t.src) && (t.src[i] == '+' || t.src[i] == '-') {
			i++
		}
		if !digits() {
			return bad()
		}
	}
	t.out = append(t.out, t.src[start:i]...)
	t.pos = i
	return t.wordEnd()
}
