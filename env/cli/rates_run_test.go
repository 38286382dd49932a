package cli_test

import (
	"fmt"
	"os"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"github.com/hermes-env/hermes-env/agentloop/model/modeltest"
)

func TestARunWaitsOutARateLimitAndSaysWhatItCost(t *testing.T) {
	p := newProgram(t)
	var calls atomic.Int64
	server := modeltest.NewServer(t, func(*modeltest.Request) modeltest.Reply {
		if calls.Add(1) == 2 {
			return modeltest.Status(429, "rate limit reached").WithHeader("Retry-After-Ms", "2500")
		}
		return modeltest.Text("4")
	})
	p.write("rows.jsonl", `{"q":"2+2","a":"4"}`+"\n"+`{"q":"1+3","a":"4"}`+"\n"+`{"q":"5-1","a":"4"}`+"\n")
	p.write("run.yaml", fmt.Sprintf(`
environment: prompts
env:
  dataset_name: rows.jsonl
  prompt_template: "{{q}}"
  reward: {type: exact, reference_field: a}
  attempts: 2
  enabled_toolsets: [terminal]
  terminal_backend: local
  rollout_timeout: 2
openai: {base_url: %q, model_name: mock, api_key: "", num_max_requests_at_once: 1, requests_per_minute: 100000}
`, server.URL))
	code, stdout, stderr := p.run("evaluate", "--config", "run.yaml", "--run-dir", "run")
	require.Zero(t, code, stderr)
	require.Contains(t, stdout, "6 scored")
	require.Contains(t, stdout, "which no time limit counts; 1 request refused by the server")
	metrics, err := os.ReadFile("run/metrics.json")
	require.NoError(t, err)
	require.Contains(t, string(metrics), `"server/refused_requests": 1.0`)
	held := 0.0
	for _, line := range lines(t, "run/rollouts.jsonl") {
		held += gjson.Get(line, "timings.rate_limited_seconds").Num
	}
	require.GreaterOrEqual(t, held, 2.0)
}

func TestAJudgeThatWaitsForItsServersRateIsNoVerifierThatHangs(t *testing.T) {
	p := newProgram(t)
	server := modeltest.NewServer(t, modeltest.Always(modeltest.Text(`{"reason": "right", "score": 1}`)))
	rows := ""
	for i := range 6 {
		rows += fmt.Sprintf(`{"q":"what is %d?"}`, i) + "\n"
	}
	p.write("rows.jsonl", rows)
	p.write("run.yaml", fmt.Sprintf(`
environment: prompts
env:
  dataset_name: rows.jsonl
  prompt_template: "{{q}}"
  reward: {type: judge, rubric: "Is it right?"}
  judge: {base_url: %q, model_name: mock, api_key: "", requests_per_minute: 40}
  attempts: 1
  enabled_toolsets: [terminal]
  terminal_backend: local
  verify_timeout: 2
openai: {base_url: %q, model_name: mock, api_key: ""}
`, server.URL, server.URL))
	code, stdout, stderr := p.run("evaluate", "--config", "run.yaml", "--run-dir", "run")
	require.Zero(t, code, stderr)
	require.Contains(t, stdout, "6 scored", "three are judged at once, the others after 1, 2.5 and 4 seconds")
	held := 0.0
	for _, line := range lines(t, "run/rollouts.jsonl") {
		held += gjson.Get(line, "timings.rate_limited_seconds").Num
	}
	require.Greater(t, held, 5.0)
}
