package parquetrows

import (
	"fmt"
	"strings"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/deprecated"
	"github.com/parquet-go/parquet-go/format"
)

// schema is what rows are assembled by: the tree of the wanted columns, in the order of the file.
type schema struct {
	root   *node
	leaves []*leaf
	names  []string // of the top-level columns
	maps   bool     // some column is a map
}

type nodeKind int

const (
	groupKind nodeKind = iota
	leafKind
	listKind
	mapKind
)

// node is a column as JSON shows it: the layers that Parquet needs for lists and maps are folded into one node.
type node struct {
	kind     nodeKind
	key      string // "name": of a member
	optional bool
	maxDef   int // definition level at which the node is there
	// For lists and maps: the levels of an element.
	repeatDef, repeatRep int
	children             []*node // members; a list's element; a map's key and value
	first, last          int     // leaves below: schema.leaves[first:last]
	leaf                 *leaf
}

// leaf is a column with values.
type leaf struct {
	path   string // for messages: "messages.list.element.role"
	index  int    // among the file's leaf columns
	maxRep int
	maxDef int
	encode leafEncoder
}

// schemaBuilder walks over the library's columns and the footer's schema elements, which are in the same order.
type schemaBuilder struct {
	elements []format.SchemaElement
	next     int
	schema   *schema
}

func newSchema(pf *parquet.File, meta *format.FileMetaData, columns []string) (*schema, error) {
	if err := checkChunks(meta); err != nil {
		return nil, err
	}
	top := pf.Root().Columns()
	var all []string
	for _, c := range top {
		all = append(all, c.Name())
	}
	if err := missingColumns(columns, all); err != nil {
		return nil, err
	}
	keep := wanted(columns)
	b := &schemaBuilder{elements: meta.Schema, next: 1, schema: &schema{root: &node{}}}
	for _, c := range top {
		first, before := len(b.schema.leaves), *b.schema
		node, err := b.node(c)
		if err != nil {
			return nil, err
		}
		if keep != nil && !keep[c.Name()] {
			b.schema.leaves, b.schema.maps = b.schema.leaves[:first], before.maps
			continue
		}
		b.schema.root.children = append(b.schema.root.children, node)
		b.schema.names = append(b.schema.names, c.Name())
	}
	b.schema.root.last = len(b.schema.leaves)
	if len(b.schema.leaves) == 0 {
		return nil, fmt.Errorf("%w: the Parquet file has no columns", ErrFormat)
	}
	if err := distinct(top); err != nil {
		return nil, err
	}
	return b.schema, nil
}

// checkChunks refuses files that hold only the description of data elsewhere.
func checkChunks(meta *format.FileMetaData) error {
	for g := range meta.RowGroups {
		for i := range meta.RowGroups[g].Columns {
			if chunk := &meta.RowGroups[g].Columns[i]; chunk.FilePath != "" {
				return fmt.Errorf("%w: the data of column %s is in another file, %q; write one file", ErrFormat, strings.Join(chunk.MetaData.PathInSchema, "."), chunk.FilePath)
			}
		}
	}
	return nil
}

// distinct refuses two members of one name, which no JSON object could hold.
func distinct(columns []*parquet.Column) error {
	seen := map[string]bool{}
	for _, c := range columns {
		if seen[c.Name()] {
			return fmt.Errorf("%w: two columns are called %q", ErrFormat, strings.Join(c.Path(), "."))
		}
		seen[c.Name()] = true
	}
	return nil
}

// node turns a column into a node; a repeated one that isn't part of an annotated list is a list by itself.
func (b *schemaBuilder) node(c *parquet.Column) (*node, error) {
	if !c.Repeated() {
		return b.single(c)
	}
	list := &node{
		kind: listKind, key: memberKey(c.Name()), maxDef: c.MaxDefinitionLevel() - 1,
		repeatDef: c.MaxDefinitionLevel(), repeatRep: c.MaxRepetitionLevel(), first: len(b.schema.leaves),
	}
	element, err := b.single(c)
	if err != nil {
		return nil, err
	}
	list.children, list.last = []*node{element}, len(b.schema.leaves)
	return list, nil
}

// single is the node of c, its repetition left to the caller.
func (b *schemaBuilder) single(c *parquet.Column) (*node, error) {
	element := &b.elements[b.next]
	b.next++
	n := &node{key: memberKey(c.Name()), optional: c.Optional(), maxDef: c.MaxDefinitionLevel(), first: len(b.schema.leaves)}
	if c.Leaf() {
		encode, err := newLeafEncoder(element)
		if err != nil {
			return nil, fmt.Errorf("column %s: %w", strings.Join(c.Path(), "."), err)
		}
		n.kind = leafKind
		n.leaf = &leaf{path: strings.Join(c.Path(), "."), index: c.Index(), maxRep: c.MaxRepetitionLevel(), maxDef: c.MaxDefinitionLevel(), encode: encode}
		b.schema.leaves = append(b.schema.leaves, n.leaf)
		n.last = len(b.schema.leaves)
		return n, nil
	}
	var err error
	switch children := c.Columns(); {
	case isList(element) && len(children) == 1 && children[0].Repeated():
		err = b.list(n, c, children[0])
	case isMap(element) && len(children) == 1 && children[0].Repeated() && isEntry(children[0]):
		err = b.mapping(n, children[0])
	default:
		if err := distinct(children); err != nil {
			return nil, err
		}
		for _, child := range children {
			member, err := b.node(child)
			if err != nil {
				return nil, err
			}
			n.children = append(n.children, member)
		}
	}
	n.last = len(b.schema.leaves)
	return n, err
}

// list folds LIST and its repeated child; older writers leave out the third layer, by the rules of the format's
// LogicalTypes.md.
func (b *schemaBuilder) list(n *node, c, repeated *parquet.Column) error {
	n.kind, n.repeatDef, n.repeatRep = listKind, repeated.MaxDefinitionLevel(), repeated.MaxRepetitionLevel()
	inner := repeated.Columns()
	element, err := (*node)(nil), error(nil)
	switch {
	case repeated.Leaf(), len(inner) != 1, repeated.Name() == "array", repeated.Name() == c.Name()+"_tuple",
		inner[0].Repeated(), isList(&b.elements[b.next]), isMap(&b.elements[b.next]):
		element, err = b.single(repeated)
	default:
		b.next++ // the middle layer
		element, err = b.node(inner[0])
	}
	n.children = []*node{element}
	return err
}

// isEntry tells whether a column looks like a map's key and value.
func isEntry(c *parquet.Column) bool {
	inner := c.Columns()
	return !c.Leaf() && (len(inner) == 1 || len(inner) == 2) && !inner[0].Repeated()
}

func (b *schemaBuilder) mapping(n *node, entry *parquet.Column) error {
	n.repeatDef, n.repeatRep = entry.MaxDefinitionLevel(), entry.MaxRepetitionLevel()
	if !entry.Columns()[0].Leaf() { // keys that can't be the keys of an object: a list of entries
		n.kind = listKind
		element, err := b.single(entry)
		n.children = []*node{element}
		return err
	}
	n.kind = mapKind
	b.schema.maps = true
	b.next++
	for _, c := range entry.Columns() {
		child, err := b.node(c)
		if err != nil {
			return err
		}
		n.children = append(n.children, child)
	}
	return nil
}

func isList(e *format.SchemaElement) bool {
	_, logical := e.LogicalType.Value.(*format.ListType)
	return logical || e.LogicalType.Value == nil && e.ConvertedType.Valid && e.ConvertedType.V == deprecated.List
}

func isMap(e *format.SchemaElement) bool {
	_, logical := e.LogicalType.Value.(*format.MapType)
	converted := e.ConvertedType.Valid && (e.ConvertedType.V == deprecated.Map || e.ConvertedType.V == deprecated.MapKeyValue)
	return logical || e.LogicalType.Value == nil && converted
}

func memberKey(name string) string { return string(append(AppendString(nil, []byte(name)), ':')) }
