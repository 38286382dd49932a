package inside

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// preamble is what each side sends first: a name and the protocol's version.
const preamble = "HermEnv\x03"

// Limits of the protocol.
const (
	maxPayload  = 128 << 10 // bytes in one frame
	copied      = 64 << 10  // frames up to this many bytes are copied, bigger ones kept as they are
	firstWindow = 256 << 10 // bytes of one channel that may be under way, unread, at first
	maxWindow   = 2 << 20   // the same at most
	maxGrowth   = 16 << 20  // bytes that the windows of one stream may grow by altogether
	maxChannels = 4096      // requests under way that a server takes
	maxRequest  = 64 << 20  // bytes of one request without its streams
	maxMessage  = 8 << 10   // bytes of an error's text
)

// frameType says what a frame is.
type frameType byte

const (
	frameHello  frameType = iota + 1 // the first of each side, on channel 0
	frameOpen                        // client: a new channel, with the first bytes
	frameData                        // bytes of a channel
	frameEnd                         // the last bytes of a channel in this direction
	frameFail                        // server: the request failed; the payload is a failure
	frameCancel                      // client: the request's context has ended
	frameWindow                      // the receiver has read so many bytes (4, big endian)
	frameStop                        // the receiver reads no more
	frameLast   = frameStop
)

const headerSize = 9 // length (4), type (1), channel (4), all big endian

// errProtocol is wrapped by what a well-behaved other side can't have sent.
var errProtocol = errors.New("protocol error")

// frame is one frame. Its payload is only valid until the next is read, unless it
// came in a block, which belongs to whoever got the frame.
type frame struct {
	kind    frameType
	channel uint32
	payload []byte
	whole   *block
}

// appendHeader appends the header of a frame with n bytes of payload.
func appendHeader(b []byte, kind frameType, channel uint32, n int) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(n))
	b = append(b, byte(kind))
	return binary.BigEndian.AppendUint32(b, channel)
}

// frameReader reads frames of bounded size.
type frameReader struct {
	r    *bufio.Reader
	buf  []byte
	free *blocks
}

// The reader's buffer is small, so that most of a big frame goes straight to its block.
func newFrameReader(r io.Reader, free *blocks) *frameReader {
	return &frameReader{r: bufio.NewReaderSize(r, 16<<10), buf: make([]byte, 4<<10), free: free}
}

// preamble reads the other side's preamble.
func (f *frameReader) preamble() error {
	buf := f.buf[:len(preamble)]
	if n, err := io.ReadFull(f.r, buf); err != nil {
		if n > 0 {
			return fmt.Errorf("%w: the stream ends after %q, which is no server or client of this program: %w", errProtocol, buf[:n], err)
		}
		return err
	}
	if string(buf[:len(buf)-1]) != preamble[:len(preamble)-1] {
		more, _ := f.r.Peek(min(f.r.Buffered(), 200)) // shows an error message that somebody printed
		return fmt.Errorf("%w: the other side says %q, which is no server or client of this program", errProtocol, append(buf, more...))
	}
	if buf[len(buf)-1] != preamble[len(preamble)-1] {
		return fmt.Errorf("%w: the other side speaks version %d, this one %d: use the same build on both", errProtocol, buf[len(buf)-1], preamble[len(preamble)-1])
	}
	return nil
}

// next reads one frame. A clean end between frames is io.EOF.
func (f *frameReader) next() (frame, error) {
	var h [headerSize]byte
	if _, err := io.ReadFull(f.r, h[:]); err != nil {
		return frame{}, err
	}
	n := binary.BigEndian.Uint32(h[:])
	fr := frame{kind: frameType(h[4]), channel: binary.BigEndian.Uint32(h[5:])}
	if fr.kind < frameHello || fr.kind > frameLast {
		return frame{}, fmt.Errorf("%w: frame of unknown type %d", errProtocol, fr.kind)
	}
	if n > maxPayload {
		return frame{}, fmt.Errorf("%w: frame of %d bytes, more than %d", errProtocol, n, maxPayload)
	}
	if n > copied {
		fr.whole = f.free.get()
		fr.payload = fr.whole[headerSize : headerSize+n]
	} else {
		if int(n) > len(f.buf) { // most streams never see such a frame
			f.buf = make([]byte, copied)
		}
		fr.payload = f.buf[:n]
	}
	if _, err := io.ReadFull(f.r, fr.payload); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return frame{}, err
	}
	return fr, nil
}
