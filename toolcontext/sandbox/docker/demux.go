package docker

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"sync"

	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
)

// The engine sends both output streams of a process over one connection, in frames
// of an 8-byte header (stream, three zeros, length) and content.
const (
	frameHeader = 8
	frameOut    = 1
	frameErr    = 2
)

// demux reads frames and returns stdout from Read, while stderr goes to errors. It
// keeps nothing: a frame is passed on piece by piece, whatever its length says.
type demux struct {
	r      io.Reader
	errors io.Writer
	left   uint32
	buf    []byte
}

func newDemux(r io.Reader, errors io.Writer) *demux { return &demux{r: r, errors: errors} }

// Read returns the next bytes of stdout.
func (d *demux) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for d.left == 0 {
		stream, n, err := d.header()
		if err != nil {
			return 0, err
		}
		switch stream {
		case 0, frameOut: // 0 is stdin, echoed by no engine but allowed
			d.left = n
		case frameErr:
			if err := d.pass(n); err != nil {
				return 0, err
			}
		default:
			return 0, fmt.Errorf("the engine's stream is not in frames: it names stream %d", stream)
		}
	}
	if uint32(len(p)) > d.left {
		p = p[:d.left]
	}
	n, err := d.r.Read(p)
	d.left -= uint32(n)
	return n, err
}

func (d *demux) header() (stream byte, n uint32, err error) {
	var h [frameHeader]byte
	if _, err := io.ReadFull(d.r, h[:]); err != nil {
		return 0, 0, err
	}
	if h[1] != 0 || h[2] != 0 || h[3] != 0 {
		return 0, 0, fmt.Errorf("the engine's stream is not in frames: a header is %x", h)
	}
	return h[0], binary.BigEndian.Uint32(h[4:]), nil
}

// pass copies a frame of stderr.
func (d *demux) pass(n uint32) error {
	if d.buf == nil {
		d.buf = make([]byte, 4<<10)
	}
	for n > 0 {
		b := d.buf[:min(uint32(len(d.buf)), n)]
		k, err := d.r.Read(b)
		_, _ = d.errors.Write(b[:k]) // a Capture takes all
		if n -= uint32(k); err != nil && n > 0 {
			return err
		}
	}
	return nil
}

// stream is the connection to a server in a container: what is written goes to its
// standard input, what is read is its standard output.
type stream struct {
	*demux
	conn   *hijacked
	said   *sandbox.Capture // what it wrote to stderr, for messages
	exec   string           // the engine's id of the server, where it is not the first process
	closed sync.Once
	err    error

	asked  sync.Once
	ending ending // why it has ended, once asked
}

func newStream(c *hijacked) *stream {
	said := sandbox.NewCapture(8 << 10)
	// The engine's frames are small: several are taken at once.
	return &stream{demux: newDemux(bufio.NewReaderSize(c.reader, 64<<10), said), conn: c, said: said}
}

// Write sends to the standard input.
func (s *stream) Write(p []byte) (int, error) { return s.conn.conn.Write(p) }

// Close ends the connection; a second call does nothing.
func (s *stream) Close() error {
	s.closed.Do(func() { s.err = s.conn.conn.Close() })
	return s.err
}
