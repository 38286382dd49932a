package dataset

import (
	"bytes"
	"errors"
	"fmt"
	"io"
)

// jsonStream walks over JSON text without holding more of it than one row.
type jsonStream struct {
	t      *text
	max    int64
	line   int64 // of the next byte, 1-based
	offset int64 // of the next byte
	buf    []byte
}

func newJSONStream(t *text, max int64) *jsonStream { return &jsonStream{t: t, max: max, line: 1} }

var errSyntax = errors.New("broken JSON")

var errCut = fmt.Errorf("the file ends in the middle of its JSON: %w", io.ErrUnexpectedEOF)

// byte returns the next byte.
func (s *jsonStream) byte() (byte, error) {
	c, err := s.t.ReadByte()
	if err != nil {
		return 0, err
	}
	s.offset++
	if c == '\n' {
		s.line++
	}
	return c, nil
}

// peek returns the next byte that isn't white space without taking it.
func (s *jsonStream) peek() (byte, error) {
	for {
		c, err := s.t.ReadByte()
		if err != nil {
			return 0, err
		}
		switch c {
		case ' ', '\t', '\r':
			s.offset++
		case '\n':
			s.offset++
			s.line++
		default:
			return c, s.t.UnreadByte()
		}
	}
}

// take expects c after white space.
func (s *jsonStream) take(want string, c byte) error {
	got, err := s.peek()
	if err != nil {
		return cut(err)
	}
	if got != c {
		return fmt.Errorf("%w: want %s, got %q", errSyntax, want, string(rune(got)))
	}
	_, err = s.byte()
	return err
}

func cut(err error) error {
	if errors.Is(err, io.EOF) {
		return errCut
	}
	return err
}

// value takes one value: its brackets and quotes are followed, its inside is not checked. The text is valid until the next
// call; keep false drops it. errLong is returned for a value over the limit, after it has been taken.
func (s *jsonStream) value(keep bool) ([]byte, error) {
	s.buf = s.buf[:0]
	if _, err := s.peek(); err != nil {
		return nil, cut(err)
	}
	var scan valueScan
	for long := false; ; {
		_, err := s.t.Peek(1)
		if errors.Is(err, io.EOF) && scan.begun && scan.depth == 0 && !scan.quoted {
			return s.buf, nil
		}
		if err != nil {
			return nil, cut(err)
		}
		part, err := s.t.Peek(s.t.Buffered())
		if err != nil {
			return nil, err
		}
		n, done, err := scan.take(part)
		part = part[:n]
		s.offset += int64(n)
		s.line += int64(bytes.Count(part, []byte{'\n'}))
		if err != nil {
			return nil, err
		}
		if keep && !long {
			if long = int64(len(s.buf)+n) > s.max; long {
				s.buf = s.buf[:0]
			} else {
				s.buf = append(s.buf, part...)
			}
		}
		if _, err := s.t.Discard(n); err != nil {
			return nil, err
		}
		switch {
		case done && long:
			return nil, errLong
		case done:
			return s.buf, nil
		}
	}
}

// valueScan finds the end of a value that comes in pieces.
type valueScan struct {
	depth                  int
	begun, quoted, escaped bool
}

// take returns how many bytes of the piece belong to the value, and whether it ends there.
func (v *valueScan) take(piece []byte) (n int, done bool, err error) {
	for i := 0; i < len(piece); i++ {
		if v.quoted {
			if v.escaped {
				v.escaped = false
				continue
			}
			for i < len(piece) && piece[i] != '"' && piece[i] != '\\' {
				i++
			}
			if i == len(piece) {
				break
			}
			if piece[i] == '\\' {
				v.escaped = true
				continue
			}
			v.quoted = false
			if v.depth == 0 {
				return i + 1, true, nil
			}
			continue
		}
		c := piece[i]
		if v.depth == 0 && v.begun && (c == ',' || c == ']' || c == '}' || c == ':' || c <= ' ') {
			return i, true, nil
		}
		v.begun = true
		switch c {
		case '"':
			v.quoted = true
		case '{', '[':
			v.depth++
		case '}', ']':
			v.depth--
			if v.depth < 0 {
				return i + 1, false, fmt.Errorf("%w: want a value, got %q", errSyntax, string(rune(c)))
			}
			if v.depth == 0 {
				return i + 1, true, nil
			}
		}
	}
	return len(piece), false, nil
}

// The ways in which a JSON file may hold rows.
type jsonShape int

const (
	shapeLines   jsonShape = iota // one object per line, whatever the name says
	shapeArray                    // [row, row, …]
	shapeList                     // {"…": …, KEY: [row, row, …]}
	shapeColumns                  // {"a": [1, 2], "b": [3, 4]}
	shapeSingle                   // one object that is one row
)

// probeJSON reads a JSON file once to see how it holds its rows. prefer are the keys whose list may be the rows, best first.
func probeJSON(s *jsonStream, prefer []string) (shape jsonShape, key string, err error) {
	first, err := s.peek()
	switch {
	case errors.Is(err, io.EOF):
		return shapeLines, "", nil // no rows
	case err != nil:
		return 0, "", err
	case first == '[':
		return shapeArray, "", nil
	case first != '{':
		return shapeLines, "", nil // whose first line is then the problem to report
	}
	startLine := s.line
	lists, members, err := s.probeObject()
	switch {
	case errors.Is(err, errSyntax) || errors.Is(err, errLong):
		return shapeLines, "", nil // reading it line by line will say where it is broken
	case err != nil:
		return 0, "", err
	}
	endLine := s.line
	if _, err := s.peek(); !errors.Is(err, io.EOF) {
		if err != nil {
			return 0, "", err
		}
		if endLine == startLine {
			return shapeLines, "", nil
		}
		return 0, "", fmt.Errorf("%w: several JSON objects over several lines each; write one object per line, or one array", ErrFormat)
	}
	for _, key := range prefer {
		if lists[key] == '{' {
			return shapeList, key, nil
		}
	}
	if members > 0 && len(lists) == members {
		return shapeColumns, "", nil
	}
	return shapeSingle, "", nil
}

// probeObject takes one object and returns, for each member that is a list, the first byte of its first element (']' when it
// has none).
func (s *jsonStream) probeObject() (lists map[string]byte, members int, err error) {
	lists = map[string]byte{}
	if err := s.take("an object", '{'); err != nil {
		return nil, 0, err
	}
	for {
		c, err := s.peek()
		if err != nil {
			return nil, 0, cut(err)
		}
		switch {
		case c == '}':
			_, err := s.byte()
			return lists, members, err
		case c == ',' && members > 0:
			if _, err := s.byte(); err != nil {
				return nil, 0, err
			}
			continue
		case c != '"':
			return nil, 0, fmt.Errorf("%w: want a key in double quotes, got %q", errSyntax, string(rune(c)))
		}
		key, kind, err := s.member()
		if err != nil {
			return nil, 0, err
		}
		members++
		if kind != '[' {
			_, err = s.value(false)
		} else {
			lists[key], err = s.probeList()
		}
		if err != nil {
			return nil, 0, err
		}
	}
}

// member takes a key and its colon and returns the key and the first byte of the value.
func (s *jsonStream) member() (key string, kind byte, err error) {
	raw, err := s.value(true)
	if err != nil {
		return "", 0, err
	}
	key = string(unquote(string(raw)))
	if err := s.take("a colon after the key", ':'); err != nil {
		return "", 0, err
	}
	kind, err = s.peek()
	return key, kind, cut(err)
}

// probeList takes a list and returns the first byte of its first element.
func (s *jsonStream) probeList() (byte, error) {
	if _, err := s.byte(); err != nil {
		return 0, err
	}
	kind, err := s.peek()
	for {
		var c byte
		if err == nil {
			c, err = s.peek()
		}
		if err != nil {
			return 0, cut(err)
		}
		switch c {
		case ']':
			_, err := s.byte()
			return kind, err
		case ',':
			_, err = s.byte()
		default:
			_, err = s.value(false)
		}
	}
}
