package dataset

import (
	"errors"
	"fmt"
	"strings"

	"github.com/hermes-env/hermes-env/trajectories/parquetrows"
)

var (
	// ErrEmpty is wrapped by the error of a pass over a dataset without a single row.
	ErrEmpty = errors.New("the dataset has no rows")
	// ErrChanged is wrapped by the error of a pass that found a file other than an earlier pass had read it.
	ErrChanged = errors.New("the file changed since it was first read")
	// ErrRowTooLarge is wrapped by the problem of a row over Options.MaxRowBytes.
	ErrRowTooLarge = parquetrows.ErrRowTooLarge
	// ErrSplit is wrapped by the error for a split or subset that doesn't exist.
	ErrSplit = errors.New("no such split")
	// ErrFormat is wrapped by the error for a file whose format is unknown, unsupported, mixed or not what it claims to be.
	ErrFormat = parquetrows.ErrFormat
)

// Problem is one row that could not be read as it should, or a file that ended early; it is an error.
type Problem struct {
	File   string // the file's path as Info gives it
	Line   int64  // 1-based line on which the row starts; 0 for formats without lines
	Row    int64  // 1-based row of the file, bad rows included; 0 when the trouble is with no row
	Offset int64  // byte offset of the row's start in the decompressed file; -1 for Parquet
	Err    error  // what is wrong
	// Kept is true for a remark about a row that is nevertheless delivered, such as a key that stands twice in an object.
	Kept bool
	// Skippable is true for a row that ended the pass only because bad rows are not left out (Options.OnBadRow).
	Skippable bool
}

// Error names the place and the cause.
func (p *Problem) Error() string {
	var at strings.Builder
	at.WriteString(p.File)
	switch {
	case p.Line > 0:
		fmt.Fprintf(&at, ", line %d", p.Line)
	case p.Row > 0:
		fmt.Fprintf(&at, ", row %d", p.Row)
	}
	return at.String() + ": " + p.Err.Error()
}

// Unwrap returns the cause.
func (p *Problem) Unwrap() error { return p.Err }
