package table

import (
	"fmt"
	"io"
	"unsafe"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress/zstd"
)

// rowGroupBytes is the size of the values, before compression, after which a row
// group ends: large enough for readers to skip by, small enough to hold.
const rowGroupBytes = 64 << 20

// rowGroupRows bounds a row group of small rows.
const rowGroupRows = 100_000

// batchBytes is the size of the values that are handed to the columns at once.
const batchBytes = 1 << 20

// ParquetWriter writes rows to one Parquet file, compressed with zstd. Lists have
// three levels and everything may be null, as Arrow writes it. Close it; without
// its footer the file can't be read.
type ParquetWriter struct {
	schema  Schema
	out     *parquet.GenericWriter[any]
	columns [][]parquet.Value
	scratch leafCursor
	batch   int // bytes in columns
	bytes   int // of the row group
	rows    int // of the row group
}

// NewParquetWriter returns a writer. createdBy names the program in the file.
func NewParquetWriter(w io.Writer, schema Schema, createdBy string) (*ParquetWriter, error) {
	if err := schema.Check(); err != nil {
		return nil, fmt.Errorf("write Parquet: %w", err)
	}
	root := groupOf(schema)
	out := parquet.NewGenericWriter[any](w, parquet.NewSchema("schema", root),
		parquet.Compression(&zstd.Codec{Level: zstd.SpeedDefault}),
		parquet.DataPageVersion(1), parquet.PageBufferSize(1<<20),
		parquet.CreatedBy(createdBy, "", ""))
	n := len(out.Schema().Columns())
	return &ParquetWriter{schema: schema, out: out, columns: make([][]parquet.Value, n)}, nil
}

// Write adds a row. What it refers to may be changed afterwards.
func (p *ParquetWriter) Write(row Row) error {
	cursor := &p.scratch
	cursor.column, cursor.bytes = 0, 0
	for i, f := range p.schema {
		p.shred(cursor, f.Type, row[i], levels{})
	}
	p.batch += cursor.bytes
	p.bytes += cursor.bytes
	p.rows++
	if p.batch >= batchBytes {
		if err := p.hand(); err != nil {
			return err
		}
	}
	if p.bytes >= rowGroupBytes || p.rows >= rowGroupRows {
		return p.endGroup()
	}
	return nil
}

// hand gives the collected values to the columns.
func (p *ParquetWriter) hand() error {
	writers := p.out.ColumnWriters()
	for i, values := range p.columns {
		if _, err := writers[i].WriteRowValues(values); err != nil {
			return fmt.Errorf("write Parquet column %d: %w", i, err)
		}
		clear(values)
		p.columns[i] = values[:0]
	}
	p.batch = 0
	return nil
}

func (p *ParquetWriter) endGroup() error {
	if p.rows == 0 {
		return nil
	}
	if err := p.hand(); err != nil {
		return err
	}
	p.bytes, p.rows = 0, 0
	if err := p.out.Flush(); err != nil {
		return fmt.Errorf("write Parquet row group: %w", err)
	}
	return nil
}

// Close writes what is left and the footer; it does not close the underlying writer.
func (p *ParquetWriter) Close() error {
	if err := p.endGroup(); err != nil {
		return err
	}
	if err := p.out.Close(); err != nil {
		return fmt.Errorf("write Parquet footer: %w", err)
	}
	return nil
}

// leafCursor walks over the leaf columns of a row.
type leafCursor struct{ column, bytes int }

// levels places a value: how many lists around it begin anew with it or not
// (repetition), how much of its path is there (definition), and how many lists
// lie around it (lists).
type levels struct{ repetition, definition, lists int }

// shred adds a value to its leaf columns; l is the place of its parent.
func (p *ParquetWriter) shred(c *leafCursor, t Type, v Value, l levels) {
	if !v.Set {
		p.absent(c, t, l)
		return
	}
	l.definition++ // it is there
	switch t.Kind {
	case Struct:
		for i := range t.Fields {
			p.shred(c, t.Fields[i].Type, v.List[i], l)
		}
	case List:
		p.shredList(c, *t.Elem, &v, l)
	default:
		p.leaf(c, t.Kind, &v, l)
	}
}

// shredList writes the elements one after the other; each starts at the first
// leaf column of the element's type.
func (p *ParquetWriter) shredList(c *leafCursor, elem Type, v *Value, l levels) {
	n := v.length()
	if n == 0 {
		p.absent(c, elem, l)
		return
	}
	l.lists++
	l.definition++
	first := c.column
	for i := range n {
		c.column = first
		if i > 0 {
			l.repetition = l.lists
		}
		p.shred(c, elem, v.at(i), l)
	}
}

func (p *ParquetWriter) leaf(c *leafCursor, k Kind, v *Value, l levels) {
	var value parquet.Value
	switch k {
	case String:
		value = parquet.ByteArrayValue(unsafe.Slice(unsafe.StringData(v.Text), len(v.Text))) // copied by the column, not changed
		c.bytes += len(v.Text) + 4
	case Bool:
		value = parquet.BooleanValue(v.Bool)
		c.bytes++
	case Int64:
		value = parquet.Int64Value(v.Int)
		c.bytes += 8
	case Int32:
		value = parquet.Int32Value(int32(v.Int))
		c.bytes += 4
	case Float64:
		value = parquet.DoubleValue(v.Float)
		c.bytes += 8
	case Float32:
		value = parquet.FloatValue(float32(v.Float))
		c.bytes += 4
	}
	p.columns[c.column] = append(p.columns[c.column], value.Level(l.repetition, l.definition, c.column))
	c.column++
}

// absent writes a null into every leaf column below a type.
func (p *ParquetWriter) absent(c *leafCursor, t Type, l levels) {
	switch t.Kind {
	case Struct:
		for i := range t.Fields {
			p.absent(c, t.Fields[i].Type, l)
		}
	case List:
		p.absent(c, *t.Elem, l)
	default:
		p.columns[c.column] = append(p.columns[c.column], parquet.NullValue().Level(l.repetition, l.definition, c.column))
		c.bytes++
		c.column++
	}
}
