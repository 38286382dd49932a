//go:build unix

package plainhttp

import (
	"errors"
	"net"
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
