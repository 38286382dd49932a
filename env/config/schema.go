package config

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"
)

var (
	secondsType = reflect.TypeFor[Seconds]()
	secretType  = reflect.TypeFor[Secret]()
	rawType     = reflect.TypeFor[json.RawMessage]()
	wordsType   = reflect.TypeFor[Words]()
	serverType  = reflect.TypeFor[Server]()
	envType     = reflect.TypeFor[Env]()
)

// longestSeconds is thirty years; it keeps a time.Duration from overflowing.
const longestSeconds = 1e9

// shape is what kind of value a field holds.
type shape int

const (
	shapeBool shape = iota
	shapeInt
	shapeFloat
	shapeText
	shapeSecret
	shapeJSON
	shapeList
	shapeMap
	shapeObject // a nested struct
)

// fieldSpec is what a struct field's type and tags say about it.
type fieldSpec struct {
	name, path string // path has the names of the structs around it, dotted
	index      []int
	typ        reflect.Type
	shape      shape
	pointer    bool
	nullable   bool
	mustObject bool // shapeJSON only
	words      bool // shapeList only: one text with commas is a list too
	affects    bool
	own        bool // declared by an environment
	mode       Mode
	help, unit string
	def        string
	hasDef     bool
	min, max   *float64
	not        *float64
	choices    []string
	elem       *fieldSpec   // of a list or map
	fields     []*fieldSpec // of an object, or of the objects in a list or map
}

// bound is a field with the place its value lives in.
type bound struct {
	*fieldSpec
	value reflect.Value
}

func valueOf[T any](p *T) reflect.Value { return reflect.ValueOf(p).Elem() }

// bindStruct joins the specs of a struct type with the fields of one struct.
func bindStruct(v reflect.Value, specs []*fieldSpec) []bound {
	fields := make([]bound, len(specs))
	for i, s := range specs {
		fields[i] = bound{fieldSpec: s, value: v.FieldByIndex(s.index)}
	}
	return fields
}

// structSpecs reads the fields of a struct type. Its errors are about the Go code.
func structSpecs(t reflect.Type, path string) ([]*fieldSpec, error) {
	return structSpecsWithin(t, path, nil)
}

func structSpecsWithin(t reflect.Type, path string, around []reflect.Type) ([]*fieldSpec, error) {
	for _, outer := range around {
		if outer == t {
			return nil, fmt.Errorf("config struct %s contains itself", t)
		}
	}
	around = append(around[:len(around):len(around)], t)
	var specs []*fieldSpec
	seen := map[string]bool{}
	for i := range t.NumField() {
		f := t.Field(i)
		tag, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		switch {
		case tag == "-" || !f.IsExported() && !f.Anonymous:
			continue
		case f.Anonymous && tag == "" && f.Type.Kind() == reflect.Struct:
			inner, err := structSpecsWithin(f.Type, path, around)
			if err != nil {
				return nil, err
			}
			for _, s := range inner {
				s.index = append([]int{i}, s.index...)
				if seen[s.name] {
					return nil, fmt.Errorf("config struct %s has two fields named %q", t, s.name)
				}
				seen[s.name] = true
				specs = append(specs, s)
			}
			continue
		case tag == "":
			return nil, fmt.Errorf("config struct %s: field %s has no yaml tag", t, f.Name)
		case seen[tag]:
			return nil, fmt.Errorf("config struct %s has two fields named %q", t, tag)
		case strings.ContainsAny(tag, ".[] \t\n:#\"'="):
			return nil, fmt.Errorf("config struct %s: %q can't be the name of a field", t, tag)
		}
		seen[tag] = true
		s, err := fieldSpecOf(f, tag, join(path, tag), around)
		if err != nil {
			return nil, fmt.Errorf("config struct %s: field %s: %w", t, f.Name, err)
		}
		s.index = []int{i}
		specs = append(specs, s)
	}
	return specs, nil
}

func fieldSpecOf(f reflect.StructField, name, path string, around []reflect.Type) (*fieldSpec, error) {
	s := &fieldSpec{name: name, path: path, help: f.Tag.Get("help"), unit: f.Tag.Get("unit"),
		nullable: f.Tag.Get("nullable") == "true", mustObject: f.Tag.Get("type") == "object",
		affects: f.Tag.Get("affects") != "no", mode: Mode(f.Tag.Get("mode"))}
	s.def, s.hasDef = f.Tag.Lookup("default")
	if c := f.Tag.Get("choices"); c != "" {
		s.choices = strings.Split(c, ",")
	}
	for _, b := range []struct {
		tag  string
		dest **float64
	}{{"min", &s.min}, {"max", &s.max}, {"not", &s.not}} {
		text, ok := f.Tag.Lookup(b.tag)
		if !ok {
			continue
		}
		v, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return nil, fmt.Errorf("tag %s: %w", b.tag, err)
		}
		*b.dest = &v
	}
	if err := s.setType(f.Type, around); err != nil {
		return nil, err
	}
	if s.typ == secondsType {
		s.unit = "seconds"
		if s.max == nil {
			longest := float64(longestSeconds)
			s.max = &longest
		}
	}
	return s, nil
}

// setType fills in what follows from the Go type.
func (s *fieldSpec) setType(t reflect.Type, around []reflect.Type) error {
	s.typ = t
	switch t {
	case secretType:
		s.shape, s.nullable, s.affects = shapeSecret, true, false
		return nil
	case rawType:
		s.shape, s.nullable = shapeJSON, true
		return nil
	}
	switch t.Kind() {
	case reflect.Pointer:
		if s.pointer {
			return fmt.Errorf("type %s: one pointer is enough", t)
		}
		s.pointer, s.nullable = true, true
		if err := s.setType(t.Elem(), around); err != nil {
			return err
		}
		switch s.shape {
		case shapeBool, shapeInt, shapeFloat, shapeText:
		default:
			return fmt.Errorf("type %s: only numbers, booleans and text may be pointers", t)
		}
		return nil
	case reflect.Bool:
		s.shape = shapeBool
	case reflect.Int, reflect.Int64, reflect.Int32:
		s.shape = shapeInt
	case reflect.Float64:
		s.shape = shapeFloat
	case reflect.String:
		s.shape = shapeText
	case reflect.Struct:
		s.shape = shapeObject
		var err error
		s.fields, err = structSpecsWithin(t, s.path, around)
		return err
	case reflect.Slice, reflect.Map:
		s.shape, s.nullable, s.words = shapeList, true, t == wordsType
		if t.Kind() == reflect.Map {
			s.shape = shapeMap
			if t.Key().Kind() != reflect.String {
				return fmt.Errorf("type %s: the keys of a map must be text", t)
			}
		}
		s.elem = &fieldSpec{name: s.name, min: s.min, max: s.max, not: s.not, choices: s.choices,
			mustObject: s.mustObject, affects: s.affects, unit: s.unit}
		return s.elem.setType(t.Elem(), around)
	default:
		return fmt.Errorf("type %s can't be a config field; use bool, int, int64, float64, string, config.Seconds, "+
			"config.Secret, json.RawMessage, a pointer to one of the simple ones, a list, a map with text keys, or a struct", t)
	}
	return nil
}

// typeName returns the type in words, for tables and help.
func (s *fieldSpec) typeName() string {
	switch s.shape {
	case shapeBool:
		return "true or false"
	case shapeInt:
		return "integer"
	case shapeFloat:
		return "number"
	case shapeSecret:
		return "secret text"
	case shapeJSON:
		if s.mustObject {
			return "object"
		}
		return "any value"
	case shapeList:
		return "list of " + s.elem.plural()
	case shapeMap:
		return "object of " + s.elem.plural()
	case shapeObject:
		return "object"
	}
	return "text"
}

func (s *fieldSpec) plural() string {
	switch s.shape {
	case shapeInt, shapeFloat, shapeObject:
		return s.typeName() + "s"
	case shapeJSON:
		if !s.mustObject {
			return "any values"
		}
		return "objects"
	case shapeList:
		return "lists"
	case shapeMap:
		return "objects"
	}
	return s.typeName()
}

// wanted returns the type in words that follow "want".
func (s *fieldSpec) wanted() string {
	w := s.typeName()
	switch {
	case s.shape == shapeInt, s.shape == shapeJSON && s.mustObject, s.shape == shapeObject, s.shape == shapeMap:
		return "an " + w
	case s.shape == shapeFloat, s.shape == shapeList:
		return "a " + w
	case s.shape == shapeSecret:
		return "text"
	}
	return w
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}
