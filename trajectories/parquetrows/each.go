package parquetrows

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
)

// Row is one row of a file that Each visits.
type Row struct {
	Number int64  // from 1
	JSON   []byte // valid until visit returns; nil when Err is set
	Err    error  // why the row can't be used
	Remark error  // what was changed in it; nil for nothing
}

// Each calls visit with every row of the file at path and returns its first error
// unchanged.
func Each(ctx context.Context, path string, c Config, visit func(Row) error) (err error) {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("read Parquet file: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return fmt.Errorf("read Parquet file %s: %w", path, err)
	}
	r, err := Open(ctx, f, info.Size(), c)
	if err != nil {
		return fmt.Errorf("read Parquet file %s: %w", path, err)
	}
	defer r.Close()
	for number := int64(1); ; number++ {
		row := Row{Number: number}
		row.JSON, err = r.Next()
		var bad *RowError
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case errors.As(err, &bad):
			row.Err = bad
		case err != nil:
			return fmt.Errorf("read Parquet file %s: row %d: %w", path, number, err)
		default:
			row.Remark = r.Remark()
		}
		if err := visit(row); err != nil {
			return err
		}
	}
}
