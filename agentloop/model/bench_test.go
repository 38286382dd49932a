package model_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/hermes-env/hermes-env/agentloop/chat"
	"github.com/hermes-env/hermes-env/agentloop/model"
	"github.com/hermes-env/hermes-env/agentloop/model/modeltest"
	"github.com/stretchr/testify/require"
)

// conversationOf returns a conversation of the given number of tool turns, about 1 KB each.
func conversationOf(turns int) []chat.Message {
	messages := []chat.Message{chat.System(strings.Repeat("You are a careful agent. ", 20)), chat.User("List the files and say how many there are.")}
	output := `{"output":"` + strings.Repeat(`drwxr-xr-x 2 root root 4096 file\n`, 20) + `","exit_code":0,"error":null}`
	for range turns {
		messages = append(messages,
			chat.Assistant("Let me look at it.", "I should list the files.", chat.ToolCall{ID: "call_0123456789abcdef01234567", Name: "terminal", Arguments: `{"command":"ls -la /workspace"}`}),
			chat.Tool("call_0123456789abcdef01234567", output))
	}
	return messages
}

var benchReply = modeltest.TextAndCalls("Let me look at it.", chat.ToolCall{ID: "call_x", Name: "terminal", Arguments: `{"command":"ls -la"}`}).
	WithReasoning(modeltest.ReasoningContent, "I should list the files first.")

// BenchmarkComplete measures one turn of this client against the mock; compare
// with BenchmarkBareLoop, the same exchange with net/http and encoding/json only.
func BenchmarkComplete(b *testing.B) {
	for _, turns := range []int{1, 10, 100, 400} {
		b.Run(name(turns), func(b *testing.B) {
			server, err := modeltest.Start(modeltest.Config{Script: modeltest.Always(benchReply)})
			require.NoError(b, err)
			defer server.Close()
			client, err := model.NewChat(model.Server{BaseURL: server.URL, Model: "m"})
			require.NoError(b, err)
			defer client.CloseIdleConnections()
			req := &model.Request{Messages: conversationOf(turns), Temperature: new(float64), MaxTokens: 4096}
			b.ReportAllocs()
			b.SetParallelism(8)
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if _, err := client.Complete(b.Context(), req); err != nil {
						b.Error(err)
						return
					}
				}
			})
		})
	}
}

type bareMessage struct {
	Role       string     `json:"role"`
	Content    *string    `json:"content"`
	Reasoning  string     `json:"reasoning_content,omitempty"`
	ToolCalls  []bareCall `json:"tool_calls,omitempty"`
	ToolCallID string     `json:"tool_call_id,omitempty"`
}

type bareCall struct {
	ID       string `json:"id"`
	Type     string `json:"type"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

type bareRequest struct {
	Model       string        `json:"model"`
	Messages    []bareMessage `json:"messages"`
	Temperature float64       `json:"temperature"`
	MaxTokens   int           `json:"max_tokens"`
	Stream      bool          `json:"stream"`
}

type bareResponse struct {
	ID      string `json:"id"`
	Choices []struct {
		Message      bareMessage `json:"message"`
		FinishReason string      `json:"finish_reason"`
	} `json:"choices"`
	Usage chat.Usage `json:"usage"`
}

// BenchmarkBareLoop is the measure for BenchmarkComplete.
func BenchmarkBareLoop(b *testing.B) {
	for _, turns := range []int{1, 10, 100, 400} {
		b.Run(name(turns), func(b *testing.B) {
			server, err := modeltest.Start(modeltest.Config{Script: modeltest.Always(benchReply)})
			require.NoError(b, err)
			defer server.Close()
			client := &http.Client{Transport: model.NewTransport(model.Limits{})}
			defer client.CloseIdleConnections()
			req := bareRequest{Model: "m", MaxTokens: 4096}
			for _, m := range conversationOf(turns) {
				var decoded bareMessage
				require.NoError(b, json.Unmarshal(m.JSON(), &decoded))
				req.Messages = append(req.Messages, decoded)
			}
			b.ReportAllocs()
			b.SetParallelism(8)
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					raw, err := json.Marshal(&req)
					if err != nil {
						b.Error(err)
						return
					}
					resp, err := client.Post(server.URL+"/chat/completions", "application/json", bytes.NewReader(raw))
					if err != nil {
						b.Error(err)
						return
					}
					body, err := io.ReadAll(resp.Body)
					_ = resp.Body.Close()
					var answer bareResponse
					if err != nil || json.Unmarshal(body, &answer) != nil || len(answer.Choices) != 1 {
						b.Error("bad answer")
						return
					}
				}
			})
		})
	}
}

func name(turns int) string {
	return map[int]string{1: "turns=1", 10: "turns=10", 100: "turns=100", 400: "turns=400"}[turns]
}
