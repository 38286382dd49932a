package local

import (
	"errors"
	"fmt"
	"os"
	"sync"
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
	file    *os.File
	inode   uint64
	capture *sandbox.Capture
	// mu is held from reading bytes until they are in the capture: with it, what was
	// written to the pipe is either still there or captured.
	mu   sync.Mutex
	seen int64                          // bytes captured; guarded by mu
	read func(int, []byte) (int, error) // reads a descriptor without blocking; tests replace it
	eof  chan struct{}                  // closed when the pump has ended
	// hold keeps a terminal open on our side until it is closed: a command gives its
	// side up shortly before it ends, and would be hung up in between. nil for pipes.
	hold chan struct{}
}

// newOutputPipe returns the pipe and the end that the command writes to.
func newOutputPipe(limit int) (*outputPipe, *os.File, error) {
	r, w, err := pipeToRead()
	if err != nil {
		return nil, nil, fmt.Errorf("make a pipe for the output: %w; raise the limit on open files (ulimit -n)", err)
	}
	p := &outputPipe{file: r, capture: sandbox.NewCapture(limit), read: readDescriptor, eof: make(chan struct{})}
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
		_ = p.file.Close()
	}()
	raw, err := p.file.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Read(func(fd uintptr) (ended bool) { // fails when the pipe is closed
		for {
			n, err := p.take(int(fd), buf)
			switch {
			case errors.Is(err, syscall.EAGAIN):
				return false // waits until there is more
			case err != nil || n == 0:
				return true
			}
		}
	})
}

// take captures up to len(buf) bytes of the pipe, without waiting for them.
func (p *outputPipe) take(fd int, buf []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n, err := p.read(fd, buf)
	if n > 0 {
		_, _ = p.capture.Write(buf[:n]) // never fails
		p.seen += int64(n)
	}
	return n, err
}

// drain captures what the pipe holds now. It doesn't wait for the pump, which a busy
// machine may not run for a long time.
func (p *outputPipe) drain(buf []byte) {
	raw, err := p.file.SyscallConn()
	if err != nil {
		return // closed: the pump has read all
	}
	_ = raw.Control(func(fd uintptr) {
		_, left := p.state()
		for left > 0 {
			n, err := p.take(int(fd), buf[:min(left, len(buf))])
			if err != nil || n == 0 {
				return
			}
			left -= n
		}
	})
}

// state returns how many bytes were captured, and how many are still in the pipe.
func (p *outputPipe) state() (seen int64, waiting int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.seen, pending(p.file)
}

// readDescriptor is read(2), again when a signal interrupts it. At the end of the file
// it returns 0 bytes and no error.
func readDescriptor(fd int, buf []byte) (int, error) {
	for {
		n, err := syscall.Read(fd, buf)
		if !errors.Is(err, syscall.EINTR) {
			return max(n, 0), err
		}
	}
}

// close ends the pump even when somebody still holds the other end.
func (p *outputPipe) close() { _ = p.file.Close() }

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
