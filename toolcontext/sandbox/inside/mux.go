package inside

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
)

// errHungUp is why a stream ends that the other side has closed between two frames.
var errHungUp = errors.New("the other side has hung up")

// mux carries many channels over one stream. Its receiving goroutine never waits
// for a reader of a channel nor for the stream to take something, so no channel
// can hold another up.
type mux struct {
	frames *frameReader
	client bool   // this side opens the channels
	closer func() // breaks the stream, so that reads and writes return

	free   blocks
	growth atomic.Int64 // bytes that windows may still grow by

	writing sync.Mutex
	writers atomic.Int32 // who writes or waits to
	out     *bufio.Writer
	direct  io.Writer // what out writes to

	hearing *hearing // when the other side was last heard

	opening sync.Mutex // makes ids appear on the stream in order

	mu       sync.Mutex
	channels map[uint32]*channel
	last     uint32 // highest id opened
	err      error  // why the stream is of no use any more
	done     chan struct{}
}

func newMux(in io.Reader, out io.Writer, closer func()) *mux {
	m := &mux{
		out:      bufio.NewWriterSize(out, 16<<10),
		direct:   out,
		closer:   closer,
		channels: map[uint32]*channel{},
		done:     make(chan struct{}),
		hearing:  newHearing(),
	}
	m.frames = newFrameReader(in, &m.free)
	m.growth.Store(maxGrowth)
	return m
}

// greet sends the preamble.
func (m *mux) greet() error {
	m.writing.Lock()
	defer m.writing.Unlock()
	if _, err := m.out.WriteString(preamble); err != nil {
		return err
	}
	return m.out.Flush()
}

// maxHello bounds a greeting: no process could be started with more variables.
const maxHello = 8 << 20

// hello sends the greeting, in as many frames as it takes; the last is the first
// that is not full.
func (m *mux) hello(payload []byte) error {
	for {
		n := min(len(payload), maxPayload)
		if err := m.send(frameHello, 0, payload[:n]); err != nil || n < maxPayload {
			return err
		}
		payload = payload[n:]
	}
}

// greeted reads the other side's preamble and greeting.
func (m *mux) greeted() ([]byte, error) {
	if err := m.frames.preamble(); err != nil {
		return nil, err
	}
	var payload []byte
	for {
		f, err := m.frames.next()
		switch {
		case err != nil:
			return nil, err
		case f.kind == frameFail && f.channel == 0 && m.client:
			return nil, decodeFailure(f.payload)
		case f.kind != frameHello:
			return nil, fmt.Errorf("%w: frame of type %d before the greeting", errProtocol, f.kind)
		case len(payload)+len(f.payload) > maxHello:
			return nil, fmt.Errorf("%w: greeting of more than %d bytes", errProtocol, maxHello)
		}
		payload = append(payload, f.payload...)
		if len(f.payload) < maxPayload {
			return payload, nil
		}
	}
}

// send writes one frame. Frames of several senders go out together.
func (m *mux) send(kind frameType, id uint32, payload []byte) error {
	m.writers.Add(1)
	m.writing.Lock()
	defer m.writing.Unlock()
	last := m.writers.Add(-1) == 0
	var h [headerSize]byte
	_, err := m.out.Write(appendHeader(h[:0], kind, id, len(payload)))
	if err == nil {
		_, err = m.out.Write(payload)
	}
	if err == nil && last {
		err = m.out.Flush()
	}
	if err != nil {
		err = m.fail(fmt.Errorf("write to the stream: %w", err))
	}
	return err
}

// sendPlaced writes one frame of data whose payload has room for the header before
// it, without copying it. What others have sent before goes out first.
func (m *mux) sendPlaced(id uint32, frame []byte) error {
	m.writers.Add(1)
	m.writing.Lock()
	defer m.writing.Unlock()
	m.writers.Add(-1)
	appendHeader(frame[:0], frameData, id, len(frame)-headerSize)
	err := m.out.Flush()
	if err == nil {
		_, err = m.direct.Write(frame)
	}
	if err != nil {
		err = m.fail(fmt.Errorf("write to the stream: %w", err))
	}
	return err
}

// open starts a channel with the first bytes of its request.
func (m *mux) open(request []byte) (*channel, error) {
	first := request[:min(len(request), maxPayload)]
	m.opening.Lock()
	m.mu.Lock()
	if m.err != nil {
		m.mu.Unlock()
		m.opening.Unlock()
		return nil, m.err
	}
	m.last++
	ch := newChannel(m, m.last)
	ch.credit -= len(first)
	m.channels[ch.id] = ch
	m.mu.Unlock()
	err := m.send(frameOpen, ch.id, first)
	m.opening.Unlock()
	if err == nil && len(first) < len(request) {
		_, err = ch.Write(request[len(first):])
	}
	if err != nil && !errors.Is(err, errStopped) { // an early answer is still an answer
		ch.release()
		return nil, err
	}
	return ch, nil
}

// fail gives the stream up: every channel ends with the first cause.
func (m *mux) fail(cause error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.err != nil {
		return m.err
	}
	m.err = cause
	for _, ch := range m.channels {
		ch.abort(cause)
	}
	close(m.done)
	m.closer()
	return cause
}

// abortInputs ends what this side reads in all channels.
func (m *mux) abortInputs(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, ch := range m.channels {
		ch.abortInput(err)
	}
}

// cause returns why the stream is of no use, or nil.
func (m *mux) cause() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.err
}

// receive handles frames until the stream ends. accept is called for each channel
// that the other side opens; without it that is against the rules.
func (m *mux) receive(accept func(*channel)) error {
	for {
		f, err := m.frames.next()
		if err == nil {
			m.hearing.heard()
			err = m.handle(f, accept)
		} else if errors.Is(err, io.EOF) {
			err = errHungUp // a channel's end of file would look like a whole answer
		}
		if err != nil {
			return m.fail(err)
		}
	}
}

func (m *mux) handle(f frame, accept func(*channel)) error {
	switch f.kind {
	case frameHello:
		return fmt.Errorf("%w: a second greeting", errProtocol)
	case frameOpen:
		if accept == nil {
			return fmt.Errorf("%w: a server can't open channels", errProtocol)
		}
		return m.accepted(f, accept)
	}
	m.mu.Lock()
	ch := m.channels[f.channel]
	m.mu.Unlock()
	if ch == nil { // of a channel that this side has done with
		m.free.put(f.whole)
		return nil
	}
	switch f.kind {
	case frameData:
		return ch.received(f, false)
	case frameEnd:
		return ch.received(f, true)
	case frameFail:
		ch.failed(f.payload)
	case frameCancel:
		ch.cancelled()
	case frameStop:
		ch.stopped()
	case frameWindow:
		if len(f.payload) != 4 {
			return fmt.Errorf("%w: window of %d bytes", errProtocol, len(f.payload))
		}
		return ch.granted(binary.BigEndian.Uint32(f.payload))
	}
	return nil
}

func (m *mux) accepted(f frame, accept func(*channel)) error {
	m.mu.Lock()
	if f.channel <= m.last {
		m.mu.Unlock()
		return fmt.Errorf("%w: channel %d opened after %d", errProtocol, f.channel, m.last)
	}
	if len(m.channels) >= maxChannels {
		m.mu.Unlock()
		return fmt.Errorf("%w: more than %d requests at once", errProtocol, maxChannels)
	}
	m.last = f.channel
	ch := newChannel(m, f.channel)
	m.channels[ch.id] = ch
	m.mu.Unlock()
	if err := ch.received(f, false); err != nil {
		return err
	}
	accept(ch)
	return nil
}
