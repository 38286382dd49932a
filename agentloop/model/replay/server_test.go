package replay_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"github.com/hermes-env/hermes-env/agentloop/chat"
	"github.com/hermes-env/hermes-env/agentloop/model"
	"github.com/hermes-env/hermes-env/agentloop/model/replay"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const letters = `
conversations:
  - match: {contains: letters}
    variants:
      - turns:
          - calls: [{name: say, arguments: {letter: a}}, {name: say, arguments: {letter: b}}]
          - calls: [{name: say, arguments: {letter: c}}]
          - content: first
      - turns:
          - reasoning: hm
            content: on it
            calls: [{name: say, arguments: {letter: z}}]
          - content: second
  - match: {text: plain}
    variants:
      - turns: [{content: p0}, {content: p0-more}]
      - turns: [{content: p1}, {content: p1-more}]
`

func start(t *testing.T, script *replay.Script, options replay.Options) (*replay.Server, *model.Chat) {
	t.Helper()
	server, err := replay.New(script, options)
	require.NoError(t, err)
	require.NoError(t, server.Start(t.Context()))
	t.Cleanup(func() { require.NoError(t, server.Close()) })
	client, err := model.NewChat(model.Server{BaseURL: server.BaseURL(), Model: "replay"})
	require.NoError(t, err)
	t.Cleanup(client.CloseIdleConnections)
	return server, client
}

func parse(t *testing.T, text string) *replay.Script {
	t.Helper()
	script, err := replay.Parse("test", []byte(text))
	require.NoError(t, err)
	return script
}

// play runs a conversation to its end and returns what the model said.
func play(t *testing.T, client model.Client, prompt string) []string {
	t.Helper()
	messages := []chat.Message{chat.System("be brief"), chat.User(prompt)}
	var said []string
	for range 10 {
		resp, err := client.Complete(t.Context(), &model.Request{Messages: messages})
		require.NoError(t, err)
		text := resp.Message.Text()
		for _, c := range resp.Message.ToolCalls() {
			text += "[" + c.Name + c.Arguments + "]"
		}
		said = append(said, text)
		messages = append(messages, resp.Message)
		if len(resp.Message.ToolCalls()) == 0 {
			require.Equal(t, "stop", resp.FinishReason)
			return said
		}
		require.Equal(t, "tool_calls", resp.FinishReason)
		for _, c := range resp.Message.ToolCalls() {
			messages = append(messages, chat.Tool(c.ID, "ok"))
		}
	}
	return said
}

var (
	firstVariant  = []string{`[say{"letter":"a"}][say{"letter":"b"}]`, `[say{"letter":"c"}]`, "first"}
	secondVariant = []string{`on it[say{"letter":"z"}]`, "second"}
)

func TestVariantsArePlayedInTurnPerPrompt(t *testing.T) {
	_, client := start(t, parse(t, letters), replay.Options{})
	for round := range 3 {
		require.Equal(t, firstVariant, play(t, client, "letters please"), "round %d", round)
		require.Equal(t, secondVariant, play(t, client, "letters please"), "round %d", round)
	}
	require.Equal(t, firstVariant, play(t, client, "other letters"), "another prompt counts for itself")
	require.Equal(t, []string{"p0"}, play(t, client, "plain\n"))
	require.Equal(t, []string{"p1"}, play(t, client, "plain"))
}

func TestInterleavedConversationsKeepTheirVariants(t *testing.T) {
	_, client := start(t, parse(t, letters), replay.Options{})
	var mu sync.Mutex
	ends := make(map[string]int)
	var wg sync.WaitGroup
	for range 40 {
		wg.Go(func() {
			said := play(t, client, "letters please")
			mu.Lock()
			defer mu.Unlock()
			ends[fmt.Sprint(said)]++
		})
	}
	wg.Wait()
	require.Equal(t, map[string]int{fmt.Sprint(firstVariant): 20, fmt.Sprint(secondVariant): 20}, ends)
}

func TestAConversationWithoutCallsGoesOnInItsVariant(t *testing.T) {
	_, client := start(t, parse(t, letters), replay.Options{})
	for _, want := range []string{"p0", "p1"} {
		first, err := client.Complete(t.Context(), &model.Request{Messages: []chat.Message{chat.User("plain")}})
		require.NoError(t, err)
		require.Equal(t, want, first.Message.Text())
		next, err := client.Complete(t.Context(), &model.Request{Messages: []chat.Message{chat.User("plain"), first.Message, chat.User("go on")}})
		require.NoError(t, err)
		require.Equal(t, want+"-more", next.Message.Text())
	}
}

func TestAnAnswerCarriesIDsReasoningAndEstimatedUsage(t *testing.T) {
	_, client := start(t, parse(t, letters), replay.Options{})
	play(t, client, "letters")
	resp, err := client.Complete(t.Context(), &model.Request{Messages: []chat.Message{chat.User("letters")}})
	require.NoError(t, err)
	require.Equal(t, "replay-1-1-0-0", resp.Message.ToolCalls()[0].ID)
	require.Equal(t, "hm", resp.Message.NativeReasoning())
	require.Equal(t, "replay-1-1-0", resp.ID)
	require.Equal(t, "replay", resp.Model)
	require.EqualValues(t, (len(`[{"role":"user","content":"letters"}]`)+3)/4, resp.Usage.PromptTokens)
	require.Positive(t, resp.Usage.CompletionTokens)
	require.Equal(t, resp.Usage.PromptTokens+resp.Usage.CompletionTokens, resp.Usage.TotalTokens)
}

func TestWhatTheScriptLacksIsAnErrorThatRetriesDoNotRepeat(t *testing.T) {
	_, client := start(t, parse(t, letters), replay.Options{})
	for name, test := range map[string]struct {
		messages []chat.Message
		says     string
	}{
		"an unknown prompt": {[]chat.Message{chat.User("do something else")}, `no conversation for the prompt "do something else"`},
		"too many turns":    {[]chat.Message{chat.User("letters"), chat.Assistant("a", ""), chat.Assistant("a", ""), chat.Assistant("a", "")}, "has 3 turns and was asked for turn 4"},
		"no user message":   {[]chat.Message{chat.System("x")}, "no user message"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := client.Complete(t.Context(), &model.Request{Messages: test.messages})
			var failure *model.Error
			require.ErrorAs(t, err, &failure)
			require.Equal(t, model.KindBadRequest, failure.Kind)
			require.False(t, failure.Retryable())
			require.False(t, failure.Fatal(), "other prompts may be in the script")
			require.ErrorContains(t, err, test.says)
		})
	}
}

func TestMalformedRequestsAreRefused(t *testing.T) {
	server, _ := start(t, parse(t, letters), replay.Options{})
	for name, test := range map[string]struct {
		method, path, body string
		status             int
	}{
		"not JSON":         {"POST", "/chat/completions", "{", 400},
		"no messages":      {"POST", "/chat/completions", "{}", 400},
		"streaming":        {"POST", "/chat/completions", `{"stream":true,"messages":[{"role":"user","content":"letters"}]}`, 400},
		"a wrong method":   {"GET", "/chat/completions", "", 405},
		"an unknown path":  {"POST", "/completions", "{}", 404},
		"the models":       {"GET", "/models", "", 200},
		"odd content kept": {"POST", "/chat/completions", `{"messages":[{"role":"user","content":[{"type":"text","text":"letters"}]}]}`, 200},
	} {
		t.Run(name, func(t *testing.T) {
			req, err := http.NewRequestWithContext(t.Context(), test.method, server.BaseURL()+test.path, strings.NewReader(test.body))
			require.NoError(t, err)
			req.Close = true
			resp, err := http.DefaultClient.Do(req)
			require.NoError(t, err)
			defer func() { require.NoError(t, resp.Body.Close()) }()
			raw, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
			require.Equal(t, test.status, resp.StatusCode, string(raw))
			require.True(t, json.Valid(raw), string(raw))
		})
	}
}

func TestTheProbeAcceptsTheReplayServer(t *testing.T) {
	server, _ := start(t, parse(t, letters), replay.Options{Model: "demo"})
	require.NoError(t, model.Probe(t.Context(), model.Server{BaseURL: server.BaseURL(), Model: "demo"}))
	require.ErrorContains(t, model.Probe(t.Context(), model.Server{BaseURL: server.BaseURL(), Model: "dmo"}), `it offers "demo"`)
}

func TestLatencyAndDelayAddUpAndEndWithTheServer(t *testing.T) {
	script := parse(t, "conversations: [{match: {regexp: .}, turns: [{content: x, delay: 30ms}, {content: y, delay: 1h}]}]")
	server, client := start(t, script, replay.Options{Latency: 30 * time.Millisecond})
	began := time.Now()
	first, err := client.Complete(t.Context(), &model.Request{Messages: []chat.Message{chat.User("a")}})
	require.NoError(t, err)
	require.GreaterOrEqual(t, time.Since(began), 60*time.Millisecond)

	failed := make(chan error, 1)
	go func() {
		_, err := client.Complete(t.Context(), &model.Request{Messages: []chat.Message{chat.User("a"), first.Message}})
		failed <- err
	}()
	time.Sleep(20 * time.Millisecond)
	require.NoError(t, server.Close())
	require.Equal(t, model.KindNetwork, model.KindOf(<-failed))
}

func TestTheServerEndsWithItsContextAndStartsOnce(t *testing.T) {
	server, err := replay.New(parse(t, letters), replay.Options{})
	require.NoError(t, err)
	require.Empty(t, server.BaseURL())
	require.NoError(t, server.Close(), "closing what never started")
	ctx, cancel := context.WithCancel(t.Context())
	require.NoError(t, server.Start(ctx))
	require.ErrorContains(t, server.Start(ctx), "started before")
	cancel()
	require.NoError(t, server.Close())
	require.NoError(t, server.Close())
	_, err = replay.New(&replay.Script{}, replay.Options{})
	require.ErrorContains(t, err, "no conversations")
	_, err = replay.New(parse(t, letters), replay.Options{Latency: -1})
	require.ErrorContains(t, err, "negative")
}

func TestRecordedRolloutsArePlayedAgain(t *testing.T) {
	_, client := start(t, parse(t, letters), replay.Options{})
	var lines strings.Builder
	for range 2 { // both variants of one prompt
		messages := []chat.Message{chat.System("s"), chat.User("letters\n")}
		for {
			resp, err := client.Complete(t.Context(), &model.Request{Messages: messages})
			require.NoError(t, err)
			messages = append(messages, resp.Message)
			if len(resp.Message.ToolCalls()) == 0 {
				break
			}
			for _, c := range resp.Message.ToolCalls() {
				messages = append(messages, chat.Tool(c.ID, "ok"))
			}
		}
		line, err := chat.Marshal(struct {
			ItemID   string         `json:"item_id"`
			Messages []chat.Message `json:"messages"`
		}{"x", messages})
		require.NoError(t, err)
		lines.Write(append(line, '\n'))
	}
	lines.WriteString("\n" + `{"item_id":"failed early","messages":[{"role":"user","content":"letters"}]}` + "\n")
	lines.WriteString(`{"item_id":"torn","messages":[{"ro`)

	script, err := replay.FromRollouts(iotest.OneByteReader(strings.NewReader(lines.String())))
	require.NoError(t, err)
	require.Len(t, script.Conversations, 1)
	_, again := start(t, script, replay.Options{})
	require.Equal(t, firstVariant, play(t, again, "letters"))
	require.Equal(t, secondVariant, play(t, again, "letters"))
}

func TestUnusableRecordingsAreErrorsThatNameTheLine(t *testing.T) {
	good := `{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"}]}` + "\n"
	for name, test := range map[string]struct {
		text, says string
	}{
		"an empty file":           {"", "no line holds a conversation"},
		"a broken line":           {good + "{\n" + good, "line 2: not valid JSON"},
		"no messages":             {good + "{}\n", `line 2: want an object with a list "messages"`},
		"a message without role":  {`{"messages":[{"content":"a"}]}` + "\n", "line 1: decode chat message"},
		"an answer to no prompt":  {`{"messages":[{"role":"assistant","content":"b"}]}` + "\n", "line 1: the conversation has no user message"},
		"something else entirely": {"[1]\n", "line 1: want an object"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := replay.FromRollouts(strings.NewReader(test.text))
			require.ErrorContains(t, err, test.says)
		})
	}
	broken := errors.New("disk on fire")
	_, err := replay.FromRollouts(iotest.ErrReader(broken))
	require.ErrorIs(t, err, broken)
}

func FuzzAnyRequestGetsAJSONAnswer(f *testing.F) {
	f.Add([]byte(`{"model":"m","messages":[{"role":"user","content":"letters"}]}`))
	f.Add([]byte(`{"messages":[{"role":"user","content":"letters"},{"role":"assistant","tool_calls":[{"id":"replay-1-1-0-0"}]}]}`))
	f.Add([]byte(`{"messages":[{"role":"user","content":"letters"},{"role":"assistant","tool_calls":[{"id":"replay-9-99999999999999999999-0-0"}]}]}`))
	f.Add([]byte(`{"messages":[{"role":"user"},{"role":"assistant","tool_calls":"x"}]}`))
	script, err := replay.Parse("test", []byte(letters))
	require.NoError(f, err)
	server, err := replay.New(script, replay.Options{})
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, body []byte) {
		w := &response{header: make(http.Header)}
		req, err := http.NewRequest(http.MethodPost, "/v1/chat/completions", strings.NewReader(string(body)))
		require.NoError(t, err)
		server.ServeHTTP(w, req)
		require.True(t, json.Valid(w.body), string(w.body))
		require.Contains(t, []int{200, 400, 422}, w.status)
	})
}

type response struct {
	header http.Header
	status int
	body   []byte
}

func (r *response) Header() http.Header         { return r.header }
func (r *response) WriteHeader(status int)      { r.status = status }
func (r *response) Write(p []byte) (int, error) { r.body = append(r.body, p...); return len(p), nil }
