package rowtext

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hermes-env/hermes-env/internal/textutil"
)

// Template is text with placeholders: {{path}} stands for a value of the row, {{@name}} for a value that whoever fills the
// template brings. Two braces that are meant literally are written {{"{{"}}; a pair of closing braces outside a placeholder
// needs nothing.
type Template struct {
	pieces []piece
}

type piece struct {
	text  string // literal text before the placeholder
	path  string // of the row; "" for the end of the template or a special
	extra string // name of a special, without @
}

// literal is how a template writes two opening braces.
const literal = `{{"{{"}}`

// Parse reads a template whose specials are the given names.
func Parse(text string, specials ...string) (*Template, error) {
	t := &Template{}
	var before strings.Builder
	for rest := text; ; {
		open := strings.Index(rest, "{{")
		if open < 0 {
			before.WriteString(rest)
			t.pieces = append(t.pieces, piece{text: before.String()})
			return t, nil
		}
		before.WriteString(rest[:open])
		rest = rest[open:]
		if strings.HasPrefix(rest, literal) {
			before.WriteString("{{")
			rest = rest[len(literal):]
			continue
		}
		end := strings.Index(rest, "}}")
		if end < 0 {
			return nil, fmt.Errorf("line %d: {{ without }}; write %s where two braces are meant", lineOf(text, rest), literal)
		}
		name := strings.TrimSpace(rest[2:end])
		p := piece{text: before.String(), path: name}
		before.Reset()
		switch {
		case name == "":
			return nil, fmt.Errorf("line %d: {{}} names no column", lineOf(text, rest))
		case strings.ContainsAny(name, "\n{}\""):
			return nil, fmt.Errorf("line %d: %q can't be a column; write %s where two braces are meant", lineOf(text, rest), textutil.Shorten(name, 40), literal)
		case name[0] == '@':
			p.path, p.extra = "", name[1:]
			if !slices.Contains(specials, p.extra) {
				return nil, fmt.Errorf("line %d: there is no {{@%s}} here; %s", lineOf(text, rest), p.extra, known(specials))
			}
		}
		t.pieces = append(t.pieces, p)
		rest = rest[end+2:]
	}
}

func known(specials []string) string {
	if len(specials) == 0 {
		return "only columns can be inserted"
	}
	return "there are {{@" + strings.Join(specials, "}}, {{@") + "}}"
}

func lineOf(text, rest string) int { return 1 + strings.Count(text[:len(text)-len(rest)], "\n") }

// Paths returns the paths that the template takes from a row, each once, in order.
func (t *Template) Paths() []string {
	var paths []string
	for _, p := range t.pieces {
		if p.path != "" && !slices.Contains(paths, p.path) {
			paths = append(paths, p.path)
		}
	}
	return paths
}

// Uses says whether the template has the special {{@name}}.
func (t *Template) Uses(name string) bool {
	return slices.ContainsFunc(t.pieces, func(p piece) bool { return p.extra == name })
}

// Fill makes the text for one row. Specials that are not in the map are empty. Its error is a *MissingError.
func (t *Template) Fill(row []byte, specials map[string]string) (string, error) {
	var out strings.Builder
	for _, p := range t.pieces {
		out.WriteString(p.text)
		switch {
		case p.extra != "":
			out.WriteString(specials[p.extra])
		case p.path != "":
			text, err := Text(row, p.path)
			if err != nil {
				return "", err
			}
			out.WriteString(text)
		}
	}
	return out.String(), nil
}
