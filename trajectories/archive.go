package trajectories

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"
)

// archiveDir is the folder of a run directory with the older part of its record: for each
// segment its lines, compressed, and an index file like rollouts.index that stays when
// the lines are moved away or dropped.
const archiveDir = "archive"

// ArchiveConfig says what becomes of the older part of a record. The zero value keeps
// all of it in rollouts.jsonl.
type ArchiveConfig struct {
	// SegmentBytes is the size of rollouts.jsonl from which its lines move into a
	// compressed segment; 0 leaves them where they are.
	SegmentBytes int64
	MaxAge       time.Duration // of a segment's lines, before they are dropped; 0: no limit
	MaxBytes     int64         // of all segments' lines, compressed; the oldest are dropped first; 0: no limit
}

// segment is a part of the record that is no longer in rollouts.jsonl.
type segment struct {
	number int // from 1
	first  int // number of its first rollout in the run
	n      int // rollouts
	bytes  int64
}

func segmentIndex(dir string, number int) string {
	return filepath.Join(dir, archiveDir, fmt.Sprintf("%06d.index", number))
}

func segmentLines(dir string, number int) string {
	return filepath.Join(dir, archiveDir, fmt.Sprintf("%06d.jsonl.zst", number))
}

// Archive has the run move older parts of its record into segments from now on.
func (r *Run) Archive(c ArchiveConfig) error {
	return r.exclusive(func() error {
		r.archive, r.pruned = c, time.Time{}
		return r.archiveIfLarge()
	})
}

// archiveIfLarge moves the lines of rollouts.jsonl into a segment if there are enough. It
// runs in the writer goroutine.
func (r *Run) archiveIfLarge() error {
	if r.archive.SegmentBytes <= 0 {
		return nil
	}
	r.mu.Lock()
	failed := r.failed
	r.mu.Unlock()
	if failed != nil {
		return failed
	}
	full := r.size >= r.archive.SegmentBytes
	if full {
		r.moving.Lock()
		err := r.archiveRecord()
		r.moving.Unlock()
		if err != nil {
			return r.fail("move older rollouts to "+r.path(archiveDir), err)
		}
	}
	if now := r.settings.now(); full || now.Sub(r.pruned) > pruneEvery {
		r.pruneArchive(now)
		r.pruned = now
	}
	return nil
}

// pruneEvery is how often segments are looked at between those that are made.
const pruneEvery = time.Minute

// archiveRecord makes all lines of rollouts.jsonl a segment. The segment counts from the
// moment its index file has its name; rollouts.jsonl is emptied afterwards, by the next
// session if this one is killed.
func (r *Run) archiveRecord() error {
	if err := makeDir(r.path(archiveDir)); err != nil {
		return err
	}
	number := 1
	if k := len(r.segments); k > 0 {
		number = r.segments[k-1].number + 1
	}
	lines, err := os.Open(r.path(rolloutsFile))
	if err != nil {
		return err
	}
	defer func() { _ = lines.Close() }() // only read
	if err := writeAtomic(segmentLines(r.dir, number), func(w io.Writer) error {
		packed, err := zstd.NewWriter(w, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1))
		if err != nil {
			return err
		}
		if _, err := io.Copy(packed, io.LimitReader(lines, r.size)); err != nil {
			return err
		}
		return packed.Close()
	}); err != nil {
		return err
	}
	if err := writeSegmentIndex(r.dir, number, func(visit func(Entry) error) error { return r.eachEntry(0, visit) }); err != nil {
		return err
	}
	return r.emptyRecord(segment{number: number, first: r.index.base, n: r.index.n - r.index.base, bytes: r.size})
}

// writeSegmentIndex writes the index file of a segment.
func writeSegmentIndex(dir string, number int, each func(visit func(Entry) error) error) error {
	return writeAtomic(segmentIndex(dir, number), func(w io.Writer) error {
		packed, err := zstd.NewWriter(w, zstd.WithEncoderLevel(zstd.SpeedBetterCompression), zstd.WithEncoderConcurrency(1))
		if err != nil {
			return err
		}
		if _, err := io.WriteString(packed, indexHeader); err != nil {
			return err
		}
		var f indexFrame
		flush := func() error {
			_, err := packed.Write(f.append(nil))
			f = indexFrame{entries: f.entries[:0]}
			return err
		}
		if err := each(func(e Entry) error {
			f.entries = append(f.entries, e)
			f.rollouts.length += e.length + 1
			if len(f.entries) == frameEntries {
				return flush()
			}
			return nil
		}); err != nil {
			return err
		}
		if err := flush(); err != nil {
			return err
		}
		return packed.Close()
	})
}

// emptyRecord empties the files whose rollouts are in a segment.
func (r *Run) emptyRecord(s segment) error {
	path := r.path(rolloutsFile)
	if err := stage(path, func(io.Writer) error { return nil }); err != nil {
		return err
	}
	r.trusted.Store(0)
	r.closeIndex()
	r.mu.Lock()
	defer r.mu.Unlock()
	stale, err := r.swap(path)
	if err != nil {
		return err
	}
	r.segments = append(r.segments, s)
	r.index.base, r.size, r.known = r.index.n, 0, known{}
	if err := errors.Join(stale.Close(), r.view.Truncate(0)); err != nil {
		return err
	}
	if err := r.extendIndexFile(nil, false); err != nil {
		_ = os.Remove(r.path(indexFile)) // derived: the next resume parses instead
	}
	return nil
}

// pruneArchive drops the lines of segments that are too old or too many.
func (r *Run) pruneArchive(now time.Time) {
	total := int64(0)
	for _, s := range slices.Backward(r.segments) {
		path := segmentLines(r.dir, s.number)
		info, err := os.Stat(path)
		if err != nil {
			continue // moved away or dropped
		}
		total += info.Size()
		old := r.archive.MaxAge > 0 && now.Sub(info.ModTime()) > r.archive.MaxAge
		if old || r.archive.MaxBytes > 0 && total > r.archive.MaxBytes {
			_ = os.Remove(path) // tried again after the next segment
		}
	}
}

// RecordFiles returns the files with the lines of a run's record, the oldest first: the
// segments that are there, and rollouts.jsonl.
func RecordFiles(dir string) ([]string, error) {
	numbers, err := segmentNumbers(dir)
	if err != nil {
		return nil, err
	}
	var files []string
	for _, number := range numbers {
		if _, err := os.Stat(segmentLines(dir, number)); err == nil {
			files = append(files, segmentLines(dir, number))
		}
	}
	return append(files, filepath.Join(dir, rolloutsFile)), nil
}

// segmentNumbers lists the segments of a run directory.
func segmentNumbers(dir string) ([]int, error) {
	names, err := os.ReadDir(filepath.Join(dir, archiveDir))
	if isMissing(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var numbers []int
	for _, name := range names {
		text, found := strings.CutSuffix(name.Name(), ".index")
		number, err := strconv.Atoi(text)
		if found && err == nil && number > 0 && filepath.Base(segmentIndex(dir, number)) == name.Name() {
			numbers = append(numbers, number)
		}
	}
	slices.Sort(numbers)
	return numbers, nil
}

// eachArchived calls visit for every entry of a segment.
func eachArchived(dir string, number int, visit func(Entry) error) error {
	path := segmentIndex(dir, number)
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	frames := newFrameStream(f)
	if frames == nil {
		_ = f.Close() // only read
		return eachArchivedParsed(dir, number, visit)
	}
	defer frames.close()
	var offset int64
	for {
		frame, err := frames.next()
		if err != nil {
			if frames.torn {
				return fmt.Errorf("%w: %s has a part that can't be read", ErrCorrupt, path)
			}
			return nil
		}
		for _, e := range frame.entries {
			e.segment, e.offset = number, offset
			offset += e.length + 1
			if err := visit(e); err != nil {
				return err
			}
		}
	}
}

// eachArchivedParsed is eachArchived for a segment whose index was written by another
// version: its lines say the same.
func eachArchivedParsed(dir string, number int, visit func(Entry) error) (err error) {
	lines, err := openSegment(dir, number)
	if isMissing(err) {
		return fmt.Errorf("%w: %s is of another version, and the lines it speaks of are gone: put %s back, or go on with the version that wrote it",
			ErrCorrupt, segmentIndex(dir, number), filepath.Base(segmentLines(dir, number)))
	}
	if err != nil {
		return err
	}
	defer closeInto(&err, lines)
	return eachLine(lines, func(l *lineReader, line []byte) error {
		e, err := parseEntry(line)
		if err != nil {
			return fmt.Errorf("%w: %s line %d: %w", ErrCorrupt, segmentLines(dir, number), l.number, err)
		}
		e.segment, e.offset, e.length = number, l.offset, int64(len(line))
		return visit(e)
	})
}

// openSegment reads the lines of a segment. The error is os.ErrNotExist when they were
// dropped or moved away.
func openSegment(dir string, number int) (_ io.ReadCloser, err error) {
	f, err := os.Open(segmentLines(dir, number))
	if err != nil {
		return nil, err
	}
	lines, err := zstd.NewReader(f, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(256<<20))
	if err != nil {
		return nil, firstOf(err, f.Close())
	}
	return &segmentReader{lines, f}, nil
}

type segmentReader struct {
	*zstd.Decoder
	file *os.File
}

func (s *segmentReader) Close() error {
	s.Decoder.Close()
	return s.file.Close()
}

// readArchived reads one line of a segment.
func readArchived(dir string, number int, offset, length int64) (_ []byte, err error) {
	lines, err := openSegment(dir, number)
	if err != nil {
		return nil, err
	}
	defer closeInto(&err, lines)
	if _, err := io.CopyN(io.Discard, lines, offset); err != nil {
		return nil, err
	}
	line := make([]byte, length)
	_, err = io.ReadFull(lines, line)
	return line, err
}

// eachArchivedLine calls visit for the lines of those of the segments that are there.
func eachArchivedLine(dir string, numbers []int, visit func(*lineReader, []byte) error) error {
	for _, number := range numbers {
		lines, err := openSegment(dir, number)
		if isMissing(err) {
			continue
		}
		if err == nil {
			err = eachLine(lines, visit)
			err = firstOf(err, lines.Close())
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// openRecord opens rollouts.jsonl of a run that another process may be writing, and lists
// the segments that come before it. The file is nil if all of its lines are in them.
func openRecord(dir string) (f *os.File, numbers []int, err error) {
	for {
		before, err := segmentNumbers(dir)
		if err != nil {
			return nil, nil, err
		}
		if f, err = os.Open(filepath.Join(dir, rolloutsFile)); err != nil {
			return nil, nil, err
		}
		numbers, err = segmentNumbers(dir)
		if err != nil {
			return nil, nil, firstOf(err, f.Close())
		}
		if slices.Equal(before, numbers) {
			break
		}
		if err := f.Close(); err != nil {
			return nil, nil, err
		}
	}
	if len(numbers) == 0 {
		return f, nil, nil
	}
	// A segment counts from a moment on at which its lines still are in the file, too.
	first := ""
	found := errors.New("found")
	if err := eachArchived(dir, numbers[len(numbers)-1], func(e Entry) error {
		first = e.ID
		return found
	}); err != nil && !errors.Is(err, found) {
		return nil, nil, firstOf(err, f.Close())
	}
	if line, whole, err := newLineReader(f).next(); err == nil && whole {
		if e, err := parseEntry(line); err == nil && e.ID == first {
			return nil, numbers, f.Close()
		}
	}
	_, err = f.Seek(0, io.SeekStart)
	return f, numbers, err
}

// openArchive takes the segments into the index, and empties rollouts.jsonl if a kill came
// before that.
func (r *Run) openArchive() error {
	numbers, err := segmentNumbers(r.dir)
	if err != nil {
		return err
	}
	if numbers, err = r.mendArchive(numbers); err != nil {
		return err
	}
	for _, number := range numbers {
		s := segment{number: number, first: r.index.n}
		if err := eachArchived(r.dir, number, func(e Entry) error {
			if err := r.index.conflict(e.Key, e.ID); err != nil {
				return fmt.Errorf("%w: %s: %w", ErrCorrupt, segmentIndex(r.dir, number), err)
			}
			r.take(e)
			s.bytes = e.offset + e.length + 1
			return nil
		}); err != nil {
			return err
		}
		s.n = r.index.n - s.first
		r.segments = append(r.segments, s)
		r.index.base = r.index.n
	}
	if len(r.segments) == 0 {
		return nil
	}
	last := r.segments[len(r.segments)-1]
	archived, err := r.beginsArchived(last)
	if err != nil || !archived {
		return err
	}
	r.repaired("%s: emptied, as its %d rollouts are in %s", rolloutsFile, last.n, archiveDir)
	return writeAtomic(r.path(rolloutsFile), func(io.Writer) error { return nil })
}

// mendArchive finds segments without an index file before the last one. It writes the index
// again from the lines if they are there, and otherwise says what is unknown. It returns the
// numbers of the segments that have one now.
func (r *Run) mendArchive(numbers []int) ([]int, error) {
	if len(numbers) == 0 {
		return nil, nil
	}
	var mended []int
	for number := 1; number <= numbers[len(numbers)-1]; number++ {
		if _, found := slices.BinarySearch(numbers, number); found {
			mended = append(mended, number)
			continue
		}
		index, lines := filepath.Join(archiveDir, filepath.Base(segmentIndex(r.dir, number))), filepath.Base(segmentLines(r.dir, number))
		if _, err := os.Stat(segmentLines(r.dir, number)); isMissing(err) {
			r.repaired("%s is missing, and so is %s: which rollouts they held is unknown, and these may run again; stop the run and put them back from a copy to avoid that", index, lines)
			continue
		}
		if err := writeSegmentIndex(r.dir, number, func(visit func(Entry) error) error { return eachArchivedParsed(r.dir, number, visit) }); err != nil {
			return nil, fmt.Errorf("%s is missing and can't be written again from %s: %w", index, lines, err)
		}
		r.repaired("%s was missing: wrote it again from %s", index, lines)
		mended = append(mended, number)
	}
	return mended, nil
}

// beginsArchived says whether rollouts.jsonl still is what the last segment was made of.
func (r *Run) beginsArchived(last segment) (archived bool, err error) {
	f, err := os.Open(r.path(rolloutsFile))
	if err != nil {
		return false, ignoreMissing(err)
	}
	defer closeInto(&err, f)
	line, whole, err := newLineReader(f).next()
	if errors.Is(err, io.EOF) || err == nil && !whole {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	e, err := parseEntry(line)
	if err != nil || !r.index.hasID(e.ID) {
		return false, nil
	}
	if info, err := f.Stat(); err != nil || info.Size() != last.bytes {
		return false, firstOf(err, fmt.Errorf("%w: %s repeats rollouts of %s", ErrCorrupt, r.path(rolloutsFile), r.path(archiveDir)))
	}
	return true, nil
}

// segmentOf returns the segment of an archived rollout.
func (r *Run) segmentOf(i int) *segment {
	at, found := slices.BinarySearchFunc(r.segments, i, func(s segment, i int) int { return s.first - i })
	if !found {
		at--
	}
	return &r.segments[at]
}
