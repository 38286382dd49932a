package trajectories

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
)

// lineReader yields the lines of a file one at a time, of any length, with their
// place. It never holds more than one line.
type lineReader struct {
	in     *bufio.Reader
	buf    []byte
	number int   // of the current line, from 1
	offset int64 // of the current line's first byte
	end    int64 // of the byte after the current line and its newline
}

func newLineReader(in io.Reader) *lineReader {
	return &lineReader{in: bufio.NewReaderSize(in, 256<<10)}
}

// next returns the next line without its newline, valid until the following
// call, and whether the newline was there. It returns io.EOF after the last line.
func (l *lineReader) next() (line []byte, whole bool, err error) {
	l.offset = l.end
	piece, err := l.in.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		l.buf = append(l.buf[:0], piece...)
		for errors.Is(err, bufio.ErrBufferFull) {
			piece, err = l.in.ReadSlice('\n')
			l.buf = append(l.buf, piece...)
		}
		piece = l.buf
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, false, err
	}
	if len(piece) == 0 {
		return nil, false, io.EOF
	}
	l.number++
	l.end += int64(len(piece))
	if bytes.HasSuffix(piece, []byte{'\n'}) {
		return piece[:len(piece)-1], true, nil
	}
	return piece, false, nil
}

// eachLine calls visit for every line of in that ends in a newline.
func eachLine(in io.Reader, visit func(l *lineReader, line []byte) error) error {
	lines := newLineReader(in)
	for {
		line, whole, err := lines.next()
		if errors.Is(err, io.EOF) || (err == nil && !whole) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := visit(lines, line); err != nil {
			return err
		}
	}
}

// eachLineOf is eachLine for the content of a file.
func eachLineOf(path string, visit func(l *lineReader, line []byte) error) (err error) {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer closeInto(&err, f)
	return eachLine(f, visit)
}
