//go:build unix

package plainhttp

import (
	"errors"
	"io"
	"net"
	"os"
	"syscall"
)

// poller looks at a connection without reading from it.
type poller struct {
	raw    syscall.RawConn // nil where the connection has none
	look   func(fd uintptr) bool
	wait   bool // look until something is there
	looked bool
	quiet  bool
	one    [1]byte

	turn func(fd uintptr) bool
	x    *exchange
	in   *[readBuffer]byte
	n    int
	err  error
}

func (p *poller) init(c net.Conn) {
	under, ok := c.(syscall.Conn)
	if !ok {
		return
	}
	raw, err := under.SyscallConn()
	if err != nil {
		return
	}
	p.raw = raw
	p.look = func(fd uintptr) bool {
		if p.looked { // something has come
			return true
		}
		_, _, err := syscall.Recvfrom(int(fd), p.one[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		p.looked, p.quiet = true, errors.Is(err, syscall.EAGAIN)
		return !p.quiet || !p.wait
	}
	p.turn = p.takeTurn
}

var errClosedIdle = errors.New("the server has closed the idle connection")

// exchange sends a request and reads the first bytes of the answer. It looks for the answer
// only when the system says that there is something, and takes a buffer only then.
func (p *poller) exchange(x *exchange) (in *[readBuffer]byte, n int, err error) {
	if p.raw == nil {
		return x.blocking()
	}
	p.x, p.in, p.n, p.err = x, nil, 0, nil
	// The request is sent from within: what comes after the begin of Read wakes it, so that
	// no answer is missed however fast it comes.
	err = p.raw.Read(p.turn)
	if p.err != nil {
		err = p.err
	}
	in, n = p.in, p.n
	p.x, p.in = nil, nil
	return in, n, err
}

// takeTurn is called once at first, and then each time there may be something to read,
// until it returns true.
func (p *poller) takeTurn(fd uintptr) bool {
	if !p.x.sent {
		if p.x.c.reused {
			_, _, err := syscall.Recvfrom(int(fd), p.one[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
			if !errors.Is(err, syscall.EAGAIN) {
				p.err = errClosedIdle
				return true
			}
		}
		if p.err = p.x.write(); p.err != nil {
			return true
		}
		p.x.sent = true
		return false
	}
	in := newInput()
	for {
		n, err := syscall.Read(int(fd), in[:])
		switch {
		case errors.Is(err, syscall.EINTR):
			continue
		case errors.Is(err, syscall.EAGAIN):
			inputs.Put(in)
			return false
		case err != nil:
			inputs.Put(in)
			p.err = os.NewSyscallError("read", err)
		case n == 0:
			inputs.Put(in)
			p.err = io.EOF
		default:
			p.in, p.n = in, n
		}
		return true
	}
}

// alive reports whether the server has neither closed an idle connection nor sent anything.
func (p *poller) alive() bool {
	if p.raw == nil {
		return true
	}
	p.wait, p.looked, p.quiet = false, false, false
	return p.raw.Read(p.look) == nil && p.quiet
}

// awaitData returns when there is something to read, or an error that reading finds too.
func (p *poller) awaitData() {
	if p.raw == nil {
		return
	}
	p.wait, p.looked = true, false
	_ = p.raw.Read(p.look)
}
