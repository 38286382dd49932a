package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"
)

const maxDotenvBytes = 1 << 20

// Variable is one assignment of a .env file.
type Variable struct {
	Name  string
	Value string
	Line  int // of the name, from 1
}

// readDotenv reads a .env file. A missing one holds nothing.
func readDotenv(path string) (vars []Variable, bad []int, err error) {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = f.Close() }()
	if st, err := f.Stat(); err != nil || !st.Mode().IsRegular() {
		return nil, nil, nil // a directory of that name is somebody's virtual environment
	}
	data, err := io.ReadAll(io.LimitReader(f, maxDotenvBytes+1))
	if err != nil {
		return nil, nil, err
	}
	if len(data) > maxDotenvBytes {
		return nil, nil, fmt.Errorf("larger than %d bytes", maxDotenvBytes)
	}
	vars, bad = ParseDotenv(data)
	return vars, bad, nil
}

// ParseDotenv reads NAME=VALUE lines: with or without "export", blanks around the
// equals sign, # comments, values bare, in single quotes (taken as they are) or in
// double quotes (with \n, \r, \t, \", \$ and \\); quoted values may span lines.
// Variables inside values are not replaced. bad lists the lines that are no
// assignment; they are left out.
func ParseDotenv(data []byte) (vars []Variable, bad []int) {
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	text := strings.ReplaceAll(string(data), "\r\n", "\n")
	for line := 1; text != ""; {
		v, rest, ok := dotenvLine(text)
		switch {
		case !ok:
			bad = append(bad, line)
		case v.Name != "":
			v.Line = line
			vars = append(vars, v)
		}
		line += strings.Count(text[:len(text)-len(rest)], "\n")
		text = rest
	}
	return vars, bad
}

// dotenvLine reads one assignment or comment off the front of text. The name is ""
// for a line that holds none.
func dotenvLine(text string) (v Variable, rest string, ok bool) {
	line, after, _ := strings.Cut(text, "\n")
	if !utf8.ValidString(line) || strings.ContainsRune(line, 0) {
		return Variable{}, after, false
	}
	s := strings.TrimSpace(line)
	if s == "" || s[0] == '#' {
		return Variable{}, after, true
	}
	name, _, found := strings.Cut(line, "=")
	name = strings.TrimSpace(name)
	if f := strings.Fields(name); len(f) == 2 && f[0] == "export" {
		name = f[1]
	}
	if !found || !variableName(name) {
		return Variable{}, after, false
	}
	// Quoted values may go on past the end of the line, so look at the whole text.
	raw := strings.TrimLeft(text[strings.IndexByte(text, '=')+1:], " \t")
	if raw != "" && (raw[0] == '"' || raw[0] == '\'') {
		value, tail, closed := dotenvQuoted(raw)
		if !closed || !utf8.ValidString(value) || strings.ContainsRune(value, 0) {
			return Variable{}, after, false
		}
		comment, next, _ := strings.Cut(tail, "\n")
		if comment = strings.TrimSpace(comment); comment != "" && comment[0] != '#' {
			return Variable{}, next, false
		}
		return Variable{Name: name, Value: value}, next, true
	}
	bare, _, _ := strings.Cut(raw, "\n")
	for i := range len(bare) {
		if bare[i] == '#' && (i == 0 || bare[i-1] == ' ' || bare[i-1] == '\t') {
			bare = bare[:i]
			break
		}
	}
	return Variable{Name: name, Value: strings.TrimSpace(bare)}, after, true
}

// dotenvQuoted reads a quoted value and returns what follows its closing quote.
func dotenvQuoted(s string) (value, tail string, closed bool) {
	quote := s[0]
	var out strings.Builder
	for i := 1; i < len(s); i++ {
		switch c := s[i]; {
		case c == quote:
			return out.String(), s[i+1:], true
		case c == '\\' && quote == '"' && i+1 < len(s):
			i++
			switch s[i] {
			case 'n':
				out.WriteByte('\n')
			case 'r':
				out.WriteByte('\r')
			case 't':
				out.WriteByte('\t')
			case '"', '\\', '$':
				out.WriteByte(s[i])
			default:
				out.WriteByte('\\')
				out.WriteByte(s[i])
			}
		default:
			out.WriteByte(c)
		}
	}
	return "", "", false
}
