package server

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/hermes-env/hermes-env/agentloop/chat"
	"github.com/hermes-env/hermes-env/env/atropos"
	"github.com/hermes-env/hermes-env/env/atropos/journal"
)

// store is the state and the journal that keeps it. mu guards the state and the
// order of the journal's records; it is held for decisions only, never for input or
// output. A reply may be sent when the record of what it tells is durable.
type store struct {
	config Config
	log    *journal.Log

	mu       sync.Mutex
	state    *atropos.State
	live     map[uint64]int64 // bytes that are needed, by file
	sizes    map[uint64]int64 // bytes of files that are no longer written, by file
	room     chan struct{}    // closed and replaced when groups leave
	moving   bool             // compact runs
	snapshot int64            // bytes of the one that the newest file begins with

	disk       string // why the disk takes no posts now, or ""
	short      shortage
	rolledBack error // the failure of the journal after which the state was made anew

	lost    int64
	working sync.WaitGroup
	stopped chan struct{}
}

func openStore(config Config) (*store, error) {
	s := &store{config: config, live: map[uint64]int64{}, sizes: map[uint64]int64{}, room: make(chan struct{}), stopped: make(chan struct{})}
	log, recovered, err := journal.Open(journal.Config{Dir: config.Dir, NoSync: config.NoSync, Repair: config.Repair, Snapshot: s.firstSnapshot, Write: config.write})
	if err != nil {
		return nil, err
	}
	s.log = log
	if err := s.recover(recovered); err != nil {
		return nil, errors.Join(fmt.Errorf("open state directory %s: %w", config.Dir, err), log.Close())
	}
	s.working.Add(1)
	go s.watchDisk()
	return s, nil
}

func (s *store) firstSnapshot() ([]byte, error) {
	generation := make([]byte, 6)
	if _, err := rand.Read(generation); err != nil {
		return nil, err
	}
	return atropos.NewState(s.config.Rules, hex.EncodeToString(generation)).Snapshot()
}

// recover makes the state from what the journal held.
func (s *store) recover(recovered *journal.Recovered) error {
	missing, err := s.restore(recovered)
	if err != nil {
		return err
	}
	if len(missing) > 0 && !s.config.Repair {
		return fmt.Errorf("the data of %d groups is missing: files of the directory are gone (--repair goes on without them)", len(missing))
	}
	for _, id := range missing {
		if _, err := s.record(s.state.Lost(id)); err != nil {
			return err
		}
	}
	if recovered.Torn > 0 {
		s.config.Log.Warn("cut off records that were being written when the server died, and that nobody was told of", "bytes", recovered.Torn)
	}
	for _, place := range recovered.Damaged {
		s.config.Log.Error("passed over damaged records", "place", place)
	}
	return nil
}

// restore makes the state from a snapshot and the events after it, and returns the
// groups whose data is missing.
func (s *store) restore(recovered *journal.Recovered) (missing []uint64, err error) {
	state, err := atropos.RestoreState(s.config.Rules, recovered.Snapshot)
	if err != nil {
		return nil, err
	}
	for _, r := range recovered.Records {
		var event atropos.Event
		if err := json.Unmarshal(r.Meta, &event); err != nil {
			return nil, fmt.Errorf("read a record of the journal: %w (was it written by a newer version?)", err)
		}
		locate(&event, r.File, r.DataAt)
		state.Apply(&event)
	}
	live, sizes := map[uint64]int64{}, map[uint64]int64{}
	for _, f := range s.log.Files() {
		if sizes[f], err = s.log.FileSize(f); err != nil {
			return nil, err
		}
	}
	for e := range state.Live() {
		live[e.Place.File] += e.Place.Length
		if _, ok := sizes[e.Place.File]; !ok {
			missing = append(missing, e.ID)
		}
	}
	state.OnDrop(s.dropped)
	state.Awake(s.config.now())
	s.state, s.live, s.sizes, s.snapshot = state, live, sizes, int64(len(recovered.Snapshot))
	return missing, nil
}

// locate turns the places in an event, which count from the start of the data that
// came with it, into places in the journal.
func locate(e *atropos.Event, file uint64, dataAt int64) {
	for _, a := range e.Added {
		a.Entry.Place.File = file
		a.Entry.Place.Offset += dataAt
	}
	if e.Place != nil {
		e.Place.File = file
		e.Place.Offset += dataAt
	}
}

// record writes an event down, with the data that belongs to it, and returns the
// number to wait for. mu is held, and has been since the event was applied.
func (s *store) record(e *atropos.Event, data ...[]byte) (int64, error) {
	if e == nil {
		return -1, nil
	}
	meta, err := chat.Marshal(e)
	if err != nil {
		return -1, fmt.Errorf("write down an event: %w", err)
	}
	number, file, dataAt, err := s.log.Append(meta, data...)
	if err != nil {
		return -1, err
	}
	locate(e, file, dataAt)
	for _, d := range data {
		s.live[file] += int64(len(d))
	}
	switch e.Op {
	case atropos.OpDone, atropos.OpReset, atropos.OpLost:
		close(s.room)
		s.room = make(chan struct{})
	}
	if s.long() {
		if err := s.rotate(); err != nil {
			return -1, err
		}
	}
	return number, nil
}

// long says whether the newest file of the journal has grown enough: a snapshot of
// a long queue is large itself, and must not be written for every few records.
func (s *store) long() bool {
	return s.log.TailSize()-s.snapshot >= max(s.config.FileSize, 2*s.snapshot)
}

// rotate begins a new file of the journal and lets those go that nothing needs.
// The newest of the old ones stays, in case the snapshot is damaged one day.
func (s *store) rotate() error {
	snapshot, err := s.state.Snapshot()
	if err != nil {
		return err
	}
	s.snapshot = int64(len(snapshot))
	tail := s.log.Tail()
	s.sizes[tail] = s.log.TailSize()
	var unneeded []uint64
	for file := range s.sizes {
		if file < tail && s.live[file] <= 0 {
			unneeded = append(unneeded, file)
			delete(s.sizes, file)
			delete(s.live, file)
		}
	}
	if err := s.log.Rotate(snapshot, unneeded); err != nil {
		return err
	}
	if !s.moving && s.sparse(tail) != 0 {
		s.moving = true
		s.working.Add(1)
		go s.compact(tail)
	}
	return nil
}

// sparse returns a file older than tail of which less than a quarter is needed, or 0.
func (s *store) sparse(tail uint64) uint64 {
	for file, size := range s.sizes {
		if file < tail && s.live[file] > 0 && s.live[file] < size/4 {
			return file
		}
	}
	return 0
}

// compact copies what is needed of sparse files to the end of the journal, so that
// they can go: a few groups that nobody fetches must not keep all files for ever.
func (s *store) compact(tail uint64) {
	defer s.working.Done()
	for {
		s.mu.Lock()
		file := s.sparse(tail)
		var entries []*atropos.Entry
		var places []atropos.Place
		if file != 0 {
			for e := range s.state.Live() {
				if e.Place.File == file {
					entries = append(entries, e)
					places = append(places, e.Place)
				}
			}
		}
		if len(entries) == 0 {
			s.moving = false
			s.mu.Unlock()
			return
		}
		s.mu.Unlock()
		for i, e := range entries {
			if err := s.move(e.ID, places[i]); err != nil {
				s.config.Log.Error("could not move a group to a newer file of the journal", "group", e.ID, "error", err)
				s.mu.Lock()
				s.moving = false
				s.mu.Unlock()
				return
			}
			select {
			case <-s.stopped:
				return
			default:
			}
		}
	}
}

func (s *store) move(id uint64, place atropos.Place) error {
	reader, err := s.log.Open(place.File)
	if err != nil {
		return err
	}
	data, err := reader.Read(place.Offset, place.Length, place.Check)
	if err = errors.Join(err, reader.Close()); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	entry := s.state.Entry(id)
	if entry == nil || entry.Place != place {
		return nil // delivered meanwhile
	}
	// The event is applied after it is written: only then is the new place known.
	event := &atropos.Event{Op: atropos.OpMove, Entry: id, Place: &atropos.Place{Length: place.Length, Check: place.Check}}
	meta, err := chat.Marshal(event)
	if err != nil {
		return err
	}
	_, file, dataAt, err := s.log.Append(meta, data)
	if err != nil {
		return err
	}
	locate(event, file, dataAt)
	s.live[file] += place.Length
	s.state.Apply(event)
	if s.long() {
		return s.rotate()
	}
	return nil
}

// dropped is called by the state for groups whose data is no longer needed there.
func (s *store) dropped(e *atropos.Entry) {
	s.live[e.Place.File] -= e.Place.Length
}

// full says why no more groups can be taken now, or "". mu is held.
func (s *store) full(sequences, bytes int64) string {
	held := s.state.Held()
	if held.Groups == 0 {
		return ""
	}
	if held.Sequences+sequences > s.config.MaxSequences {
		return fmt.Sprintf("%d sequences wait for the trainer, and the limit is %d", held.Sequences, s.config.MaxSequences)
	}
	if held.Bytes+bytes > s.config.MaxBytes {
		return fmt.Sprintf("%d bytes wait for the trainer, and the limit is %d", held.Bytes, s.config.MaxBytes)
	}
	return ""
}

// decide runs a decision under the lock, writes its event down and waits until all
// it can have seen is durable.
func (s *store) decide(ctx context.Context, decision func(*atropos.State) (*atropos.Event, error)) error {
	number, err := s.change(decision)
	if err != nil {
		return err
	}
	return s.log.Wait(ctx, number)
}

// change is decide without the wait, whose number it returns.
func (s *store) change(decision func(*atropos.State) (*atropos.Event, error)) (int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.log.Failed(); err != nil {
		return -1, err
	}
	event, err := decision(s.state)
	if _, failed := s.record(event); failed != nil {
		return -1, failed
	}
	if err != nil {
		return -1, err
	}
	return s.log.Last(), nil
}

// look runs a function that only reads the state.
func (s *store) look(read func(*atropos.State)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	read(s.state)
}

func (s *store) close() error {
	close(s.stopped)
	s.working.Wait()
	return s.log.Close()
}
