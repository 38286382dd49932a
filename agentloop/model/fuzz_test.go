package model_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"testing"
	"unicode/utf8"

	"github.com/hermes-env/hermes-env/agentloop/model"
	"github.com/stretchr/testify/require"
)

func FuzzAnyAnswerIsAValidMessageOrAnError(f *testing.F) {
	for _, seed := range []struct {
		status            int
		contentType, body string
	}{
		{200, "application/json", `{"id":"1","model":"m","choices":[{"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":2}}`},
		{200, "application/json", `{"choices":[{"message":{"tool_calls":[{"id":null,"index":0,"function":{"name":"f","arguments":{"a":1.0}}},{"id":"x"}]},"finish_reason":null}]}`},
		{200, "application/json", `{"choices":[{"message":{"content":[{"type":"thinking","thinking":"x"},{"type":"text","text":"y"}],"reasoning_details":[{"text":"z"}]}}]}`},
		{200, "application/json", `{"choices":[{"message":{"content":"` + "\xff\xfe" + `\ud800"}}]}`},
		{200, "application/json", `{"error":{"message":"x","code":429,"metadata":{"raw":"y"}}}`},
		{200, "text/html", `<html><title>x`},
		{200, "text/event-stream", "data: {}\n\n"},
		{400, "application/json", `{"detail":[{"loc":["a",1],"msg":"b"}]}`},
		{400, "application/json", `[{"error":{"message":"maximum context length"}}]`},
		{401, "application/json", `{"error":"` + testKey + `"}`},
		{429, "text/plain", "slow down"},
		{500, "application/json", testKey[:20]},
		{400, "a\xd6\x01b", "{}"}, // goes into all headers
	} {
		f.Add(seed.status, seed.contentType, []byte(seed.body))
	}
	f.Fuzz(func(t *testing.T, status int, contentType string, body []byte) {
		if status < 200 || status > 599 {
			status = 200
		}
		transport := roundTrip(func(*http.Request) (*http.Response, error) {
			header := http.Header{"Content-Type": {contentType}, "Retry-After": {contentType}, "Location": {contentType}, "X-Request-Id": {contentType}}
			return &http.Response{StatusCode: status, Header: header, ContentLength: -1, Body: io.NopCloser(bytes.NewReader(body))}, nil
		})
		client, err := model.NewChat(model.Server{BaseURL: "http://test/v1", Model: "m", APIKey: testKey, Transport: transport})
		require.NoError(t, err)
		resp, err := client.Complete(t.Context(), hello())
		if err == nil {
			require.True(t, json.Valid(resp.Message.JSON()), string(resp.Message.JSON()))
			require.True(t, utf8.Valid(resp.Message.JSON()))
			seen := make(map[string]bool)
			for _, call := range resp.Message.ToolCalls() {
				require.NotEmpty(t, call.ID)
				require.False(t, seen[call.ID], "ids are unique")
				seen[call.ID] = true
			}
			return
		}
		var failure *model.Error
		require.True(t, errors.As(err, &failure))
		require.NotEmpty(t, failure.Kind)
		require.NotEqual(t, model.KindCancelled, failure.Kind)
		require.NotContains(t, err.Error(), testKey)
		require.GreaterOrEqual(t, failure.RetryAfter.Nanoseconds(), int64(0))
		require.True(t, utf8.ValidString(err.Error()), "%q", err.Error())
		require.Less(t, len(err.Error()), 4000)
		require.NotContains(t, err.Error(), "\n")
	})
}
