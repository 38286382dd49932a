package replay_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"github.com/hermes-env/hermes-env/agentloop/chat"
	"github.com/hermes-env/hermes-env/agentloop/model"
	"github.com/hermes-env/hermes-env/agentloop/model/replay"
	"github.com/hermes-env/hermes-env/agentloop/model/tokens"
	"github.com/hermes-env/hermes-env/parsers"
)

// session opens a token-exact session with a replay server.
func session(t *testing.T, server *replay.Server) *tokens.Session {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, replay.WriteFolder(dir))
	local, err := tokens.Open(dir, "")
	require.NoError(t, err)
	client, err := model.NewGenerate(model.Server{BaseURL: server.BaseURL(), Model: "replay"})
	require.NoError(t, err)
	t.Cleanup(client.CloseIdleConnections)
	parser, err := parsers.Lookup("hermes")
	require.NoError(t, err)
	s, err := tokens.New(tokens.Config{Client: client, Renderer: local, Parser: parser})
	require.NoError(t, err)
	return s
}

// talk plays a conversation to its end and returns the answers.
func talk(t *testing.T, s *tokens.Session, messages ...chat.Message) (answers []chat.Message) {
	t.Helper()
	tools, err := chat.NewToolset(chat.ToolDefinition{Name: "say", Description: "says", Parameters: json.RawMessage(`{"type":"object"}`)})
	require.NoError(t, err)
	for {
		response, err := s.Complete(t.Context(), &model.Request{Messages: messages, Tools: tools})
		require.NoError(t, err)
		answers = append(answers, response.Message)
		messages = append(messages, response.Message)
		calls := response.Message.ToolCalls()
		if len(calls) == 0 {
			return answers
		}
		for _, call := range calls {
			messages = append(messages, chat.Tool(call.ID, "you said "+call.Arguments))
		}
	}
}

func TestAConversationInTokensIsOneSequenceOfWhatWasPlayed(t *testing.T) {
	server, _ := start(t, parse(t, letters), replay.Options{})
	for i, want := range []string{"first", "second", "first"} {
		s := session(t, server)
		answers := talk(t, s, chat.System("be brief"), chat.User("say letters — ä"))
		require.Equal(t, want, answers[len(answers)-1].Text())
		if i == 1 {
			require.Equal(t, "hm\n\non it", answers[0].Text(), "what the script has as reasoning is said aloud")
		}
		require.NoError(t, s.Trainable())
		sequences := s.Sequences()
		require.Len(t, sequences, 1, "nothing forks")
		text, sampled := decode(sequences[0].Tokens), 0
		require.Contains(t, text, "<|im_start|>system\nbe brief<|im_end|>\n<|im_start|>user\nsay letters — ä<|im_end|>\n<|im_start|>assistant\n")
		require.True(t, strings.HasSuffix(text, want+"<|im_end|>"), text)
		for at, mask := range sequences[0].Masks {
			if mask == model.Masked {
				require.InDelta(t, 1, sequences[0].Logprobs[at], 0)
				continue
			}
			sampled++
			require.InDelta(t, 0, sequences[0].Logprobs[at], 0, "a replay is certain")
		}
		require.Positive(t, sampled)
		for _, turn := range sequences[0].Turns {
			require.False(t, turn.Drift, "the script is written as the template writes it")
		}
		require.NoError(t, s.Close())
	}
}

func decode(ids []int) string {
	var b strings.Builder
	for _, id := range ids {
		switch id {
		case 256:
			b.WriteString("<|im_start|>")
		case 257:
			b.WriteString("<|im_end|>")
		default:
			b.WriteByte(byte(id))
		}
	}
	return b.String()
}

func TestAConversationWithoutCallsKeepsItsVariantInTokensToo(t *testing.T) {
	server, _ := start(t, parse(t, letters), replay.Options{})
	for _, want := range []string{"p0", "p1"} {
		s := session(t, server)
		first, err := s.Complete(t.Context(), &model.Request{Messages: []chat.Message{chat.User("plain")}})
		require.NoError(t, err)
		require.Equal(t, want, first.Message.Text())
		second, err := s.Complete(t.Context(), &model.Request{Messages: []chat.Message{chat.User("plain"), first.Message, chat.User("more")}})
		require.NoError(t, err)
		require.Equal(t, want+"-more", second.Message.Text())
		require.NoError(t, s.Close())
	}
}

// ids are those of a text with special tokens.
func ids(text string) []int {
	var list []int
	for text != "" {
		switch {
		case strings.HasPrefix(text, "<|im_start|>"):
			list, text = append(list, 256), text[len("<|im_start|>"):]
		case strings.HasPrefix(text, "<|im_end|>"):
			list, text = append(list, 257), text[len("<|im_end|>"):]
		default:
			list, text = append(list, int(text[0])), text[1:]
		}
	}
	return list
}

func generateBody(t *testing.T, text string, more string) string {
	t.Helper()
	prompt, err := json.Marshal(ids(text))
	require.NoError(t, err)
	return fmt.Sprintf(`{"prompt":{"prompt_token_ids":%s}%s}`, prompt, more)
}

func TestTokenRequestsAreAnsweredOrRefusedWithAReason(t *testing.T) {
	script := `
conversations:
  - match: {text: plain}
    variants: [{turns: [{content: grüße}]}]
  - match: {text: broken}
    variants: [{turns: [{content: so, calls: [{name: say, arguments: '{"letter": "a'}]}]}]
`
	server, _ := start(t, parse(t, script), replay.Options{})
	root := strings.TrimSuffix(server.BaseURL(), "/v1")
	for name, c := range map[string]struct {
		body   string
		status int
		path   string
		want   string
	}{
		"an answer":               {generateBody(t, "<|im_start|>user\nplain<|im_end|>\n<|im_start|>assistant\n", ""), 200, "text.0", "grüße"},
		"its end":                 {generateBody(t, "<|im_start|>user\nplain<|im_end|>\n<|im_start|>assistant\n", ""), 200, "finish_reasons.0", "stop"},
		"its last id":             {generateBody(t, "<|im_start|>user\nplain<|im_end|>\n<|im_start|>assistant\n", ""), 200, "token_ids.0.7", "257"},
		"its last log-probabilty": {generateBody(t, "<|im_start|>user\nplain<|im_end|>\n<|im_start|>assistant\n", ""), 200, "logprobs.0.7.0.257", "0.0"},
		"a limit":                 {generateBody(t, "<|im_start|>user\nplain<|im_end|>\n<|im_start|>assistant\n", `,"max_tokens":3`), 200, "finish_reasons.0", "length"},
		"a limit within a letter": {generateBody(t, "<|im_start|>user\nplain<|im_end|>\n<|im_start|>assistant\n", `,"max_tokens":3`), 200, "text.0", "gr\uFFFD"},
		"as many as asked for":    {generateBody(t, "<|im_start|>user\nplain<|im_end|>\n<|im_start|>assistant\n", `,"max_tokens":3`), 200, "token_ids.0.#", "3"},
		"broken arguments":        {generateBody(t, "<|im_start|>user\nbroken<|im_end|>\n<|im_start|>assistant\n", ""), 200, "text.0", "so\n<tool_call>\n{\"name\": \"say\", \"arguments\": {\"letter\": \"a}\n</tool_call>"},
		"no JSON":                 {`{`, 400, "error.message", "the body is not valid JSON"},
		"no ids":                  {`{"prompt":"plain"}`, 400, "error.message", `"prompt" holds no "prompt_token_ids"`},
		"an id of nobody":         {`{"prompt":{"prompt_token_ids":[258]}}`, 400, "error.message", "the replay model has no token 258"},
		"no id":                   {`{"prompt":{"prompt_token_ids":["a"]}}`, 400, "error.message", `the replay model has no token "a"`},
		"no message":              {generateBody(t, "plain", ""), 400, "error.message", "the prompt holds no message of a user in the chat template of the replay model"},
		"no such conversation":    {generateBody(t, "<|im_start|>user\nother<|im_end|>\n<|im_start|>assistant\n", ""), 422, "error.code", "no_matching_conversation"},
		"more than the script":    {generateBody(t, "<|im_start|>user\nplain<|im_end|>\n<|im_start|>assistant\nx<|im_end|>\n<|im_start|>assistant\n", ""), 422, "error.code", "script_ended"},
	} {
		t.Run(name, func(t *testing.T) {
			resp, err := http.Post(root+"/generate", "application/json", strings.NewReader(c.body))
			require.NoError(t, err)
			defer http.DefaultClient.CloseIdleConnections()
			defer resp.Body.Close()
			body, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
			require.Equal(t, c.status, resp.StatusCode, string(body))
			got := gjson.GetBytes(body, c.path)
			text := got.String()
			if got.Type == gjson.Number {
				text = got.Raw
			}
			require.Equal(t, c.want, text, string(body))
		})
	}
}

func FuzzAnyTokenRequestGetsAJSONAnswer(f *testing.F) {
	script, err := replay.Parse("fuzz", []byte(letters))
	require.NoError(f, err)
	server, err := replay.New(script, replay.Options{})
	require.NoError(f, err)
	f.Add(`{"prompt":{"prompt_token_ids":[256,117,115,101,114,10,112,108,97,105,110,257]}}`)
	f.Add(`{"prompt":{"prompt_token_ids":[256,256,257,1.5]},"max_tokens":-1}`)
	f.Add(`{"prompt":{"prompt_token_ids":[]}}`)
	f.Fuzz(func(t *testing.T, body string) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "/generate", strings.NewReader(body))
		require.NoError(t, err)
		w := &response{header: http.Header{}}
		server.ServeHTTP(w, r)
		require.True(t, json.Valid(w.body), "%s", w.body)
		require.NotZero(t, w.status)
	})
}
