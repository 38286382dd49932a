package model

import (
	"context"
	"net/url"
	"strconv"
	"strings"

	"github.com/hermes-env/hermes-env/agentloop/chat"
)

// Reasoning is how much a model is asked to think before it answers. The zero value
// asks for it without saying how much.
type Reasoning struct {
	Effort    string // none, minimal, low, medium, high or xhigh; "" says nothing
	MaxTokens int    // most tokens of it, where Effort says nothing; 0 says nothing
}

// WithReasoning asks for reasoning with every chat request to the server at an address,
// in the words it has for that: reasoning_effort of OpenAI's own service, which then
// takes no other temperature than 1 and wants the limit of the answer as
// max_completion_tokens, and the object reasoning everywhere else. Fields that a
// request sets itself stay as they are, and so do requests of token ids.
func WithReasoning(c Client, baseURL string, r Reasoning) Client {
	u, err := url.Parse(baseURL)
	return &reasoning{next: c, ask: r, openAI: err == nil && strings.EqualFold(u.Hostname(), "api.openai.com")}
}

type reasoning struct {
	next   Client
	ask    Reasoning
	openAI bool
}

// Complete implements Client.
func (c *reasoning) Complete(ctx context.Context, req *Request) (*Response, error) {
	if req.Prompt != nil || req.Extra.Get("reasoning") != nil || req.Extra.Get("reasoning_effort") != nil {
		return c.next.Complete(ctx, req)
	}
	changed := *req
	changed.Extra = append(chat.Object(nil), req.Extra...)
	if !c.openAI {
		changed.Extra.Set("reasoning", c.object())
		return c.next.Complete(ctx, &changed)
	}
	effort := c.ask.Effort
	if effort == "" {
		effort = "medium"
	}
	changed.Extra.Set("reasoning_effort", chat.AppendString(nil, effort))
	one := 1.0
	changed.Temperature = &one
	if n := changed.MaxTokens; n > 0 && changed.Extra.Get("max_tokens") == nil && changed.Extra.Get("max_completion_tokens") == nil {
		changed.MaxTokens = 0
		changed.Extra.Set("max_completion_tokens", strconv.AppendInt(nil, int64(n), 10))
	}
	return c.next.Complete(ctx, &changed)
}

// object is the value of the field reasoning; of two limits the effort wins.
func (c *reasoning) object() []byte {
	object := []byte(`{"enabled":true`)
	switch {
	case c.ask.Effort != "":
		object = chat.AppendString(append(object, `,"effort":`...), c.ask.Effort)
	case c.ask.MaxTokens > 0:
		object = strconv.AppendInt(append(object, `,"max_tokens":`...), int64(c.ask.MaxTokens), 10)
	}
	return append(object, '}')
}

// CloseIdleConnections closes those of the client behind it.
func (c *reasoning) CloseIdleConnections() { closeIdle(c.next) }
