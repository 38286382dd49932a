package convert

import (
	"math"
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/hermes-env/hermes-env/trajectories/table"
)

// valueKind is what a JSON value is in every row of a conversion.
type valueKind int

const (
	kindNull valueKind = iota
	kindBool
	kindInt
	kindFloat
	kindString
	kindList
	kindObject
	kindMixed // of several kinds, or not representable as a column: written as JSON text
)

// Bounds of the columns that are made of free JSON.
const (
	maxValueDepth  = 8
	maxValueFields = 100
)

// valueType is the type of a JSON value in all rows seen so far. The zero value is that of null.
type valueType struct {
	kind   valueKind
	elem   *valueType // of a list
	fields []valueField
}

type valueField struct {
	name string
	typ  *valueType
}

var mixedType = &valueType{kind: kindMixed}

// typeOfValue returns the type of one value.
func typeOfValue(v gjson.Result, depth int) *valueType {
	switch {
	case v.Type == gjson.Null:
		return &valueType{}
	case v.IsBool():
		return &valueType{kind: kindBool}
	case v.Type == gjson.String:
		return &valueType{kind: kindString}
	case v.Type == gjson.Number:
		switch {
		case math.IsInf(v.Num, 0):
			return mixedType
		case strings.ContainsAny(v.Raw, ".eE"):
			return &valueType{kind: kindFloat}
		case math.Abs(v.Num) > 1<<53: // not exact where a reader takes numbers as floats
			return mixedType
		}
		return &valueType{kind: kindInt}
	case depth >= maxValueDepth:
		return mixedType
	case v.IsArray():
		t := &valueType{kind: kindList, elem: &valueType{}}
		v.ForEach(func(_, e gjson.Result) bool {
			t.elem = mergeTypes(t.elem, typeOfValue(e, depth+1))
			return true
		})
		return t
	}
	t := &valueType{kind: kindObject}
	v.ForEach(func(key, e gjson.Result) bool {
		name := strings.Clone(key.String())
		if name == "" || t.field(name) != nil || len(t.fields) == maxValueFields {
			t = mixedType
			return false
		}
		t.fields = append(t.fields, valueField{name, typeOfValue(e, depth+1)})
		return true
	})
	return t
}

func (t *valueType) field(name string) *valueType {
	for _, f := range t.fields {
		if f.name == name {
			return f.typ
		}
	}
	return nil
}

// mergeTypes returns the type of values that have the type of t or of u. It changes neither.
func mergeTypes(t, u *valueType) *valueType {
	switch {
	case t == nil || t.kind == kindNull:
		return u
	case u == nil || u.kind == kindNull:
		return t
	case t.kind == kindInt && u.kind == kindFloat:
		return u
	case t.kind == kindFloat && u.kind == kindInt:
		return t
	case t.kind != u.kind:
		return mixedType
	case t.kind == kindList:
		return &valueType{kind: kindList, elem: mergeTypes(t.elem, u.elem)}
	case t.kind != kindObject:
		return t
	}
	merged := &valueType{kind: kindObject, fields: slices.Clone(t.fields)}
	for _, f := range u.fields {
		i := slices.IndexFunc(merged.fields, func(g valueField) bool { return g.name == f.name })
		switch {
		case i >= 0:
			merged.fields[i].typ = mergeTypes(merged.fields[i].typ, f.typ)
		case len(merged.fields) == maxValueFields:
			return mixedType
		default:
			merged.fields = append(merged.fields, f)
		}
	}
	return merged
}

// asText says whether values of the type are written as text: those of several kinds as JSON
// text, and objects without a field, of which no struct can be made.
func (t *valueType) asText() bool {
	return t == nil || t.kind == kindMixed || t.kind == kindNull || t.kind == kindString || t.kind == kindObject && len(t.fields) == 0
}

// mixed says whether any part of the type is written as JSON text because its values differ in kind.
func (t *valueType) mixed() bool {
	switch {
	case t == nil:
		return false
	case t.kind == kindList:
		return t.elem.mixed()
	}
	return t.kind == kindMixed || slices.ContainsFunc(t.fields, func(f valueField) bool { return f.typ.mixed() })
}

// column returns the type of the column.
func (t *valueType) column() table.Type {
	switch {
	case t.asText():
		return table.Of(table.String)
	case t.kind == kindBool:
		return table.Of(table.Bool)
	case t.kind == kindInt:
		return table.Of(table.Int64)
	case t.kind == kindFloat:
		return table.Of(table.Float64)
	case t.kind == kindList:
		return table.ListOf(t.elem.column())
	}
	fields := make([]table.Field, len(t.fields))
	for i, f := range t.fields {
		fields[i] = table.Field{Name: f.name, Type: f.typ.column()}
	}
	return table.StructOf(fields...)
}

// value returns the value of a row in the column.
func (t *valueType) value(v gjson.Result) table.Value {
	switch {
	case !v.Exists() || v.Type == gjson.Null:
		return table.Value{}
	case t.asText():
		if v.Type == gjson.String {
			return table.Text(v.Str)
		}
		return table.Text(compact(v.Raw))
	case t.kind == kindBool:
		return table.Boolean(v.Bool())
	case t.kind == kindInt:
		return table.Int(v.Int())
	case t.kind == kindFloat:
		return table.Float(v.Num)
	case t.kind == kindList:
		list := []table.Value{}
		v.ForEach(func(_, e gjson.Result) bool {
			list = append(list, t.elem.value(e))
			return true
		})
		return table.Values(list...)
	}
	values := make([]table.Value, len(t.fields))
	v.ForEach(func(key, e gjson.Result) bool {
		if i := slices.IndexFunc(t.fields, func(f valueField) bool { return f.name == key.String() }); i >= 0 {
			values[i] = t.fields[i].typ.value(e)
		}
		return true
	})
	return table.Values(values...)
}

// withoutNulls returns a JSON object without its null members, at any depth outside of lists:
// a column has a null where a row had no such member.
func withoutNulls(v gjson.Result) string {
	if !v.IsObject() {
		return v.Raw
	}
	b := []byte{'{'}
	v.ForEach(func(key, e gjson.Result) bool {
		if e.Type != gjson.Null {
			if len(b) > 1 {
				b = append(b, ',')
			}
			b = append(append(append(b, key.Raw...), ':'), withoutNulls(e)...)
		}
		return true
	})
	return string(append(b, '}'))
}
