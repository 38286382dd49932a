package dataset

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/parquet-go/parquet-go"
)

// parquetRows reads the rows of a Parquet file: one page per column is in memory at a time, and columns that aren't wanted
// are not read.
type parquetRows struct {
	file   *dataFile
	handle *os.File
	pf     *parquet.File
	schema *parquetSchema
	json   jsonText // only for rows with maps, whose keys may repeat
	max    int64

	leaves []leafCursor
	group  int   // index of the next row group
	left   int64 // rows left of the current one
	groups int

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
	if err := checkFooter(handle, info.Size()); err != nil {
		return nil, err
	}
	source := contextReaderAt{ctx, handle}
	pf, err := parquet.OpenFile(source, info.Size(), parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true), parquet.ReadBufferSize(64<<10))
	if err != nil {
		return nil, fmt.Errorf("read the footer: %w", err)
	}
	schema, err := newParquetSchema(pf, o.Columns)
	if err != nil {
		return nil, err
	}
	r = &parquetRows{file: f, handle: handle, pf: pf, schema: schema, max: o.maxRow(), groups: len(pf.RowGroups())}
	r.leaves = make([]leafCursor, len(schema.leaves))
	for i, leaf := range schema.leaves {
		r.leaves[i].leaf = leaf
	}
	return r, nil
}

// checkFooter looks at both ends of the file, where what usually goes wrong with Parquet files shows.
func checkFooter(file io.ReaderAt, size int64) error {
	var head [64]byte
	n, err := file.ReadAt(head[:min(size, int64(len(head)))], 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	switch kind := sniff(head[:n]); {
	case n == 0:
		return fmt.Errorf("%w: the file is empty; a Parquet file has at least a footer", ErrFormat)
	case kind == "" || !bytes.HasPrefix(head[:], []byte("PAR1")) && kind == FormatParquet:
		return fmt.Errorf("%w: it is not a Parquet file (those begin with PAR1)", ErrFormat)
	case kind != FormatParquet:
		return unusable(kind)
	}
	var tail [8]byte
	if size < 12 {
		return fmt.Errorf("%w: the Parquet file is cut short; get it again", ErrFormat)
	}
	if _, err := file.ReadAt(tail[:], size-8); err != nil {
		return err
	}
	footer := int64(binary.LittleEndian.Uint32(tail[:4]))
	if string(tail[4:]) != "PAR1" || footer > size-12 {
		return fmt.Errorf("%w: the Parquet file is cut short (it has no footer); get it again", ErrFormat)
	}
	return nil
}

// damaged is the one place where a panic of the Parquet library becomes an error: it trusts sizes and levels that a damaged
// or hostile file may state as it likes.
func damaged(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("%w: the Parquet file is damaged: %v", ErrFormat, p)
	}
}

// contextReaderAt ends a long read when its context ends.
type contextReaderAt struct {
	ctx context.Context
	r   io.ReaderAt
}

func (c contextReaderAt) ReadAt(p []byte, off int64) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, context.Cause(c.ctx)
	}
	return c.r.ReadAt(p, off)
}

func (r *parquetRows) next() (data []byte, at place, err error) {
	at = place{0, -1}
	defer damaged(&err)
	if r.err != nil {
		return nil, at, r.err
	}
	for r.left == 0 {
		if r.group >= r.groups {
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
	group := r.pf.RowGroups()[r.group]
	r.group++
	r.left = group.NumRows()
	if r.left < 0 {
		return fmt.Errorf("%w: the Parquet file is damaged: a row group of %d rows", ErrFormat, r.left)
	}
	chunks := group.ColumnChunks()
	for i := range r.leaves {
		c := &r.leaves[i]
		c.close()
		c.pages = chunks[c.leaf.index].Pages()
	}
	return nil
}

func (r *parquetRows) remark() error           { return r.note }
func (r *parquetRows) columns() []string       { return r.schema.names }
func (r *parquetRows) rows() int64             { return r.pf.NumRows() }
func (r *parquetRows) finish() (string, error) { return "", r.file.unchanged(r.handle) }

func (r *parquetRows) close() {
	var err error
	defer r.handle.Close()
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
