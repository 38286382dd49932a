package table

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
)

// inferredBytes is how much of a JSON Lines file a loader is sure to look at
// before it settles on the types of columns.
const inferredBytes = 64 << 10

// witnesses are the rows of a JSON Lines file that show the type of a column for
// the first time. A column that is null, or a list that is empty, in all the rows
// a loader looks at gets no type, and the loader fails at the first value; so
// these rows are put first where they don't come early by themselves.
type witnesses struct {
	seen   []bool // by leaf column
	missed int    // leaf columns not seen
	rows   []lineRange
	offset int64 // of the next line
}

type lineRange struct{ start, size int64 }

// see notes whether a row shows a type, before it is written.
func (w *witnesses) see(schema Schema, row Row, size int64) {
	if w.seen == nil {
		n := 0
		for i := range schema {
			n += schema[i].Type.leaves()
		}
		w.seen, w.missed = make([]bool, n), n
	}
	if w.missed > 0 {
		before, leaf := w.missed, 0
		for i := range schema {
			leaf = w.mark(&schema[i].Type, &row[i], leaf)
		}
		if w.missed < before {
			w.rows = append(w.rows, lineRange{w.offset, size})
		}
	}
	w.offset += size
}

func (t *Type) leaves() (n int) {
	switch t.Kind {
	case List:
		return t.Elem.leaves()
	case Struct:
		for i := range t.Fields {
			n += t.Fields[i].Type.leaves()
		}
		return n
	}
	return 1
}

// mark notes the leaf columns a value fills, and returns the number of the next.
func (w *witnesses) mark(t *Type, v *Value, leaf int) int {
	end := leaf + t.leaves()
	if !v.Set {
		return end
	}
	switch t.Kind {
	case Struct:
		for i := range t.Fields {
			leaf = w.mark(&t.Fields[i].Type, &v.List[i], leaf)
		}
	case List:
		for i := range v.length() {
			if w.done(leaf, end) {
				break
			}
			element := v.at(i)
			w.mark(t.Elem, &element, leaf)
		}
	default:
		if !w.seen[leaf] {
			w.seen[leaf] = true
			w.missed--
		}
	}
	return end
}

func (w *witnesses) done(from, to int) bool {
	for _, seen := range w.seen[from:to] {
		if !seen {
			return false
		}
	}
	return true
}

// first puts the rows that show types at the beginning of a file, unless they are
// there anyway. The other rows keep their order.
func (w *witnesses) first(path string) (err error) {
	if len(w.rows) == 0 {
		return nil
	}
	if last := w.rows[len(w.rows)-1]; last.start+last.size <= inferredBytes || w.leading() {
		return nil
	}
	in, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	temporary := path + ".ordered"
	out, err := os.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	if err := w.copy(in, out); err != nil {
		return errors.Join(err, out.Close())
	}
	if err := errors.Join(out.Sync(), out.Close()); err != nil {
		return err
	}
	return os.Rename(temporary, path)
}

// leading says whether the rows are the first ones without a gap.
func (w *witnesses) leading() bool {
	var at int64
	for _, r := range w.rows {
		if r.start != at {
			return false
		}
		at += r.size
	}
	return true
}

func (w *witnesses) copy(in *os.File, file io.Writer) error {
	out := bufio.NewWriterSize(file, 256<<10)
	part := func(start, size int64) error {
		n, err := io.Copy(out, io.NewSectionReader(in, start, size))
		if err == nil && n != size {
			err = fmt.Errorf("%d of %d bytes could be read back", n, size)
		}
		return err
	}
	for _, r := range w.rows {
		if err := part(r.start, r.size); err != nil {
			return err
		}
	}
	var at int64
	for _, r := range append(w.rows, lineRange{start: w.offset}) {
		if err := part(at, r.start-at); err != nil {
			return err
		}
		at = r.start + r.size
	}
	return out.Flush()
}
