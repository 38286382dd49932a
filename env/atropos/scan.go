package atropos

import (
	"bytes"
	"fmt"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// maxDepth bounds how deep the JSON of a request may nest.
const maxDepth = 500

// syntaxError is a place where a body stops being JSON.
type syntaxError struct {
	at  int
	msg string
}

func (e *syntaxError) Error() string { return fmt.Sprintf("%s at byte %d", e.msg, e.at) }

// typeError is JSON of another type than the field has.
type typeError struct {
	kind, msg string
	path      []int // indices inside the field, innermost first
}

func (e *typeError) Error() string { return e.msg }

func (e *typeError) within(i int) *typeError {
	e.path = append(e.path, i)
	return e
}

// scanner walks over JSON once and copies what it is told to, without the white
// space. Text that needs no change is copied in one piece: mark is where the piece
// that is not copied yet begins. It accepts the words NaN, Infinity and -Infinity,
// as Python's decoder does.
type scanner struct {
	in   []byte
	i    int
	out  []byte
	mark int
	copy bool // what is walked over goes to out

	lax     bool      // impossible token ids and repeated keys are accepted
	ids     bool      // integers in lists are token ids
	masks   bool      // and may be the mask of positions that are not trained on
	depth   int       // objects around the cursor
	at      []string  // the field that is walked over, for reports
	repeats []Problem // keys that an object has twice
}

// maxTokenID bounds token ids: the largest vocabularies have some hundred thousand.
const maxTokenID = math.MaxInt32

// tokenID says whether an integer can be a token id.
func (s *scanner) tokenID(text []byte) error {
	n, err := strconv.ParseInt(string(text), 10, 64)
	switch {
	case n < 0 && !(s.masks && n == Masked && err == nil):
		msg := "A token id should be greater than or equal to 0"
		if s.masks {
			msg = fmt.Sprintf("A mask should be a token id, or %d", Masked)
		}
		return &typeError{kind: "greater_than_equal", msg: msg}
	case n > maxTokenID:
		return &typeError{kind: "less_than_equal", msg: fmt.Sprintf("A token id should be less than or equal to %d", maxTokenID)}
	}
	return nil
}

// repeated notes that an object has a key twice. The location is the field.
func (s *scanner) repeated(key []byte, at int) {
	if s.lax || len(s.repeats) == maxProblems {
		return
	}
	loc := s.at
	if s.depth == 1 {
		loc = append(slices.Clone(s.at[:max(0, len(s.at)-1)]), string(key))
	}
	s.repeats = append(s.repeats, Problem{Type: "duplicate_key", Loc: slices.Clone(loc), Msg: fmt.Sprintf("The key %q is given twice, the second time at byte %d", key, at)})
}

// keys are those of an object so far.
type keys struct {
	few  [][]byte
	many map[string]bool
}

const fewKeys = 16

// add says whether a key is new.
func (k *keys) add(key []byte) bool {
	if k.many != nil {
		if k.many[string(key)] {
			return false
		}
		k.many[string(key)] = true
		return true
	}
	for _, other := range k.few {
		if bytes.Equal(other, key) {
			return false
		}
	}
	k.few = append(k.few, key)
	if len(k.few) > fewKeys {
		k.many = map[string]bool{}
		for _, other := range k.few {
			k.many[string(other)] = true
		}
	}
	return true
}

func (s *scanner) syntax(msg string) error { return &syntaxError{s.i, msg} }

// begin starts copying and returns where the copy will start.
func (s *scanner) begin() int {
	s.copy, s.mark = true, s.i
	return len(s.out)
}

// end stops copying.
func (s *scanner) end() {
	s.flush()
	s.copy = false
}

func (s *scanner) flush() {
	if s.copy {
		s.out = append(s.out, s.in[s.mark:s.i]...)
		s.mark = s.i
	}
}

// replace copies text in the place of what lies between start and the cursor.
func (s *scanner) replace(start int, text string) {
	if s.copy {
		s.out = append(s.out, s.in[s.mark:start]...)
		s.out = append(s.out, text...)
		s.mark = s.i
	}
}

func (s *scanner) space() {
	if s.i < len(s.in) && s.in[s.i] <= ' ' {
		start := s.i
		for s.i < len(s.in) && (s.in[s.i] == ' ' || s.in[s.i] == '\n' || s.in[s.i] == '\t' || s.in[s.i] == '\r') {
			s.i++
		}
		s.replace(start, "")
	}
}

// peek returns the next byte, or 0 at the end.
func (s *scanner) peek() byte {
	if s.i < len(s.in) {
		return s.in[s.i]
	}
	return 0
}

// list walks over an array and calls element at each value.
func (s *scanner) list(element func(i int) error) (n int, err error) {
	if s.peek() != '[' {
		return 0, &typeError{kind: "list_type", msg: "Input should be a valid list"}
	}
	s.i++
	s.space()
	if s.peek() == ']' {
		s.i++
		return 0, nil
	}
	for {
		if err := element(n); err != nil {
			if t, ok := err.(*typeError); ok {
				return n, t.within(n)
			}
			return n, err
		}
		n++
		s.space()
		switch s.peek() {
		case ',':
			s.i++
			s.space()
		case ']':
			s.i++
			return n, nil
		default:
			return n, s.syntax("Expecting ',' delimiter")
		}
	}
}

// object walks over an object and calls member at each value.
func (s *scanner) object(member func(key []byte) error) error {
	if s.peek() != '{' {
		return &typeError{kind: "dict_type", msg: "Input should be a valid dictionary"}
	}
	s.i++
	s.space()
	if s.peek() == '}' {
		s.i++
		return nil
	}
	s.depth++
	defer func() { s.depth-- }()
	var seen keys
	for {
		start := s.i
		if s.peek() != '"' {
			return s.syntax("Expecting property name enclosed in double quotes")
		}
		if err := s.str(); err != nil {
			return err
		}
		key := s.in[start+1 : s.i-1]
		if bytes.IndexByte(key, '\\') >= 0 {
			key = []byte(unquote(s.in[start:s.i]))
		}
		if !seen.add(key) {
			s.repeated(key, start)
		}
		s.space()
		if s.peek() != ':' {
			return s.syntax("Expecting ':' delimiter")
		}
		s.i++
		s.space()
		if err := member(key); err != nil {
			return err
		}
		s.space()
		switch s.peek() {
		case ',':
			s.i++
			s.space()
		case '}':
			s.i++
			return nil
		default:
			return s.syntax("Expecting ',' delimiter")
		}
	}
}

// str walks over a string.
func (s *scanner) str() error {
	start := s.i
	s.i++
	for s.i < len(s.in) {
		switch c := s.in[s.i]; {
		case c == '"':
			s.i++
			return nil
		case c == '\\':
			s.i++
			switch s.peek() {
			case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
				s.i++
			case 'u':
				for k := 1; k <= 4; k++ {
					if s.i+k >= len(s.in) || !isHex(s.in[s.i+k]) {
						return s.syntax("Invalid \\uXXXX escape")
					}
				}
				s.i += 5
			default:
				return s.syntax("Invalid \\escape")
			}
		case c < ' ':
			return s.syntax("Invalid control character")
		default:
			s.i++
		}
	}
	s.i = start
	return s.syntax("Unterminated string")
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}

// form says how a number is written.
type form int

const (
	integral form = iota // digits only
	decimal              // with a point or an exponent
	large                // with an exponent that is not negative: a double may be too small for it
)

// number walks over a number and says how it is written.
func (s *scanner) number() (written form, err error) {
	if s.peek() == '-' {
		s.i++
	}
	digits := s.i
	for s.i < len(s.in) && s.in[s.i]-'0' <= 9 {
		s.i++
	}
	if s.i == digits || s.in[digits] == '0' && s.i > digits+1 {
		s.i = digits
		return 0, s.syntax("Expecting value")
	}
	if s.peek() == '.' {
		written = decimal
		s.i++
		fraction := s.i
		for s.i < len(s.in) && s.in[s.i]-'0' <= 9 {
			s.i++
		}
		if s.i == fraction {
			return 0, s.syntax("Expecting value")
		}
	}
	if c := s.peek(); c == 'e' || c == 'E' {
		written = decimal
		s.i++
		if c := s.peek(); c == '-' {
			s.i++
		} else {
			written = large
			if c == '+' {
				s.i++
			}
		}
		exponent := s.i
		for s.i < len(s.in) && s.in[s.i]-'0' <= 9 {
			s.i++
		}
		if s.i == exponent {
			return 0, s.syntax("Expecting value")
		}
	}
	return written, nil
}

// word walks over one of the bare words and returns it, or "" if there is none.
func (s *scanner) word() string {
	for _, w := range [...]string{"null", "true", "false", "NaN", "Infinity", "-Infinity"} {
		if strings.HasPrefix(string(s.in[s.i:min(len(s.in), s.i+len(w))]), w) {
			s.i += len(w)
			return w
		}
	}
	return ""
}

// value walks over any value. Words that JSON doesn't have are copied as null.
func (s *scanner) value(depth int) error {
	if depth > maxDepth {
		return s.syntax("Nested too deep")
	}
	switch c := s.peek(); {
	case c == '{':
		return s.object(func([]byte) error { return s.value(depth + 1) })
	case c == '[':
		_, err := s.list(func(int) error { return s.value(depth + 1) })
		return err
	case c == '"':
		return s.str()
	default:
		start := s.i
		switch s.word() {
		case "":
			_, err := s.number()
			return err
		case "NaN", "Infinity", "-Infinity":
			s.replace(start, "null")
		}
		return nil
	}
}

// skip walks over a value that was reported already.
func (s *scanner) skip() error {
	repeats := s.repeats
	err := s.value(1)
	s.repeats = repeats
	return err
}

// null walks over null, if that is next.
func (s *scanner) null() bool {
	if s.peek() == 'n' && bytes.HasPrefix(s.in[s.i:], []byte("null")) {
		s.i += 4
		return true
	}
	return false
}

// ints walks over an array of integers and returns how many there are.
func (s *scanner) ints() (n int, err error) {
	if s.peek() != '[' {
		return 0, &typeError{kind: "list_type", msg: "Input should be a valid list"}
	}
	s.i++
	s.space()
	if s.peek() == ']' {
		s.i++
		return 0, nil
	}
	for {
		// Nearly all bodies are digits and commas: take them without a call.
		start := s.i
		i := start
		if i < len(s.in) && s.in[i] == '-' {
			i++
		}
		first := i
		for i < len(s.in) && s.in[i]-'0' <= 9 {
			i++
		}
		if i > first && i < len(s.in) && (s.in[first] != '0' || i == first+1 && first == start) && (s.in[i] == ',' || s.in[i] == ']') {
			s.i = i
			if s.ids && (first > start || i-start > 9) {
				if err := s.tokenID(s.in[start:i]); err != nil {
					return n, err.(*typeError).within(n)
				}
			}
		} else if err := s.otherInt(); err != nil {
			if t, ok := err.(*typeError); ok {
				return n, t.within(n)
			}
			return n, err
		}
		n++
		s.space()
		switch s.peek() {
		case ',':
			s.i++
			s.space()
		case ']':
			s.i++
			return n, nil
		default:
			return n, s.syntax("Expecting ',' delimiter")
		}
	}
}

// otherInt is integer for elements of lists that are not written as plain digits.
func (s *scanner) otherInt() error {
	if !s.ids {
		return s.integer()
	}
	s.flush()
	from := len(s.out)
	if err := s.integer(); err != nil {
		return err
	}
	s.flush()
	return s.tokenID(s.out[from:])
}

// integer walks over a value that counts as an integer: one, a number without
// fraction, a string of digits, or a truth value.
func (s *scanner) integer() error {
	start := s.i
	switch c := s.peek(); {
	case c == '"':
		if err := s.str(); err != nil {
			return err
		}
		text, ok := integerText(unquote(s.in[start:s.i]))
		if !ok {
			return &typeError{kind: "int_parsing", msg: "Input should be a valid integer, unable to parse string as an integer"}
		}
		s.replace(start, text)
		return nil
	case c == '[' || c == '{':
		return &typeError{kind: "int_type", msg: "Input should be a valid integer"}
	}
	switch s.word() {
	case "":
	case "true":
		s.replace(start, "1")
		return nil
	case "false":
		s.replace(start, "0")
		return nil
	case "NaN", "Infinity", "-Infinity":
		return &typeError{kind: "finite_number", msg: "Input should be a finite number"}
	default:
		return &typeError{kind: "int_type", msg: "Input should be a valid integer"}
	}
	written, err := s.number()
	if err != nil {
		return err
	}
	text := string(s.in[start:s.i])
	if written == integral {
		if text == "-0" {
			s.replace(start, "0")
		}
		return nil
	}
	text, ok := integralFloat(text)
	if !ok {
		return &typeError{kind: "int_from_float", msg: "Input should be a valid integer, got a number with a fractional part"}
	}
	s.replace(start, text)
	return nil
}

// integerText returns the digits of a string that holds an integer, such as "12",
// " -3 ", "1_000" or "4.0".
func integerText(text string) (string, bool) {
	text = strings.TrimSpace(text)
	text = strings.TrimPrefix(text, "+")
	if whole, fraction, found := strings.Cut(text, "."); found {
		if strings.Trim(fraction, "0") != "" || fraction == "" {
			return "", false
		}
		text = whole
	}
	digits := strings.TrimPrefix(text, "-")
	if digits == "" || digits[0] == '_' || digits[len(digits)-1] == '_' || strings.Contains(digits, "__") {
		return "", false
	}
	digits = strings.ReplaceAll(digits, "_", "")
	for _, c := range []byte(digits) {
		if c-'0' > 9 {
			return "", false
		}
	}
	digits = strings.TrimLeft(digits, "0")
	switch {
	case digits == "":
		return "0", true
	case text[0] == '-':
		return "-" + digits, true
	}
	return digits, true
}

// integralFloat returns the integer that a number with point or exponent is, as
// Python would see it: through a double.
func integralFloat(text string) (string, bool) {
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || f != math.Trunc(f) {
		return "", false
	}
	if math.Abs(f) < 1<<53 {
		return strconv.FormatInt(int64(f), 10), true
	}
	whole, _ := big.NewFloat(f).Int(nil)
	return whole.String(), true
}

// floats walks over an array of numbers and returns how many there are.
func (s *scanner) floats() (n int, err error) {
	return s.list(func(int) error { return s.float() })
}

// float walks over a value that counts as a finite number, and copies it with a
// point or an exponent.
func (s *scanner) float() error {
	start := s.i
	switch c := s.peek(); {
	case c-'0' <= 9 || c == '-' && s.i+1 < len(s.in) && s.in[s.i+1]-'0' <= 9:
		written, err := s.number()
		if err != nil {
			return err
		}
		if (written == large || s.i-start > 300) && !finiteText(s.in[start:s.i]) {
			return &typeError{kind: "finite_number", msg: "Input should be a finite number"}
		}
		if written == integral {
			s.flush()
			s.replace(s.i, ".0")
		}
		return nil
	case c == '"':
		if err := s.str(); err != nil {
			return err
		}
		f, err := strconv.ParseFloat(strings.TrimSpace(unquote(s.in[start:s.i])), 64)
		switch {
		case err != nil && !math.IsInf(f, 0):
			return &typeError{kind: "float_parsing", msg: "Input should be a valid number, unable to parse string as a number"}
		case math.IsNaN(f) || math.IsInf(f, 0):
			return &typeError{kind: "finite_number", msg: "Input should be a finite number"}
		}
		e := encoder{}
		e.float(f)
		s.replace(start, string(e.dst))
		return nil
	case c == '[' || c == '{':
		return &typeError{kind: "float_type", msg: "Input should be a valid number"}
	}
	switch s.word() {
	case "":
		_, err := s.number() // it isn't one
		return err
	case "true":
		s.replace(start, "1.0")
		return nil
	case "false":
		s.replace(start, "0.0")
		return nil
	case "null":
		return &typeError{kind: "float_type", msg: "Input should be a valid number"}
	}
	return &typeError{kind: "finite_number", msg: "Input should be a finite number"}
}

// finiteText says whether the number that is written is one that a double can hold.
func finiteText(text []byte) bool {
	f, err := strconv.ParseFloat(string(text), 64)
	return !math.IsInf(f, 0) && (err == nil || f == 0)
}

// unquote decodes a string that str has walked over.
func unquote(quoted []byte) string {
	body := quoted[1 : len(quoted)-1]
	if bytes.IndexByte(body, '\\') < 0 {
		return string(body)
	}
	var b strings.Builder
	for i := 0; i < len(body); {
		if body[i] != '\\' {
			b.WriteByte(body[i])
			i++
			continue
		}
		switch c := body[i+1]; c {
		case 'u':
			r := hexRune(body[i+2 : i+6])
			i += 6
			if r >= 0xd800 && r < 0xdc00 && i+6 <= len(body) && body[i] == '\\' && body[i+1] == 'u' {
				if low := hexRune(body[i+2 : i+6]); low >= 0xdc00 && low < 0xe000 {
					r = 0x10000 + (r-0xd800)<<10 + (low - 0xdc00)
					i += 6
				}
			}
			if !utf8.ValidRune(r) {
				r = utf8.RuneError // half of a pair
			}
			b.WriteRune(r)
			continue
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
		default:
			b.WriteByte(c)
		}
		i += 2
	}
	return b.String()
}

func hexRune(digits []byte) rune {
	n, err := strconv.ParseUint(string(digits), 16, 32)
	if err != nil {
		return utf8.RuneError
	}
	return rune(n)
}
