package trajectories

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/hermes-env/hermes-env/agentloop/chat"
)

// Group is the rollouts of one item as a trainer takes them: one line of the
// group file, whose members are parallel arrays with one element per sequence.
type Group struct {
	Step      int // number of the group in the run; a run writes each once
	Sequences []Sequence
	// Size is written as group_overrides.group_size, for a group that has more
	// sequences than rollouts; 0 leaves it out.
	Size int
}

// Sequence is one rollout of a group. Masks has the length of Tokens and holds
// -100 where nothing is trained and the token itself elsewhere. Where both are
// nil, PlaceholderTokens takes their place.
type Sequence struct {
	Tokens []int
	Masks  []int
	// Logprobs are those the tokens were sampled with, 1 where Masks is -100; all
	// sequences of a group have them or none.
	Logprobs []float64
	Score    float64 // finite
	Messages []chat.Message
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

// AppendGroup appends the line of a group to dst, without a newline, with the
// separators of Python's json.dumps. It refuses a group without sequences, masks
// that do not fit their tokens and scores that are not finite numbers.
func AppendGroup(dst []byte, g Group, includeMessages bool) ([]byte, error) {
	if err := g.check(); err != nil {
		return dst, fmt.Errorf("encode group of step %d: %w", g.Step, err)
	}
	tokens := make([][]int, len(g.Sequences))
	masks := make([][]int, len(g.Sequences))
	for i, s := range g.Sequences {
		tokens[i], masks[i] = s.Tokens, s.Masks
		if s.Tokens == nil && s.Masks == nil {
			tokens[i], masks[i] = PlaceholderTokens(s.Messages)
		}
	}
	dst = append(dst, `{"tokens": `...)
	dst = appendTable(dst, tokens)
	dst = append(dst, `, "masks": `...)
	dst = appendTable(dst, masks)
	dst = append(dst, `, "scores": [`...)
	for i, s := range g.Sequences {
		dst = separate(dst, i)
		dst = appendFloat(dst, s.Score)
	}
	dst = append(dst, `], "advantages": [], "ref_logprobs": []`...)
	if g.Sequences[0].Logprobs != nil {
		dst = append(dst, `, "inference_logprobs": [`...)
		for i, s := range g.Sequences {
			dst = appendFloats(separate(dst, i), s.Logprobs, ", ")
		}
		dst = append(dst, ']')
	}
	if includeMessages {
		dst = append(dst, `, "messages": [`...)
		for i, s := range g.Sequences {
			dst = separate(dst, i)
			dst = appendPythonJSON(dst, chat.AppendMessages(nil, s.Messages))
		}
		dst = append(dst, ']')
	}
	dst = append(dst, `, "group_overrides": {`...)
	if g.Size > 0 {
		dst = strconv.AppendInt(append(dst, `"group_size": `...), int64(g.Size), 10)
	}
	return append(dst, `}, "overrides": [], "images": []}`...), nil
}

func (g *Group) check() error {
	if g.Step < 0 {
		return errors.New("the step must not be negative")
	}
	if len(g.Sequences) == 0 {
		return errors.New("the group has no sequences")
	}
	for i, s := range g.Sequences {
		if !finite(s.Score) {
			return fmt.Errorf("the score of sequence %d is %v, not a finite number", i, s.Score)
		}
		if len(s.Tokens) != len(s.Masks) {
			return fmt.Errorf("sequence %d has %d tokens and %d mask values", i, len(s.Tokens), len(s.Masks))
		}
		if (s.Logprobs == nil) != (g.Sequences[0].Logprobs == nil) || s.Logprobs != nil && len(s.Logprobs) != len(s.Tokens) {
			return fmt.Errorf("sequence %d has %d tokens and %d log-probabilities", i, len(s.Tokens), len(s.Logprobs))
		}
		for _, p := range s.Logprobs {
			if !finite(p) {
				return fmt.Errorf("sequence %d has the log-probability %v, not a finite number", i, p)
			}
		}
		for j, m := range s.Messages {
			if m.IsZero() {
				return fmt.Errorf("message %d of sequence %d is empty", j, i)
			}
		}
	}
	return nil
}

func appendTable(dst []byte, rows [][]int) []byte {
	dst = append(dst, '[')
	for i, row := range rows {
		dst = separate(dst, i)
		dst = append(dst, '[')
		for j, n := range row {
			dst = separate(dst, j)
			dst = strconv.AppendInt(dst, int64(n), 10)
		}
		dst = append(dst, ']')
	}
	return append(dst, ']')
}

func separate(dst []byte, i int) []byte {
	if i > 0 {
		return append(dst, ", "...)
	}
	return dst
}
