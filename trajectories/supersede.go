package trajectories

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/hermes-env/hermes-env/internal/atomicfile"
)

// Supersede takes the rollouts for which drop reports true out of the run, so
// that they can be run again, and returns how many there were; those in the archive stay. Their lines move
// to superseded.jsonl; nothing is deleted. A kill at any instant leaves the run as
// it was before or as it is afterwards. drop must not call methods of the run.
func (r *Run) Supersede(drop func(Entry) bool) (n int, err error) {
	err = r.exclusive(func() error {
		n, err = r.supersede(drop)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("supersede rollouts of %s: %w", r.dir, err)
	}
	return n, nil
}

// supersede runs in the writer goroutine.
func (r *Run) supersede(drop func(Entry) bool) (int, error) {
	var dropped []bool
	n, trained := 0, false
	if err := r.eachEntry(0, func(e Entry) error {
		out := drop(e)
		dropped = append(dropped, out)
		if out {
			n++
			trained = trained || e.Trained()
		}
		return nil
	}); err != nil {
		return 0, err
	}
	if n == 0 {
		return 0, nil
	}
	before, err := r.copySuperseded(dropped)
	if err != nil {
		return 0, err
	}
	kept := newIndex()
	kept.seed = r.index.seed
	for i := range r.index.base {
		kept.addSlot(*r.index.slot(i))
	}
	kept.base = kept.n
	var size int64
	path := r.path(rolloutsFile)
	err = stage(path, func(w io.Writer) error {
		return r.copyLines(w, len(dropped), func(i int) bool { return !dropped[i] }, func(s slot, length int64) {
			s.offset = size
			size += length
			kept.addSlot(s)
		})
	})
	if err != nil {
		if undo := os.Truncate(r.path(supersededFile), before); undo != nil {
			return 0, r.fail("take back the lines copied to "+supersededFile, errors.Join(undo, err))
		}
		return 0, fmt.Errorf("rewrite %s: %w", path, err)
	}
	indexed := r.indexed != nil
	r.trusted.Store(0) // of the file as it was
	if err := r.replace(path, kept, size); err != nil {
		// Whether the new file is in place is not known for sure, so this process
		// must not append to either; the next one finds out by reading.
		return 0, r.fail("rewrite "+path, err)
	}
	if trained { // else the view has nothing of them
		if indexed {
			r.interim = r.keptEntries(dropped)
		}
		err := r.reopenView()
		r.interim = nil
		if err != nil {
			return n, err
		}
	}
	r.renewIndex(dropped)
	return n, nil
}

// replace puts the staged rollouts.jsonl and its index in the place of the old
// ones; no reader sees one without the other.
func (r *Run) replace(path string, kept index, size int64) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	stale, err := r.swap(path)
	if err != nil {
		return err
	}
	for key, id := range r.index.pending {
		kept.pending[key] = id
		kept.waiting[id] = struct{}{}
	}
	r.index = kept
	r.size = size
	return stale.Close()
}

// swap puts the staged rollouts.jsonl in the place of the old one, which it returns. r.mu is
// held.
func (r *Run) swap(path string) (stale appendFile, err error) {
	if err := publish(path); err != nil {
		return nil, err
	}
	fresh, err := r.settings.open(path)
	if err != nil {
		return nil, err
	}
	stale, r.rollouts = r.rollouts, fresh
	r.noteFile()
	return stale, nil
}

// copySuperseded appends the lines that leave to superseded.jsonl, durably, and
// returns the size it had before.
func (r *Run) copySuperseded(dropped []bool) (before int64, err error) {
	path := r.path(supersededFile)
	if info, err := os.Stat(path); err == nil {
		before = info.Size()
	}
	f, err := r.settings.open(path)
	if err != nil {
		return 0, err
	}
	defer func() {
		if err != nil {
			err = firstOf(err, f.Truncate(before))
		}
		err = firstOf(err, f.Close())
	}()
	if err := r.copyLines(f, len(dropped), func(i int) bool { return dropped[i] }, func(slot, int64) {}); err != nil {
		return 0, fmt.Errorf("append to %s: %w", path, err)
	}
	if err := f.Sync(); err != nil {
		return 0, fmt.Errorf("sync %s: %w", path, err)
	}
	return before, atomicfile.SyncDir(r.dir)
}

// copyLines copies the chosen ones of the first n lines of rollouts.jsonl, in order, and
// reports each with its length, newline included. Lines that follow each other are copied
// together, by the kernel where it can.
func (r *Run) copyLines(w io.Writer, n int, choose func(int) bool, copied func(slot, int64)) (err error) {
	f, err := os.Open(r.path(rolloutsFile))
	if err != nil {
		return err
	}
	defer closeInto(&err, f)
	for i := 0; i < n; i++ {
		if !choose(i) {
			continue
		}
		base := r.index.base
		start := r.index.slot(base + i).offset
		end := start
		for ; i < n && choose(i); i++ {
			next := r.index.end(base+i, r.size)
			copied(*r.index.slot(base + i), next-end)
			end = next
		}
		if _, err := f.Seek(start, io.SeekStart); err != nil {
			return err
		}
		n, err := io.Copy(w, io.LimitReader(f, end-start))
		if err == nil && n < end-start {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// fail marks the run as failed and returns the error that says so.
func (r *Run) fail(attempt string, err error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failed == nil {
		r.failed = diskFailure(attempt, err)
	}
	return r.failed
}
