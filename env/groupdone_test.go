package env_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/agentloop"
	"github.com/hermes-env/hermes-env/agentloop/model/modeltest"
	"github.com/hermes-env/hermes-env/env"
	"github.com/hermes-env/hermes-env/env/config"
	"github.com/hermes-env/hermes-env/toolcontext"
	"github.com/hermes-env/hermes-env/trajectories"
)

// memorySink keeps groups as a trainer would, over all sessions of a run.
type memorySink struct {
	mu     sync.Mutex
	groups map[int]trajectories.Group
}

func (s *memorySink) Has(step int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.groups[step]
	return ok
}

func (s *memorySink) Write(g trajectories.Group) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.groups[g.Step]; ok {
		return fmt.Errorf("step %d is offered twice", g.Step)
	}
	s.groups[g.Step] = g
	return nil
}

// judging is an environment whose scores follow from the item and the turn in which
// they are asked for, with a part in its groups.
type judging struct {
	counting
	scores  map[string][]float64 // by item, in the order of verification
	asked   map[string]int
	mu      sync.Mutex
	discard func(*trajectories.Rollout) string
	extend  func(*trajectories.Group) error
}

func (e *judging) Reward(_ context.Context, item env.Item, _ *agentloop.Result, _ *toolcontext.Context) (env.Score, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	list := e.scores[item.ID]
	if len(list) == 0 {
		list = []float64{1, 0}
	}
	e.asked[item.ID]++
	return env.Score{Value: list[(e.asked[item.ID]-1)%len(list)]}, nil
}

func (e *judging) Discard(_ env.Item, r *trajectories.Rollout) string {
	if e.discard == nil {
		return ""
	}
	return e.discard(r)
}

func (e *judging) ExtendGroup(item env.Item, members []*trajectories.Rollout, g *trajectories.Group) error {
	if e.extend == nil {
		return nil
	}
	if len(members) < len(g.Sequences) || item.ID != g.ItemID {
		return fmt.Errorf("%d rollouts of %s for %d sequences of %s", len(members), item.ID, len(g.Sequences), g.ItemID)
	}
	return e.extend(g)
}

func decisions(t *testing.T, dir string) (list []trajectories.GroupDecision) {
	t.Helper()
	reader, err := trajectories.OpenReadOnly(dir)
	require.NoError(t, err)
	require.NoError(t, reader.GroupDecisions(func(d trajectories.GroupDecision) error {
		list = append(list, d)
		return nil
	}))
	return list
}

func TestGroupsThatAreLeftOutAreCountedRememberedAndNeitherJudgedNorPaidForAgain(t *testing.T) {
	var down atomic.Bool
	down.Store(true)
	h := newHarness(t, func(r *modeltest.Request) modeltest.Reply {
		if down.Load() && r.Prompt() == "item-3" {
			return modeltest.Status(400)
		}
		return modeltest.Text("x")
	})
	h.policy.MaxAttempts = 1
	sink := &memorySink{groups: map[int]trajectories.Group{}}
	var judged atomic.Int64
	run := func() *env.Summary {
		e := &judging{counting: counting{items: 5}, asked: map[string]int{}, scores: map[string][]float64{"item-1": {0.5}, "item-2": {1, 1}}}
		e.discard = func(r *trajectories.Rollout) string {
			judged.Add(1)
			if r.ItemID == "item-4" {
				return "it says x"
			}
			return ""
		}
		h.change = func(o *env.Options) {
			o.Environment, o.Groups = e, sink
			o.Config.EnsureScoresAreNotSame, o.Config.Advantages = true, config.AdvantagesMean
		}
		summary, _, err := h.run(t.Context(), config.Process, &e.counting)
		require.NoError(t, err)
		return summary
	}
	summary := run()
	require.Len(t, sink.groups, 1)
	require.Equal(t, &env.TrainingGroups{Kept: 1, Dropped: []env.ReasonCount{{env.DropEqualScores, 2}, {env.DropMissingMember, 1}, {env.DropDiscarded, 1}}}, summary.TrainingGroups)
	require.Contains(t, summary.Metrics, env.Metric{Name: "train/groups_dropped/equal_scores", Value: 2})
	require.Contains(t, summary.Metrics, env.Metric{Name: "train/groups_dropped", Value: 4})
	require.Contains(t, summary.Metrics, env.Metric{Name: "train/groups_kept", Value: 1})
	require.Len(t, h.observer.warnings, 4)
	list := decisions(t, h.dir)
	require.Len(t, list, 4)
	for _, d := range list {
		require.False(t, d.Kept)
		require.NotEmpty(t, d.Text)
		require.Len(t, d.Rollouts, 2)
	}
	path := filepath.Join(h.dir, "group_decisions.jsonl")
	before, err := os.ReadFile(path)
	require.NoError(t, err)

	// Nothing changed but that the failed rollouts are tried again.
	down.Store(false)
	h.resume = true
	requests := h.server.RequestCount()
	judged.Store(0)
	summary = run()
	require.Equal(t, requests+2, h.server.RequestCount(), "only what failed is paid for again")
	require.EqualValues(t, 2, judged.Load(), "only the group of what failed is judged again")
	require.Len(t, sink.groups, 2)
	require.Equal(t, &env.TrainingGroups{Kept: 2, Dropped: []env.ReasonCount{{env.DropEqualScores, 2}, {env.DropDiscarded, 1}}}, summary.TrainingGroups)
	after, err := os.ReadFile(path)
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(string(after), string(before)), "decisions are only added")
	list = decisions(t, h.dir)
	require.Len(t, list, 4)
	kept := 0
	for _, d := range list {
		if d.Kept {
			kept++
			require.Equal(t, "item-3", d.ItemID)
		}
	}
	require.Equal(t, 1, kept)

	// Again, with nothing left to do.
	requests = h.server.RequestCount()
	judged.Store(0)
	again := run()
	require.Equal(t, requests, h.server.RequestCount())
	require.Zero(t, judged.Load())
	require.Equal(t, summary.TrainingGroups, again.TrainingGroups)
}

func TestAPartialGroupIsDoneAndWhatItLacksIsNotRunAgain(t *testing.T) {
	h := newHarness(t, func(r *modeltest.Request) modeltest.Reply { return modeltest.Text("x") })
	sink := &memorySink{groups: map[int]trajectories.Group{}}
	var calls atomic.Int64
	e := &judging{counting: counting{items: 1}, asked: map[string]int{}, scores: map[string][]float64{"item-0": {1, 0, 0.5}}}
	e.prompt = nil
	h.script = func(*modeltest.Request) modeltest.Reply {
		if calls.Add(1) == 2 {
			return modeltest.Status(400)
		}
		return modeltest.Text("x")
	}
	e.extend = func(g *trajectories.Group) error {
		for i := range g.Sequences {
			g.Sequences[i].Overrides = []byte(fmt.Sprintf(`{"attempt":%d}`, g.Sequences[i].Attempt))
		}
		return nil
	}
	h.policy.MaxAttempts = 1
	h.change = func(o *env.Options) {
		o.Environment, o.Groups, o.GroupsInFlight = e, sink, 1
		o.Config.GroupSize, o.Config.PartialGroups = 4, 2
	}
	summary, _, err := h.run(t.Context(), config.Process, &e.counting)
	require.NoError(t, err)
	g := sink.groups[0]
	require.Len(t, g.Sequences, 3)
	require.Equal(t, 3, g.Size)
	for _, s := range g.Sequences {
		require.JSONEq(t, fmt.Sprintf(`{"attempt":%d}`, s.Attempt), string(s.Overrides))
	}
	require.Equal(t, []env.ReasonCount{{env.DropMissingMember, 1}}, summary.TrainingGroups.LeftOut)
	require.Contains(t, summary.Metrics, env.Metric{Name: "train/group_rollouts_left_out/missing_member", Value: 1})

	h.resume = true
	e.next = 0
	summary, _, err = h.run(t.Context(), config.Process, &e.counting)
	require.NoError(t, err)
	require.EqualValues(t, 4, calls.Load(), "the group went on without the rollout that failed")
	require.Equal(t, &env.TrainingGroups{Kept: 1, LeftOut: []env.ReasonCount{{env.DropMissingMember, 1}}}, summary.TrainingGroups)
}

// brokenSink takes nothing. It refuses when as many groups are there as together waits
// for, so that no rollout is under way then; nil: at once.
type brokenSink struct{ together *sync.WaitGroup }

func (brokenSink) Has(int) bool { return false }
func (b brokenSink) Write(trajectories.Group) error {
	if b.together != nil {
		b.together.Done()
		b.together.Wait()
	}
	return errors.New("no space left")
}

func TestAGroupThatCanNotBeHandedOnEndsTheRunAndIsOfferedAgain(t *testing.T) {
	h := newHarness(t, modeltest.Always(modeltest.Text("x")))
	e := &judging{counting: counting{items: 2}, asked: map[string]int{}}
	var both sync.WaitGroup
	both.Add(2)
	for _, broken := range []brokenSink{{&both}, {}} { // while it runs, and when all of it was recorded before
		h.change = func(o *env.Options) { o.Environment, o.Groups, o.GroupsInFlight = e, broken, 2 }
		_, _, err := h.run(t.Context(), config.Process, &e.counting)
		require.ErrorIs(t, err, env.ErrStore)
		require.ErrorContains(t, err, "no space left")
		h.resume = true
		e.next = 0
	}
	sink := &memorySink{groups: map[int]trajectories.Group{}}
	h.change = func(o *env.Options) { o.Environment, o.Groups = e, sink }
	summary, _, err := h.run(t.Context(), config.Process, &e.counting)
	require.NoError(t, err)
	require.Equal(t, 2, summary.TrainingGroups.Kept)
	require.Equal(t, 4, h.server.RequestCount())
}

// keyed is an environment whose items are known by their content.
type keyed struct{ counting }

func (*keyed) ContentKeyed() {}

func TestAGroupThatWasRecordedIsHandedOnAlsoWhenItsItemIsGone(t *testing.T) {
	h := newHarness(t, modeltest.Always(modeltest.Text("x")))
	first := &keyed{counting{items: 3}}
	h.change = func(o *env.Options) { o.Environment = first }
	_, _, err := h.run(t.Context(), config.Process, &first.counting)
	require.NoError(t, err)

	// The first two items were taken out of the dataset before anyone came to their groups.
	h.resume = true
	sink := &memorySink{groups: map[int]trajectories.Group{}}
	second := &keyed{counting{items: 4, next: 2}}
	h.change = func(o *env.Options) { o.Environment, o.Groups = second, sink }
	summary, _, err := h.run(t.Context(), config.Process, &second.counting)
	require.NoError(t, err)
	require.Equal(t, &env.TrainingGroups{Kept: 4}, summary.TrainingGroups)
	require.Equal(t, "item-0", sink.groups[0].ItemID)
	require.Equal(t, 8, h.server.RequestCount())
}

func TestOtherRulesJudgeAgain(t *testing.T) {
	h := newHarness(t, modeltest.Always(modeltest.Text("x")))
	sink := &memorySink{groups: map[int]trajectories.Group{}}
	for _, c := range []struct {
		drop bool
		want int
	}{{true, 0}, {false, 2}} {
		e := &judging{counting: counting{items: 2}, asked: map[string]int{}, scores: map[string][]float64{"item-0": {1}, "item-1": {1}}}
		h.change = func(o *env.Options) {
			o.Environment, o.Groups = e, sink
			o.Config.EnsureScoresAreNotSame = c.drop
		}
		summary, _, err := h.run(t.Context(), config.Process, &e.counting)
		require.NoError(t, err)
		require.Equal(t, c.want, summary.TrainingGroups.Kept)
		require.Equal(t, 2-c.want, summary.TrainingGroups.DroppedGroups())
		h.resume = true
	}
	require.Equal(t, 4, h.server.RequestCount())
}

func TestManyGroupsLeftOutForOneReasonAreToldOfOnceAndForAll(t *testing.T) {
	h := newHarness(t, modeltest.Always(modeltest.Text("x")))
	sink := &memorySink{groups: map[int]trajectories.Group{}}
	e := &judging{counting: counting{items: 30}, asked: map[string]int{}}
	e.extend = func(*trajectories.Group) error { panic("no reference model") }
	h.change = func(o *env.Options) { o.Environment, o.Groups = e, sink }
	summary, _, err := h.run(t.Context(), config.Process, &e.counting)
	require.NoError(t, err)
	require.Equal(t, []env.ReasonCount{{env.DropEnvironmentError, 30}}, summary.TrainingGroups.Dropped)
	require.Len(t, h.observer.warnings, 6)
	require.Contains(t, strings.Join(h.observer.warnings, "\n"), "no reference model")
	require.Contains(t, strings.Join(h.observer.warnings, "\n"), "are only counted")

	// The environment's failure is not a judgement: it is asked again.
	h.resume = true
	e.next, e.extend = 0, nil
	summary, _, err = h.run(t.Context(), config.Process, &e.counting)
	require.NoError(t, err)
	require.Equal(t, &env.TrainingGroups{Kept: 30}, summary.TrainingGroups)
}
