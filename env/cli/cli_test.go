package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"github.com/hermes-env/hermes-env/agentloop/chat"
	"github.com/hermes-env/hermes-env/agentloop/model/modeltest"
	"github.com/hermes-env/hermes-env/benchmarks"
	"github.com/hermes-env/hermes-env/env/cli"
)

// asProgram is set for a child process of this test binary that is to be hermes-env.
const asProgram = "HERMES_ENV_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		cli.Main(benchmarks.All()...)
	}
	os.Exit(m.Run())
}

// program runs hermes-env inside the test.
type program struct {
	t       *testing.T
	dir     string // working directory of relative paths in arguments
	env     map[string]string
	signals chan os.Signal
	stdin   string
}

func newProgram(t *testing.T) *program {
	dir := t.TempDir()
	t.Chdir(dir)
	return &program{t: t, dir: dir, env: map[string]string{}, signals: make(chan os.Signal, 4)}
}

func (p *program) run(args ...string) (code int, stdout, stderr string) {
	p.t.Helper()
	var out, errs bytes.Buffer
	app := cli.App{
		Environments: benchmarks.All(), Stdin: strings.NewReader(p.stdin), Stdout: &out, Stderr: &errs, Signals: p.signals,
		Getenv: func(name string) (string, bool) { v, ok := p.env[name]; return v, ok },
	}
	code = app.Run(context.Background(), args)
	return code, out.String(), errs.String()
}

func (p *program) write(name, text string) string {
	p.t.Helper()
	require.NoError(p.t, os.WriteFile(filepath.Join(p.dir, name), []byte(text), 0o644))
	return name
}

func lines(t *testing.T, path string) []string {
	t.Helper()
	raw, err := os.ReadFile(path)
	require.NoError(t, err)
	require.True(t, len(raw) == 0 || raw[len(raw)-1] == '\n', "%s ends with a whole line", path)
	return strings.Split(strings.TrimSuffix(string(raw), "\n"), "\n")
}

const quickstart = `
environment: terminal-test
env: {eval_items: all, attempts: 2, group_size: 2, total_steps: 3}
openai: {base_url: "replay:", model_name: replay}
`

func TestEvaluateWritesAllFilesOfARun(t *testing.T) {
	p := newProgram(t)
	p.write("quick.yaml", quickstart)
	code, stdout, stderr := p.run("evaluate", "--config", "quick.yaml", "--run-dir", "out")
	require.Equal(t, cli.ExitOK, code, stderr)
	require.Contains(t, stdout, "score      0.875 ±")
	require.Contains(t, stdout, "8: 8 scored")
	require.Contains(t, stdout, "harness")
	require.Contains(t, stdout, "results    out")
	require.Contains(t, stderr, "[8/8]")
	require.Len(t, lines(t, "out/rollouts.jsonl"), 8)
	require.Len(t, lines(t, "out/trajectories.jsonl"), 8)
	require.Len(t, lines(t, "out/samples.jsonl"), 8)
	metrics, err := os.ReadFile("out/metrics.json")
	require.NoError(t, err)
	require.InDelta(t, 0.875, gjson.GetBytes(metrics, "results.all.eval/score").Float(), 1e-9)
	run, err := os.ReadFile("out/run.json")
	require.NoError(t, err)
	require.Equal(t, "done", gjson.GetBytes(run, "status").String())
	require.NotEmpty(t, gjson.GetBytes(run, "config_digest").String())
}

func TestProcessWritesTrajectoriesAndGroups(t *testing.T) {
	p := newProgram(t)
	p.write("quick.yaml", quickstart)
	code, stdout, stderr := p.run("process", "--config", "quick.yaml", "--run-dir", "out", "--env.data_path_to_save_groups", "groups.jsonl")
	require.Equal(t, cli.ExitOK, code, stderr)
	require.Contains(t, stdout, "6: 6 scored")
	require.Len(t, lines(t, "out/trajectories.jsonl"), 6)
	groups := lines(t, "groups.jsonl")
	require.Len(t, groups, 3)
	for _, g := range groups {
		require.Len(t, gjson.Get(g, "scores").Array(), 2)
		require.Len(t, gjson.Get(g, "messages").Array(), 2)
	}
	code, _, stderr = p.run("process", "--config", "quick.yaml", "--run-dir", "again", "--env.data_path_to_save_groups", "groups.jsonl")
	require.Equal(t, cli.ExitOK, code, stderr)
	require.Contains(t, stderr, "groups_1.jsonl")
	require.Equal(t, groups, lines(t, "groups.jsonl"), "an existing file is never overwritten")
}

func TestOracleScoresOneAndNopZero(t *testing.T) {
	p := newProgram(t)
	p.write("quick.yaml", quickstart)
	for agent, want := range map[string]string{"oracle": "1.000", "nop": "0.000"} {
		code, stdout, stderr := p.run("evaluate", "--config", "quick.yaml", "--agent", agent)
		require.Equal(t, cli.ExitOK, code, stderr)
		require.Contains(t, stdout, "score      "+want)
	}
}

// conversation is a model that writes every file it is asked for.
func conversation() modeltest.Script {
	return modeltest.Turns(
		modeltest.Calls(chat.ToolCall{ID: "a", Name: "terminal", Arguments: `{"command":"echo 391 > ~/product.txt"}`}),
		modeltest.Text("done"),
	)
}

func TestAnyEndpointCanTakeTheReplaysPlace(t *testing.T) {
	p := newProgram(t)
	p.write("quick.yaml", quickstart)
	server := modeltest.NewServerWith(t, modeltest.Config{Script: conversation(), Models: []string{"some/model"}, Key: "sk-test-123", Record: true})
	p.env["OPENAI_API_KEY"] = "sk-test-123"
	code, stdout, stderr := p.run("evaluate", "--config", "quick.yaml", "--env.eval_items", "held_out", "--run-dir", "out",
		"--openai.base_url", server.URL, "--openai.model_name", "some/model")
	require.Equal(t, cli.ExitOK, code, stderr)
	require.Contains(t, stdout, "1.000")
	for _, name := range []string{"run.json", "rollouts.jsonl", "metrics.json"} {
		raw, err := os.ReadFile(filepath.Join("out", name))
		require.NoError(t, err)
		require.NotContains(t, string(raw), "sk-test-123", "the key stays out of %s", name)
	}
	require.NotContains(t, stdout+stderr, "sk-test-123")
}

func TestARawTextServerIsReadByTheConfiguredParser(t *testing.T) {
	p := newProgram(t)
	p.write("quick.yaml", quickstart)
	server := modeltest.NewServer(t, modeltest.Turns(
		modeltest.Text("<tool_call>\n<function=terminal>\n<parameter=command>\necho 391 > ~/product.txt\n</parameter>\n</function>\n</tool_call>"),
		modeltest.Text("done"),
	))
	code, stdout, stderr := p.run("evaluate", "--config", "quick.yaml", "--env.eval_items", "held_out", "--openai.base_url", server.URL,
		"--openai.model_name", "mock", "--openai.server_type", "vllm", "--env.tool_call_parser", "qwen3_coder")
	require.Equal(t, cli.ExitOK, code, stderr)
	require.Contains(t, stdout, "score      1.000")
	requests := server.Requests()
	body := requests[len(requests)-1].Body
	require.Equal(t, "none", gjson.GetBytes(body, "tool_choice").String())
	for _, field := range []string{"skip_special_tokens", "spaces_between_special_tokens"} {
		require.Equal(t, "false", gjson.GetBytes(body, field).Raw, field)
	}
	require.NotEmpty(t, gjson.GetBytes(body, "tools").Array())
}

func TestBadInputIsNamedWithASensibleExitCode(t *testing.T) {
	refused := modeltest.RefusedURL(t)
	wrongKey := modeltest.NewServerWith(t, modeltest.Config{Script: conversation(), Key: "right"})
	html := modeltest.NewServer(t, modeltest.Always(modeltest.HTML("Welcome")))
	tests := map[string]struct {
		args  []string
		yaml  string
		setup func(t *testing.T)
		code  int
		want  []string
	}{
		"no such config":           {args: []string{"--config", "nope.yaml"}, code: 2, want: []string{"nope.yaml"}},
		"config is a directory":    {args: []string{"--config", "."}, code: 2, want: []string{"director"}},
		"unknown key":              {yaml: "environment: terminal-test\nenv: {max_agent_turn: 3}\n", code: 2, want: []string{"x.yaml:2", "max_agent_turn", `did you mean "max_agent_turns"`}},
		"all problems at once":     {yaml: "environment: terminal-test\nenv:\n  group_size: four\n  attempts: 0\n", code: 2, want: []string{"x.yaml:3", "x.yaml:4"}},
		"unknown environment":      {yaml: "environment: terminal-tset\n", code: 2, want: []string{"x.yaml:1", "terminal-test"}},
		"unknown flag":             {args: []string{"--env.max_agent_turn", "3"}, code: 2, want: []string{"--env.max_agent_turns"}},
		"unknown toolset":          {args: []string{"--env.enabled_toolsets", `["terminl"]`}, code: 2, want: []string{"terminl", "terminal"}},
		"unknown parser":           {args: []string{"--env.tool_call_parser", "hermez"}, code: 2, want: []string{"hermes"}},
		"other sandbox backend":    {args: []string{"--env.terminal_backend", "modal"}, code: 2, want: []string{"modal", "docker", "local"}},
		"endpoint down":            {args: []string{"--openai.base_url", refused}, code: 3, want: []string{"connection refused"}},
		"wrong key":                {args: []string{"--openai.base_url", wrongKey.URL}, code: 3, want: []string{"401", "OPENAI_API_KEY"}},
		"wrong model":              {args: []string{"--openai.base_url", html.URL, "--openai.model_name", "mokc"}, code: 3, want: []string{"mokc", "mock"}},
		"HTML instead of JSON":     {args: []string{"--openai.base_url", html.URL, "--openai.max_retry_time", "0", "--env.retries", "0"}, code: 3, want: []string{"Welcome"}},
		"resume without a run":     {args: []string{"--run-dir", "none", "--resume"}, code: 2, want: []string{"none"}},
		"resume without --run-dir": {args: []string{"--resume"}, code: 2, want: []string{"--run-dir"}},
		"directory with other files": {args: []string{"--run-dir", "full"}, code: 2, want: []string{"full"},
			setup: func(t *testing.T) {
				require.NoError(t, os.Mkdir("full", 0o755))
				require.NoError(t, os.WriteFile("full/thesis.txt", []byte("x"), 0o644))
			}},
		"a file in the way": {args: []string{"--run-dir", "file/run"}, code: 5, want: []string{"file"},
			setup: func(t *testing.T) { require.NoError(t, os.WriteFile("file", []byte("x"), 0o644)) }},
		"replay script missing": {args: []string{"--openai.base_url", "replay:none.yaml"}, code: 2, want: []string{"none.yaml"}},
		"fail-under":            {args: []string{"--fail-under", "0.99", "--env.attempts", "2"}, code: 1, want: []string{"below --fail-under"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			p := newProgram(t)
			yaml := test.yaml
			if yaml == "" {
				yaml = "environment: terminal-test\nenv: {eval_items: all}\nopenai: {base_url: 'replay:', model_name: mock}\n"
			}
			p.write("x.yaml", yaml)
			if test.setup != nil {
				test.setup(t)
			}
			p.env["OPENAI_API_KEY"] = "wrong-key"
			args := append([]string{"evaluate"}, test.args...)
			if len(test.args) == 0 || test.args[0] != "--config" {
				args = append(args, "--config", "x.yaml")
			}
			code, stdout, stderr := p.run(args...)
			require.Equal(t, test.code, code, stdout+stderr)
			for _, want := range test.want {
				require.Contains(t, stderr, want)
			}
			require.NotContains(t, stderr, "wrong-key", "keys are never shown")
			require.NotContains(t, stderr, "panic")
		})
	}
}

func TestAnExistingRunIsNeitherSkippedNorOverwritten(t *testing.T) {
	p := newProgram(t)
	p.write("quick.yaml", quickstart)
	code, _, _ := p.run("evaluate", "--config", "quick.yaml", "--run-dir", "out")
	require.Equal(t, cli.ExitOK, code)
	before := lines(t, "out/rollouts.jsonl")

	code, _, stderr := p.run("evaluate", "--config", "quick.yaml", "--run-dir", "out")
	require.Equal(t, cli.ExitUsage, code)
	require.Contains(t, stderr, "--resume")
	require.Equal(t, before, lines(t, "out/rollouts.jsonl"))

	code, _, stderr = p.run("evaluate", "--config", "quick.yaml", "--run-dir", "out", "--resume")
	require.Equal(t, cli.ExitOK, code, stderr)
	require.Equal(t, before, lines(t, "out/rollouts.jsonl"), "everything was done already")

	code, _, stderr = p.run("evaluate", "--config", "quick.yaml", "--run-dir", "out", "--resume", "--env.agent_temperature", "0.3")
	require.Equal(t, cli.ExitUsage, code)
	require.Contains(t, stderr, "agent_temperature")

	code, _, stderr = p.run("evaluate", "--config", "quick.yaml", "--run-dir", "out", "--resume", "--env.attempts", "3")
	require.Equal(t, cli.ExitOK, code, stderr)
	require.Len(t, lines(t, "out/rollouts.jsonl"), 12, "more attempts are added to the run")
}

func TestASecondProcessOnTheSameRunIsRefused(t *testing.T) {
	p := newProgram(t)
	p.write("quick.yaml", quickstart)
	server := modeltest.NewServer(t, modeltest.Always(modeltest.Hang()))
	done := make(chan int)
	go func() {
		code, _, _ := p.run("evaluate", "--config", "quick.yaml", "--run-dir", "out", "--openai.base_url", server.URL, "--openai.model_name", "mock")
		done <- code
	}()
	for server.InFlight() == 0 {
		time.Sleep(time.Millisecond)
	}
	code, _, stderr := (&program{t: t, dir: p.dir}).run("evaluate", "--config", "quick.yaml", "--run-dir", "out", "--resume", "--openai.base_url", server.URL, "--openai.model_name", "mock")
	require.Equal(t, cli.ExitUsage, code)
	require.Contains(t, stderr, fmt.Sprintf("process %d", os.Getpid()))
	p.signals <- os.Interrupt
	p.signals <- os.Interrupt
	require.Equal(t, cli.ExitInterrupted, <-done)
}

func TestInterruptsStopGentlyThenAtOnceAndSayHowToGoOn(t *testing.T) {
	for name, signals := range map[string][]os.Signal{
		"Ctrl-C twice":      {os.Interrupt, os.Interrupt},
		"SIGTERM and grace": {syscall.SIGTERM},
	} {
		t.Run(name, func(t *testing.T) {
			p := newProgram(t)
			p.write("quick.yaml", quickstart)
			server := modeltest.NewServer(t, func(r *modeltest.Request) modeltest.Reply {
				if strings.Contains(r.Prompt(), "product") {
					return modeltest.Hang()
				}
				return modeltest.Text("I did nothing")
			})
			args := []string{"evaluate", "--config", "quick.yaml", "--run-dir", "out", "--openai.base_url", server.URL, "--openai.model_name", "mock"}
			go func() {
				for { // until only the two that hang are left
					if raw, err := os.ReadFile("out/rollouts.jsonl"); err == nil && bytes.Count(raw, []byte("\n")) == 6 {
						break
					}
					time.Sleep(time.Millisecond)
				}
				for _, s := range signals {
					p.signals <- s
				}
			}()
			code, stdout, stderr := p.run(append(args, "--env.interrupt_grace", "0.1")...)
			require.Equal(t, cli.ExitInterrupted, code, stderr)
			require.Contains(t, stderr, "--run-dir out --resume")
			require.Contains(t, stdout, "2 cancelled")
			require.Len(t, lines(t, "out/rollouts.jsonl"), 8)

			resumed := modeltest.NewServer(t, modeltest.Always(modeltest.Text("nothing again")))
			p.signals = make(chan os.Signal)
			args[len(args)-3] = resumed.URL
			code, stdout, stderr = p.run(append(args, "--resume")...)
			require.Equal(t, cli.ExitOK, code, stderr)
			require.Contains(t, stdout, "8: 8 scored")
			require.Equal(t, 2, resumed.RequestCount(), "only what was cancelled runs again")
		})
	}
}

func TestJSONOutputIsOneObjectPerLineWithTheSummaryLast(t *testing.T) {
	p := newProgram(t)
	p.write("quick.yaml", quickstart)
	code, stdout, stderr := p.run("evaluate", "--config", "quick.yaml", "--json")
	require.Equal(t, cli.ExitOK, code)
	require.Empty(t, stderr)
	all := strings.Split(strings.TrimSpace(stdout), "\n")
	kinds := map[string]int{}
	for _, l := range all {
		require.True(t, json.Valid([]byte(l)), l)
		kinds[gjson.Get(l, "event").String()]++
	}
	require.Equal(t, 8, kinds["rollout"])
	last := gjson.Parse(all[len(all)-1])
	require.Equal(t, "summary", last.Get("event").String())
	require.InDelta(t, 0.875, last.Get("score").Float(), 1e-9)
	require.Equal(t, int64(8), last.Get("outcomes.scored").Int())
}

func TestInformationalCommandsTeach(t *testing.T) {
	p := newProgram(t)
	p.write("quick.yaml", quickstart)
	for _, test := range []struct {
		args []string
		want []string
	}{
		{[]string{"envs"}, []string{"terminal-test"}},
		{[]string{"envs", "terminal-test"}, []string{"eval_items", "max_agent_turns", "base_url"}},
		{[]string{"tools"}, []string{"terminal", "read_file", "todo", "toolsets"}},
		{[]string{"parsers"}, []string{"hermes", "kimi_k2", "glm47", "granite-20b-fc", "kimi_k3", "REASONING", "deepseek-r1"}},
		{[]string{"config", "--config", "quick.yaml"}, []string{"eval_items: all", "quick.yaml:3", "default"}},
		{[]string{"evaluate", "--config", "quick.yaml", "--dry-run"}, []string{"8 rollouts", "nothing was run"}},
		{[]string{"version"}, []string{"hermes-env"}},
		{[]string{"completion", "bash"}, []string{"complete -F", "--env.max_agent_turns"}},
		{[]string{"--help"}, []string{"evaluate", "process"}},
		{[]string{"evaluate", "--help"}, []string{"--env.max_agent_turns", "--openai.base_url"}},
		{nil, []string{"evaluate", "process"}},
	} {
		code, stdout, stderr := p.run(test.args...)
		require.Equal(t, cli.ExitOK, code, "%v: %s", test.args, stderr)
		for _, want := range test.want {
			require.Contains(t, stdout, want, test.args)
		}
	}
	entries, err := os.ReadDir(".")
	require.NoError(t, err)
	require.Len(t, entries, 1, "none of them writes anything")
}

func TestParseReadsStandardInputWholeAndStreamed(t *testing.T) {
	p := newProgram(t)
	p.stdin = "Let me look.\n<tool_call>\n{\"name\": \"terminal\", \"arguments\": {\"n\": 1.0, \"é\": \"<x>\"}}\n</tool_call>"
	for _, args := range [][]string{{"parse", "--parser", "hermes"}, {"parse", "--parser", "hermes", "--stream"}} {
		code, stdout, stderr := p.run(args...)
		require.Equal(t, cli.ExitOK, code, stderr)
		require.Equal(t, "Let me look.", gjson.Get(stdout, "content").String())
		require.Equal(t, `{"n": 1.0, "é": "<x>"}`, gjson.Get(stdout, "calls.0.arguments").String())
	}
	code, stdout, _ := p.run("parse", "--parser", "hermes", "--events")
	require.Equal(t, cli.ExitOK, code)
	require.Contains(t, stdout, `"kind":"call_start"`)
	p.write("tools.json", `[{"type":"function","function":{"name":"f","parameters":{"type":"object","properties":{"n":{"type":"integer"}}}}}]`)
	p.stdin = "<tool_call>\n<function=f>\n<parameter=n>\n7\n</parameter>\n</function>\n</tool_call>"
	code, stdout, stderr := p.run("parse", "--parser", "qwen3_coder", "--tools", "tools.json")
	require.Equal(t, cli.ExitOK, code, stderr)
	require.Equal(t, `{"n": 7}`, gjson.Get(stdout, "calls.0.arguments").String())
	code, _, stderr = p.run("parse", "--parser", "hf")
	require.Equal(t, cli.ExitUsage, code)
	require.Contains(t, stderr, "response template")
	code, _, stderr = p.run("parse", "--parser", "qwen3_coder", "--tools", "missing.json")
	require.Equal(t, cli.ExitUsage, code)
	require.Contains(t, stderr, "missing.json")
}

func TestParse_TakesReasoningOff(t *testing.T) {
	p := newProgram(t)
	const call = `<tool_call>{"name": "f", "arguments": {}}</tool_call>`
	for _, test := range []struct {
		name, text string
		args       []string
		want       string
	}{
		{"not asked for", "<think>hm</think>" + call, nil, `{"content": "<think>hm</think>", "calls": 1}`},
		{"by the tags of all models", "<think>" + call + "</think>Hi " + call + " bye", []string{"--reasoning", "auto"}, `{"reasoning": "<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>", "content": "Hi bye", "calls": 1}`},
		{"without any", "Hi", []string{"--reasoning", "auto"}, `{"reasoning": "", "content": "Hi", "calls": 0}`},
		{"by the tags of another model", "[THINK]hm[/THINK]" + call, []string{"--reasoning", "deepseek_v3"}, `{"reasoning": "", "content": "[THINK]hm[/THINK]", "calls": 1}`},
		{"by a name", "[THINK]hm[/THINK]" + call, []string{"--reasoning", "mistral"}, `{"reasoning": "hm", "content": null, "calls": 1}`},
		{"opened by the prompt", "hm " + call, []string{"--reasoning", "deepseek-r1"}, `{"reasoning": "hm", "content": null, "calls": 1}`},
		{"streamed", "<think>hm</think>Hi " + call, []string{"--reasoning", "auto", "--stream"}, `{"reasoning": "hm", "content": "Hi", "calls": 1}`},
	} {
		t.Run(test.name, func(t *testing.T) {
			p.stdin = test.text
			code, stdout, stderr := p.run(append([]string{"parse", "--parser", "hermes"}, test.args...)...)
			require.Equal(t, cli.ExitOK, code, stderr)
			var got map[string]any
			require.NoError(t, json.Unmarshal([]byte(stdout), &got))
			got["calls"] = len(got["calls"].([]any))
			text, err := json.Marshal(got)
			require.NoError(t, err)
			require.JSONEq(t, test.want, string(text))
		})
	}
	p.stdin = "<think>hm</think>" + call
	code, stdout, _ := p.run("parse", "--parser", "hermes", "--reasoning", "auto", "--events")
	require.Equal(t, cli.ExitOK, code)
	require.Equal(t, `{"kind":"reasoning","text":"hm"}`, strings.SplitN(stdout, "\n", 2)[0])
	code, _, stderr := p.run("parse", "--parser", "hermes", "--reasoning", "qwen-3")
	require.Equal(t, cli.ExitUsage, code)
	require.Contains(t, stderr, `did you mean "qwen3"?`)
	require.Contains(t, stderr, "auto")
}
