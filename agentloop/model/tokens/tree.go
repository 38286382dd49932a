package tokens

import (
	"slices"

	"github.com/hermes-env/hermes-env/agentloop/model"
)

// turn is a node of the tree: the tokens that led to one answer, and the answer.
type turn struct {
	parent   *turn
	tail     []int // masked ids between the parent's answer and this one
	sampled  []int
	logprobs []float64
	length   int // of the sequence that ends with this answer

	index int // of its answer in the conversation
	// start is where its prompt ends in the rendered text of the conversation, end
	// where its answer ends there, or -1 as long as no later prompt was rendered.
	start, end int
	text       string // of the sampled ids
	stop       string // end of text that is the token which ended the answer
	open       bool   // the prompt ended within reasoning
	drift      bool

	finish, version, server string
	fork                    string // why it does not continue the answer before it
}

// tokens appends all ids up to the end of the turn's answer to dst. A nil turn has none.
func (t *turn) tokens(dst []int) []int {
	if t == nil {
		return dst
	}
	dst = t.parent.tokens(dst)
	dst = append(dst, t.tail...)
	return append(dst, t.sampled...)
}

func (t *turn) size() int {
	if t == nil {
		return 0
	}
	return t.length
}

// isPrefixOf says whether ids begin with all tokens of the turn.
func (t *turn) isPrefixOf(ids []int) bool {
	if t == nil {
		return true
	}
	if t.length > len(ids) || !t.parent.isPrefixOf(ids) {
		return false
	}
	from := t.parent.size()
	return startsWith(ids[from:], t.tail) && startsWith(ids[from+len(t.tail):], t.sampled)
}

// hasPrompt says whether ids are those of the turn's prompt.
func (t *turn) hasPrompt(ids []int) bool {
	before := t.parent.size()
	return t.parent.isPrefixOf(ids) && slices.Equal(ids[before:], t.tail)
}

func startsWith(ids, with []int) bool {
	if len(with) > len(ids) {
		return false
	}
	for i, id := range with {
		if ids[i] != id {
			return false
		}
	}
	return true
}

// sequences makes one sequence per leaf. Every answer is trained on once: in the first
// sequence that holds it.
func sequences(turns []*turn) []model.Sequence {
	continued := make(map[*turn]bool, len(turns))
	for _, t := range turns {
		continued[t.parent] = true
	}
	trained := make(map[*turn]bool, len(turns))
	var all []model.Sequence
	for _, leaf := range turns {
		if continued[leaf] {
			continue
		}
		s := sequence{model.Sequence{
			Tokens:   make([]int, 0, leaf.length),
			Masks:    make([]int, 0, leaf.length),
			Logprobs: make([]float64, 0, leaf.length),
		}}
		for _, t := range leaf.path(nil) {
			s.append(t, trained[t])
			if t.fork != "" {
				s.Fork = t.fork
			}
			trained[t] = true
		}
		all = append(all, s.Sequence)
	}
	return all
}

// path returns the turns from the root to t.
func (t *turn) path(dst []*turn) []*turn {
	if t == nil {
		return dst
	}
	return append(t.parent.path(dst), t)
}

type sequence struct{ model.Sequence }

func (s *sequence) append(t *turn, repeated bool) {
	for _, id := range t.tail {
		s.add(id, model.Masked, model.UnknownLogprob)
	}
	start := len(s.Tokens)
	for i, id := range t.sampled {
		if repeated {
			s.add(id, model.Masked, model.UnknownLogprob)
		} else {
			s.add(id, id, t.logprobs[i])
		}
	}
	s.Turns = append(s.Turns, model.SequenceTurn{
		Start: start, End: len(s.Tokens), FinishReason: t.finish, WeightVersion: t.version, Server: t.server,
		Drift: t.drift, Repeated: repeated,
	})
}

func (s *sequence) add(token, mask int, logprob float64) {
	s.Tokens = append(s.Tokens, token)
	s.Masks = append(s.Masks, mask)
	s.Logprobs = append(s.Logprobs, logprob)
}
