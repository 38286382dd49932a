package cli_test

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"github.com/hermes-env/hermes-env/agentloop/model/modeltest"
	"github.com/hermes-env/hermes-env/env/cli"
)

// sellsAt is a configuration whose rollouts of 1000 tokens in and 100 out cost a cent.
const sellsAt = `
environment: prompts
env:
  dataset_name: rows.jsonl
  group_size: 2
  prefetch: 0
  max_num_workers: 2
  reward: {type: exact, reference_field: answer}
openai: {model_name: m, price_input: 5, price_output: 50}
`

// shop is a program with some rows and a model whose answers cost a cent.
func shop(t *testing.T, rows int, reply modeltest.Reply) (p *program, server *modeltest.Server, process func(more ...string) (int, string, string)) {
	p = newProgram(t)
	var text strings.Builder
	for i := range rows {
		fmt.Fprintf(&text, "{\"prompt\":\"number %d\",\"answer\":\"4\"}\n", i)
	}
	p.write("rows.jsonl", text.String())
	p.write("shop.yaml", sellsAt)
	server = modeltest.NewServer(t, modeltest.Always(reply))
	return p, server, func(more ...string) (int, string, string) {
		return p.run(slices.Concat([]string{"process", "--config", "shop.yaml", "--run-dir", "out", "--openai.base_url", server.URL, "--openai.health_check=false"}, more)...)
	}
}

func TestARunThatReachesItsBudgetSaysHowToGoOn(t *testing.T) {
	p, server, process := shop(t, 8, modeltest.Text("4").WithUsage(1000, 100))
	code, stdout, stderr := process("--env.budget_usd", "0.05")
	require.Equal(t, cli.ExitBudget, code, stderr)
	require.Contains(t, stdout, "  cost       $0.04 · 4000 tokens in, 400 out\n")
	require.Contains(t, stdout, "  budget     $0.04 of $0.05\n")
	require.Contains(t, stdout, "this covers 4 of 16 rollouts")
	require.Contains(t, stderr, "4 of 16 rollouts are done and saved, 12 are left; go on with more: ")
	require.Contains(t, stderr, "process --config shop.yaml --openai.base_url="+server.URL+" --openai.health_check=false --env.budget_usd=0.18 --run-dir out --resume\n")
	require.Contains(t, stderr, "the budget is used up: $0.04 of the $0.05 of env.budget_usd are spent, and the next rollouts, at $0.01 each, would go beyond it")
	require.Equal(t, 4, server.RequestCount())
	require.Len(t, lines(t, "out/trajectories.jsonl"), 4)
	require.Equal(t, "budget", gjson.Get(read(t, "out/run.json"), "status").String())
	require.InDelta(t, 0.04, gjson.Get(read(t, "out/metrics.json"), "results.all.train/cost_usd").Float(), 1e-12)

	code, _, stderr = process("--env.budget_usd", "0.05", "--resume")
	require.Equal(t, cli.ExitBudget, code, stderr)
	require.Contains(t, stderr, "the budget is used up")
	require.Equal(t, 4, server.RequestCount(), "nothing was started")

	// What it proposed is enough, and the run is then the same as one without a budget.
	code, stdout, stderr = process("--env.budget_usd=0.18", "--resume", "--json")
	require.Equal(t, cli.ExitOK, code, stderr)
	require.Equal(t, 16, server.RequestCount())
	out := strings.Split(strings.TrimSpace(stdout), "\n")
	summary := gjson.Parse(out[len(out)-1])
	require.JSONEq(t, `{"calls":16,"prompt_tokens":16000,"cached_tokens":0,"completion_tokens":1600,"cost_usd":0.16}`, withoutKey(t, summary.Get("spent").Raw, "active_seconds"))
	require.Len(t, lines(t, "out/trajectories.jsonl"), 16)

	for _, command := range [][]string{{"stats", "out"}, {"report", "out", "--out", "page.html"}, {"stats", "out", "--html", "stats.html"}} {
		code, stdout, stderr := p.run(command...)
		require.Equal(t, cli.ExitOK, code, stderr)
		if command[0] == "stats" {
			require.Contains(t, stdout, "cost         $0.16, $0.01 per row")
		}
	}
	for _, page := range []string{"page.html", "stats.html"} {
		require.Contains(t, read(t, page), "$0.16", page)
	}
}

func withoutKey(t *testing.T, object, key string) string {
	t.Helper()
	var members map[string]json.RawMessage
	require.NoError(t, json.Unmarshal([]byte(object), &members))
	delete(members, key)
	text, err := json.Marshal(members)
	require.NoError(t, err)
	return string(text)
}

func TestAJudgeIsPaidFromTheSameBudget(t *testing.T) {
	p, server, process := shop(t, 8, modeltest.Text("4").WithUsage(1000, 100))
	judge := modeltest.NewServer(t, modeltest.Always(modeltest.Text(`{"reason":"fine","score":1}`).WithUsage(500, 50)))
	config := strings.Replace(sellsAt, "reward: {type: exact, reference_field: answer}", "reward: {type: judge, rubric: Be kind.}\n  judge: {base_url: "+judge.URL+", model_name: j}", 1)
	p.write("shop.yaml", config)
	code, _, stderr := process("--env.budget_usd", "0.10")
	require.Equal(t, cli.ExitUsage, code)
	require.Contains(t, stderr, "env.judge.price_input: missing; env.budget_usd can only be kept with the prices of every model server")
	require.NoDirExists(t, "out")

	p.write("shop.yaml", strings.Replace(config, "model_name: j", "model_name: j, price_input: 60, price_output: 200", 1))
	code, stdout, stderr := process("--env.budget_usd", "0.20")
	require.Equal(t, cli.ExitBudget, code, stderr)
	require.Equal(t, 4, server.RequestCount(), "five cents a rollout")
	require.Equal(t, 4, judge.RequestCount())
	require.Contains(t, stdout, "cost       $0.20 · 6000 tokens in, 600 out; of it $0.16 for judging")
}

func TestPricesThatAreMissingOrHalfAreNamed(t *testing.T) {
	p, _, process := shop(t, 1, modeltest.Text("4"))
	p.write("shop.yaml", strings.Replace(sellsAt, ", price_input: 5, price_output: 50", "", 1))
	for name, c := range map[string]struct {
		flags []string
		text  string
	}{
		"none":         {[]string{"--env.budget_usd=1"}, "openai.price_input: missing; env.budget_usd can only be kept with the prices of every model server: set openai.price_input and price_output"},
		"half":         {[]string{"--openai.price_output=1"}, "openai.price_input: missing beside openai.price_output"},
		"negative":     {[]string{"--openai.price_input=-1", "--openai.price_output=1"}, "openai.price_input: want 0 to 1000000, got -1"},
		"money below":  {[]string{"--env.budget_usd=-0.5"}, "env.budget_usd: want at least 0, got -0.5"},
		"half a token": {[]string{"--env.budget_tokens=0.5"}, "env.budget_tokens: want an integer, got 0.5"},
		"no time":      {[]string{"--env.budget_time=an hour"}, `env.budget_time: want a number, got "an hour"`},
	} {
		t.Run(name, func(t *testing.T) {
			code, _, stderr := process(c.flags...)
			require.Equal(t, cli.ExitUsage, code, stderr)
			require.Contains(t, stderr, c.text)
			require.NoDirExists(t, "out")
		})
	}
	t.Run("a server that costs nothing has a price too", func(t *testing.T) {
		code, stdout, stderr := process("--env.budget_usd=1", "--openai.price_input=0", "--openai.price_output=0", "--env.group_size=1", "--env.max_unscored=1")
		require.Equal(t, cli.ExitOK, code, stderr)
		require.NotContains(t, stdout, "  cost ")
		require.Equal(t, 0.0, gjson.Get(lines(t, "out/rollouts.jsonl")[0], "cost_usd").Float())
	})
}

func TestAServerThatCountsNoTokensEndsABudget(t *testing.T) {
	_, server, process := shop(t, 8, modeltest.Text("4").WithoutUsage())
	code, stdout, stderr := process("--env.budget_tokens=1000000")
	require.Equal(t, cli.ExitBudget, code, stderr)
	require.Contains(t, stderr, "the budget can't be kept")
	require.Contains(t, stderr, "go on without a limit: ")
	require.Contains(t, stderr, "--env.budget_tokens=0 --run-dir out --resume")
	require.Contains(t, stdout, "cost       not known: ")
	require.LessOrEqual(t, server.RequestCount(), 4)
	code, _, stderr = process("--env.budget_tokens=0", "--resume")
	require.Equal(t, cli.ExitOK, code, stderr)
	require.Equal(t, 1, strings.Count(stderr, "came without token counts"), "said once: %s", stderr)
}

func TestABatchRunKeepsItsBudget(t *testing.T) {
	b := newBatchRun(t, modeltest.Always(modeltest.Text("<think>\nhm\n</think>\nanswer").WithUsage(1000, 100)), tasks("a", "b", "c", "d", "e", "f", "g", "h")...)
	code, stdout, stderr := b.batch("--env.budget_tokens=5000")
	require.Equal(t, cli.ExitBudget, code, stderr)
	require.Contains(t, stdout, "budget     4,400 of 5,000 tokens")
	require.Contains(t, stderr, "go on with more by the same command with --resume --env.budget_tokens=10000")
	require.Len(t, texts(t, "data/r/trajectories.jsonl"), 4)
	require.Equal(t, 4, b.server.RequestCount())

	code, _, stderr = b.batch("--env.budget_tokens=5000", "--resume")
	require.Equal(t, cli.ExitBudget, code, stderr)
	require.Equal(t, 4, b.server.RequestCount())
	code, _, stderr = b.batch("--env.budget_tokens=10000", "--resume")
	require.Equal(t, cli.ExitOK, code, stderr)
	require.Len(t, texts(t, "data/r/trajectories.jsonl"), 8)
	require.Equal(t, 8, b.server.RequestCount())
}

func TestWhatAKilledRunHasSpentIsKnownToTheNext(t *testing.T) {
	_, server, process := shop(t, 8, modeltest.Text("4").WithUsage(1000, 100))
	code, _, stderr := process("--env.budget_tokens=5000")
	require.Equal(t, cli.ExitBudget, code, stderr)
	// As a kill -9 leaves it: no word of an end, no index, half a line.
	manifest := read(t, "out/run.json")
	require.NoError(t, os.WriteFile("out/run.json", []byte(strings.ReplaceAll(manifest, `"status": "budget"`, `"status": "running"`)), 0o644))
	require.NoError(t, os.RemoveAll("out/rollouts.index"))
	rollouts := read(t, "out/rollouts.jsonl")
	require.NoError(t, os.WriteFile("out/rollouts.jsonl", []byte(rollouts+`{"rollout_id":"r1","item`), 0o644))
	code, _, stderr = process("--env.budget_tokens=5000", "--resume")
	require.Equal(t, cli.ExitBudget, code, stderr)
	require.Equal(t, 4, server.RequestCount())
	code, stdout, stderr := process("--env.budget_tokens=10000", "--resume")
	require.Equal(t, cli.ExitBudget, code, stderr)
	require.Equal(t, 8, server.RequestCount())
	require.Contains(t, stdout, "budget     8,800 of 10,000 tokens")
}
