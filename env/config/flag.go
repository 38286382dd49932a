package config

import (
	"errors"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// Flag is one command-line flag as it was given.
type Flag struct {
	Name  string // without dashes: "env.max_agent_turns", "openai.base_url", "environment", "agent"
	Value string // the raw text; lists and objects in JSON or YAML flow notation
}

// flagNode turns the raw text of a flag into a node, guided by the field's type.
func flagNode(s *fieldSpec, text string) (*yaml.Node, error) {
	if !utf8.ValidString(text) {
		return nil, errors.New("not UTF-8 text")
	}
	trimmed := strings.TrimSpace(text)
	null := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null", Value: trimmed}
	if s.nullable {
		switch trimmed {
		case "null", "None", "~":
			return null, nil
		}
	}
	switch s.shape {
	case shapeText, shapeSecret:
		if text == "" && s.nullable && s.shape == shapeText {
			return null, nil
		}
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: text, Style: yaml.DoubleQuotedStyle}, nil
	case shapeBool, shapeInt, shapeFloat:
		n := &yaml.Node{Kind: yaml.ScalarNode, Value: trimmed}
		n.Tag = n.ShortTag()
		return n, nil
	}
	if trimmed == "" {
		return null, nil
	}
	if s.words && !strings.HasPrefix(trimmed, "[") {
		return wordsNode(&yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: text}), nil
	}
	n, problem := parseDocument([]byte(text))
	if problem != nil {
		return nil, errors.New(problem.Message)
	}
	if n == nil {
		return null, nil
	}
	return n, nil
}

// wordsNode makes a list of a text whose words commas separate.
func wordsNode(text *yaml.Node) *yaml.Node {
	list := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq", Line: text.Line, Column: text.Column}
	for word := range strings.SplitSeq(text.Value, ",") {
		if word = strings.TrimSpace(word); word != "" {
			list.Content = append(list.Content, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: word, Style: yaml.DoubleQuotedStyle, Line: text.Line, Column: text.Column})
		}
	}
	return list
}

// findField walks a dotted flag name down nested structs. rest is what is left of
// the name below a field that is not a struct.
func findField(fields []bound, name string) (f bound, rest string, ok bool) {
	head, rest, nested := strings.Cut(name, ".")
	for _, f := range fields {
		if f.name != head {
			continue
		}
		if nested && f.shape == shapeObject {
			return findField(bindStruct(f.value, f.fields), rest)
		}
		return f, rest, true
	}
	return bound{}, "", false
}

// leafNames lists every dotted name a flag can have.
func leafNames(fields []bound, prefix string) []string {
	var names []string
	for _, f := range fields {
		if f.shape == shapeObject {
			names = append(names, leafNames(bindStruct(f.value, f.fields), join(prefix, f.name))...)
			continue
		}
		names = append(names, join(prefix, f.name))
	}
	return names
}
