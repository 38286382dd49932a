package inside

import (
	"context"
	"fmt"
	"io"
	"math"
	"sync"

	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
)

// maxProcesses bounds the background processes that a server keeps track of; the
// longest ended ones make way for new ones.
const maxProcesses = 256

// maxInput bounds the bytes of one Write request.
const maxInput = 1 << 20

// processTable holds the background processes of a server.
type processTable struct {
	mu   sync.Mutex
	last uint64
	list []tracked // in the order they were started
}

type tracked struct {
	id      uint64
	process sandbox.Process
	limit   int // bytes kept of each stream
}

func (t *processTable) add(ctx context.Context, p sandbox.Process, limit int) (uint64, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.list) >= maxProcesses {
		for i, old := range t.list {
			if _, running, err := old.process.Poll(ctx); err == nil && !running {
				t.list = append(t.list[:i], t.list[i+1:]...)
				break
			}
		}
	}
	if len(t.list) >= maxProcesses {
		return 0, fmt.Errorf("%d background processes are running, and no more are taken; end some", len(t.list))
	}
	t.last++
	t.list = append(t.list, tracked{t.last, p, limit})
	return t.last, nil
}

func (t *processTable) find(id uint64) (p sandbox.Process, limit int, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, p := range t.list {
		if p.id == id {
			return p.process, p.limit, nil
		}
	}
	return nil, 0, fmt.Errorf("background process %d is not known any more: %w", id, sandbox.ErrEnded)
}

// answerProcess carries out the requests about background processes.
func (s *server) answerProcess(ctx context.Context, ch *channel, kind requestKind, d *decoder) error {
	if kind == requestStart {
		return s.startProcess(ctx, ch, d)
	}
	if kind < requestPoll || kind > requestWait {
		return fmt.Errorf("%w: request of unknown kind %d", errProtocol, kind)
	}
	p, limit, err := s.processes.find(d.uint())
	if err != nil {
		return err
	}
	var input []byte
	if kind == requestWrite {
		input = d.raw()
	}
	if err := d.end(); err != nil {
		return err
	}
	reply := newMessage()
	switch kind {
	case requestPoll:
		r, running, err := p.Poll(ctx)
		if err != nil {
			return err
		}
		if !running {
			s.disk.explain(&r, false, 0)
		}
		reply.bool(running)
		encodeResult(reply, fit(r, limit))
	case requestWrite:
		n, err := p.Write(ctx, input)
		if err != nil && n == 0 {
			return err
		}
		reply.uint(uint64(n)) // what came after n bytes shows in the next Write
	case requestCloseInput:
		err = p.CloseInput(ctx)
	case requestKill:
		err = p.Kill(ctx)
	case requestWait:
		r, err := p.Wait(ctx)
		if err != nil {
			return err
		}
		s.disk.explain(&r, false, 0)
		encodeResult(reply, fit(r, limit))
	}
	if err != nil {
		return err
	}
	return ch.finish(reply.message())
}

func (s *server) startProcess(ctx context.Context, ch *channel, d *decoder) error {
	c, stdin := decodeCommand(d)
	if err := d.end(); err != nil {
		return err
	}
	if stdin {
		return fmt.Errorf("%w: input of a background process comes by Write", errProtocol)
	}
	starter, ok := s.box.(sandbox.Starter)
	if !ok {
		return fmt.Errorf("start a background process: %w", sandbox.ErrUnsupported)
	}
	if _, refused := s.disk.refused(true); refused {
		return fmt.Errorf("start a background process: %s", s.disk.words(s.disk.last.Load()))
	}
	defer s.disk.begin()() // from then on the process itself shows
	p, err := starter.Start(ctx, c)
	if err != nil {
		return err
	}
	id, err := s.processes.add(ctx, p, outputLimit(c))
	if err != nil {
		return joinKill(ctx, p, err)
	}
	reply := newMessage()
	reply.uint(id)
	reply.uint(uint64(min(max(p.PID(), 0), math.MaxInt32)))
	return ch.finish(reply.message())
}

// joinKill ends a process that can't be kept.
func joinKill(ctx context.Context, p sandbox.Process, err error) error {
	if killErr := p.Kill(ctx); killErr != nil {
		return fmt.Errorf("%w; and it can't be ended: %w", err, killErr)
	}
	return err
}

var _ io.ReadWriter = (*channel)(nil)
