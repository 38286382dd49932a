package env

import (
	"context"
	"sync"

	"github.com/hermes-env/hermes-env/agentloop/model"
	"github.com/hermes-env/hermes-env/trajectories"
)

// ledger keeps what the model calls made for one place of a run use and cost: those of
// the agent and of whoever judges it, over all tries of the rollout.
type ledger struct {
	agent, judge model.Account

	mu     sync.Mutex
	failed model.Spend // of the tries before this one

	// earlier is the recorded rollout whose conversation an earlier session paid for.
	earlier   *trajectories.Rollout
	abandoned bool // the conversation is held once more
}

type ledgerKey struct{}

// into returns a context whose model calls are the agent's.
func (l *ledger) into(ctx context.Context) context.Context {
	return model.WithAccount(context.WithValue(ctx, ledgerKey{}, l), &l.agent)
}

// judging returns a context whose model calls are made to score the agent.
func judging(ctx context.Context) context.Context {
	l, ok := ctx.Value(ledgerKey{}).(*ledger)
	if !ok {
		return ctx
	}
	return model.WithAccount(ctx, &l.judge)
}

// nextTry puts aside what the try cost that is not going to be recorded.
func (l *ledger) nextTry() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.abandoned = true
	l.failed = l.failed.Add(l.agent.Take()).Add(l.judge.Take())
}

// total returns what this session has spent so far, all tries together.
func (l *ledger) total() model.Spend {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failed.Add(l.agent.Spend()).Add(l.judge.Spend())
}

// record returns what was spent so far, as it is recorded with the rollout.
func (l *ledger) record() *trajectories.Spend {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := &trajectories.Spend{Agent: bill(l.agent.Spend()), Judge: bill(l.judge.Spend()), FailedTries: bill(l.failed)}
	if l.earlier != nil && l.earlier.Spend != nil {
		before := *l.earlier.Spend
		if l.abandoned {
			before = trajectories.Spend{FailedTries: before.FailedTries.Add(before.Agent).Add(before.Judge)}
		}
		s.Agent, s.Judge, s.FailedTries = before.Agent.Add(s.Agent), before.Judge.Add(s.Judge), before.FailedTries.Add(s.FailedTries)
	}
	return s
}

func bill(s model.Spend) trajectories.Bill {
	b := trajectories.Bill{
		Calls: s.Calls, Unreported: s.Unreported,
		PromptTokens: s.Usage.PromptTokens, CachedTokens: s.Usage.CachedTokens, CompletionTokens: s.Usage.CompletionTokens,
	}
	if s.Calls > 0 && s.Unpriced == 0 {
		b.USD = &s.USD
	}
	return b
}
