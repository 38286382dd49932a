package env

import (
	"context"
	"time"

	"github.com/hermes-env/hermes-env/agentloop"
	"github.com/hermes-env/hermes-env/agentloop/chat"
	"github.com/hermes-env/hermes-env/toolcontext"
	"github.com/hermes-env/hermes-env/trajectories"
)

// AgentStored puts into a fresh sandbox what the agent of a recorded rollout had made
// of its own, so that it can be scored again without any model.
const AgentStored Agent = "stored"

// Restorer can bring a sandbox into the state in which a recorded agent left its own.
type Restorer interface {
	// Restorable says why a rollout's state can't be restored; nil when it can.
	Restorable(item Item, rec *trajectories.Rollout) error
	// Restore does so. Its error is the sandbox's failure.
	Restore(ctx context.Context, item Item, rec *trajectories.Rollout, tc *toolcontext.Context) error
}

// RestoreDirUser is told in which run directory the recorded rollouts are.
type RestoreDirUser interface {
	RestoreFrom(dir string)
}

// RunDirUser wants to know where a run is recorded, to put files beside the records.
type RunDirUser interface {
	UseRunDir(dir string)
}

// stored returns the rollout that an attempt is scored from.
func (r *Runner) stored(g *group, attempt int) *trajectories.Rollout {
	if r.opts.Stored == nil {
		return nil
	}
	return r.opts.Stored(trajectories.Key{ItemID: g.item.ID, Step: g.step, Attempt: attempt})
}

// actStored restores what a recorded agent did.
func (r *Runner) actStored(ctx context.Context, item Item, rec *trajectories.Rollout, prompt int, tc *toolcontext.Context) (*agentloop.Result, error) {
	result := &agentloop.Result{
		Messages: append([]chat.Message(nil), rec.Messages...), StopReason: agentloop.StopReason(rec.StopReason),
		TurnsUsed: rec.TurnsUsed, FinishedNaturally: rec.FinishedNaturally, Usage: rec.Usage,
		ReasoningPerTurn: agentloop.ReasoningPerTurn(rec.Messages[min(prompt, len(rec.Messages)):]),
		ToolCalls:        rec.ToolCalls, InvalidToolCalls: rec.InvalidToolCalls, Sequences: storedTokens(rec),
	}
	for _, e := range rec.ToolErrors {
		result.ToolErrors = append(result.ToolErrors, agentloop.ToolError(e))
	}
	for _, t := range rec.Timings.Turns {
		result.Turns = append(result.Turns, agentloop.Turn{
			Model: duration(t.Model), Tools: duration(t.Tools), Total: duration(t.Total), FinishReason: t.FinishReason,
			Usage: chat.Usage{PromptTokens: t.PromptTokens, CompletionTokens: t.CompletionTokens},
		})
	}
	if restorer, ok := r.opts.Environment.(Restorer); ok && (r.opts.Agent == AgentStored || restorer.Restorable(item, rec) == nil) {
		return result, restorer.Restore(ctx, item, rec, tc)
	}
	return result, nil // the agent left nothing but the conversation
}

func duration(seconds float64) time.Duration { return time.Duration(seconds * float64(time.Second)) }
