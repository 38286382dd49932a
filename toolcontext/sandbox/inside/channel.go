package inside

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"sync"
)

// errStopped is what writing to a channel returns when the other side reads no more.
var errStopped = errors.New("the other side reads no more")

// channel is one request under way: a stream of bytes in each direction, neither
// with more bytes unread than its window.
type channel struct {
	m  *mux
	id uint32

	mu      sync.Mutex
	changed sync.Cond
	in      queue  // received and not read
	window  window // what the other side may send
	inEnd   error  // what follows in; nil while more may come
	credit  int    // bytes this side may still send
	outEnd  error  // why this side may send no more

	gaveUp   bool   // the client has cancelled, or is told to have
	onCancel func() // server: what to do then
}

func newChannel(m *mux, id uint32) *channel {
	ch := &channel{m: m, id: id, window: newWindow(), credit: firstWindow}
	ch.changed.L = &ch.mu
	return ch
}

// received takes the bytes of a frame from the other side.
func (ch *channel) received(f frame, last bool) error {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	if !ch.window.take(len(f.payload)) {
		return fmt.Errorf("%w: channel %d sends %d bytes where %d are allowed", errProtocol, ch.id, len(f.payload), ch.window.allowed)
	}
	if ch.inEnd != nil { // this side reads no more
		ch.m.free.put(f.whole)
		return nil
	}
	ch.in.push(f.payload, f.whole)
	if last {
		ch.inEnd = io.EOF
		if ch.outEnd == nil && ch.m.client { // the answer is complete
			ch.outEnd = errStopped
		}
	}
	ch.changed.Broadcast()
	return nil
}

// failed takes the other side's failure: the request is over.
func (ch *channel) failed(payload []byte) {
	ch.abort(decodeFailure(payload))
}

// abort ends both directions.
func (ch *channel) abort(err error) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	if ch.inEnd == nil {
		ch.inEnd = err
	}
	if ch.outEnd == nil {
		ch.outEnd = err
	}
	ch.changed.Broadcast()
}

// abortInput ends what this side reads.
func (ch *channel) abortInput(err error) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	if ch.inEnd == nil {
		ch.inEnd = err
	}
	ch.changed.Broadcast()
}

// cancelled notes that the client has given the request up.
func (ch *channel) cancelled() {
	ch.mu.Lock()
	then := ch.onCancel
	first := !ch.gaveUp
	ch.gaveUp = true
	ch.mu.Unlock()
	if first && then != nil {
		then()
	}
}

// whenCancelled says what to do when the client gives up, also when it has.
func (ch *channel) whenCancelled(then func()) {
	ch.mu.Lock()
	ch.onCancel = then
	already := ch.gaveUp
	ch.mu.Unlock()
	if already {
		then()
	}
}

func (ch *channel) stopped() {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	if ch.outEnd == nil {
		ch.outEnd = errStopped
	}
	ch.changed.Broadcast()
}

func (ch *channel) granted(n uint32) error {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	if uint64(n)+uint64(ch.credit) > math.MaxInt32 {
		return fmt.Errorf("%w: channel %d allows %d bytes more", errProtocol, ch.id, n)
	}
	ch.credit += int(n)
	ch.changed.Broadcast()
	return nil
}

// Read reads what the other side sent.
func (ch *channel) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	ch.mu.Lock()
	for ch.in.size == 0 && ch.inEnd == nil {
		ch.changed.Wait()
	}
	if ch.in.size == 0 {
		defer ch.mu.Unlock()
		return 0, ch.inEnd
	}
	n := ch.in.read(p, &ch.m.free)
	grant := 0
	if ch.inEnd == nil {
		grant = ch.window.read(n, &ch.m.growth)
	}
	ch.mu.Unlock()
	if grant > 0 {
		// A failure to send shows in the next Read.
		_ = ch.m.send(frameWindow, ch.id, binary.BigEndian.AppendUint32(nil, uint32(grant)))
	}
	return n, nil
}

// reserve waits until something may be sent, and returns how many of n bytes.
func (ch *channel) reserve(n int) (int, error) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	for ch.credit == 0 && n > 0 && ch.outEnd == nil {
		ch.changed.Wait()
	}
	if ch.outEnd != nil {
		return 0, ch.outEnd
	}
	k := min(n, ch.credit, maxPayload)
	ch.credit -= k
	return k, nil
}

// Write sends bytes, as the other side reads them.
func (ch *channel) Write(p []byte) (int, error) {
	sent := 0
	for sent < len(p) {
		k, err := ch.reserve(len(p) - sent)
		if err != nil {
			return sent, err
		}
		if err := ch.m.send(frameData, ch.id, p[sent:sent+k]); err != nil {
			return sent, err
		}
		sent += k
	}
	return sent, nil
}

// place sends the first n bytes of a block's payload, which is overwritten.
func (ch *channel) place(b *block, n int) error {
	for sent := 0; sent < n; {
		k, err := ch.reserve(n - sent)
		if err != nil {
			return err
		}
		// The header takes the place of bytes that are sent, or of none.
		if err := ch.m.sendPlaced(ch.id, b[sent:sent+headerSize+k]); err != nil {
			return err
		}
		sent += k
	}
	return nil
}

// copyFrom sends what a reader gives until its end, as it comes. The errors of the
// reader and of the stream are apart: the other side may say better what is wrong.
func (ch *channel) copyFrom(r io.Reader) (readErr, sendErr error) {
	b := ch.m.free.get()
	defer ch.m.free.put(b)
	for {
		n, err := r.Read(b[headerSize:])
		if sendErr = ch.place(b, n); sendErr != nil {
			return nil, sendErr
		}
		if errors.Is(err, io.EOF) {
			return nil, nil
		}
		if err != nil {
			return err, nil
		}
	}
}

// finish sends the last bytes.
func (ch *channel) finish(p []byte) error {
	for {
		k, err := ch.reserve(len(p))
		if err != nil {
			return err
		}
		kind := frameData
		if k == len(p) {
			kind = frameEnd
		}
		if err := ch.m.send(kind, ch.id, p[:k]); err != nil {
			return err
		}
		if p = p[k:]; kind == frameEnd {
			ch.stopped()
			return nil
		}
	}
}

// stop tells the other side that nothing more is read.
func (ch *channel) stop() {
	ch.mu.Lock()
	ended := ch.inEnd != nil
	if !ended {
		ch.inEnd = io.ErrClosedPipe
	}
	ch.in = queue{}
	ch.changed.Broadcast()
	ch.mu.Unlock()
	if !ended {
		_ = ch.m.send(frameStop, ch.id, nil) // a broken stream is noticed elsewhere
	}
}

// cancel tells the server that nobody wants the request any more.
func (ch *channel) cancel() {
	ch.mu.Lock()
	first := !ch.gaveUp
	ch.gaveUp = true
	ch.mu.Unlock()
	if first {
		_ = ch.m.send(frameCancel, ch.id, nil) // a broken stream ends the request anyway
	}
}

// release forgets the channel; what still comes for it is dropped.
func (ch *channel) release() {
	ch.m.mu.Lock()
	delete(ch.m.channels, ch.id)
	ch.m.mu.Unlock()
	ch.abort(io.ErrClosedPipe)
	ch.mu.Lock()
	defer ch.mu.Unlock()
	ch.window.giveBack(&ch.m.growth)
}

// message reads one length-prefixed message of at most limit bytes. Memory grows
// with what arrives, not with what is announced.
func (ch *channel) message(limit int) ([]byte, error) {
	var size [4]byte
	if _, err := io.ReadFull(ch, size[:]); err != nil {
		return nil, unexpected(err)
	}
	n := int64(binary.BigEndian.Uint32(size[:]))
	if n > int64(limit) {
		return nil, fmt.Errorf("%w: message of %d bytes, more than %d", errProtocol, n, limit)
	}
	buf := make([]byte, 0, min(n, firstWindow))
	for int64(len(buf)) < n {
		if len(buf) == cap(buf) {
			grown := make([]byte, len(buf), min(n, 2*int64(cap(buf))))
			copy(grown, buf)
			buf = grown
		}
		k, err := ch.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+k]
		if err != nil {
			return nil, unexpected(err)
		}
	}
	return buf, nil
}

func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: the message breaks off", errProtocol)
	}
	return err
}

// newMessage returns an encoder whose message starts with room for its length.
func newMessage() *encoder { return &encoder{b: make([]byte, 4, 256)} }

// message returns the encoded message with its length.
func (e *encoder) message() []byte {
	binary.BigEndian.PutUint32(e.b, uint32(len(e.b)-4))
	return e.b
}
