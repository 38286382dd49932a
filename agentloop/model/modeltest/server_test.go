package modeltest_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hermes-env/hermes-env/agentloop/chat"
	"github.com/hermes-env/hermes-env/agentloop/model"
	"github.com/hermes-env/hermes-env/agentloop/model/modeltest"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// post sends a conversation and returns the answer.
func post(t *testing.T, url, body string) (*http.Response, string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/chat/completions", strings.NewReader(body))
	require.NoError(t, err)
	req.Close = true // no connection outlives the call
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, "", err
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(resp.Body)
	return resp, string(raw), err
}

const opening = `{"model":"m","messages":[{"role":"user","content":"hi"}]}`

func conversation(prompt string, answers int) string {
	messages := []chat.Message{chat.User(prompt)}
	for range answers {
		messages = append(messages, chat.Assistant("x", ""), chat.User("go on"))
	}
	return `{"model":"m","messages":` + string(chat.AppendMessages(nil, messages)) + `}`
}

func TestScriptsChooseTheReply(t *testing.T) {
	script := modeltest.ByPrompt(map[string]modeltest.Script{
		"turns": modeltest.Turns(modeltest.Text("one"), modeltest.Text("two")),
		"same":  modeltest.Always(modeltest.Text("same")),
	})
	server := modeltest.NewServer(t, script)
	for _, test := range []struct {
		prompt  string
		answers int
		status  int
		want    string
	}{
		{"turns", 0, 200, "one"}, {"turns", 1, 200, "two"}, {"turns", 0, 200, "one"}, {"turns", 2, 400, ""},
		{"same", 0, 200, "same"}, {"same", 9, 200, "same"}, {"unknown", 0, 400, ""},
	} {
		resp, body, err := post(t, server.URL, conversation(test.prompt, test.answers))
		require.NoError(t, err)
		require.Equal(t, test.status, resp.StatusCode, body)
		require.Equal(t, test.want, gjson.Get(body, "choices.0.message.content").String())
	}
	require.Equal(t, 7, server.RequestCount())
}

func TestInOrderFollowsTheRequestsAndStaysAtTheLast(t *testing.T) {
	server := modeltest.NewServer(t, modeltest.InOrder(modeltest.Status(503), modeltest.RateLimited(3*time.Second), modeltest.Text("ok")))
	var statuses []int
	for range 4 {
		resp, _, err := post(t, server.URL, opening)
		require.NoError(t, err)
		statuses = append(statuses, resp.StatusCode)
		if resp.StatusCode == http.StatusTooManyRequests {
			require.Equal(t, "3", resp.Header.Get("Retry-After"))
		}
	}
	require.Equal(t, []int{503, 429, 200, 200}, statuses)
	empty := modeltest.NewServer(t, modeltest.InOrder())
	resp, _, err := post(t, empty.URL, opening)
	require.NoError(t, err)
	require.Equal(t, 400, resp.StatusCode)
}

func TestScriptsSeeTheRequest(t *testing.T) {
	server := modeltest.NewServer(t, func(r *modeltest.Request) modeltest.Reply {
		return modeltest.Text(fmt.Sprint(r.Number, r.Turn(), r.Turn(), r.Prompt(), r.Model(), r.Get("seed").Raw, r.Header.Get("X-Test")))
	})
	_, body, err := post(t, server.URL, `{"model":"m","seed":7,"messages":[{"role":"system","content":"s"},{"role":"user","content":"p"},{"role":"assistant","content":"{\"role\":\"assistant\"}"}]}`)
	require.NoError(t, err)
	require.Equal(t, "0 1 1pm7", gjson.Get(body, "choices.0.message.content").String())
}

func TestFaultsShowOnTheWire(t *testing.T) {
	text := modeltest.Text("some answer")
	for name, test := range map[string]struct {
		reply modeltest.Reply
		check func(t *testing.T, resp *http.Response, body string, err error)
	}{
		"reset": {modeltest.Reset(), func(t *testing.T, _ *http.Response, _ string, err error) { require.ErrorIs(t, err, syscall.ECONNRESET) }},
		"close": {modeltest.CloseConnection(), func(t *testing.T, _ *http.Response, _ string, err error) { require.ErrorIs(t, err, io.EOF) }},
		"reset in the body": {text.ResetMidBody(), func(t *testing.T, resp *http.Response, _ string, err error) {
			require.NotNil(t, resp)
			require.ErrorIs(t, err, syscall.ECONNRESET)
		}},
		"cut off": {text.CutOff(), func(t *testing.T, _ *http.Response, body string, err error) {
			require.ErrorIs(t, err, io.ErrUnexpectedEOF)
			require.NotEmpty(t, body)
		}},
		"truncated": {text.Truncated(), func(t *testing.T, _ *http.Response, body string, err error) {
			require.NoError(t, err)
			require.False(t, gjson.Valid(body))
		}},
		"invalid": {modeltest.InvalidJSON(), func(t *testing.T, _ *http.Response, body string, _ error) { require.False(t, gjson.Valid(body)) }},
		"page": {modeltest.HTML("Hi"), func(t *testing.T, _ *http.Response, body string, _ error) {
			require.Contains(t, body, "<title>Hi</title>")
		}},
		"empty choices": {modeltest.EmptyChoices(), func(t *testing.T, _ *http.Response, body string, _ error) {
			require.Equal(t, "[]", gjson.Get(body, "choices").Raw)
		}},
		"null message": {modeltest.NullMessage(), func(t *testing.T, _ *http.Response, body string, _ error) {
			require.Equal(t, "null", gjson.Get(body, "choices.0.message").Raw)
		}},
		"drips": {text.Dripped(time.Millisecond), func(t *testing.T, _ *http.Response, body string, err error) {
			require.NoError(t, err)
			require.True(t, gjson.Valid(body))
		}},
		"no usage": {text.WithoutUsage(), func(t *testing.T, _ *http.Response, body string, _ error) {
			require.False(t, gjson.Get(body, "usage").Exists())
		}},
		"error code": {modeltest.ErrorCode(400, "c", "m"), func(t *testing.T, resp *http.Response, body string, _ error) {
			require.Equal(t, "c", gjson.Get(body, "error.code").Str)
			require.Equal(t, 400, resp.StatusCode)
		}},
		"no id": {modeltest.Calls(chat.ToolCall{Name: "f", Arguments: "{}"}), func(t *testing.T, _ *http.Response, body string, _ error) {
			require.False(t, gjson.Get(body, "choices.0.message.tool_calls.0.id").Exists())
		}},
		"object arguments": {modeltest.Calls(chat.ToolCall{Name: "f", Arguments: `{"a":1.0}`}, chat.ToolCall{Name: "g", Arguments: `{`}).WithObjectArguments(), func(t *testing.T, _ *http.Response, body string, _ error) {
			require.Equal(t, `{"a":1.0}`, gjson.Get(body, "choices.0.message.tool_calls.0.function.arguments").Raw)
			require.Equal(t, `"{"`, gjson.Get(body, "choices.0.message.tool_calls.1.function.arguments").Raw)
		}},
		"misuse": {modeltest.Reset().With("a", "1"), func(t *testing.T, resp *http.Response, _ string, err error) {
			require.NoError(t, err)
			require.Equal(t, 500, resp.StatusCode)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			server := modeltest.NewServer(t, modeltest.Always(test.reply))
			resp, body, err := post(t, server.URL, opening)
			test.check(t, resp, body, err)
		})
	}
}

func TestCloseEndsWhateverHangs(t *testing.T) {
	for name, reply := range map[string]modeltest.Reply{
		"hang": modeltest.Hang(), "stall": modeltest.Text("x").Stalled(), "latency": modeltest.Text("x").After(time.Hour), "drips": modeltest.Text("x").Dripped(time.Hour),
	} {
		t.Run(name, func(t *testing.T) {
			server, err := modeltest.Start(modeltest.Config{Script: modeltest.Always(reply)})
			require.NoError(t, err)
			done := make(chan error, 1)
			go func() { _, _, err := post(t, server.URL, opening); done <- err }()
			require.Eventually(t, func() bool { return server.InFlight() == 1 }, 5*time.Second, time.Millisecond)
			server.Close()
			server.Close()
			require.Error(t, <-done)
			require.Zero(t, server.InFlight())
		})
	}
}

func TestAHangEndsWhenTheClientLeaves(t *testing.T) {
	server := modeltest.NewServer(t, modeltest.Always(modeltest.Hang()))
	ctx, cancel := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, server.URL+"/chat/completions", strings.NewReader(opening))
	require.NoError(t, err)
	done := make(chan error, 1)
	go func() { _, err := http.DefaultClient.Do(req); done <- err }()
	require.Eventually(t, func() bool { return server.InFlight() == 1 }, 5*time.Second, time.Millisecond)
	cancel()
	require.ErrorIs(t, <-done, context.Canceled)
	require.Eventually(t, func() bool { return server.InFlight() == 0 }, 5*time.Second, time.Millisecond)
}

func TestRequestsInFlightAreCounted(t *testing.T) {
	server := modeltest.NewServer(t, modeltest.Delayed(modeltest.Always(modeltest.Text("x")), func(r *modeltest.Request) time.Duration { return time.Hour }))
	var wg sync.WaitGroup
	for range 5 {
		wg.Go(func() { _, _, _ = post(t, server.URL, opening) })
	}
	require.Eventually(t, func() bool { return server.InFlight() == 5 }, 5*time.Second, time.Millisecond)
	server.Release()
	wg.Wait()
	require.Equal(t, 5, server.MaxInFlight())
}

func TestRequestsAreRecordedOrNot(t *testing.T) {
	server := modeltest.NewServer(t, nil)
	_, _, err := post(t, server.URL, opening)
	require.NoError(t, err)
	recorded := server.Requests()
	require.Len(t, recorded, 1)
	require.Equal(t, opening, string(recorded[0].Body))
	require.Equal(t, "/v1/chat/completions", recorded[0].Path)
	require.NotEmpty(t, recorded[0].Remote)

	quiet := modeltest.NewServerWith(t, modeltest.Config{})
	_, _, err = post(t, quiet.URL, opening)
	require.NoError(t, err)
	require.Empty(t, quiet.Requests())
	require.Equal(t, 1, quiet.RequestCount())
}

func TestTheHandlerWorksWithoutAServer(t *testing.T) {
	handler := modeltest.New(modeltest.Config{Models: []string{"a", "b"}, Key: "k", Record: true})
	ask := func(method, path, key, body string) (int, string) {
		w := httptest.NewRecorder()
		r := httptest.NewRequest(method, path, bytes.NewReader([]byte(body)))
		r.Header.Set("Authorization", "Bearer "+key)
		handler.ServeHTTP(w, r)
		return w.Code, w.Body.String()
	}
	status, body := ask("GET", "/v1/models", "k", "")
	require.Equal(t, 200, status)
	require.Equal(t, []string{"a", "b"}, []string{gjson.Get(body, "data.0.id").Str, gjson.Get(body, "data.1.id").Str})
	status, body = ask("POST", "/v1/chat/completions", "k", opening)
	require.Equal(t, 200, status)
	require.Equal(t, "ok", gjson.Get(body, "choices.0.message.content").Str)
	for _, test := range []struct {
		method, path, key, body string
		status                  int
	}{
		{"GET", "/v1/models", "wrong", "", 401}, {"POST", "/v1/chat/completions", "k", "{", 400},
		{"GET", "/v1/chat/completions", "k", "", 405}, {"POST", "/chat/completions", "k", opening, 404},
	} {
		status, body := ask(test.method, test.path, test.key, test.body)
		require.Equal(t, test.status, status, body)
		require.True(t, gjson.Valid(body))
	}
}

func TestNothingListensOnARefusedURL(t *testing.T) {
	_, _, err := post(t, modeltest.RefusedURL(t), opening)
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
	var op *net.OpError
	require.True(t, errors.As(err, &op))
}

func ExampleStart() {
	server, err := modeltest.Start(modeltest.Config{Script: modeltest.Turns(
		modeltest.Calls(chat.ToolCall{ID: "1", Name: "terminal", Arguments: `{"command":"ls"}`}),
		modeltest.Text("There are no files."),
	)})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer server.Close()
	client, err := model.NewChat(model.Server{BaseURL: server.URL, Model: "any"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.CloseIdleConnections()
	messages := []chat.Message{chat.User("Which files are there?")}
	for range 2 {
		answer, err := client.Complete(context.Background(), &model.Request{Messages: messages})
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%s %v %q\n", answer.FinishReason, answer.Message.ToolCalls(), answer.Message.Text())
		messages = append(messages, answer.Message, chat.Tool("1", ""))
	}
	// Output:
	// tool_calls [{1 terminal {"command":"ls"}}] ""
	// stop [] "There are no files."
}

// BenchmarkRequests shows what the mock itself can serve over loopback. Client
// and server share the processors.
func BenchmarkRequests(b *testing.B) {
	server, err := modeltest.Start(modeltest.Config{Script: modeltest.Always(modeltest.Text("ok"))})
	require.NoError(b, err)
	defer server.Close()
	transport := &http.Transport{MaxIdleConnsPerHost: 1024}
	defer transport.CloseIdleConnections()
	b.SetParallelism(32)
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			req, _ := http.NewRequest(http.MethodPost, server.URL+"/chat/completions", strings.NewReader(opening))
			resp, err := transport.RoundTrip(req)
			if err != nil {
				b.Error(err)
				return
			}
			_, _ = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "req/s")
}
