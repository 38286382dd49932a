package dataset

import (
	"bytes"
	"context"
	"errors"
	"os"

	"github.com/hermes-env/hermes-env/trajectories/parquetrows"
)

// parquetRows reads the rows of a Parquet file: one page per column is in memory at a time, and columns that aren't wanted
// are not read.
type parquetRows struct {
	file   *dataFile
	handle *os.File
	rows   *parquetrows.Reader
	json   jsonText // only for rows with maps, whose keys may repeat
	note   error    // what was changed in the row
}

// newParquet reads the file's footer. The handle is closed with the reader, or now in case of an error.
func newParquet(ctx context.Context, f *dataFile, handle *os.File, o *Options) (r *parquetRows, err error) {
	defer func() {
		if err != nil {
			handle.Close()
			err = &Problem{File: f.path, Offset: -1, Err: err}
		}
	}()
	info, err := handle.Stat()
	if err != nil {
		return nil, err
	}
	magic := make([]byte, magicBytes)
	if n, err := handle.ReadAt(magic, 0); n > 0 || err == nil {
		if kind := sniff(magic[:n]); kind != "" && kind != FormatParquet {
			return nil, unusable(kind)
		}
	}
	rows, err := parquetrows.Open(ctx, handle, info.Size(), parquetrows.Config{Columns: o.Columns, MaxRowBytes: o.maxRow()})
	if err != nil {
		return nil, err
	}
	f.count(rows.Rows())
	return &parquetRows{file: f, handle: handle, rows: rows}, nil
}

func (r *parquetRows) next() (data []byte, at place, err error) {
	at = place{0, -1}
	line, err := r.rows.Next()
	r.note = r.rows.Remark()
	var bad *parquetrows.RowError
	switch {
	case errors.As(err, &bad):
		return nil, at, &badRow{bad.Err}
	case err != nil:
		return nil, at, err
	case !r.rows.HasMaps():
		return bytes.Clone(line), at, nil
	}
	data, err = r.json.object(line)
	if err != nil {
		return nil, at, &badRow{err}
	}
	if r.note == nil {
		r.note = r.json.remarks()
	}
	return data, at, nil
}

func (r *parquetRows) remark() error           { return r.note }
func (r *parquetRows) columns() []string       { return r.rows.Columns() }
func (r *parquetRows) finish() (string, error) { return "", r.file.unchanged(r.handle) }

func (r *parquetRows) close() {
	defer r.handle.Close()
	r.rows.Close()
}
