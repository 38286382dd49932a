package parquetrows

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
)

var (
	// ErrFormat is wrapped by the error for a file that is not, or not wholly, what it
	// claims to be, or that can't be read here.
	ErrFormat = errors.New("unusable format")
	// ErrRowTooLarge is wrapped by the RowError of a row over Config.MaxRowBytes.
	ErrRowTooLarge = errors.New("the row is too large")
)

// RowError is a row that can't be used; the rows after it can.
type RowError struct{ Err error }

func (e *RowError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *RowError) Unwrap() error { return e.Err }

// DefaultMaxRowBytes is the size of a row's JSON beyond which it is a bad one.
const DefaultMaxRowBytes = 256 << 20

// Config says what is read.
type Config struct {
	Columns     []string // in any order; none: all. Others are not read
	MaxRowBytes int64    // of a row's JSON; 0 means DefaultMaxRowBytes
}

// Reader reads the rows of one file. It serves one goroutine and must be closed.
type Reader struct {
	ctx    context.Context
	in     io.ReaderAt
	size   int64
	meta   *format.FileMetaData
	packed unpacker
	schema *schema
	max    int64

	leaves []leafCursor
	group  int   // index of the next row group
	left   int64 // rows left of the current one

	// Of the row under way.
	out  []byte
	long bool
	bad  error // why the row can't be used, its values having been read past
	note error // what was changed in it
	err  error // nothing after this can be read
}

// Open reads the file's footer. The error is ErrFormat when the file can't be read. in is
// not closed with the reader; reading ends when ctx does.
func Open(ctx context.Context, in io.ReaderAt, size int64, c Config) (r *Reader, err error) {
	defer damaged(&err)
	meta, err := readFooter(in, size)
	if err != nil {
		return nil, err
	}
	pf, err := openPlain(meta, -1)
	if err != nil {
		return nil, err
	}
	schema, err := newSchema(pf, meta, c.Columns)
	if err != nil {
		return nil, err
	}
	if c.MaxRowBytes <= 0 {
		c.MaxRowBytes = DefaultMaxRowBytes
	}
	r = &Reader{ctx: ctx, in: in, size: size, meta: meta, schema: schema, max: c.MaxRowBytes}
	r.leaves = make([]leafCursor, len(schema.leaves))
	for i, leaf := range schema.leaves {
		r.leaves[i].leaf = leaf
	}
	return r, nil
}

// readFooter reads what the file says of itself. It looks at both ends first, where what usually goes wrong shows.
func readFooter(file io.ReaderAt, size int64) (*format.FileMetaData, error) {
	var head [4]byte
	n, err := file.ReadAt(head[:min(size, int64(len(head)))], 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	encrypted := fmt.Errorf("%w: it is an encrypted Parquet file; write it without encryption", ErrFormat)
	switch {
	case n == 0:
		return nil, fmt.Errorf("%w: the file is empty; a Parquet file has at least a footer", ErrFormat)
	case string(head[:n]) == "PARE":
		return nil, encrypted
	case string(head[:n]) != "PAR1":
		return nil, fmt.Errorf("%w: it is not a Parquet file (those begin with PAR1)", ErrFormat)
	}
	const ends = 12 // PAR1 at both ends, and the footer's length
	cut := fmt.Errorf("%w: the Parquet file is cut short (it has no footer); get it again", ErrFormat)
	if size < ends {
		return nil, cut
	}
	var tail [8]byte
	if _, err := file.ReadAt(tail[:], size-int64(len(tail))); err != nil {
		return nil, err
	}
	length := int64(binary.LittleEndian.Uint32(tail[:4]))
	if string(tail[4:]) != "PAR1" || length > size-ends {
		return nil, cut
	}
	footer := make([]byte, length)
	if _, err := file.ReadAt(footer, size-int64(len(tail))-length); err != nil {
		return nil, err
	}
	meta, used := new(format.FileMetaData), 0
	if used, err = thriftLength(footer); err == nil {
		err = thrift.Unmarshal(new(thrift.CompactProtocol), footer[:used], meta)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: the Parquet file is damaged: read the footer: %w", ErrFormat, err)
	}
	if meta.EncryptionAlgorithm.Value != nil {
		return nil, encrypted
	}
	return meta, nil
}

// openPlain opens a file of the same schema, with one of the row groups or, for -1, none, whose chunks are uncompressed and
// anywhere: pageSource has them.
func openPlain(meta *format.FileMetaData, group int) (*parquet.File, error) {
	plain := format.FileMetaData{Version: meta.Version, Schema: meta.Schema}
	if group >= 0 {
		source := &meta.RowGroups[group]
		plain.Schema = widen(meta.Schema, source)
		plain.NumRows = source.NumRows
		target := format.RowGroup{NumRows: source.NumRows}
		for i := range source.Columns {
			chunk := &source.Columns[i].MetaData
			target.Columns = append(target.Columns, format.ColumnChunk{MetaData: format.ColumnMetaData{
				Type: chunk.Type, Encoding: chunk.Encoding, PathInSchema: chunk.PathInSchema, NumValues: chunk.NumValues,
				TotalCompressedSize: math.MaxInt64 >> 1, Codec: format.Uncompressed,
			}})
		}
		plain.RowGroups = []format.RowGroup{target}
	}
	footer, err := thrift.Marshal(new(thrift.CompactProtocol), &plain)
	if err != nil {
		return nil, err
	}
	file := append([]byte("PAR1"), footer...)
	file = append(binary.LittleEndian.AppendUint32(file, uint32(len(footer))), "PAR1"...)
	opened, err := parquet.OpenFile(bytes.NewReader(file), int64(len(file)), parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true), parquet.ReadBufferSize(16<<10))
	if err != nil {
		return nil, fmt.Errorf("%w: the Parquet file is damaged: %w", ErrFormat, err)
	}
	return opened, nil
}

// widen returns the schema with those columns of 32-bit numbers declared as 64-bit ones that the row group holds as nothing but
// deltas. DuckDB writes differences of more than 32 bits there, of which the library makes other numbers, or refuses them; the
// lower 32 bits come out right either way.
func widen(schema []format.SchemaElement, group *format.RowGroup) []format.SchemaElement {
	schema = slices.Clone(schema)
	leaf := -1
	for i := range schema {
		e := &schema[i]
		if !e.Type.Valid {
			continue
		}
		leaf++
		if e.Type.V == format.Int32 && leaf < len(group.Columns) && onlyDeltas(group.Columns[leaf].MetaData.Encoding) {
			*e = format.SchemaElement{Type: thrift.New(format.Int64), RepetitionType: e.RepetitionType, Name: e.Name}
		}
	}
	return schema
}

func onlyDeltas(encodings []format.Encoding) bool {
	return slices.Contains(encodings, format.DeltaBinaryPacked) && !slices.ContainsFunc(encodings, func(e format.Encoding) bool {
		return e != format.DeltaBinaryPacked && e != format.RLE && e != format.BitPacked
	})
}

// damaged is the one place where a panic of the Parquet library becomes an error: it trusts sizes and levels that a damaged
// or hostile file may state as it likes.
func damaged(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("%w: the Parquet file is damaged: %v", ErrFormat, p)
	}
}

// Next returns the next row, which is valid until the following call, or io.EOF. An error
// of type *RowError concerns that row alone; after any other there is nothing to be read.
func (r *Reader) Next() (row []byte, err error) {
	defer damaged(&err)
	if r.err != nil {
		return nil, r.err
	}
	for r.left == 0 {
		if r.group >= len(r.meta.RowGroups) {
			return nil, io.EOF
		}
		if err := r.openGroup(); err != nil {
			r.err = err
			return nil, err
		}
	}
	r.left--
	r.out, r.long, r.bad, r.note = r.out[:0], false, nil, nil
	r.object(r.schema.root)
	for i := range r.leaves {
		c := &r.leaves[i]
		if r.err == nil && c.leaf.maxRep > 0 && c.peek(r) && c.value().RepetitionLevel() != 0 {
			r.err = fmt.Errorf("%w: the Parquet file is damaged: column %s goes on where a row ends", ErrFormat, c.leaf.path)
		}
	}
	switch {
	case r.err != nil:
		return nil, r.err
	case r.bad != nil:
		return nil, &RowError{r.bad}
	case r.long:
		return nil, &RowError{fmt.Errorf("%w: more than %d bytes; raise the limit to read it", ErrRowTooLarge, r.max)}
	}
	return r.out, nil
}

// openGroup goes on to the next row group.
func (r *Reader) openGroup() error {
	pf, err := openPlain(r.meta, r.group)
	if err != nil {
		return err
	}
	group, chunks := pf.RowGroups()[0], r.meta.RowGroups[r.group].Columns
	r.group++
	r.left = group.NumRows()
	if r.left < 0 {
		return fmt.Errorf("%w: the Parquet file is damaged: a row group of %d rows", ErrFormat, r.left)
	}
	for i := range r.leaves {
		c := &r.leaves[i]
		c.close()
		chunk, ok := group.ColumnChunks()[c.leaf.index].(*parquet.FileColumnChunk)
		if !ok {
			return fmt.Errorf("read column %s: the library gives no chunk of a file", c.leaf.path)
		}
		source, err := newPageSource(r.ctx, r.in, r.size, &chunks[c.leaf.index].MetaData, c.leaf, &r.packed)
		if err != nil {
			return fmt.Errorf("read column %s: %w", c.leaf.path, err)
		}
		c.pages = chunk.PagesFrom(source)
	}
	return nil
}

// Remark says what was changed in the row that Next returned last, or nil.
func (r *Reader) Remark() error { return r.note }

// Columns returns the names of the columns that are read, in the order of the file.
func (r *Reader) Columns() []string { return r.schema.names }

// Rows returns the number of rows that the footer states.
func (r *Reader) Rows() int64 { return r.meta.NumRows }

// HasMaps says whether a column is a map, whose keys a file may repeat: the JSON then
// repeats them too.
func (r *Reader) HasMaps() bool { return r.schema.maps }

// Close frees what decoding took.
func (r *Reader) Close() {
	var err error
	defer r.packed.close()
	defer damaged(&err) // pages that were left in the middle of a damaged file
	for i := range r.leaves {
		r.leaves[i].close()
	}
}

// leafCursor walks over the values of one leaf column.
type leafCursor struct {
	leaf   *leaf
	pages  parquet.Pages
	page   parquet.Page
	source parquet.ValueReader
	buf    []parquet.Value
	pos    int
	ended  bool
}

// leafBuffer is how many values are taken from a page at a time.
const leafBuffer = 128

// peek makes sure that there is a value to look at, and reports false at the end of the row group.
func (c *leafCursor) peek(r *Reader) bool {
	return c.pos < len(c.buf) || c.fill(r)
}

// value is the value that peek has found; its bytes are valid until the next peek after it was taken.
func (c *leafCursor) value() *parquet.Value { return &c.buf[c.pos] }

func (c *leafCursor) fill(r *Reader) bool {
	if c.ended || r.err != nil {
		return false
	}
	c.pos, c.buf = 0, c.buf[:0]
	for {
		if c.source == nil {
			page, err := c.pages.ReadPage()
			if errors.Is(err, io.EOF) {
				c.ended = true
				return false
			}
			if err != nil {
				r.err = fmt.Errorf("read column %s: %w", c.leaf.path, err)
				return false
			}
			c.page, c.source = page, page.Values()
		}
		if cap(c.buf) == 0 {
			c.buf = make([]parquet.Value, leafBuffer)
		}
		n, err := c.source.ReadValues(c.buf[:cap(c.buf)])
		if n > 0 {
			c.buf = c.buf[:n]
			return true
		}
		switch {
		case err == nil:
			r.err = fmt.Errorf("read column %s: %w", c.leaf.path, io.ErrNoProgress)
			return false
		case !errors.Is(err, io.EOF):
			r.err = fmt.Errorf("read column %s: %w", c.leaf.path, err)
			return false
		}
		parquet.Release(c.page)
		c.page, c.source = nil, nil
	}
}

// close ends the reading of the current row group's chunk.
func (c *leafCursor) close() {
	if c.page != nil {
		parquet.Release(c.page)
	}
	if c.pages != nil {
		_ = c.pages.Close() // nothing is written, nothing can be lost
	}
	c.pages, c.page, c.source, c.buf, c.pos, c.ended = nil, nil, nil, c.buf[:0], 0, false
}
