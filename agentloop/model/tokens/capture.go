package tokens

import (
	"errors"
	"fmt"
	"math"

	"github.com/hermes-env/hermes-env/agentloop/model"
)

// checkCapture says why the tokens of an answer can't be trusted, or nil. prompt are
// the ids that were sent; nil where the server rendered the conversation itself.
func checkCapture(c *model.Capture, prompt []int) error {
	switch {
	case c == nil:
		return errors.New("the server reported nothing about tokens")
	case prompt == nil && c.Prompt == nil:
		return errors.New("the server did not report the ids of the prompt (return_token_ids)")
	}
	if prompt == nil {
		prompt = c.Prompt
	}
	if c.Prompt != nil && !startsWith(c.Prompt, prompt) || c.Prompt != nil && len(c.Prompt) != len(prompt) {
		return fmt.Errorf("the server generated from another prompt: %d ids where %d were sent, the first difference at %d", len(c.Prompt), len(prompt), firstDifference(c.Prompt, prompt))
	}
	switch {
	case c.PromptTokens >= 0 && c.PromptTokens != len(prompt):
		return fmt.Errorf("the server counts %d prompt tokens where %d were sent: it cuts or adds to prompts", c.PromptTokens, len(prompt))
	case c.Tokens == nil:
		return errors.New("the server reported no ids of the tokens it sampled")
	case len(c.Tokens) == 0:
		return errors.New("the server sampled no token, or left out the one that ended the answer")
	case c.SampledTokens >= 0 && c.SampledTokens != len(c.Tokens):
		return fmt.Errorf("the server counts %d sampled tokens and reported %d ids", c.SampledTokens, len(c.Tokens))
	case c.Logprobs == nil:
		return errors.New("the server reported no log-probabilities of the tokens it sampled")
	case len(c.Logprobs) != len(c.Tokens):
		return fmt.Errorf("the server reported %d ids and %d log-probabilities", len(c.Tokens), len(c.Logprobs))
	}
	for i, p := range c.Logprobs {
		if math.IsNaN(p) || math.IsInf(p, 0) || p > roundingError {
			return fmt.Errorf("the log-probability of sampled token %d is %v", i, p)
		}
	}
	return nil
}

// roundingError is how far above 0 the log-probability of a sure token may come out.
const roundingError = 1e-3

func firstDifference(a, b []int) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	return min(len(a), len(b))
}
