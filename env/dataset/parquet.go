package dataset

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
)

// parquetRows reads the rows of a Parquet file: one page per column is in memory at a time, and columns that aren't wanted
// are not read.
type parquetRows struct {
	ctx    context.Context
	file   *dataFile
	handle *os.File
	size   int64
	meta   *format.FileMetaData
	packed unpacker
	schema *parquetSchema
	json   jsonText // only for rows with maps, whose keys may repeat
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

// newParquet reads the file's footer. The handle is closed with the reader, or now in case of an error.
func newParquet(ctx context.Context, f *dataFile, handle *os.File, o *Options) (r *parquetRows, err error) {
	defer func() {
		if err != nil {
			handle.Close()
			err = &Problem{File: f.path, Offset: -1, Err: err}
		}
	}()
	defer damaged(&err)
	info, err := handle.Stat()
	if err != nil {
		return nil, err
	}
	meta, err := readFooter(handle, info.Size())
	if err != nil {
		return nil, err
	}
	pf, err := openPlain(meta, -1)
	if err != nil {
		return nil, err
	}
	schema, err := newParquetSchema(pf, meta, o.Columns)
	if err != nil {
		return nil, err
	}
	r = &parquetRows{ctx: ctx, file: f, handle: handle, size: info.Size(), meta: meta, schema: schema, max: o.maxRow()}
	r.leaves = make([]leafCursor, len(schema.leaves))
	for i, leaf := range schema.leaves {
		r.leaves[i].leaf = leaf
	}
	f.count(meta.NumRows)
	return r, nil
}

// readFooter reads what the file says of itself. It looks at both ends first, where what usually goes wrong shows.
func readFooter(file io.ReaderAt, size int64) (*format.FileMetaData, error) {
	var head [magicBytes]byte
	n, err := file.ReadAt(head[:min(size, int64(len(head)))], 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	switch kind := sniff(head[:n]); {
	case n == 0:
		return nil, fmt.Errorf("%w: the file is empty; a Parquet file has at least a footer", ErrFormat)
	case kind == "":
		return nil, fmt.Errorf("%w: it is not a Parquet file (those begin with PAR1)", ErrFormat)
	case kind != FormatParquet:
		return nil, unusable(kind)
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
		return nil, unusable("encrypted Parquet")
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

func (r *parquetRows) next() (data []byte, at place, err error) {
	at = place{0, -1}
	defer damaged(&err)
	if r.err != nil {
		return nil, at, r.err
	}
	for r.left == 0 {
		if r.group >= len(r.meta.RowGroups) {
			return nil, at, io.EOF
		}
		if err := r.openGroup(); err != nil {
			r.err = err
			return nil, at, err
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
		return nil, at, r.err
	case r.bad != nil:
		return nil, at, &badRow{r.bad}
	case r.long:
		return nil, at, &badRow{tooLarge(r.max)}
	case !r.schema.maps:
		return bytes.Clone(r.out), at, nil
	}
	data, err = r.json.object(r.out)
	if err != nil {
		return nil, at, &badRow{err}
	}
	if r.note == nil {
		r.note = r.json.remarks()
	}
	return data, at, nil
}

// openGroup goes on to the next row group.
func (r *parquetRows) openGroup() error {
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
		source, err := newPageSource(r.ctx, r.handle, r.size, &chunks[c.leaf.index].MetaData, c.leaf, &r.packed)
		if err != nil {
			return fmt.Errorf("read column %s: %w", c.leaf.path, err)
		}
		c.pages = chunk.PagesFrom(source)
	}
	return nil
}

func (r *parquetRows) remark() error           { return r.note }
func (r *parquetRows) columns() []string       { return r.schema.names }
func (r *parquetRows) finish() (string, error) { return "", r.file.unchanged(r.handle) }

func (r *parquetRows) close() {
	var err error
	defer r.handle.Close()
	defer r.packed.close()
	defer damaged(&err) // pages that were left in the middle of a damaged file
	for i := range r.leaves {
		r.leaves[i].close()
	}
}

// leafCursor walks over the values of one leaf column.
type leafCursor struct {
	leaf   *parquetLeaf
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
func (c *leafCursor) peek(r *parquetRows) bool {
	return c.pos < len(c.buf) || c.fill(r)
}

// value is the value that peek has found; its bytes are valid until the next peek after it was taken.
func (c *leafCursor) value() *parquet.Value { return &c.buf[c.pos] }

func (c *leafCursor) fill(r *parquetRows) bool {
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
