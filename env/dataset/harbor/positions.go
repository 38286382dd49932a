package harbor

import (
	"fmt"
	"strings"
)

// positions finds the line of every key of a TOML document that is known to be valid, by
// the paths that problems use: "agent.timeout_sec", "steps[1].name".
func positions(doc string) map[string]int {
	s := scanner{text: doc, line: 1, found: map[string]int{}, count: map[string]int{}}
	for s.pos < len(s.text) {
		s.blank(true)
		before := s.pos
		switch {
		case s.pos >= len(s.text):
		case strings.HasPrefix(s.text[s.pos:], "[["):
			s.header(2)
		case s.text[s.pos] == '[':
			s.header(1)
		default:
			s.keyValue(s.table)
			s.restOfLine()
		}
		if s.pos == before {
			s.step() // not valid after all; never stand still
		}
	}
	return s.found
}

// scanner walks through the text of a document.
type scanner struct {
	text  string
	pos   int
	line  int
	table string
	found map[string]int
	count map[string]int // elements of each array of tables
}

func (s *scanner) step() {
	if s.pos < len(s.text) {
		if s.text[s.pos] == '\n' {
			s.line++
		}
		s.pos++
	}
}

func (s *scanner) restOfLine() {
	for s.pos < len(s.text) && s.text[s.pos] != '\n' {
		s.pos++
	}
}

// blank skips spaces, and line ends and comments too where lines do not matter.
func (s *scanner) blank(lines bool) {
	for s.pos < len(s.text) {
		switch c := s.text[s.pos]; {
		case c == ' ' || c == '\t' || c == '\r':
			s.pos++
		case lines && c == '\n':
			s.step()
		case lines && c == '#':
			s.restOfLine()
		default:
			return
		}
	}
}

func (s *scanner) note(path string) {
	if _, ok := s.found[path]; !ok {
		s.found[path] = s.line
	}
}

func joinKey(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// header reads [a.b] or [[a.b]].
func (s *scanner) header(brackets int) {
	s.pos += brackets
	path := ""
	parts := s.key()
	for i, part := range parts {
		path = joinKey(path, part)
		if n, ok := s.count[path]; ok && (i < len(parts)-1 || brackets == 1) {
			path = fmt.Sprintf("%s[%d]", path, n-1)
		}
	}
	if brackets == 2 {
		n := s.count[path]
		s.count[path] = n + 1
		s.note(path)
		path = fmt.Sprintf("%s[%d]", path, n)
	}
	s.table = path
	s.note(path)
	s.restOfLine()
}

// key reads a dotted key.
func (s *scanner) key() []string {
	var parts []string
	for {
		s.blank(false)
		parts = append(parts, s.keyPart())
		s.blank(false)
		if s.pos >= len(s.text) || s.text[s.pos] != '.' {
			return parts
		}
		s.pos++
	}
}

func (s *scanner) keyPart() string {
	if s.pos < len(s.text) && (s.text[s.pos] == '"' || s.text[s.pos] == '\'') {
		return s.quoted()
	}
	start := s.pos
	for s.pos < len(s.text) && !strings.ContainsRune(" \t\r\n.=]}[{,#\"'", rune(s.text[s.pos])) {
		s.pos++
	}
	return s.text[start:s.pos]
}

// quoted reads a string of any of TOML's four kinds and returns its content; escapes
// stay as they are written, which does for finding keys.
func (s *scanner) quoted() string {
	quote := s.text[s.pos : s.pos+1]
	if triple := strings.Repeat(quote, 3); strings.HasPrefix(s.text[s.pos:], triple) {
		quote = triple
	}
	for range quote {
		s.step()
	}
	start := s.pos
	for s.pos < len(s.text) {
		switch {
		case s.text[s.pos] == '\\' && quote[0] == '"':
			s.step()
			s.step()
		case strings.HasPrefix(s.text[s.pos:], quote):
			end := s.pos
			// A triple quote may be preceded by up to two quotes of the content.
			for len(quote) == 3 && end+3 < len(s.text) && s.text[end+3] == quote[0] {
				end++
			}
			s.pos = end + len(quote)
			return s.text[start:end]
		default:
			s.step()
		}
	}
	return s.text[start:]
}

// keyValue reads "key = value" below a table.
func (s *scanner) keyValue(table string) {
	line := s.line
	path := table
	for _, part := range s.key() {
		path = joinKey(path, part)
		if _, ok := s.found[path]; !ok {
			s.found[path] = line
		}
	}
	if s.pos < len(s.text) && s.text[s.pos] == '=' {
		s.pos++
		s.value(path)
	}
}

// value reads a value; keys in inline tables and arrays are noted too.
func (s *scanner) value(path string) {
	s.blank(false)
	if s.pos >= len(s.text) {
		return
	}
	switch s.text[s.pos] {
	case '"', '\'':
		s.quoted()
	case '[':
		s.pos++
		for i := 0; s.more(']'); i++ {
			element := fmt.Sprintf("%s[%d]", path, i)
			s.note(element)
			s.value(element)
			s.separator()
		}
	case '{':
		s.pos++
		for s.more('}') {
			s.keyValue(path)
			s.separator()
		}
	default:
		for s.pos < len(s.text) && !strings.ContainsRune(",]}#\n", rune(s.text[s.pos])) {
			s.pos++
		}
	}
}

// more reports whether another element comes before the closing bracket, which it
// takes in otherwise.
func (s *scanner) more(closing byte) bool {
	s.blank(true)
	if s.pos >= len(s.text) {
		return false
	}
	if s.text[s.pos] == closing {
		s.pos++
		return false
	}
	return true
}

func (s *scanner) separator() {
	before := s.pos
	s.blank(true)
	if s.pos < len(s.text) && s.text[s.pos] == ',' {
		s.pos++
		return
	}
	if s.pos < len(s.text) && !strings.ContainsRune("]}", rune(s.text[s.pos])) && s.pos == before {
		s.step() // not valid after all; never stand still
	}
}
