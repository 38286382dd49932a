package config

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"
)

var update = flag.Bool("update", false, "write golden files and the tables of docs/config.md anew")

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(got), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), got)
}

const printedExample = `environment: demo
env:
  enabled_toolsets: [terminal, file]
  system_prompt: "one: two # three\nfour\x7f <&> é \U0001F600"
  extra_body: {provider: {order: [HostA]}, transforms: [middle-out]}
  tool_result_overrides: {terminal: 15000, search_files: 6000}
  terminal_timeout: 0.5
  distribution: null
  task_filter: "yes"
  judge: {key: sk-secret-judge}
  limit: 3
  players: [{name: "a: b"}]
`

func TestAPrintedConfigurationShowsWhereEachValueComesFrom(t *testing.T) {
	for name, servers := range map[string]string{
		"one-server.yaml":  "openai:\n  base_url: https://llm.example.net/v1\n  model_name: vendor/model-x\n  api_key: $MY_KEY\n",
		"two-servers.yaml": "openai:\n- {base_url: 'http://h1:9001/v1', model_name: m, api_key: sk-secret-one}\n- {base_url: 'http://h2:9001/v1', model_name: m, weight: 0.5}\n",
	} {
		t.Run(name, func(t *testing.T) {
			o := options()
			o.LookupEnv = vars("MY_KEY", "sk-secret-two")
			r, err := loadText(t, o, printedExample+servers, "env.group_size=8")
			require.NoError(t, err)
			var out bytes.Buffer
			require.NoError(t, r.WriteYAML(&out))
			dir := filepath.Dir(r.File) + string(filepath.Separator)
			text := strings.ReplaceAll(out.String(), dir, "")
			require.NotContains(t, text, "sk-secret")
			golden(t, name, text)
			golden(t, strings.TrimSuffix(name, ".yaml")+".json", string(r.CanonicalJSON())+"\n")

			// What is printed means the same.
			again, err := loadText(t, o, text)
			require.NoError(t, err)
			require.Equal(t, r.Digest, again.Digest)
			require.Equal(t, r.Env, again.Env)
		})
	}
}

func TestTheDigestCoversWhatCanAffectResults(t *testing.T) {
	base := "environment: demo\n" + server
	digest := func(mode Mode, text string, flags ...string) string {
		o := options()
		o.Mode = mode
		o.LookupEnv = vars("OPENAI_API_KEY", "a", "OTHER", "b")
		r, err := loadText(t, o, text, flags...)
		require.NoError(t, err)
		require.Regexp(t, `^sha256:[0-9a-f]{64}$`, r.Digest)
		return r.Digest
	}
	start := digest(Evaluate, base)
	same := map[string]string{
		"how much runs at once": "env.max_eval_workers=3", "retries": "env.retries=5", "a path": "env.data_dir_to_save_evals=/x",
		"more attempts": "env.attempts=9", "another address": "openai.base_url=http://other", "another key": "openai.api_key_env=OTHER",
		"a default written out": "env.max_agent_turns=60", "a judge's key": "env.judge.key=$OTHER", "tool calls at once": "env.tool_pool_size=1",
	}
	for name, f := range same {
		require.Equal(t, start, digest(Evaluate, base, f), name)
	}
	other := map[string]string{
		"turns": "env.max_agent_turns=61", "a model": "openai.model_name=n", "temperature": "env.agent_temperature=0", "toolsets": "env.enabled_toolsets=[file]",
		"no toolsets": "env.enabled_toolsets=[]", "an own field": "env.judge.votes=1", "the agent": "agent=oracle", "extra fields": "env.extra_body={a: 1}", "the seed": "env.seed=1",
		"the system prompt": "env.system_prompt=x",
	}
	seen := map[string]string{start: "the start"}
	for name, f := range other {
		d := digest(Evaluate, base, f)
		require.Empty(t, seen[d], name)
		seen[d] = name
	}
	require.NotEqual(t, start, digest(Process, base), "the command")

	two := "environment: demo\nopenai: [{base_url: 'http://a', model_name: m}, {base_url: 'http://b', model_name: m}]\n"
	require.Equal(t, start, digest(Evaluate, two), "servers of one model share its work")
	require.NotEqual(t, start, digest(Evaluate, strings.Replace(two, "model_name: m}]", "model_name: n}]", 1)))
}

// The examples of the original framework's documentation, composed anew.
func TestOldConfigFilesStillWork(t *testing.T) {
	type benchmark struct {
		DatasetName string   `yaml:"dataset_name" help:"dataset to read"`
		TestTimeout Seconds  `yaml:"test_timeout" default:"180" help:"limit of the tests"`
		TaskTimeout Seconds  `yaml:"task_timeout" default:"1800" help:"limit of a task"`
		Concurrent  int      `yaml:"max_concurrent_tasks" default:"8" help:"tasks at once"`
		SkipTasks   string   `yaml:"skip_tasks" nullable:"true" help:"tasks to leave out"`
		Presets     []string `yaml:"presets" help:"presets to play"`
		Seeds       []int    `yaml:"seeds" help:"seeds to play"`
	}
	o := options()
	o.Environments = []Environment{{Name: "bench", Own: func() any { return &benchmark{} }}}
	o.Backends = []string{"local", "docker", "modal"}
	o.ServerTypes = []string{"openai", "vllm"}
	for name, text := range map[string]string{
		"a benchmark": `env:
  dataset_name: my-org/terminal-tasks
  enabled_toolsets: [terminal, file]
  max_agent_turns: 60
  max_token_length: 32000
  agent_temperature: 0.7
  terminal_backend: modal
  terminal_timeout: 240
  test_timeout: 600
  task_timeout: 1800
  max_concurrent_tasks: 8
  tool_pool_size: 64
  skip_tasks: "slow-one,needs-gpu"
  use_wandb: false
  data_dir_to_save_evals: out/evals/terminal
openai:
  base_url: https://llm.example.net/v1
  model_name: vendor/model-x
  server_type: openai
  health_check: false
`,
		"a local server": `env:
  terminal_backend: docker
  tool_pool_size: 16
  max_concurrent_tasks: 4
  tool_call_parser: hermes
  system_prompt: Work only through the tools; do not paste solutions as text.
  default_result_size_chars: 40000
  turn_budget_chars: 150000
  preview_size_chars: 1200
  tool_result_overrides: {terminal: 15000, search_files: 6000}
openai: {base_url: "http://127.0.0.1:9001", model_name: local/model, server_type: vllm, health_check: false}
`,
		"a distribution": `env:
  distribution: terminal_tasks
  disabled_toolsets: [image_gen]
  group_size: 4
  max_agent_turns: 25
  extra_body: {provider: {order: [HostA], ignore: [HostB]}, transforms: [middle-out]}
` + server,
		"several servers": `env: {group_size: 8}
openai:
  - {model_name: m, base_url: "http://h1:9001/v1", api_key: x, server_type: vllm}
  - {model_name: m, base_url: "http://h2:9001/v1", api_key: x, server_type: vllm}
slurm: false
testing: false
`,
	} {
		t.Run(name, func(t *testing.T) {
			r, err := loadText(t, o, text)
			require.NoError(t, err)
			require.Empty(t, r.Warnings)
		})
	}
}

func TestEmbeddedServersAreWords(t *testing.T) {
	for base, want := range map[string][2]string{"replay": {"replay", ""}, "replay:demo.yaml": {"replay", "demo.yaml"}} {
		r, err := loadText(t, options(), "environment: demo\nopenai: {base_url: '"+base+"', model_name: m}\n")
		require.NoError(t, err)
		scheme, argument, ok := r.Servers[0].Embedded()
		require.True(t, ok)
		require.Equal(t, want, [2]string{scheme, argument})
	}
	_, _, ok := NewServer().Embedded()
	require.False(t, ok)
}

func TestWhatCanAffectResultsIsToldWithItsDefaults(t *testing.T) {
	o := options()
	o.LookupEnv = vars("OPENAI_API_KEY", "sk-secret-a")
	r, err := loadText(t, o, "environment: demo\n"+server, "env.group_size=9", "env.max_eval_workers=3", "env.judge.key=sk-secret-b", "env.judge.votes=7")
	require.NoError(t, err)
	affecting, defaults := string(r.AffectingJSON()), string(r.DefaultsJSON())
	for _, text := range []string{affecting, defaults} {
		require.True(t, gjson.Valid(text))
		require.NotContains(t, text, "sk-secret")
		require.False(t, gjson.Get(text, "env.max_eval_workers").Exists())
	}
	require.EqualValues(t, 9, gjson.Get(affecting, "env.group_size").Int())
	require.EqualValues(t, 4, gjson.Get(defaults, "env.group_size").Int())
	require.NotEqual(t, gjson.Get(affecting, "env.judge.votes").Raw, gjson.Get(defaults, "env.judge.votes").Raw)
	var names, defaulted []string
	gjson.Get(affecting, "env").ForEach(func(key, _ gjson.Result) bool { names = append(names, key.Str); return true })
	gjson.Get(defaults, "env").ForEach(func(key, _ gjson.Result) bool { defaulted = append(defaulted, key.Str); return true })
	require.Equal(t, names, defaulted)
}
