package config

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"go.yaml.in/yaml/v3"
)

// decoder writes the nodes of one source into fields.
type decoder struct {
	report  *report
	origin  Origin
	origins map[string]Origin
	// redacted takes the paths of secrets that a recorded configuration does not hold; nil
	// means that there are none.
	redacted map[string]bool
	// unknown answers for a key that is no field; nil ignores such keys.
	unknown func(d *decoder, key, value *yaml.Node, path string, known []string)
}

func (d *decoder) problem(n *yaml.Node, path, message string) {
	d.report.at(d.origin.at(n), path, message)
}

// object decodes a mapping into fields, whose names are looked up below path.
func (d *decoder) object(fields []bound, n *yaml.Node, path string) {
	if n.Kind != yaml.MappingNode {
		d.problem(n, path, "want an object, got "+describe(n))
		return
	}
	byName := make(map[string]bound, len(fields))
	names := make([]string, len(fields))
	for i, f := range fields {
		byName[f.name], names[i] = f, f.name
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if f, ok := byName[key.Value]; ok {
			d.field(f, value, join(path, f.name))
		} else if d.unknown != nil {
			d.unknown(d, key, value, join(path, key.Value), names)
		}
	}
}

// field decodes a node into one field and notes where its value came from.
func (d *decoder) field(f bound, n *yaml.Node, path string) {
	if f.shape == shapeObject {
		if isNull(n) {
			d.problem(n, path, "want an object, got null; remove the key to keep the defaults")
			return
		}
		d.object(bindStruct(f.value, f.fields), n, path)
		return
	}
	before := len(d.report.problems)
	v, ok := d.value(f.fieldSpec, f.value, n, path)
	if ok && len(d.report.problems) == before {
		f.value.Set(v)
		d.origins[path] = d.origin.at(n)
	}
}

// value decodes a node for a field that holds old so far. Objects merge into old.
func (d *decoder) value(s *fieldSpec, old reflect.Value, n *yaml.Node, path string) (reflect.Value, bool) {
	if isNull(n) && s.shape != shapeObject {
		if s.nullable {
			return reflect.Zero(s.outerType()), true
		}
		d.problem(n, path, "want "+s.wanted()+", got "+describe(n))
		return reflect.Value{}, false
	}
	if s.pointer {
		inner := *s
		inner.pointer, inner.nullable = false, false
		v, ok := d.value(&inner, reflect.Zero(s.typ), n, path)
		if !ok {
			return v, false
		}
		p := reflect.New(s.typ)
		p.Elem().Set(v)
		return p, true
	}
	switch s.shape {
	case shapeList:
		if s.words && n.Kind == yaml.ScalarNode && n.ShortTag() == "!!str" {
			n = wordsNode(n)
		}
		return d.list(s, n, path)
	case shapeMap:
		return d.mapping(s, old, n, path)
	case shapeJSON:
		return d.json(s, old, n, path)
	case shapeObject:
		v := reflect.New(s.typ).Elem()
		fields := bindStruct(v, s.fields)
		if err := applyDefaults(fields); err != nil {
			d.problem(n, path, err.Error())
			return v, false
		}
		d.object(fields, n, path)
		d.origins[path] = d.origin.at(n) // an entry of a list or map
		return v, true
	}
	return d.scalar(s, n, path)
}

// outerType is the type of the Go field, the pointer included.
func (s *fieldSpec) outerType() reflect.Type {
	if s.pointer {
		return reflect.PointerTo(s.typ)
	}
	return s.typ
}

func (d *decoder) scalar(s *fieldSpec, n *yaml.Node, path string) (reflect.Value, bool) {
	v := reflect.New(s.typ).Elem()
	message := ""
	switch s.shape {
	case shapeBool:
		b, ok := parseBool(n)
		if !ok {
			message = "want true or false, got " + describe(n)
		}
		v.SetBool(b)
	case shapeInt:
		i, reason := parseInt(n)
		switch {
		case reason != "":
			message = "want an integer" + reason
		case v.OverflowInt(i):
			message = fmt.Sprintf("%d is too large", i)
		default:
			message = s.checkNumber(float64(i))
		}
		if message == "" {
			v.SetInt(i)
		}
	case shapeFloat:
		f, reason := parseFloat(n)
		if reason != "" {
			message = "want a number" + reason
		} else {
			message = s.checkNumber(f)
		}
		v.SetFloat(f)
	case shapeText:
		if message = wantText(n); message == "" {
			message = s.checkChoice(n.Value)
		}
		v.SetString(n.Value)
	case shapeSecret:
		// The value stays out of the message.
		if n.Kind != yaml.ScalarNode || kindOf(n) != "!!str" && n.Style == 0 {
			message = "want text; put the value in quotes"
		} else if n.Value == Redacted && d.redacted != nil {
			d.redacted[path] = true
			v.Set(reflect.ValueOf(Secret{}))
			break
		} else if n.Value == Redacted {
			message = Redacted + " is what a printed configuration shows in place of a secret; write the secret, or $NAME of a variable"
		}
		v.Set(reflect.ValueOf(NewSecret(n.Value)))
	}
	if message != "" {
		d.problem(n, path, message)
		return v, false
	}
	return v, true
}

func wantText(n *yaml.Node) string {
	switch {
	case n.Kind != yaml.ScalarNode:
		return "want text, got " + describe(n)
	case kindOf(n) == "!!str" || kindOf(n) == "!!timestamp":
		return ""
	}
	return fmt.Sprintf("want text, got %s; put it in quotes if that is meant", describe(n))
}

func (d *decoder) list(s *fieldSpec, n *yaml.Node, path string) (reflect.Value, bool) {
	if n.Kind != yaml.SequenceNode {
		d.problem(n, path, fmt.Sprintf("want %s such as %s, got %s", s.wanted(), s.example(), describe(n)))
		return reflect.Value{}, false
	}
	v := reflect.MakeSlice(s.typ, 0, len(n.Content))
	whole := true
	for i, c := range n.Content {
		e, ok := d.value(s.elem, reflect.Zero(s.elem.outerType()), c, fmt.Sprintf("%s[%d]", path, i))
		if !ok {
			whole = false
			continue
		}
		v = reflect.Append(v, e)
	}
	return v, whole
}

func (d *decoder) mapping(s *fieldSpec, old reflect.Value, n *yaml.Node, path string) (reflect.Value, bool) {
	if n.Kind != yaml.MappingNode {
		d.problem(n, path, fmt.Sprintf("want %s such as %s, got %s", s.wanted(), s.example(), describe(n)))
		return reflect.Value{}, false
	}
	v := reflect.MakeMap(s.typ)
	for _, k := range old.MapKeys() {
		v.SetMapIndex(k, old.MapIndex(k))
	}
	whole := true
	for i := 0; i+1 < len(n.Content); i += 2 {
		e, ok := d.value(s.elem, reflect.Zero(s.elem.outerType()), n.Content[i+1], join(path, n.Content[i].Value))
		if !ok {
			whole = false
			continue
		}
		v.SetMapIndex(reflect.ValueOf(n.Content[i].Value).Convert(s.typ.Key()), e)
	}
	return v, whole
}

func (d *decoder) json(s *fieldSpec, old reflect.Value, n *yaml.Node, path string) (reflect.Value, bool) {
	if s.mustObject && n.Kind != yaml.MappingNode {
		d.problem(n, path, fmt.Sprintf("want an object such as %s, got %s", s.example(), describe(n)))
		return reflect.Value{}, false
	}
	whole := true
	raw := nodeJSON(nil, n, func(at *yaml.Node, message string) {
		whole = false
		d.problem(at, path, message)
	})
	if !whole {
		return reflect.Value{}, false
	}
	return reflect.ValueOf(mergeJSON(json.RawMessage(old.Bytes()), raw)), true
}

// example returns a value of the field's type in JSON, for messages.
func (s *fieldSpec) example() string {
	word := func(e *fieldSpec) string {
		switch e.shape {
		case shapeInt, shapeFloat:
			return "1"
		case shapeBool:
			return "true"
		case shapeJSON, shapeObject, shapeMap:
			return "{}"
		case shapeList:
			return "[]"
		}
		if len(e.choices) > 0 {
			return `"` + e.choices[0] + `"`
		}
		return `"name"`
	}
	switch s.shape {
	case shapeList:
		return "[" + word(s.elem) + "]"
	case shapeMap:
		return `{"name": ` + word(s.elem) + "}"
	case shapeJSON, shapeObject:
		return `{"name": "value"}`
	}
	return strings.Trim(word(s), `"`)
}

// checkBounds checks a value that came from Go code, as a decoded one is checked.
func (s *fieldSpec) checkBounds(v reflect.Value) string {
	if s.pointer {
		if v.IsNil() {
			return ""
		}
		v = v.Elem()
	}
	switch s.shape {
	case shapeInt:
		return s.checkNumber(float64(v.Int()))
	case shapeFloat:
		return s.checkNumber(v.Float())
	case shapeText:
		return s.checkChoice(v.String())
	case shapeJSON:
		if v.Len() == 0 {
			return ""
		}
		if !json.Valid(v.Bytes()) {
			return "not valid JSON"
		}
		if _, ok := members(v.Bytes()); s.mustObject && !ok {
			return "want an object"
		}
	case shapeList:
		for i := range v.Len() {
			if m := s.elem.checkBounds(v.Index(i)); m != "" {
				return fmt.Sprintf("[%d]: %s", i, m)
			}
		}
	case shapeMap:
		for _, k := range v.MapKeys() {
			if m := s.elem.checkBounds(v.MapIndex(k)); m != "" {
				return k.String() + ": " + m
			}
		}
	case shapeObject:
		for _, f := range bindStruct(v, s.fields) {
			if m := f.checkBounds(f.value); m != "" {
				return f.name + ": " + m
			}
		}
	}
	return ""
}

// applyDefaults writes the default tags into fields that are still zero. Its errors
// are about the Go code.
func applyDefaults(fields []bound) error {
	for _, f := range fields {
		if f.shape == shapeObject {
			if err := applyDefaults(bindStruct(f.value, f.fields)); err != nil {
				return err
			}
			continue
		}
		if !f.hasDef || !f.value.IsZero() {
			continue
		}
		n, err := flagNode(f.fieldSpec, f.def)
		if err != nil {
			return fmt.Errorf("default of config field %q: %w", f.path, err)
		}
		rep := &report{}
		d := &decoder{report: rep, origins: map[string]Origin{}}
		// A default may lie outside the bounds no more than a given value.
		d.field(f, n, f.path)
		if err := rep.err(); err != nil {
			return fmt.Errorf("default of config field %w", err)
		}
	}
	return nil
}
