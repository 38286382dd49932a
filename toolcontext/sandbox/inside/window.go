package inside

import (
	"sync/atomic"
	"time"
)

// A window grows while a whole one is read within eager, or within little more than
// the stream's round trip: then the other side may have been waiting for leave to send. A slower
// stream keeps a small one, so that what others send does not queue behind it.
const eager = 20 * time.Millisecond

// window is how much the other side of a channel may send before it is read.
type window struct {
	size     int // bytes that may be under way, unread
	allowed  int // bytes the other side may still send
	consumed int // bytes read that it has not been told of

	since  time.Time // when the reading of this window's worth began
	amount int       // bytes of it

	received, mark int64         // bytes that have come; more than mark are an answer to a grant
	granted        time.Time     // when that was sent; zero where none is awaited
	trip           time.Duration // shortest time from a grant to what it allowed; 0 is not known
}

func newWindow() window { return window{size: firstWindow, allowed: firstWindow} }

// take notes that bytes have come, and reports whether they were allowed.
func (w *window) take(n int) bool {
	if n > w.allowed {
		return false
	}
	w.allowed -= n
	w.received += int64(n)
	if !w.granted.IsZero() && w.received > w.mark {
		if trip := time.Since(w.granted); w.trip == 0 || trip < w.trip {
			w.trip = trip
		}
		w.granted = time.Time{}
	}
	return true
}

// read notes that bytes have been read, and returns how many more the other side
// is to be allowed; mostly none, so that grants are few.
func (w *window) read(n int, growth *atomic.Int64) int {
	w.consumed += n
	w.amount += n
	if w.consumed < w.size/4 {
		return 0
	}
	now := time.Now()
	grant := w.consumed
	if w.amount >= w.size {
		if !w.since.IsZero() && now.Sub(w.since) < max(eager, w.trip+w.trip/4) {
			grant += w.grow(growth)
		}
		w.since, w.amount = now, 0
	} else if w.since.IsZero() {
		w.since, w.amount = now, 0
	}
	if w.granted.IsZero() {
		w.granted, w.mark = now, w.received+int64(w.allowed)
	}
	w.consumed = 0
	w.allowed += grant
	return grant
}

// grow doubles the window as far as it and the others of the stream may grow.
func (w *window) grow(growth *atomic.Int64) int {
	more := min(w.size, maxWindow-w.size)
	if more <= 0 {
		return 0
	}
	if growth.Add(-int64(more)) < 0 {
		growth.Add(int64(more))
		return 0
	}
	w.size += more
	return more
}

// giveBack lets other channels have what this one has grown by.
func (w *window) giveBack(growth *atomic.Int64) {
	growth.Add(int64(w.size - firstWindow))
	w.size = firstWindow
}
