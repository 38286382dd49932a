package parsers

import "strings"

// maxJSONDepth is the nesting encoding/json accepts. Deeper text counts as
// malformed, so that whatever is passed on as JSON can be read by it.
const maxJSONDepth = 10000

// scanResult says how far a jsonScanner came.
type scanResult uint8

const (
	scanMore scanResult = iota // the text ended inside the value
	scanDone                   // the value is complete and valid
	scanBad                    // no continuation can make it valid
)

// jsonState is what a jsonScanner expects next.
type jsonState uint8

const (
	wantValue      jsonState = iota // any value
	wantFirstItem                   // a value or ]
	wantFirstKey                    // a key or }
	wantKey                         // a key, after a comma
	wantColon                       // :
	wantNext                        // , or the closing bracket
	inString                        // inside a value string
	inKey                           // inside a key
	inEscape                        // after a backslash
	inHex                           // inside \uXXXX
	numberSign                      // after -
	numberZero                      // after a leading 0
	numberInt                       // inside the integer digits
	numberPoint                     // after the point
	numberFraction                  // inside the fraction digits
	numberExp                       // after e
	numberExpSign                   // after e+ or e-
	numberExpDigit                  // inside the exponent digits
	inLiteral                       // inside true, false or null
)

// span is a piece of the text, end exclusive.
type span struct{ start, end int }

// jsonScanner finds the end of one JSON value and checks the grammar of RFC
// 8259 on the way. It can stop at any byte and go on when more text is there,
// so that a value fed byte by byte costs no more than one fed whole.
type jsonScanner struct {
	pos   int // next byte to look at
	state jsonState
	back  jsonState // where to return to after an escape: inString or inKey
	hex   int       // hexadecimal digits still missing
	rest  string    // rest of a literal
	stack []bool    // the open brackets; true is {
}

// reset makes the scanner read a new value that starts at pos.
func (s *jsonScanner) reset(pos int) {
	*s = jsonScanner{pos: pos, stack: s.stack[:0]}
}

// number reports whether the value may end here because it is a complete number.
func (s *jsonScanner) number() bool {
	switch s.state {
	case numberZero, numberInt, numberFraction, numberExpDigit:
		return true
	}
	return false
}

// scan reads on to the end of the value. After scanDone, pos is just behind the
// value; after scanBad it is at the offending byte.
func (s *jsonScanner) scan(text string) scanResult {
	for s.pos < len(text) {
		c := text[s.pos]
		switch s.state {
		case inString, inKey:
			i := s.pos
			for i < len(text) && text[i] >= 0x20 && text[i] != '"' && text[i] != '\\' {
				i++
			}
			s.pos = i
			if i == len(text) {
				return scanMore
			}
			switch text[i] {
			case '"':
				s.pos++
				if s.state == inKey {
					s.state = wantColon
				} else if s.valueEnd() {
					return scanDone
				}
			case '\\':
				s.pos++
				s.back, s.state = s.state, inEscape
			default:
				return scanBad // a raw control character
			}
			continue
		case inEscape:
			switch c {
			case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
				s.state = s.back
			case 'u':
				s.state, s.hex = inHex, 4
			default:
				return scanBad
			}
			s.pos++
			continue
		case inHex:
			if !isHex(c) {
				return scanBad
			}
			if s.hex--; s.hex == 0 {
				s.state = s.back
			}
			s.pos++
			continue
		case inLiteral:
			if c != s.rest[0] {
				return scanBad
			}
			s.pos++
			if s.rest = s.rest[1:]; s.rest == "" && s.valueEnd() {
				return scanDone
			}
			continue
		case numberSign, numberZero, numberInt, numberPoint, numberFraction, numberExp, numberExpSign, numberExpDigit:
			if s.digit(c) {
				s.pos++
				continue
			}
			if !s.number() {
				return scanBad
			}
			if s.valueEnd() {
				return scanDone
			}
			continue // c is looked at again in the new state
		}
		if isJSONSpace(c) {
			s.pos++
			continue
		}
		switch s.state {
		case wantColon:
			if c != ':' {
				return scanBad
			}
			s.state = wantValue
		case wantNext:
			object := s.stack[len(s.stack)-1]
			switch {
			case c == ',' && object:
				s.state = wantKey
			case c == ',':
				s.state = wantValue
			case c == '}' && object, c == ']' && !object:
				s.pos++
				if s.closeBracket() {
					return scanDone
				}
				continue
			default:
				return scanBad
			}
		case wantFirstKey, wantKey:
			switch {
			case c == '"':
				s.state = inKey
			case c == '}' && s.state == wantFirstKey:
				s.pos++
				if s.closeBracket() {
					return scanDone
				}
				continue
			default:
				return scanBad
			}
		default: // wantValue, wantFirstItem
			if c == ']' && s.state == wantFirstItem {
				s.pos++
				if s.closeBracket() {
					return scanDone
				}
				continue
			}
			if !s.begin(c) {
				return scanBad
			}
		}
		s.pos++
	}
	return scanMore
}

// begin enters the value that starts with c.
func (s *jsonScanner) begin(c byte) bool {
	switch {
	case c == '{' || c == '[':
		if len(s.stack) >= maxJSONDepth {
			return false
		}
		s.stack = append(s.stack, c == '{')
		s.state = wantFirstItem
		if c == '{' {
			s.state = wantFirstKey
		}
	case c == '"':
		s.state = inString
	case c == '-':
		s.state = numberSign
	case c == '0':
		s.state = numberZero
	case c >= '1' && c <= '9':
		s.state = numberInt
	case c == 't':
		s.state, s.rest = inLiteral, "rue"
	case c == 'f':
		s.state, s.rest = inLiteral, "alse"
	case c == 'n':
		s.state, s.rest = inLiteral, "ull"
	default:
		return false
	}
	return true
}

// digit takes c as part of a number, or returns false when it is not.
func (s *jsonScanner) digit(c byte) bool {
	isDigit := c >= '0' && c <= '9'
	switch s.state {
	case numberSign:
		switch {
		case c == '0':
			s.state = numberZero
		case isDigit:
			s.state = numberInt
		default:
			return false
		}
		return true
	case numberInt:
		if isDigit {
			return true
		}
	case numberPoint, numberFraction:
		if isDigit {
			s.state = numberFraction
			return true
		}
	case numberExp:
		if c == '+' || c == '-' {
			s.state = numberExpSign
			return true
		}
		fallthrough
	case numberExpSign, numberExpDigit:
		if isDigit {
			s.state = numberExpDigit
			return true
		}
		return false
	}
	switch {
	case c == '.' && (s.state == numberZero || s.state == numberInt):
		s.state = numberPoint
		return true
	case (c == 'e' || c == 'E') && s.number():
		s.state = numberExp
		return true
	}
	return false
}

// valueEnd leaves a value; true means that it was the outermost one.
func (s *jsonScanner) valueEnd() bool {
	s.state = wantNext
	return len(s.stack) == 0
}

// closeBracket leaves the innermost bracket, whose last byte is just before pos.
func (s *jsonScanner) closeBracket() bool {
	s.stack = s.stack[:len(s.stack)-1]
	return s.valueEnd()
}

// jsonEnd returns the end of the JSON value that starts at the beginning of
// text, or -1 when there is none.
func jsonEnd(text string) int {
	var s jsonScanner
	switch s.scan(text) {
	case scanDone:
		return s.pos
	case scanMore:
		if len(s.stack) == 0 && s.number() {
			return s.pos
		}
	}
	return -1
}

// validJSON reports whether text is one JSON value with nothing but white space
// around it.
func validJSON(text string) bool {
	text = trimJSONSpace(text)
	return text != "" && jsonEnd(text) == len(text)
}

// isJSONObject reports whether text is one valid JSON object.
func isJSONObject(text string) bool {
	text = trimJSONSpace(text)
	return strings.HasPrefix(text, "{") && validJSON(text)
}

func trimJSONSpace(s string) string { return strings.Trim(s, " \t\r\n") }

func isJSONSpace(c byte) bool { return c == ' ' || c == '\n' || c == '\r' || c == '\t' }

func isHex(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F'
}
