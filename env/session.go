package env

import (
	"fmt"

	"github.com/hermes-env/hermes-env/agentloop/model"
	"github.com/hermes-env/hermes-env/trajectories"
)

// openSession gives the legs of a rollout the client they ask: a token-exact session
// of the rollout where the run has those, unless its conversation is finished. What is
// returned puts its tokens into the record.
func (r *Runner) openSession(rec *trajectories.Rollout, legs []leg, finished bool) (finish func(), err error) {
	client := r.opts.Model
	var exact model.Session
	finish = func() {}
	if r.opts.Sessions != nil && r.opts.Agent == AgentModel && !finished {
		session, err := r.opts.Sessions()
		if err != nil {
			return nil, fmt.Errorf("open a token-exact session: %w", err)
		}
		client, exact = session, session
		finish = func() {
			if err := session.Close(); err != nil {
				r.opts.Observer.Warn(fmt.Sprintf("rollout %s: close its token-exact session: %v", rec.ID, err))
			}
			recordTokens(rec, session)
		}
	}
	for i := range legs {
		legs[i].client, legs[i].session = client, exact
	}
	return finish, nil
}

func recordTokens(rec *trajectories.Rollout, session model.Session) {
	rec.Sequences = nil
	for _, s := range session.Sequences() {
		kept := trajectories.TokenSequence{Tokens: s.Tokens, Masks: s.Masks, Logprobs: s.Logprobs, Fork: s.Fork}
		for _, t := range s.Turns {
			kept.Turns = append(kept.Turns, trajectories.TokenTurn{
				Start: t.Start, End: t.End, FinishReason: t.FinishReason, WeightVersion: t.WeightVersion, Drift: t.Drift, Repeated: t.Repeated,
			})
		}
		rec.Sequences = append(rec.Sequences, kept)
	}
	rec.NotTrainable = ""
	if err := session.Trainable(); err != nil {
		rec.NotTrainable = err.Error()
	}
}

// storedTokens is the inverse of recordTokens.
func storedTokens(rec *trajectories.Rollout) []model.Sequence {
	var sequences []model.Sequence
	for _, s := range rec.Sequences {
		known := model.Sequence{Tokens: s.Tokens, Masks: s.Masks, Logprobs: s.Logprobs, Fork: s.Fork}
		for _, t := range s.Turns {
			known.Turns = append(known.Turns, model.SequenceTurn{
				Start: t.Start, End: t.End, FinishReason: t.FinishReason, WeightVersion: t.WeightVersion, Drift: t.Drift, Repeated: t.Repeated,
			})
		}
		sequences = append(sequences, known)
	}
	return sequences
}
