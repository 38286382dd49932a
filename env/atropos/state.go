package atropos

import (
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"strconv"

	"github.com/hermes-env/hermes-env/agentloop/chat"
)

// maxAnswers is how many posts with idempotency keys are remembered.
const maxAnswers = 100_000

// State is everything the server knows but the data of the groups. It changes only
// through Apply; the methods that decide return the event that was applied, or nil
// when nothing changed. It must not be used by two goroutines at once.
type State struct {
	saved
	rules   Rules
	entries map[uint64]*Entry  // in the queue, buffers and batches
	answers map[string]*Answer // by key
	sizes   tally
	senders map[sender]*tally // of the queue
	runtime []workerRuntime   // by worker, not saved
	waiting bool              // the trainer's last question found no batch; not saved
	stuck   bool              // and this though there were enough sequences; not saved
	dropped func(*Entry)
}

// saved is the part of the state that a snapshot holds.
type saved struct {
	Generation string       `json:"generation"` // random; begins the IDs of batches
	Registered bool         `json:"registered"`
	Trainer    Registration `json:"trainer"`
	Known      bool         `json:"known"` // Trainer has been set, be it before a reset
	Started    bool         `json:"started"`
	Step       int64        `json:"step"`
	Workers    []*Worker    `json:"workers,omitempty"`
	Queue      []*Entry     `json:"queue,omitempty"`
	Batches    []*Batch     `json:"batches,omitempty"`
	Latest     *Entry       `json:"latest,omitempty"`
	NextEntry  uint64       `json:"next_entry"`
	NextBatch  uint64       `json:"next_batch"`
	Answers    []*Answer    `json:"answers,omitempty"` // oldest first
}

// Batch is a batch that is formed and not delivered.
type Batch struct {
	ID      string   `json:"id"`
	Entries []*Entry `json:"entries"`
	Sent    bool     `json:"sent,omitempty"` // and not acknowledged
	Sending int      `json:"-"`              // replies that are being written
	Tried   bool     `json:"-"`              // a reply with it was begun
}

// Sequences counts those of the batch.
func (b *Batch) Sequences() int64 {
	var n int64
	for _, e := range b.Entries {
		n += e.Sequences
	}
	return n
}

// sender is who sent a group; nobody, when known is false.
type sender struct {
	known bool
	id    int64
}

func senderOf(e *Entry) sender {
	if e.EnvID == nil {
		return sender{}
	}
	return sender{true, *e.EnvID}
}

// tally counts groups by their size.
type tally struct {
	Amount
	bySize map[int64]int64
}

func (t *tally) add(e *Entry, times int64) {
	t.Groups += times
	t.Sequences += times * e.Sequences
	t.Tokens += times * e.Tokens
	t.Bytes += times * e.Place.Length
	if t.bySize == nil {
		t.bySize = map[int64]int64{}
	}
	if t.bySize[e.Sequences] += times; t.bySize[e.Sequences] == 0 {
		delete(t.bySize, e.Sequences)
	}
}

func (t *tally) largest() int64 {
	var largest int64
	for size := range t.bySize {
		largest = max(largest, size)
	}
	return largest
}

// NewState returns an empty state. The generation must differ from that of every
// other state whose batches a trainer may remember.
func NewState(rules Rules, generation string) *State {
	s := &State{rules: rules.withDefaults(), entries: map[uint64]*Entry{}, answers: map[string]*Answer{}, senders: map[sender]*tally{}}
	s.Generation = generation
	s.NextEntry, s.NextBatch = 1, 1
	return s
}

// RestoreState reads a snapshot.
func RestoreState(rules Rules, snapshot []byte) (*State, error) {
	s := NewState(rules, "")
	if err := json.Unmarshal(snapshot, &s.saved); err != nil {
		return nil, fmt.Errorf("read a snapshot of the server's state: %w", err)
	}
	s.runtime = make([]workerRuntime, len(s.Workers))
	for _, a := range s.Answers {
		s.answers[a.Key] = a
	}
	for _, e := range s.Queue {
		s.count(e, 1)
	}
	for e := range s.held() {
		if s.entries[e.ID] != nil {
			return nil, fmt.Errorf("read a snapshot of the server's state: group %d is in it twice", e.ID)
		}
		s.entries[e.ID] = e
	}
	if s.Latest != nil {
		if e := s.entries[s.Latest.ID]; e != nil {
			s.Latest = e
		} else {
			s.Latest.gone = true
		}
	}
	return s, nil
}

// Snapshot returns what RestoreState reads.
func (s *State) Snapshot() ([]byte, error) {
	snapshot, err := chat.Marshal(&s.saved)
	if err != nil {
		return nil, fmt.Errorf("write a snapshot of the server's state: %w", err)
	}
	return snapshot, nil
}

// OnDrop sets what is called with every group whose data is no longer needed.
func (s *State) OnDrop(dropped func(*Entry)) { s.dropped = dropped }

// Adopt takes over what is known besides events from a state that holds the same
// events and further ones, which were given up: when workers were heard of, and which
// batches are being sent. The other state must not be used afterwards.
func (s *State) Adopt(other *State) {
	copy(s.runtime, other.runtime)
	for i, b := range s.Batches {
		if sending := other.Batch(b.ID); sending != nil {
			sending.Entries, sending.Sent = b.Entries, b.Sent
			s.Batches[i] = sending
		}
	}
}

// held yields the groups in queue, buffers and batches.
func (s *State) held() iter.Seq[*Entry] {
	return func(yield func(*Entry) bool) {
		for _, e := range s.Queue {
			if !yield(e) {
				return
			}
		}
		for _, w := range s.Workers {
			for _, e := range w.Buffer {
				if !yield(e) {
					return
				}
			}
		}
		for _, b := range s.Batches {
			for _, e := range b.Entries {
				if !yield(e) {
					return
				}
			}
		}
	}
}

// Live yields every group whose data is needed.
func (s *State) Live() iter.Seq[*Entry] {
	return func(yield func(*Entry) bool) {
		for e := range s.held() {
			if !yield(e) {
				return
			}
		}
		if s.Latest != nil && s.Latest.gone {
			yield(s.Latest)
		}
	}
}

// Entry returns a group that is not delivered, or nil.
func (s *State) Entry(id uint64) *Entry {
	if s.Latest != nil && s.Latest.ID == id {
		return s.Latest
	}
	return s.entries[id]
}

// Batch returns a batch that is not delivered, or nil.
func (s *State) Batch(id string) *Batch {
	for _, b := range s.Batches {
		if b.ID == id {
			return b
		}
	}
	return nil
}

// count notes that a group entered the queue, or left it when times is -1.
func (s *State) count(e *Entry, times int64) {
	s.sizes.add(e, times)
	from := senderOf(e)
	t := s.senders[from]
	if t == nil {
		t = &tally{}
		s.senders[from] = t
	}
	if t.add(e, times); t.Groups == 0 {
		delete(s.senders, from)
	}
}

func (s *State) enqueue(e *Entry) {
	s.Queue = append(s.Queue, e)
	s.count(e, 1)
	previous := s.Latest
	s.Latest = e
	if previous != nil && previous.gone {
		s.drop(previous)
	}
}

// discard ends the life of a group.
func (s *State) discard(e *Entry) {
	delete(s.entries, e.ID)
	e.gone = true
	if s.Latest != e {
		s.drop(e)
	}
}

func (s *State) drop(e *Entry) {
	if s.dropped != nil {
		s.dropped(e)
	}
}

// Apply makes a change. Events of a damaged journal may speak of groups and
// batches that are not there: these are passed over.
func (s *State) Apply(e *Event) {
	switch e.Op {
	case OpRegister:
		s.Registered, s.Known, s.Trainer, s.Step = true, true, *e.Trainer, e.Step
	case OpStart:
		s.Started = true
	case OpWorker:
		s.Workers = append(s.Workers, e.Worker)
		s.runtime = append(s.runtime, workerRuntime{})
	case OpDisconnect:
		if w := s.worker(e.Env); w != nil {
			w.Disconnected = true
		}
	case OpRelease:
		if w := s.worker(e.Env); w != nil {
			for _, entry := range w.Buffer {
				s.enqueue(entry)
			}
			w.Buffer = nil
		}
	case OpSize:
		if w := s.worker(e.Env); w != nil {
			w.GroupSize = e.Size
		}
	case OpAdd:
		for _, a := range e.Added {
			s.applyAdded(a)
		}
		s.remember(e.Answered)
	case OpForm:
		s.Step = e.Step
		for _, f := range e.Batches {
			s.applyFormed(f)
		}
	case OpSent:
		if b := s.Batch(e.Batch); b != nil {
			b.Sent = true
		}
	case OpDone:
		if b := s.Batch(e.Batch); b != nil {
			s.removeBatch(b)
			for _, entry := range b.Entries {
				s.discard(entry)
			}
		}
	case OpDissolve:
		if b := s.Batch(e.Batch); b != nil {
			s.removeBatch(b)
			s.Queue = append(slices.Clone(b.Entries), s.Queue...)
			for _, entry := range b.Entries {
				s.count(entry, 1)
			}
		}
	case OpReset:
		s.applyReset()
	case OpMove:
		if entry := s.Entry(e.Entry); entry != nil && e.Place != nil {
			s.drop(entry)
			entry.Place = *e.Place
		}
	case OpLost:
		s.applyLost(e.Entry)
	}
}

func (s *State) applyAdded(a Added) {
	e := a.Entry
	s.entries[e.ID] = e
	s.NextEntry = max(s.NextEntry, e.ID+1)
	if a.Buffer == nil {
		s.enqueue(e)
		return
	}
	w := s.worker(*a.Buffer)
	if w == nil {
		s.enqueue(e) // its worker is missing from a damaged journal: it must not be lost
		return
	}
	w.Buffer = append(w.Buffer, e)
	for _, id := range a.Released {
		i := slices.IndexFunc(w.Buffer, func(b *Entry) bool { return b.ID == id })
		if i < 0 {
			continue
		}
		released := w.Buffer[i]
		w.Buffer = slices.Delete(w.Buffer, i, i+1)
		s.enqueue(released)
	}
}

func (s *State) remember(a *Answer) {
	if a == nil || s.answers[a.Key] != nil {
		return
	}
	s.answers[a.Key] = a
	s.Answers = append(s.Answers, a)
	if len(s.Answers) > maxAnswers {
		delete(s.answers, s.Answers[0].Key)
		s.Answers = s.Answers[1:]
	}
}

func (s *State) applyFormed(f Formed) {
	place := make(map[uint64]int, len(f.Groups))
	for i, id := range f.Groups {
		place[id] = i
	}
	entries := make([]*Entry, len(f.Groups))
	s.Queue = slices.DeleteFunc(s.Queue, func(e *Entry) bool {
		i, ok := place[e.ID]
		if ok {
			entries[i] = e
			s.count(e, -1)
		}
		return ok
	})
	entries = slices.DeleteFunc(entries, func(e *Entry) bool { return e == nil })
	s.Batches = append(s.Batches, &Batch{ID: f.ID, Entries: entries})
	if _, digits, ok := cutLast(f.ID); ok {
		if n, err := strconv.ParseUint(digits, 10, 64); err == nil {
			s.NextBatch = max(s.NextBatch, n+1)
		}
	}
}

func (s *State) removeBatch(b *Batch) {
	s.Batches = slices.DeleteFunc(s.Batches, func(other *Batch) bool { return other == b })
}

// applyReset forgets everything but what the original server keeps: the longest
// sequence, the checkpoint directory and interval, and the latest example.
func (s *State) applyReset() {
	for e := range s.held() {
		s.discard(e)
	}
	s.Registered, s.Started, s.Step = false, false, 0
	kept := s.Trainer
	s.Trainer = Registration{BatchSize: -1, NumSteps: -1, MaxTokenLen: kept.MaxTokenLen, CheckpointDir: kept.CheckpointDir, SaveCheckpointInterval: kept.SaveCheckpointInterval}
	s.Workers, s.runtime, s.Queue, s.Batches = nil, nil, nil, nil
	s.waiting, s.stuck = false, false
	s.sizes, s.senders = tally{}, map[sender]*tally{}
}

// applyLost takes a group out of wherever it is. A batch that had it is dissolved.
func (s *State) applyLost(id uint64) {
	e := s.entries[id]
	is := func(other *Entry) bool { return other.ID == id }
	if e == nil {
		if s.Latest != nil && s.Latest.ID == id {
			s.drop(s.Latest)
			s.Latest = nil
		}
		return
	}
	if slices.ContainsFunc(s.Queue, is) {
		s.Queue = slices.DeleteFunc(s.Queue, is)
		s.count(e, -1)
	}
	for _, w := range s.Workers {
		w.Buffer = slices.DeleteFunc(w.Buffer, is)
	}
	for _, b := range slices.Clone(s.Batches) {
		if slices.ContainsFunc(b.Entries, is) {
			b.Entries = slices.DeleteFunc(b.Entries, is)
			s.Apply(&Event{Op: OpDissolve, Batch: b.ID})
		}
	}
	if s.Latest == e {
		s.Latest = nil
	}
	s.discard(e)
}

// worker returns the worker of an index, or nil.
func (s *State) worker(index int64) *Worker {
	if index < 0 || index >= int64(len(s.Workers)) {
		return nil
	}
	return s.Workers[index]
}

// cutLast cuts text around its last dash.
func cutLast(text string) (before, after string, found bool) {
	for i := len(text) - 1; i >= 0; i-- {
		if text[i] == '-' {
			return text[:i], text[i+1:], true
		}
	}
	return text, "", false
}
