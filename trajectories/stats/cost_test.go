package stats

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/trajectories"
)

func TestTheCostIsTheRecordedOneUnlessPricesAreGiven(t *testing.T) {
	bill := func(usd float64) trajectories.Bill {
		return trajectories.Bill{Calls: 1, PromptTokens: 1000, USD: &usd}
	}
	judged := rollout("a", 0, pointer(1.0))
	judged.Spend = &trajectories.Spend{Agent: bill(0.5), Judge: bill(0.25)}
	retried := rollout("b", 0, pointer(0.0))
	retried.Spend = &trajectories.Spend{Agent: bill(1), FailedTries: bill(2)}
	unknown := rollout("c", 0, pointer(1.0))
	unknown.Spend = &trajectories.Spend{Agent: bill(9), Judge: trajectories.Bill{Calls: 1}}
	old := rollout("d", 0, pointer(1.0))
	idle := rollout("e", 0, nil)
	idle.Usage.PromptTokens, idle.Usage.CompletionTokens, idle.Spend = 0, 0, &trajectories.Spend{}

	c := New(Config{Top: 2})
	for _, r := range []*trajectories.Rollout{judged, retried, unknown, old, idle} {
		c.Rollout(r)
	}
	r := c.Result()
	require.Equal(t, &Cost{TotalUSD: 3.75, MeanUSD: 1.875, PerPassUSD: 1.25, JudgeUSD: 0.25, FailedTriesUSD: 2, Unknown: 2}, r.Cost)
	require.Equal(t, "b", r.Expensive[0].Item, "the dearest first, whatever its tokens")
	require.Equal(t, 3.0, r.Expensive[0].USD)
	require.Equal(t, "a", r.Expensive[1].Item)

	// Prices of the command line win: they are for the agent's tokens, of every row alike.
	c = New(Config{PromptPrice: 1000})
	for _, r := range []*trajectories.Rollout{judged, retried, unknown, old, idle} {
		c.Rollout(r)
	}
	require.Equal(t, &Cost{TotalUSD: 4, MeanUSD: 1, PerPassUSD: 4.0 / 3}, c.Result().Cost)

	c = New(Config{})
	c.Rollout(old)
	require.Nil(t, c.Result().Cost, "nothing is known")
}
