package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// demoConfig is the own struct of the environment the tests use.
type demoConfig struct {
	TaskFilter  string   `yaml:"task_filter" nullable:"true" help:"tasks to run, with * for any text"`
	SkipTasks   []string `yaml:"skip_tasks" help:"tasks to leave out"`
	Difficulty  string   `yaml:"difficulty" default:"easy" choices:"easy,medium,hard" help:"how hard the tasks are"`
	TestTimeout Seconds  `yaml:"test_timeout" default:"180" min:"1" help:"limit of the tests"`
	Seeds       []int    `yaml:"seeds" default:"[1, 2]" min:"0" help:"seeds to play"`
	DatasetName string   `yaml:"dataset_name" default:"org/tasks" help:"dataset to read"`
	Limit       *int     `yaml:"limit" min:"1" help:"items to run; null runs them all"`
	Judge       struct {
		Model string `yaml:"model" default:"judge-1" help:"model that judges"`
		Key   Secret `yaml:"key" help:"key of the judge"`
		Votes int    `yaml:"votes" default:"3" min:"1" max:"9" help:"votes per answer"`
	} `yaml:"judge"`
	Players []player `yaml:"players" help:"who plays"`
}

type player struct {
	Name  string `yaml:"name" help:"name of the player"`
	Skill int    `yaml:"skill" default:"5" min:"0" max:"10" help:"how well they play"`
}

func demo() Environment {
	return Environment{
		Name: "demo",
		Own:  func() any { return &demoConfig{} },
		Defaults: func(c *Config) {
			c.Env.MaxAgentTurns = 60
			c.Env.ExtraBody = []byte(`{"provider":{"order":["A"],"sort":"price"},"top_k":20}`)
			c.Own.(*demoConfig).Judge.Votes = 5
		},
	}
}

func plainEnvironment() Environment { return Environment{Name: "terminal-test"} }

// options returns options for the two environments above, without any variables.
func options() Options {
	return Options{Environments: []Environment{demo(), plainEnvironment()}, WorkDir: os.DevNull,
		Parsers: []string{"hermes", "mistral", "qwen"}, AbsentParsers: map[string]string{"hf": "it reads a template"}, EmbeddedServers: []string{"replay"}, AllowUnsupported: false}
}

func vars(pairs ...string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i] == name {
				return pairs[i+1], true
			}
		}
		return "", false
	}
}

// loadText resolves a YAML text in a file called x.yaml, whose directory is cut
// from messages.
func loadText(t *testing.T, o Options, text string, flags ...string) (*Resolved, error) {
	t.Helper()
	dir := t.TempDir()
	if o.WorkDir == os.DevNull {
		o.WorkDir = dir
	}
	o.File = filepath.Join(dir, "x.yaml")
	require.NoError(t, os.WriteFile(o.File, []byte(text), 0o600))
	o.Flags = flagsOf(flags...)
	r, err := Load(o)
	if err != nil {
		e, ok := err.(*Error)
		require.True(t, ok, "%T: %v", err, err)
		for i := range e.Problems {
			e.Problems[i].Where = strings.ReplaceAll(e.Problems[i].Where, dir+string(filepath.Separator), "")
			e.Problems[i].Message = strings.ReplaceAll(e.Problems[i].Message, dir+string(filepath.Separator), "")
		}
	}
	return r, err
}

func flagsOf(flags ...string) []Flag {
	var list []Flag
	for _, f := range flags {
		name, value, _ := strings.Cut(f, "=")
		list = append(list, Flag{Name: name, Value: value})
	}
	return list
}

const server = "openai: {base_url: 'http://127.0.0.1:9001/v1', model_name: m}\n"

func TestSourcesOverrideEachOtherInOrder(t *testing.T) {
	r, err := loadText(t, options(), `
environment: demo
env:
  group_size: 8
  max_token_length: 32000
  agent_temperature: 0.7
  enabled_toolsets: [terminal, file]
  extra_body: {provider: {order: [B, C]}, big: 12345678901234567890, x: 1.0}
  judge: {model: other}
  seeds: [7]
`+server, "env.group_size=2", "env.extra_body={\"provider\": {\"ignore\": [\"D\"]}}", "openai.model_name=n")
	require.NoError(t, err)

	require.Equal(t, 2, r.Env.GroupSize, "a flag beats the file")
	require.Equal(t, 32000, r.Env.MaxTokenLength, "the file beats the built-in default")
	require.Equal(t, 60, r.Env.MaxAgentTurns, "the environment beats the built-in default")
	require.Equal(t, 128, r.Env.ToolPoolSize)
	require.Equal(t, 0.7, r.Env.AgentTemperature)
	require.Equal(t, []string{"terminal", "file"}, r.Env.EnabledToolsets)
	require.Nil(t, r.Env.DisabledToolsets)
	require.Equal(t, `{"provider":{"order":["B","C"],"sort":"price","ignore":["D"]},"top_k":20,"big":12345678901234567890,"x":1.0}`, string(r.Env.ExtraBody))

	own := r.Own.(*demoConfig)
	require.Equal(t, "other", own.Judge.Model)
	require.Equal(t, 5, own.Judge.Votes)
	require.Equal(t, []int{7}, own.Seeds)
	require.Equal(t, "org/tasks", own.DatasetName)

	require.Len(t, r.Servers, 1)
	require.Equal(t, "http://127.0.0.1:9001/v1", r.Servers[0].BaseURL)
	require.Equal(t, "n", r.Servers[0].ModelName)
	require.Equal(t, 512, r.Servers[0].NumMaxRequestsAtOnce)

	require.Equal(t, "--env.group_size", r.Origin("env.group_size").String())
	require.Equal(t, FromFile, r.Origin("env.max_token_length").Kind)
	require.Equal(t, 5, r.Origin("env.max_token_length").Line)
	require.Equal(t, "environment demo", r.Origin("env.max_agent_turns").String())
	require.Equal(t, "environment demo", r.Origin("env.judge.votes").String())
	require.Equal(t, "default", r.Origin("env.tool_pool_size").String())
	require.Equal(t, "--openai.model_name", r.Origin("openai.model_name").String())
}
