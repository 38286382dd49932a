package trajectories

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"

	"golang.org/x/sync/errgroup"
)

// frameEntries is how many rollouts a frame of the index has at most, when it is
// written after the fact.
const frameEntries = 1024

// known is what an index file says that the other files bear out.
type known struct {
	size     int64 // of the header and of the frames that both files agree with, bytes
	entries  int   // rollouts in these frames
	trained  int   // those with a trajectory
	rollouts int64 // bytes of rollouts.jsonl they speak of
	view     int64 // bytes of trajectories.jsonl
}

// loadIndex takes over what rollouts.index says about the beginning of rollouts.jsonl,
// as far as the bytes of the files have the checksums they had when it was said, and
// returns where parsing has to go on. Reading and summing costs a tenth of parsing; a
// line that was changed by hand, a file that was put in the place of another, or an
// index that is missing, torn, stale or of another version only means more to parse.
func (r *Run) loadIndex(rollouts *os.File) (end int64, err error) {
	frames, ends := r.readFrames()
	if len(frames) == 0 {
		return 0, nil // without an index everything is parsed, which finds out what is wrong
	}
	var inRollouts, inView int
	var group errgroup.Group
	group.Go(func() (err error) {
		inRollouts, err = bornOut(rollouts, frames, func(f *indexFrame) span { return f.rollouts })
		return err
	})
	group.Go(func() error {
		view, err := os.Open(r.path(trajectoriesFile))
		if err != nil {
			return ignoreMissing(err)
		}
		defer closeInto(&err, view)
		inView, err = bornOut(view, frames, func(f *indexFrame) span { return f.view })
		return err
	})
	if err := group.Wait(); err != nil {
		return 0, err
	}
	n := 0
	for i := range frames[:inRollouts] {
		n += len(frames[i].entries)
	}
	r.index.grow(n)
	for i := range frames[:inRollouts] {
		f := &frames[i]
		for _, e := range f.entries {
			if err := r.index.conflict(e.Key, e.ID); err != nil {
				// The bytes are those of the index and yet repeat a rollout: let parsing say where.
				r.index, r.known = newIndex(), known{}
				return 0, nil
			}
			e.offset = end
			end += e.length + 1
			r.index.add(e)
			if i < inView && e.Trained() {
				r.known.trained++
			}
		}
		if i < inView {
			r.known.size, r.known.entries = ends[i], len(r.index.entries)
			r.known.rollouts, r.known.view = end, r.known.view+f.view.length
		}
	}
	return end, nil
}

// readFrames returns the whole frames of the index file and where each ends in it.
func (r *Run) readFrames() (frames []indexFrame, ends []int64) {
	content, err := os.ReadFile(r.path(indexFile))
	if err != nil || !bytes.HasPrefix(content, []byte(indexHeader)) {
		return nil, nil
	}
	reader := &frameReader{rest: content[len(indexHeader):], texts: map[string]string{}}
	for len(reader.rest) > 0 {
		f, err := reader.next()
		if err != nil {
			break
		}
		frames = append(frames, f)
		ends = append(ends, int64(len(content)-len(reader.rest)))
	}
	return frames, ends
}

// bornOut counts the leading frames whose bytes the file has.
func bornOut(f io.ReaderAt, frames []indexFrame, of func(*indexFrame) span) (n int, err error) {
	if len(frames) == 0 {
		return 0, nil
	}
	buf := make([]byte, 256<<10)
	in := &summer{in: f, buf: buf}
	for i := range frames {
		sum, err := in.sum(of(&frames[i]).length)
		if errors.Is(err, io.EOF) {
			return i, nil
		}
		if err != nil {
			return 0, err
		}
		if sum != of(&frames[i]).sum {
			return i, nil
		}
	}
	return len(frames), nil
}

// summer reads a file from the start and sums stretches of it.
type summer struct {
	in     io.ReaderAt
	buf    []byte
	unread []byte
	offset int64 // of what comes after unread
}

// sum returns the checksum of the next bytes; io.EOF when there are not so many.
func (s *summer) sum(length int64) (sum uint32, err error) {
	for length > 0 {
		if len(s.unread) == 0 {
			n, err := s.in.ReadAt(s.buf, s.offset)
			if n == 0 {
				return 0, err
			}
			s.unread = s.buf[:n]
			s.offset += int64(n)
		}
		piece := s.unread[:min(int64(len(s.unread)), length)]
		sum = crc32.Update(sum, castagnoli, piece)
		s.unread = s.unread[len(piece):]
		length -= int64(len(piece))
	}
	return sum, nil
}

// openIndex opens the index file for appending, after it was made to say of all
// rollouts what it says of those in known. It is called when rollouts.jsonl and
// trajectories.jsonl are in order.
func (r *Run) openIndex() (err error) {
	path := r.path(indexFile)
	f, err := r.settings.open(path)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = firstOf(err, f.Close())
		}
	}()
	if err := f.Truncate(r.known.size); err != nil {
		return err
	}
	if r.known.size == 0 {
		if _, err := f.Write([]byte(indexHeader)); err != nil {
			return err
		}
	}
	if err := r.appendMissing(f); err != nil {
		return err
	}
	r.indexed = f
	return nil
}

// appendMissing appends frames about the rollouts that the index file lacks.
func (r *Run) appendMissing(w io.Writer) (err error) {
	missing := r.index.entries[r.known.entries:]
	if len(missing) == 0 {
		return nil
	}
	rollouts, err := os.Open(r.path(rolloutsFile))
	if err != nil {
		return err
	}
	defer closeInto(&err, rollouts)
	view, err := os.Open(r.path(trajectoriesFile))
	if err != nil {
		return err
	}
	defer closeInto(&err, view)
	if _, err := view.Seek(r.known.view, io.SeekStart); err != nil {
		return err
	}
	lines := newLineReader(view)
	in := &summer{in: rollouts, buf: make([]byte, 256<<10), offset: r.known.rollouts}
	for len(missing) > 0 {
		f := indexFrame{entries: missing[:min(len(missing), frameEntries)]}
		missing = missing[len(f.entries):]
		for i := range f.entries {
			e := &f.entries[i]
			f.rollouts.length += e.length + 1
			if !e.Trained() {
				continue
			}
			line, whole, err := lines.next()
			if err != nil || !whole {
				return fmt.Errorf("read %s: a line is missing: %w", trajectoriesFile, firstOf(io.ErrUnexpectedEOF, err))
			}
			f.view.sum = crc32.Update(crc32.Update(f.view.sum, castagnoli, line), castagnoli, []byte{'\n'})
			f.view.length += int64(len(line)) + 1
		}
		if f.rollouts.sum, err = in.sum(f.rollouts.length); err != nil {
			return fmt.Errorf("read %s: %w", rolloutsFile, err)
		}
		if _, err := w.Write(f.append(nil)); err != nil {
			return err
		}
	}
	return nil
}

// extendIndex appends a frame about one commit, behind the other files. Should that
// fail, the next resume has more to parse, and nothing else is the matter: the file is
// given up so that nothing follows a torn frame.
func (r *Run) extendIndex(f *indexFrame) {
	if r.indexed == nil {
		return
	}
	if _, err := r.indexed.Write(f.append(nil)); err != nil {
		r.closeIndex()
	}
}

// renewIndex makes the index file agree with rollouts.jsonl again, of which all but
// the first lines were rewritten.
func (r *Run) renewIndex(before int) {
	if r.indexed == nil {
		return
	}
	r.closeIndex()
	r.known = known{}
	frames, ends := r.readFrames()
	for i := range frames {
		if r.known.entries+len(frames[i].entries) > before {
			break
		}
		r.known.size = ends[i]
		r.known.entries += len(frames[i].entries)
		r.known.rollouts += frames[i].rollouts.length
		r.known.view += frames[i].view.length
	}
	if err := r.openIndex(); err != nil {
		r.indexed = nil // derived: the next resume parses instead
	}
}

func (r *Run) closeIndex() {
	if r.indexed != nil {
		_ = r.indexed.Close() // derived, and checked whenever it is read
		r.indexed = nil
	}
}
