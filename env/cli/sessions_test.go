package cli_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"github.com/hermes-env/hermes-env/agentloop/model"
	"github.com/hermes-env/hermes-env/agentloop/model/modeltest"
	"github.com/hermes-env/hermes-env/agentloop/tokenizer"
	"github.com/hermes-env/hermes-env/env/cli"
	"github.com/hermes-env/hermes-env/env/dataset/hub/hubtest"
	"github.com/hermes-env/hermes-env/internal/slowtest"
)

const training = `
environment: terminal-test
env: {group_size: 2, total_steps: 1, max_token_length: 200, data_path_to_save_groups: groups.jsonl}
`

// acting writes the file of the first task, but only in every second rollout, and then
// says so.
func acting(r *modeltest.TokenRequest) modeltest.TokenReply {
	switch {
	case strings.Contains(r.Text(), "<tool_response>"):
		return modeltest.Sample("Done.")
	case r.Number%2 == 0:
		return modeltest.Sample("<tool_call>\n{\"name\": \"terminal\", \"arguments\": {\"command\": \"echo Hello from the sandbox > ~/greeting.txt; printf '1\\n2\\n3\\n4\\n5\\n' > ~/count.txt; echo 579 > ~/sum.txt\"}}\n</tool_call>")
	}
	return modeltest.Sample("I would rather not.")
}

func modelFolder(t testing.TB) string {
	dir := t.TempDir()
	require.NoError(t, modeltest.WriteFolder(dir, modeltest.ChatML))
	return dir
}

func TestTrainingDataHoldsTheTokensThatWereSampled(t *testing.T) {
	slowtest.Require(t)
	for name, c := range map[string]struct {
		api     modeltest.API
		kind    string
		without []string
		named   bool // the tokenizer is named
	}{
		"vllm, which renders by itself":            {api: modeltest.VLLM, kind: "vllm"},
		"vllm without /tokenize":                   {api: modeltest.VLLM, kind: "vllm", without: []string{"/tokenize"}, named: true},
		"vllm with chat completions only":          {api: modeltest.VLLM, kind: "vllm", without: []string{"/tokenize", "/v1/completions"}},
		"vllm that is a /generate of the original": {api: modeltest.Generate, kind: "vllm", named: true},
		"sglang":   {api: modeltest.SGLang, kind: "sglang", named: true},
		"generate": {api: modeltest.Generate, kind: "generate", named: true},
	} {
		t.Run(name, func(t *testing.T) {
			dir := modelFolder(t)
			p := newProgram(t)
			p.write("train.yaml", training)
			server := modeltest.NewTokenServer(t, modeltest.TokenConfig{API: c.api, Dir: dir, Script: acting, Without: c.without})
			args := []string{"process", "--config", "train.yaml", "--run-dir", "out", "--openai.base_url", server.URL, "--openai.model_name", "mock", "--openai.server_type", c.kind, "--env.max_num_workers", "1"}
			if c.named {
				args = append(args, "--openai.tokenizer_name", dir)
			}
			code, _, stderr := p.run(args...)
			require.Equal(t, cli.ExitOK, code, stderr)
			tok, err := tokenizer.Load(dir)
			require.NoError(t, err)
			records := lines(t, "out/rollouts.jsonl")
			require.Len(t, records, 2)
			for _, line := range records {
				require.Empty(t, gjson.Get(line, "not_trainable").String())
				require.Len(t, gjson.Get(line, "token_sequences").Array(), 1)
			}
			groups := lines(t, "groups.jsonl")
			require.Len(t, groups, 1, stderr)
			var group struct {
				Tokens, Masks [][]int
				Logprobs      [][]float64 `json:"inference_logprobs"`
				Messages      []json.RawMessage
				Scores        []float64
			}
			require.NoError(t, json.Unmarshal([]byte(groups[0]), &group))
			require.Len(t, group.Tokens, 2)
			require.Len(t, group.Messages, 2)
			for i, ids := range group.Tokens {
				var sampled []int
				for j, mask := range group.Masks[i] {
					if mask == model.Masked {
						require.Equal(t, model.UnknownLogprob, group.Logprobs[i][j])
						continue
					}
					require.Equal(t, ids[j], mask)
					require.Equal(t, modeltest.LogprobOf(mask, j), group.Logprobs[i][j])
					sampled = append(sampled, mask)
				}
				text := tok.Decode(sampled, false)
				if group.Scores[i] == 1 {
					require.Contains(t, text, "</tool_call><|im_end|>Done.<|im_end|>")
				} else {
					require.Equal(t, "I would rather not.<|im_end|>", text)
				}
			}
		})
	}
}

// SGLang writes an index into every call that it hands to a template. vLLM does not.
func TestRun_RendersAsTheEngineOfTheServerType(t *testing.T) {
	template := strings.Replace(modeltest.ChatML, "<tool_response>", "<tool_response>{{ 'SGLang' if loop.previtem.tool_calls[0].index is defined else 'vLLM' }}:", 1)
	require.NotEqual(t, modeltest.ChatML, template)
	for name, c := range map[string]struct {
		api     modeltest.API
		kind    string
		without []string
		want    string
	}{
		"vllm without /tokenize": {modeltest.VLLM, "vllm", []string{"/tokenize"}, "vLLM:"},
		"sglang":                 {modeltest.SGLang, "sglang", nil, "SGLang:"},
		"generate":               {modeltest.Generate, "generate", nil, "vLLM:"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			require.NoError(t, modeltest.WriteFolder(dir, template))
			p := newProgram(t)
			p.write("train.yaml", training)
			var (
				mu      sync.Mutex
				prompts []string
			)
			script := func(r *modeltest.TokenRequest) modeltest.TokenReply {
				mu.Lock()
				defer mu.Unlock()
				prompts = append(prompts, r.Text())
				return acting(r)
			}
			server := modeltest.NewTokenServer(t, modeltest.TokenConfig{API: c.api, Dir: dir, Script: script, Without: c.without})
			code, _, stderr := p.run("process", "--config", "train.yaml", "--run-dir", "out", "--openai.base_url", server.URL, "--openai.model_name", "mock",
				"--openai.server_type", c.kind, "--openai.tokenizer_name", dir, "--env.max_num_workers", "1")
			require.Equal(t, cli.ExitOK, code, stderr)
			require.Contains(t, strings.Join(prompts, ""), "<tool_response>"+c.want)
		})
	}
}

func TestAGroupWithIncompleteTokensIsLeftOutAndExplained(t *testing.T) {
	dir := modelFolder(t)
	p := newProgram(t)
	p.write("train.yaml", training)
	server := modeltest.NewTokenServer(t, modeltest.TokenConfig{API: modeltest.SGLang, Dir: dir, Script: func(r *modeltest.TokenRequest) modeltest.TokenReply {
		if strings.Contains(r.Text(), "<tool_response>") {
			return acting(r).ShortIDs()
		}
		return acting(r)
	}})
	code, _, stderr := p.run("process", "--config", "train.yaml", "--run-dir", "out", "--openai.base_url", server.URL, "--openai.model_name", dir, "--openai.health_check=false", "--openai.server_type", "sglang", "--env.max_num_workers", "1")
	require.Equal(t, cli.ExitOK, code, stderr)
	require.Contains(t, stderr, "is left out (not_trainable): the tokens of attempt")
	require.Contains(t, stderr, "answer 2: the server counts")
	untrainable := 0
	for _, line := range lines(t, "out/rollouts.jsonl") {
		require.True(t, gjson.Get(line, "score").Exists())
		if gjson.Get(line, "not_trainable").String() != "" {
			untrainable++
		}
	}
	require.Equal(t, 1, untrainable)
}

func TestATokenizerThatCanNotBeFoundIsNamed(t *testing.T) {
	dir := modelFolder(t)
	server := modeltest.NewTokenServer(t, modeltest.TokenConfig{API: modeltest.SGLang, Dir: dir})
	for name, c := range map[string]struct{ tokenizer, want string }{
		"no such folder":      {"./nowhere", "openai.tokenizer_name: ./nowhere is no folder"},
		"an empty folder":     {t.TempDir(), "tokenizer.json"},
		"not on this machine": {"some/model", "fetch the tokenizer of some/model"},
		"no name":             {"no such name", "must look like org/name"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newProgram(t)
			p.write("train.yaml", training)
			p.env["HF_HUB_OFFLINE"], p.env["HF_HUB_CACHE"] = "1", t.TempDir()
			code, _, stderr := p.run("process", "--config", "train.yaml", "--openai.base_url", server.URL, "--openai.model_name", "mock", "--openai.server_type", "sglang", "--openai.tokenizer_name", c.tokenizer)
			require.Equal(t, cli.ExitUsage, code, stderr)
			require.Contains(t, stderr, c.want)
		})
	}
}

func TestTheTokenizerOfAModelIsTakenFromTheHubAndThenFromItsCache(t *testing.T) {
	dir := modelFolder(t)
	hub := hubtest.Start(t)
	files := map[string][]byte{"model.safetensors": make([]byte, 1000)}
	for _, name := range []string{"tokenizer.json", "tokenizer_config.json", "generation_config.json"} {
		raw, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		files[name] = raw
	}
	hub.Put("model", "acme/synthetic", "main", files)
	server := modeltest.NewTokenServer(t, modeltest.TokenConfig{API: modeltest.SGLang, Dir: dir, Script: acting})
	cache := t.TempDir()
	for _, offline := range []string{"0", "1"} {
		p := newProgram(t)
		p.write("train.yaml", training)
		p.env["HF_ENDPOINT"], p.env["HF_HUB_CACHE"], p.env["HF_HUB_OFFLINE"] = hub.URL, cache, offline
		code, _, stderr := p.run("process", "--config", "train.yaml", "--run-dir", "out", "--openai.base_url", server.URL, "--openai.model_name", "acme/synthetic", "--openai.health_check=false", "--openai.server_type", "sglang")
		require.Equal(t, cli.ExitOK, code, stderr)
		require.NotEmpty(t, gjson.Get(lines(t, "out/rollouts.jsonl")[0], "token_sequences.0.tokens").Array())
	}
	require.Zero(t, hub.Count("GET", "safetensors"), "only what belongs to the tokenizer is fetched")
}
