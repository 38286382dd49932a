package chat

import (
	"encoding/json"
	"io"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
)

func TestBodyReadsTheSameInEveryChunkSize(t *testing.T) {
	for _, n := range []int{0, 1, 2, 3, 3000} { // the last is too long to be sent in one piece
		var messages []Message
		for range n {
			messages = append(messages, User("some text"))
		}
		body := NewBody([]byte(`{"model":"m","messages":`), messages, []byte(`,"n":1}`))
		whole, err := io.ReadAll(body.Reader())
		require.NoError(t, err)
		require.True(t, json.Valid(whole), string(whole))
		require.EqualValues(t, len(whole), body.Size())
		slow, err := io.ReadAll(iotest.OneByteReader(body.Reader()))
		require.NoError(t, err)
		require.Equal(t, whole, slow)
		require.Equal(t, `{"model":"m","messages":`+string(AppendMessages(nil, messages))+`,"n":1}`, string(whole))
	}
}

func TestToolsetIsEncodedOnceInOrder(t *testing.T) {
	set, err := NewToolset(
		ToolDefinition{Name: "b", Description: "does <b>", Parameters: json.RawMessage(`{"type":"object","properties":{"z":{"type":"string"},"a":{"type":"number"}}}`)},
		ToolDefinition{Name: "a"},
	)
	require.NoError(t, err)
	require.Equal(t, `[{"type":"function","function":{"name":"b","description":"does <b>","parameters":{"type":"object","properties":{"z":{"type":"string"},"a":{"type":"number"}}}}},`+
		`{"type":"function","function":{"name":"a","description":"","parameters":{"type":"object","properties":{}}}}]`, string(set.JSON()))
	require.Equal(t, []string{"a", "b"}, set.Names())
	require.True(t, set.Has("a"))
	require.False(t, set.Has("c"))
	var none *Toolset
	require.Zero(t, none.Len())
	require.False(t, none.Has("a"))
}

func TestToolsetRefusesBadDefinitions(t *testing.T) {
	for want, tools := range map[string][]ToolDefinition{
		"no name":       {{}},
		"defined twice": {{Name: "a"}, {Name: "a"}},
		"not a JSON":    {{Name: "a", Parameters: json.RawMessage(`{`)}},
	} {
		_, err := NewToolset(tools...)
		require.ErrorContains(t, err, want)
	}
}

func TestUsageReadsProviderDetails(t *testing.T) {
	u := ParseUsage([]byte(`{"prompt_tokens":10,"completion_tokens":5,"prompt_tokens_details":{"cached_tokens":4},"completion_tokens_details":{"reasoning_tokens":3}}`))
	require.Equal(t, Usage{PromptTokens: 10, CompletionTokens: 5, TotalTokens: 15, CachedTokens: 4, ReasoningTokens: 3}, u)
	require.Equal(t, Usage{}, ParseUsage(nil))
	require.Equal(t, Usage{PromptTokens: 20, CompletionTokens: 10, TotalTokens: 30, CachedTokens: 8, ReasoningTokens: 6}, u.Add(u))
}
