package env

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/hermes-env/hermes-env/agentloop"
	"github.com/hermes-env/hermes-env/agentloop/chat"
	"github.com/hermes-env/hermes-env/env/config"
	"github.com/hermes-env/hermes-env/toolcontext"
	"github.com/hermes-env/hermes-env/trajectories"
)

// ClassTampered is the class of a failure to score because the agent tampered with the
// verification.
const ClassTampered = "tampered"

// Members of a record's metadata that keep the score which env.on_tampering took away.
const (
	untrustedScore = "untrusted_score"
	untrustedParts = "untrusted_score_parts"
)

// tamperingOf returns what a verification found, whether it gave a score or failed.
func tamperingOf(score Score, err error) []trajectories.Tampering {
	var failure *VerifierError
	if errors.As(err, &failure) {
		return failure.Tampering
	}
	return score.Tampering
}

// applyScore records a score, or what env.on_tampering makes of it.
func (r *Runner) applyScore(rec *trajectories.Rollout, result *agentloop.Result, score Score) {
	policy := r.opts.Config.OnTampering
	if !rec.Tampered() || policy != config.TamperingZero && policy != config.TamperingUnscored {
		r.settle(rec, result, score)
		return
	}
	if score.Value <= 0 { // nothing to gain: it stays, and has not passed
		failed := false
		score.Passed = &failed
		r.settle(rec, result, score)
		return
	}
	keepUntrusted(rec, score)
	if policy == config.TamperingUnscored {
		r.fail(rec, trajectories.OutcomeVerifierError, ClassTampered,
			fmt.Errorf("the score %g does not count (env.on_tampering unscored), because the agent tampered with the verification: %s", score.Value, firstActive(rec.Tampering)))
		return
	}
	r.settleAsZero(rec, result, ClassTampered, fmt.Sprintf("the score %g counts as 0", score.Value))
}

// zeroFailure says whether a failure to score is a score of 0, because the agent tampered
// with the verification or its code ran meanwhile, and the class of what is recorded then.
func (r *Runner) zeroFailure(ctx context.Context, rec *trajectories.Rollout, err error) (class string, zero bool) {
	var failure *VerifierError
	switch {
	case r.opts.Config.OnTampering != config.TamperingZero || ctx.Err() != nil:
		return "", false
	case !errors.As(err, &failure):
		return ClassTampered, rec.Tampered() && !toolcontext.IsInfrastructure(err)
	case failure.Infrastructure:
		return "", false
	case rec.Tampered() || failure.Class == ClassTampered && len(failure.Tampering) > 0:
		return ClassTampered, true
	}
	return failure.Class, failure.Agent && failure.Class != ""
}

// settleAsZero records a score of 0 and why.
func (r *Runner) settleAsZero(rec *trajectories.Rollout, result *agentloop.Result, class, what string) {
	failed := false
	r.settle(rec, result, Score{Passed: &failed})
	if rec.Error == nil { // an outcome that has a reason of its own keeps it
		why := "the agent tampered with the verification: " + firstActive(rec.Tampering)
		if class != ClassTampered {
			why = "code of the agent's ran when it failed"
		}
		rec.Error = &trajectories.Failure{Class: class, Message: fmt.Sprintf("%s (env.on_tampering zero), because %s", what, why)}
	}
}

// firstActive describes the first entry that is active, or else the first of all.
func firstActive(list []trajectories.Tampering) string {
	i := slices.IndexFunc(list, func(t trajectories.Tampering) bool { return t.Active })
	if len(list) == 0 {
		return ""
	}
	return list[max(0, i)].String()
}

// keepUntrusted keeps a score that does not count in the metadata of the record.
func keepUntrusted(rec *trajectories.Rollout, score Score) {
	var object chat.Object
	if len(rec.Metadata) > 0 {
		var err error
		if object, err = chat.ParseObject(rec.Metadata); err != nil {
			return // not an object: refused when the record is written
		}
	}
	for _, m := range []struct {
		name  string
		value any
	}{{untrustedScore, score.Value}, {untrustedParts, score.Parts}} {
		if encoded, err := chat.Marshal(m.value); err == nil && string(encoded) != "null" {
			object.Set(m.name, encoded)
		}
	}
	rec.Metadata = object.Append(nil)
}

// TamperingSummary counts the rollouts of a run whose agent tampered with the
// verification.
type TamperingSummary struct {
	Rollouts int             // with an active entry
	Items    int             // of these rollouts
	Noted    int             // with entries that are noted only
	Unscored int             // of Rollouts, those that are verifier errors
	Kinds    []TamperingKind // of active entries, the most frequent first
	Notes    []TamperingKind // of the rollouts of Noted
}

// TamperingKind counts rollouts by a kind of tampering.
type TamperingKind struct {
	Kind     string
	Rollouts int
	Items    []string // ids of their items, sorted, each once
}

// summarizeTampering counts what the records say.
func summarizeTampering(entries iter.Seq[Record]) TamperingSummary {
	var s TamperingSummary
	items := map[string]bool{}
	type kindOfItem struct {
		kind *TamperingKind
		item string
	}
	seen := map[kindOfItem]bool{}
	kinds, notes := map[string]*TamperingKind{}, map[string]*TamperingKind{}
	count := func(into map[string]*TamperingKind, names []string, item string) {
		for _, name := range names {
			k := into[name]
			if k == nil {
				k = &TamperingKind{Kind: name}
				into[name] = k
			}
			k.Rollouts++
			if of := (kindOfItem{k, item}); !seen[of] {
				seen[of] = true
				k.Items = append(k.Items, item)
			}
		}
	}
	for e := range entries {
		switch {
		case e.Tampering == nil:
		case e.Tampering.Acted:
			s.Rollouts++
			if e.Outcome == trajectories.OutcomeVerifierError {
				s.Unscored++
			}
			items[e.ItemID] = true
			count(kinds, e.Tampering.Active, e.ItemID)
		default:
			s.Noted++
			count(notes, e.Tampering.Noted, e.ItemID)
		}
	}
	s.Items, s.Kinds, s.Notes = len(items), byFrequency(kinds), byFrequency(notes)
	return s
}

func byFrequency(kinds map[string]*TamperingKind) []TamperingKind {
	var list []TamperingKind
	for _, k := range kinds {
		slices.Sort(k.Items)
		list = append(list, *k)
	}
	slices.SortFunc(list, func(a, b TamperingKind) int {
		return cmp.Or(b.Rollouts-a.Rollouts, strings.Compare(a.Kind, b.Kind))
	})
	return list
}
