package docker

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
)

// composeFile is a compose file whose variables and anchors have been put in.
type composeFile struct {
	path   string
	folder string // absolute, without links
	top    *yaml.Node
}

// composeNames are the names a compose file has in a folder, the best first.
var composeNames = [...]string{"docker-compose.yaml", "docker-compose.yml", "compose.yaml", "compose.yml"}

// Limits of compose files, which come from data sets.
const (
	maxComposeBytes = 1 << 20
	maxComposeNodes = 100_000
)

// readCompose reads a project's file.
func readCompose(c sandbox.Compose) (*composeFile, error) {
	path, err := composePath(c.File)
	if err != nil {
		return nil, err
	}
	f := &composeFile{path: path}
	if f.folder, err = filepath.EvalSymlinks(filepath.Dir(path)); err == nil {
		f.folder, err = filepath.Abs(f.folder)
	}
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(f.folder)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	text, err := readBounded(root, filepath.Base(path))
	if err != nil {
		return nil, fmt.Errorf("read the compose file: %w", err)
	}
	var document yaml.Node
	if err := yaml.NewDecoder(bytes.NewReader(text)).Decode(&document); err != nil {
		return nil, fmt.Errorf("the compose file %s: %w", path, err)
	}
	r := composeReader{variables: c.Variables}
	if f.top, err = r.resolve(document.Content[0], 0); err != nil {
		return nil, fmt.Errorf("the compose file %s: %w", path, err)
	}
	if f.top.Kind != yaml.MappingNode {
		return nil, fmt.Errorf("the compose file %s is no mapping", path)
	}
	return f, nil
}

func composePath(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", fmt.Errorf("find the compose file: %w", err)
	}
	if !info.IsDir() {
		return path, nil
	}
	for _, name := range composeNames {
		if fileExists(filepath.Join(path, name)) {
			return filepath.Join(path, name), nil
		}
	}
	return "", fmt.Errorf("the folder %s has no compose file (%s)", path, strings.Join(composeNames[:], ", "))
}

// readBounded reads a small file of a folder, links out of which lead nowhere.
func readBounded(root *os.Root, name string) ([]byte, error) {
	file, err := root.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxComposeBytes+1))
	if err == nil && len(text) > maxComposeBytes {
		err = fmt.Errorf("%s is longer than %d bytes", name, maxComposeBytes)
	}
	return text, err
}

// composeReader puts variables, aliases and merged mappings into a document.
type composeReader struct {
	variables map[string]string
	nodes     int
}

// resolve returns a copy of a node without aliases, merge keys and variables.
func (r *composeReader) resolve(n *yaml.Node, depth int) (*yaml.Node, error) {
	if r.nodes++; r.nodes > maxComposeNodes || depth > 100 {
		return nil, fmt.Errorf("line %d: the file is too large once its aliases are put in", n.Line)
	}
	switch n.Kind {
	case yaml.AliasNode:
		return r.resolve(n.Alias, depth+1)
	case yaml.ScalarNode:
		c := *n
		c.Anchor, c.HeadComment, c.LineComment, c.FootComment = "", "", "", ""
		if n.Tag != "!!str" {
			return &c, nil
		}
		value, err := r.interpolate(n.Value)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n.Line, err)
		}
		c.Value = value
		return &c, nil
	case yaml.SequenceNode:
		c := &yaml.Node{Kind: n.Kind, Tag: n.Tag, Line: n.Line}
		for _, item := range n.Content {
			v, err := r.resolve(item, depth+1)
			if err != nil {
				return nil, err
			}
			c.Content = append(c.Content, v)
		}
		return c, nil
	case yaml.MappingNode:
		return r.resolveMapping(n, depth)
	}
	return nil, fmt.Errorf("line %d: this is neither text, list nor mapping", n.Line)
}

func (r *composeReader) resolveMapping(n *yaml.Node, depth int) (*yaml.Node, error) {
	c := &yaml.Node{Kind: n.Kind, Tag: n.Tag, Line: n.Line}
	var merged []*yaml.Node
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if key.Kind != yaml.ScalarNode {
			return nil, fmt.Errorf("line %d: a key has to be text", key.Line)
		}
		v, err := r.resolve(value, depth+1)
		if err != nil {
			return nil, err
		}
		if key.Tag == "!!merge" {
			if v.Kind == yaml.SequenceNode {
				merged = append(merged, v.Content...)
			} else {
				merged = append(merged, v)
			}
			continue
		}
		set(c, key.Value, v).Line = key.Line
	}
	for _, m := range merged {
		if m.Kind != yaml.MappingNode {
			return nil, fmt.Errorf("line %d: only mappings can be merged", m.Line)
		}
		for key, value := range pairs(m) {
			if find(c, key.Value) == nil {
				set(c, key.Value, value).Line = key.Line
			}
		}
	}
	return c, nil
}

var variable = regexp.MustCompile(`\$(?:(\$)|\{([A-Za-z_][A-Za-z0-9_]*)(?:(:?[-+?])([^{}]*))?\}|([A-Za-z_][A-Za-z0-9_]*)|(.|$))`)

// interpolate puts in the values of variables, as compose does. One that has no value
// is empty.
func (r *composeReader) interpolate(text string) (string, error) {
	var problem error
	text = variable.ReplaceAllStringFunc(text, func(found string) string {
		m := variable.FindStringSubmatch(found)
		if m[1] != "" {
			return "$"
		}
		name := m[2] + m[5]
		if name == "" {
			problem = fmt.Errorf("%q begins no variable; write $$ for a dollar sign", found)
			return ""
		}
		value, ok := r.variables[name]
		if strings.HasPrefix(m[3], ":") {
			ok = value != ""
		}
		switch strings.TrimPrefix(m[3], ":") {
		case "-":
			if !ok {
				return m[4]
			}
		case "+":
			if ok {
				return m[4]
			}
			return ""
		case "?":
			if !ok {
				problem = fmt.Errorf("the variable %s has no value: %s", name, m[4])
			}
		}
		return value
	})
	return text, problem
}

// find returns the value of a key, or nil.
func find(mapping *yaml.Node, key string) *yaml.Node {
	if mapping == nil || mapping.Kind != yaml.MappingNode {
		return nil
	}
	for k, v := range pairs(mapping) {
		if k.Value == key {
			return v
		}
	}
	return nil
}

// pairs ranges over the keys and values of a mapping; of anything else there are none.
func pairs(mapping *yaml.Node) func(func(key, value *yaml.Node) bool) {
	return func(yield func(key, value *yaml.Node) bool) {
		if mapping == nil || mapping.Kind != yaml.MappingNode {
			return
		}
		for i := 0; i+1 < len(mapping.Content); i += 2 {
			if !yield(mapping.Content[i], mapping.Content[i+1]) {
				return
			}
		}
	}
}

// set gives a key of a mapping a value and returns the key.
func set(mapping *yaml.Node, key string, value *yaml.Node) *yaml.Node {
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value == key {
			mapping.Content[i+1] = value
			return mapping.Content[i]
		}
	}
	k := text(key)
	mapping.Content = append(mapping.Content, k, value)
	return k
}

// text, list and mapping make nodes.
func text(s string) *yaml.Node { return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: s} }

func plainValue(s, tag string) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: tag, Value: s}
}

func list(items ...string) *yaml.Node {
	n := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq"}
	for _, item := range items {
		n.Content = append(n.Content, text(item))
	}
	return n
}

// values are the scalars of a sequence.
func values(sequence *yaml.Node) []string {
	if sequence == nil {
		return nil
	}
	var list []string
	for _, item := range sequence.Content {
		list = append(list, item.Value)
	}
	return list
}

func mapping() *yaml.Node { return &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"} }

// escaped returns a copy in which dollar signs and words like yes are written so that
// every compose takes them for what they are.
func escaped(n *yaml.Node) *yaml.Node {
	c := *n
	if c.Kind == yaml.ScalarNode {
		c.Value = strings.ReplaceAll(c.Value, "$", "$$")
	}
	if c.Tag == "!!str" {
		c.Style = yaml.DoubleQuotedStyle
	}
	c.Content = make([]*yaml.Node, len(n.Content))
	for i, item := range n.Content {
		c.Content[i] = escaped(item)
	}
	return &c
}

// within returns the absolute path of a file or folder that lies in the project's folder,
// links followed.
func (f *composeFile) within(path string) (string, error) {
	if !filepath.IsAbs(path) {
		path = filepath.Join(f.folder, path)
	}
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return "", err
	}
	below, err := filepath.Rel(f.folder, real)
	if err != nil || !filepath.IsLocal(below) {
		return "", errors.New("it lies outside the task's folder")
	}
	return real, nil
}
