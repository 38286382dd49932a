package inside

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"sync"
)

// requestConnection waits for the next connection of a program to the proxy. The
// channel then carries its bytes.
const requestConnection requestKind = 64

// Connection is one that a program in the sandbox has opened to the sandbox's proxy.
// One goroutine may read while another writes.
type Connection struct {
	ch   *channel
	left int  // bytes of the piece under way
	over bool // the program writes no more
}

// Read reads what the program has written.
func (c *Connection) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if c.left == 0 && !c.over {
		var size [2]byte
		if _, err := io.ReadFull(c.ch, size[:]); err != nil {
			return 0, unexpected(err)
		}
		c.left = int(binary.BigEndian.Uint16(size[:]))
		c.over = c.left == 0
	}
	if c.over {
		return 0, io.EOF
	}
	n, err := c.ch.Read(p[:min(len(p), c.left)])
	c.left -= n
	if err != nil {
		err = unexpected(err)
	}
	return n, err
}

// Write writes what the program will read. It waits while much is unread.
func (c *Connection) Write(p []byte) (int, error) { return c.ch.Write(p) }

// CloseWrite ends what the program reads.
func (c *Connection) CloseWrite() error {
	if err := c.ch.finish(nil); !errors.Is(err, errStopped) {
		return err
	}
	return nil
}

// Close ends both directions; calls under way return. After CloseWrite the program
// still gets what was written before.
func (c *Connection) Close() error {
	if !c.ch.unwanted() {
		c.ch.cancel()
	}
	c.ch.stop()
	c.ch.abort(io.ErrClosedPipe)
	return nil
}

// waitingConnections is how many connections may come in while none is being looked at.
const waitingConnections = 4

// serveConnections hands the sandbox's connections to Options.Connections until the
// stream ends, and returns when all have ended.
func (c *Client) serveConnections() {
	ctx, cancel := context.WithCancel(context.Background())
	var loops, serving sync.WaitGroup
	slots := make(chan struct{}, c.options.MaxConnections)
	for range min(waitingConnections, c.options.MaxConnections) {
		loops.Go(func() {
			for c.awaitConnection(ctx, slots, &serving) {
			}
		})
	}
	<-c.m.done
	cancel()
	loops.Wait()
	serving.Wait()
}

// awaitConnection waits for one connection and has it served. It reports whether
// there may be another.
func (c *Client) awaitConnection(ctx context.Context, slots chan struct{}, serving *sync.WaitGroup) bool {
	select {
	case slots <- struct{}{}:
	case <-c.m.done:
		return false
	}
	ch, err := c.m.open(newRequest(requestConnection).message())
	if err == nil {
		if _, err = ch.message(0); err != nil {
			ch.release()
		}
	}
	if err != nil {
		<-slots
		if isProtocol(err) {
			_ = c.m.fail(err)
		}
		return false
	}
	serving.Go(func() {
		defer func() { <-slots }()
		conn := &Connection{ch: ch}
		c.options.Connections(ctx, conn)
		_ = conn.Close() // never fails
		ch.release()
	})
	return true
}

// copyBytes copies with a buffer of moderate size and nothing that goes around it.
func copyBytes(w io.Writer, r io.Reader) (int64, error) {
	return io.CopyBuffer(struct{ io.Writer }{w}, struct{ io.Reader }{r}, make([]byte, relayChunk))
}
