package env

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/hermes-env/hermes-env/trajectories"
)

// Reasons of budgets why a run ends before its work is done.
var (
	// ErrBudget: a budget is used up.
	ErrBudget = errors.New("the budget is used up")
	// ErrBudgetUnkept: what the run spends is not known, so a budget would mean nothing.
	ErrBudgetUnkept = errors.New("the budget can't be kept")
)

// BudgetError says which budget a run has used up. It wraps ErrBudget.
type BudgetError struct {
	Field   string  // of the configuration: "env.budget_usd"
	Limit   float64 // in the unit of the field: tokens, USD or seconds
	Spent   float64 // by all sessions, what is under way included
	Each    float64 // what a rollout is going to use, judging by those before it; 0 when unknown
	perHead bool    // the rollouts that are left add up; they don't where they run side by side
}

// Error says what was spent and why no more is.
func (e *BudgetError) Error() string {
	text := fmt.Sprintf("%s: %s of the %s of %s are spent", ErrBudget, e.amount(e.Spent), e.amount(e.Limit), e.Field)
	if e.Spent < e.Limit {
		text += fmt.Sprintf(", and the next rollouts, at %s each, would go beyond it", e.amount(e.Each))
	}
	return text
}

// Unwrap returns ErrBudget.
func (e *BudgetError) Unwrap() error { return ErrBudget }

// Enough returns a limit that is likely to do for so many more rollouts, written as the
// field of the configuration wants it. Where nothing tells, or left is negative, it is
// twice the limit.
func (e *BudgetError) Enough(left int) string {
	enough := 2 * math.Max(e.Limit, e.Spent)
	if e.perHead && left >= 0 && e.Each > 0 {
		// A tenth more, for rollouts differ.
		enough = math.Max(e.Spent+1.1*e.Each*float64(left), e.Limit+e.Each)
	}
	return roundUp(enough)
}

// roundUp rounds to two digits, upwards, so that the number is one a person would write.
func roundUp(v float64) string {
	if v <= 0 || math.IsInf(v, 0) || math.IsNaN(v) {
		return "0"
	}
	unit := math.Pow(10, math.Floor(math.Log10(v))-1)
	rounded := math.Ceil(v/unit-1e-9) * unit
	if unit >= 1 {
		return strconv.FormatFloat(math.Round(rounded), 'f', 0, 64)
	}
	return strconv.FormatFloat(rounded, 'f', int(math.Round(-math.Log10(unit))), 64)
}

func (e *BudgetError) amount(v float64) string {
	switch e.Field {
	case fieldBudgetUSD:
		return trajectories.Dollars(v)
	case fieldBudgetTime:
		return time.Duration(v * float64(time.Second)).Round(time.Second).String()
	}
	return trajectories.Thousands(int64(math.Round(v))) + " tokens"
}

// plural is a number of things for people.
func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
