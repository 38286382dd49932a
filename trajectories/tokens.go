package trajectories

import (
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/tidwall/gjson"
)

// TokenSequence is one branch of a rollout's conversation as the tokens that the model
// read and sampled. Tokens, Masks and Logprobs have the same length; a mask is the
// token where it is trained on and -100 elsewhere, a log-probability is 1 where the
// mask is -100.
type TokenSequence struct {
	Tokens   []int
	Masks    []int
	Logprobs []float64
	Turns    []TokenTurn
	Fork     string // why the branch does not continue the one before it, else ""
}

// TokenTurn is one answer of the model within a sequence.
type TokenTurn struct {
	Start         int    `json:"start"` // its first token
	End           int    `json:"end"`   // one after its last token
	FinishReason  string `json:"finish_reason"`
	WeightVersion string `json:"weight_version,omitempty"` // of the weights that sampled it, when the server says
	Drift         bool   `json:"drift,omitempty"`          // the chat template writes it in other characters
	Repeated      bool   `json:"repeated,omitempty"`       // it is trained on in an earlier sequence
}

func (s *TokenSequence) check() error {
	if len(s.Tokens) != len(s.Masks) || len(s.Tokens) != len(s.Logprobs) {
		return fmt.Errorf("%d tokens, %d mask values and %d log-probabilities", len(s.Tokens), len(s.Masks), len(s.Logprobs))
	}
	for _, p := range s.Logprobs {
		if !finite(p) {
			return fmt.Errorf("a log-probability is %v, not a finite number", p)
		}
	}
	for i, t := range s.Turns {
		if t.Start < 0 || t.End < t.Start || t.End > len(s.Tokens) {
			return fmt.Errorf("answer %d is said to be tokens %d to %d of %d", i, t.Start, t.End, len(s.Tokens))
		}
	}
	return nil
}

// sequences writes the tokens of a rollout, if it has any.
func (e *encoder) sequences(r *Rollout) {
	if len(r.Sequences) > 0 {
		e.key("token_sequences")
		e.raw('[')
		for i, s := range r.Sequences {
			if i > 0 {
				e.raw(',')
			}
			e.raw('{')
			e.numbers("tokens", s.Tokens)
			e.numbers("masks", s.Masks)
			e.key("inference_logprobs")
			e.buf = appendFloats(e.buf, s.Logprobs, ",")
			e.key("turns")
			e.raw('[')
			for j, t := range s.Turns {
				if j > 0 {
					e.raw(',')
				}
				e.turn(t)
			}
			e.raw(']')
			if s.Fork != "" {
				e.text("fork", s.Fork)
			}
			e.raw('}')
		}
		e.raw(']')
	}
	if r.NotTrainable != "" {
		e.text("not_trainable", r.NotTrainable)
	}
}

func (e *encoder) turn(t TokenTurn) {
	e.raw('{')
	e.integer("start", int64(t.Start))
	e.integer("end", int64(t.End))
	e.text("finish_reason", t.FinishReason)
	if t.WeightVersion != "" {
		e.text("weight_version", t.WeightVersion)
	}
	if t.Drift {
		e.boolean("drift", true)
	}
	if t.Repeated {
		e.boolean("repeated", true)
	}
	e.raw('}')
}

func (e *encoder) numbers(name string, list []int) {
	e.key(name)
	e.raw('[')
	for i, n := range list {
		if i > 0 {
			e.raw(',')
		}
		e.buf = strconv.AppendInt(e.buf, int64(n), 10)
	}
	e.raw(']')
}

func appendFloats(dst []byte, list []float64, separator string) []byte {
	dst = append(dst, '[')
	for i, f := range list {
		if i > 0 {
			dst = append(dst, separator...)
		}
		dst = appendFloat(dst, f)
	}
	return append(dst, ']')
}

func decodeSequences(r *Rollout, list gjson.Result) error {
	var failure error
	list.ForEach(func(_, v gjson.Result) bool {
		var s struct {
			Tokens   []int       `json:"tokens"`
			Masks    []int       `json:"masks"`
			Logprobs []float64   `json:"inference_logprobs"`
			Turns    []TokenTurn `json:"turns"`
			Fork     string      `json:"fork"`
		}
		if failure = json.Unmarshal([]byte(v.Raw), &s); failure == nil {
			sequence := TokenSequence(s)
			failure = sequence.check()
			r.Sequences = append(r.Sequences, sequence)
		}
		if failure != nil {
			failure = fmt.Errorf("token sequence %d: %w", len(r.Sequences), failure)
		}
		return failure == nil
	})
	return failure
}
