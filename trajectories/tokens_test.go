package trajectories

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func exactSequence() TokenSequence {
	return TokenSequence{
		Tokens: []int{5, 6, 7, 8}, Masks: []int{-100, -100, 7, 8}, Logprobs: []float64{1, 1, -0.25, 0},
		Turns: []TokenTurn{{Start: 2, End: 4, FinishReason: "stop", WeightVersion: "step-3", Drift: true}},
	}
}

func TestExactTokensComeBackAsTheyWereRecorded(t *testing.T) {
	r := simple("item", 0, 0)
	fork := exactSequence()
	fork.Fork, fork.Turns[0].Repeated = "the template rewrites answer 1", true
	r.Sequences, r.NotTrainable = []TokenSequence{exactSequence(), fork}, "answer 2: no ids"
	line, err := AppendRollout(nil, r)
	require.NoError(t, err)
	require.Contains(t, string(line), `"token_sequences":[{"tokens":[5,6,7,8],"masks":[-100,-100,7,8],"inference_logprobs":[1.0,1.0,-0.25,0.0],"turns":[{"start":2,"end":4,"finish_reason":"stop","weight_version":"step-3","drift":true}]}`)
	back, err := DecodeRollout(line)
	require.NoError(t, err)
	require.Equal(t, r.Sequences, back.Sequences)
	require.Equal(t, r.NotTrainable, back.NotTrainable)
	again, err := AppendRollout(nil, back)
	require.NoError(t, err)
	require.Equal(t, string(line), string(again))
}

func TestTokensThatDoNotFitTogetherAreNotRecorded(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*TokenSequence)
		want   string
	}{
		"a mask too few":                 {func(s *TokenSequence) { s.Masks = s.Masks[1:] }, "4 tokens, 3 mask values"},
		"a log-probability too many":     {func(s *TokenSequence) { s.Logprobs = append(s.Logprobs, 0) }, "5 log-probabilities"},
		"a log-probability of no number": {func(s *TokenSequence) { s.Logprobs[2] = math.Inf(-1) }, "not a finite number"},
		"an answer beyond the end":       {func(s *TokenSequence) { s.Turns[0].End = 5 }, "tokens 2 to 5 of 4"},
	} {
		t.Run(name, func(t *testing.T) {
			s := exactSequence()
			c.change(&s)
			r := simple("item", 0, 0)
			r.Sequences = []TokenSequence{s}
			_, err := AppendRollout(nil, r)
			require.ErrorContains(t, err, c.want)
		})
	}
	_, err := DecodeRollout([]byte(strings.Replace(mustLine(t), `"masks":[-100,-100,7,8]`, `"masks":[1]`, 1)))
	require.ErrorContains(t, err, "token sequence 1: 4 tokens, 1 mask values")
}

func mustLine(t *testing.T) string {
	r := simple("item", 0, 0)
	r.Sequences = []TokenSequence{exactSequence()}
	line, err := AppendRollout(nil, r)
	require.NoError(t, err)
	return string(line)
}

func TestAGroupCarriesLogProbabilitiesOfAllItsSequencesOrOfNone(t *testing.T) {
	exact := Sequence{Tokens: []int{5, 7}, Masks: []int{-100, 7}, Logprobs: []float64{1, -0.5}, Score: 1}
	line, err := AppendGroup(nil, Group{Sequences: []Sequence{exact, exact, exact}, Size: 3}, false)
	require.NoError(t, err)
	require.Contains(t, string(line), `"inference_logprobs": [[1.0, -0.5], [1.0, -0.5], [1.0, -0.5]]`)
	require.Contains(t, string(line), `"group_overrides": {"group_size": 3}`)

	bare := exact
	bare.Logprobs = nil
	_, err = AppendGroup(nil, Group{Sequences: []Sequence{exact, bare}}, false)
	require.ErrorContains(t, err, "sequence 1 has 2 tokens and 0 log-probabilities")
	short := exact
	short.Logprobs = []float64{1}
	_, err = AppendGroup(nil, Group{Sequences: []Sequence{short}}, false)
	require.ErrorContains(t, err, "sequence 0 has 2 tokens and 1 log-probabilities")
}
