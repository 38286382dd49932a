package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/hermes-env/hermes-env/internal/textutil"
)

// Limits on a config file. A real one is a few kilobytes; these keep a file that is
// none, or one whose aliases multiply, from filling memory.
const (
	maxFileBytes = 1 << 20
	maxNodes     = 100_000
	maxDepth     = 64
)

var (
	yamlLine   = regexp.MustCompile(`^line (\d+): `)
	yamlAnchor = regexp.MustCompile(`^unknown anchor '(.*)' referenced$`)
)

// readFile reads a config file. Its errors say what to do.
func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		switch {
		case errors.Is(err, os.ErrNotExist):
			return nil, errors.New("no such file")
		case errors.Is(err, os.ErrPermission):
			return nil, errors.New("permission denied; make the file readable for you")
		}
		return nil, fmt.Errorf("can't be opened: %w", err)
	}
	defer func() { _ = f.Close() }()
	if st, err := f.Stat(); err == nil && st.IsDir() {
		return nil, errors.New("is a directory; name the YAML file in it")
	}
	data, err := io.ReadAll(io.LimitReader(f, maxFileBytes+1))
	if err != nil {
		return nil, fmt.Errorf("can't be read: %w", err)
	}
	if len(data) > maxFileBytes {
		return nil, fmt.Errorf("larger than %d bytes; that is no config file", maxFileBytes)
	}
	return data, nil
}

// parseDocument reads one YAML document into a tree without aliases, merge keys,
// duplicate keys or foreign tags. It returns nil for an empty document, and the
// first problem with its line and column (0 where unknown).
func parseDocument(data []byte) (*yaml.Node, *Problem) {
	if p := checkText(data); p != nil {
		return nil, p
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc yaml.Node
	if err := dec.Decode(&doc); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, nil
		}
		return nil, syntaxProblem(err, data)
	}
	var second yaml.Node
	switch err := dec.Decode(&second); {
	case err == nil:
		return nil, &Problem{line: second.Line, column: second.Column,
			Message: "a second YAML document starts here; a config is one document"}
	case !errors.Is(err, io.EOF):
		return nil, syntaxProblem(err, data)
	}
	if len(doc.Content) != 1 || isNull(doc.Content[0]) && doc.Content[0].Value == "" {
		return nil, nil
	}
	e := &expander{open: map[*yaml.Node]bool{}}
	n := e.node(doc.Content[0], 0)
	if e.problem != nil {
		return nil, e.problem
	}
	return n, nil
}

// checkText refuses bytes that are no text before the YAML reader sees them, which
// would name no line.
func checkText(data []byte) *Problem {
	line, start := 1, 0
	for i := 0; i < len(data); {
		r, size := utf8.DecodeRune(data[i:])
		at := func(message string) *Problem {
			return &Problem{line: line, column: utf8.RuneCount(data[start:i]) + 1, Message: message}
		}
		switch {
		case r == utf8.RuneError && size == 1:
			return at(fmt.Sprintf("byte 0x%02x is not UTF-8 text; is this a YAML file?", data[i]))
		case r < 0x20 && r != '\t' && r != '\n' && r != '\r', r == 0x7f, r >= 0x80 && r < 0xa0 && r != 0x85, r == 0xfffe, r == 0xffff:
			return at(fmt.Sprintf("control character U+%04X; is this a YAML file?", r))
		case r == '\n':
			line, start = line+1, i+1
		}
		i += size
	}
	return nil
}

// syntaxProblem places the YAML reader's error. The reader counts the lines of its
// parser's errors, not of its scanner's, from 0, and leaves out the first line.
func syntaxProblem(err error, data []byte) *Problem {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	line, named := 1, false
	if m := yamlLine.FindStringSubmatch(text); m != nil {
		text, named = text[len(m[0]):], true
		line, _ = strconv.Atoi(m[1])
	}
	switch text {
	case "did not find expected key", "did not find expected '-' indicator", "did not find expected node content",
		"did not find expected ',' or ']'", "did not find expected ',' or '}'", "did not find expected <document start>":
		if named {
			line++
		}
	}
	column := 1
	if m := yamlAnchor.FindStringSubmatch(text); m != nil {
		text = fmt.Sprintf("no anchor &%s comes before the alias *%s", textutil.Shorten(m[1], maxQuoted), textutil.Shorten(m[1], maxQuoted))
		if i := bytes.Index(data, []byte("*"+m[1])); i >= 0 {
			line = bytes.Count(data[:i], []byte("\n")) + 1
			column = utf8.RuneCount(data[bytes.LastIndexByte(data[:i], '\n')+1:i]) + 1
		}
	}
	lines := bytes.Split(data, []byte("\n"))
	line = min(line, len(lines))
	content := lines[line-1]
	if column == 1 {
		column = len(content) - len(bytes.TrimLeft(content, " \t")) + 1
	}
	indent := content[:len(content)-len(bytes.TrimLeft(content, " \t"))]
	if bytes.ContainsRune(indent, '\t') {
		return &Problem{line: line, column: bytes.IndexByte(indent, '\t') + 1,
			Message: "a tab can't indent YAML; use spaces"}
	}
	switch text {
	case "mapping values are not allowed in this context":
		text += "; put text that holds a colon and a space in quotes, and check the indentation"
	case "did not find expected key":
		text += "; check the indentation from here on"
	case "did not find expected ',' or ']'", "did not find expected ',' or '}'":
		text += "; a bracket opened here is not closed"
	}
	return &Problem{line: line, column: column, Message: "not valid YAML: " + text}
}

// expander copies a tree, aliases and merge keys resolved, and stops at a problem.
type expander struct {
	nodes   int
	open    map[*yaml.Node]bool // anchors being expanded
	problem *Problem
}

func (e *expander) fail(n *yaml.Node, message string) *yaml.Node {
	if e.problem == nil {
		e.problem = &Problem{line: n.Line, column: n.Column, Message: message}
	}
	return n
}

func (e *expander) node(n *yaml.Node, depth int) *yaml.Node {
	if e.problem != nil {
		return n
	}
	e.nodes++
	switch {
	case e.nodes > maxNodes:
		return e.fail(n, fmt.Sprintf("more than %d values, aliases included; that is no config file", maxNodes))
	case depth > maxDepth:
		return e.fail(n, fmt.Sprintf("nested more than %d levels deep", maxDepth))
	case n.Kind == yaml.AliasNode:
		if n.Alias == nil || e.open[n.Alias] {
			return e.fail(n, fmt.Sprintf("the anchor &%s contains itself", textutil.Shorten(n.Value, maxQuoted)))
		}
		return e.node(n.Alias, depth+1)
	}
	switch kindOf(n) {
	case "!!str", "!!int", "!!float", "!!bool", "!!null", "!!timestamp", "!!map", "!!seq", "!!merge":
	default:
		return e.fail(n, fmt.Sprintf("the YAML tag %s has no meaning here", textutil.Shorten(n.Tag, maxQuoted)))
	}
	out := &yaml.Node{Kind: n.Kind, Tag: kindOf(n), Value: n.Value, Style: n.Style, Line: n.Line, Column: n.Column}
	e.open[n] = true
	defer delete(e.open, n)
	switch n.Kind {
	case yaml.SequenceNode:
		for _, c := range n.Content {
			out.Content = append(out.Content, e.node(c, depth+1))
		}
	case yaml.MappingNode:
		e.mapping(out, n, depth)
	}
	return out
}

// mapping copies the pairs of a mapping. Keys written out win over merged ones.
func (e *expander) mapping(out, n *yaml.Node, depth int) {
	seen := map[string]*yaml.Node{}
	var merges []*yaml.Node
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if kindOf(key) == "!!merge" {
			merges = append(merges, value)
			continue
		}
		k := e.node(key, depth+1)
		if e.problem != nil {
			return
		}
		if k.Kind != yaml.ScalarNode || isNull(k) {
			e.fail(key, "a key must be text, got "+describe(k))
			return
		}
		k.Line, k.Column = key.Line, key.Column
		if first := seen[k.Value]; first != nil {
			e.fail(key, fmt.Sprintf("key %s is here a second time; the first is in line %d", textutil.Quote(k.Value, maxQuoted), first.Line))
			return
		}
		seen[k.Value] = k
		out.Content = append(out.Content, k, e.node(value, depth+1))
	}
	for _, m := range merges {
		e.merge(out, e.node(m, depth+1), seen)
	}
}

// merge adds the pairs of a << value that are not there yet.
func (e *expander) merge(out, from *yaml.Node, seen map[string]*yaml.Node) {
	if e.problem != nil {
		return
	}
	list := []*yaml.Node{from}
	if from.Kind == yaml.SequenceNode {
		list = from.Content
	}
	for _, m := range list {
		if m.Kind != yaml.MappingNode {
			e.fail(m, "<< wants an object or a list of objects, got "+describe(m))
			return
		}
		for i := 0; i+1 < len(m.Content); i += 2 {
			if k := m.Content[i]; seen[k.Value] == nil {
				seen[k.Value] = k
				out.Content = append(out.Content, k, m.Content[i+1])
			}
		}
	}
}
