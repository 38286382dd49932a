package env_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/agentloop/model/modeltest"
	"github.com/hermes-env/hermes-env/env"
	"github.com/hermes-env/hermes-env/env/config"
)

// training hides the held-out set of counting.
type training struct{ *counting }

func (training) EvalItems() {}

func ids(t *testing.T, e env.Environment, s env.Subset) []string {
	t.Helper()
	var list []string
	for item, err := range env.EvalItems(t.Context(), e, s) {
		require.NoError(t, err)
		list = append(list, item.ID)
	}
	return list
}

func TestSubset_TakesTheFirstItemsOrASampleInTheirOrder(t *testing.T) {
	for name, fresh := range map[string]func() env.Environment{
		"a held-out set":    func() env.Environment { return &counting{items: 50} },
		"items of NextItem": func() env.Environment { return training{&counting{items: 50}} },
	} {
		t.Run(name, func(t *testing.T) {
			require.Len(t, ids(t, fresh(), env.Subset{}), 50)
			require.Equal(t, []string{"item-0", "item-1", "item-2"}, ids(t, fresh(), env.Subset{Limit: 3}))
			require.Len(t, ids(t, fresh(), env.Subset{Limit: 90}), 50)
			require.Len(t, ids(t, fresh(), env.Subset{Sample: 90}), 50)

			small, large := ids(t, fresh(), env.Subset{Sample: 5, Seed: 1}), ids(t, fresh(), env.Subset{Sample: 9, Seed: 1})
			require.Len(t, small, 5)
			require.Len(t, large, 9)
			require.Subset(t, large, small)
			require.Equal(t, small, ids(t, fresh(), env.Subset{Sample: 5, Seed: 1}))
			require.NotEqual(t, small, ids(t, fresh(), env.Subset{Sample: 5, Seed: 2}))
			require.True(t, slices.IsSortedFunc(large, func(a, b string) int {
				return itemNumber(t, a) - itemNumber(t, b)
			}))
		})
	}
}

func itemNumber(t *testing.T, id string) (n int) {
	t.Helper()
	_, err := fmt.Sscanf(id, "item-%d", &n)
	require.NoError(t, err)
	return n
}

func TestSubset_SamplesEvenly(t *testing.T) {
	counts := make([]int, 10)
	for seed := range int64(2000) {
		for _, id := range ids(t, &counting{items: 10}, env.Subset{Sample: 3, Seed: seed}) {
			counts[itemNumber(t, id)]++
		}
	}
	for n, count := range counts {
		require.InDelta(t, 600, count, 120, "item %d", n)
	}
}

func TestRunner_RunsTheSubset(t *testing.T) {
	for _, tt := range []struct {
		name     string
		items    int
		mode     config.Mode
		change   func(*config.Env)
		rollouts int
	}{
		{"evaluate, first", 9, config.Evaluate, func(c *config.Env) { c.MaxItems, c.Attempts = 2, 2 }, 4},
		{"evaluate, sample", 9, config.Evaluate, func(c *config.Env) { c.SampleItems, c.Attempts = 3, 1 }, 3},
		{"process, first", 9, config.Process, func(c *config.Env) { c.MaxItems, c.GroupSize, c.TotalSteps = 2, 2, 100 }, 4},
		{"process, sample", 9, config.Process, func(c *config.Env) { c.SampleItems, c.GroupSize, c.TotalSteps = 3, 1, 100 }, 3},
		{"process, a long set", 1 << 40, config.Process, func(c *config.Env) { c.MaxItems, c.GroupSize, c.TotalSteps = 2, 1, 100 }, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := newHarness(t, modeltest.Always(modeltest.Text("x")))
			h.change = func(o *env.Options) { tt.change(&o.Config) }
			summary, rollouts, err := h.run(t.Context(), tt.mode, &counting{items: tt.items})
			require.NoError(t, err)
			require.Len(t, rollouts, tt.rollouts)
			require.LessOrEqual(t, summary.Planned, tt.rollouts)
		})
	}
}

func TestRunner_ServesTheSubsetAgainAndAgain(t *testing.T) {
	e := &counting{items: 9}
	h := newHarness(t, modeltest.Always(modeltest.Text("done")))
	s := &serving{sink: &stepSink{}, enough: 5}
	options := s.options(e)
	h.change = func(o *env.Options) { options(o); o.Config.MaxItems = 2 }
	_, recs, err := h.run(t.Context(), config.Serve, e)
	require.ErrorIs(t, err, errEnough)
	items := map[int]string{}
	for _, r := range recs {
		items[r.Step] = r.ItemID
	}
	require.Equal(t, map[int]string{0: "item-0", 1: "item-1", 2: "item-0", 3: "item-1", 4: "item-0"}, items)
}

func TestRunner_NamesToolsetsOfADistributionThatAreNotHereOnce(t *testing.T) {
	h := newHarness(t, modeltest.Always(modeltest.Text("x")))
	h.change = func(o *env.Options) { o.Config.Distribution = "reasoning" }
	_, _, err := h.run(t.Context(), config.Process, &counting{items: 3})
	require.NoError(t, err)
	require.Len(t, h.observer.warnings, 1)
	require.Contains(t, h.observer.warnings[0], "env.distribution reasoning has toolsets without tools here, which are left out: moa, web")
}
