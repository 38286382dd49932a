package dataset

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// place is where a row began.
type place struct {
	line   int64 // 1-based; 0 for formats without lines
	offset int64 // bytes from the start of the content; -1 when unknown
}

// rowReader reads the rows of one file. next returns io.EOF at the end, a *badRow for a row that can be left out, and any
// other error when nothing after it can be read. The data is the caller's.
type rowReader interface {
	next() (data []byte, at place, err error)
	// remark says what was changed in the row just returned, or nil.
	remark() error
	// columns are the names known from the file's head; nil when rows name their own.
	columns() []string
	// finish checks, after io.EOF, that the file is still the one that was opened, and returns its digest when it came to know it.
	finish() (sha256 string, err error)
	close()
}

// badRow is a row that can't be used although the next one can.
type badRow struct{ err error }

func (b *badRow) Error() string { return b.err.Error() }
func (b *badRow) Unwrap() error { return b.err }

// lines cuts text into lines of bounded length.
type lines struct {
	t      *text
	max    int64
	buf    []byte
	line   int64
	offset int64
}

var errLong = errors.New("too long")

// next returns a line without its end, valid until the next call; errLong for one over max, which has been read past.
func (l *lines) next() (line []byte, at place, err error) {
	l.line++
	at = place{l.line, l.offset}
	l.buf = l.buf[:0]
	long := false
	for {
		part, err := l.t.ReadSlice('\n')
		l.offset += int64(len(part))
		if int64(len(l.buf))+int64(len(part)) > l.max+2 { // the line's end doesn't count
			long = true
			l.buf = l.buf[:0]
		}
		switch {
		case err == nil && len(l.buf) == 0 && !long:
			return trimEnd(part), at, nil
		case !long:
			l.buf = append(l.buf, part...)
		}
		switch err {
		case nil:
		case bufio.ErrBufferFull:
			continue
		case io.EOF:
			if len(l.buf) == 0 && !long {
				return nil, at, io.EOF
			}
		default:
			return nil, at, err
		}
		if long {
			return nil, at, errLong
		}
		return trimEnd(l.buf), at, nil
	}
}

func trimEnd(line []byte) []byte {
	return bytes.TrimSuffix(bytes.TrimSuffix(line, []byte{'\n'}), []byte{'\r'})
}

// jsonLines reads one object per line.
type jsonLines struct {
	file  *dataFile
	t     *text
	lines lines
	json  jsonText
	first bool
}

func newJSONLines(f *dataFile, t *text, o *Options) *jsonLines {
	return &jsonLines{file: f, t: t, lines: lines{t: t, max: o.maxRow()}, json: jsonText{keep: keepSet(o.Columns)}, first: true}
}

func (r *jsonLines) next() ([]byte, place, error) {
	for {
		line, at, err := r.lines.next()
		switch {
		case errors.Is(err, errLong):
			return nil, at, &badRow{tooLarge(r.lines.max)}
		case err != nil:
			return nil, at, err
		case len(bytes.TrimSpace(line)) == 0:
			continue
		}
		data, err := r.json.object(line)
		if err != nil {
			if r.first && bytes.HasPrefix(bytes.TrimSpace(line), []byte{'['}) {
				err = fmt.Errorf("%w (the file looks like one JSON array: set the format to json)", err)
			} else if r.first && string(bytes.TrimSpace(line)) == "{" {
				err = fmt.Errorf("%w (the file looks like JSON over several lines: set the format to json)", err)
			}
			r.first = false
			return nil, at, &badRow{err}
		}
		r.first = false
		return data, at, nil
	}
}

func (r *jsonLines) remark() error           { return r.json.remarks() }
func (r *jsonLines) columns() []string       { return nil }
func (r *jsonLines) finish() (string, error) { return r.t.finish(r.file) }
func (r *jsonLines) close()                  { r.t.close() }

func tooLarge(limit int64) error {
	return fmt.Errorf("%w: more than %d bytes; raise the limit to read it", ErrRowTooLarge, limit)
}

// keepSet is nil when every column is wanted.
func keepSet(columns []string) map[string]bool {
	if len(columns) == 0 {
		return nil
	}
	keep := make(map[string]bool, len(columns))
	for _, c := range columns {
		keep[c] = true
	}
	return keep
}
