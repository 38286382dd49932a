package env

import (
	"testing"

	"github.com/hermes-env/hermes-env/trajectories"
	"github.com/stretchr/testify/require"
)

func TestABudgetErrorSaysWhatWasSpentAndWhatWouldDo(t *testing.T) {
	for name, c := range map[string]struct {
		err    BudgetError
		left   int
		text   string
		enough string
	}{
		"tokens all spent": {BudgetError{Field: "env.budget_tokens", Limit: 1e6, Spent: 1_000_123, Each: 1000, perHead: true}, 10,
			"the budget is used up: 1,000,123 tokens of the 1,000,000 tokens of env.budget_tokens are spent", "1100000"},
		"money nearly spent": {BudgetError{Field: "env.budget_usd", Limit: 1, Spent: 0.97, Each: 0.05, perHead: true}, 100,
			"the budget is used up: $0.97 of the $1.00 of env.budget_usd are spent, and the next rollouts, at $0.05 each, would go beyond it", "6.5"},
		"cheap ones": {BudgetError{Field: "env.budget_usd", Limit: 0.001, Spent: 0.001, Each: 0.00001, perHead: true}, 3,
			"the budget is used up: $0.0010 of the $0.0010 of env.budget_usd are spent", "0.0011"},
		"nobody knows how many are left": {BudgetError{Field: "env.budget_usd", Limit: 1, Spent: 1.5, Each: 0.5, perHead: true}, -1,
			"the budget is used up: $1.50 of the $1.00 of env.budget_usd are spent", "3.0"},
		"one more than the budget ever had": {BudgetError{Field: "env.budget_tokens", Limit: 10, Spent: 0, Each: 4000, perHead: true}, 1,
			"the budget is used up: 0 tokens of the 10 tokens of env.budget_tokens are spent, and the next rollouts, at 4,000 tokens each, would go beyond it", "4400"},
		"time": {BudgetError{Field: "env.budget_time", Limit: 3600, Spent: 3550, Each: 61}, 5,
			"the budget is used up: 59m10s of the 1h0m0s of env.budget_time are spent, and the next rollouts, at 1m1s each, would go beyond it", "7200"},
	} {
		t.Run(name, func(t *testing.T) {
			require.EqualError(t, &c.err, c.text)
			require.Equal(t, c.enough, c.err.Enough(c.left))
		})
	}
}

func TestAmountsOfMoneyHaveTheDigitsThatMatter(t *testing.T) {
	for usd, text := range map[float64]string{0: "$0.00", 0.0000123: "$0.000012", 0.00123: "$0.0012", 0.0123: "$0.012", 1: "$1.00", 1234.567: "$1234.57"} {
		require.Equal(t, text, trajectories.Dollars(usd))
	}
}
