package dataset

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"
	"sync"

	"github.com/tidwall/gjson"
)

// Dataset is an opened set of files; it is safe for concurrent use, and passes don't disturb each other.
type Dataset struct {
	options  Options
	name     string
	subset   string
	split    string
	revision string // the resolved commit of a dataset on the hub
	format   string
	files    []*dataFile
	tasks    *taskFolder // a folder of tasks instead of files
}

// Info says what a dataset is made of.
type Info struct {
	Name     string     `json:"name"`
	Subset   string     `json:"subset,omitempty"`
	Split    string     `json:"split,omitempty"`
	Revision string     `json:"revision,omitempty"` // the commit on the hub, or of the git checkout that holds the tasks
	Format   string     `json:"format"`
	Files    []FileInfo `json:"files"`
	// Digest is "sha256:…" over the names and contents of Files in order; "" until every content is known (Dataset.Digest).
	Digest string `json:"digest,omitempty"`
}

// FileInfo is one file of a dataset, or one task folder.
type FileInfo struct {
	Path string `json:"path"`
	// Name is the path relative to the folder, glob or repository, which doesn't change when the data moves.
	Name string `json:"name"`
	// Size is in bytes; -1 until known.
	Size int64 `json:"size"`
	// SHA256 is the hex digest of the stored (compressed) bytes; "" until a pass or Dataset.Digest has read the file.
	SHA256 string `json:"sha256,omitempty"`
	// Rows counts the rows, bad ones included; -1 until a pass has read them all or the file's footer told.
	Rows int64 `json:"rows"`
	// BadRows counts those of Rows that could not be used.
	BadRows int64 `json:"bad_rows,omitempty"`
}

// Open finds the files that options name and checks that they can be read, without reading their rows. Files on the hub are
// listed now and fetched when a pass comes to them.
func Open(ctx context.Context, options Options) (*Dataset, error) {
	if err := options.check(); err != nil {
		return nil, err
	}
	d := &Dataset{options: options, name: options.Name, subset: options.Subset}
	if err := d.locate(ctx); err != nil {
		return nil, fmt.Errorf("open dataset %q: %w", options.Name, err)
	}
	if err := d.readFooters(ctx); err != nil {
		return nil, fmt.Errorf("open dataset %q: %w", options.Name, err)
	}
	return d, nil
}

// readFooters opens the Parquet files of this machine once: a file that was cut off is better found before any work is done,
// and their rows are then counted.
func (d *Dataset) readFooters(ctx context.Context) error {
	if d.format != FormatParquet {
		return nil
	}
	for _, f := range d.files {
		if f.trusted {
			continue
		}
		r, err := d.openRows(ctx, f)
		if err != nil {
			return err
		}
		r.close()
	}
	return nil
}

// Rows reads the rows of all files in order, from the beginning at every call. After an error the pass is over. A bad row is
// an error of type *Problem, or is skipped, as the options say; a pass without a single row ends with ErrEmpty.
func (d *Dataset) Rows(ctx context.Context) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		p := &pass{d: d, ctx: ctx, yield: yield}
		if err := p.run(); err != nil && !errors.Is(err, errStopped) {
			yield(Row{}, err)
		}
	}
}

// Keyed is Rows with a key for every row; see the function Keyed.
func (d *Dataset) Keyed(ctx context.Context) iter.Seq2[KeyedRow, error] { return Keyed(d.Rows(ctx)) }

// Len returns the number of rows, bad ones included, and whether it is known: for Parquet on this machine and for tasks at
// once, otherwise after a complete pass.
func (d *Dataset) Len() (int64, bool) {
	if d.tasks != nil {
		return int64(len(d.tasks.files)), true
	}
	var sum int64
	for _, f := range d.files {
		f.mu.Lock()
		rows := f.rows
		f.mu.Unlock()
		if rows < 0 {
			return 0, false
		}
		sum += rows
	}
	return sum, true
}

// Info returns what is known now, without reading anything.
func (d *Dataset) Info() Info {
	info := Info{Name: d.name, Subset: d.subset, Split: d.split, Revision: d.revision, Format: d.format}
	if d.tasks != nil {
		info.Files = slices.Clone(d.tasks.files)
	}
	for _, f := range d.files {
		f.mu.Lock()
		info.Files = append(info.Files, FileInfo{Path: f.path, Name: f.name, Size: f.size, SHA256: f.sha256, Rows: f.rows, BadRows: f.bad})
		f.mu.Unlock()
	}
	info.Digest = digestOf(info.Files)
	return info
}

// Digest returns Info().Digest, reading (and fetching) the files whose content isn't known yet.
func (d *Dataset) Digest(ctx context.Context) (string, error) {
	for _, f := range d.files {
		if _, err := f.digest(ctx); err != nil {
			return "", fmt.Errorf("digest of dataset %q: %w", d.name, err)
		}
	}
	return d.Info().Digest, nil
}

// digestOf hashes one line "SHA256  NAME" per file, the form that sha256sum writes.
func digestOf(files []FileInfo) string {
	sum := sha256.New()
	for _, f := range files {
		if f.SHA256 == "" {
			return ""
		}
		fmt.Fprintf(sum, "%s  %s\n", f.SHA256, f.Name)
	}
	return "sha256:" + hex.EncodeToString(sum.Sum(nil))
}

// Columns returns the names of the columns in order: from the head of the first file for Parquet and CSV, else from the first
// row.
func (d *Dataset) Columns(ctx context.Context) ([]string, error) {
	if d.tasks == nil {
		r, err := d.openRows(ctx, d.files[0])
		if err != nil {
			return nil, err
		}
		columns := r.columns()
		r.close()
		if columns != nil {
			return columns, nil
		}
	}
	for row, err := range d.Rows(ctx) {
		if err != nil {
			return nil, err
		}
		var columns []string
		row.Get("@this").ForEach(func(key, _ gjson.Result) bool {
			columns = append(columns, key.String())
			return true
		})
		return columns, nil
	}
	return nil, fmt.Errorf("columns of dataset %q: %w", d.name, ErrEmpty)
}

// Close ends the use of the dataset. Passes hold their files only while they run, so that nothing can be left open.
func (d *Dataset) Close() error { return nil }

// errStopped ends a pass whose consumer wants no more rows.
var errStopped = errors.New("stopped")

// pass is one reading of all rows.
type pass struct {
	d        *Dataset
	ctx      context.Context
	yield    func(Row, error) bool
	position int64
	good     int64
	bad      int64
	first    *Problem // the first bad row
}

func (p *pass) run() error {
	if p.d.tasks != nil {
		if err := p.tasks(p.d.tasks); err != nil {
			return err
		}
	}
	if err := p.all(); err != nil {
		return err
	}
	switch {
	case p.good > 0:
		return nil
	case p.first != nil:
		return fmt.Errorf("read dataset %q: none of its %d rows can be used; the first problem: %w", p.d.name, p.bad, p.first)
	}
	return fmt.Errorf("read dataset %q: %w (%s)", p.d.name, ErrEmpty, p.d.describeFiles())
}

// all reads the files. While one is read the next is fetched; a failure of that is met again, and reported, at its turn.
func (p *pass) all() error {
	ahead, cancel := context.WithCancel(p.ctx)
	var fetching sync.WaitGroup
	defer fetching.Wait()
	defer cancel()
	for i, f := range p.d.files {
		if i+1 < len(p.d.files) {
			next := p.d.files[i+1]
			fetching.Wait()
			fetching.Go(func() { _, _ = next.fetch(ahead) })
		}
		if err := p.file(f); err != nil {
			return err
		}
	}
	return nil
}

// file reads the rows of one file.
func (p *pass) file(f *dataFile) error {
	r, err := p.d.openRows(p.ctx, f)
	if err != nil {
		return err
	}
	defer r.close()
	var rows, bad int64
	for {
		if err := p.ctx.Err(); err != nil {
			return context.Cause(p.ctx)
		}
		data, at, err := r.next()
		if err == io.EOF {
			break
		}
		rows++
		problem := &Problem{File: f.path, Line: at.line, Row: rows, Offset: at.offset, Err: err}
		var row *badRow
		switch {
		case errors.As(err, &row):
			bad++
			problem.Err = row.err
			if err := p.skip(problem); err != nil {
				return err
			}
			continue
		case err != nil:
			if p.ctx.Err() != nil {
				return context.Cause(p.ctx)
			}
			return problem
		}
		if remark := r.remark(); remark != nil && p.d.options.Warn != nil {
			problem.Err, problem.Kept = remark, true
			p.d.options.Warn(*problem)
		}
		if err := p.deliver(data); err != nil {
			return err
		}
	}
	sha, err := r.finish()
	if err != nil {
		return err
	}
	f.learn(sha, rows, bad)
	return nil
}

// skip leaves out a bad row, or ends the pass.
func (p *pass) skip(problem *Problem) error {
	if p.d.options.OnBadRow != BadRowSkips {
		problem.Skippable = true
		return problem
	}
	p.position++
	p.bad++
	if p.first == nil {
		p.first = problem
	}
	if p.d.options.Warn != nil {
		p.d.options.Warn(*problem)
	}
	return nil
}

func (p *pass) deliver(data []byte) error {
	row := Row{Position: p.position, Data: data}
	p.position++
	p.good++
	if !p.yield(row, nil) {
		return errStopped
	}
	return nil
}

// describeFiles names the files for a message.
func (d *Dataset) describeFiles() string {
	var names []string
	for _, f := range d.files {
		names = append(names, f.path)
	}
	if d.tasks != nil {
		return "no task folder in it"
	}
	const show = 5
	if len(names) > show {
		return fmt.Sprintf("%s and %d more files", strings.Join(names[:show], ", "), len(names)-show)
	}
	return strings.Join(names, ", ")
}
