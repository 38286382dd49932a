package trajectories

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// Reader reads a run directory that it does not own, also while another process
// writes it. It changes nothing.
type Reader struct {
	dir      string
	manifest Manifest
}

// OpenReadOnly opens a run for reading. The error is ErrNotRun when dir holds none.
func OpenReadOnly(dir string) (*Reader, error) {
	manifest, err := readManifest(dir)
	if err != nil {
		if isMissing(err) {
			return nil, fmt.Errorf("read run %s: %w: it has no %s", dir, ErrNotRun, manifestFile)
		}
		return nil, fmt.Errorf("read run %s: %w", dir, err)
	}
	return &Reader{dir: dir, manifest: manifest}, nil
}

// Manifest returns the content of run.json when the run was opened.
func (r *Reader) Manifest() Manifest { return r.manifest }

// Dir returns the run directory.
func (r *Reader) Dir() string { return r.dir }

// Each calls visit with every rollout of the run, in the order of the file, one
// in memory at a time. It stops at the last whole line there is, and at the first
// error visit returns, which it returns unchanged.
func (r *Reader) Each(visit func(*Rollout) error) (err error) {
	path := filepath.Join(r.dir, rolloutsFile)
	visitor := rolloutVisitor(path, visit)
	f, numbers, err := openRecord(r.dir)
	if err != nil {
		return err
	}
	if f != nil {
		defer closeInto(&err, f)
	}
	if err := eachArchivedLine(r.dir, numbers, visitor); err != nil || f == nil {
		return err
	}
	return eachLine(f, visitor)
}

// EachEntry is Each without the conversations, which makes it several times faster.
func (r *Reader) EachEntry(visit func(Entry) error) (err error) {
	path := filepath.Join(r.dir, rolloutsFile)
	f, numbers, err := openRecord(r.dir)
	if err != nil {
		return err
	}
	if f != nil {
		defer closeInto(&err, f)
	}
	for _, number := range numbers {
		if err := eachArchived(r.dir, number, visit); err != nil {
			return err
		}
	}
	if f == nil {
		return nil
	}
	return eachLine(f, func(l *lineReader, line []byte) error {
		e, err := parseEntry(line)
		if err != nil {
			return fmt.Errorf("%w: %s line %d: %w", ErrCorrupt, path, l.number, err)
		}
		e.offset, e.length = l.offset, int64(len(line))
		return visit(e)
	})
}

// Load reads the rollout of an entry that EachEntry gave, whole.
func (r *Reader) Load(e Entry) (_ *Rollout, err error) {
	var line []byte
	if e.Archived() {
		line, err = readArchived(r.dir, e.segment, e.offset, e.length)
	} else {
		line, err = readStretch(filepath.Join(r.dir, rolloutsFile), e.offset, e.length)
	}
	if err != nil {
		return nil, fmt.Errorf("load rollout %s: %w", e.ID, err)
	}
	rollout, err := DecodeRollout(line)
	if err == nil && rollout.ID != e.ID {
		err = fmt.Errorf("%w: the file was rewritten meanwhile", ErrCorrupt)
	}
	if err != nil {
		return nil, fmt.Errorf("load rollout %s: %w", e.ID, err)
	}
	return rollout, nil
}

// Each calls visit with every rollout recorded when it is called, in the order of
// the file, one in memory at a time. It stops at the first error visit returns,
// which it returns unchanged.
func (r *Run) Each(visit func(*Rollout) error) (err error) {
	r.moving.RLock()
	defer r.moving.RUnlock()
	f, size, err := r.openRollouts()
	if err != nil {
		return fmt.Errorf("read run %s: %w", r.dir, err)
	}
	defer closeInto(&err, f)
	numbers, err := segmentNumbers(r.dir)
	if err != nil {
		return fmt.Errorf("read run %s: %w", r.dir, err)
	}
	visitor := rolloutVisitor(r.path(rolloutsFile), visit)
	if err := eachArchivedLine(r.dir, numbers, visitor); err != nil {
		return err
	}
	return eachLine(io.LimitReader(f, size), visitor)
}

// openRollouts opens rollouts.jsonl for reading along with the number of bytes
// acknowledged. Both belong together: Supersede replaces them under the same lock.
func (r *Run) openRollouts() (*os.File, int64, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f, err := os.Open(r.path(rolloutsFile))
	return f, r.size, err
}

// rolloutVisitor decodes lines of the file at path for visit.
func rolloutVisitor(path string, visit func(*Rollout) error) func(*lineReader, []byte) error {
	return func(l *lineReader, line []byte) error {
		rollout, err := DecodeRollout(line)
		if err != nil {
			return fmt.Errorf("%w: %s line %d: %w", ErrCorrupt, path, l.number, err)
		}
		return visit(rollout)
	}
}
