package dataset

import (
	"bufio"
	"bytes"
	"compress/bzip2"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"os"
	"sync"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// dataFile is one file of a split. What is learnt about it in one pass holds for the next, and is guarded by mu.
type dataFile struct {
	path    string                                    // as messages name it
	name    string                                    // relative to the folder or repository
	fetch   func(ctx context.Context) (string, error) // gives the path on this machine, downloading when needed
	trusted bool                                      // sha256 comes from the hub, whose cache is content-addressed

	mu      sync.Mutex
	seen    bool // size and mtime are those of the first time it was opened
	size    int64
	modTime time.Time
	sha256  string // hex; "" until known
	rows    int64  // good and bad rows; -1 until known
	bad     int64
}

// open opens the file and makes sure that it still is what an earlier pass read.
func (f *dataFile) open(ctx context.Context) (*os.File, error) {
	path, err := f.fetch(ctx)
	if err != nil {
		return nil, err
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", f.path, err)
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("read %s: it is not a regular file; write the data to a file first, because it is read more than once", f.path)
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", f.path, err)
	}
	if err := f.unchanged(file); err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}

// unchanged compares an open file with what was first seen. A new modification time alone is forgiven when the content is
// known and still the same.
func (f *dataFile) unchanged(file *os.File) error {
	info, err := file.Stat()
	if err != nil {
		return fmt.Errorf("read %s: %w", f.path, err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.seen {
		if f.trusted && f.size >= 0 && f.size != info.Size() {
			return fmt.Errorf("%s: %w: it has %d bytes and should have %d", f.path, ErrChanged, info.Size(), f.size)
		}
		f.seen, f.size, f.modTime = true, info.Size(), info.ModTime()
		return nil
	}
	if f.size != info.Size() {
		return fmt.Errorf("%s: %w: it had %d bytes and now has %d; start again, or give the run a copy that stays", f.path, ErrChanged, f.size, info.Size())
	}
	if f.modTime.Equal(info.ModTime()) {
		return nil
	}
	if f.sha256 != "" {
		sum := sha256.New()
		if _, err := io.Copy(sum, io.NewSectionReader(file, 0, f.size)); err != nil {
			return fmt.Errorf("read %s: %w", f.path, err)
		}
		if hex.EncodeToString(sum.Sum(nil)) == f.sha256 {
			f.modTime = info.ModTime()
			return nil
		}
	}
	return fmt.Errorf("%s: %w: it was modified at %s and again at %s; start again, or give the run a copy that stays",
		f.path, ErrChanged, f.modTime.Format(time.RFC3339), info.ModTime().Format(time.RFC3339))
}

// count records the number of rows that the file's head or footer states.
func (f *dataFile) count(rows int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.rows < 0 {
		f.rows = rows
	}
}

// learn records what a complete pass found.
func (f *dataFile) learn(sha string, rows, bad int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if sha != "" {
		f.sha256 = sha
	}
	f.rows, f.bad = rows, bad
}

// digest returns the file's SHA-256, reading it when it isn't known yet.
func (f *dataFile) digest(ctx context.Context) (string, error) {
	f.mu.Lock()
	known := f.sha256
	f.mu.Unlock()
	if known != "" {
		return known, nil
	}
	file, err := f.open(ctx)
	if err != nil {
		return "", err
	}
	defer file.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, withContext(ctx, file)); err != nil {
		return "", fmt.Errorf("read %s: %w", f.path, err)
	}
	if err := f.unchanged(file); err != nil {
		return "", err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.sha256 = hex.EncodeToString(sum.Sum(nil))
	return f.sha256, nil
}

// contextReader ends a long read when its context ends.
type contextReader struct {
	ctx context.Context
	r   io.Reader
}

func withContext(ctx context.Context, r io.Reader) io.Reader { return contextReader{ctx, r} }

func (c contextReader) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, context.Cause(c.ctx)
	}
	return c.r.Read(p)
}

// text is the decompressed content of a file as a stream, without a byte order mark.
type text struct {
	*bufio.Reader
	file  *os.File
	raw   io.Reader // the file with hashing, below the decompressor
	sum   hash.Hash // nil when the digest is known already
	after func()    // frees the decompressor
}

// textBuffer is how much is read at a time, and the most that detection may look ahead.
const textBuffer = 256 << 10

// openText opens the file for reading from the start.
func (f *dataFile) openText(ctx context.Context) (*text, error) {
	file, err := f.open(ctx)
	if err != nil {
		return nil, err
	}
	t := &text{file: file, raw: withContext(ctx, file), after: func() {}}
	f.mu.Lock()
	if f.sha256 == "" {
		t.sum = sha256.New()
		t.raw = io.TeeReader(t.raw, t.sum)
	}
	f.mu.Unlock()
	if err := t.decompress(); err != nil {
		file.Close()
		return nil, fmt.Errorf("read %s: %w", f.path, err)
	}
	if mark, _ := t.Peek(3); bytes.Equal(mark, []byte("\xEF\xBB\xBF")) {
		_, _ = t.Discard(3)
	} else if len(mark) >= 2 && (mark[0] == 0xFF && mark[1] == 0xFE || mark[0] == 0xFE && mark[1] == 0xFF) {
		t.close()
		return nil, fmt.Errorf("read %s: %w: it is UTF-16 text; convert it to UTF-8 (iconv -f UTF-16 -t UTF-8)", f.path, ErrFormat)
	}
	return t, nil
}

// decompress looks at the first bytes, not at the name: a wrongly named file is read all the same.
func (t *text) decompress() error {
	head := bufio.NewReaderSize(t.raw, textBuffer)
	magic, err := head.Peek(magicBytes)
	if err != nil && err != io.EOF {
		return err
	}
	t.Reader = head
	switch kind := sniff(magic); kind {
	case "gzip":
		z, err := gzip.NewReader(head)
		if err != nil {
			return fmt.Errorf("unpack gzip: %w", err)
		}
		t.raw = head
		t.Reader = bufio.NewReaderSize(z, textBuffer)
	case "zstd":
		z, err := zstd.NewReader(head, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(512<<20))
		if err != nil {
			return fmt.Errorf("unpack zstd: %w", err)
		}
		t.raw = head
		t.after = z.Close
		t.Reader = bufio.NewReaderSize(z, textBuffer)
	case "bzip2":
		t.raw = head
		t.Reader = bufio.NewReaderSize(bzip2.NewReader(head), textBuffer)
	case "":
		t.raw = head
	default:
		return unusable(kind)
	}
	return nil
}

// finish is called at the end of the content. It reads what may follow the compressed data, so that the digest is the whole
// file's, and returns the digest, or "" when it is known already.
func (t *text) finish(f *dataFile) (string, error) {
	if _, err := io.Copy(io.Discard, t.raw); err != nil {
		return "", fmt.Errorf("read %s: %w", f.path, err)
	}
	if err := f.unchanged(t.file); err != nil {
		return "", err
	}
	if t.sum == nil {
		return "", nil
	}
	return hex.EncodeToString(t.sum.Sum(nil)), nil
}

func (t *text) close() {
	t.after()
	t.file.Close()
}

// magicBytes is how much sniff wants to see.
const magicBytes = 32

// sniff names the kind of a file by its first bytes; "" is plain text or nothing known.
func sniff(magic []byte) string {
	for _, k := range [...]struct{ prefix, kind string }{
		{"\x1f\x8b", "gzip"},
		{"\x28\xb5\x2f\xfd", "zstd"},
		{"BZh", "bzip2"},
		{"PAR1", FormatParquet},
		{"PARE", "encrypted Parquet"},
		{"ARROW1", "Arrow"},
		{"\xff\xff\xff\xff", "Arrow"},
		{"PK\x03\x04", "zip"},
		{"\xfd7zXZ", "xz"},
		{"\x04\x22\x4d\x18", "lz4"},
		{"SQLite f", "SQLite"},
		{"\x89HDF", "HDF5"},
		{"ORC", "ORC"},
		{"Obj\x01", "Avro"},
		{"version https://git-lfs", "Git LFS pointer"},
		{"<!DOCTYPE html", "web page"},
		{"<!doctype html", "web page"},
		{"<html", "web page"},
	} {
		if bytes.HasPrefix(magic, []byte(k.prefix)) {
			return k.kind
		}
	}
	return ""
}

// unusable says what to do with a kind of file that can't be read as rows of text.
func unusable(kind string) error {
	advice := map[string]string{
		"Arrow":             "convert it once: python -c 'import datasets; datasets.load_from_disk(\"FOLDER\").to_parquet(\"rows.parquet\")'",
		"zip":               "unpack it first",
		"xz":                "unpack it first (xz -d)",
		"lz4":               "unpack it first (lz4 -d)",
		FormatParquet:       "set the format to parquet",
		"encrypted Parquet": "write it without encryption",
		"Git LFS pointer":   "the content was not fetched: run git lfs pull",
		"web page":          "get the file itself (on the hub its address has /resolve/, not /blob/)",
	}[kind]
	if advice == "" {
		advice = "convert it to Parquet or JSON Lines"
	}
	return fmt.Errorf("%w: it is a file of kind %s; %s", ErrFormat, kind, advice)
}
