package model

import (
	"fmt"
	"math"
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
	// firstCuts is after how many cuts the first trial of a known rate begins, mostCuts the
	// longest distance: it doubles with each trial that finds what was known.
	firstCuts, mostCuts = 2, 16
	// knownTrial is how many requests a trial of a known rate takes, and knownSeconds how long
	// it takes at most.
	knownTrial, knownSeconds = 100, 10
	// trialSample is how many requests the rate of such a trial is measured over at least: it
	// must be below what the server takes.
	trialSample = 20
	// toleranceSample is over how many requests refusals at a known rate are counted.
	toleranceSample = 200
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
	sent    int     // requests since the last trial
	single  int     // of them refused
	ended   int     // requests since the last trial that the server took
	every   int     // after how many the next one begins
	cuts    int     // since the last trial of a known rate
	per     int     // after how many the next one begins
	taken   float64 // requests a second that the server took before the last cut
	first   float64 // the pace before the first cut since the last trial
	paced   tally   // at a known rate, since the last cut
	apart   tally   // in trials: refusals that don't depend on the rate
	trial   trial
}

// base is the share of requests that are refused at any rate, as trials have shown.
func (r *refusals) base() float64 {
	return min(refusedShare, float64(r.apart.refused)/float64(max(1, r.apart.sent)))
}

// tolerated returns how many of n requests at a known rate may be refused before the rate
// is taken to be exceeded: one, and what the base makes likely.
func (r *refusals) tolerated(n int) float64 {
	likely := r.base() * float64(n)
	return 1 + likely + 2*math.Sqrt(likely)
}

// learn adds the result of a trial to what is known of the base.
func (r *refusals) learn(sent, refused int) {
	if r.apart.sent > 2*knownTrial {
		r.apart.sent, r.apart.refused = r.apart.sent/2, r.apart.refused/2
	}
	r.apart.sent += sent
	r.apart.refused += refused
}

// trial is a time in which requests go out more slowly.
type trial struct {
	on            bool
	counts        time.Time // when its requests begin to count
	flying        int       // in flight at its begin
	epoch         uint64    // of those
	window        int       // before it
	paced         bool      // there was a pace before it
	rate          float64   // that holds afterwards
	need          int       // requests
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
	if r.paced.sent++; r.paced.sent > toleranceSample {
		r.paced.sent, r.paced.refused = r.paced.sent/2, r.paced.refused/2
	}
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
			if r.trial.refused++; !r.limited && r.trial.refused > trialReal {
				t.endTrial(now)
			}
		}
		return true
	}
	if t.paused(now) {
		return false
	}
	if r.limited {
		if t.pace.perSecond == 0 {
			return false
		}
		r.paced.refused++
		return float64(r.paced.refused) <= r.tolerated(r.paced.sent)
	}
	if float64(r.recent.refused) > r.share*float64(r.recent.sent) {
		// A pause may be all it takes: only several refusals show that there is a rate.
		r.limited = r.recent.refused >= leastRefused
		return false
	}
	r.single++
	if r.single >= r.every {
		if rate := t.accepted(now); rate > 0 {
			t.beginTrial(now, float64(r.single)/float64(max(1, r.sent)), rate, rate)
		}
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

// beginTrial slows requests down. share is that of the refused requests, taken what the
// server took in a second, and rate the one that holds afterwards.
func (t *throttle) beginTrial(now time.Time, share, taken, rate float64) {
	r := &t.about
	paced := t.pace.perSecond > 0
	slow := trialPace * taken
	t.pace = bucket{perSecond: slow, capacity: max(1, slow*paceBurst), level: 1, at: now}
	need := max(leastTrial, int(trialRefusals/max(share, trialRefusals/longestTrial)))
	flying := t.inFlight
	if r.limited {
		flying = 0 // a pause has just ended
		need = max(leastTrial, min(knownTrial, int(knownSeconds*slow)))
	}
	r.trial = trial{on: true, counts: now.Add(trialWarmup), flying: flying, window: t.window, paced: paced, rate: rate, need: need}
	t.since, t.interval = now, tally{}
}

// endTrial draws the conclusion.
func (t *throttle) endTrial(now time.Time) {
	r := &t.about
	known := r.limited
	found := known || r.trial.refused <= trialReal
	rate, window, paced := r.trial.rate, r.trial.window, r.trial.paced
	sent, refused := r.trial.sent, r.trial.refused
	r.trial, r.recent, r.paced, r.sent, r.single, r.ended, r.cuts = trial{}, tally{sent: max(recentSample, t.inFlight)}, tally{}, 0, 0, 0, 0
	t.since, t.interval, t.episode = now, tally{}, tally{}
	r.limited = found
	if !found {
		// They go on at any rate: more of them are put up with.
		r.share = min(max(refusedShare, 2*float64(refused)/float64(max(1, sent))), 0.9)
		r.every = min(2*r.every, mostTrial)
		t.window, t.patience, t.probing = 0, shortestPatience, false
		t.pace = bucket{}
		if paced {
			t.pace = bucket{perSecond: rate, capacity: max(1, rate*paceBurst), level: 1, at: now}
		}
		return
	}
	if !known {
		r.apart = tally{}
		window = 2 * t.inFlight
		t.successes, t.step = 0, 1
	}
	measured := 2
	switch {
	case !known:
	case float64(refused) <= r.tolerated(sent):
		r.per = min(2*r.per, mostCuts) // what was known is right
	default: // the cuts were not
		rate = max(rate, r.first)
		t.measured, measured = 1, 1 // the pace is less certain
	}
	if known {
		r.learn(sent, refused)
	}
	r.share, r.every = refusedShare, firstTrial
	rate /= 1 - r.base()
	t.pace = bucket{perSecond: rate, capacity: max(1, rate*paceBurst), level: 1, at: now}
	t.measured = max(measured, t.measured)
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
	if r.cuts++; r.cuts >= r.per && r.taken > 0 && r.ended > 2*t.inFlight {
		t.beginTrial(now, share, min(r.taken, t.pace.perSecond), t.pace.perSecond*(1-r.base()))
	}
}
