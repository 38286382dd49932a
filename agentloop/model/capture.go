package model

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"strings"

	"github.com/tidwall/gjson"
)

// Capture is what a server told about the tokens of one answer. Lists that the
// server left out are nil: nothing in them is ever made up.
type Capture struct {
	Prompt   []int     // ids the answer was generated from, nil when the server doesn't say
	Tokens   []int     // ids that were sampled, the token that ended the answer included
	Logprobs []float64 // natural logarithms of their probabilities, one per token

	// Text is the answer as the server decoded it, which may leave out special
	// tokens and what ended it.
	Text string
	// StopToken is the id that ended the answer where the server names it, else -1.
	StopToken int
	// StopText is the stop sequence that ended the answer where the server names it.
	StopText string
	// WeightVersion names the weights that sampled, "" when the server doesn't say.
	WeightVersion string
	// PromptTokens and SampledTokens are the counts that the server gave, -1 when it
	// gave none.
	PromptTokens, SampledTokens int
}

func newCapture() *Capture { return &Capture{StopToken: -1, PromptTokens: -1, SampledTokens: -1} }

// Finish reasons of an answer in the words of the OpenAI API.
const (
	FinishStop   = "stop"   // an end-of-text token or a stop sequence
	FinishLength = "length" // the limit of completion tokens
	FinishAbort  = "abort"  // the server gave up, for example to load new weights
)

var errNoPrompt = errors.New("the request holds no token ids to generate from")

// aborted is the failure of an answer that the server broke off: what it holds is
// no whole turn, and another attempt may give one.
func (t *target) aborted(resp *http.Response, why string) *Error {
	e := t.failure(KindServerError, "the server broke off the generation", "")
	e.Status = resp.StatusCode
	e.RequestID = t.requestID(resp)
	if why != "" {
		e.Message += ": " + t.excerpt(why)
	}
	return e
}

// ids reads a list of token ids; nil, false for anything else. Prompts come back with
// every answer, so the digits are read without taking the list apart first.
func ids(list gjson.Result) ([]int, bool) {
	if !list.IsArray() {
		return nil, false
	}
	raw := list.Raw[1 : len(list.Raw)-1]
	out := make([]int, 0, len(raw)/6+1)
	id, digits := 0, 0
	for i := range len(raw) {
		switch c := raw[i]; {
		case c >= '0' && c <= '9':
			id = id*10 + int(c-'0')
			if digits++; id > math.MaxInt32 {
				return nil, false
			}
		case c == ',':
			if digits == 0 {
				return nil, false
			}
			out = append(out, id)
			id, digits = 0, 0
		case c == ' ' || c == '\n' || c == '\r' || c == '\t':
		default:
			return nil, false
		}
	}
	if digits > 0 {
		out = append(out, id)
	}
	return out, true
}

// tokenID reads one id: a whole number from 0.
func tokenID(v gjson.Result) (int, bool) {
	if v.Type != gjson.Number || v.Num < 0 || v.Num > math.MaxInt32 || v.Num != math.Trunc(v.Num) {
		return 0, false
	}
	return int(v.Num), true
}

// logprobs reads a list of numbers; nil, false for anything else.
func logprobs(list gjson.Result) ([]float64, bool) {
	if !list.IsArray() {
		return nil, false
	}
	out := make([]float64, 0, len(list.Raw)/8+1)
	whole := true
	list.ForEach(func(_, v gjson.Result) bool {
		whole = v.Type == gjson.Number
		out = append(out, v.Num)
		return whole
	})
	if !whole {
		return nil, false
	}
	return out, true
}

// weightVersion finds the stamp of the weights in the places where servers and the
// proxies before them put one.
func weightVersion(resp *http.Response, places ...gjson.Result) string {
	for _, place := range places {
		for _, path := range []string{"weight_version", "meta_info.weight_version", "metadata.weight_version"} {
			if v := place.Get(path); v.Exists() && v.Type != gjson.Null && v.String() != "" {
				return strings.Clone(v.String())
			}
		}
	}
	return resp.Header.Get("X-Weight-Version")
}

// count reads a number of tokens, -1 for anything else.
func count(v gjson.Result) int {
	n, ok := tokenID(v)
	if !ok {
		return -1
	}
	return n
}

// checkExtra refuses further fields of a request that belong to this program.
func checkExtra(req *Request, reserved ...string) error {
	for _, f := range req.Extra {
		for _, name := range reserved {
			if f.Key == name {
				return fmt.Errorf("extra_body must not replace %q: token-exact sessions send it themselves", name)
			}
		}
		value := gjson.ParseBytes(f.Value)
		switch {
		case !gjson.ValidBytes(f.Value):
			return fmt.Errorf("the value of %q in extra_body is not valid JSON", f.Key)
		case f.Key == "stream" && value.Bool():
			return errors.New(`extra_body must not turn "stream" on: whole answers are read`)
		case f.Key == "n" && value.Num != 1:
			return errors.New(`extra_body must not ask for "n" answers: one is taken`)
		}
	}
	return nil
}
