package docker

import (
	"bytes"
	"io"
	"strconv"
	"sync"

	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
)

// outputs takes what a command writes, until its last words or its end.
type outputs struct {
	out, err *output
	merge    bool
	ended    chan struct{} // closed when both outputs are complete, or there is no more
	eof      chan struct{} // closed when nothing can come any more
	once     sync.Once
}

func newOutputs(c sandbox.Command, last string) *outputs {
	return &outputs{
		out: newOutput(c.MaxOutput, last), err: newOutput(c.MaxOutput, last), merge: c.Merge,
		ended: make(chan struct{}), eof: make(chan struct{}),
	}
}

// read takes the engine's stream to its end, also when nobody wants it any more:
// whoever writes must not be held up.
func (o *outputs) read(stream io.Reader) {
	defer close(o.eof)
	defer o.once.Do(func() { close(o.ended) })
	d := newDemux(stream, writerFunc(func(p []byte) {
		o.err.write(p)
		o.check()
	}))
	buf := make([]byte, 32<<10)
	for {
		n, err := d.Read(buf)
		o.out.write(buf[:n])
		o.check()
		if err != nil {
			o.out.flush()
			o.err.flush()
			return
		}
	}
}

func (o *outputs) check() {
	if o.out.complete() && o.err.complete() {
		o.once.Do(func() { close(o.ended) })
	}
}

// close returns what was kept, and the exit code, -1 where the last words are missing.
func (o *outputs) close() (out, err sandbox.Output, code int) {
	out, code = o.out.close()
	errors, _ := o.err.close()
	if !o.merge {
		err = errors
	}
	return out, err, code
}

type writerFunc func([]byte)

func (f writerFunc) Write(p []byte) (int, error) { f(p); return len(p), nil }

// output is one stream: everything before the last words, which are held back until
// it is sure that they are none.
type output struct {
	mu      sync.Mutex
	last    []byte
	held    []byte
	capture *sandbox.Capture
	code    int // -1 until the last words
}

// codeRoom is how long an exit code and its line break may be.
const codeRoom = 5

func newOutput(limit int, last string) *output {
	return &output{last: []byte(last), capture: sandbox.NewCapture(limit), code: -1}
}

func (o *output) write(p []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.code >= 0 || len(p) == 0 {
		return // what comes later is of processes left behind
	}
	o.held = append(o.held, p...)
	for i := bytes.Index(o.held, o.last); i >= 0; i = bytes.Index(o.held, o.last) {
		rest := o.held[i+len(o.last):]
		j := bytes.IndexByte(rest, '\n')
		if j < 0 && len(rest) < codeRoom {
			o.pass(i)
			return
		}
		if code, err := strconv.Atoi(string(rest[:max(j, 0)])); err == nil && code >= 0 && code < 256 {
			o.pass(i)
			o.code, o.held = code, nil
			return
		}
		o.pass(i + len(o.last))
	}
	if keep := len(o.last) - 1; len(o.held) > keep {
		o.pass(len(o.held) - keep)
	}
}

// pass gives the first n bytes held to the capture.
func (o *output) pass(n int) {
	_, _ = o.capture.Write(o.held[:n]) // never fails
	o.held = append(o.held[:0], o.held[n:]...)
}

// flush takes what is held for output: there were no last words.
func (o *output) flush() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.code < 0 {
		o.pass(len(o.held))
	}
}

func (o *output) complete() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.code >= 0
}

func (o *output) close() (sandbox.Output, int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.code < 0 && len(o.held) > 0 {
		o.pass(len(o.held))
	}
	return o.capture.Close(), o.code
}
