package chattemplate

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

type tokenKind int

const (
	tokEnd tokenKind = iota
	tokData
	tokBlockBegin
	tokBlockEnd
	tokVariableBegin
	tokVariableEnd
	tokName
	tokString
	tokInteger
	tokFloat
	tokOperator
)

type token struct {
	kind tokenKind
	text string // of a string: its value
	line int
}

// SyntaxError says where a template can't be read.
type SyntaxError struct {
	Name string
	Line int // from 1
	Msg  string
}

func (e *SyntaxError) Error() string {
	return fmt.Sprintf("chat template %s, line %d: %s", e.Name, e.Line, e.Msg)
}

// lexer cuts a template as Jinja2 does with trim_blocks and lstrip_blocks: the line
// break after a statement and the blanks before one at the start of a line go away.
type lexer struct {
	name         string
	src          string
	at           int
	line         int
	lineStarting bool // what was read last ended a line
	tokens       []token
}

func lex(name, source string) ([]token, error) {
	source = strings.ReplaceAll(source, "\r\n", "\n")
	source = strings.ReplaceAll(source, "\r", "\n")
	source = strings.TrimSuffix(source, "\n")
	l := &lexer{name: name, src: source, line: 1, lineStarting: true}
	for l.at < len(l.src) {
		if err := l.data(); err != nil {
			return nil, err
		}
	}
	l.add(tokEnd, "")
	return l.tokens, nil
}

func (l *lexer) fail(format string, args ...any) error {
	return &SyntaxError{Name: l.name, Line: l.line, Msg: fmt.Sprintf(format, args...)}
}

func (l *lexer) add(kind tokenKind, text string) {
	l.tokens = append(l.tokens, token{kind: kind, text: text, line: l.line})
}

// advance moves past n bytes, counting lines.
func (l *lexer) advance(n int) {
	part := l.src[l.at : l.at+n]
	l.line += strings.Count(part, "\n")
	if n > 0 {
		l.lineStarting = part[n-1] == '\n'
	}
	l.at += n
}

// data reads text up to the next tag and the tag that follows it.
func (l *lexer) data() error {
	rest := l.src[l.at:]
	i := nextTag(rest)
	if i < 0 {
		l.add(tokData, rest)
		l.advance(len(rest))
		return nil
	}
	sign := byte(0)
	if i+2 < len(rest) && (rest[i+2] == '-' || rest[i+2] == '+') {
		sign = rest[i+2]
	}
	kind := rest[i+1]
	l.text(rest[:i], sign, kind == '{')
	open := 2
	if sign != 0 {
		open = 3
	}
	l.advance(i)
	switch kind {
	case '#':
		return l.comment(open)
	case '{':
		l.advance(open)
		l.add(tokVariableBegin, "")
		return l.expression("}}", tokVariableEnd)
	}
	if n := rawBegin(l.src[l.at+open:]); n > 0 {
		l.advance(open + n)
		return l.raw()
	}
	l.advance(open)
	l.add(tokBlockBegin, "")
	return l.expression("%}", tokBlockEnd)
}

func nextTag(s string) int {
	for from := 0; ; {
		i := strings.IndexByte(s[from:], '{')
		if i < 0 || from+i+1 >= len(s) {
			return -1
		}
		switch s[from+i+1] {
		case '{', '%', '#':
			return from + i
		}
		from += i + 1
	}
}

// text adds the text before a tag without what the tag strips from it.
func (l *lexer) text(s string, sign byte, variable bool) {
	switch {
	case sign == '-':
		s = strings.TrimRightFunc(s, unicode.IsSpace)
	case sign != '+' && !variable:
		lineStart := strings.LastIndexByte(s, '\n') + 1
		if lineStart > 0 || l.lineStarting {
			if strings.TrimLeftFunc(s[lineStart:], unicode.IsSpace) == "" {
				s = s[:lineStart]
			}
		}
	}
	if s != "" {
		l.add(tokData, s)
	}
}

func (l *lexer) comment(open int) error {
	i := strings.Index(l.src[l.at+open:], "#}")
	if i < 0 {
		return l.fail("missing end of comment tag")
	}
	end := open + i
	sign := byte(0)
	if i > 0 {
		sign = l.src[l.at+end-1]
	}
	l.advance(end + 2 + l.after(end+2, sign))
	return nil
}

// after returns how much is stripped after the end of a tag, n bytes from here.
func (l *lexer) after(n int, sign byte) int {
	rest := l.src[l.at+n:]
	switch {
	case sign == '-':
		return len(rest) - len(strings.TrimLeftFunc(rest, unicode.IsSpace))
	case sign != '+' && strings.HasPrefix(rest, "\n"):
		return 1
	}
	return 0
}

// rawBegin matches the rest of {% raw %}.
func rawBegin(s string) int {
	t := strings.TrimLeftFunc(s, unicode.IsSpace)
	if !strings.HasPrefix(t, "raw") {
		return 0
	}
	t = strings.TrimLeftFunc(t[3:], unicode.IsSpace)
	switch {
	case strings.HasPrefix(t, "-%}"):
		t = strings.TrimLeftFunc(t[3:], unicode.IsSpace)
	case strings.HasPrefix(t, "%}"):
		t = t[2:]
	default:
		return 0
	}
	return len(s) - len(t)
}

func (l *lexer) raw() error {
	rest := l.src[l.at:]
	for from := 0; ; {
		i := strings.Index(rest[from:], "{%")
		if i < 0 {
			return l.fail("missing end of raw directive")
		}
		start := from + i
		t := rest[start+2:]
		sign := byte(0)
		if t != "" && (t[0] == '-' || t[0] == '+') {
			sign, t = t[0], t[1:]
		}
		t = strings.TrimLeftFunc(t, unicode.IsSpace)
		if word, ok := strings.CutPrefix(t, "endraw"); ok {
			t = strings.TrimLeftFunc(word, unicode.IsSpace)
			end := byte(0)
			if t != "" && (t[0] == '-' || t[0] == '+') {
				end, t = t[0], t[1:]
			}
			if strings.HasPrefix(t, "%}") {
				l.text(rest[:start], sign, false)
				n := len(rest) - len(t) + 2
				l.advance(n + l.after(n, end))
				return nil
			}
		}
		from = start + 2
	}
}

var operators = []string{"//", "**", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[", "]", "(", ")", "{", "}", ">", "<", "=", ".", ":", "|", ",", ";"}

// expression reads tokens up to the end of the tag.
func (l *lexer) expression(end string, kind tokenKind) error {
	var open []byte
	for {
		rest := l.src[l.at:]
		if rest == "" {
			return l.fail("unexpected end of template, the tag is not closed with %s", end)
		}
		if len(open) == 0 {
			if n, sign := tagEnd(rest, end); n > 0 {
				if end == "}}" && sign == 0 {
					sign = '+' // only statements take the line break after them along
				}
				if end == "}}" && sign == '+' && rest[0] == '+' {
					return l.fail("unexpected '+'")
				}
				l.add(kind, "")
				l.advance(n + l.after(n, sign))
				return nil
			}
		}
		r, size := utf8.DecodeRuneInString(rest)
		switch {
		case unicode.IsSpace(r):
			l.advance(size)
		case r >= '0' && r <= '9':
			if err := l.number(); err != nil {
				return err
			}
		case r == '_' || unicode.IsLetter(r):
			n := nameLength(rest)
			l.add(tokName, rest[:n])
			l.advance(n)
		case r == '\'' || r == '"':
			if err := l.string(); err != nil {
				return err
			}
		default:
			if err := l.operator(&open); err != nil {
				return err
			}
		}
	}
}

func tagEnd(s, end string) (n int, sign byte) {
	if strings.HasPrefix(s, end) {
		return 2, 0
	}
	if len(s) > 2 && (s[0] == '-' || s[0] == '+') && strings.HasPrefix(s[1:], end) {
		return 3, s[0]
	}
	return 0, 0
}

func nameLength(s string) int {
	for i, r := range s {
		if r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.IsMark(r) {
			return i
		}
	}
	return len(s)
}

func (l *lexer) operator(open *[]byte) error {
	rest := l.src[l.at:]
	for _, op := range operators {
		if !strings.HasPrefix(rest, op) {
			continue
		}
		switch op {
		case "(", "[", "{":
			*open = append(*open, op[0])
		case ")", "]", "}":
			want := map[string]byte{")": '(', "]": '[', "}": '{'}[op]
			if len(*open) == 0 {
				return l.fail("unexpected '%s'", op)
			}
			if (*open)[len(*open)-1] != want {
				return l.fail("unexpected '%s', it doesn't close '%c'", op, (*open)[len(*open)-1])
			}
			*open = (*open)[:len(*open)-1]
		}
		l.add(tokOperator, op)
		l.advance(len(op))
		return nil
	}
	r, _ := utf8.DecodeRuneInString(rest)
	return l.fail("unexpected char %q", r)
}

// number reads an integer of any base or a float, with underscores between digits.
func (l *lexer) number() error {
	rest := l.src[l.at:]
	digits := func(from int, is func(byte) bool) int {
		i := from
		for i < len(rest) && (is(rest[i]) || rest[i] == '_' && i > from && i+1 < len(rest) && is(rest[i+1])) {
			i++
		}
		return i
	}
	decimal := func(c byte) bool { return c >= '0' && c <= '9' }
	if rest[0] == '0' && len(rest) > 2 {
		base := map[byte]func(byte) bool{
			'x': func(c byte) bool { return decimal(c) || c|0x20 >= 'a' && c|0x20 <= 'f' },
			'o': func(c byte) bool { return c >= '0' && c <= '7' },
			'b': func(c byte) bool { return c == '0' || c == '1' },
		}[rest[1]|0x20]
		if base != nil && base(rest[2]) {
			n := digits(2, base)
			l.add(tokInteger, rest[:n])
			l.advance(n)
			return nil
		}
	}
	n := digits(0, decimal)
	kind := tokInteger
	// A number after a dot is an index (x.0.1), not the start of a float.
	afterDot := l.at > 0 && l.src[l.at-1] == '.'
	if !afterDot && n+1 < len(rest) && rest[n] == '.' && decimal(rest[n+1]) {
		n = digits(n+1, decimal)
		kind = tokFloat
	}
	if !afterDot && n+1 < len(rest) && rest[n]|0x20 == 'e' {
		i := n + 1
		if rest[i] == '+' || rest[i] == '-' {
			i++
		}
		if i < len(rest) && decimal(rest[i]) {
			n = digits(i, decimal)
			kind = tokFloat
		}
	}
	if kind == tokInteger && rest[0] == '0' && strings.Trim(rest[:n], "0_") != "" {
		n = len(rest[:n]) - len(strings.TrimLeft(rest[:n], "0_")) // 012 is 0 and 12, which no grammar joins
	}
	l.add(kind, rest[:n])
	l.advance(n)
	return nil
}

func (l *lexer) string() error {
	rest := l.src[l.at:]
	for i := 1; i < len(rest); i++ {
		switch rest[i] {
		case '\\':
			i++
		case rest[0]:
			text, err := unescape(rest[1:i])
			if err != nil {
				return l.fail("%v", err)
			}
			l.add(tokString, text)
			l.advance(i + 1)
			return nil
		}
	}
	return l.fail("unexpected char %q: the string is not closed", rest[0])
}

// unescape reads Python's escapes; an unknown one stays as it is.
func unescape(s string) (string, error) {
	if !strings.Contains(s, `\`) {
		return s, nil
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 == len(s) {
			b.WriteByte(s[i])
			continue
		}
		i++
		hex := 0
		switch c := s[i]; c {
		case '\n':
		case '\\', '\'', '"':
			b.WriteByte(c)
		case 'a':
			b.WriteByte('\a')
		case 'b':
			b.WriteByte('\b')
		case 'f':
			b.WriteByte('\f')
		case 'n':
			b.WriteByte('\n')
		case 'r':
			b.WriteByte('\r')
		case 't':
			b.WriteByte('\t')
		case 'v':
			b.WriteByte('\v')
		case 'x':
			hex = 2
		case 'u':
			hex = 4
		case 'U':
			hex = 8
		case 'N':
			return "", fmt.Errorf(`characters by name (\N{…}) are not supported`)
		case '0', '1', '2', '3', '4', '5', '6', '7':
			n, r := 0, rune(0)
			for n < 3 && i+n < len(s) && s[i+n] >= '0' && s[i+n] <= '7' {
				r = r*8 + rune(s[i+n]-'0')
				n++
			}
			b.WriteRune(r)
			i += n - 1
		default:
			b.WriteByte('\\')
			b.WriteByte(c)
		}
		if hex > 0 {
			if i+hex >= len(s) {
				return "", fmt.Errorf(`truncated \%c escape`, s[i])
			}
			var r rune
			if _, err := fmt.Sscanf(s[i+1:i+1+hex], "%x", &r); err != nil {
				return "", fmt.Errorf(`truncated \%c escape`, s[i])
			}
			if !utf8.ValidRune(r) {
				return "", fmt.Errorf(`\%c%s is no character of its own`, s[i], s[i+1:i+1+hex])
			}
			b.WriteRune(r)
			i += hex
		}
	}
	return b.String(), nil
}
