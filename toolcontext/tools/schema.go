package tools

import (
	"github.com/tidwall/gjson"
)

// schema is what argument coercion needs to know of one position of a JSON schema.
type schema struct {
	types      []string // in order; empty when the position names no type
	typeList   bool     // the type was given as a list
	nullable   bool
	items      *schema
	properties map[string]*schema
	branches   []*schema // anyOf, oneOf and allOf
}

// maxSchemaDepth bounds recursion over schemas and values that others wrote.
const maxSchemaDepth = 32

// compileSchema reads the parts of a parameters schema that matter for coercion.
// A schema without properties coerces nothing.
func compileSchema(parameters []byte) *schema {
	return compile(gjson.ParseBytes(parameters), 0)
}

func compile(v gjson.Result, depth int) *schema {
	if !v.IsObject() || depth > maxSchemaDepth {
		return nil
	}
	s := &schema{}
	// One pass over the members: gjson paths would misread keys that hold dots.
	v.ForEach(func(key, value gjson.Result) bool {
		switch key.Str {
		case "type":
			if value.IsArray() {
				s.typeList = true
				for _, t := range value.Array() {
					s.types = append(s.types, t.String())
				}
			} else if value.Type == gjson.String {
				s.types = []string{value.Str}
			}
		case "nullable":
			s.nullable = s.nullable || value.Bool()
		case "items":
			s.items = compile(value, depth+1)
		case "properties":
			s.properties = make(map[string]*schema)
			value.ForEach(func(name, property gjson.Result) bool {
				if p := compile(property, depth+1); p != nil {
					s.properties[name.String()] = p
				}
				return true
			})
		case "anyOf", "oneOf", "allOf":
			for _, branch := range value.Array() {
				b := compile(branch, depth+1)
				if b == nil {
					continue
				}
				s.branches = append(s.branches, b)
				if key.Str != "allOf" && b.has("null") {
					s.nullable = true
				}
			}
		}
		return true
	})
	s.nullable = s.nullable || s.has("null")
	return s
}

func (s *schema) has(kind string) bool {
	if s == nil {
		return false
	}
	for _, t := range s.types {
		if t == kind {
			return true
		}
	}
	return false
}

// accepting returns the part of the schema that accepts values of the kind "array"
// or "object": the schema itself or the first branch that does. Nil means none.
func (s *schema) accepting(kind string) *schema {
	if s == nil {
		return nil
	}
	if s.has(kind) {
		return s
	}
	for _, b := range s.branches {
		if found := b.accepting(kind); found != nil {
			return found
		}
	}
	return nil
}
