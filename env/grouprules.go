package env

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/hermes-env/hermes-env/agentloop/chat"
	"github.com/hermes-env/hermes-env/agentloop/model"
	"github.com/hermes-env/hermes-env/env/config"
	"github.com/hermes-env/hermes-env/trajectories"
)

// DropReason says, in a word to count by, why a group or one of its rollouts is not
// trained on.
type DropReason string

// The reasons. The first seven are about one rollout: they drop its group, or leave out
// just the rollout where groups may be partial.
const (
	DropMissingMember DropReason = "missing_member"         // a rollout ended without a score
	DropGroupTimeout  DropReason = "worker_timeout"         // the time limit of the group ended a rollout
	DropNotTrainable  DropReason = "not_trainable"          // a rollout's tokens are incomplete or unknown
	DropTooLong       DropReason = "too_long"               // a sequence is longer than the trainer takes
	DropTruncated     DropReason = "truncated"              // a rollout's last answer was cut off
	DropFewTokens     DropReason = "too_few_trained_tokens" // a rollout has hardly anything to learn from
	DropMixedTokens   DropReason = "mixed_tokens"           // a rollout lacks the tokens that others have
	DropDiscarded     DropReason = "discarded"              // a rollout was discarded when it was recorded

	DropTooFewMembers    DropReason = "too_few_members"   // fewer rollouts are left than a partial group needs
	DropEqualScores      DropReason = "equal_scores"      // nothing to learn from the comparison
	DropWrongSize        DropReason = "wrong_size"        // not as many sequences as the group should have
	DropInvalid          DropReason = "invalid"           // its parts don't fit together
	DropEnvironmentError DropReason = "environment_error" // the environment failed to add its part
)

// DropReasons lists every reason in the order reports show them.
func DropReasons() []DropReason {
	return []DropReason{
		DropEqualScores, DropMissingMember, DropGroupTimeout, DropTooFewMembers, DropNotTrainable, DropMixedTokens, DropTooLong, DropTruncated,
		DropFewTokens, DropDiscarded, DropWrongSize, DropInvalid, DropEnvironmentError,
	}
}

// GroupRules decide which groups are trained on, and with what. The zero value keeps
// every group that is complete.
type GroupRules struct {
	Size              int  // rollouts of a whole group; 0: as many as there are
	MinMembers        int  // keep groups that have lost rollouts down to this many; 0: whole groups only
	DropEqualScores   bool // drop groups whose scores are all equal
	ExactTokens       bool // rollouts without recorded tokens can't be trained on
	MaxSequenceTokens int  // sequences of this many tokens and more are too long; 0 and less: none is
	MinTrainedTokens  int  // of a rollout whose tokens are known; 0: no minimum
	// Truncated is config.TruncatedKeep, …Zero or …Drop; "" means keep.
	Truncated string
	// Advantages is config.AdvantagesNone, …Mean or …MeanStd; "" means none.
	Advantages string
	// GenerationParams are recorded with groups whose tokens are known; nil: nothing.
	GenerationParams json.RawMessage
}

// newGroupRules are the rules that a configuration makes.
func newGroupRules(c *config.Env) GroupRules {
	return GroupRules{
		Size: c.GroupSize, MinMembers: c.PartialGroups, DropEqualScores: c.EnsureScoresAreNotSame, MinTrainedTokens: c.MinTrainedTokens,
		Truncated: c.TruncatedRollouts, Advantages: c.Advantages,
		GenerationParams: fmt.Appendf(nil, `{"temperature":%s}`, strconv.FormatFloat(c.AgentTemperature, 'f', -1, 64)),
	}
}

// fingerprint is the same for the same rules, so that a decision can be told to rest on them.
func (r GroupRules) fingerprint() string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d %d %t %t %d %d %q %q", r.Size, r.MinMembers, r.DropEqualScores, r.ExactTokens,
		max(0, r.MaxSequenceTokens), r.MinTrainedTokens, r.Truncated, r.Advantages))
	return hex.EncodeToString(sum[:6])
}

// GroupVerdict is what rules make of a group: either Group or a Reason.
type GroupVerdict struct {
	Group   *trajectories.Group
	Reason  DropReason
	Text    string // the reason in words
	LeftOut []LeftOut
}

// LeftOut is a rollout that is no part of its group any more.
type LeftOut struct {
	Attempt int
	Reason  DropReason
	Text    string
}

// GroupHooks are an environment's part in the judgement of a group; each may be nil. A
// panic in them counts as the environment's error.
type GroupHooks struct {
	Discard func(*trajectories.Rollout) string // see Discarder
	Extend  func(*trajectories.Group) error    // see GroupExtender
}

// Judge decides about the group of a step from its rollouts, which are ordered by
// attempt and not changed.
func (r GroupRules) Judge(step int, itemID string, members []*trajectories.Rollout, hooks GroupHooks) (verdict GroupVerdict) {
	defer func() {
		if p := recover(); p != nil {
			verdict = GroupVerdict{Reason: DropEnvironmentError, Text: fmt.Sprintf("panic in the environment: %v", p)}
		}
	}()
	if r.Size > 0 && len(members) != r.Size {
		return GroupVerdict{Reason: DropWrongSize, Text: fmt.Sprintf("it has %d rollouts, not %d", len(members), r.Size)}
	}
	kept, left := r.sift(members, hooks.Discard)
	if len(left) > 0 && r.MinMembers == 0 {
		return GroupVerdict{Reason: left[0].Reason, Text: left[0].Text, LeftOut: left}
	}
	if len(kept) == 0 || len(kept) < r.MinMembers {
		return GroupVerdict{Reason: DropTooFewMembers, Text: fmt.Sprintf("%d of its %d rollouts are left, fewer than %d (env.partial_groups): %s",
			len(kept), len(members), max(1, r.MinMembers), texts(left)), LeftOut: left}
	}
	if r.DropEqualScores && equalScores(kept) {
		return GroupVerdict{Reason: DropEqualScores, Text: fmt.Sprintf("all %d scores are %g (env.ensure_scores_are_not_same)", len(kept), *kept[0].Score), LeftOut: left}
	}
	g := r.build(step, itemID, kept)
	if hooks.Extend != nil {
		if err := hooks.Extend(g); err != nil {
			return GroupVerdict{Reason: DropEnvironmentError, Text: "the environment could not add its part: " + err.Error(), LeftOut: left}
		}
	}
	if err := r.finish(g, kept); err != nil {
		return GroupVerdict{Reason: DropInvalid, Text: err.Error(), LeftOut: left}
	}
	switch size, rows := g.OverriddenSize(), len(g.Sequences); {
	case size > 0 && size != rows:
		return GroupVerdict{Reason: DropWrongSize, Text: fmt.Sprintf("it has %d sequences, and group_overrides.group_size says %d", rows, size), LeftOut: left}
	case size == 0 && rows != len(members):
		g.Size = rows
	}
	if err := g.Check(); err != nil {
		return GroupVerdict{Reason: DropInvalid, Text: err.Error(), LeftOut: left}
	}
	return GroupVerdict{Group: g, LeftOut: left}
}

// sift tells the rollouts that can be trained on from the others.
func (r GroupRules) sift(members []*trajectories.Rollout, discard func(*trajectories.Rollout) string) (kept []*trajectories.Rollout, left []LeftOut) {
	exact := false
	for _, m := range members {
		reason, text := r.judgeMember(m)
		if reason == "" && discard != nil {
			if why := discard(m); why != "" {
				reason, text = DropDiscarded, fmt.Sprintf("the environment discards attempt %d: %s", m.Attempt, why)
			}
		}
		if reason != "" {
			left = append(left, LeftOut{m.Attempt, reason, text})
			continue
		}
		exact = exact || len(m.Sequences) > 0
		kept = append(kept, m)
	}
	if !exact {
		return kept, left
	}
	whole := kept[:0:0]
	for _, m := range kept {
		if len(m.Sequences) == 0 {
			left = append(left, LeftOut{m.Attempt, DropMixedTokens, fmt.Sprintf("attempt %d has no exact tokens, while others of the group have them", m.Attempt)})
			continue
		}
		whole = append(whole, m)
	}
	return whole, left
}

// judgeMember says what keeps one rollout from being trained on; "" when nothing does.
func (r GroupRules) judgeMember(m *trajectories.Rollout) (DropReason, string) {
	if m.Score == nil && m.Error != nil && m.Error.Class == classGroupTimeout {
		return DropGroupTimeout, fmt.Sprintf("attempt %d was cut off: %s", m.Attempt, m.Error.Message)
	}
	if m.Score == nil {
		return DropMissingMember, fmt.Sprintf("attempt %d ended as %s", m.Attempt, m.Outcome)
	}
	if m.NotTrainable != "" {
		return DropNotTrainable, fmt.Sprintf("the tokens of attempt %d are incomplete: %s", m.Attempt, m.NotTrainable)
	}
	if r.ExactTokens && len(m.Sequences) == 0 {
		return DropNotTrainable, fmt.Sprintf("the tokens of attempt %d are not known", m.Attempt)
	}
	trained := 0
	for _, s := range m.Sequences {
		if r.MaxSequenceTokens > 0 && len(s.Tokens) >= r.MaxSequenceTokens {
			return DropTooLong, fmt.Sprintf("attempt %d has a sequence of %d tokens, and the trainer takes fewer than %d", m.Attempt, len(s.Tokens), r.MaxSequenceTokens)
		}
		for _, mask := range s.Masks {
			if mask != model.Masked {
				trained++
			}
		}
	}
	if r.Truncated == config.TruncatedDrop && truncated(m) {
		return DropTruncated, fmt.Sprintf("the last answer of attempt %d was cut off at env.max_token_length (env.truncated_rollouts)", m.Attempt)
	}
	if len(m.Sequences) > 0 && trained < r.MinTrainedTokens {
		return DropFewTokens, fmt.Sprintf("attempt %d has %d trained tokens, fewer than %d (env.min_trained_tokens)", m.Attempt, trained, r.MinTrainedTokens)
	}
	return "", ""
}

// truncated says whether the last answer of a rollout ran into the limit of one
// model call.
func truncated(m *trajectories.Rollout) bool {
	turns := m.Timings.Turns
	return len(turns) > 0 && turns[len(turns)-1].FinishReason == "length"
}

func equalScores(members []*trajectories.Rollout) bool {
	for _, m := range members {
		if *m.Score != *members[0].Score {
			return false
		}
	}
	return true
}

func texts(left []LeftOut) string {
	parts := make([]string, len(left))
	for i, l := range left {
		parts[i] = l.Text
	}
	return strings.Join(parts, "; ")
}

// build makes a group of its rollouts: one sequence per rollout, or all branches of
// rollouts whose tokens are known.
func (r GroupRules) build(step int, itemID string, members []*trajectories.Rollout) *trajectories.Group {
	g := &trajectories.Group{Step: step, ItemID: itemID, Key: groupKey(step, itemID, members)}
	for _, m := range members {
		one := trajectories.Sequence{RolloutID: m.ID, Attempt: m.Attempt, Score: *m.Score, Messages: m.Messages}
		for _, s := range m.Sequences {
			branch := one
			branch.Tokens, branch.Masks, branch.Logprobs = s.Tokens, s.Masks, s.Logprobs
			g.Sequences = append(g.Sequences, branch)
		}
		if len(m.Sequences) == 0 {
			g.Sequences = append(g.Sequences, one)
		} else {
			g.GenerationParams = r.GenerationParams
		}
	}
	return g
}

// groupKey names a group by its rollouts, so that what was sent twice is known to be
// the same thing.
func groupKey(step int, itemID string, members []*trajectories.Rollout) string {
	h := sha256.New()
	_, _ = fmt.Fprintf(h, "%d %q", step, itemID)
	for _, m := range members {
		_, _ = fmt.Fprintf(h, " %q", m.ID)
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// finish adds advantages and the override of truncated rollouts, where the environment
// has not said its own.
func (r GroupRules) finish(g *trajectories.Group, members []*trajectories.Rollout) error {
	cut := make(map[int]bool) // by attempt
	if r.Truncated == config.TruncatedZero {
		for _, m := range members {
			cut[m.Attempt] = truncated(m)
		}
	}
	advantage := r.advantages(members)
	for i := range g.Sequences {
		s := &g.Sequences[i]
		if value, ok := advantage[s.Attempt]; ok && s.Advantages == nil && s.Advantage == nil {
			if cut[s.Attempt] {
				value = 0
			}
			s.Advantage = &value
		}
		if !cut[s.Attempt] {
			continue
		}
		object, err := chat.ParseObject(s.Overrides)
		if err != nil && s.Overrides != nil {
			return fmt.Errorf("the overrides of sequence %d: %w", i, err)
		}
		if object.Get("set_advantage_to_zero") == nil {
			object.Set("set_advantage_to_zero", json.RawMessage("true"))
		}
		s.Overrides = object.Append(nil)
	}
	return nil
}
