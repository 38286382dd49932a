package table

import (
	"errors"
	"fmt"
)

// Kind is what a value of a type is.
type Kind int

// The kinds. Numbers of 32 bits are stored as such in Parquet; JSON has one size.
const (
	String Kind = iota
	Bool
	Int64
	Int32
	Float64
	Float32
	List
	Struct
)

// Type describes the values of a column. Every value may be null.
type Type struct {
	Kind   Kind
	Elem   *Type   // of a list
	Fields []Field // of a struct, in the order they are written
}

// Field is a named part of a struct, or a column of the schema.
type Field struct {
	Name string
	Type Type
	// Repeats says that few different texts are expected, so that Parquet stores each once.
	Repeats bool
}

// Schema lists the columns in the order they are written.
type Schema []Field

// ListOf returns the type of lists of elem.
func ListOf(elem Type) Type { return Type{Kind: List, Elem: &elem} }

// StructOf returns the type of structs with the given fields.
func StructOf(fields ...Field) Type { return Type{Kind: Struct, Fields: fields} }

// Of returns the type of a kind other than lists and structs.
func Of(k Kind) Type { return Type{Kind: k} }

// Value is one value of a column. Which member counts depends on the type's kind;
// the zero Value is null.
type Value struct {
	Set    bool // false: null
	Text   string
	Int    int64
	Float  float64
	Bool   bool
	List   []Value   // elements of a list, or fields of a struct in the schema's order
	Ints   []int64   // elements of a list of integers, in place of List
	Floats []float64 // elements of a list of floats, in place of List
}

// Row holds one value per column.
type Row []Value

// Text returns a string value.
func Text(s string) Value { return Value{Set: true, Text: s} }

// Int returns an integer value.
func Int(n int64) Value { return Value{Set: true, Int: n} }

// Float returns a floating-point value.
func Float(f float64) Value { return Value{Set: true, Float: f} }

// Boolean returns a boolean value.
func Boolean(b bool) Value { return Value{Set: true, Bool: b} }

// Values returns a list, or a struct with the values of its fields.
func Values(list ...Value) Value { return Value{Set: true, List: list} }

// Integers returns a list of integers.
func Integers(list []int64) Value { return Value{Set: true, Ints: list} }

// Numbers returns a list of floating-point numbers.
func Numbers(list []float64) Value { return Value{Set: true, Floats: list} }

// Check says what is wrong with a schema: no columns, a name that is empty or
// given twice, a struct without fields, a list without elements.
func (s Schema) Check() error {
	if len(s) == 0 {
		return errors.New("the schema has no columns")
	}
	return checkFields(s)
}

func checkFields(fields []Field) error {
	seen := make(map[string]bool, len(fields))
	for _, f := range fields {
		if f.Name == "" || seen[f.Name] {
			return fmt.Errorf("a column's name is empty or given twice: %q", f.Name)
		}
		seen[f.Name] = true
		if err := f.Type.check(); err != nil {
			return fmt.Errorf("column %q: %w", f.Name, err)
		}
	}
	return nil
}

func (t Type) check() error {
	switch t.Kind {
	case List:
		if t.Elem == nil {
			return errors.New("a list needs the type of its elements")
		}
		return t.Elem.check()
	case Struct:
		if len(t.Fields) == 0 {
			return errors.New("a struct needs a field")
		}
		return checkFields(t.Fields)
	}
	return nil
}

// Column returns the index of a column, or -1.
func (s Schema) Column(name string) int {
	for i := range s {
		if s[i].Name == name {
			return i
		}
	}
	return -1
}
