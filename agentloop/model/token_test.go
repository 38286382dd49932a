package model_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"github.com/hermes-env/hermes-env/agentloop/chat"
	"github.com/hermes-env/hermes-env/agentloop/model"
	"github.com/hermes-env/hermes-env/agentloop/model/modeltest"
)

// tokenClients makes a client of every kind that takes token ids.
var tokenClients = map[string]func(model.Server) (model.Client, error){
	"vllm":     func(s model.Server) (model.Client, error) { return model.NewVLLM(s) },
	"sglang":   func(s model.Server) (model.Client, error) { return model.NewSGLang(s) },
	"generate": func(s model.Server) (model.Client, error) { return model.NewGenerate(s) },
}

var apis = map[string]modeltest.API{"vllm": modeltest.VLLM, "sglang": modeltest.SGLang, "generate": modeltest.Generate}

func tokenServer(t testing.TB, kind string, script modeltest.TokenScript) (*modeltest.TokenServer, model.Client) {
	dir := t.TempDir()
	require.NoError(t, modeltest.WriteFolder(dir, modeltest.ChatML))
	server := modeltest.NewTokenServer(t, modeltest.TokenConfig{API: apis[kind], Dir: dir, Script: script, Key: "sk-secret"})
	client, err := tokenClients[kind](model.Server{BaseURL: server.URL, Model: "mock", APIKey: "sk-secret"})
	require.NoError(t, err)
	return server, client
}

func TestTokenServersReportWhatTheySampled(t *testing.T) {
	for kind := range tokenClients {
		t.Run(kind, func(t *testing.T) {
			server, client := tokenServer(t, kind, modeltest.SampleInOrder(modeltest.SampleIDs(10, 20, 30)))
			temperature := 0.5
			resp, err := client.Complete(t.Context(), &model.Request{
				Prompt: []int{1, 2, 3}, Temperature: &temperature, MaxTokens: 7, Stop: []string{"END"}, StopTokens: []int{42},
				Extra: chat.Object{{Key: "top_k", Value: json.RawMessage("5")}, {Key: "tool_choice", Value: json.RawMessage(`"none"`)}, {Key: "skip_special_tokens", Value: json.RawMessage("true")}},
			})
			require.NoError(t, err)
			require.True(t, resp.Message.IsZero())
			require.Equal(t, "stop", resp.FinishReason)
			require.Equal(t, server.URL, resp.Server, "the name by which a pool knows the server")
			c := resp.Capture
			require.Equal(t, []int{10, 20, 30}, c.Tokens[:3])
			require.Len(t, c.Tokens, 4, "the token that ended the answer is one of them")
			for i, p := range c.Logprobs {
				require.Equal(t, modeltest.LogprobOf(c.Tokens[i], 3+i), p)
			}
			require.EqualValues(t, 3, resp.Usage.PromptTokens)
			require.EqualValues(t, 4, resp.Usage.CompletionTokens)
			if kind != "sglang" {
				require.Equal(t, []int{1, 2, 3}, c.Prompt)
			} else {
				require.Equal(t, "default", c.WeightVersion)
				require.Equal(t, c.Tokens[3], c.StopToken)
			}
			body := server.Requests()[0].Body
			require.True(t, gjson.ValidBytes(body))
			text := string(body)
			require.NotContains(t, text, "tool_choice")
			sampling := gjson.ParseBytes(body)
			limit := "max_tokens"
			if kind == "sglang" {
				sampling, limit = sampling.Get("sampling_params"), "max_new_tokens"
			}
			require.Equal(t, 0.5, sampling.Get("temperature").Num)
			require.Equal(t, 7.0, sampling.Get(limit).Num)
			require.Equal(t, 5.0, sampling.Get("top_k").Num)
			require.Equal(t, `["END"]`, sampling.Get("stop").Raw)
			require.Equal(t, `[42]`, sampling.Get("stop_token_ids").Raw)
		})
	}
}

func TestTokenClientsShowNoKeys(t *testing.T) {
	for kind := range tokenClients {
		_, client := tokenServer(t, kind, nil)
		for _, shown := range []string{fmt.Sprintf("%v", client), fmt.Sprintf("%#v", client), fmt.Sprintf("%+v", client)} {
			require.NotContains(t, shown, "sk-secret")
		}
	}
}

func TestRequestsThatCanNotBeMeantAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		extra chat.Object
		want  string
	}{
		"ids of its own":   {chat.Object{{Key: "prompt", Value: json.RawMessage("[1]")}, {Key: "input_ids", Value: json.RawMessage("[1]")}}, "must not replace"},
		"a stream":         {chat.Object{{Key: "stream", Value: json.RawMessage("true")}}, "stream"},
		"several answers":  {chat.Object{{Key: "n", Value: json.RawMessage("2")}}, `"n"`},
		"what is no JSON":  {chat.Object{{Key: "top_k", Value: json.RawMessage("{")}}, "not valid JSON"},
		"no prompt at all": {nil, "no token ids"},
	} {
		for kind := range tokenClients {
			t.Run(name+", "+kind, func(t *testing.T) {
				server, client := tokenServer(t, kind, nil)
				req := &model.Request{Prompt: []int{1}, Extra: c.extra}
				if c.extra == nil {
					req.Prompt = []int{}
				}
				_, err := client.Complete(t.Context(), req)
				require.Equal(t, model.KindBadRequest, model.KindOf(err))
				require.ErrorContains(t, err, c.want)
				require.Empty(t, server.Requests())
			})
		}
	}
}

func TestFailuresOfTokenServersHaveAKind(t *testing.T) {
	for name, c := range map[string]struct {
		reply modeltest.TokenReply
		kind  model.Kind
	}{
		"overloaded":           {modeltest.Fails(modeltest.Status(503)), model.KindOverloaded},
		"reset":                {modeltest.Fails(modeltest.Reset()), model.KindNetwork},
		"half an answer":       {modeltest.Fails(modeltest.Raw(200, "application/json", `{"text":"abc"`)), model.KindInvalidResponse},
		"a foreign shape":      {modeltest.Fails(modeltest.Raw(200, "application/json", `{"object":"list"}`)), model.KindInvalidResponse},
		"a list":               {modeltest.Fails(modeltest.Raw(200, "application/json", `[1,2]`)), model.KindInvalidResponse},
		"nothing":              {modeltest.Fails(modeltest.Raw(200, "application/json", ``)), model.KindEmptyResponse},
		"an error in disguise": {modeltest.Fails(modeltest.Raw(200, "application/json", `{"error":{"message":"CUDA out of memory"}}`)), model.KindServerError},
		"broken off":           {modeltest.Sample("a b c").Aborted(), model.KindServerError},
	} {
		for kind := range tokenClients {
			t.Run(name+", "+kind, func(t *testing.T) {
				_, client := tokenServer(t, kind, modeltest.SampleInOrder(c.reply))
				_, err := client.Complete(t.Context(), &model.Request{Prompt: []int{1, 2}})
				require.Equal(t, c.kind, model.KindOf(err), "%v", err)
				if name == "broken off" {
					require.ErrorContains(t, err, "broke off")
				}
			})
		}
	}
}

func TestTheTokenEndpointsOfAServerAreFound(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, modeltest.WriteFolder(dir, modeltest.ChatML))
	for name, c := range map[string]struct {
		api     modeltest.API
		without []string
		want    model.Offers
	}{
		"vllm":                   {modeltest.VLLM, nil, model.Offers{Completions: true, Tokenize: true}},
		"vllm without /tokenize": {modeltest.VLLM, []string{"/tokenize"}, model.Offers{Completions: true}},
		"generate":               {modeltest.Generate, nil, model.Offers{Generate: true}},
	} {
		t.Run(name, func(t *testing.T) {
			server := modeltest.NewTokenServer(t, modeltest.TokenConfig{API: c.api, Dir: dir, Without: c.without})
			offers, err := model.ProbeTokens(t.Context(), model.Server{BaseURL: server.URL, Model: "mock"})
			require.NoError(t, err)
			require.Equal(t, c.want, offers)
			require.Zero(t, server.RequestCount(), "nothing was generated")
		})
	}
	_, err := model.ProbeTokens(t.Context(), model.Server{BaseURL: modeltest.RefusedURL(t), Model: "mock"})
	require.Equal(t, model.KindNetwork, model.KindOf(err))
}

func TestATokenizerOnTheServerAsksTheNextOneWhenOneFails(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, modeltest.WriteFolder(dir, modeltest.ChatML))
	server := modeltest.NewTokenServer(t, modeltest.TokenConfig{API: modeltest.VLLM, Dir: dir})
	remote, err := model.NewServerTokenizer([]model.Server{{BaseURL: modeltest.RefusedURL(t), Model: "mock"}, {BaseURL: server.URL, Model: "mock"}}, model.RetryPolicy{MaxAttempts: 1})
	require.NoError(t, err)
	t.Cleanup(remote.CloseIdleConnections)
	ids, err := remote.Encode(t.Context(), "Grüße <|im_end|>")
	require.NoError(t, err)
	text, err := remote.Decode(t.Context(), ids)
	require.NoError(t, err)
	require.Equal(t, "Grüße <|im_end|>", text)
	rendered, err := remote.Render(t.Context(), &model.Request{Messages: []chat.Message{chat.User("Hi")}})
	require.NoError(t, err)
	text, err = remote.Decode(t.Context(), rendered)
	require.NoError(t, err)
	require.Equal(t, "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n", text)
	_, err = remote.Render(t.Context(), &model.Request{})
	require.ErrorContains(t, err, "no messages")
}

// vLLM's chat endpoint takes reasoning_content for reasoning, but not in all versions. Its
// /tokenize takes it in none.
func TestVLLM_SendsReasoningInTheFieldItReads(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, modeltest.WriteFolder(dir, `{% for m in messages %}[{{ m.reasoning_content }}]{% endfor %}`))
	server := modeltest.NewTokenServer(t, modeltest.TokenConfig{API: modeltest.VLLM, Dir: dir})
	remote, err := model.NewServerTokenizer([]model.Server{{BaseURL: server.URL, Model: "mock"}}, model.RetryPolicy{MaxAttempts: 1})
	require.NoError(t, err)
	t.Cleanup(remote.CloseIdleConnections)
	messages := []chat.Message{chat.User("Hi"), chat.Assistant("Yes", "a \"thought\" é")}
	for _, raw := range []string{
		`{"role":"assistant","content":"x","reasoning_content":"old","reasoning":"new"}`, `{"role":"assistant","content":"x","reasoning":null,"reasoning_content":"c"}`,
		`{"role":"assistant","content":"x","reasoning_content":null}`, `{"role":"user","content":"x","reasoning_content":"not an answer"}`,
	} {
		m, err := chat.Decode([]byte(raw))
		require.NoError(t, err)
		messages = append(messages, m)
	}
	before := make([]string, len(messages))
	for i, m := range messages {
		before[i] = string(m.JSON())
	}
	ids, err := remote.Render(t.Context(), &model.Request{Messages: messages})
	require.NoError(t, err)
	text, err := remote.Decode(t.Context(), ids)
	require.NoError(t, err)
	require.Equal(t, `[][a "thought" é][new][c][][]`, text)
	for i, m := range messages {
		require.Equal(t, before[i], string(m.JSON()), "messages stay as they are")
	}

	client, err := model.NewVLLM(model.Server{BaseURL: server.URL, Model: "mock"})
	require.NoError(t, err)
	t.Cleanup(client.CloseIdleConnections)
	_, err = client.Complete(t.Context(), &model.Request{Messages: messages[:2]})
	require.NoError(t, err)
	sent := server.Requests()
	body := gjson.ParseBytes(sent[len(sent)-1].Body)
	require.Equal(t, `a "thought" é`, body.Get("messages.1.reasoning").String())
	require.Equal(t, `a "thought" é`, body.Get("messages.1.reasoning_content").String())
	require.False(t, body.Get("messages.0.reasoning").Exists())
}

// FuzzTokenAnswers feeds bodies to the clients: whatever comes, the lists of a capture
// are what the body says or missing.
func FuzzTokenAnswers(f *testing.F) {
	for _, seed := range []string{
		`{"id":"x","choices":[{"index":0,"text":"a","logprobs":{"tokens":["token_id:5"],"token_logprobs":[-0.5]},"finish_reason":"stop","stop_reason":null,"token_ids":[5],"prompt_token_ids":[1,2]}],"usage":{"prompt_tokens":2,"completion_tokens":1}}`,
		`{"text":"a","output_ids":[5],"meta_info":{"finish_reason":{"type":"stop","matched":5},"prompt_tokens":2,"completion_tokens":1,"weight_version":"v","output_token_logprobs":[[-0.5,5,null]]}}`,
		`{"text":["a"],"finish_reasons":["length"],"logprobs":[[[{"5":-0.5}]]],"prompt_token_ids":[1,2],"token_ids":[[5]]}`,
		`[{"meta_info":{"finish_reason":"stop","output_token_logprobs":[[1]]}}]`, `{"meta_info":{"finish_reason":{"type":"abort","message":"x"}}}`,
		`{"choices":[{"finish_reason":"stop","token_ids":[1,-2,3.5,1e99]}]}`, `{"finish_reasons":["stop"],"logprobs":[[[]]]}`, `{`, ``, `{"error":"x"}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		transport := roundTripper(func(r *http.Request) (*http.Response, error) {
			recorder := httptest.NewRecorder()
			_, _ = recorder.Write(body)
			return recorder.Result(), nil
		})
		for kind, connect := range tokenClients {
			client, err := connect(model.Server{BaseURL: "http://h/v1", Model: "m", Transport: transport})
			require.NoError(t, err)
			resp, err := client.Complete(t.Context(), &model.Request{Prompt: []int{1, 2}})
			if err != nil {
				require.NotEmpty(t, model.KindOf(err), "%s: %v", kind, err)
				continue
			}
			require.NotEmpty(t, resp.FinishReason)
			require.NotNil(t, resp.Capture)
			for _, id := range append(resp.Capture.Tokens, resp.Capture.Prompt...) {
				require.GreaterOrEqual(t, id, 0)
			}
		}
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
