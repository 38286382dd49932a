package serve

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/hermes-env/hermes-env/agentloop/chat"
	"github.com/hermes-env/hermes-env/env/atropos/journal"
)

// spool keeps finished groups on disk until the server has them, and remembers
// which were sent, also over the end of the process. Its methods may be called from
// several goroutines.
type spool struct {
	log      *journal.Log
	fileSize int64

	mu       sync.Mutex
	state    *spoolState
	live     map[uint64]int64 // bytes of unsent groups, by file
	files    map[uint64]bool  // the older ones, which are no longer written
	snapshot int64            // bytes of the one that the newest file begins with
}

// spoolFileSize is the length at which a file of the spool is followed by another.
const spoolFileSize = 16 << 20

// openSpool opens the spool in a directory, or makes one. The directory is locked
// until close.
func openSpool(dir string, fileSize int64) (*spool, error) {
	if fileSize <= 0 {
		fileSize = spoolFileSize
	}
	s := &spool{fileSize: fileSize, live: map[uint64]int64{}, files: map[uint64]bool{}}
	log, recovered, err := journal.Open(journal.Config{Dir: dir, Snapshot: func() ([]byte, error) {
		run := make([]byte, 8)
		_, _ = rand.Read(run) // never fails, as crypto/rand documents
		return (&spoolState{Run: hex.EncodeToString(run)}).snapshot()
	}})
	if err != nil {
		return nil, fmt.Errorf("open the spool: %w", err)
	}
	s.log = log
	if err := s.recover(recovered); err != nil {
		return nil, errors.Join(fmt.Errorf("open the spool %s: %w", dir, err), log.Close())
	}
	return s, nil
}

func (s *spool) recover(recovered *journal.Recovered) error {
	var err error
	if s.state, err = restoreSpool(recovered.Snapshot); err != nil {
		return err
	}
	s.snapshot = int64(len(recovered.Snapshot))
	for _, r := range recovered.Records {
		var e spoolEvent
		if err := json.Unmarshal(r.Meta, &e); err != nil {
			return fmt.Errorf("read a record: %w", err)
		}
		if e.Parcel != nil {
			e.Parcel.Place.File, e.Parcel.Place.Offset = r.File, r.DataAt
		}
		if err := s.state.apply(&e); err != nil {
			return err
		}
	}
	known := s.log.Files()
	for _, p := range s.state.Pending {
		if !slices.Contains(known, p.Place.File) {
			return fmt.Errorf("the data of the group of step %d is missing: a file of the spool is gone", p.Step)
		}
		s.live[p.Place.File] += p.Place.Length
	}
	for _, f := range known {
		if f != s.log.Tail() {
			s.files[f] = true
		}
	}
	return nil
}

// record writes an event down and returns when it is durable.
func (s *spool) record(e *spoolEvent, data ...[]byte) error {
	number, err := s.enter(e, data...)
	if err != nil {
		return fmt.Errorf("write to the spool: %w", err)
	}
	// Not a context of the run's: what is finished is kept also when the run ends.
	if err := s.log.Wait(context.Background(), number); err != nil {
		return fmt.Errorf("write to the spool: %w", err)
	}
	return nil
}

func (s *spool) enter(e *spoolEvent, data ...[]byte) (int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	meta, err := chat.Marshal(e)
	if err != nil {
		return 0, err
	}
	number, file, at, err := s.log.Append(meta, data...)
	if err != nil {
		return 0, err
	}
	if e.Parcel != nil {
		e.Parcel.Place.File, e.Parcel.Place.Offset = file, at
		s.live[file] += e.Parcel.Place.Length
	}
	if e.Op == opSent || e.Op == opRefused {
		if p := s.find(e.Step); p != nil {
			s.live[p.Place.File] -= p.Place.Length
		}
	}
	if err := s.state.apply(e); err != nil {
		return 0, err
	}
	if s.log.TailSize()-s.snapshot >= max(s.fileSize, 2*s.snapshot) {
		if err := s.rotate(); err != nil {
			return 0, err
		}
		number = s.log.Last() // the snapshot holds the event as well
	}
	return number, nil
}

// rotate begins a new file and lets those go that hold no unsent group. mu is held.
func (s *spool) rotate() error {
	snapshot, err := s.state.snapshot()
	if err != nil {
		return err
	}
	s.snapshot = int64(len(snapshot))
	var unneeded []uint64
	for file := range s.files {
		if s.live[file] <= 0 {
			unneeded = append(unneeded, file)
			delete(s.files, file)
			delete(s.live, file)
		}
	}
	// The newest of the old ones stays, in case the snapshot is damaged one day.
	s.files[s.log.Tail()] = true
	return s.log.Rotate(snapshot, unneeded)
}

func (s *spool) find(step int64) *Parcel {
	for _, p := range s.state.Pending {
		if int64(p.Step) == step {
			return p
		}
	}
	return nil
}

// has says whether the group of a step was spooled, in this process or before.
func (s *spool) has(step int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state.Taken.has(int64(step))
}

// run is the random name of the spool.
func (s *spool) run() string { return s.state.Run }

// add takes a group: packed is its JSON, ready to be sent.
func (s *spool) add(p Parcel, packed []byte) error {
	if s.has(p.Step) {
		return fmt.Errorf("write to the spool: the group of step %d is there already", p.Step)
	}
	p.Place = place{Length: int64(len(packed)), Check: journal.Checksum(packed)}
	p.taken = true // nobody may send it before it is durable
	if err := s.record(&spoolEvent{Op: opAdd, Parcel: &p}, packed); err != nil {
		return err
	}
	s.giveBack(p)
	return nil
}

// take returns the oldest groups that nobody is sending, at most n.
func (s *spool) take(n int) []Parcel {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []Parcel
	for _, p := range s.state.Pending {
		if len(list) == n {
			break
		}
		if !p.taken {
			p.taken = true
			list = append(list, *p)
		}
	}
	return list
}

// giveBack makes a group that was not sent one that can be taken again.
func (s *spool) giveBack(p Parcel) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if known := s.find(int64(p.Step)); known != nil {
		known.taken = false
	}
}

// read returns the packed JSON of a group.
func (s *spool) read(p Parcel) (packed []byte, err error) {
	r, err := s.log.Open(p.Place.File)
	if err != nil {
		return nil, fmt.Errorf("read the group of step %d from the spool: %w", p.Step, err)
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	if packed, err = r.Read(p.Place.Offset, p.Place.Length, p.Place.Check); err != nil {
		return nil, fmt.Errorf("read the group of step %d from the spool: %w", p.Step, err)
	}
	return packed, nil
}

// counts returns how many groups wait, and what became of the others.
func (s *spool) counts() (pending int, sent, refused Tally) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.state.Pending), s.state.Sent, s.state.Refused
}

// look calls see with the state, which must not be kept.
func (s *spool) look(see func(*spoolState)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	see(s.state)
}

// close closes the spool; all that was added is durable.
func (s *spool) close() error { return s.log.Close() }
