package model

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/hermes-env/hermes-env/agentloop/chat"
	"github.com/tidwall/gjson"
)

// VLLM is a Client for a vLLM server that reports token ids. A request with a Prompt
// goes to /completions as ids; one with Messages goes to /chat/completions, which
// renders them itself. Both ask for return_token_ids and log-probabilities
// (https://docs.vllm.ai/en/stable/serving/openai_compatible_server/). It sends one
// request per Complete.
type VLLM struct {
	completions caller
	chat        *Chat
}

// NewVLLM checks the description and returns a client for it. Nothing is sent yet.
func NewVLLM(s Server) (*VLLM, error) {
	if s.Transport == nil {
		s.Transport = NewTransport(Limits{})
	}
	completions, err := newCaller(s, "/completions")
	if err != nil {
		return nil, err
	}
	c, err := NewChat(s)
	if err != nil {
		return nil, err
	}
	return &VLLM{completions: completions, chat: c}, nil
}

// String names the server and the model.
func (v *VLLM) String() string { return "vLLM: " + v.chat.String() }

// GoString is String, so that %#v does not show the key.
func (v *VLLM) GoString() string { return "*model.VLLM{" + v.String() + "}" }

// CloseIdleConnections closes connections that wait for another request.
func (v *VLLM) CloseIdleConnections() { v.chat.CloseIdleConnections() }

// Complete sends one request. Every failure is an *Error. What the server did not
// report is missing from Response.Capture; it is no failure.
func (v *VLLM) Complete(ctx context.Context, req *Request) (*Response, error) {
	if req.Prompt == nil {
		return v.chat.captured(ctx, req)
	}
	c := &v.completions
	body, err := v.body(req)
	if err != nil {
		return nil, c.refuse(err)
	}
	resp, raw, failed := c.send(ctx, int64(len(body)), reader(body))
	if failed != nil {
		return nil, failed
	}
	root, failed := c.target.answer(resp, raw)
	if failed != nil {
		return nil, failed
	}
	choice := root.Get("choices.0")
	if !choice.IsObject() {
		return nil, c.target.without(resp, root, `"choices"`)
	}
	finish := choice.Get("finish_reason").String()
	switch finish {
	case "":
		return nil, c.target.without(resp, root, "a finish reason")
	case FinishAbort:
		return nil, c.target.aborted(resp, "")
	}
	answer := c.target.generated(root, finish)
	capture := newCapture()
	answer.Capture = capture
	capture.Text = strings.Clone(choice.Get("text").String())
	capture.Tokens, _ = ids(choice.Get("token_ids"))
	capture.Logprobs, _ = logprobs(choice.Get("logprobs.token_logprobs"))
	if capture.Tokens == nil {
		capture.Tokens = namedIDs(choice.Get("logprobs.tokens"))
	}
	capture.fromOpenAI(resp, root, choice)
	return answer, nil
}

func (v *VLLM) body(req *Request) ([]byte, error) {
	if len(req.Prompt) == 0 {
		return nil, errNoPrompt
	}
	if err := checkExtra(req, "prompt", "messages", "model", "echo", "return_token_ids", "logprobs", "prompt_logprobs"); err != nil {
		return nil, err
	}
	o := newObject(len(req.Prompt)*7 + 512)
	o.text("model", v.chat.http.target.model)
	o.ids("prompt", req.Prompt)
	o.sampling(req, "max_tokens", func(key string) bool { return !isOurs(key) })
	for _, f := range ours {
		o.raw(f.key, f.completions)
	}
	return o.close(), o.err
}

// ours are the fields that make a vLLM server report exactly what it sampled.
var ours = [...]struct{ key, completions string }{
	{"logprobs", "0"},                      // the sampled token's only
	{"return_token_ids", "true"},           // prompt_token_ids and token_ids
	{"return_tokens_as_token_ids", "true"}, // for versions that don't know the field before
	{"skip_special_tokens", "false"},
	{"spaces_between_special_tokens", "false"},
	{"include_stop_str_in_output", "false"}, // in the text; the ids hold all of it
	{"add_special_tokens", "false"},
	{"stream", "false"},
}

func isOurs(key string) bool {
	for _, f := range ours {
		if f.key == key {
			return true
		}
	}
	return false
}

// namedIDs reads ids that stand in place of token texts, as "token_id:123".
func namedIDs(list gjson.Result) []int {
	if !list.IsArray() {
		return nil
	}
	var out []int
	whole := true
	list.ForEach(func(_, v gjson.Result) bool {
		digits, ok := strings.CutPrefix(v.Str, "token_id:")
		id, isID := tokenID(gjson.Parse(digits))
		whole = ok && isID
		out = append(out, id)
		return whole
	})
	if !whole {
		return nil
	}
	return out
}

// fromOpenAI reads what completions and chat completions have in common.
func (c *Capture) fromOpenAI(resp *http.Response, root, choice gjson.Result) {
	for _, place := range []gjson.Result{choice.Get("prompt_token_ids"), root.Get("prompt_token_ids")} {
		if c.Prompt == nil {
			c.Prompt, _ = ids(place)
		}
	}
	if id, ok := tokenID(choice.Get("stop_reason")); ok {
		c.StopToken = id
	}
	if reason := choice.Get("stop_reason"); reason.Type == gjson.String {
		c.StopText = strings.Clone(reason.Str)
	}
	c.PromptTokens = count(root.Get("usage.prompt_tokens"))
	c.SampledTokens = count(root.Get("usage.completion_tokens"))
	c.WeightVersion = weightVersion(resp, choice, root)
}

// captured completes a chat request and reads the token ids beside the message.
func (c *Chat) captured(ctx context.Context, req *Request) (*Response, error) {
	asked := *req
	var err error
	if asked.Messages, err = withReasoning(req.Messages); err != nil {
		return nil, c.http.refuse(err)
	}
	asked.Extra = append(chat.Object(nil), req.Extra...)
	asked.Extra.Set("return_token_ids", json.RawMessage("true"))
	asked.Extra.Set("logprobs", json.RawMessage("true"))
	if len(req.StopTokens) > 0 {
		list := newObject(64)
		list.ids("x", req.StopTokens)
		asked.Extra.Set("stop_token_ids", json.RawMessage(bytes.TrimPrefix(list.buf, []byte(`{"x":`))))
	}
	resp, raw, err := c.exchange(ctx, &asked)
	if err != nil {
		return nil, err
	}
	answer, failure := c.http.target.decode(resp, raw, req.Messages, c.mintID)
	if failure != nil {
		return nil, failure
	}
	if answer.FinishReason == FinishAbort {
		return nil, c.http.target.aborted(resp, "")
	}
	root := gjson.ParseBytes(bytes.ToValidUTF8(bytes.TrimPrefix(bytes.TrimSpace(raw), []byte("\ufeff")), []byte("\uFFFD")))
	choice := root.Get("choices.0")
	capture := newCapture()
	capture.Text = answer.Message.Text()
	capture.Tokens, _ = ids(choice.Get("token_ids"))
	if list := choice.Get("logprobs.content"); list.IsArray() {
		capture.Logprobs, _ = logprobs(list.Get("#.logprob"))
	}
	capture.fromOpenAI(resp, root, choice)
	answer.Capture = capture
	return answer, nil
}

// refuse is the failure of a request that can't be sent.
func (c *caller) refuse(err error) *Error {
	e := c.target.failure(KindBadRequest, err.Error(), "")
	e.Err = err
	return e
}

// generated is an answer made of tokens: it has no message yet.
func (t *target) generated(root gjson.Result, finish string) *Response {
	answer := &Response{
		FinishReason: strings.Clone(finish), ID: strings.Clone(root.Get("id").String()),
		Model: strings.Clone(root.Get("model").String()), Server: t.server, Attempts: 1,
	}
	if usage := root.Get("usage"); usage.IsObject() {
		answer.Usage = chat.ParseUsage([]byte(usage.Raw))
	}
	return answer
}

// answer reads a successful answer as a JSON object without an error in it.
func (t *target) answer(resp *http.Response, raw []byte) (gjson.Result, *Error) {
	raw = bytes.TrimPrefix(bytes.TrimSpace(raw), []byte("\ufeff"))
	if len(raw) == 0 {
		e := t.failure(KindEmptyResponse, "the body is empty", "")
		e.Status, e.RequestID = resp.StatusCode, t.requestID(resp)
		return gjson.Result{}, e
	}
	if !chat.Valid(raw) {
		return gjson.Result{}, t.unreadable(resp, raw)
	}
	root := gjson.ParseBytes(bytes.ToValidUTF8(raw, []byte("\uFFFD")))
	if list := root.Array(); root.IsArray() && len(list) == 1 {
		root = list[0] // an answer to one prompt of a batch
	}
	if !root.IsObject() {
		return gjson.Result{}, t.without(resp, root, "an object")
	}
	if failure := root.Get("error"); failure.Exists() && failure.Type != gjson.Null && failure.Type != gjson.False {
		return gjson.Result{}, t.embeddedFailure(resp, failure)
	}
	return root, nil
}

// without says what an answer lacks.
func (t *target) without(resp *http.Response, root gjson.Result, what string) *Error {
	e := t.failure(KindInvalidResponse, fmt.Sprintf("the answer has not got %s: %s", what, t.excerpt(root.Raw)), "")
	e.Status, e.RequestID = resp.StatusCode, t.requestID(resp)
	return e
}
