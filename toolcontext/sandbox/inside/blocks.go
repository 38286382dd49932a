package inside

import "sync"

// block has room for one frame: its header and then as much as a frame may carry.
type block [headerSize + maxPayload]byte

// blocks keeps the blocks of one stream for the next frame. What is not used again
// soon is garbage, so that a stream nothing happens on holds none. The zero value
// is ready.
type blocks struct{ pool sync.Pool }

func (b *blocks) get() *block {
	if have, ok := b.pool.Get().(*block); ok {
		return have
	}
	return new(block)
}

// put takes a block that nobody uses any more; nil is none.
func (b *blocks) put(done *block) {
	if done != nil {
		b.pool.Put(done)
	}
}

// piece is a part of what a channel has received. Where it fills most of a block it
// is that block's and was never copied.
type piece struct {
	bytes []byte
	whole *block // nil where the bytes are their own
}

// queue is what a channel has received and not read. Its memory is at most a small
// multiple of its bytes, however small the frames they came in.
type queue struct {
	pieces []piece
	off    int // bytes read of the first
	size   int // bytes not read
}

// push adds the bytes of a frame. Those of a block are taken over.
func (q *queue) push(p []byte, whole *block) {
	q.size += len(p)
	switch last := len(q.pieces) - 1; {
	case len(p) == 0:
	case whole != nil:
		q.pieces = append(q.pieces, piece{p, whole})
	case last >= 0 && q.pieces[last].whole == nil && cap(q.pieces[last].bytes)-len(q.pieces[last].bytes) >= len(p):
		q.pieces[last].bytes = append(q.pieces[last].bytes, p...)
	default:
		room := max(len(p), 512)
		if last >= 0 {
			room = max(room, min(2*cap(q.pieces[last].bytes), copied))
		}
		q.pieces = append(q.pieces, piece{bytes: append(make([]byte, 0, room), p...)})
	}
}

// read moves bytes to p and gives blocks that are done with back.
func (q *queue) read(p []byte, free *blocks) int {
	n := 0
	for n < len(p) && len(q.pieces) > 0 {
		first := q.pieces[0]
		k := copy(p[n:], first.bytes[q.off:])
		n += k
		if q.off += k; q.off < len(first.bytes) {
			break
		}
		q.off = 0
		q.pieces[0] = piece{}
		if q.pieces = q.pieces[1:]; len(q.pieces) == 0 {
			q.pieces = nil
		}
		free.put(first.whole)
	}
	q.size -= n
	return n
}
