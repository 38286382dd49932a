package trajectories

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/hermes-env/hermes-env/internal/atomicfile"
)

// waitingDir is the folder of a run directory with the finished conversations that wait
// for their score, in segments that are removed as soon as all of theirs are recorded.
const waitingDir = "waiting"

// segmentBytes is the size from which a new segment is begun.
const segmentBytes = 4 << 20

// ClassWaiting is the class of error of a rollout whose conversation is finished and
// whose score is missing.
const ClassWaiting = "waiting_for_score"

// waiting knows the finished conversations that are kept until their rollouts are
// recorded. places is guarded by the run's mutex, the rest belongs to the writer.
type waiting struct {
	places  map[Key]waitingPlace
	live    map[int]int // by segment: conversations in it that still wait
	current int         // the segment that is written; 0 before the first
	file    appendFile  // nil until something has to be written
	size    int64
}

// waitingPlace is where a conversation is kept.
type waitingPlace struct {
	segment        int
	offset, length int64
	id             string
	// spent is what the conversation has cost, once that is part of the run's Spent.
	spent *Entry
}

// KeepWaiting makes a finished conversation durable that has no score yet, so that a
// resumed run can score it without asking the model again. It is kept until a rollout
// with its key is appended; one kept before under that key is replaced. The rollout may
// be one that is recorded without a score and about to be superseded.
func (r *Run) KeepWaiting(ctx context.Context, rollout *Rollout) error {
	if err := r.keepWaiting(ctx, rollout); err != nil {
		return fmt.Errorf("keep the conversation of rollout %q of item %q in %s: %w", rollout.ID, rollout.ItemID, r.dir, err)
	}
	return nil
}

func (r *Run) keepWaiting(ctx context.Context, rollout *Rollout) error {
	if rollout.Score != nil {
		return errors.New("it has a score")
	}
	r.mu.Lock()
	if err := r.usable(); err != nil {
		r.mu.Unlock()
		return err
	}
	r.inflight.Add(1)
	var spent *Entry
	if r.index.has(rollout.Key()) && r.index.hasID(rollout.ID) { // about to be superseded
		e := rollout.Entry()
		spent = &e
	}
	r.mu.Unlock()
	q, err := r.prepare(ctx, rollout, false)
	if err != nil {
		r.inflight.Done()
		return err
	}
	q.waiting = &waitingPlace{id: rollout.ID, length: int64(len(q.line)) - 1, spent: spent}
	result := make(chan error, 1)
	q.done = func(err error) { result <- err }
	r.queue <- q
	r.inflight.Done()
	return <-result
}

// Waiting returns the conversation that is kept under a key; nil when there is none.
func (r *Run) Waiting(key Key) (*Rollout, error) {
	r.mu.Lock()
	p, ok := r.waiting.places[key]
	r.mu.Unlock()
	if !ok {
		return nil, nil
	}
	line, err := readStretch(r.waitingPath(p.segment), p.offset, p.length)
	if err != nil {
		return nil, fmt.Errorf("load the waiting conversation of rollout %s: %w", p.id, err)
	}
	rollout, err := DecodeRollout(line)
	if err != nil {
		return nil, fmt.Errorf("load the waiting conversation of rollout %s: %w: %w", p.id, ErrCorrupt, err)
	}
	return rollout, nil
}

// WaitingKeys returns the keys under which conversations are kept, in no order.
func (r *Run) WaitingKeys() []Key {
	r.mu.Lock()
	defer r.mu.Unlock()
	keys := make([]Key, 0, len(r.waiting.places))
	for key := range r.waiting.places {
		keys = append(keys, key)
	}
	return keys
}

func readStretch(path string, offset, length int64) (_ []byte, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer closeInto(&err, f)
	line := make([]byte, length)
	_, err = f.ReadAt(line, offset)
	return line, err
}

func (r *Run) waitingPath(segment int) string {
	return filepath.Join(r.dir, waitingDir, fmt.Sprintf("%06d.jsonl", segment))
}

// commitWaiting writes and syncs the conversations of a batch. It runs in the writer
// goroutine.
func (r *Run) commitWaiting(batch []request) error {
	r.mu.Lock()
	err := r.failed
	r.mu.Unlock()
	if err != nil {
		return err
	}
	w := &r.waiting
	if w.file != nil && w.size >= segmentBytes {
		if err := r.endSegment(); err != nil {
			return diskFailure("write "+r.waitingPath(w.current), err)
		}
	}
	if w.file == nil {
		if err := r.beginSegment(); err != nil {
			return diskFailure("write "+r.waitingPath(w.current), err)
		}
	}
	var buf []byte
	for i := range batch {
		batch[i].waiting.segment, batch[i].waiting.offset = w.current, w.size+int64(len(buf))
		buf = append(buf, batch[i].line...)
	}
	_, err = w.file.Write(buf)
	if err == nil {
		err = w.file.Sync()
	}
	if err != nil {
		return diskFailure("write "+r.waitingPath(w.current), err)
	}
	w.size += int64(len(buf))
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range batch {
		r.dropWaiting(batch[i].entry.Key)
		w.places[batch[i].entry.Key] = *batch[i].waiting
		w.live[w.current]++
	}
	return nil
}

func (r *Run) beginSegment() error {
	w := &r.waiting
	if err := makeDir(r.path(waitingDir)); err != nil {
		return err
	}
	w.current++
	f, err := r.settings.open(r.waitingPath(w.current))
	if err != nil {
		return err
	}
	if err := atomicfile.SyncDir(r.path(waitingDir)); err != nil {
		return firstOf(err, f.Close())
	}
	w.file, w.size = f, 0
	return nil
}

// endSegment closes the segment that is written, and removes it if nothing in it waits.
func (r *Run) endSegment() error {
	w := &r.waiting
	if w.file == nil {
		return nil
	}
	err := w.file.Close()
	w.file, w.size = nil, 0
	r.mu.Lock()
	idle := w.live[w.current] == 0
	r.mu.Unlock()
	if idle {
		err = errors.Join(err, ignoreMissing(os.Remove(r.waitingPath(w.current))))
	}
	return err
}

// dropWaiting forgets the conversation kept under a key and returns what it had cost, if
// that is part of the run's Spent. mu is held.
func (r *Run) dropWaiting(key Key) *Entry {
	w := &r.waiting
	p, ok := w.places[key]
	if !ok {
		return nil
	}
	delete(w.places, key)
	if w.live[p.segment]--; w.live[p.segment] == 0 {
		delete(w.live, p.segment)
		if p.segment != w.current || w.file == nil {
			// A segment that stays is read once more by the next session, and removed then.
			_ = os.Remove(r.waitingPath(p.segment))
		}
	}
	return p.spent
}

// openWaiting reads what earlier sessions kept and removes segments in which nothing
// waits. The index is complete.
func (r *Run) openWaiting() error {
	r.waiting = waiting{places: map[Key]waitingPlace{}, live: map[int]int{}}
	names, err := os.ReadDir(r.path(waitingDir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	w := &r.waiting
	for _, name := range names { // in order
		number, found := strings.CutSuffix(name.Name(), ".jsonl")
		segment, err := strconv.Atoi(number)
		if !found || err != nil || segment <= 0 || filepath.Base(r.waitingPath(segment)) != name.Name() {
			continue
		}
		w.current = max(w.current, segment)
		w.live[segment]++ // so that it is not removed while it is read
		if err := eachLineOf(r.waitingPath(segment), func(l *lineReader, line []byte) error {
			e, err := parseEntry(line)
			if err != nil || r.index.has(e.Key) || e.Score != nil {
				return nil // damaged, or recorded since
			}
			e.length = int64(len(line))
			r.dropWaiting(e.Key)
			w.places[e.Key] = waitingPlace{segment: segment, offset: l.offset, length: e.length, id: e.ID, spent: &e}
			w.live[segment]++
			return nil
		}); err != nil {
			return fmt.Errorf("read %s: %w", r.waitingPath(segment), err)
		}
		if w.live[segment]--; w.live[segment] == 0 {
			delete(w.live, segment)
			if err := ignoreMissing(os.Remove(r.waitingPath(segment))); err != nil {
				return err
			}
		}
	}
	return nil
}

// closeWaiting ends the segment that is written; the folder goes when it is empty.
func (r *Run) closeWaiting() error {
	if err := r.endSegment(); err != nil {
		return fmt.Errorf("close %s: %w", r.waitingPath(r.waiting.current), err)
	}
	_ = os.Remove(r.path(waitingDir)) // fails unless it is empty
	return nil
}
