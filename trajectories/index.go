package trajectories

import (
	"fmt"
	"os"
	"slices"
)

// index knows every rollout of rollouts.jsonl by key and by id. It is not safe
// for concurrent use.
type index struct {
	entries []Entry // in the order of the file
	byKey   map[Key]int
	ids     map[string]struct{}
	pending map[Key]string // accepted, not yet on disk; with the id
}

func newIndex() index {
	return index{byKey: map[Key]int{}, ids: map[string]struct{}{}, pending: map[Key]string{}}
}

// grow makes room for so many more entries.
func (x *index) grow(n int) {
	x.entries = slices.Grow(x.entries, n)
	if len(x.byKey) == 0 {
		x.byKey, x.ids = make(map[Key]int, n), make(map[string]struct{}, n)
	}
}

// add records an entry that is on disk.
func (x *index) add(e Entry) {
	delete(x.pending, e.Key)
	x.byKey[e.Key] = len(x.entries)
	x.ids[e.ID] = struct{}{}
	x.entries = append(x.entries, e)
}

// has says whether a rollout with that key is on disk.
func (x *index) has(key Key) bool {
	_, ok := x.byKey[key]
	return ok
}

// hasID says whether a rollout with that id is on disk or on its way there.
func (x *index) hasID(id string) bool {
	_, ok := x.ids[id]
	return ok
}

// conflict says why a rollout of that key and id can not be recorded, or nil.
func (x *index) conflict(key Key, id string) error {
	_, known := x.byKey[key]
	_, waiting := x.pending[key]
	if known || waiting {
		return fmt.Errorf("%w: item %q, step %d, attempt %d", ErrDuplicate, key.ItemID, key.Step, key.Attempt)
	}
	if _, known := x.ids[id]; known {
		return fmt.Errorf("%w: rollout id %q", ErrDuplicate, id)
	}
	return nil
}

// reserve holds a key and an id for a rollout on its way to the disk.
func (x *index) reserve(key Key, id string) error {
	if err := x.conflict(key, id); err != nil {
		return err
	}
	x.pending[key] = id
	x.ids[id] = struct{}{}
	return nil
}

// release gives up a reservation.
func (x *index) release(key Key) {
	if id, ok := x.pending[key]; ok {
		delete(x.ids, id)
		delete(x.pending, key)
	}
}

// Len returns the number of rollouts recorded.
func (r *Run) Len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.index.entries)
}

// Entries returns what the index knows of every recorded rollout, in the order of the file.
func (r *Run) Entries() []Entry {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]Entry(nil), r.index.entries...)
}

// Lookup returns what the index knows of the rollout with that key, and whether there is one.
func (r *Run) Lookup(key Key) (Entry, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	i, ok := r.index.byKey[key]
	if !ok {
		return Entry{}, false
	}
	return r.index.entries[i], true
}

// Load reads one recorded rollout, whole. The error is os.ErrNotExist when
// there is none with that key.
func (r *Run) Load(key Key) (*Rollout, error) {
	// The place of a line changes when Supersede rewrites the file, so the file is
	// opened while the entry is known to be good.
	r.mu.Lock()
	i, ok := r.index.byKey[key]
	if !ok {
		r.mu.Unlock()
		return nil, fmt.Errorf("load the rollout of item %q, step %d, attempt %d: %w", key.ItemID, key.Step, key.Attempt, os.ErrNotExist)
	}
	e := r.index.entries[i]
	f, err := os.Open(r.path(rolloutsFile))
	r.mu.Unlock()
	if err != nil {
		return nil, fmt.Errorf("load rollout %s: %w", e.ID, err)
	}
	line := make([]byte, e.length)
	_, err = f.ReadAt(line, e.offset)
	if err := firstOf(err, f.Close()); err != nil {
		return nil, fmt.Errorf("load rollout %s: %w", e.ID, err)
	}
	rollout, err := DecodeRollout(line)
	if err != nil {
		return nil, fmt.Errorf("load rollout %s from %s: %w: %w", e.ID, r.path(rolloutsFile), ErrCorrupt, err)
	}
	return rollout, nil
}
