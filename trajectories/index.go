package trajectories

import (
	"fmt"
	"hash/maphash"
	"io"
	"os"
	"slices"
)

// index knows every rollout of rollouts.jsonl by key and by id, in some 50 bytes each:
// keys, ids and digests only by 64 bits of a hash whose seed differs in every process.
// Whatever else is known of a rollout is read from disk. It is not safe for concurrent
// use.
type index struct {
	seed    maphash.Seed
	blocks  [][]slot // in the order of the file; all but the last have blockSlots
	n       int
	base    int // those before it are in the archive
	keys    numbers
	ids     numbers
	pending map[Key]string      // accepted, not yet on disk; with the id
	waiting map[string]struct{} // the ids of pending
}

// slot is what is kept in memory of a rollout.
type slot struct {
	key, id, digest uint64
	offset          int64 // of the line in rollouts.jsonl or in its segment
}

// blockSlots is how many slots are allocated together.
const blockSlots = 2048

func newIndex() index {
	return index{seed: maphash.MakeSeed(), pending: map[Key]string{}, waiting: map[string]struct{}{}}
}

func (x *index) hashKey(key Key) uint64 { return maphash.Comparable(x.seed, key) }

func (x *index) hashText(text string) uint64 { return maphash.String(x.seed, text) }

func (x *index) slot(i int) *slot { return &x.blocks[i/blockSlots][i%blockSlots] }

// add records an entry that is on disk.
func (x *index) add(e Entry) {
	if id, ok := x.pending[e.Key]; ok {
		delete(x.pending, e.Key)
		delete(x.waiting, id)
	}
	x.addSlot(slot{key: x.hashKey(e.Key), id: x.hashText(e.ID), digest: x.hashText(e.ItemDigest), offset: e.offset})
}

func (x *index) addSlot(s slot) {
	if x.n%blockSlots == 0 {
		x.blocks = append(x.blocks, make([]slot, 0, blockSlots))
	}
	last := &x.blocks[len(x.blocks)-1]
	*last = append(*last, s)
	x.keys.add(s.key, x.n, func(i int) uint64 { return x.slot(i).key })
	x.ids.add(s.id, x.n, func(i int) uint64 { return x.slot(i).id })
	x.n++
}

// number returns the place in the file of the rollout with that key.
func (x *index) number(key Key) (i int, ok bool) {
	hash := x.hashKey(key)
	return x.keys.find(hash, func(i int) bool { return x.slot(i).key == hash })
}

// has says whether a rollout with that key is on disk.
func (x *index) has(key Key) bool {
	_, ok := x.number(key)
	return ok
}

// hasID says whether a rollout with that id is on disk or on its way there.
func (x *index) hasID(id string) bool {
	if _, ok := x.waiting[id]; ok {
		return true
	}
	hash := x.hashText(id)
	_, ok := x.ids.find(hash, func(i int) bool { return x.slot(i).id == hash })
	return ok
}

// conflict says why a rollout of that key and id can not be recorded, or nil.
func (x *index) conflict(key Key, id string) error {
	if _, waiting := x.pending[key]; waiting || x.has(key) {
		return fmt.Errorf("%w: item %q, step %d, attempt %d", ErrDuplicate, key.ItemID, key.Step, key.Attempt)
	}
	if x.hasID(id) {
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
	x.waiting[id] = struct{}{}
	return nil
}

// release gives up a reservation.
func (x *index) release(key Key) {
	if id, ok := x.pending[key]; ok {
		delete(x.waiting, id)
		delete(x.pending, key)
	}
}

// end returns where the line of a rollout ends, its newline included; size is that of
// the file.
func (x *index) end(i int, size int64) int64 {
	if i+1 < x.n {
		return x.slot(i + 1).offset
	}
	return size
}

// numbers finds the numbers of slots by a hash: a table with open addressing, at most
// three quarters full. Its owner keeps the hashes.
type numbers struct {
	table []uint32 // number + 1; 0 is free. The length is a power of two
	n     int
}

// find returns the number for which is reports true, among those added with a hash.
func (t *numbers) find(hash uint64, is func(int) bool) (int, bool) {
	if len(t.table) == 0 {
		return 0, false
	}
	mask := uint64(len(t.table) - 1)
	for at := hash & mask; t.table[at] != 0; at = (at + 1) & mask {
		if i := int(t.table[at]) - 1; is(i) {
			return i, true
		}
	}
	return 0, false
}

// add adds a number; hashOf returns the hash of one that was added before.
func (t *numbers) add(hash uint64, number int, hashOf func(int) uint64) {
	if 4*(t.n+1) > 3*len(t.table) {
		old := t.table
		t.table = make([]uint32, max(64, 2*len(old)))
		for _, entry := range old {
			if entry != 0 {
				t.put(hashOf(int(entry)-1), entry)
			}
		}
	}
	t.put(hash, uint32(number)+1)
	t.n++
}

func (t *numbers) put(hash uint64, entry uint32) {
	mask := uint64(len(t.table) - 1)
	at := hash & mask
	for t.table[at] != 0 {
		at = (at + 1) & mask
	}
	t.table[at] = entry
}

// Len returns the number of rollouts recorded.
func (r *Run) Len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.index.n
}

// Recorded says whether a rollout with that key is recorded, and whether it is one of
// an item with that digest. It knows both without reading.
func (r *Run) Recorded(key Key, digest string) (recorded, same bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	i, ok := r.index.number(key)
	return ok, ok && r.index.slot(i).digest == r.index.hashText(digest)
}

// Lookup reads what the index knows of the rollout with that key, and says whether
// there is one.
func (r *Run) Lookup(key Key) (Entry, bool) {
	line, offset, err := r.readLine(key)
	if err != nil {
		return Entry{}, false
	}
	e, err := parseEntry(line)
	if err != nil || e.Key != key {
		return Entry{}, false
	}
	e.offset, e.length = offset, int64(len(line))
	return e, true
}

// readLine reads the line of the rollout with that key. The error is os.ErrNotExist when
// there is none.
func (r *Run) readLine(key Key) (line []byte, offset int64, err error) {
	// The place of a line changes when Supersede rewrites the file, so the file is
	// opened while the place is known to be good.
	r.mu.Lock()
	i, ok := r.index.number(key)
	if !ok {
		r.mu.Unlock()
		return nil, 0, os.ErrNotExist
	}
	offset = r.index.slot(i).offset
	if i < r.index.base {
		s := *r.segmentOf(i)
		end := s.bytes
		if i+1 < s.first+s.n {
			end = r.index.slot(i + 1).offset
		}
		r.mu.Unlock()
		line, err = readArchived(r.dir, s.number, offset, end-1-offset)
		return line, offset, err
	}
	end := r.index.end(i, r.size)
	f, err := os.Open(r.path(rolloutsFile))
	r.mu.Unlock()
	if err != nil {
		return nil, 0, err
	}
	line = make([]byte, end-1-offset)
	_, err = f.ReadAt(line, offset)
	return line, offset, firstOf(err, f.Close())
}

// Load reads one recorded rollout, whole. The error is os.ErrNotExist when
// there is none with that key.
func (r *Run) Load(key Key) (*Rollout, error) {
	line, _, err := r.readLine(key)
	if err != nil {
		return nil, fmt.Errorf("load the rollout of item %q, step %d, attempt %d: %w", key.ItemID, key.Step, key.Attempt, err)
	}
	rollout, err := DecodeRollout(line)
	if err != nil {
		return nil, fmt.Errorf("load the rollout of item %q, step %d, attempt %d from %s: %w: %w", key.ItemID, key.Step, key.Attempt, r.path(rolloutsFile), ErrCorrupt, err)
	}
	return rollout, nil
}

// Entries reads what the index knows of every recorded rollout, in the order of the
// file. For many rollouts EachEntry needs less memory.
func (r *Run) Entries() []Entry {
	var entries []Entry
	_ = r.EachEntry(func(e Entry) error { // what can't be read is left out
		entries = append(entries, e)
		return nil
	})
	return entries
}

// EachEntry calls visit with what the index knows of every rollout recorded when it is
// called, in the order of the file. It stops at the first error of visit, which it
// returns unchanged. The run must not be superseded meanwhile, and visit must not record.
func (r *Run) EachEntry(visit func(Entry) error) error {
	r.moving.RLock()
	defer r.moving.RUnlock()
	r.mu.Lock()
	segments := slices.Clone(r.segments)
	r.mu.Unlock()
	for _, s := range segments {
		if err := eachArchived(r.dir, s.number, visit); err != nil {
			return err
		}
	}
	return r.eachEntry(0, visit)
}

// eachEntry is EachEntry for the rollouts in rollouts.jsonl, from a number on.

func (r *Run) eachEntry(from int, visit func(Entry) error) error {
	r.mu.Lock()
	base := r.index.base
	n, size := r.index.n-base, r.size
	unindexed := r.unindexed
	offset := func(i int) int64 {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.index.slot(base + i).offset
	}
	r.mu.Unlock()
	if from >= n {
		return nil
	}
	if r.interim != nil {
		return r.interim(from, visit)
	}
	var start int64
	next := 0 // the first entry that has not been seen
	var failed error
	trusted := int(r.trusted.Load())
	first := n - len(unindexed)
	var frames *frameStream
	if len(unindexed) > 0 && from >= first {
		next = first
	} else {
		frames = r.openFrames()
	}
	for frames != nil && next < min(n, trusted) && failed == nil {
		content, err := frames.content()
		if err != nil {
			break
		}
		f, err := parseSpans(content)
		if err != nil {
			break
		}
		if next+f.entries <= from {
			next += f.entries
			start += f.rollouts.length
			continue
		}
		entries, err := frames.parse(content)
		if err != nil || offset(next) != start || next+f.entries > n || next+f.entries > trusted {
			break // of another state of the file
		}
		for _, e := range entries {
			e.offset = start
			start += e.length + 1
			if next++; next > from {
				if failed = visit(e); failed != nil {
					break
				}
			}
		}
	}
	frames.close()
	if failed != nil {
		return failed
	}
	if len(unindexed) > 0 && next >= first {
		for _, e := range unindexed[next-first:] {
			if next++; next > from {
				if err := visit(e); err != nil {
					return err
				}
			}
		}
	}
	if next >= n {
		return nil
	}
	next = max(next, from)
	return r.parseFrom(offset(next), size, visit)
}

// parseFrom reads entries off rollouts.jsonl.
func (r *Run) parseFrom(offset, size int64, visit func(Entry) error) (err error) {
	f, err := os.Open(r.path(rolloutsFile))
	if err != nil {
		return err
	}
	defer closeInto(&err, f)
	lines := newLineReader(io.NewSectionReader(f, offset, size-offset))
	lines.end = offset
	return parseLines(lines, func(l scannedLine) error {
		if l.err != nil {
			return fmt.Errorf("%w: %s at byte %d: %w", ErrCorrupt, r.path(rolloutsFile), l.offset, l.err)
		}
		l.entry.offset, l.entry.length = l.offset, l.length
		return visit(l.entry)
	})
}

// trustAll is the number of entries for which rollouts.index is believed while this
// process writes it.
const trustAll = int64(1) << 31
