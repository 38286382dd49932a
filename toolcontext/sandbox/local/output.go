package local

import (
	"fmt"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
)

// After a command has ended, what background processes write is still taken until
// the pipe is quiet for drainQuiet, at most drainLimit.
const (
	drainQuiet = 30 * time.Millisecond
	drainLimit = 300 * time.Millisecond
)

// outputPipe reads one stream of a command while it is produced, so that the
// command never blocks on a full pipe and memory stays bounded.
type outputPipe struct {
	read    *os.File
	inode   uint64
	capture *sandbox.Capture
	seen    atomic.Int64
	eof     chan struct{} // closed when the pump has ended
	// hold keeps a terminal open on our side until it is closed: a command gives its
	// side up shortly before it ends, and would be hung up in between. nil for pipes.
	hold chan struct{}
}

// newOutputPipe returns the pipe and the end that the command writes to.
func newOutputPipe(limit int) (*outputPipe, *os.File, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, nil, fmt.Errorf("make a pipe for the output: %w; raise the limit on open files (ulimit -n)", err)
	}
	p := &outputPipe{read: r, capture: sandbox.NewCapture(limit), eof: make(chan struct{})}
	if info, err := r.Stat(); err == nil {
		if st, ok := info.Sys().(*syscall.Stat_t); ok {
			p.inode = st.Ino
		}
	}
	return p, w, nil
}

// pump reads until every writer is gone or the pipe is closed on our side.
func (p *outputPipe) pump(buf []byte) {
	defer func() {
		close(p.eof)
		if p.hold != nil {
			<-p.hold
		}
		_ = p.read.Close()
	}()
	for {
		n, err := p.read.Read(buf)
		if n > 0 {
			_, _ = p.capture.Write(buf[:n]) // never fails
			p.seen.Add(int64(n))
		}
		if err != nil {
			return
		}
	}
}

// close ends the pump even when somebody still holds the other end.
func (p *outputPipe) close() { _ = p.read.Close() }

// pending returns how many bytes wait in the pipe.
func pending(f *os.File) int {
	raw, err := f.SyscallConn()
	if err != nil {
		return 0
	}
	n := 0
	if err := raw.Control(func(fd uintptr) { n = readable(int(fd)) }); err != nil {
		return 0
	}
	return n
}
