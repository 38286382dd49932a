package trajectories

import (
	"context"
	"errors"
	"fmt"
	"os"
)

// Limits of one group commit: what is written with one write and one fsync.
const (
	commitLines = 1024
	commitBytes = 4 << 20
)

// request is one thing for the writer goroutine to do: record a line, or run an
// operation that needs the files for itself.
type request struct {
	entry     Entry
	line      []byte // with its newline
	view      []byte // with its newline; nil when the rollout has no trajectory
	weight    int64
	waiting   *waitingPlace // the line is a conversation without a score
	done      func(error)
	operation func() error
}

// Append records a rollout and returns once it is durable: it then survives a
// kill and a power cut. The error is ErrDuplicate when the key or the id is
// recorded already, ErrFailed when the disk refused, ErrClosed after Close, and
// the context's when ctx ends while the queue is full; in each case the rollout
// is not recorded. Once a rollout has a place in the queue, ctx no longer matters.
func (r *Run) Append(ctx context.Context, rollout *Rollout) error {
	result := make(chan error, 1)
	r.AppendAsync(ctx, rollout, func(err error) { result <- err })
	return <-result
}

// AppendAsync is Append without the wait for the disk: it returns as soon as the
// rollout, which it no longer needs then, has a place in the queue. done is called
// exactly once, when the rollout is durable or refused, possibly before
// AppendAsync returns; it must neither block nor call methods of the run.
func (r *Run) AppendAsync(ctx context.Context, rollout *Rollout, done func(error)) {
	if err := r.enqueue(ctx, rollout, done); err != nil {
		done(fmt.Errorf("record rollout %q of item %q in %s: %w", rollout.ID, rollout.ItemID, r.dir, err))
	}
}

func (r *Run) enqueue(ctx context.Context, rollout *Rollout, done func(error)) error {
	key := rollout.Key()
	r.mu.Lock()
	if err := r.usable(); err != nil {
		r.mu.Unlock()
		return err
	}
	if err := r.index.reserve(key, rollout.ID); err != nil {
		r.mu.Unlock()
		return err
	}
	r.inflight.Add(1)
	r.mu.Unlock()
	defer r.inflight.Done()

	q, err := r.prepare(ctx, rollout, rollout.Trained())
	if err != nil {
		r.mu.Lock()
		r.index.release(key)
		r.mu.Unlock()
		return err
	}
	q.done = done
	r.queue <- q // never for long: the writer takes requests until Close, also after a failure
	return nil
}

// usable returns why nothing can be recorded any more, or nil. mu is held.
func (r *Run) usable() error {
	if r.closed {
		return ErrClosed
	}
	return r.failed
}

// prepare waits until the queue has room for the rollout and encodes it, for the view as
// well if asked to.
func (r *Run) prepare(ctx context.Context, rollout *Rollout, view bool) (request, error) {
	size := int64(2048)
	for _, m := range rollout.Messages {
		size += int64(len(m.JSON())) + 1
	}
	q := request{weight: min(2*size, r.settings.memory)}
	if err := r.memory.Acquire(ctx, q.weight); err != nil {
		return request{}, fmt.Errorf("wait for the disk: %w", err)
	}
	line, err := AppendRollout(make([]byte, 0, size+1024), rollout)
	if err != nil {
		r.memory.Release(q.weight)
		return request{}, err
	}
	q.line = append(line, '\n')
	q.entry = entryOf(rollout, int64(len(line)))
	if view {
		q.view = append(r.convert.Append(nil, rollout), '\n')
	}
	return q, nil
}

func entryOf(r *Rollout, length int64) Entry {
	e := Entry{
		Key:        r.Key(),
		ID:         r.ID,
		ItemDigest: r.ItemDigest,
		Group:      r.Group,
		Outcome:    r.Outcome,
		Tampering:  KindsOfTampering(BoundTampering(r.Tampering)),
		TestLimits: TestLimitsOf(r.Metadata),
		TurnsUsed:  r.TurnsUsed,
		Usage:      EntryUsage{r.Usage.PromptTokens, r.Usage.CompletionTokens},
		Timings: EntryTimings{
			Total: microseconds(r.Timings.Total), Model: microseconds(r.Timings.Model), Held: microseconds(r.Timings.Held), Tools: microseconds(r.Timings.Tools),
			Sandbox: microseconds(r.Timings.Sandbox), Verify: microseconds(r.Timings.Verify), Harness: microseconds(r.Timings.Harness),
		},
		finished:  r.FinishedAt.UnixMilli(),
		modelTurn: r.HasModelTurn(),

		SandboxEnds: r.SandboxEnds(),
		length:      length,
	}
	e.Spend = entrySpend(r.Spend, e.Usage, r.Usage.CachedTokens, r.TurnsUsed)
	if r.Score != nil {
		score := *r.Score
		e.Score = &score
	}
	if r.Passed != nil {
		passed := *r.Passed
		e.Passed = &passed
	}
	return e
}

// exclusive runs an operation in the writer goroutine, between two commits.
func (r *Run) exclusive(operation func() error) error {
	r.mu.Lock()
	if err := r.usable(); err != nil {
		r.mu.Unlock()
		return err
	}
	r.inflight.Add(1)
	r.mu.Unlock()
	result := make(chan error, 1)
	r.queue <- request{operation: operation, done: func(err error) { result <- err }}
	r.inflight.Done()
	return <-result
}

// write is the writer goroutine: the only one that touches the files. Requests
// that came in while the disk was busy are committed together.
func (r *Run) write() {
	defer close(r.done)
	var batch []request
	var buf []byte
	for q := range r.queue {
		batch = append(batch[:0], q)
		size := len(q.line)
	gather:
		for q.operation == nil && len(batch) < commitLines && size < commitBytes {
			select {
			case next, open := <-r.queue:
				if !open {
					break gather
				}
				q = next
				batch = append(batch, q)
				size += len(q.line)
			default:
				break gather
			}
		}
		// An operation ends the batch it came in, so it is always the last.
		lines := batch
		if q.operation != nil {
			lines = batch[:len(batch)-1]
		}
		buf = r.commit(lines, buf[:0])
		_ = r.archiveIfLarge() // what fails ends the recording
		if q.operation != nil {
			q.done(r.operate(q.operation))
		}
		clear(batch)
		if cap(buf) > 2*commitBytes {
			buf = nil
		}
	}
}

func (r *Run) operate(operation func() error) error {
	r.mu.Lock()
	failed := r.failed
	r.mu.Unlock()
	if failed != nil {
		return failed
	}
	return operation()
}

// commit makes the lines durable, acknowledges them and writes the view behind.
func (r *Run) commit(all []request, buf []byte) []byte {
	var batch, conversations []request
	for _, q := range all {
		if q.waiting != nil {
			conversations = append(conversations, q)
		} else {
			batch = append(batch, q)
		}
	}
	if len(conversations) > 0 {
		err := r.commitWaiting(conversations)
		if err != nil {
			r.mu.Lock()
			if r.failed == nil {
				r.failed = err
			}
			r.mu.Unlock()
		}
		for _, q := range conversations {
			r.memory.Release(q.weight)
			q.done(err)
		}
	}
	if len(batch) == 0 {
		return buf
	}
	for i := range batch {
		batch[i].entry.offset = r.size + int64(len(buf))
		buf = append(buf, batch[i].line...)
	}
	r.mu.Lock()
	err := r.failed
	r.mu.Unlock()
	if err == nil {
		err = r.persist(buf)
	}
	frame := indexFrame{rollouts: spanOf(buf)}
	r.mu.Lock()
	if err != nil {
		if r.failed == nil {
			r.failed = err
		}
		for _, q := range batch {
			r.index.release(q.entry.Key)
		}
	} else {
		r.size += int64(len(buf))
		for _, q := range batch {
			r.index.add(q.entry)
			if before := r.dropWaiting(q.entry.Key); before != nil && before.ID == q.entry.ID {
				r.spent.Remove(*before) // part of the cost of the new record
			}
			r.spent.Add(q.entry)
			frame.entries = append(frame.entries, q.entry)
		}
	}
	r.mu.Unlock()
	for _, q := range batch {
		q.done(err)
	}
	if err == nil {
		buf, err = r.writeView(batch, buf[:0])
	}
	if err == nil {
		frame.view = spanOf(buf)
		r.extendIndex(&frame)
	}
	for _, q := range batch {
		r.memory.Release(q.weight)
	}
	return buf
}

// persist writes and syncs; on any error it takes back what may have been
// written in part, so that the file ends with the last acknowledged line.
func (r *Run) persist(buf []byte) error {
	if err := r.present(); err != nil {
		return diskFailure("write "+r.path(rolloutsFile), err)
	}
	_, err := r.rollouts.Write(buf)
	if err == nil {
		// Not tried again when it fails: the kernel may already have dropped the
		// pages it could not write, and a second sync would report success.
		err = r.rollouts.Sync()
	}
	if err == nil {
		return nil
	}
	if undo := errors.Join(r.rollouts.Truncate(r.size), r.rollouts.Sync()); undo != nil {
		err = fmt.Errorf("%w (and taking back the part already written: %w)", err, undo)
	}
	return diskFailure("write "+r.path(rolloutsFile), err)
}

// present says whether rollouts.jsonl is still where the next session looks for it. Who
// removes a run directory while hours of paid work go into it shall hear of it at once.
func (r *Run) present() error {
	info, err := os.Stat(r.path(rolloutsFile))
	if isMissing(err) || err == nil && r.file != nil && !os.SameFile(info, r.file) {
		return errGone
	}
	return nil // what else may be wrong shows when it is written
}

// noteFile remembers which file the run writes.
func (r *Run) noteFile() {
	info, err := os.Stat(r.path(rolloutsFile))
	if err != nil {
		info = nil // then its presence alone counts
	}
	r.file = info
}

// writeView appends the trajectories of recorded rollouts. They are derived, so a
// kill in here costs nothing: the next resume writes what is missing.
func (r *Run) writeView(batch []request, buf []byte) ([]byte, error) {
	for _, q := range batch {
		buf = append(buf, q.view...)
	}
	if len(buf) == 0 {
		return buf, nil
	}
	_, err := r.view.Write(buf)
	if err != nil {
		err = r.fail("write "+r.path(trajectoriesFile), err)
	}
	return buf, err
}
