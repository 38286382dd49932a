package local

import (
	"io"
	"os"
	"syscall"
	"time"

	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
)

// streams are the three standard streams of a running command.
type streams struct {
	in     *os.File // what the command reads
	feed   *os.File // our end of in; nil for /dev/null
	source io.Reader
	out    *outputPipe
	err    *outputPipe // out itself when the two are merged
	outEnd *os.File
	errEnd *os.File
	// terminal says that all of them are one pseudo terminal.
	terminal bool
}

func (s *Sandbox) openStreams(c sandbox.Command) (_ *streams, err error) {
	st := &streams{source: c.Stdin}
	defer func() {
		if err != nil {
			st.closeChildEnds()
			st.abandon()
		}
	}()
	if c.Terminal != nil {
		return st, st.openTerminal(c)
	}
	if c.Stdin == nil {
		st.in, err = os.Open(os.DevNull)
	} else {
		st.in, st.feed, err = os.Pipe()
	}
	if err != nil {
		return nil, err
	}
	if st.out, st.outEnd, err = newOutputPipe(c.MaxOutput); err != nil {
		return nil, err
	}
	if c.Merge {
		st.err, st.errEnd = st.out, st.outEnd
		return st, nil
	}
	st.err, st.errEnd, err = newOutputPipe(c.MaxOutput)
	return st, err
}

// openTerminal makes all streams of the command a pseudo terminal. On error the
// caller closes what was opened.
func (st *streams) openTerminal(c sandbox.Command) error {
	master, slave, err := openTerminal(*c.Terminal)
	if err != nil {
		return err
	}
	st.terminal = true
	st.in, st.outEnd, st.errEnd = slave, slave, slave
	st.out = &outputPipe{file: master, capture: sandbox.NewCapture(c.MaxOutput), read: readDescriptor, eof: make(chan struct{}), hold: make(chan struct{})}
	st.err = st.out
	st.feed, err = another(master)
	return err
}

func (st *streams) childEnds() [3]*os.File { return [3]*os.File{st.in, st.outEnd, st.errEnd} }

// closeChildEnds closes our copies of what the command has; a second call does nothing.
func (st *streams) closeChildEnds() {
	for _, f := range st.childEnds() {
		if f != nil {
			_ = f.Close() // merged streams share one file
		}
	}
}

// abandon closes our ends before any pump was started.
func (st *streams) abandon() {
	if st.feed != nil {
		_ = st.feed.Close()
	}
	for _, p := range st.outputs() {
		p.close()
	}
}

func (st *streams) outputs() []*outputPipe {
	switch {
	case st.out == nil:
		return nil
	case st.err == nil || st.err == st.out:
		return []*outputPipe{st.out}
	}
	return []*outputPipe{st.out, st.err}
}

func (st *streams) inodes() []uint64 {
	var list []uint64
	for _, p := range st.outputs() {
		list = append(list, p.inode)
	}
	return list
}

// pumpAll starts reading the command's output and feeding its input. The sandbox's
// Close waits for the readers.
func (st *streams) pumpAll(s *Sandbox) {
	for _, p := range st.outputs() {
		s.mu.Lock()
		s.pipes[p] = struct{}{}
		s.mu.Unlock()
		s.background.Add(1)
		go func() {
			defer s.background.Done()
			buf := s.provider.buffers.Get().(*[]byte)
			p.pump(*buf)
			s.provider.buffers.Put(buf)
			s.mu.Lock()
			delete(s.pipes, p)
			s.mu.Unlock()
		}()
	}
	if st.feed != nil {
		// Nobody waits for this one: its source may block for as long as it likes.
		// Closing feed, when the command has ended, ends the copy at its next write.
		go func() {
			_, err := io.Copy(st.feed, st.source) // a command need not read its input
			if err == nil && st.terminal {
				_, _ = st.feed.Write([]byte{4}) // a terminal's way to say end of file
			}
			_ = st.feed.Close()
		}()
	}
}

// settle captures all the command wrote. The command has ended, so its output is in the
// pipes or captured already. Where background processes hold the pipes, what they write
// is captured until it pauses; afterwards it is read and dropped, to keep them from blocking.
func (st *streams) settle(buf []byte) {
	for _, p := range st.outputs() {
		p.drain(buf)
	}
	deadline := time.Now().Add(drainLimit)
	for wait := drainQuiet; wait > 0; wait = min(drainQuiet, time.Until(deadline)) {
		before, _ := st.state()
		if st.ended(wait) {
			break
		}
		if seen, waiting := st.state(); seen == before && waiting == 0 {
			break
		}
	}
	if st.feed != nil {
		_ = st.feed.Close() // ends the copy and gives background readers their end of file
	}
	if st.terminal {
		close(st.out.hold)
	}
}

// ended waits until every pipe is at its end, at most for wait.
func (st *streams) ended(wait time.Duration) bool {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for _, p := range st.outputs() {
		select {
		case <-p.eof:
		case <-timer.C:
			return false
		}
	}
	return true
}

// state returns how many bytes of all pipes were captured, and how many are still in them.
func (st *streams) state() (seen int64, waiting int) {
	for _, p := range st.outputs() {
		n, left := p.state()
		seen, waiting = seen+n, waiting+left
	}
	return seen, waiting
}

// close returns what was kept.
func (st *streams) close(merged bool) (out, err sandbox.Output) {
	out = st.out.capture.Close()
	if !merged {
		err = st.err.capture.Close()
	}
	return out, err
}

// fd returns the descriptor of f for a child, in blocking mode as programs expect.
func fd(f *os.File) uintptr {
	n := f.Fd()
	_ = syscall.SetNonblock(int(n), false) // fails only for descriptors that have no such mode
	return n
}
