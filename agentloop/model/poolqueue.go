package model

import (
	"hash/maphash"
	"slices"
)

// waitQueue is a first-in, first-out queue whose waiters may leave early.
type waitQueue struct {
	list []*waiter
	head int
}

func (q *waitQueue) push(w *waiter) {
	if len(q.list) == cap(q.list) && len(q.list) >= 64 {
		q.compact()
	}
	q.list = append(q.list, w)
}

// insert puts a waiter at its place by order of arrival.
func (q *waitQueue) insert(w *waiter) {
	q.compact()
	at, _ := slices.BinarySearchFunc(q.list, w.sequence, func(other *waiter, sequence uint64) int {
		if other.sequence < sequence {
			return -1
		}
		return 1
	})
	q.list = slices.Insert(q.list, at, w)
}

func (q *waitQueue) peek() *waiter {
	for q.head < len(q.list) {
		if w := q.list[q.head]; !w.gone {
			return w
		}
		q.pop()
	}
	return nil
}

func (q *waitQueue) pop() {
	q.list[q.head] = nil
	if q.head++; q.head == len(q.list) {
		q.list, q.head = q.list[:0], 0
	}
}

// compact drops served and gone waiters.
func (q *waitQueue) compact() {
	kept := q.list[:0]
	for _, w := range q.list[q.head:] {
		if !w.gone {
			kept = append(kept, w)
		}
	}
	clear(q.list[len(kept):])
	q.list, q.head = kept, 0
}

func (q *waitQueue) drain() []*waiter {
	q.compact()
	drained := q.list
	q.list = nil
	return drained
}

func (q *waitQueue) len() int {
	n := 0
	for _, w := range q.list[q.head:] {
		if !w.gone {
			n++
		}
	}
	return n
}

// affinities remembers which server serves which rollout, by a hash of its key: two of the
// same hash share a server. It forgets the rollouts that were quiet longest: when the newer
// half is full it becomes the older one, so that memory stays below a megabyte without
// anyone reporting ends.
type affinities struct {
	seed         maphash.Seed // set with newer
	newer, older map[uint64]int32
	half         int // size of one half, 0 means 16,384
}

func (a *affinities) get(key string) (int, bool) {
	if key == "" || a.newer == nil {
		return 0, false
	}
	hash := maphash.String(a.seed, key)
	if i, ok := a.newer[hash]; ok {
		return int(i), true
	}
	i, ok := a.older[hash]
	return int(i), ok
}

func (a *affinities) set(key string, member int) {
	if key == "" {
		return
	}
	half := a.half
	if half == 0 {
		half = 1 << 14
	}
	if a.newer == nil {
		a.seed = maphash.MakeSeed()
	}
	if a.newer == nil || len(a.newer) >= half {
		a.newer, a.older = make(map[uint64]int32), a.newer
	}
	a.newer[maphash.String(a.seed, key)] = int32(member)
}

func (a *affinities) forget(key string, member int) {
	if i, ok := a.get(key); ok && i == member {
		hash := maphash.String(a.seed, key)
		delete(a.newer, hash)
		delete(a.older, hash)
	}
}
