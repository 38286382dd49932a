package trajectories

import (
	"io"
	"os"
)

// Line is one line of a file that EachLineOf visits.
type Line struct {
	Text   []byte // without its newline, valid during the visit only
	Number int    // from 1
	Offset int64  // of its first byte
	Whole  bool   // it ends in a newline; only the last line may not
}

// EachLineOf calls visit for every line of the file at path, of any length, one in
// memory at a time, and returns the first error of visit unchanged.
func EachLineOf(path string, visit func(Line) error) (err error) {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer closeInto(&err, f)
	return EachLineIn(f, visit)
}

// EachLineIn is EachLineOf for an open stream.
func EachLineIn(in io.Reader, visit func(Line) error) error {
	lines := newLineReader(in)
	for {
		text, whole, err := lines.next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if err := visit(Line{Text: text, Number: lines.number, Offset: lines.offset, Whole: whole}); err != nil {
			return err
		}
	}
}

// ReplaceFile replaces path with what write produces: at any instant a reader, or a
// machine that lost power, finds the old content or the new one, whole. Writers of
// one path must exclude each other.
func ReplaceFile(path string, write func(io.Writer) error) error { return writeAtomic(path, write) }
