package table

import (
	"bytes"
	"math"
	"strconv"

	"github.com/hermes-env/hermes-env/agentloop/chat"
)

// AppendJSON appends a row as one JSON object without a newline: every column, in
// the schema's order. Floating-point numbers always have a decimal point or an
// exponent, so that a reader that infers types sees one type.
func (s Schema) AppendJSON(dst []byte, row Row) []byte { return appendObject(dst, s, row) }

func appendObject(dst []byte, fields []Field, values []Value) []byte {
	dst = append(dst, '{')
	for i, f := range fields {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = chat.AppendString(dst, f.Name)
		dst = append(dst, ':')
		dst = appendValue(dst, f.Type, values[i])
	}
	return append(dst, '}')
}

func appendValue(dst []byte, t Type, v Value) []byte {
	if !v.Set {
		return append(dst, "null"...)
	}
	switch t.Kind {
	case String:
		return chat.AppendString(dst, v.Text)
	case Bool:
		return strconv.AppendBool(dst, v.Bool)
	case Int64, Int32:
		return strconv.AppendInt(dst, v.Int, 10)
	case Float64, Float32:
		return appendFloat(dst, v.Float)
	case Struct:
		return appendObject(dst, t.Fields, v.List)
	}
	dst = append(dst, '[')
	n := v.length()
	for i := range n {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendValue(dst, *t.Elem, v.at(i))
	}
	return append(dst, ']')
}

// length is the number of elements of a list.
func (v *Value) length() int { return len(v.List) + len(v.Ints) + len(v.Floats) }

// at returns an element of a list.
func (v *Value) at(i int) Value {
	switch {
	case v.Ints != nil:
		return Int(v.Ints[i])
	case v.Floats != nil:
		return Float(v.Floats[i])
	}
	return v.List[i]
}

func appendFloat(dst []byte, f float64) []byte {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return append(dst, "null"...)
	}
	format := byte('f')
	if abs := math.Abs(f); abs != 0 && (abs < 1e-6 || abs >= 1e21) {
		format = 'e'
	}
	start := len(dst)
	dst = strconv.AppendFloat(dst, f, format, -1, 64)
	if !bytes.ContainsAny(dst[start:], ".e") {
		dst = append(dst, ".0"...)
	}
	return dst
}
