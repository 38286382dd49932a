package server

import (
	"sync"
	"time"

	"github.com/hermes-env/hermes-env/env/atropos"
)

// window is what rates are averages over, in seconds.
const window = 60

// rates counts by second.
type rates struct {
	mu      sync.Mutex
	begun   time.Time
	seconds [window]second
}

type second struct {
	number                             int64 // since the start
	groups, sequences, tokens, batches int64
}

func (r *rates) begin(now time.Time) { r.begun = now }

// at returns the counters of a second; mu is held.
func (r *rates) at(now time.Time) *second {
	number := max(0, int64(now.Sub(r.begun)/time.Second))
	s := &r.seconds[number%window]
	if s.number != number {
		*s = second{number: number}
	}
	return s
}

func (r *rates) added(now time.Time, groups, sequences, tokens int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.at(now)
	s.groups += groups
	s.sequences += sequences
	s.tokens += tokens
}

func (r *rates) delivered(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.at(now).batches++
}

func (r *rates) averages(now time.Time) atropos.Rates {
	r.mu.Lock()
	defer r.mu.Unlock()
	passed := now.Sub(r.begun)
	oldest := int64(passed/time.Second) - window + 1
	var total second
	for _, s := range r.seconds {
		if s.number >= oldest {
			total.groups += s.groups
			total.sequences += s.sequences
			total.tokens += s.tokens
			total.batches += s.batches
		}
	}
	span := max(1, min(passed.Seconds(), window))
	return atropos.Rates{
		GroupsPerSecond: float64(total.groups) / span, SequencesPerSecond: float64(total.sequences) / span,
		TokensPerSecond: float64(total.tokens) / span, BatchesPerMinute: float64(total.batches) / span * 60,
	}
}
