package model

import (
	"math"
	"time"
)

// Rates bounds what is sent to one server. The zero value bounds nothing.
type Rates struct {
	RequestsPerMinute float64 // 0 means no limit
	TokensPerMinute   float64 // prompts and completions together; 0 means no limit
	// OnRefusal says what a refusal means for other requests; "" means RefusalsAdapt.
	OnRefusal RefusalPolicy
}

const (
	// burst is how many seconds of its rate a bucket holds: what may go out at once
	// after a quiet time. Providers that count per minute refill all the time, so a
	// bucket of a whole minute would be refused.
	burst = 5.0
	// shortestPause and longestPause bound the wait after a refusal that names none.
	// It doubles while nothing gets through.
	shortestPause, longestPause = time.Second, time.Minute
	// shortestPatience and longestPatience bound how long after the last request another
	// one is sent on trial although the window is full. It doubles with each one in vain.
	shortestPatience, longestPatience = time.Second, 2 * time.Minute
	// paceDoubling is how long a learned rate takes to double while nothing is refused,
	// to find out when the server takes more. It grows little at first and ever faster:
	// the square of the time counts.
	paceDoubling = 25.0 // seconds
	// firstDoubling is the same for the first rate that is learned, most of whose time was
	// pauses.
	firstDoubling = 10.0
	// paceBurst is how many seconds of a learned rate may go out at once.
	paceBurst = 0.25
)

// bucket is a token bucket. Its level may fall below zero: what cost more than was
// thought is paid back before the next request goes out.
type bucket struct {
	perSecond float64 // 0 means no limit
	capacity  float64
	level     float64
	at        time.Time // of level; zero before the first use, when the bucket is full
}

func newBucket(perMinute float64) bucket {
	rate := perMinute / 60
	return bucket{perSecond: rate, capacity: max(1, rate*burst), level: max(1, rate*burst)}
}

func (b *bucket) refill(now time.Time) {
	if b.perSecond == 0 {
		return
	}
	if !b.at.IsZero() {
		if d := now.Sub(b.at).Seconds(); d > 0 { // a clock may be set back
			b.level = min(b.capacity, b.level+d*b.perSecond)
		}
	}
	b.at = now
}

// wait returns how long the cost can't be paid yet. What costs more than the bucket
// holds is let through when it is full. The bucket must be refilled.
func (b *bucket) wait(cost float64) time.Duration {
	if b.perSecond == 0 {
		return 0
	}
	missing := min(cost, b.capacity) - b.level
	if missing < 1e-6 {
		return 0
	}
	return time.Duration(math.Ceil(missing/b.perSecond*1e6)) * time.Microsecond
}

func (b *bucket) take(cost float64) {
	if b.perSecond > 0 {
		b.level -= cost
	}
}

// throttle is what is known and configured about the rate that one server takes. It is
// a pure state machine like poolState. Three things hold requests back:
//
//   - the configured rates, two buckets;
//   - a pause after a refusal (429, or 503 with Retry-After), as long as the server asks;
//   - what refusals teach: a window of requests at once that is halved by a refusal and
//     grows while there are none, and the pace at which the server took requests between
//     the last two refusals.
type throttle struct {
	limit            int // configured requests at once, 0 for none
	requests, tokens bucket
	cost             estimate

	window    int    // requests at once; 0 means no refusal has taught one
	before    int    // what was in flight at the cut that set the window
	successes int    // since the window grew last
	step      int    // by how much it grows next
	epoch     uint64 // number of cuts: requests sent before the last one don't cut again

	until    time.Time // end of the pause
	streak   int       // refusals in a row between which nothing got through
	pace     bucket    // the learned rate
	measured int       // how often it was

	inFlight int
	flying   int           // in flight at the last cut
	last     time.Time     // when the last request was sent
	patience time.Duration // after it until a full window is widened on trial
	probing  bool          // the window was widened so

	settling bool      // a pause has begun at whose end the counts below are looked at
	since    time.Time // begin of the interval over which the pace is measured
	interval tally     // of it
	episode  tally     // since the last pause
	refusals int64     // in all
	about    refusals  // whether they depend on the rate
}

// tally counts what became of requests.
type tally struct {
	sent, refused int
	ended         int // those that were not refused
}

// taken is how many requests the server took, as far as one can know: refusals come fast.
func (c tally) taken() int { return c.sent - c.refused }

func newThrottle(r Rates, limit int) throttle {
	t := throttle{limit: limit, patience: shortestPatience, cost: estimate{perByte: 0.3, completion: 256}, about: newRefusals(r.OnRefusal)}
	if r.RequestsPerMinute > 0 {
		t.requests = newBucket(r.RequestsPerMinute)
	}
	if r.TokensPerMinute > 0 {
		t.tokens = newBucket(r.TokensPerMinute)
	}
	return t
}

// idle says that nothing can hold a request back.
func (t *throttle) idle() bool {
	return t.window == 0 && t.pace.perSecond == 0 && t.requests.perSecond == 0 && t.tokens.perSecond == 0
}

// wait returns how long a request of that many tokens has to wait, for reasons that
// time alone removes.
func (t *throttle) wait(now time.Time, tokens float64) time.Duration {
	if t.idle() {
		return 0
	}
	if left := t.until.Sub(now); left > 0 {
		return left
	}
	t.settle(now)
	t.refill(now)
	return max(t.requests.wait(1), t.tokens.wait(tokens), t.pace.wait(1), t.room(now))
}

// room returns when the window lets another request go, however long those in flight
// take: 0 is now.
func (t *throttle) room(now time.Time) time.Duration {
	if t.window == 0 || t.inFlight < t.window {
		return 0
	}
	if left := t.last.Add(t.patience).Sub(now); left > 0 {
		return left
	}
	// The last ones that were sent have not been refused: the server carries them all.
	if t.probing {
		t.patience = shortestPatience
	}
	t.probing = true
	t.widen(t.window + max(1, t.window/8))
	if t.inFlight < t.window {
		return 0
	}
	return longestPatience // all that is configured are in flight
}

func (t *throttle) refill(now time.Time) {
	t.requests.refill(now)
	t.tokens.refill(now)
	if p := &t.pace; p.perSecond > 0 {
		doubling := paceDoubling
		if t.measured == 1 {
			doubling = firstDoubling
		}
		before, after := p.at.Sub(t.since).Seconds()/doubling, now.Sub(t.since).Seconds()/doubling
		grown := after*after - before*before
		if !t.about.limited && t.about.policy != RefusalsPause {
			grown = now.Sub(p.at).Seconds() / liftDoubling
		}
		// A bucket that runs over held nothing back: nothing is learned from that time.
		idle := p.level+now.Sub(p.at).Seconds()*p.perSecond > p.capacity+1
		if after > before && !t.about.trial.on && !(idle && t.about.limited) {
			p.perSecond *= math.Exp2(min(grown, 64))
			p.capacity = max(1, p.perSecond*paceBurst)
		}
		p.refill(now)
		if p.perSecond > 1e6 { // grown beyond what any limit could mean
			*p = bucket{}
			t.about.limited = false
		}
	}
}

// paused says that the server has asked for a pause that is not over.
func (t *throttle) paused(now time.Time) bool { return t.until.After(now) }

// grant takes what a request costs; wait has returned 0 for it.
func (t *throttle) grant(now time.Time, tokens float64) {
	if t.since.IsZero() {
		t.since = now
	}
	t.interval.sent++
	t.episode.sent++
	t.inFlight++
	t.count(now)
	t.last = now
	if t.idle() {
		return
	}
	t.requests.take(1)
	t.tokens.take(tokens)
	t.pace.take(1)
}

// end counts a request that ended, unless refuse does.
func (t *throttle) end() {
	t.inFlight--
	t.interval.ended++
	t.episode.ended++
	t.about.ended++
}

// correct replaces what a request was thought to cost by what it cost.
func (t *throttle) correct(thought, real float64) { t.tokens.take(real - thought) }

// succeed counts a good answer, for the growth of the window.
func (t *throttle) succeed() {
	if t.window == 0 {
		return
	}
	if t.successes++; t.successes < t.window {
		return
	}
	t.successes = 0
	t.widen(t.window + t.step)
	t.step = min(2*t.step, t.window) // a long quiet time is not spent far below what the server takes
}

// widen sets the window, within what is configured.
func (t *throttle) widen(n int) {
	t.window = n
	if t.limit > 0 {
		t.window = min(n, t.limit)
	}
}

// refuse records that the server refused a request which was sent in the given epoch.
// asked is how long the server wants to be left alone, 0 when it doesn't say. It returns
// whether the refusal concerns that request alone, and changes nothing for others.
func (t *throttle) refuse(now time.Time, epoch uint64, asked time.Duration) (alone bool) {
	t.refusals++
	t.interval.refused++
	t.episode.refused++
	t.inFlight--
	if t.alone(now, epoch) {
		return true
	}
	if epoch == t.epoch {
		t.epoch++
		if earlier := t.episode.refused - 1; earlier > 0 { // they waited alone
			t.episode.sent, t.episode.refused = t.episode.sent-earlier, 1
		}
		if t.probing {
			t.patience = min(2*t.patience, longestPatience)
		}
		t.probing = false
		t.flying = t.inFlight + 1
		t.before = t.flying
		if t.window > 0 {
			t.before = min(t.before, t.window)
		}
		t.widen(max(1, t.before/2))
		t.successes, t.step = 0, 1
		backoff := min(longestPause, shortestPause<<min(t.streak, 10))
		if asked == 0 || t.streak > 0 && asked < backoff {
			asked = backoff
		}
		t.settling = true
		t.about.paced = tally{}
		if t.about.cuts == 0 {
			t.about.first = t.pace.perSecond
		}
	}
	if until := now.Add(asked); until.After(t.until) {
		t.until = until
	}
	return false
}

// leastSample and leastInterval are what a pace is measured over, and paceCut is the
// least share of the last pace that a measurement leaves: single ones err.
const (
	leastSample   = 5
	leastInterval = time.Second
	paceCut       = 0.85
)

// settle draws conclusions at the end of a pause, when the refusals that were on their
// way have arrived.
func (t *throttle) settle(now time.Time) {
	if !t.settling {
		return
	}
	t.settling = false
	took := t.episode.taken()
	if took > 0 {
		t.streak = 0
	} else {
		t.streak++
	}
	// What was in flight and not refused the server carries. When it took more than what
	// replaced requests that ended, their number is not what it limits, and may grow as
	// it did.
	carried := max(t.inFlight, t.flying-t.episode.refused)
	t.widen(max(t.window, carried+max(0, took-t.episode.ended)))
	t.episode = tally{}
	share := float64(t.interval.refused) / float64(max(1, t.interval.sent))
	// At both ends of the interval the server's own bucket was empty, so that what it
	// took in between is the rate it allows.
	if n, elapsed := t.interval.taken(), now.Sub(t.since); n >= leastSample && elapsed >= leastInterval {
		taken := float64(n) / elapsed.Seconds()
		if n >= trialSample && t.measured > 0 { // the first one has what the server had saved up
			t.about.taken = taken
		}
		rate := max(taken/(1-t.about.base()), paceCut*t.pace.perSecond)
		t.pace = bucket{perSecond: rate, capacity: max(1, rate*paceBurst), level: 1, at: now}
		t.since, t.interval = now, tally{}
		t.measured++
	}
	t.cut(now, share)
}

// estimate predicts the tokens of a request from what earlier ones cost.
type estimate struct {
	perByte    float64 // tokens of the prompt per byte of its JSON
	completion float64 // tokens of an answer
	seen       bool
}

// size is what is known of a request before it is sent.
type size struct {
	bytes     int // of messages and tools
	tokens    int // of a prompt of token ids
	maxTokens int // limit of the answer, 0 for none
}

func (e *estimate) tokens(s size) float64 {
	completion := e.completion
	if s.maxTokens > 0 {
		completion = min(completion, float64(s.maxTokens))
	}
	return float64(s.tokens) + e.perByte*float64(s.bytes) + completion
}

// learn takes in what an answer cost.
func (e *estimate) learn(s size, prompt, completion int64) {
	share := 0.1
	if !e.seen {
		share, e.seen = 1, true
	}
	if s.bytes > 0 && prompt > 0 {
		e.perByte += share * (float64(prompt)/float64(s.bytes) - e.perByte)
	}
	e.completion += share * (float64(completion) - e.completion)
}
