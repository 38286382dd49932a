package model_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hermes-env/hermes-env/agentloop/chat"
	"github.com/hermes-env/hermes-env/agentloop/model"
	"github.com/hermes-env/hermes-env/agentloop/model/modeltest"
	"github.com/stretchr/testify/require"
)

const testKey = "sk-test-0123456789abcdef"

func newChat(t *testing.T, s model.Server) *model.Chat {
	t.Helper()
	if s.Model == "" {
		s.Model = "test-model"
	}
	client, err := model.NewChat(s)
	require.NoError(t, err)
	t.Cleanup(client.CloseIdleConnections)
	return client
}

func hello() *model.Request { return &model.Request{Messages: []chat.Message{chat.User("hello")}} }

func TestEveryFaultBecomesTheRightKindWithAUsefulMessage(t *testing.T) {
	type want struct {
		kind  model.Kind
		retry bool
		fatal bool
		says  []string
	}
	raw := func(status int, contentType, body string) modeltest.Reply {
		return modeltest.Raw(status, contentType, body)
	}
	text := modeltest.Text("a fairly ordinary answer of the model")
	tests := map[string]struct {
		reply modeltest.Reply
		want  want
	}{
		"rate limit":                            {modeltest.RateLimited(7 * time.Second), want{model.KindRateLimit, true, false, []string{"429", "rate limit reached"}}},
		"quota used up":                         {modeltest.ErrorCode(429, "insufficient_quota", "You exceeded your current quota, please check your plan and billing details."), want{model.KindBilling, false, true, []string{"TEST_KEY", "quota"}}},
		"request above the tier":                {modeltest.ErrorCode(429, "rate_limit_exceeded", "Request too large for gpt-4o on tokens per min (TPM): Limit 30000, Requested 41000."), want{model.KindPayloadTooLarge, false, false, []string{"30000"}}},
		"busy engine":                           {modeltest.Status(429, "The engine is currently overloaded, please try again later"), want{model.KindOverloaded, true, false, nil}},
		"unavailable":                           {modeltest.Status(503), want{model.KindOverloaded, true, false, []string{"503 Service Unavailable"}}},
		"overloaded 529":                        {modeltest.Status(529, "Overloaded"), want{model.KindOverloaded, true, false, []string{"529"}}},
		"internal error":                        {modeltest.Status(500), want{model.KindServerError, true, false, []string{"500"}}},
		"bad gateway page":                      {raw(502, "text/html", "<html><head><title>502 Bad Gateway</title></head><body><center>nginx</center></body></html>"), want{model.KindServerError, true, false, []string{"502 Bad Gateway"}}},
		"timeout at a gateway":                  {modeltest.Status(408), want{model.KindTimeout, true, false, nil}},
		"wrong key":                             {modeltest.ErrorCode(401, "invalid_api_key", "Incorrect API key provided: "+testKey), want{model.KindAuth, false, true, []string{"check the key from TEST_KEY", "[redacted]"}}},
		"forbidden":                             {modeltest.Status(403, "Country not supported"), want{model.KindPermission, false, true, []string{"Country not supported"}}},
		"forbidden for lack of pay":             {modeltest.Status(403, "insufficient credits"), want{model.KindBilling, false, true, nil}},
		"payment required":                      {modeltest.Status(402, "This request requires more credits"), want{model.KindBilling, false, true, []string{"credit"}}},
		"usage window":                          {modeltest.Status(402, "usage limit reached, try again in 5 minutes"), want{model.KindRateLimit, true, false, nil}},
		"unknown model":                         {modeltest.ErrorCode(404, "model_not_found", "The model `test-model` does not exist or you do not have access to it."), want{model.KindNotFound, false, true, []string{"check model_name", `"test-model"`}}},
		"unknown model as 400":                  {modeltest.Status(400, "test-model is not a valid model ID"), want{model.KindNotFound, false, true, []string{"check model_name"}}},
		"wrong path":                            {raw(404, "application/json", `{"detail":"Not Found"}`), want{model.KindNotFound, false, true, []string{"base_url", "Not Found"}}},
		"wrong method":                          {raw(405, "text/plain", "Method Not Allowed"), want{model.KindNotFound, false, true, []string{"base_url"}}},
		"bad request":                           {modeltest.Status(400, "messages.1: tool_call_id is missing"), want{model.KindBadRequest, false, false, []string{"tool_call_id is missing"}}},
		"validation list":                       {raw(422, "application/json", `{"detail":[{"loc":["body","temperature"],"msg":"ensure this value is at most 2"}]}`), want{model.KindBadRequest, false, false, []string{"body.temperature: ensure this value"}}},
		"parameter that reads like an overflow": {modeltest.Status(400, "Unsupported parameter: 'max_tokens' limits the context window; use 'max_completion_tokens'"), want{model.KindBadRequest, false, false, nil}},
		"overflow by OpenAI":                    {modeltest.ErrorCode(400, "context_length_exceeded", "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens."), want{model.KindContextLength, false, false, []string{"8192", "too long"}}},
		"overflow by Anthropic":                 {raw(400, "application/json", `{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 210000 tokens > 200000 maximum"}}`), want{model.KindContextLength, false, false, []string{"210000"}}},
		"overflow by Google":                    {raw(400, "application/json", `[{"error":{"code":400,"message":"The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).","status":"INVALID_ARGUMENT"}}]`), want{model.KindContextLength, false, false, []string{"1048576"}}},
		"overflow by llama.cpp":                 {raw(400, "application/json", `{"error":{"code":400,"message":"request (9000 tokens) exceeds the available context size (4096 tokens), try increasing it","type":"exceed_context_size_error"}}`), want{model.KindContextLength, false, false, nil}},
		"overflow by vLLM":                      {raw(400, "application/json", `{"object":"error","message":"'max_tokens' is too large: 5000. This model's maximum context length is 4096 tokens and your request has 3500 input tokens","type":"BadRequestError","code":400}`), want{model.KindContextLength, false, false, nil}},
		"overflow as 500":                       {modeltest.Status(500, "input is too long for requested model"), want{model.KindContextLength, false, false, nil}},
		"overflow as 413":                       {modeltest.Status(413, "prompt is too long"), want{model.KindContextLength, false, false, nil}},
		"content filter":                        {modeltest.ErrorCode(400, "content_filter", "The response was filtered due to the prompt triggering content management policy."), want{model.KindContentFilter, false, false, nil}},
		"large payload":                         {raw(413, "text/html", "<html><title>413 Request Entity Too Large</title></html>"), want{model.KindPayloadTooLarge, false, false, []string{"413 Request Entity Too Large"}}},
		"Google's wrong key":                    {modeltest.Status(400, "API key not valid. Please pass a valid API key."), want{model.KindAuth, false, true, nil}},
		"redirect":                              {raw(307, "text/plain", "").WithHeader("Location", "https://elsewhere.example/v1/chat/completions?token=secretvalue"), want{model.KindRedirect, false, true, []string{"https://elsewhere.example/v1/chat/completions", "not followed"}}},
		"error in a 200":                        {raw(200, "application/json", `{"error":{"message":"Provider returned error","code":429,"metadata":{"raw":"upstream is rate limited"}}}`), want{model.KindRateLimit, true, false, []string{"upstream is rate limited"}}},
		"error in a choice":                     {raw(200, "application/json", `{"choices":[{"index":0,"finish_reason":"error","error":{"code":502,"message":"upstream died"},"message":{"role":"assistant","content":""}}]}`), want{model.KindServerError, true, false, []string{"upstream died"}}},
		"reset before headers":                  {modeltest.Reset(), want{model.KindNetwork, true, false, []string{"reset"}}},
		"closed before headers":                 {modeltest.CloseConnection(), want{model.KindNetwork, true, false, []string{"closed the connection"}}},
		"reset in the body":                     {text.ResetMidBody(), want{model.KindNetwork, true, false, []string{"bytes into the answer"}}},
		"cut off body":                          {text.CutOff(), want{model.KindInvalidResponse, true, false, []string{"cut off after"}}},
		"truncated JSON":                        {text.Truncated(), want{model.KindInvalidResponse, true, false, []string{"truncated"}}},
		"stalled body":                          {text.Stalled(), want{model.KindStalled, true, false, []string{"80ms"}}},
		"hang":                                  {modeltest.Hang(), want{model.KindTimeout, true, false, []string{"timeout"}}},
		"slow headers":                          {text.After(time.Minute), want{model.KindTimeout, true, false, nil}},
		"invalid JSON":                          {modeltest.InvalidJSON(), want{model.KindInvalidResponse, true, false, []string{"invalid JSON"}}},
		"plain text":                            {raw(200, "text/plain", "upstream connect error"), want{model.KindInvalidResponse, true, false, []string{"upstream connect error"}}},
		"events":                                {raw(200, "text/event-stream", "data: {\"choices\":[]}\n\n"), want{model.KindInvalidResponse, true, false, []string{"streamed"}}},
		"web page":                              {modeltest.HTML("Welcome to nginx!"), want{model.KindInvalidResponse, true, false, []string{"Welcome to nginx!", "web page", "base_url"}}},
		"completions endpoint":                  {raw(200, "application/json", `{"choices":[{"text":"hi","index":0}]}`), want{model.KindInvalidResponse, false, false, []string{"completions endpoint"}}},
		"empty body":                            {raw(200, "application/json", ""), want{model.KindEmptyResponse, true, false, nil}},
		"empty choices":                         {modeltest.EmptyChoices(), want{model.KindEmptyResponse, true, false, []string{"choices"}}},
		"null message":                          {modeltest.NullMessage(), want{model.KindEmptyResponse, true, false, []string{"no message"}}},
		"a list":                                {raw(200, "application/json", "[]"), want{model.KindInvalidResponse, true, false, nil}},
		"tool calls of a wrong shape":           {modeltest.Message(`{"role":"assistant","tool_calls":{"a":1}}`), want{model.KindInvalidResponse, true, false, []string{"tool_calls"}}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := modeltest.NewServer(t, modeltest.Always(test.reply))
			s := model.Server{BaseURL: server.URL, APIKey: testKey, KeySource: "TEST_KEY"}
			switch test.want.kind { // short times only where they are meant to run out: machines may be busy
			case model.KindTimeout:
				s.Timeout = 300 * time.Millisecond
			case model.KindStalled:
				s.StallTimeout = 80 * time.Millisecond
			}
			client := newChat(t, s)
			_, err := client.Complete(t.Context(), hello())
			var failure *model.Error
			require.ErrorAs(t, err, &failure)
			require.Equal(t, test.want.kind, failure.Kind, err.Error())
			require.Equal(t, test.want.retry, failure.Retryable(), "retryable")
			require.Equal(t, test.want.fatal, failure.Fatal(), "fatal")
			require.Contains(t, err.Error(), "POST "+server.URL+"/chat/completions")
			require.NotContains(t, err.Error(), testKey)
			require.NotContains(t, err.Error(), "secretvalue")
			for _, words := range test.want.says {
				require.Contains(t, err.Error(), words)
			}
			require.Equal(t, 1, server.RequestCount(), "one Complete sends one request")
		})
	}
}

func TestRetryAfterReachesTheCaller(t *testing.T) {
	for name, test := range map[string]struct {
		header, value string
		want          time.Duration
	}{
		"seconds":         {"Retry-After", "7", 7 * time.Second},
		"fractions":       {"Retry-After", "0.5", 500 * time.Millisecond},
		"milliseconds":    {"Retry-After-Ms", "250", 250 * time.Millisecond},
		"negative":        {"Retry-After", "-3", 0},
		"not a number":    {"Retry-After", "NaN", 0},
		"a word":          {"Retry-After", "soon", 0},
		"a past date":     {"Retry-After", "Mon, 02 Jan 2006 15:04:05 GMT", 0},
		"absurdly long":   {"Retry-After", "1e99", 24 * time.Hour},
		"nothing at all":  {"X-Other", "1", 0},
		"infinitely long": {"Retry-After", "Inf", 24 * time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			server := modeltest.NewServer(t, modeltest.Always(modeltest.Status(429).WithHeader(test.header, test.value)))
			_, err := newChat(t, model.Server{BaseURL: server.URL}).Complete(t.Context(), hello())
			var failure *model.Error
			require.ErrorAs(t, err, &failure)
			require.Equal(t, test.want, failure.RetryAfter)
		})
	}
	t.Run("a coming date", func(t *testing.T) {
		at := time.Now().Add(time.Hour).UTC().Format(http.TimeFormat)
		server := modeltest.NewServer(t, modeltest.Always(modeltest.Status(503).WithHeader("Retry-After", at)))
		_, err := newChat(t, model.Server{BaseURL: server.URL}).Complete(t.Context(), hello())
		var failure *model.Error
		require.ErrorAs(t, err, &failure)
		require.InDelta(t, time.Hour, failure.RetryAfter, float64(time.Minute))
	})
}

func TestConnectionProblemsNameTheHostAndWhatToCheck(t *testing.T) {
	t.Run("refused", func(t *testing.T) {
		_, err := newChat(t, model.Server{BaseURL: modeltest.RefusedURL(t)}).Complete(t.Context(), hello())
		require.Equal(t, model.KindNetwork, model.KindOf(err))
		require.ErrorIs(t, err, syscall.ECONNREFUSED)
		require.ErrorContains(t, err, "is the server running at 127.0.0.1:")
	})
	t.Run("TLS spoken to a plain server", func(t *testing.T) {
		server := modeltest.NewServer(t, nil)
		_, err := newChat(t, model.Server{BaseURL: "https" + server.URL[len("http"):]}).Complete(t.Context(), hello())
		var failure *model.Error
		require.ErrorAs(t, err, &failure)
		require.Equal(t, model.KindNetwork, failure.Kind)
		require.False(t, failure.Retryable())
		require.True(t, failure.Fatal())
		require.ErrorContains(t, err, "use http:// in base_url")
	})
	t.Run("a base URL without /v1", func(t *testing.T) {
		server := modeltest.NewServer(t, nil)
		_, err := newChat(t, model.Server{BaseURL: server.URL[:len(server.URL)-len("/v1")]}).Complete(t.Context(), hello())
		require.Equal(t, model.KindNotFound, model.KindOf(err))
		require.ErrorContains(t, err, "most servers want it to end in /v1")
	})
	t.Run("a key that is needed but missing", func(t *testing.T) {
		server := modeltest.NewServerWith(t, modeltest.Config{Key: testKey})
		_, err := newChat(t, model.Server{BaseURL: server.URL, KeySource: "TEST_KEY"}).Complete(t.Context(), hello())
		require.Equal(t, model.KindAuth, model.KindOf(err))
		require.ErrorContains(t, err, "no key was sent: set TEST_KEY")
	})
}

func TestTheCallersContextEndsARequestAtOnce(t *testing.T) {
	for name, reply := range map[string]modeltest.Reply{
		"while the server is silent": modeltest.Hang(),
		"in the middle of the body":  modeltest.Text("abc").Stalled(),
		"in an error's body":         modeltest.Status(500).Stalled(),
	} {
		t.Run(name, func(t *testing.T) {
			server := modeltest.NewServer(t, modeltest.Always(reply))
			client := newChat(t, model.Server{BaseURL: server.URL})
			ctx, cancel := context.WithTimeout(t.Context(), 60*time.Millisecond)
			defer cancel()
			_, err := client.Complete(ctx, hello())
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.Equal(t, model.KindCancelled, model.KindOf(err))
		})
	}
	t.Run("before anything is sent", func(t *testing.T) {
		server := modeltest.NewServer(t, nil)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := newChat(t, model.Server{BaseURL: server.URL}).Complete(ctx, hello())
		require.ErrorIs(t, err, context.Canceled)
		require.Zero(t, server.RequestCount())
	})
}

func TestARefusalWithoutReadingTheBodyIsUnderstood(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(413)
		_, _ = w.Write([]byte("Request Entity Too Large"))
	}))
	defer server.Close()
	client := newChat(t, model.Server{BaseURL: server.URL + "/v1"})
	for range 3 {
		_, err := client.Complete(t.Context(), &model.Request{Messages: []chat.Message{chat.User(strings.Repeat("x", 8<<20))}})
		require.Equal(t, model.KindPayloadTooLarge, model.KindOf(err), "%v", err)
	}
}
