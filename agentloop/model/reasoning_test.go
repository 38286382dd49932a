package model

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/agentloop/chat"
)

// seen is a client that keeps the last request.
type seen struct{ got *Request }

func (s *seen) Complete(_ context.Context, req *Request) (*Response, error) {
	s.got = req
	return &Response{}, nil
}

func TestReasoningIsAskedForInTheWordsOfTheServer(t *testing.T) {
	temperature := 0.3
	for _, tt := range []struct {
		name, base string
		ask        Reasoning
		extra      chat.Object
		want       string // Extra
		maxTokens  int
		warm       float64
	}{
		{"a server of the world", "https://openrouter.ai/api/v1", Reasoning{}, nil, `{"reasoning":{"enabled":true}}`, 50, 0.3},
		{"an effort", "http://127.0.0.1:1/v1", Reasoning{Effort: "high"}, nil, `{"reasoning":{"enabled":true,"effort":"high"}}`, 50, 0.3},
		{"a limit", "http://h", Reasoning{MaxTokens: 2048}, nil, `{"reasoning":{"enabled":true,"max_tokens":2048}}`, 50, 0.3},
		{"an effort wins over a limit", "http://h", Reasoning{Effort: "low", MaxTokens: 2048}, nil, `{"reasoning":{"enabled":true,"effort":"low"}}`, 50, 0.3},
		{"further fields stay", "http://h", Reasoning{}, chat.Object{{Key: "seed", Value: json.RawMessage("1")}}, `{"seed":1,"reasoning":{"enabled":true}}`, 50, 0.3},
		{"a request's own reasoning stays", "http://h", Reasoning{Effort: "low"}, chat.Object{{Key: "reasoning", Value: json.RawMessage(`{"effort":"high"}`)}}, `{"reasoning":{"effort":"high"}}`, 50, 0.3},
		{"OpenAI", "https://API.openai.com/v1", Reasoning{}, nil, `{"reasoning_effort":"medium","max_completion_tokens":50}`, 0, 1},
		{"OpenAI with an effort", "https://api.openai.com/v1", Reasoning{Effort: "xhigh"}, nil, `{"reasoning_effort":"xhigh","max_completion_tokens":50}`, 0, 1},
		{"OpenAI with a limit of its own", "https://api.openai.com/v1", Reasoning{}, chat.Object{{Key: "max_completion_tokens", Value: json.RawMessage("9")}}, `{"max_completion_tokens":9,"reasoning_effort":"medium"}`, 50, 1},
		{"a host that only looks like OpenAI's", "http://h/api.openai.com/v1", Reasoning{}, nil, `{"reasoning":{"enabled":true}}`, 50, 0.3},
	} {
		t.Run(tt.name, func(t *testing.T) {
			next := &seen{}
			req := &Request{Temperature: &temperature, MaxTokens: 50, Extra: tt.extra}
			_, err := WithReasoning(next, tt.base, tt.ask).Complete(t.Context(), req)
			require.NoError(t, err)
			require.Equal(t, tt.want, string(next.got.Extra.Append(nil)))
			require.Equal(t, tt.maxTokens, next.got.MaxTokens)
			require.Equal(t, tt.warm, *next.got.Temperature)
			require.Equal(t, tt.extra, req.Extra, "the caller's request stays as it was")
			require.Equal(t, 50, req.MaxTokens)
		})
	}
}

func TestRequestsOfTokensAskForNoReasoning(t *testing.T) {
	next := &seen{}
	req := &Request{Prompt: []int{1}}
	_, err := WithReasoning(next, "http://h", Reasoning{Effort: "high"}).Complete(t.Context(), req)
	require.NoError(t, err)
	require.Same(t, req, next.got)
}
