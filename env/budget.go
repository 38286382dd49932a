package env

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/hermes-env/hermes-env/agentloop/chat"
	"github.com/hermes-env/hermes-env/agentloop/model"
	"github.com/hermes-env/hermes-env/env/config"
	"github.com/hermes-env/hermes-env/trajectories"
)

// Names of the fields that set budgets.
const (
	fieldBudgetTokens = "env.budget_tokens"
	fieldBudgetUSD    = "env.budget_usd"
	fieldBudgetTime   = "env.budget_time"
)

// firstRollouts is how many rollouts start while none has ended and told what one
// costs; a larger group starts all the same, alone.
const firstRollouts = 4

// budget admits rollouts as long as what the run has spent, and what those under way are
// going to spend, leaves room for them. It never ends a rollout. Its methods may be called
// from many goroutines at once. A nil budget admits everything.
type budget struct {
	tokens, usd float64 // 0: no limit
	time        time.Duration
	slots       int // rollouts that can run at once
	dearest     *model.Price
	before      time.Duration // that earlier sessions took
	began       time.Time
	warn        func(string)

	mu       sync.Mutex
	spent    trajectories.Spent // by the rollouts that are over, of all sessions
	ended    int                // rollouts of this session that are over
	admitted int                // those that are not, also while they wait for a worker
	running  map[*ledger]struct{}
	changed  chan struct{} // closed, and made anew, when a rollout is over
	waited   bool          // the user was told that rollouts wait
}

// newBudget returns the budget of a run, nil when it has none. prices are those of all
// model servers; nil stands for one that is not known.
func newBudget(c config.Env, prices []*model.Price, slots int, warn func(string)) *budget {
	if c.BudgetTokens == 0 && c.BudgetUSD == 0 && c.BudgetTime == 0 {
		return nil
	}
	b := &budget{
		tokens: float64(c.BudgetTokens), usd: c.BudgetUSD, time: c.BudgetTime.Duration(), slots: slots, warn: warn,
		running: make(map[*ledger]struct{}), changed: make(chan struct{}),
	}
	for _, p := range prices {
		if p == nil {
			continue
		}
		if b.dearest == nil {
			b.dearest = &model.Price{}
		}
		b.dearest.Input = max(b.dearest.Input, p.Input)
		b.dearest.CachedInput = max(b.dearest.CachedInput, p.CachedInput)
		b.dearest.Output = max(b.dearest.Output, p.Output)
	}
	return b
}

// open begins a session: with what earlier ones have spent, and how long they took.
func (b *budget) open(spent trajectories.Spent, before time.Duration) {
	if b == nil {
		return
	}
	b.spent, b.before, b.began = spent, before, time.Now()
	if n := spent.Unpriced.Rollouts; b.usd > 0 && n > 0 && b.dearest != nil {
		b.warn(fmt.Sprintf("%s on record without a cost: env.budget_usd counts their tokens at the highest of the prices configured now", plural(n, "rollout")))
	}
}

// over says why not even one more rollout may start at present; nil when it may.
func (b *budget) over() error {
	if b == nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.refusal(1)
}

// admit waits until n rollouts may start. Its error is a *BudgetError or ErrBudgetUnkept
// when they never may, ErrInterrupted when drain is closed before.
func (b *budget) admit(ctx context.Context, drain <-chan struct{}, n int) error {
	if b == nil {
		return nil
	}
	for {
		b.mu.Lock()
		full := b.admitted >= b.slots || b.unknown() && b.admitted > 0 && b.admitted+n > firstRollouts
		var err error
		if !full {
			err = b.refusal(n)
		}
		if !full && err == nil {
			b.admitted += n
			b.mu.Unlock()
			return nil
		}
		changed, idle := b.changed, b.admitted == 0
		say := err != nil && !idle && !b.waited
		b.waited = b.waited || say
		under := b.admitted
		b.mu.Unlock()
		if err != nil && (idle || errors.Is(err, ErrBudgetUnkept)) {
			return err
		}
		if say {
			b.warn(fmt.Sprintf("%v; with %s still under way, others start only as far as these leave room", err, plural(under, "rollout")))
		}
		select {
		case <-changed:
		case <-drain:
			return ErrInterrupted
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// unknown says that a limit hangs on what a rollout costs, and none has told yet. mu is held.
func (b *budget) unknown() bool {
	return (b.tokens > 0 || b.usd > 0) && b.spent.Rollouts == 0 && b.ended < firstRollouts
}

// begin takes note that an admitted rollout runs.
func (b *budget) begin(l *ledger) {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.running[l] = struct{}{}
}

// end takes note that a rollout is over, with what it is recorded as.
func (b *budget) end(l *ledger, rec *trajectories.Rollout) {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.running, l)
	b.admitted--
	b.ended++
	b.spent.Add(rec.Entry())
	if l.earlier != nil {
		b.spent.Remove(l.earlier.Entry()) // counted since the session began
	}
	close(b.changed)
	b.changed = make(chan struct{})
}

// exhausted says that not even a rollout under way should try once more.
func (b *budget) exhausted() bool {
	if b == nil {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	live := b.live()
	return b.unkept(live) != nil ||
		b.tokens > 0 && b.tokensSpent()+live.tokens >= b.tokens ||
		b.usd > 0 && b.usdSpent()+live.usd >= b.usd ||
		b.time > 0 && b.elapsed() >= b.time
}

// use is what the rollouts under way have used so far.
type use struct {
	amount
	each       []amount
	unreported int // answers without token counts
	unpriced   int // answers of unknown cost
}

// amount is what one rollout has used.
type amount struct{ tokens, usd float64 }

// live adds up what the rollouts under way have used so far. mu is held.
func (b *budget) live() use {
	var u use
	for l := range b.running {
		s := l.total()
		a := amount{float64(s.Usage.PromptTokens + s.Usage.CompletionTokens), s.USD}
		u.tokens += a.tokens
		u.usd += a.usd
		u.each = append(u.each, a)
		u.unreported += s.Unreported
		u.unpriced += s.Unpriced
	}
	return u
}

func (b *budget) tokensSpent() float64 { return float64(b.spent.Tokens()) }

func (b *budget) usdSpent() float64 {
	usd := b.spent.USD
	if b.dearest != nil {
		usd += b.dearest.USD(usageOf(b.spent.Unpriced))
	}
	return usd
}

func (b *budget) elapsed() time.Duration { return b.before + time.Since(b.began) }

// unkept says why a budget can't be kept because nobody knows what was spent. mu is held.
func (b *budget) unkept(live use) error {
	if n := b.spent.Unreported + live.unreported; b.tokens > 0 && n > 0 {
		return fmt.Errorf("%w: %s came without token counts, so %s means nothing with this server: set it to 0 to go on without it", ErrBudgetUnkept, plural(n, "answer"), fieldBudgetTokens)
	}
	if b.usd == 0 {
		return nil
	}
	n := live.unpriced
	if b.dearest == nil {
		n += b.spent.Unpriced.Calls
	} else if !b.dearest.Free() {
		n += b.spent.Unpriced.Unreported
	}
	if n > 0 {
		return fmt.Errorf("%w: the cost of %s is not known, for want of token counts or of a price for their server: set %s to 0 to go on without it", ErrBudgetUnkept, plural(n, "answer"), fieldBudgetUSD)
	}
	return nil
}

// refusal says why n more rollouts may not start now; nil when they may. mu is held.
func (b *budget) refusal(n int) error {
	live := b.live()
	if err := b.unkept(live); err != nil {
		return err
	}
	for _, f := range []struct {
		field        string
		limit, spent float64
		of           func(amount) float64
		mean, now    float64 // of the rollouts that are over, and so far of those under way
	}{
		{fieldBudgetTokens, b.tokens, b.tokensSpent(), func(a amount) float64 { return a.tokens }, mean(b.tokensSpent(), b.spent.Rollouts), live.tokens},
		{fieldBudgetUSD, b.usd, b.usdSpent(), func(a amount) float64 { return a.usd }, mean(b.usdSpent(), b.spent.Rollouts), live.usd},
	} {
		if f.limit == 0 {
			continue
		}
		// Those that end first are the cheap ones, so what the others have used already counts as well.
		each := math.Max(f.mean, mean(f.now, len(live.each)))
		sure := f.spent
		for _, a := range live.each {
			sure += math.Max(each, f.of(a))
		}
		sure += each * float64(b.admitted-len(live.each))
		if f.spent+f.now >= f.limit || sure+each*float64(n) > f.limit*(1+1e-9) {
			return &BudgetError{Field: f.field, Limit: f.limit, Spent: f.spent + f.now, Each: each, perHead: true}
		}
	}
	if b.time == 0 {
		return nil
	}
	each := mean(b.spent.Seconds, b.spent.Recorded)
	if spent := b.elapsed().Seconds(); spent+each > b.time.Seconds() || spent >= b.time.Seconds() {
		return &BudgetError{Field: fieldBudgetTime, Limit: b.time.Seconds(), Spent: spent, Each: each}
	}
	return nil
}

func mean(sum float64, n int) float64 {
	if n == 0 {
		return 0
	}
	return sum / float64(n)
}

func usageOf(t trajectories.Tally) chat.Usage {
	return chat.Usage{PromptTokens: t.PromptTokens, CachedTokens: t.CachedTokens, CompletionTokens: t.CompletionTokens}
}
