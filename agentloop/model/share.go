package model

import (
	"math"
	"time"
)

// SetShare leaves a part of every server's MaxConcurrent to others that use the same
// servers: from now on at most that share of it is in flight, rounded up, and at least
// one request. 1 takes all again. Requests that are in flight stay.
func (p *Pool) SetShare(share float64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range p.state.members {
		m := &p.state.members[i]
		m.part = partOf(m.limit, share)
	}
	p.state.dispatch(time.Now())
	p.arm()
}

// partOf is a share of a limit; 0 means all of it.
func partOf(limit int, share float64) int {
	if limit == 0 || share >= 1 || math.IsNaN(share) {
		return 0
	}
	return max(1, int(math.Ceil(float64(limit)*max(0, share)-1e-9)))
}
