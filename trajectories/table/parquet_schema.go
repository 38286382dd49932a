package table

import (
	"fmt"

	"github.com/parquet-go/parquet-go"
)

// orderedGroup is a Parquet group whose fields keep the order of the schema; the
// library's own sorts them by name.
type orderedGroup struct {
	parquet.Group
	fields []parquet.Field
}

// Fields returns the fields in the schema's order.
func (g orderedGroup) Fields() []parquet.Field { return g.fields }

// groupOf returns the Parquet node of a struct, or of the whole schema.
func groupOf(fields []Field) orderedGroup {
	group := parquet.Group{}
	for _, f := range fields {
		group[f.Name] = parquet.Optional(nodeOf(f))
	}
	byName := make(map[string]parquet.Field, len(fields))
	for _, f := range group.Fields() {
		byName[f.Name()] = f
	}
	ordered := orderedGroup{Group: group}
	for _, f := range fields {
		ordered.fields = append(ordered.fields, byName[f.Name])
	}
	return ordered
}

func nodeOf(f Field) parquet.Node {
	switch f.Type.Kind {
	case String:
		if f.Repeats {
			return parquet.Encoded(parquet.String(), &parquet.RLEDictionary)
		}
		return parquet.String()
	case Bool:
		return parquet.Leaf(parquet.BooleanType)
	case Int64:
		return parquet.Leaf(parquet.Int64Type)
	case Int32:
		return parquet.Leaf(parquet.Int32Type)
	case Float64:
		return parquet.Leaf(parquet.DoubleType)
	case Float32:
		return parquet.Leaf(parquet.FloatType)
	case List:
		return parquet.List(parquet.Optional(nodeOf(Field{Name: "element", Type: *f.Type.Elem, Repeats: f.Repeats})))
	case Struct:
		return groupOf(f.Type.Fields)
	}
	panic(fmt.Sprintf("table: a kind that no schema has: %d", f.Type.Kind))
}
