package docker

import (
	"context"
	"errors"
	"sync"

	"golang.org/x/sync/semaphore"
)

// Share lets several providers of one process pull and build each image once, and
// within common limits. Make one with NewShare.
type Share struct {
	pulls, builds *semaphore.Weighted

	mu      sync.Mutex
	flights map[string]*flight
}

// How many images are pulled and built at once where nobody says.
const (
	defaultPulls  = 3
	defaultBuilds = 2
)

// NewShare returns a Share that pulls and builds at most so many images at once; 0
// means 3 pulls and 2 builds.
func NewShare(maxPulls, maxBuilds int) *Share {
	if maxPulls <= 0 {
		maxPulls = defaultPulls
	}
	if maxBuilds <= 0 {
		maxBuilds = defaultBuilds
	}
	return &Share{
		pulls: semaphore.NewWeighted(int64(maxPulls)), builds: semaphore.NewWeighted(int64(maxBuilds)),
		flights: map[string]*flight{},
	}
}

// flight is one pull or build under way.
type flight struct {
	waiters int // 0: given up, and about to end
	cancel  context.CancelCauseFunc
	done    chan struct{} // closed when info and err are set
	info    imageInfo
	err     error
}

// errNobodyWaits ends a flight whose waiters have all left.
var errNobodyWaits = errors.New("nobody waits for the image any more")

// once runs get for a key, or waits for the run under way. What was begun goes on
// while anybody waits for it; who leaves last ends it and sees it end.
func (s *Share) once(ctx context.Context, key string, get func(context.Context) (imageInfo, error)) (imageInfo, error) {
	for {
		if err := context.Cause(ctx); err != nil {
			return imageInfo{}, err
		}
		f, ok := s.join(ctx, key, get)
		if ok {
			return s.await(ctx, f)
		}
		<-f.done // given up: its last waiter sees to it that it ends
	}
}

// join begins a flight or joins the one under way, unless that has been given up.
func (s *Share) join(ctx context.Context, key string, get func(context.Context) (imageInfo, error)) (*flight, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f, ok := s.flights[key]; ok {
		if f.waiters == 0 {
			return f, false
		}
		f.waiters++
		return f, true
	}
	f := &flight{waiters: 1, done: make(chan struct{})}
	ctx, f.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	s.flights[key] = f
	go func() {
		info, err := get(ctx)
		if cause := context.Cause(ctx); err != nil && cause != nil {
			err = cause
		}
		s.mu.Lock()
		f.info, f.err = info, err
		delete(s.flights, key)
		s.mu.Unlock()
		f.cancel(nil)
		close(f.done)
	}()
	return f, true
}

// await waits for a flight or for the end of ctx.
func (s *Share) await(ctx context.Context, f *flight) (imageInfo, error) {
	select {
	case <-f.done:
		return f.info, f.err
	case <-ctx.Done():
	}
	s.mu.Lock()
	f.waiters--
	last := f.waiters == 0
	s.mu.Unlock()
	if last {
		f.cancel(errNobodyWaits)
		<-f.done
	}
	return imageInfo{}, context.Cause(ctx)
}
