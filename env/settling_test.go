package env_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/agentloop/model/modeltest"
	"github.com/hermes-env/hermes-env/env"
	"github.com/hermes-env/hermes-env/env/config"
	"github.com/hermes-env/hermes-env/trajectories"
)

// stuckSink takes no group before so many wait for it, and a while longer.
type stuckSink struct {
	until   int64
	waiting atomic.Int64
	most    atomic.Int64
	written atomic.Int64
	open    chan struct{}
	opened  sync.Once
}

func (s *stuckSink) Has(int) bool { return false }

func (s *stuckSink) Write(trajectories.Group) error {
	n := s.waiting.Add(1)
	defer s.waiting.Add(-1)
	for most := s.most.Load(); n > most && !s.most.CompareAndSwap(most, n); most = s.most.Load() {
	}
	if n >= s.until {
		s.opened.Do(func() {
			time.Sleep(100 * time.Millisecond) // in which more would come if they could
			close(s.open)
		})
	}
	<-s.open
	s.written.Add(1)
	return nil
}

func TestRolloutsWaitForGroupsThatAreWrittenSlowly(t *testing.T) {
	const most = 64 // with fewer workers than that
	sink := &stuckSink{until: most, open: make(chan struct{})}
	h := newHarness(t, modeltest.Always(modeltest.Text("x")))
	h.change = func(o *env.Options) { o.Groups = sink }
	_, rollouts, err := h.run(t.Context(), config.Process, &counting{items: 200})
	require.NoError(t, err)
	require.Len(t, rollouts, 400)
	require.EqualValues(t, 200, sink.written.Load())
	require.EqualValues(t, most, sink.most.Load(), "a bounded number of groups is in memory")
}
