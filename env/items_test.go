package env_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/agentloop/model/modeltest"
	"github.com/hermes-env/hermes-env/env"
	"github.com/hermes-env/hermes-env/env/config"
	"github.com/hermes-env/hermes-env/toolcontext"
)

func TestOnlySelectedItemsAreRun(t *testing.T) {
	for _, mode := range []config.Mode{config.Evaluate, config.Process} {
		t.Run(string(mode), func(t *testing.T) {
			h := newHarness(t, modeltest.Turns(modeltest.Text("done")))
			h.change = func(o *env.Options) {
				o.Select = func(item env.Item) bool { return item.ID != "item-1" }
				o.Selected = 3
			}
			s, records, err := h.run(t.Context(), mode, &counting{items: 4})
			require.NoError(t, err)
			ran := map[string]bool{}
			for _, r := range records {
				ran[r.ItemID] = true
			}
			require.Equal(t, map[string]bool{"item-0": true, "item-2": true, "item-3": true}, ran)
			require.Equal(t, s.Rollouts, s.Planned)
		})
	}
}

// circling hands out the same two items for ever.
type circling struct{ counting }

func (e *circling) NextItem(context.Context) (env.Item, error) {
	e.next++
	return e.item(e.next % 2)
}

func TestSelectingNothingFromItemsWithoutEndIsAnError(t *testing.T) {
	h := newHarness(t, modeltest.Turns(modeltest.Text("done")))
	h.change = func(o *env.Options) {
		o.Environment = &circling{}
		o.Select = func(env.Item) bool { return false }
	}
	_, records, err := h.run(t.Context(), config.Process, &counting{})
	require.ErrorContains(t, err, "no items are left to run")
	require.Empty(t, records)
}

func TestEvalItemsYieldsEveryItemOnceWithItsDigest(t *testing.T) {
	for name, e := range map[string]env.Environment{"held out": &counting{items: 3}, "handed out for ever": &withoutEnd{&circling{}}} {
		t.Run(name, func(t *testing.T) {
			ids := map[string]bool{}
			for item, err := range env.EvalItems(t.Context(), e, env.Subset{}) {
				require.NoError(t, err)
				require.Contains(t, item.Digest, "sha256:")
				require.False(t, ids[item.ID])
				ids[item.ID] = true
			}
			require.NotEmpty(t, ids)
		})
	}
}

// withoutEnd hides the held-out set.
type withoutEnd struct{ env.Environment }

func TestHasSolutionAsksTheEnvironmentWhereSomeItemsHaveNone(t *testing.T) {
	item := env.Item{ID: "item-1"}
	require.False(t, env.HasSolution(&withoutEnd{&counting{}}, item), "no oracle at all")
	require.True(t, env.HasSolution(&counting{}, item))
	require.False(t, env.HasSolution(partial{&counting{}}, item))
	require.True(t, env.HasSolution(partial{&counting{}}, env.Item{ID: "item-2"}))
}

type partial struct{ *counting }

func (p partial) Oracle(ctx context.Context, item env.Item, tc *toolcontext.Context) error {
	return p.counting.Oracle(ctx, item, tc)
}

func (p partial) HasSolution(item env.Item) bool { return item.ID != "item-1" }
