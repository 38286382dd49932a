package trajectories

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/tidwall/gjson"

	"github.com/hermes-env/hermes-env/agentloop/chat"
)

// Group is the rollouts of one item as a trainer takes them: one line of the
// group file, whose members are parallel arrays with one element per sequence.
// Where one sequence has log-probabilities, advantages or distillation data, all have.
type Group struct {
	Step      int    // number of the group in the run; a run writes each once
	ItemID    string // the item its rollouts share; not written
	Key       string // names the group by its rollouts: the same ones, the same key; not written
	Sequences []Sequence
	// Size is written as group_overrides.group_size, for a group whose number of
	// sequences is not the run's number of rollouts; 0 leaves it out.
	Size             int
	Overrides        json.RawMessage // further group_overrides, a JSON object; nil: none
	GenerationParams json.RawMessage // how the rollouts were sampled, a JSON object; nil: not said
}

// Sequence is one rollout of a group, or one branch of it. Masks has the length of
// Tokens and holds -100 where nothing is trained and the token itself elsewhere. Where
// both are nil, PlaceholderTokens takes their place. Lists by position have the length
// of Tokens.
type Sequence struct {
	RolloutID string // not written
	Attempt   int    // of the rollout; not written

	Tokens []int
	Masks  []int
	// Logprobs are those the tokens were sampled with, 1 where Masks is -100.
	Logprobs []float64
	Score    float64 // finite
	Messages []chat.Message

	// Advantage stands at every trained position, and 0 at the others, unless
	// Advantages says it by position. nil leaves it to the trainer.
	Advantage       *float64
	Advantages      []float64
	RefLogprobs     []float64       // of a reference model
	Overrides       json.RawMessage // a JSON object, e.g. {"set_advantage_to_zero":true}; nil: none
	Images          json.RawMessage // what the model saw, any JSON; nil: none
	DistillTokenIDs [][]int         // by position: the tokens a teacher finds likeliest
	DistillLogprobs [][]float64     // by position: their log-probabilities
}

// maskedToken marks a position that is not trained on.
const maskedToken = -100

// PlaceholderTokens returns what the Atropos group format holds where no
// tokenizer is at hand: counting numbers, one for every four characters of the
// conversation and 128 at most. They keep programs going that read the file; they
// mean nothing and must not be trained on.
func PlaceholderTokens(messages []chat.Message) (tokens, masks []int) {
	var texts []string
	for _, m := range messages {
		if text := m.Text(); text != "" {
			texts = append(texts, text)
		}
	}
	n := min(utf8.RuneCountInString(strings.Join(texts, "\n"))/4, 128)
	tokens, masks = make([]int, n), make([]int, n)
	for i := range n {
		tokens[i], masks[i] = i, i
	}
	if n > 0 {
		masks[0] = maskedToken
	}
	return tokens, masks
}

// AdvantagesOver returns the advantages by position over the masks given, nil where the
// sequence has none.
func (s *Sequence) AdvantagesOver(masks []int) []float64 {
	if s.Advantages != nil || s.Advantage == nil {
		return s.Advantages
	}
	list := make([]float64, len(masks))
	for i, m := range masks {
		if m != maskedToken {
			list[i] = *s.Advantage
		}
	}
	return list
}

// TrainedTokens counts the positions that are trained on.
func (s *Sequence) TrainedTokens() int {
	n := 0
	for _, m := range s.Masks {
		if m != maskedToken {
			n++
		}
	}
	return n
}

// Check says why a group can't be written or sent: no sequences, lists whose lengths
// don't fit, numbers that aren't finite, values that aren't JSON of the right kind.
func (g *Group) Check() error {
	if g.Step < 0 {
		return errors.New("the step must not be negative")
	}
	if len(g.Sequences) == 0 {
		return errors.New("the group has no sequences")
	}
	for name, raw := range map[string]json.RawMessage{"group_overrides": g.Overrides, "generation_params": g.GenerationParams} {
		if raw != nil && !isObject(raw) {
			return fmt.Errorf("%s is not a JSON object", name)
		}
	}
	first := &g.Sequences[0]
	for i := range g.Sequences {
		if err := g.Sequences[i].check(i, first); err != nil {
			return err
		}
	}
	return nil
}

// check is Group.Check for sequence i, which has what the first one has.
func (s *Sequence) check(i int, first *Sequence) error {
	if !finite(s.Score) {
		return fmt.Errorf("the score of sequence %d is %v, not a finite number", i, s.Score)
	}
	if len(s.Tokens) != len(s.Masks) {
		return fmt.Errorf("sequence %d has %d tokens and %d mask values", i, len(s.Tokens), len(s.Masks))
	}
	for _, list := range []struct {
		what, one    string
		values, same []float64
	}{
		{"log-probabilities", "log-probability", s.Logprobs, first.Logprobs},
		{"advantages", "advantage", s.Advantages, s.Advantages}, // one sequence may have Advantage instead
		{"reference log-probabilities", "reference log-probability", s.RefLogprobs, first.RefLogprobs},
	} {
		if (list.values == nil) != (list.same == nil) || list.values != nil && len(list.values) != len(s.Tokens) {
			return fmt.Errorf("sequence %d has %d tokens and %d %s", i, len(s.Tokens), len(list.values), list.what)
		}
		for _, p := range list.values {
			if !finite(p) {
				return fmt.Errorf("sequence %d has the %s %v, not a finite number", i, list.one, p)
			}
		}
	}
	if s.Advantage != nil && !finite(*s.Advantage) {
		return fmt.Errorf("sequence %d has the advantage %v, not a finite number", i, *s.Advantage)
	}
	if s.hasAdvantages() != first.hasAdvantages() {
		return fmt.Errorf("of sequences 0 and %d one has advantages and one has none", i)
	}
	if err := s.checkDistill(i, first); err != nil {
		return err
	}
	if s.Overrides != nil && !isObject(s.Overrides) {
		return fmt.Errorf("the overrides of sequence %d are not a JSON object", i)
	}
	if s.Images != nil && !validJSON(s.Images) {
		return fmt.Errorf("the images of sequence %d are not JSON", i)
	}
	for j, m := range s.Messages {
		if m.IsZero() {
			return fmt.Errorf("message %d of sequence %d is empty", j, i)
		}
	}
	return nil
}

func (s *Sequence) hasAdvantages() bool { return s.Advantages != nil || s.Advantage != nil }

func (s *Sequence) checkDistill(i int, first *Sequence) error {
	ids, logprobs := s.DistillTokenIDs, s.DistillLogprobs
	if (ids == nil) != (first.DistillTokenIDs == nil) || (logprobs == nil) != (ids == nil) {
		return fmt.Errorf("sequence %d lacks the tokens of a teacher or their log-probabilities, which others have", i)
	}
	if ids == nil {
		return nil
	}
	if len(ids) != len(s.Tokens) || len(logprobs) != len(s.Tokens) {
		return fmt.Errorf("sequence %d has %d tokens, a teacher's tokens at %d positions and their log-probabilities at %d", i, len(s.Tokens), len(ids), len(logprobs))
	}
	for at := range ids {
		if len(ids[at]) != len(logprobs[at]) {
			return fmt.Errorf("sequence %d has %d tokens of a teacher and %d log-probabilities at position %d", i, len(ids[at]), len(logprobs[at]), at)
		}
		for _, p := range logprobs[at] {
			if !finite(p) {
				return fmt.Errorf("sequence %d has a teacher's log-probability %v, not a finite number", i, p)
			}
		}
	}
	return nil
}

func isObject(raw json.RawMessage) bool { return validJSON(raw) && gjson.ParseBytes(raw).IsObject() }
