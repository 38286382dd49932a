package convert

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
	"slices"
	"strings"
	"sync/atomic"

	"github.com/klauspost/compress/zstd"

	"github.com/hermes-env/hermes-env/trajectories/parquetrows"
)

// maxLine bounds one line; a longer one counts as broken and is never held in memory.
const maxLine = 256 << 20

// record is one line of a file, or one row of a Parquet file.
type record struct {
	text    []byte
	number  int64
	tooLong bool
	torn    bool  // the last line of a file, without its newline
	err     error // why a row of a Parquet file can't be used
	remark  error // what was changed while it was read
}

// countingReader counts the bytes read, for progress.
type countingReader struct {
	in io.Reader
	n  *atomic.Int64
}

func (c countingReader) Read(b []byte) (int, error) {
	n, err := c.in.Read(b)
	c.n.Add(int64(n))
	return n, err
}

// eachRecord calls visit with every record of a file: lines of JSON (.gz and .zst
// too), rows of Parquet as JSON, or a whole JSON document. The text is valid until
// visit returns.
func eachRecord(ctx context.Context, path string, progress *atomic.Int64, visit func(record) error) (err error) {
	extension := strings.ToLower(filepath.Ext(path))
	if extension == ".parquet" {
		return parquetrows.Each(ctx, path, parquetrows.Config{MaxRowBytes: maxLine}, func(row parquetrows.Row) error {
			return visit(record{text: row.JSON, number: row.Number, err: row.Err, remark: row.Remark})
		})
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	var in io.Reader = countingReader{f, progress}
	switch extension {
	case ".gz":
		z, err := gzip.NewReader(in)
		if err != nil {
			return fmt.Errorf("read %s: %w", path, err)
		}
		in = z
	case ".zst":
		z, err := zstd.NewReader(in, zstd.WithDecoderConcurrency(1))
		if err != nil {
			return fmt.Errorf("read %s: %w", path, err)
		}
		defer z.Close()
		in = z
	case ".json":
		text, err := io.ReadAll(io.LimitReader(in, maxLine+1))
		if err != nil {
			return fmt.Errorf("read %s: %w", path, err)
		}
		return visit(record{text: text, number: 1, tooLong: len(text) > maxLine})
	}
	if err := eachLine(in, visit); err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	return nil
}

func eachLine(in io.Reader, visit func(record) error) error {
	lines := bufio.NewReaderSize(in, 1<<20)
	var buf []byte
	for number := int64(1); ; number++ {
		line, tooLong, err := nextLine(lines, buf[:0])
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		buf = line
		r := record{number: number, tooLong: tooLong, torn: err != nil, text: bytes.TrimSpace(line)}
		if number == 1 {
			r.text = bytes.TrimPrefix(r.text, []byte("\xef\xbb\xbf"))
		}
		if tooLong || len(r.text) > 0 {
			if err := visit(r); err != nil {
				return err
			}
		}
		if err != nil {
			return nil
		}
	}
}

// nextLine appends the next line to buf; one over the limit is read to its end and dropped.
func nextLine(in *bufio.Reader, buf []byte) (line []byte, tooLong bool, err error) {
	for {
		piece, err := in.ReadSlice('\n')
		if !tooLong {
			buf = append(buf, piece...)
		}
		if len(buf) > maxLine {
			buf, tooLong = buf[:0], true
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return buf, tooLong, err
		}
	}
}

// extensions are the files that are read from a folder.
func readable(name string) bool {
	name = strings.TrimSuffix(strings.TrimSuffix(strings.ToLower(name), ".gz"), ".zst")
	switch filepath.Ext(name) {
	case ".jsonl", ".ndjson", ".parquet":
		return true
	}
	return false
}

// FilesIn lists the data files of a folder, sorted: JSON Lines and Parquet, or,
// when there are none, JSON documents. In a folder with runs, what was converted from them
// is left out. A folder that has both forms of data is ambiguous and refused.
func FilesIn(dir string) ([]string, error) {
	var data, documents, conversions []string
	runs := false
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != dir && strings.HasPrefix(d.Name(), "."):
			return filepath.SkipDir
		case d.IsDir() || !d.Type().IsRegular() || strings.HasPrefix(d.Name(), "."):
		case readable(d.Name()):
			runs = runs || d.Name() == "rollouts.jsonl"
			data = append(data, path)
		case d.Name() == ReportFile && filepath.Dir(path) != dir:
			conversions = append(conversions, filepath.Dir(path)+string(filepath.Separator))
		case filepath.Ext(d.Name()) == ".json" && d.Name() != ReportFile:
			documents = append(documents, path)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if runs {
		data = slices.DeleteFunc(data, func(file string) bool {
			return slices.ContainsFunc(conversions, func(d string) bool { return strings.HasPrefix(file, d) })
		})
	}
	if len(data) == 0 {
		data = documents
	}
	if len(data) == 0 {
		return nil, fmt.Errorf("%s holds no run and no .jsonl, .parquet or .json file", dir)
	}
	parquet := slices.ContainsFunc(data, func(p string) bool { return filepath.Ext(p) == ".parquet" })
	other := slices.ContainsFunc(data, func(p string) bool { return filepath.Ext(p) != ".parquet" })
	if parquet && other {
		return nil, fmt.Errorf("%s holds both Parquet and JSON Lines files: name the files to read", dir)
	}
	data = withoutViews(data)
	slices.Sort(data)
	return withoutCopies(data)
}

// withoutViews leaves out the files of run directories that repeat the rollouts of
// another file there, or are about something else. Of the files with rollouts the first
// that a directory has stays.
func withoutViews(files []string) []string {
	views := []string{"rollouts.jsonl", "trajectories.jsonl", "samples.jsonl", "superseded.jsonl", "group_decisions.jsonl", "metrics.jsonl", "tables.jsonl", "skipped_rows.jsonl"}
	has := map[string]int{} // the first view of each directory
	for _, f := range files {
		if i := slices.Index(views, filepath.Base(f)); i >= 0 {
			if first, ok := has[filepath.Dir(f)]; !ok || i < first {
				has[filepath.Dir(f)] = i
			}
		}
	}
	return slices.DeleteFunc(files, func(f string) bool {
		i := slices.Index(views, filepath.Base(f))
		return i >= 0 && i != has[filepath.Dir(f)]
	})
}
