package trajectories

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/tidwall/gjson"
)

// syncView makes trajectories.jsonl agree with the index: exactly one line per
// trained rollout, in the order of rollouts.jsonl. Lines that are right stay;
// from the first that is not, the file is written again. Lines that rollouts.index speaks of
// are right if they have its checksum, others if they begin and end as they should. With rebuild set all
// lines count as wrong. It returns what it had to do, "" for nothing. The file is
// not open for writing elsewhere.
func (r *Run) syncView(rebuild bool) (repair string, err error) {
	path := r.path(trajectoriesFile)
	defer func() {
		if err != nil {
			err = fmt.Errorf("bring %s up to date with %s: %w", path, rolloutsFile, err)
		}
	}()
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return "", err
	}
	defer closeInto(&err, f)
	if !rebuild {
		if rebuild, err = hasTextMetadata(f); err != nil {
			return "", err
		}
	}
	if rebuild {
		r.known = known{} // what rollouts.index says of this file is past
	}
	known, end := r.known.trained, r.known.view
	var trained []viewLine // those that are not known to be right
	skip := r.known.entries
	if known == 0 {
		skip = 0
	}
	if err := r.eachEntry(skip, func(e Entry) error {
		if e.Trained() {
			trained = append(trained, viewLine{e.ID, e.Tampered(), e.offset, e.length})
		}
		return nil
	}); err != nil {
		return "", err
	}
	good := 0
	differs := r.known.differs
	r.known.differs = false
	if !rebuild && !differs {
		if good, end, err = matching(f, trained, end); err != nil {
			return "", err
		}
	}
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	if info.Size() == end && good == len(trained) {
		return "", nil
	}
	if err := f.Truncate(end); err != nil {
		return "", err
	}
	if _, err := f.Seek(end, io.SeekStart); err != nil {
		return "", err
	}
	if err := r.convertLines(f, trained[good:]); err != nil {
		return "", err
	}
	repair = fmt.Sprintf("%s: kept %d lines, wrote %d again from %s", trajectoriesFile, known+good, len(trained)-good, rolloutsFile)
	return repair, f.Sync()
}

// hasTextMetadata says whether a file was written by a version that wrote what the environment
// says of an item as text. Files must not mix both: a column has one type.
func hasTextMetadata(f io.ReadSeeker) (bool, error) {
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return false, err
	}
	line, whole, err := newLineReader(f).next()
	if err != nil && !errors.Is(err, io.EOF) {
		return false, err
	}
	return whole && gjson.GetBytes(line, "metadata.environment").Type == gjson.String, nil
}

// viewLine is a rollout that has a line in the view.
type viewLine struct {
	id             string
	tampered       bool
	offset, length int64 // of its line in rollouts.jsonl
}

// matching counts the lines from a place in the file on that belong to the entries, and
// says where they end.
func matching(f io.ReadSeeker, entries []viewLine, knownEnd int64) (good int, end int64, err error) {
	if _, err := f.Seek(knownEnd, io.SeekStart); err != nil {
		return 0, 0, err
	}
	end = knownEnd
	lines := newLineReader(f)
	lines.end = knownEnd
	var prefix []byte
	for good < len(entries) {
		line, whole, err := lines.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return 0, 0, err
		}
		// The file is not synced with every rollout: after a power cut its end may
		// consist of zeroes, which no line of JSON contains.
		prefix = appendViewPrefix(prefix[:0], entries[good].id, entries[good].tampered)
		if !whole || !bytes.HasPrefix(line, prefix) || line[len(line)-1] != '}' || bytes.IndexByte(line, 0) >= 0 {
			break
		}
		good++
		end = lines.end
	}
	return good, end, nil
}

// convertLines writes the trajectories of the entries.
func (r *Run) convertLines(w io.Writer, entries []viewLine) (err error) {
	if len(entries) == 0 {
		return nil
	}
	f, err := os.Open(r.path(rolloutsFile))
	if err != nil {
		return err
	}
	defer closeInto(&err, f)
	out := bufio.NewWriterSize(w, 256<<10)
	var line, converted []byte
	for _, e := range entries {
		if int64(cap(line)) < e.length {
			line = make([]byte, e.length)
		}
		line = line[:e.length]
		if _, err := f.ReadAt(line, e.offset); err != nil {
			return err
		}
		rollout, err := DecodeRollout(line)
		if err != nil {
			return fmt.Errorf("rollout %s: %w: %w", e.id, ErrCorrupt, err)
		}
		converted = append(r.convert.Append(converted[:0], rollout), '\n')
		if _, err := out.Write(converted); err != nil {
			return err
		}
	}
	return out.Flush()
}

// reopenView brings the view up to date after rollouts.jsonl was rewritten. It
// runs in the writer goroutine.
func (r *Run) reopenView() error {
	if err := r.view.Close(); err != nil {
		return r.fail("close "+r.path(trajectoriesFile), err)
	}
	r.known.trained, r.known.view = 0, 0 // of the file as it was
	if _, err := r.syncView(false); err != nil {
		return r.fail("rewrite "+r.path(trajectoriesFile), err)
	}
	view, err := r.settings.open(r.path(trajectoriesFile))
	if err != nil {
		return r.fail("open "+r.path(trajectoriesFile), err)
	}
	r.view = view
	return nil
}
