package convert

import (
	"bufio"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"

	"github.com/hermes-env/hermes-env/agentloop/chat"
	"github.com/hermes-env/hermes-env/trajectories/textfilter"
)

// Removed is a line of the list of rows that were left out.
type Removed struct {
	File       string      `json:"file"`
	Line       int64       `json:"line"`          // of a Parquet file: the row
	Row        int         `json:"row,omitempty"` // of a line that holds several, from 0
	Reason     string      `json:"reason"`
	SimilarTo  *Place      `json:"similar_to,omitempty"` // the row that stays
	Similarity float64     `json:"similarity,omitempty"` // with it, as estimated
	Evaluation *Evaluation `json:"evaluation,omitempty"`
}

// Place is a line of a file.
type Place struct {
	File string `json:"file"`
	Line int64  `json:"line"`
}

// Evaluation says what a row has in common with an evaluation set.
type Evaluation struct {
	Place
	Share float64 `json:"share"` // of the n-grams of the evaluation text
	Text  string  `json:"text"`  // the first n-gram found
	Rows  int     `json:"rows"`  // of evaluation sets, of which something was found
}

// removedList writes the list while rows are chosen. A nil list writes nothing.
type removedList struct {
	path   string
	file   *os.File
	out    *bufio.Writer
	plan   *plan
	files  []string
	starts []int    // first record of each file
	lines  []uint32 // of each record
	err    error    // the first one
}

// newRemovedList begins a list, nil without a path. It refuses places that are taken.
func newRemovedList(o *Options) (*removedList, error) {
	if o.Removed == "" {
		return nil, nil
	}
	info, err := os.Stat(o.Removed)
	switch {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return nil, usage("--removed: %w", err)
	case err == nil && info.IsDir():
		return nil, usage("--removed %s is a folder: name a file", o.Removed)
	case err == nil && !o.Overwrite:
		return nil, usage("--removed %s exists: choose another, or replace it with --overwrite", o.Removed)
	}
	for _, input := range append([]string{o.Out}, o.Inputs...) {
		if other, statErr := os.Stat(input); statErr == nil && err == nil && os.SameFile(info, other) {
			return nil, usage("--removed %s is also input or output", o.Removed)
		}
	}
	inside, err := filepath.Rel(o.Out, o.Removed)
	if err == nil && inside != ".." && !strings.HasPrefix(inside, ".."+string(filepath.Separator)) {
		return nil, usage("--removed %s is in the output, where loaders would take it for data: choose a place outside", o.Removed)
	}
	l := &removedList{path: o.Removed}
	if l.file, err = os.Create(l.temporary()); err != nil {
		return nil, usage("--removed: %w", err)
	}
	l.out = bufio.NewWriterSize(l.file, 64<<10)
	return l, nil
}

func (l *removedList) temporary() string {
	return filepath.Join(filepath.Dir(l.path), "."+filepath.Base(l.path)+".partial")
}

// record notes where the next record stands.
func (l *removedList) record(file string, number int64) {
	if l == nil {
		return
	}
	if n := len(l.files); n == 0 || l.files[n-1] != file {
		l.files, l.starts = append(l.files, file), append(l.starts, len(l.lines))
	}
	l.lines = append(l.lines, uint32(number))
}

// place returns where a row stands.
func (l *removedList) place(row int) (at Place, within int) {
	record := sort.Search(len(l.plan.first), func(i int) bool { return int(l.plan.first[i]) > row }) - 1
	file := sort.Search(len(l.starts), func(i int) bool { return l.starts[i] > record }) - 1
	return Place{filepath.ToSlash(l.files[file]), int64(l.lines[record])}, row - int(l.plan.first[record])
}

// row adds a row with the reason why it is left out.
func (l *removedList) row(row int, r Removed) {
	if l == nil {
		return
	}
	at, within := l.place(row)
	r.File, r.Line, r.Row = at.File, at.Line, within
	l.write(r)
}

// duplicate adds a row that is similar to another one.
func (l *removedList) duplicate(row, other int, similarity float64, reason string) {
	if l == nil {
		return
	}
	at, _ := l.place(other)
	l.row(row, Removed{Reason: reason, SimilarTo: &at, Similarity: rounded(similarity)})
}

// broken adds a line that could not be read.
func (l *removedList) broken(b Broken) {
	if l != nil {
		l.write(Removed{File: b.File, Line: b.Line, Reason: "could not be read: " + b.Problem})
	}
}

func (l *removedList) write(r Removed) {
	line, err := chat.Marshal(r)
	if err == nil {
		_, err = l.out.Write(append(line, '\n'))
	}
	if l.err == nil {
		l.err = err
	}
}

// close ends the writing, and puts the list into its place if commit is set.
func (l *removedList) close(commit bool) error {
	if l == nil || l.file == nil {
		return nil
	}
	err := errors.Join(l.err, l.out.Flush(), l.file.Close())
	l.file = nil
	if err != nil || !commit {
		return errors.Join(err, os.Remove(l.temporary()))
	}
	return os.Rename(l.temporary(), l.path)
}

// evaluation describes what was found of evaluation sets.
func (s *evaluationSets) evaluation(found []textfilter.Overlap) *Evaluation {
	if len(found) == 0 {
		return nil
	}
	best := most(found)
	at := s.places[best.Row]
	return &Evaluation{Place: Place{filepath.ToSlash(s.files[at.file]), int64(at.line)}, Share: rounded(best.Share), Text: best.Text, Rows: len(found)}
}

// rounded has three places, which is more than estimates are worth.
func rounded(share float64) float64 { return float64(int(share*1000+0.5)) / 1000 }
