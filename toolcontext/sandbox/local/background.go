package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
)

var _ sandbox.Starter = (*Sandbox)(nil)

// Start runs a command in the background; see sandbox.Starter.
func (s *Sandbox) Start(ctx context.Context, c sandbox.Command) (sandbox.Process, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	switch {
	case c.Session:
		return nil, fmt.Errorf("%w: a background process has no Session", sandbox.ErrInvalidCommand)
	case c.Stdin != nil:
		return nil, fmt.Errorf("%w: input of a background process comes by Process.Write, not by Stdin", sandbox.ErrInvalidCommand)
	}
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	done, err := s.begin()
	if err != nil {
		return nil, err
	}
	life, end := context.WithCancel(context.Background())
	p := &background{input: newInputQueue(), end: end, started: make(chan struct{}), ended: make(chan struct{})}
	c.Stdin = p.input
	c.Merge = c.Merge || c.Terminal != nil
	go func() {
		defer done()
		defer end()
		r, err := s.exec(life, c, func(pid int, st *streams) {
			p.pid, p.streams, p.merged = pid, st, c.Merge
			close(p.started)
		})
		p.finish(r, err)
	}()
	select {
	case <-p.started:
		return p, nil
	case <-p.ended:
	case <-ctx.Done():
		end()
		<-p.ended
	}
	if p.err != nil {
		return nil, fmt.Errorf("start a process in sandbox %s: %w", s.info.ID, p.err)
	}
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	return p, nil
}

// background is a process that Start has started. It implements sandbox.Process.
type background struct {
	input *inputQueue
	end   context.CancelFunc

	started chan struct{} // closed once pid and streams are set, if ever
	pid     int
	streams *streams
	merged  bool

	ended  chan struct{} // closed once result and err are set
	result sandbox.Result
	err    error
}

func (p *background) finish(r sandbox.Result, err error) {
	p.result, p.err = r, err
	p.input.close(sandbox.ErrEnded)
	close(p.ended)
}

// PID is the process id of the command.
func (p *background) PID() int {
	select {
	case <-p.started:
		return p.pid
	default:
		return 0
	}
}

// Poll returns the output kept so far or, after the end, the result.
func (p *background) Poll(context.Context) (sandbox.Result, bool, error) {
	select {
	case <-p.ended:
		return p.result, false, p.err
	default:
	}
	var r sandbox.Result
	r.Stdout = p.streams.out.capture.Output()
	if !p.merged {
		r.Stderr = p.streams.err.capture.Output()
	}
	if givenUp(r.Stdout) || givenUp(r.Stderr) {
		<-p.ended // all that is left to do is to reap it
		return p.result, false, p.err
	}
	return r, true, nil
}

// givenUp reports whether a capture was closed: the result has it now.
func givenUp(o sandbox.Output) bool { return o.Total > 0 && len(o.Head)+len(o.Tail) == 0 }

// Write hands input to the command.
func (p *background) Write(ctx context.Context, b []byte) (int, error) { return p.input.write(ctx, b) }

// CloseInput gives the command its end of file after what was written.
func (p *background) CloseInput(context.Context) error {
	p.input.close(io.EOF)
	return nil
}

// Kill ends the command with its descendants.
func (p *background) Kill(ctx context.Context) error {
	p.end()
	select {
	case <-p.ended:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if p.err != nil && !errors.Is(p.err, sandbox.ErrClosed) {
		return fmt.Errorf("end background process %d: %w", p.pid, p.err)
	}
	return nil
}

// Wait returns how the command ended.
func (p *background) Wait(ctx context.Context) (sandbox.Result, error) {
	select {
	case <-p.ended:
		return p.result, p.err
	case <-ctx.Done():
		return sandbox.Result{}, context.Cause(ctx)
	}
}

// maxQueued bounds the input that a background process has not read.
const maxQueued = 256 << 10

// inputQueue is what was written to a background process and not read yet.
type inputQueue struct {
	mu      sync.Mutex
	data    []byte
	closed  error         // what follows data
	changed chan struct{} // closed and made anew at every change
}

func newInputQueue() *inputQueue { return &inputQueue{changed: make(chan struct{})} }

// signal wakes all who wait. The caller holds mu.
func (q *inputQueue) signal() {
	close(q.changed)
	q.changed = make(chan struct{})
}

// close ends the queue: after end of file what it has is still read.
func (q *inputQueue) close(why error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed == nil || !errors.Is(why, io.EOF) {
		q.closed = why
	}
	q.signal()
}

func (q *inputQueue) write(ctx context.Context, b []byte) (int, error) {
	sent := 0
	for {
		q.mu.Lock()
		if q.closed != nil {
			err := fmt.Errorf("write to a background process: %w", sandbox.ErrEnded)
			if errors.Is(q.closed, io.EOF) {
				err = fmt.Errorf("write to a background process: its input is closed: %w", sandbox.ErrEnded)
			}
			q.mu.Unlock()
			return sent, err
		}
		if n := min(len(b), maxQueued-len(q.data)); n > 0 {
			q.data = append(q.data, b[:n]...)
			b = b[n:]
			sent += n
			q.signal()
		}
		changed := q.changed
		q.mu.Unlock()
		if len(b) == 0 {
			return sent, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return sent, context.Cause(ctx)
		}
	}
}

// Read gives the process's feeder what was written.
func (q *inputQueue) Read(p []byte) (int, error) {
	for {
		q.mu.Lock()
		if len(q.data) > 0 {
			n := copy(p, q.data)
			q.data = q.data[n:]
			q.signal()
			q.mu.Unlock()
			return n, nil
		}
		err, changed := q.closed, q.changed
		q.mu.Unlock()
		if err != nil {
			return 0, err
		}
		<-changed
	}
}
