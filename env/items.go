package env

import (
	"context"
	"fmt"
	"iter"

	"github.com/hermes-env/hermes-env/env/config"
)

// PartialOracle is an Oracle or AnswerOracle without solutions for some of its items.
type PartialOracle interface {
	// HasSolution says whether the item's solution can be carried out.
	HasSolution(item Item) bool
}

// HasOracle reports whether an environment has reference solutions.
func HasOracle(e Environment) bool {
	_, acts := e.(Oracle)
	_, answers := e.(AnswerOracle)
	return acts || answers
}

// HasSolution says whether an environment has a reference solution for an item.
func HasSolution(e Environment, item Item) bool {
	if p, ok := e.(PartialOracle); ok && HasOracle(e) {
		return p.HasSolution(item)
	}
	return HasOracle(e)
}

// EvalItems yields what evaluate runs, in its order and with digests: the held-out
// set where the environment has one, else the items of NextItem, each once.
// Without a held-out set it takes the items out of the environment, which then
// can't run them any more.
func EvalItems(ctx context.Context, e Environment, subset Subset) iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) {
		number := 0
		for item, err := range subset.items(ctx, e, config.Evaluate) {
			number++
			if err == nil {
				err = item.fillDigest()
			}
			if err != nil {
				yield(Item{}, fmt.Errorf("environment %s: item %d: %w", e.Name(), number, err))
				return
			}
			if !yield(item, nil) {
				return
			}
		}
	}
}
