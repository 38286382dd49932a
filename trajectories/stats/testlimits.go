package stats

import (
	"strings"

	"github.com/hermes-env/hermes-env/trajectories"
)

// TestLimit counts the rows whose tests could not be kept apart from the agent's code in
// one way.
type TestLimit struct {
	Name  string `json:"name"` // a member of metadata.verifier: loaded_by_tests, not_isolated or changed_by_program
	Rows  int    `json:"rows"`
	Items int    `json:"items"`
	// Listed are some of the items, each once.
	Listed []LimitedItem `json:"listed"`
}

// LimitedItem is an item, with the first file or reason of its first row.
type LimitedItem struct {
	Item    string `json:"item_id"`
	Name    string `json:"name"`
	Example string `json:"example"`
}

// testLimits gathers what rows say of them.
type testLimits struct {
	most  int // items that are listed of each
	found map[string]*TestLimit
	items map[string]map[uint64]struct{}
}

func newTestLimits(most int) testLimits {
	return testLimits{most: most, found: map[string]*TestLimit{}, items: map[string]map[uint64]struct{}{}}
}

func (t *testLimits) add(r *row, name string) {
	metadata := []byte(r.metadata.Raw)
	for _, limit := range trajectories.TestLimitsOf(metadata).Names() {
		l := t.found[limit]
		if l == nil {
			l = &TestLimit{Name: limit, Listed: []LimitedItem{}}
			t.found[limit], t.items[limit] = l, map[uint64]struct{}{}
		}
		l.Rows++
		item := hash(r.item)
		if _, ok := t.items[limit][item]; ok || len(t.items[limit]) >= maxTracked {
			continue
		}
		t.items[limit][item] = struct{}{}
		if len(l.Listed) < t.most {
			l.Listed = append(l.Listed, LimitedItem{strings.Clone(r.item), strings.Clone(name), trajectories.TestLimitExample(metadata, limit)})
		}
	}
}

// result lists the limits in the order of trajectories.TestLimits.
func (t *testLimits) result() []TestLimit {
	var list []TestLimit
	for _, name := range trajectories.AllTestLimits.Names() {
		if l := t.found[name]; l != nil {
			l.Items = len(t.items[name])
			list = append(list, *l)
		}
	}
	return list
}
