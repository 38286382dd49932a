package model_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-env/hermes-env/agentloop/chat"
	"github.com/hermes-env/hermes-env/agentloop/model"
	"github.com/hermes-env/hermes-env/agentloop/model/modeltest"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func ptr[T any](v T) *T { return &v }

func lsTool(t *testing.T) *chat.Toolset {
	t.Helper()
	tools, err := chat.NewToolset(chat.ToolDefinition{Name: "ls", Description: "lists <files> & folders", Parameters: json.RawMessage(`{"type":"object","properties":{"b":{},"a":{}}}`)})
	require.NoError(t, err)
	return tools
}

const lsJSON = `[{"type":"function","function":{"name":"ls","description":"lists <files> & folders","parameters":{"type":"object","properties":{"b":{},"a":{}}}}}]`

func TestRequestsCarryExactlyWhatWasAsked(t *testing.T) {
	messages := []chat.Message{chat.System("be <brief>"), chat.User("hé")}
	const sent = `"messages":[{"role":"system","content":"be <brief>"},{"role":"user","content":"hé"}]`
	for name, test := range map[string]struct {
		request func(t *testing.T) *model.Request
		want    string
	}{
		"nothing but messages": {func(*testing.T) *model.Request { return &model.Request{} },
			`{"model":"test-model",` + sent + `,"stream":false}`},
		"no tools in an empty set": {func(t *testing.T) *model.Request {
			tools, err := chat.NewToolset()
			require.NoError(t, err)
			return &model.Request{Tools: tools}
		}, `{"model":"test-model",` + sent + `,"stream":false}`},
		"everything": {func(t *testing.T) *model.Request {
			return &model.Request{Tools: lsTool(t), Temperature: ptr(0.0), TopP: ptr(0.95), MaxTokens: 4096, Stop: []string{"</a>", "\n"},
				Extra: chat.Object{{Key: "seed", Value: json.RawMessage("12345678901234567890")}}}
		}, `{"model":"test-model","tools":` + lsJSON + `,` + sent + `,"temperature":0,"top_p":0.95,"max_tokens":4096,"stop":["</a>","\n"],"stream":false,"seed":12345678901234567890}`},
		"extra fields that win": {func(t *testing.T) *model.Request {
			return &model.Request{Tools: lsTool(t), Temperature: ptr(1.0), TopP: ptr(1.0), MaxTokens: 7, Stop: []string{"x"}, Extra: chat.Object{
				{Key: "model", Value: json.RawMessage(`"other"`)}, {Key: "tools", Value: json.RawMessage(`[]`)},
				{Key: "temperature", Value: json.RawMessage(`0.10`)}, {Key: "top_p", Value: json.RawMessage(`null`)},
				{Key: "max_tokens", Value: json.RawMessage(`9`)}, {Key: "stop", Value: json.RawMessage(`"y"`)}, {Key: "stream", Value: json.RawMessage(`false`)},
			}}
		}, `{` + sent + `,"model":"other","tools":[],"temperature":0.10,"top_p":null,"max_tokens":9,"stop":"y","stream":false}`},
		"the newer name of the token limit": {func(*testing.T) *model.Request {
			return &model.Request{MaxTokens: 7, Extra: chat.Object{{Key: "max_completion_tokens", Value: json.RawMessage(`8`)}}}
		}, `{"model":"test-model",` + sent + `,"stream":false,"max_completion_tokens":8}`},
	} {
		t.Run(name, func(t *testing.T) {
			server := modeltest.NewServer(t, nil)
			client := newChat(t, model.Server{BaseURL: server.URL + "///", APIKey: testKey, Headers: map[string]string{"X-Title": "hermes"}})
			req := test.request(t)
			req.Messages = messages
			for range 2 { // the second request takes the cached prefix
				_, err := client.Complete(t.Context(), req)
				require.NoError(t, err)
			}
			for _, got := range server.Requests() {
				require.Equal(t, test.want, string(got.Body))
				require.Equal(t, "/v1/chat/completions", got.Path)
				require.Equal(t, "Bearer "+testKey, got.Header.Get("Authorization"))
				require.Equal(t, "application/json", got.Header.Get("Content-Type"))
				require.Equal(t, fmt.Sprint(len(test.want)), got.Header.Get("Content-Length"))
				require.Equal(t, "hermes", got.Header.Get("X-Title"))
				require.Empty(t, got.Header.Get("Accept-Encoding"))
			}
		})
	}
}

func TestRequestsThatCannotBeSentAreRefusedBeforehand(t *testing.T) {
	server := modeltest.NewServer(t, nil)
	client := newChat(t, model.Server{BaseURL: server.URL})
	for name, test := range map[string]struct {
		change func(*model.Request)
		says   string
	}{
		"no messages":        {func(r *model.Request) { r.Messages = nil }, "no messages"},
		"replaced messages":  {func(r *model.Request) { r.Extra.Set("messages", json.RawMessage("[]")) }, `"messages"`},
		"streaming":          {func(r *model.Request) { r.Extra.Set("stream", json.RawMessage("true")) }, `"stream"`},
		"broken extra value": {func(r *model.Request) { r.Extra.Set("x", json.RawMessage("{")) }, `"x" in extra_body is not valid JSON`},
		"not a number":       {func(r *model.Request) { r.Temperature = ptr(math.NaN()) }, "temperature is NaN"},
		"infinity":           {func(r *model.Request) { r.TopP = ptr(math.Inf(1)) }, "top_p is +Inf"},
	} {
		t.Run(name, func(t *testing.T) {
			req := hello()
			test.change(req)
			_, err := client.Complete(t.Context(), req)
			require.Equal(t, model.KindBadRequest, model.KindOf(err))
			require.ErrorContains(t, err, test.says)
		})
	}
	require.Zero(t, server.RequestCount())
}

func TestAnswersOfAllShapesAreUnderstood(t *testing.T) {
	call := chat.ToolCall{ID: "c1", Name: "ls", Arguments: `{"b":1,"a":2.0}`}
	type want struct {
		text, reasoning, finish string
		calls                   []chat.ToolCall
	}
	for name, test := range map[string]struct {
		reply modeltest.Reply
		want  want
	}{
		"text":                     {modeltest.Text("hi <b>"), want{text: "hi <b>", finish: "stop"}},
		"a call":                   {modeltest.Calls(call), want{finish: "tool_calls", calls: []chat.ToolCall{call}}},
		"text and call":            {modeltest.TextAndCalls("now", call), want{text: "now", finish: "tool_calls", calls: []chat.ToolCall{call}}},
		"object arguments":         {modeltest.Calls(call).WithObjectArguments(), want{finish: "tool_calls", calls: []chat.ToolCall{call}}},
		"a missing id":             {modeltest.Calls(chat.ToolCall{Name: "ls", Arguments: "{}"}), want{finish: "tool_calls", calls: []chat.ToolCall{{ID: "minted-1", Name: "ls", Arguments: "{}"}}}},
		"a repeated id":            {modeltest.Calls(call, call), want{finish: "tool_calls", calls: []chat.ToolCall{call, {ID: "minted-1", Name: "ls", Arguments: call.Arguments}}}},
		"an id of an earlier turn": {modeltest.Calls(chat.ToolCall{ID: "old", Name: "ls", Arguments: "{}"}), want{finish: "tool_calls", calls: []chat.ToolCall{{ID: "minted-1", Name: "ls", Arguments: "{}"}}}},
		"a cut call":               {modeltest.Calls(chat.ToolCall{ID: "c1", Name: "ls", Arguments: `{"path": "/et`}).WithFinish("length"), want{finish: "length", calls: []chat.ToolCall{{ID: "c1", Name: "ls", Arguments: `{"path": "/et`}}}},
		"parts":                    {modeltest.Parts("one ", "two"), want{text: "one two", finish: "stop"}},
		"a refusal":                {modeltest.Refusal("I can't"), want{finish: "stop"}},
		"null content":             {modeltest.Message(`{"role":"assistant","content":null}`), want{finish: "stop"}},
		"no finish reason":         {modeltest.Text("x").WithFinish(""), want{text: "x"}},
		"a wrong content type":     {modeltest.Text("x").WithContentType("text/html"), want{text: "x", finish: "stop"}},
		"a body in drips":          {modeltest.Text("x").Dripped(5 * time.Millisecond), want{text: "x", finish: "stop"}},
		"white space around":       {modeltest.Raw(200, "application/json", "\n \n{\"choices\":[{\"message\":{\"content\":\"x\"},\"finish_reason\":\"stop\"}]}\n"), want{text: "x", finish: "stop"}},
		"a byte order mark":        {modeltest.Raw(200, "application/json", "\ufeff{\"choices\":[{\"message\":{\"content\":\"x\"},\"finish_reason\":\"stop\"}],\"error\":null}"), want{text: "x", finish: "stop"}},
		"invalid UTF-8":            {modeltest.Raw(200, "application/json", "{\"choices\":[{\"message\":{\"content\":\"x\xff\"},\"finish_reason\":\"stop\"}]}"), want{text: "x\uFFFD", finish: "stop"}},
		"several choices":          {modeltest.Raw(200, "application/json", `{"choices":[{"message":{"content":"x"},"finish_reason":"stop"},{"message":{"content":"y"}}]}`), want{text: "x", finish: "stop"}},
		"reasoning_content":        {modeltest.Text("x").WithReasoning(modeltest.ReasoningContent, "hm"), want{text: "x", reasoning: "hm", finish: "stop"}},
		"reasoning":                {modeltest.Text("x").WithReasoning(modeltest.ReasoningField, "hm"), want{text: "x", reasoning: "hm", finish: "stop"}},
		"reasoning object":         {modeltest.Text("x").WithReasoning(modeltest.ReasoningObject, "hm"), want{text: "x", reasoning: "hm", finish: "stop"}},
		"reasoning_details":        {modeltest.Text("x").WithReasoning(modeltest.ReasoningDetails, "hm"), want{text: "x", reasoning: "hm", finish: "stop"}},
		"thinking parts":           {modeltest.Text("x").WithReasoning(modeltest.ThinkingParts, "hm"), want{text: "x", reasoning: "hm", finish: "stop"}},
		"think tags are content":   {modeltest.Text("x").WithReasoning(modeltest.ThinkTags, "hm"), want{text: "<think>hm</think>\nx", finish: "stop"}},
	} {
		t.Run(name, func(t *testing.T) {
			server := modeltest.NewServer(t, modeltest.Always(test.reply))
			minted := 0
			client := newChat(t, model.Server{BaseURL: server.URL, MintID: func() string { minted++; return fmt.Sprint("minted-", minted) }})
			earlier := chat.Assistant("", "", chat.ToolCall{ID: "old", Name: "ls", Arguments: "{}"})
			resp, err := client.Complete(t.Context(), &model.Request{Messages: []chat.Message{chat.User("x"), earlier, chat.Tool("old", "y")}})
			require.NoError(t, err)
			require.Equal(t, test.want, want{resp.Message.Text(), resp.Message.NativeReasoning(), resp.FinishReason, resp.Message.ToolCalls()})
			require.Equal(t, 1, resp.Attempts)
			require.Equal(t, server.URL, resp.Server)
			require.True(t, json.Valid(resp.Message.JSON()))
		})
	}
}

func TestUsageIDAndModelAreReported(t *testing.T) {
	server := modeltest.NewServer(t, modeltest.InOrder(modeltest.Text("x").WithUsage(100, 20), modeltest.Text("x").WithoutUsage()))
	client := newChat(t, model.Server{BaseURL: server.URL})
	resp, err := client.Complete(t.Context(), hello())
	require.NoError(t, err)
	require.Equal(t, chat.Usage{PromptTokens: 100, CompletionTokens: 20, TotalTokens: 120}, resp.Usage)
	require.Equal(t, "chatcmpl-0", resp.ID)
	require.Equal(t, "test-model", resp.Model)
	resp, err = client.Complete(t.Context(), hello())
	require.NoError(t, err)
	require.Zero(t, resp.Usage)
}

func TestMintedIDsLookLikeTheServersOwn(t *testing.T) {
	server := modeltest.NewServer(t, modeltest.Always(modeltest.Calls(chat.ToolCall{Name: "ls"}, chat.ToolCall{Name: "ls"})))
	resp, err := newChat(t, model.Server{BaseURL: server.URL}).Complete(t.Context(), hello())
	require.NoError(t, err)
	calls := resp.Message.ToolCalls()
	require.Regexp(t, `^call_[0-9a-f]{24}$`, calls[0].ID)
	require.NotEqual(t, calls[0].ID, calls[1].ID)
}

func TestAnswersLargerThanTheCapAreRefused(t *testing.T) {
	server := modeltest.NewServer(t, modeltest.Always(modeltest.Text(strings.Repeat("x", 5000))))
	_, err := newChat(t, model.Server{BaseURL: server.URL, MaxAnswer: 1000}).Complete(t.Context(), hello())
	require.Equal(t, model.KindInvalidResponse, model.KindOf(err))
	require.ErrorContains(t, err, "larger than 1000 bytes")
	_, err = newChat(t, model.Server{BaseURL: server.URL, MaxAnswer: 10000}).Complete(t.Context(), hello())
	require.NoError(t, err)
}

func TestABodyOfBracketsDoesNotEndTheProcess(t *testing.T) {
	transport := roundTrip(func(*http.Request) (*http.Response, error) {
		body := strings.NewReader(strings.Repeat("[", 10<<20))
		return &http.Response{StatusCode: 200, ContentLength: body.Size(), Body: io.NopCloser(body)}, nil
	})
	_, err := newChat(t, model.Server{BaseURL: "http://test/v1", Transport: transport}).Complete(t.Context(), hello())
	require.Equal(t, model.KindInvalidResponse, model.KindOf(err))
	require.Less(t, len(err.Error()), 1000)
}

// roundTrip is a transport that a test writes.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// slowBody gives its pieces with a pause before each, as long as the request lasts.
type slowBody struct {
	ctx    context.Context
	pieces []string
	pause  time.Duration
}

func (b *slowBody) Read(p []byte) (int, error) {
	if len(b.pieces) == 0 {
		return 0, io.EOF
	}
	select {
	case <-time.After(b.pause):
	case <-b.ctx.Done():
		return 0, b.ctx.Err()
	}
	n := copy(p, b.pieces[0])
	b.pieces = b.pieces[1:]
	return n, nil
}

func (b *slowBody) Close() error { return nil }

func TestOnlyAPauseInTheAnswerIsAStall(t *testing.T) {
	const answer = `{"choices":[{"message":{"content":"done"},"finish_reason":"stop"}]}`
	for name, test := range map[string]struct {
		headers, pause time.Duration // before the headers, and before each piece of the body
		stall, timeout time.Duration
		want           model.Kind
		after          time.Duration
	}{
		"a model that thinks for long before the headers": {headers: 10 * time.Minute, stall: time.Second, after: 10 * time.Minute},
		"a slow but steady body":                          {pause: 900 * time.Millisecond, stall: time.Second, after: 4500 * time.Millisecond},
		"a pause that is too long":                        {headers: time.Minute, pause: 2 * time.Second, stall: time.Second, want: model.KindStalled, after: time.Minute + time.Second},
		"stalls may be allowed":                           {pause: time.Minute, stall: -1, after: 5 * time.Minute},
		"the whole takes too long":                        {pause: 50 * time.Second, timeout: 2 * time.Minute, want: model.KindTimeout, after: 2 * time.Minute},
		"the headers take too long by default":            {headers: time.Hour, want: model.KindTimeout, after: 20 * time.Minute},
		"no timeout":                                      {headers: time.Hour, timeout: -1, after: time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				transport := roundTrip(func(r *http.Request) (*http.Response, error) {
					select {
					case <-time.After(test.headers):
					case <-r.Context().Done():
						return nil, r.Context().Err()
					}
					pieces := []string{answer[:10], answer[10:20], answer[20:30], answer[30:40], answer[40:]}
					return &http.Response{StatusCode: 200, ContentLength: -1, Body: &slowBody{r.Context(), pieces, test.pause}}, nil
				})
				client := newChat(t, model.Server{BaseURL: "http://test/v1", Transport: transport, Timeout: test.timeout, StallTimeout: test.stall})
				began := time.Now()
				_, err := client.Complete(t.Context(), hello())
				require.Equal(t, test.want, model.KindOf(err), "%v", err)
				require.Equal(t, test.after, time.Since(began))
			})
		})
	}
}

func TestConnectionsAreReused(t *testing.T) {
	server := modeltest.NewServer(t, nil)
	remotes := make(map[string]bool)
	inner := model.NewTransport(model.Limits{})
	t.Cleanup(inner.CloseIdleConnections)
	client := newChat(t, model.Server{BaseURL: server.URL, Transport: inner})
	for range 20 {
		_, err := client.Complete(t.Context(), hello())
		require.NoError(t, err)
	}
	for _, r := range server.Requests() {
		remotes[r.Remote] = true
	}
	require.Len(t, remotes, 1)
}
