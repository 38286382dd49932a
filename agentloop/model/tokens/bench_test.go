package tokens_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/agentloop/chat"
	"github.com/hermes-env/hermes-env/agentloop/model"
	"github.com/hermes-env/hermes-env/agentloop/model/modeltest"
	"github.com/hermes-env/hermes-env/agentloop/model/tokens"
)

// history returns a conversation whose first messages are given, grown by tool turns of
// about 1 KB each.
func grow(messages []chat.Message, answer chat.Message) []chat.Message {
	messages = append(messages, answer)
	for _, c := range answer.ToolCalls() {
		messages = append(messages, chat.Tool(c.ID, strings.Repeat("drwxr-xr-x 2 root root 4096 file\n", 20)))
	}
	return messages
}

// BenchmarkTurn measures what the last turn of a conversation of n turns costs beside
// the model: in a token-exact session without a server, and the same answer of the mock
// over a socket by a plain chat client, a session over /generate, and one over vLLM's
// completions whose server renders.
func BenchmarkTurn(b *testing.B) {
	answer := "Let me look at it.\n" + call("ls -la")
	for _, turns := range []int{1, 10, 50, 200} {
		b.Run(fmt.Sprintf("session/turns=%d", turns), func(b *testing.B) {
			s := newSetup(b, "sglang", modeltest.ChatML, nil)
			ids, err := s.tokenizer.Encode(answer+modeltest.EndOfText, false)
			require.NoError(b, err)
			client := fixed{ids, make([]float64, len(ids))}
			benchmarkSession(b, tokens.Config{Client: client, Renderer: s.config.Renderer, Parser: s.config.Parser}, turns)
		})
		for _, kind := range []string{"sglang", kinds[0]} {
			b.Run(fmt.Sprintf("session over %s/turns=%d", strings.ReplaceAll(kind, " ", "_"), turns), func(b *testing.B) {
				s := newSetup(b, kind, modeltest.ChatML, modeltest.SampleInOrder(modeltest.Sample(answer)), func(c *modeltest.TokenConfig) { c.MaxModelLen = 1 << 30 })
				benchmarkSession(b, s.config, turns)
			})
		}
		b.Run(fmt.Sprintf("plain chat/turns=%d", turns), func(b *testing.B) {
			server, err := modeltest.Start(modeltest.Config{Script: modeltest.Always(modeltest.TextAndCalls("Let me look at it.", chat.ToolCall{ID: "call_1", Name: "terminal", Arguments: `{"command":"ls -la"}`}))})
			require.NoError(b, err)
			defer server.Close()
			client, err := model.NewChat(model.Server{BaseURL: server.URL, Model: "m"})
			require.NoError(b, err)
			defer client.CloseIdleConnections()
			req := &model.Request{Messages: []chat.Message{chat.System("You are careful."), chat.User("List.")}, Tools: terminal(b), MaxTokens: 256}
			for range turns - 1 {
				resp, err := client.Complete(b.Context(), req)
				require.NoError(b, err)
				req.Messages = grow(req.Messages, resp.Message)
			}
			for b.Loop() {
				if _, err := client.Complete(b.Context(), req); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func benchmarkSession(b *testing.B, cfg tokens.Config, turns int) {
	session, err := tokens.New(cfg)
	require.NoError(b, err)
	req := &model.Request{Messages: []chat.Message{chat.System("You are careful."), chat.User("List.")}, Tools: terminal(b), MaxTokens: 256}
	for range turns - 1 {
		resp, err := session.Complete(b.Context(), req)
		require.NoError(b, err)
		req.Messages = grow(req.Messages, resp.Message)
	}
	for b.Loop() { // the prompt that is sent again replaces the answer before
		if _, err := session.Complete(b.Context(), req); err != nil {
			b.Fatal(err)
		}
	}
}

// fixed answers without a server.
type fixed struct {
	ids      []int
	logprobs []float64
}

func (f fixed) Complete(context.Context, *model.Request) (*model.Response, error) {
	return &model.Response{FinishReason: "stop", Capture: &model.Capture{
		Tokens: f.ids, Logprobs: f.logprobs, StopToken: -1, PromptTokens: -1, SampledTokens: -1,
	}}, nil
}
