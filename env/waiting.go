package env

import (
	"context"
	"fmt"

	"github.com/hermes-env/hermes-env/agentloop"
	"github.com/hermes-env/hermes-env/trajectories"
)

// InstantScorer is implemented by environments whose Reward only computes: it asks no
// model, starts no program and does not touch the sandbox. A finished conversation
// without a sandbox is then not stored before it is scored, because its record follows
// at once.
type InstantScorer interface {
	ScoresInstantly() bool
}

// ConversationScorer is implemented by environments whose Reward may read nothing but the
// item and the conversation: it never uses the sandbox, nor what tools of the environment
// left. A finished conversation can then be scored after its sandbox is gone.
type ConversationScorer interface {
	ScoresConversation() bool
}

// scoresConversation says whether the conversation is all that the reward needs.
func (r *Runner) scoresConversation() bool {
	s, ok := r.opts.Environment.(ConversationScorer)
	return ok && s.ScoresConversation()
}

// keepWaiting stores the finished conversation of a rollout before its sandbox is sealed
// and it is scored, if a later session could score it without running the agent again.
func (r *Runner) keepWaiting(ctx context.Context, c *course, l *leg) error {
	if r.opts.Agent != AgentModel || l.staged || c.stored != nil {
		return nil
	}
	info, boxed := c.tc.Info()
	if s, ok := r.opts.Environment.(InstantScorer); ok && s.ScoresInstantly() && !boxed {
		return nil // with a sandbox, the record follows only after the sandbox is removed
	}
	rec := c.rec
	waiting := *rec
	waiting.Outcome = trajectories.OutcomeCancelled
	waiting.Error = &trajectories.Failure{Class: trajectories.ClassWaiting, Message: "the conversation is finished and waits for its score"}
	if boxed {
		waiting.Sandbox = &trajectories.Sandbox{Backend: info.Backend, Image: info.Image, Digest: info.Digest}
	}
	if !r.scorable(c.a.group.item, &waiting) {
		return nil
	}
	if l.session != nil {
		recordTokens(&waiting, l.session)
	}
	if spend, ok := ctx.Value(ledgerKey{}).(*ledger); ok {
		waiting.Spend = spend.record()
	}
	waiting.FinishedAt = r.now()
	waiting.Timings.Total = waiting.FinishedAt.Sub(rec.StartedAt).Seconds()
	err := r.opts.Store.KeepWaiting(ctx, &waiting)
	if err != nil && ctx.Err() == nil {
		err = fmt.Errorf("%w: %w", ErrStore, err)
		r.abort(err)
	}
	return err
}

// scorable says whether a recorded conversation can be scored although the sandbox in
// which it took place is gone: the conversation is all that the reward needs, the
// environment can restore what its verifier needs, or the agent left nothing else.
func (r *Runner) scorable(item Item, rec *trajectories.Rollout) bool {
	if !waits(rec) || rec.ItemDigest != item.Digest {
		return false
	}
	e := r.opts.Environment
	if s, ok := e.(Stager); ok {
		if stages, err := s.Stages(item); err != nil || len(stages) > 0 {
			return false
		}
	}
	if r.scoresConversation() {
		return true
	}
	if restorer, ok := e.(Restorer); ok && restorer.Restorable(item, rec) == nil {
		return true
	}
	_, prepares := e.(Preparer)
	_, ownTools := e.(ToolProvider)
	return rec.Sandbox == nil && !prepares && !(ownTools && rec.ToolCalls > 0)
}

// waits says whether the agent of a rollout came to an end and the score is missing.
func waits(rec *trajectories.Rollout) bool {
	if rec.Score != nil || rec.Tampered() || rec.TurnsUsed == 0 {
		return false
	}
	switch agentloop.StopReason(rec.StopReason) {
	case "", agentloop.StopModelError, agentloop.StopSandboxError, agentloop.StopCancelled:
		return false
	}
	return true
}

// takeUp makes rec the rollout whose conversation is stored.
func takeUp(rec, stored *trajectories.Rollout) {
	rec.ID, rec.Model, rec.StartedAt = stored.ID, stored.Model, stored.StartedAt
	rec.Sandbox = stored.Sandbox
	rec.Sequences, rec.NotTrainable = stored.Sequences, stored.NotTrainable
}

// keepFailed keeps the conversations of rollouts that are about to be superseded because
// they have no score, so that they only have to be scored.
func (r *Runner) keepFailed(again []trajectories.Entry) error {
	if r.opts.Agent != AgentModel {
		return nil
	}
	for _, e := range again {
		if e.Score != nil || e.TurnsUsed == 0 {
			continue
		}
		rec, err := r.opts.Store.Load(e.Key)
		if err == nil && waits(rec) {
			err = r.opts.Store.KeepWaiting(context.Background(), rec)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// waitingFor returns the conversation that an earlier session finished and did not
// score; nil when there is none that can be scored now.
func (r *Runner) waitingFor(a assignment) *trajectories.Rollout {
	if r.opts.Agent != AgentModel {
		return nil
	}
	rec, err := r.opts.Store.Waiting(a.group.key(a.attempt))
	if err != nil {
		r.opts.Observer.Warn(fmt.Sprintf("%s, attempt %d runs again: %v", r.itemName(a.group.item), a.attempt, err))
		return nil
	}
	if rec == nil || !r.scorable(a.group.item, rec) {
		return nil
	}
	return rec
}
