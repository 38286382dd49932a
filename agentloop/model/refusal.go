package model

import (
	"fmt"
	"time"
)

// RefusalPolicy says what a refusal for a rate (429, or 503 with Retry-After) means for
// the other requests to the same server.
type RefusalPolicy string

// The policies.
const (
	// RefusalsAdapt tells a rate that is exceeded from single refusals: while most requests
	// are accepted, a refused one waits alone. It is the default.
	RefusalsAdapt RefusalPolicy = "adapt"
	// RefusalsPause holds all requests back after every refusal.
	RefusalsPause RefusalPolicy = "pause"
	// RefusalsAlone lets a refused request wait alone, whatever share is refused.
	RefusalsAlone RefusalPolicy = "alone"
)

func (p RefusalPolicy) check() error {
	switch p {
	case "", RefusalsAdapt, RefusalsPause, RefusalsAlone:
		return nil
	}
	return fmt.Errorf("refusal policy %q: want adapt, pause or alone", string(p))
}

const (
	// refusedShare is the share of refused requests from which a rate is taken to be exceeded.
	refusedShare = 1.0 / 3
	// recentSample is over how many requests that share is measured at least.
	recentSample = 32
	// firstTrial is after how many single refusals the first trial begins, mostTrial the
	// longest distance: it doubles with each trial that finds no rate.
	firstTrial, mostTrial = 8, 4096
	// firstCuts is after how many cuts the first trial of a known rate begins.
	firstCuts = 4
	// frequentCuts is the mean time between cuts above which they cost too little for a trial.
	frequentCuts = 5 * time.Second
	// liftDoubling is how long the last pace takes to double when a trial has found that
	// refusals don't depend on it.
	liftDoubling = 2.0 // seconds
	// leastRefused is how many refusals show that there is a rate, and not only a pause.
	leastRefused = 5
	// trialWarmup is the least time at the begin of a trial whose refusals may be due to what
	// was sent before. It lasts until as many requests have ended as were in flight.
	trialWarmup = time.Second
	// trialPace is the share of the accepted rate at which a trial sends.
	trialPace = 0.8
	// trialRefusals is how many refusals a trial would see if they didn't depend on the rate;
	// trialReal is the most with which they are taken to depend on it.
	trialRefusals, trialReal = 9.0, 1
	// leastTrial and longestTrial bound the requests of a trial.
	leastTrial, longestTrial = 20, 1000
	// recentInterval is the longest time over which the accepted rate is measured while
	// nothing is limited.
	recentInterval = 10 * time.Second
)

// refusals decides whether refusals depend on the rate of requests. While few of them are
// refused it takes refusals for single ones. As an exceeded rate can refuse few as well, it
// tests this now and then: it sends more slowly than the server accepted before. Refusals
// that depend on the rate stop then, others go on.
type refusals struct {
	policy  RefusalPolicy
	limited bool  // a rate is known to be exceeded at times
	recent  tally // about the last requests while it is not
	share   float64
	sent    int       // requests since the last trial
	single  int       // of them refused
	every   int       // after how many the next one begins
	cuts    int       // since the last trial of a known rate
	per     int       // after how many the next one begins
	cutting time.Time // when the first of them was counted
	trial   trial
}

// trial is a time in which requests go out more slowly.
type trial struct {
	on            bool
	counts        time.Time // when its requests begin to count
	flying        int       // in flight at its begin
	epoch         uint64    // of those
	window        int       // before it
	paced         bool      // there was a pace before it
	rate          float64
	need          int // requests
	sent, refused int
}

func newRefusals(p RefusalPolicy) refusals {
	return refusals{policy: p, share: refusedShare, every: firstTrial, per: firstCuts}
}

// count takes in a request that is sent.
func (t *throttle) count(now time.Time) {
	r := &t.about
	switch {
	case !r.trial.on || now.Before(r.trial.counts) || t.interval.ended+t.interval.refused < r.trial.flying:
	case r.trial.sent == 0:
		t.epoch++
		r.trial.epoch, r.trial.sent = t.epoch, 1
	case r.trial.sent >= r.trial.need:
		t.endTrial(now)
	default:
		r.trial.sent++
	}
	r.sent++
	r.recent.sent++
	if r.recent.sent >= 2*max(recentSample, t.inFlight) {
		r.recent.sent, r.recent.refused = r.recent.sent/2, r.recent.refused/2
		if !r.limited && !r.trial.on && now.Sub(t.since) > recentInterval {
			t.since, t.interval = now, tally{}
		}
	}
}

// alone says that a refused request, sent in the given epoch, waits alone.
func (t *throttle) alone(now time.Time, epoch uint64) bool {
	r := &t.about
	switch r.policy {
	case RefusalsPause:
		return false
	case RefusalsAlone:
		return true
	}
	r.recent.refused++
	if r.trial.on {
		if r.trial.sent > 0 && epoch == r.trial.epoch {
			if r.trial.refused++; r.trial.refused > trialReal {
				t.endTrial(now)
			}
		}
		return true
	}
	if r.limited || t.paused(now) {
		return false
	}
	if float64(r.recent.refused) > r.share*float64(r.recent.sent) {
		// A pause may be all it takes: only several refusals show that there is a rate.
		r.limited = r.recent.refused >= leastRefused
		return false
	}
	r.single++
	if r.single >= r.every {
		t.beginTrial(now, float64(r.single)/float64(max(1, r.sent)), t.accepted(now))
	}
	return true
}

// accepted returns how many requests a second the server took lately, 0 if that isn't known.
func (t *throttle) accepted(now time.Time) float64 {
	n, elapsed := t.interval.taken(), now.Sub(t.since)
	if n < leastSample || elapsed < leastInterval {
		return 0
	}
	return float64(n) / elapsed.Seconds()
}

// beginTrial slows requests down. share is that of the refused requests, rate what the
// server took in a second.
func (t *throttle) beginTrial(now time.Time, share, rate float64) {
	if rate == 0 {
		return
	}
	r := &t.about
	paced := t.pace.perSecond > 0
	slow := trialPace * rate
	t.pace = bucket{perSecond: slow, capacity: max(1, slow*paceBurst), level: 1, at: now}
	need := int(trialRefusals / max(share, trialRefusals/longestTrial))
	r.trial = trial{on: true, counts: now.Add(trialWarmup), flying: t.inFlight, window: t.window, paced: paced, rate: rate, need: max(leastTrial, need)}
	t.since, t.interval = now, tally{}
}

// endTrial draws the conclusion.
func (t *throttle) endTrial(now time.Time) {
	r := &t.about
	known, found := r.limited, r.trial.refused <= trialReal
	rate, window, paced := r.trial.rate, r.trial.window, r.trial.paced
	refused := float64(r.trial.refused) / float64(max(1, r.trial.sent))
	r.trial, r.recent, r.sent, r.single, r.cuts = trial{}, tally{sent: max(recentSample, t.inFlight)}, 0, 0, 0
	t.since, t.interval, t.episode = now, tally{}, tally{}
	r.limited = found
	if !found {
		// They go on at any rate: more of them are put up with.
		r.share = min(max(refusedShare, 2*refused), 0.9)
		r.every = min(2*r.every, mostTrial)
		t.window, t.patience, t.probing = 0, shortestPatience, false
		t.pace = bucket{}
		if paced {
			t.pace = bucket{perSecond: rate, capacity: max(1, rate*paceBurst), level: 1, at: now}
		}
		return
	}
	if known {
		r.per = min(2*r.per, mostTrial)
	} else {
		window = 2 * t.inFlight
		t.successes, t.step = 0, 1
	}
	r.share, r.every = refusedShare, firstTrial
	t.pace = bucket{perSecond: rate, capacity: max(1, rate*paceBurst), level: 1, at: now}
	t.measured = max(2, t.measured)
	t.widen(max(1, window))
}

// cut counts a cut at the end of its pause, and begins a trial after several.
func (t *throttle) cut(now time.Time, share float64) {
	r := &t.about
	if r.policy == RefusalsPause || r.trial.on {
		return
	}
	if !r.limited { // there is too little to learn from
		t.pace = bucket{}
		r.recent = tally{}
		return
	}
	if share > 0.5 {
		return // the server is full, which a trial can't change
	}
	if r.cuts++; r.cuts == 1 {
		r.cutting = now
	}
	if r.cuts < r.per {
		return
	}
	frequent := now.Sub(r.cutting) < time.Duration(r.cuts)*frequentCuts
	r.cuts = 0
	if frequent {
		t.beginTrial(now, share, t.pace.perSecond)
	}
}
