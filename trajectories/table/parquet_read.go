package table

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"unicode/utf8"

	"github.com/parquet-go/parquet-go"

	"github.com/hermes-env/hermes-env/agentloop/chat"
)

// readRows is how many rows are taken from a file at a time.
const readRows = 64

// ReadParquet calls visit with every row of a Parquet file as a JSON object, whose
// members are the columns in the file's order. The line is valid until visit
// returns. Columns that hold JSON as text stay text.
func ReadParquet(path string, visit func(row int64, line []byte) error) (err error) {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("read Parquet file: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return fmt.Errorf("read Parquet file %s: %w", path, err)
	}
	if err := readParquet(f, info.Size(), visit); err != nil {
		return fmt.Errorf("read Parquet file %s: %w", path, err)
	}
	return nil
}

func readParquet(in io.ReaderAt, size int64, visit func(row int64, line []byte) error) (err error) {
	// The library panics on some files that are damaged in the middle.
	var inVisit bool
	defer func() {
		if p := recover(); p != nil {
			if inVisit {
				panic(p)
			}
			err = fmt.Errorf("the file is damaged: %v", p)
		}
	}()
	file, err := parquet.OpenFile(in, size, parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true))
	if err != nil {
		return fmt.Errorf("%w (a file that was not written to its end has no footer)", err)
	}
	root := file.Root()
	reader := &rowReader{}
	rows := make([]parquet.Row, readRows)
	var number int64
	for _, group := range file.RowGroups() {
		in := group.Rows()
		for {
			n, readErr := in.ReadRows(rows)
			for _, row := range rows[:n] {
				number++
				line, err := reader.line(root, row)
				if err != nil {
					return errors.Join(fmt.Errorf("row %d: %w", number, err), in.Close())
				}
				inVisit = true
				err = visit(number, line)
				inVisit = false
				if err != nil {
					return errors.Join(err, in.Close())
				}
			}
			if errors.Is(readErr, io.EOF) {
				break
			}
			if readErr != nil {
				return errors.Join(readErr, in.Close())
			}
			if n == 0 {
				return errors.Join(errors.New("the file gives no more rows before its end"), in.Close())
			}
		}
		if err := in.Close(); err != nil {
			return err
		}
	}
	return nil
}

// rowReader turns the flat values of a row into JSON.
type rowReader struct {
	columns [][]parquet.Value // values by leaf column
	next    []int             // of each column
	buf     []byte
}

func (r *rowReader) line(root *parquet.Column, row parquet.Row) ([]byte, error) {
	last := 0
	for _, v := range row {
		last = max(last, v.Column()+1)
	}
	for len(r.columns) < last {
		r.columns, r.next = append(r.columns, nil), append(r.next, 0)
	}
	for i := range r.columns {
		r.columns[i], r.next[i] = r.columns[i][:0], 0
	}
	for _, v := range row {
		r.columns[v.Column()] = append(r.columns[v.Column()], v)
	}
	r.buf = r.buf[:0]
	err := r.object(root.Columns(), 0, 0)
	return r.buf, err
}

// firstLeaf is the leftmost leaf column below a column.
func firstLeaf(c *parquet.Column) int {
	for !c.Leaf() {
		children := c.Columns()
		if len(children) == 0 {
			return -1
		}
		c = children[0]
	}
	return c.Index()
}

// peek returns the next value of the leftmost leaf below a column; its levels say
// how much of the path is there.
func (r *rowReader) peek(c *parquet.Column) (parquet.Value, bool) {
	leaf := firstLeaf(c)
	if leaf < 0 || leaf >= len(r.columns) || r.next[leaf] >= len(r.columns[leaf]) {
		return parquet.Value{}, false
	}
	return r.columns[leaf][r.next[leaf]], true
}

// skip passes over one value of every leaf below a column.
func (r *rowReader) skip(c *parquet.Column) {
	if c.Leaf() {
		if i := c.Index(); i < len(r.next) {
			r.next[i]++
		}
		return
	}
	for _, child := range c.Columns() {
		r.skip(child)
	}
}

func (r *rowReader) object(fields []*parquet.Column, definition, depth int) error {
	r.buf = append(r.buf, '{')
	for i, f := range fields {
		if i > 0 {
			r.buf = append(r.buf, ',')
		}
		r.buf = chat.AppendString(r.buf, f.Name())
		r.buf = append(r.buf, ':')
		if err := r.value(f, definition, depth); err != nil {
			return err
		}
	}
	r.buf = append(r.buf, '}')
	return nil
}

// maxParquetDepth bounds the nesting of a file's schema.
const maxParquetDepth = 64

// value writes the next value of a column. definition is how much of the path to
// its parent is there.
func (r *rowReader) value(c *parquet.Column, definition, depth int) error {
	if depth > maxParquetDepth {
		return errors.New("the schema is nested too deep")
	}
	v, ok := r.peek(c)
	if !ok {
		return fmt.Errorf("column %q has fewer values than the row", c.Name())
	}
	switch {
	case c.Repeated():
		return r.repeated(c, definition, depth, r.single)
	case c.Optional():
		if v.DefinitionLevel() <= definition {
			r.skip(c)
			r.buf = append(r.buf, "null"...)
			return nil
		}
		definition++
	}
	return r.single(c, definition, depth)
}

// single writes a value that is there, without its repetition.
func (r *rowReader) single(c *parquet.Column, definition, depth int) error {
	if c.Leaf() {
		i := c.Index()
		v := r.columns[i][r.next[i]]
		r.next[i]++
		return r.leaf(c, v)
	}
	children := c.Columns()
	if isList(c) {
		inner := children[0]
		element := r.single
		// Three levels: the repeated group holds the element.
		if !inner.Leaf() && len(inner.Columns()) == 1 && inner.Name() != "array" && inner.Name() != c.Name()+"_tuple" {
			element = func(group *parquet.Column, definition, depth int) error {
				return r.value(group.Columns()[0], definition, depth+1)
			}
		}
		return r.repeated(inner, definition, depth+1, element)
	}
	return r.object(children, definition, depth+1)
}

// isList says whether a group is a list, or a map, whose entries are written as
// {"key", "value"} objects.
func isList(c *parquet.Column) bool {
	children := c.Columns()
	if len(children) != 1 || !children[0].Repeated() {
		return false
	}
	t := c.Type()
	if t == nil {
		return false
	}
	if l := t.LogicalType(); l != nil {
		switch l.String() {
		case "LIST", "MAP":
			return true
		}
	}
	return children[0].Name() == "list" || children[0].Name() == "bag" || children[0].Name() == "array"
}

// repeated writes the elements of a repeated column as an array.
func (r *rowReader) repeated(c *parquet.Column, definition, depth int, element func(*parquet.Column, int, int) error) error {
	v, ok := r.peek(c)
	if !ok {
		return fmt.Errorf("column %q has fewer values than the row", c.Name())
	}
	if v.DefinitionLevel() <= definition {
		r.skip(c)
		r.buf = append(r.buf, "[]"...)
		return nil
	}
	level := c.MaxRepetitionLevel()
	r.buf = append(r.buf, '[')
	for i := 0; ; i++ {
		if i > 0 {
			r.buf = append(r.buf, ',')
		}
		if err := element(c, definition+1, depth); err != nil {
			return err
		}
		if v, ok = r.peek(c); !ok || v.RepetitionLevel() < level {
			break
		}
	}
	r.buf = append(r.buf, ']')
	return nil
}

func (r *rowReader) leaf(c *parquet.Column, v parquet.Value) error {
	if v.IsNull() {
		r.buf = append(r.buf, "null"...)
		return nil
	}
	switch v.Kind() {
	case parquet.Boolean:
		r.buf = strconv.AppendBool(r.buf, v.Boolean())
	case parquet.Int32:
		r.buf = strconv.AppendInt(r.buf, int64(v.Int32()), 10)
	case parquet.Int64:
		r.buf = strconv.AppendInt(r.buf, v.Int64(), 10)
	case parquet.Float:
		// The shortest text that gives the same 32 bits, not the digits of the wider number.
		f, err := strconv.ParseFloat(strconv.FormatFloat(float64(v.Float()), 'g', -1, 32), 64)
		if err != nil {
			return err
		}
		r.buf = appendFloat(r.buf, f)
	case parquet.Double:
		r.buf = appendFloat(r.buf, v.Double())
	case parquet.ByteArray, parquet.FixedLenByteArray:
		b := v.ByteArray()
		if utf8.Valid(b) {
			r.buf = chat.AppendString(r.buf, string(b))
		} else {
			r.buf = append(r.buf, '"')
			r.buf = base64.StdEncoding.AppendEncode(r.buf, b)
			r.buf = append(r.buf, '"')
		}
	default:
		return fmt.Errorf("column %q has values of type %s, which are not read", c.Name(), v.Kind())
	}
	return nil
}
