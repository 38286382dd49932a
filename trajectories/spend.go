package trajectories

import (
	"fmt"
	"math"

	"github.com/tidwall/gjson"
)

// Spend is what the model calls of a rollout used and cost, by who made them.
type Spend struct {
	Agent       Bill // of the try that is recorded
	Judge       Bill // made while that try was scored
	FailedTries Bill // of earlier tries in the same session, agent and judge together
}

// Bill is what some model calls used and cost.
type Bill struct {
	Calls            int   // answers, those of no use included
	Unreported       int   // of these, without token counts
	PromptTokens     int64 // cached ones included
	CachedTokens     int64
	CompletionTokens int64    // those of reasoning included
	USD              *float64 // nil when the cost of some of the calls is not known
}

// usd returns the cost of a bill, and whether it is known: nothing costs nothing.
func (b *Bill) usd() (usd float64, known bool) {
	if b.Calls == 0 {
		return 0, true
	}
	if b.USD == nil {
		return 0, false
	}
	return tinyUSD(*b.USD), true
}

func (s *Spend) bills() [3]*Bill { return [3]*Bill{&s.Agent, &s.Judge, &s.FailedTries} }

// USD returns what the rollout cost, all its calls together, and whether that is known.
func (s *Spend) USD() (usd float64, known bool) {
	for _, b := range s.bills() {
		part, ok := b.usd()
		if !ok {
			return 0, false
		}
		usd += part
	}
	return usd, true
}

// Calls returns the number of answers, all together.
func (s *Spend) Calls() int { return s.Agent.Calls + s.Judge.Calls + s.FailedTries.Calls }

func (s *Spend) check() error {
	for i, b := range s.bills() {
		if b.Calls < 0 || b.Unreported < 0 || b.PromptTokens < 0 || b.CachedTokens < 0 || b.CompletionTokens < 0 {
			return fmt.Errorf("the %s spent less than nothing", billNames()[i])
		}
		if b.USD != nil && (!finite(*b.USD) || *b.USD < 0) {
			return fmt.Errorf("the cost of the %s is %v, not a number from 0", billNames()[i], *b.USD)
		}
	}
	return nil
}

// billNames are the members of a record's "spend", in the order of bills.
func billNames() [3]string { return [3]string{"agent", "judge", "failed_tries"} }

// spend writes what a rollout spent: the cost as a member of its own, which is what
// people look for, and its parts. Bills without calls are left out.
func (e *encoder) spend(s *Spend) {
	if usd, known := s.USD(); known && s.Calls() > 0 {
		e.key("cost_usd")
		e.buf = appendFloat(e.buf, tinyUSD(usd))
	}
	e.key("spend")
	e.raw('{')
	for i, b := range s.bills() {
		if b.Calls == 0 {
			continue
		}
		e.key(billNames()[i])
		e.raw('{')
		e.integer("calls", int64(b.Calls))
		if b.Unreported > 0 {
			e.integer("unreported_calls", int64(b.Unreported))
		}
		e.integer("prompt_tokens", b.PromptTokens)
		e.integer("cached_tokens", b.CachedTokens)
		e.integer("completion_tokens", b.CompletionTokens)
		if b.USD != nil {
			e.key("usd")
			usd, _ := b.usd()
			e.buf = appendFloat(e.buf, usd)
		}
		e.raw('}')
	}
	e.raw('}')
}

// tinyUSD rounds to a billionth of a dollar: one token of the cheapest models costs
// some ten of these, and sums of prices have digits beyond that mean nothing.
func tinyUSD(usd float64) float64 { return math.Round(usd*1e9) / 1e9 }

func decodeSpend(v gjson.Result) *Spend {
	if !v.IsObject() {
		return nil
	}
	s := &Spend{}
	bills, names := s.bills(), billNames()
	v.ForEach(func(key, value gjson.Result) bool {
		for i, name := range names {
			if key.Str == name {
				decodeBill(bills[i], value)
			}
		}
		return true
	})
	return s
}

func decodeBill(b *Bill, v gjson.Result) {
	v.ForEach(func(key, value gjson.Result) bool {
		switch key.Str {
		case "calls":
			b.Calls = int(max(0, value.Int()))
		case "unreported_calls":
			b.Unreported = int(max(0, value.Int()))
		case "prompt_tokens":
			b.PromptTokens = max(0, value.Int())
		case "cached_tokens":
			b.CachedTokens = max(0, value.Int())
		case "completion_tokens":
			b.CompletionTokens = max(0, value.Int())
		case "usd":
			if usd := optionalNumber(value); usd != nil && finite(*usd) && *usd >= 0 {
				b.USD = usd
			}
		}
		return true
	})
}

// Add returns both bills together.
func (b Bill) Add(o Bill) Bill {
	usd, known := b.usd()
	more, also := o.usd()
	sum := Bill{
		Calls: b.Calls + o.Calls, Unreported: b.Unreported + o.Unreported,
		PromptTokens: b.PromptTokens + o.PromptTokens, CachedTokens: b.CachedTokens + o.CachedTokens, CompletionTokens: b.CompletionTokens + o.CompletionTokens,
	}
	if total := usd + more; known && also && sum.Calls > 0 {
		sum.USD = &total
	}
	return sum
}

// Tally adds up what model calls used.
type Tally struct {
	Rollouts         int // that called a model
	Calls            int
	Unreported       int // calls without token counts
	PromptTokens     int64
	CachedTokens     int64 // part of PromptTokens
	CompletionTokens int64
}

// Tokens returns prompt and completion tokens together.
func (t Tally) Tokens() int64 { return t.PromptTokens + t.CompletionTokens }

func (t *Tally) add(o Tally, sign int) {
	t.Rollouts += sign * o.Rollouts
	t.Calls += sign * o.Calls
	t.Unreported += sign * o.Unreported
	t.PromptTokens += int64(sign) * o.PromptTokens
	t.CachedTokens += int64(sign) * o.CachedTokens
	t.CompletionTokens += int64(sign) * o.CompletionTokens
}

// Spent adds up what rollouts used and cost.
type Spent struct {
	Tally          // of all rollouts
	Unpriced Tally // of those whose cost is not known

	USD            float64 // of the rollouts whose cost is known
	JudgeUSD       float64 // of it, for judging
	FailedTriesUSD float64 // of it, for tries that failed and were made again

	Recorded int     // rollouts, also those without a call
	Seconds  float64 // how long they took, added up
}

// Priced says whether there are calls and the cost of every one is known.
func (s *Spent) Priced() bool { return s.Calls > 0 && s.Unpriced.Calls == 0 }

// Add counts one more rollout.
func (s *Spent) Add(e Entry) { s.count(e, 1) }

// Remove takes back what Add counted.
func (s *Spent) Remove(e Entry) { s.count(e, -1) }

func (s *Spent) count(e Entry, sign int) {
	s.Recorded += sign
	s.Seconds += float64(sign) * e.Timings.Total
	s.Tally.add(e.Spend.Tally, sign)
	if !e.Spend.Priced {
		s.Unpriced.add(e.Spend.Tally, sign)
		return
	}
	s.USD += float64(sign) * e.Spend.USD
	s.JudgeUSD += float64(sign) * e.Spend.JudgeUSD
	s.FailedTriesUSD += float64(sign) * e.Spend.FailedTriesUSD
}

// EntrySpend is what a rollout spent, as the index keeps it.
type EntrySpend struct {
	Tally
	Priced                        bool // the cost is known
	USD, JudgeUSD, FailedTriesUSD float64
}

// entrySpend sums up a spend for the index. A record without one was made by a version
// that counted only what the agent used in the recorded try.
func entrySpend(s *Spend, usage EntryUsage, cached int64, turns int) EntrySpend {
	if s == nil {
		e := EntrySpend{Tally: Tally{Calls: turns, PromptTokens: usage.PromptTokens, CachedTokens: cached, CompletionTokens: usage.CompletionTokens}}
		if turns > 0 {
			e.Rollouts = 1
		}
		if e.Tokens() == 0 {
			e.Unreported = turns
		}
		e.Priced = turns == 0
		return e
	}
	var e EntrySpend
	for _, b := range s.bills() {
		e.Calls += b.Calls
		e.Unreported += b.Unreported
		e.PromptTokens += b.PromptTokens
		e.CachedTokens += b.CachedTokens
		e.CompletionTokens += b.CompletionTokens
	}
	if e.Calls > 0 {
		e.Rollouts = 1
	}
	if e.USD, e.Priced = s.USD(); e.Priced {
		e.JudgeUSD, _ = s.Judge.usd()
		e.FailedTriesUSD, _ = s.FailedTries.usd()
	}
	return e
}

// Entry returns what the index keeps of the rollout once it is recorded.
func (r *Rollout) Entry() Entry { return entryOf(r, 0) }

// Spent returns what all rollouts used and cost that were ever recorded in the run, in
// this and earlier sessions: also those that were taken out of it to be run again.
func (r *Run) Spent() Spent {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.spent
}
