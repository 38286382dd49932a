package compare

import (
	"github.com/hermes-env/hermes-env/trajectories"
)

// Side is one of the two runs.
type Side struct {
	items map[string]*item
	order []string
}

type item struct {
	digests  map[string]bool
	attempts int // cancelled ones apart
	scored   int
	sum      float64
	passed   int
	judged   int
}

// NewSide returns a run without rollouts.
func NewSide() *Side { return &Side{items: make(map[string]*item)} }

// Add takes one recorded rollout. Cancelled ones say nothing and are left out.
func (s *Side) Add(e trajectories.Entry) {
	it := s.items[e.ItemID]
	if it == nil {
		it = &item{digests: make(map[string]bool)}
		s.items[e.ItemID] = it
		s.order = append(s.order, e.ItemID)
	}
	it.digests[e.ItemDigest] = true
	if e.Outcome == trajectories.OutcomeCancelled {
		return
	}
	it.attempts++
	if e.Score != nil {
		it.scored++
		it.sum += *e.Score
	}
	if e.Passed != nil {
		it.judged++
		if *e.Passed {
			it.passed++
		}
	}
}

// same says whether both recorded the same version of the item.
func (it *item) same(other *item) bool {
	if len(it.digests) != len(other.digests) {
		return false
	}
	for d := range it.digests {
		if !other.digests[d] {
			return false
		}
	}
	return true
}

func (it *item) mean() float64   { return it.sum / float64(it.scored) }
func (it *item) asZero() float64 { return it.sum / float64(it.attempts) }

// passes says whether the item was passed in more than half of its judged attempts.
func (it *item) passes() bool { return 2*it.passed > it.judged }
