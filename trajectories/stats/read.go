package stats

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/klauspost/compress/zstd"

	"github.com/hermes-env/hermes-env/trajectories/parquetrows"
)

// maxLine bounds one line. A longer one is counted as broken and passed over
// without being held in memory.
const maxLine = 256 << 20

// File adds every line of a JSONL file, which may be compressed (.gz, .zst), or every
// row of a Parquet file. It fails only when the file itself can't be read.
func (c *Collector) File(ctx context.Context, path string) (err error) {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	var in io.Reader = f
	var magic [4]byte
	if n, _ := f.ReadAt(magic[:], 0); string(magic[:n]) == "PAR1" {
		return c.parquet(ctx, path, f)
	}
	switch {
	case strings.HasSuffix(path, ".gz"):
		z, err := gzip.NewReader(f)
		if err != nil {
			return fmt.Errorf("read %s: %w", path, err)
		}
		in = z
	case strings.HasSuffix(path, ".zst"):
		z, err := zstd.NewReader(f)
		if err != nil {
			return fmt.Errorf("read %s: %w", path, err)
		}
		defer z.Close()
		in = z
	}
	if err := c.read(ctx, filepath.Base(path), in); err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	return nil
}

// parquet adds the rows of a Parquet file. A row that can't be read is counted as broken.
func (c *Collector) parquet(ctx context.Context, path string, f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	rows, err := parquetrows.Open(ctx, f, info.Size(), parquetrows.Config{})
	if err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	defer rows.Close()
	for number := 1; ; number++ {
		row, err := rows.Next()
		var broken *parquetrows.RowError
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case errors.As(err, &broken):
		case err != nil:
			return fmt.Errorf("read %s: row %d: %w", path, number, err)
		default:
			err = c.Line(row)
		}
		if err != nil {
			c.Broken(filepath.Base(path), number, err.Error())
		}
	}
}

func (c *Collector) read(ctx context.Context, name string, in io.Reader) error {
	lines := bufio.NewReaderSize(in, 1<<20)
	var buf []byte
	for number := 1; ; number++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		line, tooLong, err := nextLine(lines, buf[:0], maxLine)
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		buf = line
		ended := err != nil
		line = bytes.TrimSpace(line)
		if number == 1 {
			line = bytes.TrimPrefix(line, []byte("\xef\xbb\xbf"))
		}
		switch {
		case tooLong:
			c.Broken(name, number, fmt.Sprintf("longer than %d MiB", maxLine>>20))
		case len(line) > 0:
			if problem := c.Line(line); problem != nil {
				text := problem.Error()
				if ended {
					text += " (the last line, without its newline: still being written, or cut off)"
				}
				c.Broken(name, number, text)
			}
		}
		if ended {
			return nil
		}
	}
}

// nextLine appends the next line to buf. A line over the limit is read to its end
// and dropped. The error is io.EOF together with the last line.
func nextLine(in *bufio.Reader, buf []byte, limit int) (line []byte, tooLong bool, err error) {
	for {
		piece, err := in.ReadSlice('\n')
		if !tooLong {
			buf = append(buf, piece...)
		}
		if len(buf) > limit {
			buf, tooLong = buf[:0], true
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return buf, tooLong, err
		}
	}
}
