package table

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Encoding is the form rows are written in.
type Encoding string

// The encodings, by the extension of their files.
const (
	JSONLines Encoding = "jsonl"
	Parquet   Encoding = "parquet"
)

// Target says where a split goes.
type Target struct {
	Dir       string // exists
	Name      string // of the split
	Encoding  Encoding
	Schema    Schema // may be nil where only WriteLine is used
	CreatedBy string
	// ShardBytes is the size of a file after which the next one begins; 0 means no limit.
	ShardBytes int64
	// Single names the one file to write, in place of NAME-00000-of-0000N.
	Single string
}

// Shards writes one split into as many files as its size asks for. The files have
// their final names after Close: how many there are is part of each name.
type Shards struct {
	target Target
	file   *os.File
	buf    *bufio.Writer
	size   countingWriter
	rows   *ParquetWriter
	line   []byte
	count  int64 // rows of the current file
	split  Split
	types  witnesses
}

// countingWriter counts what goes through to a file.
type countingWriter struct {
	file *os.File
	n    int64
}

func (c *countingWriter) Write(b []byte) (int, error) {
	n, err := c.file.Write(b)
	c.n += int64(n)
	return n, err
}

// NewShards returns a writer for a split. Nothing is created before the first row
// or Close.
func NewShards(t Target) (*Shards, error) {
	if t.Encoding == Parquet || t.Schema != nil {
		if err := t.Schema.Check(); err != nil {
			return nil, err
		}
	}
	return &Shards{target: t, split: Split{Name: t.Name}}, nil
}

func (s *Shards) part(i int) string {
	return filepath.Join(s.target.Dir, fmt.Sprintf("%s-%05d.part", s.target.Name, i))
}

func (s *Shards) open() error {
	f, err := os.OpenFile(s.part(len(s.split.Files)), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	s.file, s.count = f, 0
	s.size = countingWriter{file: f}
	s.buf = bufio.NewWriterSize(&s.size, 256<<10)
	if s.target.Encoding == Parquet {
		s.rows, err = NewParquetWriter(s.buf, s.target.Schema, s.target.CreatedBy)
	}
	return err
}

// Write adds a row of the schema.
func (s *Shards) Write(row Row) error {
	if s.target.Encoding == JSONLines {
		s.line = s.target.Schema.AppendJSON(s.line[:0], row)
		s.types.see(s.target.Schema, row, int64(len(s.line))+1)
		return s.WriteLine(s.line)
	}
	if s.file == nil {
		if err := s.open(); err != nil {
			return err
		}
	}
	s.count++
	s.split.Bytes += s.target.Schema.size(row)
	if err := s.rows.Write(row); err != nil {
		return err
	}
	if limit := s.target.ShardBytes; limit > 0 && s.size.n+int64(s.rows.bytes/4) >= limit {
		return s.finish()
	}
	return nil
}

// WriteLine adds a row that is encoded already, as a line of JSON without newline.
func (s *Shards) WriteLine(line []byte) error {
	if s.file == nil {
		if err := s.open(); err != nil {
			return err
		}
	}
	s.count++
	s.split.Bytes += int64(len(line)) + 1
	if _, err := s.buf.Write(line); err != nil {
		return err
	}
	if err := s.buf.WriteByte('\n'); err != nil {
		return err
	}
	if limit := s.target.ShardBytes; limit > 0 && s.size.n+int64(s.buf.Buffered()) >= limit {
		return s.finish()
	}
	return nil
}

// finish ends the current file, durably.
func (s *Shards) finish() error {
	var err error
	if s.rows != nil {
		err = s.rows.Close()
	}
	if err == nil {
		err = s.buf.Flush()
	}
	if err == nil {
		err = s.file.Sync()
	}
	err = errors.Join(err, s.file.Close())
	if err == nil {
		err = s.types.first(s.file.Name())
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", s.file.Name(), err)
	}
	s.split.Files = append(s.split.Files, File{Rows: s.count, Size: s.size.n})
	s.split.Rows += s.count
	s.file, s.rows, s.types = nil, nil, witnesses{}
	return nil
}

// Close ends the last file and gives all their names. A split without rows gets
// one empty file, so that it can be loaded.
func (s *Shards) Close() (Split, error) {
	if s.file == nil && len(s.split.Files) == 0 {
		if err := s.open(); err != nil {
			return s.split, err
		}
	}
	if s.file != nil {
		if err := s.finish(); err != nil {
			return s.split, err
		}
	}
	for i := range s.split.Files {
		name := s.target.Single
		if name == "" {
			name = fmt.Sprintf("%s-%05d-of-%05d.%s", s.target.Name, i, len(s.split.Files), s.target.Encoding)
		}
		if err := os.Rename(s.part(i), filepath.Join(s.target.Dir, name)); err != nil {
			return s.split, err
		}
		s.split.Files[i].Name = name
	}
	return s.split, nil
}

// Abort closes the file that is being written; the directory is the caller's to remove.
func (s *Shards) Abort() error {
	if s.file == nil {
		return nil
	}
	return s.file.Close()
}

// size is the size of a row's values in bytes, before compression.
func (s Schema) size(row Row) (n int64) {
	for i := range s {
		n += sizeOf(&s[i].Type, &row[i])
	}
	return n
}

func sizeOf(t *Type, v *Value) (n int64) {
	if !v.Set {
		return 0
	}
	switch t.Kind {
	case String:
		return int64(len(v.Text)) + 4
	case Bool:
		return 1
	case Int32, Float32:
		return 4
	case Int64, Float64:
		return 8
	case Struct:
		for i := range t.Fields {
			n += sizeOf(&t.Fields[i].Type, &v.List[i])
		}
		return n
	}
	switch t.Elem.Kind {
	case Int32, Float32:
		return 4 * int64(v.length())
	case Int64, Float64:
		return 8 * int64(v.length())
	}
	for i := range v.List {
		n += sizeOf(t.Elem, &v.List[i])
	}
	return n
}
