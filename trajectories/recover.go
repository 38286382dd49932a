package trajectories

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
)

// recover reads rollouts.jsonl into the index and puts right what a killed
// process left: a torn last line, a move to superseded.jsonl that did not finish,
// temporary files. It changes nothing when the file is damaged otherwise.
func (r *Run) recover() error {
	if err := r.openArchive(); err != nil {
		return fmt.Errorf("resume run %s: %w", r.dir, err)
	}
	if err := r.scan(); err != nil {
		return fmt.Errorf("resume run %s: %w", r.dir, err)
	}
	if err := r.finishMove(); err != nil {
		return fmt.Errorf("resume run %s: %w", r.dir, err)
	}
	if err := r.openWaiting(); err != nil {
		return fmt.Errorf("resume run %s: %w", r.dir, err)
	}
	for _, p := range r.waiting.places {
		r.count(*p.spent)
	}
	if err := r.countSuperseded(); err != nil {
		return fmt.Errorf("resume run %s: %w", r.dir, err)
	}
	for _, name := range []string{manifestFile, rolloutsFile, samplesFile, metricsFile, groupsFile} {
		if err := ignoreMissing(os.Remove(r.path(name + temporarySuffix))); err != nil {
			return fmt.Errorf("resume run %s: %w", r.dir, err)
		}
	}
	return nil
}

// scan indexes the whole lines and repairs the last one.
func (r *Run) scan() (err error) {
	path := r.path(rolloutsFile)
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	defer closeInto(&err, f)
	end, more, err := r.loadIndex(f)
	if err != nil {
		return fmt.Errorf("compare %s with %s: %w", indexFile, path, err)
	}
	r.size = end
	if _, err := f.Seek(end, io.SeekStart); err != nil {
		return err
	}
	lines := newLineReader(f)
	lines.number, lines.end = r.index.n-r.index.base, end
	complete := func() error {
		if !more {
			return nil
		}
		more = false
		return r.checkMissing()
	}
	if err := parseLines(lines, func(l scannedLine) error { return r.indexLine(f, l, complete) }); err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	if err := complete(); err != nil {
		return err
	}
	// What is indexed counts as recorded from here on, so it must be as durable as
	// if it had been acknowledged: a kill may have come between write and sync.
	if err := f.Sync(); err != nil {
		return fmt.Errorf("sync %s: %w", path, err)
	}
	return nil
}

// indexLine takes one line into the index; one without newline is the last of the
// file, and all of the file has been read by then. complete is called before such a line is
// changed: its error leaves the file as it is.
func (r *Run) indexLine(f *os.File, l scannedLine, complete func() error) error {
	err := l.err
	if err == nil {
		err = r.index.conflict(l.entry.Key, l.entry.ID)
	}
	if err != nil && l.whole {
		return fmt.Errorf("%w: %s line %d: %w: repair that line, or remove it and add --allow-missing-rollouts; nothing was changed", ErrCorrupt, r.path(rolloutsFile), l.number, err)
	}
	if err != nil {
		if err := complete(); err != nil {
			return err
		}
		if err := errors.Join(f.Truncate(l.offset), f.Sync()); err != nil {
			return fmt.Errorf("remove the torn last line: %w", err)
		}
		r.repaired("%s: removed %d bytes of a rollout that was being written when the process ended", rolloutsFile, l.length)
		return nil
	}
	end := l.offset + l.length + 1
	l.entry.offset, l.entry.length = l.offset, l.length
	r.take(l.entry)
	if !l.whole {
		if err := complete(); err != nil {
			return err
		}
		// A part of a JSON object is never itself valid JSON, so this line lacks its
		// newline and nothing else; the rollout is worth keeping.
		if err := appendNewline(f, end-1); err != nil {
			return fmt.Errorf("complete the last line: %w", err)
		}
		r.repaired("%s: completed the last line, which lacked its newline", rolloutsFile)
	}
	r.unindexed = append(r.unindexed, l.entry)
	r.size = end
	return nil
}

func appendNewline(f *os.File, end int64) error {
	if _, err := f.WriteAt([]byte{'\n'}, end); err != nil {
		return err
	}
	return f.Sync()
}

// finishMove undoes the first half of a Supersede that was killed: lines that are
// in superseded.jsonl and still in rollouts.jsonl are taken off the former.
func (r *Run) finishMove() (err error) {
	path := r.path(supersededFile)
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if isMissing(err) {
		return nil
	}
	if err != nil {
		return err
	}
	defer closeInto(&err, f)
	rollouts, err := os.Open(r.path(rolloutsFile))
	if err != nil {
		return err
	}
	defer closeInto(&err, rollouts)

	lines := newLineReader(f)
	keep := int64(0)
	for {
		line, whole, err := lines.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("read %s: %w", path, err)
		}
		if !whole {
			break // torn while being copied: the original is still in place
		}
		still, err := r.holds(rollouts, line)
		if err != nil {
			return fmt.Errorf("compare %s with %s: %w", supersededFile, rolloutsFile, err)
		}
		if !still {
			keep = lines.end
		}
	}
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if info.Size() == keep {
		return nil
	}
	r.repaired("%s: removed %d bytes of a move that had not finished", supersededFile, info.Size()-keep)
	return errors.Join(f.Truncate(keep), f.Sync())
}

// take adds a rollout of an earlier session to the index.
func (r *Run) take(e Entry) {
	r.index.add(e)
	r.count(e)
}

// count adds a rollout of an earlier session to what the run has spent.
func (r *Run) count(e Entry) {
	r.spent.Add(e)
	r.lastRecord = max(r.lastRecord, e.finished)
}

// countSuperseded adds what the rollouts cost that were taken out of the run. A line of
// superseded.jsonl that can't be read is somebody's own; nothing depends on it.
func (r *Run) countSuperseded() error {
	// A rollout that was scored in a later session has the cost of its conversation in
	// its later record too.
	counted := make(map[string]bool)
	for _, p := range r.waiting.places {
		counted[p.id] = true
	}
	last := make(map[string]Entry)
	if err := r.eachSuperseded(func(e Entry) {
		if !counted[e.ID] && !r.index.hasID(e.ID) {
			last[e.ID] = e
		}
	}); err != nil {
		return err
	}
	for _, e := range last {
		r.count(e)
	}
	return nil
}

// eachSuperseded calls visit for every rollout that was taken out of the run.
func (r *Run) eachSuperseded(visit func(Entry)) (err error) {
	path := r.path(supersededFile)
	f, err := os.Open(path)
	if isMissing(err) {
		return nil
	}
	if err != nil {
		return err
	}
	defer closeInto(&err, f)
	if err := parseLines(newLineReader(f), func(l scannedLine) error {
		if l.err == nil {
			visit(l.entry)
		}
		return nil
	}); err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	return nil
}

// holds says whether rollouts.jsonl has exactly this line.
func (r *Run) holds(rollouts *os.File, line []byte) (bool, error) {
	entry, err := parseEntry(line)
	if err != nil {
		return false, nil // foreign to the index, hence not a copy of one of its lines
	}
	i, known := r.index.number(entry.Key)
	if !known || i < r.index.base || r.index.end(i, r.size)-1-r.index.slot(i).offset != int64(len(line)) {
		return false, nil
	}
	original := make([]byte, len(line))
	if _, err := rollouts.ReadAt(original, r.index.slot(i).offset); err != nil {
		return false, err
	}
	return bytes.Equal(original, line), nil
}
