package env

import (
	"fmt"
	"iter"
	"math/bits"
	"slices"
	"strings"

	"github.com/hermes-env/hermes-env/trajectories"
)

// TestLimit counts the rollouts of a run whose tests could not be kept apart from the
// agent's code in one way.
type TestLimit struct {
	Limit    trajectories.TestLimits // one of them
	Rollouts int
	Items    []string // ids of their items, sorted, each once
}

// Name returns the member of metadata.verifier that notes the limit.
func (l TestLimit) Name() string { return l.Limit.Names()[0] }

// SummarizeTestLimits counts what the records of a run say, those of earlier sessions
// included.
func SummarizeTestLimits(entries iter.Seq[Record]) []TestLimit {
	found := map[trajectories.TestLimits]*TestLimit{}
	items := map[trajectories.TestLimits]map[string]bool{}
	for e := range entries {
		for rest := e.TestLimits; rest != 0; {
			limit := trajectories.TestLimits(1) << bits.TrailingZeros8(uint8(rest))
			rest &^= limit
			if found[limit] == nil {
				found[limit], items[limit] = &TestLimit{Limit: limit}, map[string]bool{}
			}
			found[limit].Rollouts++
			items[limit][e.ItemID] = true
		}
	}
	var list []TestLimit
	for limit, l := range found {
		for item := range items[limit] {
			l.Items = append(l.Items, item)
		}
		slices.Sort(l.Items)
		list = append(list, *l)
	}
	slices.SortFunc(list, func(a, b TestLimit) int { return int(a.Limit) - int(b.Limit) })
	return list
}

// maxItemsNamed bounds the items that a sentence names.
const maxItemsNamed = 5

// Sentence says what the limit means for the results.
func (l TestLimit) Sentence() string {
	names := make([]string, 0, maxItemsNamed+1)
	for _, item := range l.Items[:min(maxItemsNamed, len(l.Items))] {
		names = append(names, trajectories.ShortItemID(item))
	}
	if more := len(l.Items) - len(names); more > 0 {
		names = append(names, fmt.Sprintf("%d more", more))
	}
	what := map[trajectories.TestLimits]string{
		trajectories.TestsLoadedCode:  "loaded the agent's code into their own process, where no harness can detect a forged reward",
		trajectories.TestsNotIsolated: "were not isolated from the agent's code, which can change the reward while they run",
		trajectories.TestFilesChanged: "wrote files that the agent's code then changed; if the tests compare with such a file, the reward can be forged",
	}[l.Limit]
	return fmt.Sprintf("the tests of %s (%s) %s: %s (%s in the records)", plural(len(l.Items), "item"), plural(l.Rollouts, "rollout"), what, strings.Join(names, ", "), l.Name())
}
