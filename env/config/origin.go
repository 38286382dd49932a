package config

import (
	"fmt"

	"go.yaml.in/yaml/v3"
)

// OriginKind is a kind of source that values come from.
type OriginKind string

// The sources, lowest first.
const (
	FromDefault     OriginKind = "default"
	FromEnvironment OriginKind = "environment"
	FromMode        OriginKind = "mode"
	FromFile        OriginKind = "file"
	FromFlag        OriginKind = "flag"
)

// Origin says where the value of a field came from.
type Origin struct {
	Kind OriginKind
	Name string // environment, command, file or flag (without dashes), as the kind asks
	Line int    // in a file, from 1
	Col  int    // in a file, in characters from 1
}

// String returns "default", "environment NAME", "evaluate", "FILE:LINE" or "--FLAG".
func (o Origin) String() string {
	switch o.Kind {
	case FromEnvironment:
		return "environment " + o.Name
	case FromMode:
		return "default of " + o.Name
	case FromFile:
		if o.Line == 0 {
			return o.Name
		}
		return fmt.Sprintf("%s:%d", o.Name, o.Line)
	case FromFlag:
		return "--" + o.Name
	}
	return "default"
}

// at returns the origin of a value at a node's place.
func (o Origin) at(n *yaml.Node) Origin {
	if o.Kind == FromFile && n != nil && n.Line > 0 {
		o.Line, o.Col = n.Line, n.Column
	}
	return o
}

// problem places a message about a field.
func (o Origin) problem(field, message string) Problem {
	p := Problem{Field: field, Message: message}
	switch o.Kind {
	case FromFile:
		p.rank, p.line, p.column = 0, o.Line, o.Col
		p.Where = o.Name
		if o.Line > 0 {
			p.Where = fmt.Sprintf("%s:%d:%d", o.Name, o.Line, o.Col)
		}
	case FromFlag:
		p.rank = 1
		p.Where = "flag --" + o.Name
		if field == o.Name {
			p.Field = ""
		}
	case FromEnvironment:
		p.rank = 2
		p.Where = "environment " + o.Name
	default:
		p.rank = 3
	}
	return p
}
