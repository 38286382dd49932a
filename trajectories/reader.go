package trajectories

import (
	"fmt"
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
func (r *Reader) Each(visit func(*Rollout) error) error {
	return eachRollout(r.dir, -1, visit)
}

// EachEntry is Each without the conversations, which makes it several times faster.
func (r *Reader) EachEntry(visit func(Entry) error) error {
	path := filepath.Join(r.dir, rolloutsFile)
	return eachLine(path, -1, func(l *lineReader, line []byte) error {
		e, err := parseEntry(line)
		if err != nil {
			return fmt.Errorf("%w: %s line %d: %w", ErrCorrupt, path, l.number, err)
		}
		e.offset, e.length = l.offset, int64(len(line))
		return visit(e)
	})
}

// Each calls visit with every rollout recorded when it is called, in the order of
// the file, one in memory at a time. It stops at the first error visit returns,
// which it returns unchanged.
func (r *Run) Each(visit func(*Rollout) error) error {
	r.mu.Lock()
	size := r.size
	r.mu.Unlock()
	return eachRollout(r.dir, size, visit)
}

func eachRollout(dir string, limit int64, visit func(*Rollout) error) error {
	path := filepath.Join(dir, rolloutsFile)
	return eachLine(path, limit, func(l *lineReader, line []byte) error {
		rollout, err := DecodeRollout(line)
		if err != nil {
			return fmt.Errorf("%w: %s line %d: %w", ErrCorrupt, path, l.number, err)
		}
		return visit(rollout)
	})
}
