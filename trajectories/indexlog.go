package trajectories

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"slices"

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
	differs  bool  // the bytes of trajectories.jsonl behind these are not the ones it was written with
	rollouts int64 // bytes of rollouts.jsonl they speak of
	view     int64 // bytes of trajectories.jsonl
}

// loadIndex takes over what rollouts.index says about the beginning of rollouts.jsonl,
// as far as the bytes of the files have the checksums they had when it was said, and
// returns where parsing has to go on, and whether the index goes on there too. Reading and summing costs a tenth of parsing; a
// line that was changed by hand, a file that was put in the place of another, or an
// index that is missing, torn, stale or of another version only means more to parse.
func (r *Run) loadIndex(rollouts *os.File) (end int64, more bool, err error) {
	frames := r.readSpans()
	if len(frames) == 0 {
		return 0, false, nil // without an index everything is parsed, which finds out what is wrong
	}
	var inRollouts, inView int
	var group errgroup.Group
	group.Go(func() (err error) {
		inRollouts, err = bornOut(rollouts, frames, func(f *frameSpans) span { return f.rollouts })
		return err
	})
	group.Go(func() error {
		view, err := os.Open(r.path(trajectoriesFile))
		if err != nil {
			return ignoreMissing(err)
		}
		defer closeInto(&err, view)
		inView, err = bornOut(view, frames, func(f *frameSpans) span { return f.view })
		return err
	})
	if err := group.Wait(); err != nil {
		return 0, false, err
	}
	more = inRollouts < len(frames)
	r.known.differs = inView < inRollouts
	stream := r.openFrames()
	defer stream.close()
	for i := range inRollouts {
		f, err := stream.next()
		if err != nil {
			break // parsed from here on
		}
		for _, e := range f.entries {
			if err := r.index.conflict(e.Key, e.ID); err != nil {
				// The bytes are those of the index and yet repeat a rollout: let parsing say where.
				r.index, r.known, r.spent, r.lastRecord, r.segments = newIndex(), known{}, Spent{}, 0, nil
				r.trusted.Store(0)
				return 0, more, r.openArchive()
			}
			e.offset = end
			end += e.length + 1
			r.take(e)
			if i < inView && e.Trained() {
				r.known.trained++
			}
		}
		r.trusted.Store(int64(r.index.n - r.index.base))
		if i < inView {
			r.known.size, r.known.entries = stream.end, r.index.n-r.index.base
			r.known.rollouts, r.known.view = end, r.known.view+f.view.length
		}
	}
	return end, more, nil
}

// readSpans returns what the whole frames of the index file speak of.
func (r *Run) readSpans() (frames []frameSpans) {
	stream := r.openFrames()
	if stream == nil {
		return nil
	}
	defer stream.close()
	for {
		f, err := stream.spans()
		if err != nil {
			return frames
		}
		frames = append(frames, f)
	}
}

// bornOut counts the leading frames whose bytes the file has.
func bornOut(f io.ReaderAt, frames []frameSpans, of func(*frameSpans) span) (n int, err error) {
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
func (r *Run) openIndex() error {
	missing := func(visit func(Entry) error) error { return r.eachEntry(r.known.entries, visit) }
	r.trusted.Store(min(r.trusted.Load(), int64(r.known.entries)))
	return r.extendIndexFile(missing, r.index.n-r.index.base > r.known.entries)
}

// extendIndexFile cuts the index file off behind what is known and appends frames about
// the entries that missing yields.
func (r *Run) extendIndexFile(missing func(func(Entry) error) error, some bool) (err error) {
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
	if some {
		if err := r.appendMissing(f, missing); err != nil {
			return err
		}
	}
	r.indexed = f
	r.trusted.Store(trustAll)
	return nil
}

// appendMissing appends frames about the rollouts that the index file lacks.
func (r *Run) appendMissing(w io.Writer, missing func(func(Entry) error) error) (err error) {
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
	var f indexFrame
	flush := func() error {
		if len(f.entries) == 0 {
			return nil
		}
		var err error
		if f.rollouts.sum, err = in.sum(f.rollouts.length); err != nil {
			return fmt.Errorf("read %s: %w", rolloutsFile, err)
		}
		_, err = w.Write(f.append(nil))
		f = indexFrame{entries: f.entries[:0]}
		return err
	}
	if err := missing(func(e Entry) error {
		f.entries = append(f.entries, e)
		f.rollouts.length += e.length + 1
		if e.Trained() {
			line, whole, err := lines.next()
			if err != nil || !whole {
				return fmt.Errorf("read %s: a line is missing: %w", trajectoriesFile, firstOf(io.ErrUnexpectedEOF, err))
			}
			f.view.sum = crc32.Update(crc32.Update(f.view.sum, castagnoli, line), castagnoli, []byte{'\n'})
			f.view.length += int64(len(line)) + 1
		}
		if len(f.entries) == frameEntries {
			return flush()
		}
		return nil
	}); err != nil {
		return err
	}
	return flush()
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

// renewIndex makes the index file agree with rollouts.jsonl again, from which some
// rollouts were taken out. The file still is as it was before.
func (r *Run) renewIndex(dropped []bool) {
	if r.indexed == nil {
		return
	}
	r.closeIndex()
	if err := r.rewriteIndex(dropped); err != nil {
		_ = os.Remove(r.path(indexFile)) // derived: the next resume parses instead
	}
}

func (r *Run) rewriteIndex(dropped []bool) error {
	r.known = known{}
	first := slices.Index(dropped, true)
	old := r.openFrames()
	if old == nil {
		return errFrame
	}
	defer old.close()
	for {
		f, err := old.spans()
		if err != nil || r.known.entries+f.entries > first {
			break
		}
		r.known.size = old.end
		r.known.entries += f.entries
		r.known.rollouts += f.rollouts.length
		r.known.view += f.view.length
	}
	kept := r.keptEntries(dropped)
	missing := func(visit func(Entry) error) error { return kept(r.known.entries, visit) }
	path := r.path(indexFile)
	if err := writeAtomic(path, func(w io.Writer) error {
		if r.known.size == 0 {
			r.known.size = int64(len(indexHeader))
		}
		if _, err := io.Copy(w, io.NewSectionReader(old.file, 0, r.known.size)); err != nil {
			return err
		}
		return r.appendMissing(w, missing)
	}); err != nil {
		return err
	}
	f, err := r.settings.open(path)
	if err != nil {
		return err
	}
	r.indexed = f
	r.trusted.Store(trustAll)
	return nil
}

// keptEntries returns a function that yields, from a number on, the entries of the index
// file that were not dropped, with their new places.
func (r *Run) keptEntries(dropped []bool) func(from int, visit func(Entry) error) error {
	return func(from int, visit func(Entry) error) error {
		frames := r.openFrames()
		if frames == nil {
			return errFrame
		}
		defer frames.close()
		number := 0 // of the entry among those kept
		for i := 0; i < len(dropped); {
			f, err := frames.next()
			if err != nil || i+len(f.entries) > len(dropped) {
				return errFrame
			}
			for _, e := range f.entries {
				if i++; dropped[i-1] {
					continue
				}
				if number++; number <= from {
					continue
				}
				e.offset = r.index.slot(r.index.base + number - 1).offset
				if err := visit(e); err != nil {
					return err
				}
			}
		}
		return nil
	}
}

func (r *Run) closeIndex() {
	if r.indexed != nil {
		_ = r.indexed.Close() // derived, and checked whenever it is read
		r.indexed = nil
	}
}
