package egress

import (
	"io"
	"net"
	"sync"
	"time"
)

// linger is how long a client may go on sending after its server has ended.
const linger = 10 * time.Second

// exchange passes bytes between a client and a server until both directions have
// ended, or nothing moves.
type exchange struct {
	client  Conn
	server  net.Conn
	silence time.Duration
	timer   *time.Timer
}

func newExchange(client Conn, server net.Conn, silence time.Duration) *exchange {
	x := &exchange{client: client, server: server, silence: silence}
	x.timer = time.AfterFunc(silence, x.abandon)
	return x
}

// abandon ends both directions at once.
func (x *exchange) abandon() {
	_ = x.client.Close()
	_ = x.server.Close()
}

// moving is a writer whose writes show that the exchange is alive.
type moving struct {
	io.Writer
	x      *exchange
	failed bool
}

func (m *moving) Write(p []byte) (int, error) {
	n, err := m.Writer.Write(p)
	if n > 0 {
		m.x.timer.Reset(m.x.silence)
	}
	m.failed = m.failed || err != nil
	return n, err
}

// run lets send write what goes to the server, and copies what comes back.
func (x *exchange) run(send func(io.Writer) error) {
	defer x.timer.Stop()
	var sending sync.WaitGroup
	sending.Go(func() {
		to := &moving{Writer: x.server, x: x}
		err := send(to)
		switch {
		case to.failed:
			return // a server that reads no more may still have an answer
		case err != nil:
			x.abandon()
			return
		}
		if half, ok := x.server.(interface{ CloseWrite() error }); ok {
			_ = half.CloseWrite() // a server that has left is noticed below
		}
	})
	if _, err := copyTo(&moving{Writer: x.client, x: x}, x.server); err != nil {
		x.abandon()
	}
	_ = x.client.CloseWrite()             // a client that has left is noticed by the sender
	x.timer.Reset(min(x.silence, linger)) // a server that has ended reads no more
	sending.Wait()
}

// copyTo copies with a buffer of moderate size and nothing that goes around it.
func copyTo(w io.Writer, r io.Reader) (int64, error) {
	return io.CopyBuffer(struct{ io.Writer }{w}, struct{ io.Reader }{r}, make([]byte, 16<<10))
}
