package model

import (
	"context"
	"fmt"
	"strings"

	"github.com/tidwall/gjson"
)

// Generate is a Client for the /generate of the servers that the Atropos framework
// was used with: a vLLM engine behind one endpoint that takes
// {"prompt":{"prompt_token_ids":…}} and gives lists per completion. It answers
// requests with a Prompt only and sends one request per Complete.
type Generate struct{ http caller }

// NewGenerate checks the description and returns a client for it. A base URL that
// ends in /v1 stands for the server above it. Nothing is sent yet.
func NewGenerate(s Server) (*Generate, error) {
	c, err := newCaller(s.root(), "/generate")
	if err != nil {
		return nil, err
	}
	c.target.server = displayURL(s.BaseURL) // answers name the server as it is configured, as those of others do
	return &Generate{c}, nil
}

// String names the server and the model.
func (g *Generate) String() string {
	return fmt.Sprintf("/generate: model %q at %s", g.http.target.model, g.http.target.server)
}

// GoString is String, so that %#v does not show the key.
func (g *Generate) GoString() string { return "*model.Generate{" + g.String() + "}" }

// CloseIdleConnections closes connections that wait for another request.
func (g *Generate) CloseIdleConnections() { g.http.CloseIdleConnections() }

// Complete sends one request. Every failure is an *Error. What the server did not
// report is missing from Response.Capture; it is no failure.
func (g *Generate) Complete(ctx context.Context, req *Request) (*Response, error) {
	body, err := g.body(req)
	if err != nil {
		return nil, g.http.refuse(err)
	}
	resp, raw, failed := g.http.send(ctx, int64(len(body)), reader(body))
	if failed != nil {
		return nil, failed
	}
	root, failed := g.http.target.answer(resp, raw)
	if failed != nil {
		return nil, failed
	}
	finish := root.Get("finish_reasons.0").String()
	switch finish {
	case "":
		return nil, g.http.target.without(resp, root, `"finish_reasons"`)
	case FinishAbort:
		return nil, g.http.target.aborted(resp, "")
	}
	answer := g.http.target.generated(root, finish)
	capture := newCapture()
	answer.Capture = capture
	capture.Text = strings.Clone(root.Get("text.0").String())
	capture.Tokens, capture.Logprobs = ranked(root.Get("logprobs.0"))
	if list, ok := ids(root.Get("token_ids.0")); ok {
		capture.Tokens = list
	}
	capture.Prompt, _ = ids(root.Get("prompt_token_ids"))
	capture.WeightVersion = weightVersion(resp, root)
	answer.Usage.PromptTokens = int64(len(req.Prompt))
	answer.Usage.CompletionTokens = int64(len(capture.Tokens))
	answer.Usage.TotalTokens = answer.Usage.PromptTokens + answer.Usage.CompletionTokens
	return answer, nil
}

// ranked reads one list per position whose first element maps the sampled id to its
// log-probability: [[{"11":-0.3}],…].
func ranked(list gjson.Result) (tokens []int, probabilities []float64) {
	if !list.IsArray() {
		return nil, nil
	}
	tokens, probabilities = []int{}, []float64{}
	whole := true
	list.ForEach(func(_, position gjson.Result) bool {
		first := position
		if position.IsArray() {
			first = gjson.Result{}
			position.ForEach(func(_, v gjson.Result) bool { first = v; return false })
		}
		found := false
		first.ForEach(func(key, v gjson.Result) bool {
			id, ok := tokenID(gjson.Parse(key.Str))
			found = ok && v.Type == gjson.Number
			tokens, probabilities = append(tokens, id), append(probabilities, v.Num)
			return false
		})
		whole = found
		return found
	})
	if !whole {
		return nil, nil
	}
	return tokens, probabilities
}

func (g *Generate) body(req *Request) ([]byte, error) {
	if len(req.Prompt) == 0 {
		return nil, errNoPrompt
	}
	if err := checkExtra(req, "prompt", "messages", "model", "logprobs", "prompt_logprobs", "detokenize"); err != nil {
		return nil, err
	}
	o := newObject(len(req.Prompt)*7 + 512)
	o.key("prompt")
	o.buf = append(o.buf, '{')
	o.ids("prompt_token_ids", req.Prompt)
	o.buf = append(o.buf, '}')
	o.raw("logprobs", "0")
	o.raw("n", "1")
	o.sampling(req, "max_tokens", func(string) bool { return true })
	return o.close(), o.err
}
