package inside

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
)

var (
	_ sandbox.ServiceKeeper = (*Client)(nil)
	_ sandbox.Watcher       = (*Client)(nil)
)

// Bounds of what is told of services and of watched paths.
const (
	maxServices      = 200
	maxServiceNames  = 20
	maxWatchedPaths  = 500
	maxServiceAnswer = 1 << 20
	maxWatchAnswer   = 4 << 20
)

// KillOthers ends everything but services; see sandbox.ServiceKeeper.
func (c *Client) KillOthers(ctx context.Context, keep sandbox.Keep) (kept, ended []sandbox.Service, err error) {
	e := newRequest(requestKillOthers)
	e.uint(uint64(keep))
	d, err := c.ask(ctx, e, maxServiceAnswer)
	if err != nil {
		return nil, nil, err
	}
	kept, ended = decodeServices(d), decodeServices(d)
	if err := d.end(); err != nil {
		return nil, nil, c.lost(err)
	}
	return kept, ended, nil
}

// Watch begins to note changes; see sandbox.Watcher.
func (c *Client) Watch(ctx context.Context, dirs []string) error {
	e := newRequest(requestWatch)
	e.strings(dirs)
	_, err := c.ask(ctx, e, 0)
	return err
}

// Watched returns what was noted; see sandbox.Watcher.
func (c *Client) Watched(ctx context.Context, end bool) ([]sandbox.WatchEvents, bool, error) {
	e := newRequest(requestWatched)
	e.bool(end)
	d, err := c.ask(ctx, e, maxWatchAnswer)
	if err != nil {
		return nil, false, err
	}
	events, lost := decodeWatchEvents(d)
	if err := d.end(); err != nil {
		return nil, false, c.lost(err)
	}
	return events, lost, nil
}

// answerServices carries out the three requests, in the server.
func (s *server) answerServices(ctx context.Context, kind requestKind, d *decoder, reply *encoder) error {
	switch kind {
	case requestKillOthers:
		keep := sandbox.Keep(d.bounded(uint64(sandbox.KeepNone)))
		if err := d.end(); err != nil {
			return err
		}
		k, ok := s.box.(sandbox.ServiceKeeper)
		if !ok {
			return fmt.Errorf("keep services: %w", sandbox.ErrUnsupported)
		}
		kept, ended, err := k.KillOthers(ctx, keep)
		if err != nil {
			return err
		}
		s.config.guard.check()
		s.disk.reopen()
		encodeServices(reply, kept)
		encodeServices(reply, ended)
	case requestWatch:
		dirs := d.strings()
		if err := d.end(); err != nil {
			return err
		}
		err := s.watched.begin(dirs)
		for ended, tries := false, 0; noWatches(err) && tries < 20; tries++ {
			if !ended && !s.endWatchHolders() {
				break
			}
			ended = true
			time.Sleep(50 * time.Millisecond) // what they held goes with their last thread
			err = s.watched.begin(dirs)
		}
		return err
	default:
		end := d.bool()
		if err := d.end(); err != nil {
			return err
		}
		events, lost, err := s.watched.take(end)
		if err != nil {
			return err
		}
		encodeWatchEvents(reply, events, lost)
	}
	return nil
}

func encodeServices(e *encoder, list []sandbox.Service) {
	list = list[:min(len(list), maxServices)]
	e.uint(uint64(len(list)))
	for _, s := range list {
		e.uint(uint64(s.PID))
		e.string(s.Command)
		e.strings(s.Listens[:min(len(s.Listens), maxServiceNames)])
		e.string(s.Because)
	}
}

func decodeServices(d *decoder) []sandbox.Service {
	var list []sandbox.Service
	for range d.bounded(maxServices) {
		s := sandbox.Service{PID: int(d.bounded(math.MaxInt32)), Command: d.string(), Listens: d.strings(), Because: d.string()}
		if len(s.Listens) == 0 {
			s.Listens = nil
		}
		list = append(list, s)
	}
	return list
}

func encodeWatchEvents(e *encoder, list []sandbox.WatchEvents, lost bool) {
	e.bool(lost)
	e.uint(uint64(len(list)))
	for _, w := range list {
		e.string(w.Path)
		for _, n := range []int{w.Created, w.Written, w.Arrived, w.Left, w.Elsewhere} {
			e.uint(uint64(n))
		}
	}
}

func decodeWatchEvents(d *decoder) (list []sandbox.WatchEvents, lost bool) {
	lost = d.bool()
	for range d.bounded(maxWatchedPaths) {
		w := sandbox.WatchEvents{Path: d.string()}
		for _, n := range []*int{&w.Created, &w.Written, &w.Arrived, &w.Left, &w.Elsewhere} {
			*n = int(d.bounded(math.MaxInt32))
		}
		list = append(list, w)
	}
	return list, lost
}
