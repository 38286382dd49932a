package modeltest_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"github.com/hermes-env/hermes-env/agentloop/model/modeltest"
)

func exchange(t *testing.T, method, url, body string) (int, gjson.Result) {
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	require.NoError(t, err)
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, gjson.ParseBytes(raw)
}

func TestTokenServersHaveTheEndpointsOfTheServersTheyStandFor(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, modeltest.WriteFolder(dir, modeltest.ChatML))
	vllm := modeltest.NewTokenServer(t, modeltest.TokenConfig{API: modeltest.VLLM, Dir: dir, Script: modeltest.SampleInOrder(modeltest.Sample("Hello")), MaxModelLen: 60})
	sglang := modeltest.NewTokenServer(t, modeltest.TokenConfig{API: modeltest.SGLang, Dir: dir})

	for _, c := range []struct {
		url, body string
		status    int
		path      string // in the answer
		want      string // as JSON
	}{
		{vllm.Root + "/health", "", 200, "@this", ""},
		{vllm.Root + "/version", "", 200, "version", `"0.0.0-mock"`},
		{vllm.URL + "/models", "", 200, "data.0.max_model_len", "60"},
		{vllm.Root + "/tokenize", `{"model":"m","prompt":"Hello","add_special_tokens":false}`, 200, "count", "1"},
		{vllm.Root + "/tokenize", `{"model":"m"}`, 400, "error.type", `"BadRequestError"`},
		{vllm.Root + "/detokenize", `{"model":"m","tokens":"x"}`, 400, "error.code", "400"},
		{vllm.URL + "/completions", `{"model":"m","prompt":"Hello","max_tokens":5}`, 200, "choices.0.text", `"Hello"`},
		{vllm.URL + "/completions", `{"model":"m","prompt":"Hello","max_tokens":5}`, 200, "choices.0.token_ids", "null"},
		{vllm.URL + "/completions", `{"model":"m","prompt":"Hello","max_tokens":1,"return_token_ids":true}`, 200, "choices.0.finish_reason", `"length"`},
		{vllm.URL + "/completions", `{"model":"m","prompt":"Hello","max_tokens":500}`, 400, "error.type", `"BadRequestError"`},
		{vllm.URL + "/chat/completions", `{"model":"m","messages":[{"role":"user","content":"Hi"}],"return_token_ids":true}`, 200, "choices.0.message.content", `"Hello"`},
		{vllm.URL + "/chat/completions", `{"model":"m","messages":[]}`, 400, "error.code", "400"},
		{vllm.Root + "/generate", `{}`, 404, "detail", `"Not Found"`},
		{vllm.URL + "/completions", `{`, 422, "detail.0.type", `"json_invalid"`},
		{sglang.Root + "/get_model_info", "", 200, "weight_version", `"default"`},
		{sglang.Root + "/update_weight_version", `{"new_version":"step-7"}`, 200, "success", "true"},
		{sglang.Root + "/get_weight_version", "", 200, "weight_version", `"step-7"`},
		{sglang.Root + "/generate", `{"text":"Hello","sampling_params":{"max_new_tokens":9},"return_logprob":true}`, 200, "meta_info.weight_version", `"step-7"`},
		{sglang.Root + "/generate", `{"text":"Hello"}`, 200, "meta_info.finish_reason.type", `"stop"`},
		{sglang.Root + "/generate", `{}`, 400, "error.message", `"Either text, input_ids or input_embeds should be provided."`},
		{sglang.URL + "/completions", `{}`, 404, "detail", `"Not Found"`},
	} {
		method := http.MethodPost
		if c.body == "" {
			method = http.MethodGet
		}
		status, answer := exchange(t, method, c.url, c.body)
		require.Equal(t, c.status, status, "%s %s", c.url, c.body)
		if c.want != "" {
			require.Equal(t, c.want, answer.Get(c.path).Raw, "%s %s: %s", c.url, c.body, answer.Raw)
		}
	}
}

func TestEveryByteHasACharacterOfItsOwn(t *testing.T) {
	s := modeltest.ByteCharacters()
	seen := map[string]bool{}
	for _, c := range s {
		require.False(t, seen[c], "two bytes share a character")
		seen[c] = true
	}
	require.Equal(t, "A", s['A'])
	require.Equal(t, "Ġ", s[' '])
}
