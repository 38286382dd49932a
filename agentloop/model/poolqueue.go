package model

import "slices"

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

// affinities remembers which server serves which rollout. It forgets the
// rollouts that were quiet longest: when the newer half is full it becomes the
// older one, so that memory stays bounded without anyone reporting ends.
type affinities struct {
	newer, older map[string]int
	half         int // size of one half, 0 means 65,536
}

func (a *affinities) get(key string) (int, bool) {
	if key == "" {
		return 0, false
	}
	if i, ok := a.newer[key]; ok {
		return i, true
	}
	i, ok := a.older[key]
	return i, ok
}

func (a *affinities) set(key string, member int) {
	if key == "" {
		return
	}
	half := a.half
	if half == 0 {
		half = 1 << 16
	}
	if a.newer == nil || len(a.newer) >= half {
		a.newer, a.older = make(map[string]int), a.newer
	}
	a.newer[key] = member
}

func (a *affinities) forget(key string, member int) {
	if i, ok := a.get(key); ok && i == member {
		delete(a.newer, key)
		delete(a.older, key)
	}
}
