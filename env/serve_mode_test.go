package env_test

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/agentloop/model/modeltest"
	"github.com/hermes-env/hermes-env/env"
	"github.com/hermes-env/hermes-env/env/config"
	"github.com/hermes-env/hermes-env/trajectories"
)

// rewinding begins anew after its last item, a number of times.
type rewinding struct {
	*counting
	passes int
}

func (e *rewinding) Rewind(context.Context) error {
	if e.passes == 0 {
		return io.ErrUnexpectedEOF
	}
	e.passes--
	e.next = 0
	return nil
}

// stepSink keeps the steps of groups.
type stepSink struct {
	mu    sync.Mutex
	steps []int
}

func (s *stepSink) Has(step int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Contains(s.steps, step)
}

func (s *stepSink) Write(g trajectories.Group) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.steps = append(s.steps, g.Step)
	return nil
}

var errEnough = errors.New("enough")

// serving runs groups until a number of them was admitted.
type serving struct {
	sink     *stepSink
	enough   int
	mu       sync.Mutex
	admitted int
	running  int
	most     int
	ended    []int
}

func (s *serving) options(e env.Environment) func(*env.Options) {
	return func(o *env.Options) {
		o.Environment, o.Groups, o.GroupsInFlight = e, s.sink, 8
		o.Config.GroupSize, o.Config.TotalSteps = 2, -1
		o.Admit = func(context.Context) error {
			s.mu.Lock()
			defer s.mu.Unlock()
			if s.admitted == s.enough {
				return errEnough
			}
			s.admitted++
			s.running++
			s.most = max(s.most, s.running)
			return nil
		}
		o.Ended = func(step int) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.running--
			s.ended = append(s.ended, step)
		}
	}
}

func TestServeGoesOnUntilNoMoreGroupsAreAdmitted(t *testing.T) {
	e := &counting{items: 3}
	h := newHarness(t, modeltest.Always(modeltest.Text("done")))
	s := &serving{sink: &stepSink{}, enough: 8}
	h.change = s.options(&rewinding{e, 9})
	summary, recs, err := h.run(t.Context(), config.Serve, e)
	require.ErrorIs(t, err, errEnough)
	require.Len(t, recs, 16, "what was admitted is finished")
	require.Equal(t, -1, summary.Planned)
	slices.Sort(s.ended)
	require.Equal(t, []int{0, 1, 2, 3, 4, 5, 6, 7}, s.ended, "each group ends once")
	slices.Sort(s.sink.steps)
	require.Equal(t, s.ended, s.sink.steps)
	items := map[int]string{}
	for _, r := range recs {
		items[r.Step] = r.ItemID
	}
	require.Equal(t, "item-0", items[3], "the items begin anew")
	require.Equal(t, "item-1", items[7])

	// The next session goes on behind what was made.
	e.next, h.resume = 0, true
	s = &serving{sink: s.sink, enough: 2}
	h.change = s.options(&rewinding{e, 9})
	_, _, err = h.run(t.Context(), config.Serve, e)
	require.ErrorIs(t, err, errEnough)
	slices.Sort(s.ended)
	require.Equal(t, []int{8, 9}, s.ended)
}

func TestGroupsThatAreLeftOutEndToo(t *testing.T) {
	e := &counting{items: 4}
	h := newHarness(t, modeltest.Always(modeltest.Text("done")))
	s := &serving{sink: &stepSink{}, enough: 100}
	change := s.options(e)
	h.change = func(o *env.Options) {
		change(o)
		o.Config.EnsureScoresAreNotSame = true
	}
	_, _, err := h.run(t.Context(), config.Serve, e)
	require.NoError(t, err, "items that can't begin anew come to an end")
	require.Len(t, s.ended, 4)
	require.Zero(t, s.running)
	require.Empty(t, s.sink.steps)
}

func TestServeWithoutItemsFails(t *testing.T) {
	for name, c := range map[string]struct {
		e    env.Environment
		want string
	}{
		"an empty dataset":          {&rewinding{&counting{}, 3}, "item 1: there are no items"},
		"one that can't be rewound": {&rewinding{&counting{}, 0}, io.ErrUnexpectedEOF.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t, modeltest.Always(modeltest.Text("done")))
			s := &serving{sink: &stepSink{}, enough: 5}
			h.change = s.options(c.e)
			_, _, err := h.run(t.Context(), config.Serve, &counting{})
			require.ErrorContains(t, err, c.want)
		})
	}
}
