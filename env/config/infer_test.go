package config

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// inferOptions has three environments: two with a data set of their own, one that takes any.
func inferOptions() Options {
	type bench struct {
		DatasetName string `yaml:"dataset_name" nullable:"true" help:"data set"`
		TestTimeout int    `yaml:"test_timeout" default:"5" help:"limit of the tests"`
	}
	type rows struct {
		DatasetName string `yaml:"dataset_name" nullable:"true" help:"data set"`
		Reward      string `yaml:"reward" nullable:"true" help:"score"`
	}
	o := options()
	o.Environments = []Environment{
		{Name: "big-bench", Aliases: []string{"bigbench_2", "bb2"}, Own: func() any { return new(bench) }, Defaults: func(c *Config) { c.Own.(*bench).DatasetName = "org/big" }},
		{Name: "small-bench", Own: func() any { return new(bench) }, Defaults: func(c *Config) { c.Own.(*bench).DatasetName = "org/small" }},
		{Name: "rows", Own: func() any { return new(rows) }},
		{Name: "smoke", Aliases: []string{"smoke_env"}},
	}
	return o
}

func TestLoad_InfersTheEnvironmentOfAFileThatNamesNone(t *testing.T) {
	for _, tt := range []struct{ name, file, yaml, want, by string }{
		{"by the data set", "x.yaml", "env: {dataset_name: org/small, test_timeout: 9}\n", "small-bench", "env.dataset_name"},
		{"by wandb_name", "x.yaml", "env: {wandb_name: bigbench-2}\n", "big-bench", "env.wandb_name"},
		{"by the name of the file", "BB2.yaml", "env: {group_size: 2}\n", "big-bench", "its name"},
		{"by its folder", "smoke_env/default.yaml", "env: {group_size: 2}\n", "smoke", "its folder smoke_env"},
		{"by its keys", "x.yaml", "env: {dataset_name: a/b, reward: exact}\n", "rows", "env.dataset_name, env.reward"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := inferOptions()
			o.WorkDir = t.TempDir()
			o.File = filepath.Join(o.WorkDir, tt.file)
			require.NoError(t, os.MkdirAll(filepath.Dir(o.File), 0o700))
			require.NoError(t, os.WriteFile(o.File, []byte(tt.yaml+server), 0o600))
			r, err := Load(o)
			require.NoError(t, err)
			require.Equal(t, tt.want, r.Environment)
			require.Len(t, r.Warnings, 1)
			require.Contains(t, r.Warnings[0], "taken to be "+tt.want+" by "+tt.by)
		})
	}
}

func TestLoad_SaysWhichEnvironmentAFileIsForOrCouldBe(t *testing.T) {
	for _, tt := range []struct{ name, yaml, flag, want string }{
		{"an environment that is not here, by name", "env: {wandb_name: yc-bench, seeds: [1]}\n", "", "by env.wandb_name this is a file for YC-Bench, which is not available here"},
		{"an environment that is not here, by keys", "env: {survival_weight: 0.5}\n", "", "by its keys this is a file for YC-Bench, which is not available here"},
		{"keys of no environment", "env: {dataset_name: a/b, curriculum: 1}\n", "", "no environment here has all of the file's keys (curriculum)"},
		{"several that fit", "env: {test_timeout: 1}\n", "", "(there are big-bench, small-bench with keys like these)"},
		{"another name of one", "environment: bb2\n", "", `no environment named "bb2"; did you mean "big-bench"?`},
		{"another name in a flag", "", "bigbench_2", `no environment named "bigbench_2"; did you mean "big-bench"?`},
		{"the name of one that is not here", "environment: swe\n", "", `no environment named "swe"; it is the name of hermes-agent's SWE environment, which is not available here`},
		{"a misspelt one doesn't lead to advice about its fields", "environment: rosw\nenv: {dataset_name: a/b, prompt_field: q}\n", "", `no environment named "rosw"; did you mean "rows"?`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var flags []string
			if tt.flag != "" {
				flags = []string{"environment=" + tt.flag}
			}
			_, err := loadText(t, inferOptions(), tt.yaml+server, flags...)
			var problems *Error
			require.ErrorAs(t, err, &problems)
			require.Len(t, problems.Problems, 1)
			require.Contains(t, problems.Problems[0].Message, tt.want)
		})
	}
}

func TestLoad_RefusesAFileThatIsNoConfigurationInOneLine(t *testing.T) {
	for _, tt := range []struct{ name, yaml, want string }{
		{"flat fields", "group_size: 4\ntokenizer_name: a\ndataset: {split: train}\n", "write a file for the environment prompts"},
		{"a file of the compressor", "tokenizer: {name: a}\nsummarization: {model: b}\n", "pass it to the command compress"},
		{"other sections", "env_config: {group_size: 4}\nserver_configs: [{name: a}]\n", "write the fields of env_config below env"},
		{"anything else", "network: {port: 1}\nwallets: []\n", "this file has none of them"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := loadText(t, options(), tt.yaml)
			var problems *Error
			require.ErrorAs(t, err, &problems)
			require.Len(t, problems.Problems, 1)
			require.Contains(t, problems.Problems[0].Message, tt.want)
		})
	}
}

func TestLoad_TellsWhatToUseInPlaceOfABackendThatIsNotHere(t *testing.T) {
	for _, word := range []string{"modal", "daytona", "vercel_sandbox"} {
		o := options()
		o.Backends = []string{"local", "docker"}
		_, err := loadText(t, o, "environment: terminal-test\nenv: {terminal_backend: "+word+"}\n"+server)
		require.ErrorContains(t, err, `"`+word+`" is not available in this build; change it to docker, or pass --env.terminal_backend docker (there are local, docker)`)
		_, err = loadText(t, o, "environment: terminal-test\nenv: {terminal_backend: "+word+"}\n"+server, "env.terminal_backend=docker")
		require.NoError(t, err)
	}
}

func TestLoad_TakesANullAddressAsTheDefault(t *testing.T) {
	o := options()
	o.LookupEnv = vars("OPENAI_API_KEY", "k")
	r, err := loadText(t, o, "environment: terminal-test\nopenai: {model_name: m, base_url: null}\n")
	require.NoError(t, err)
	require.Equal(t, "https://api.openai.com/v1", r.Servers[0].BaseURL)
}

func TestLoad_ADistributionReplacesTheEnvironmentsToolsets(t *testing.T) {
	o := options()
	o.Environments = []Environment{{Name: "bench", Defaults: func(c *Config) { c.Env.EnabledToolsets = []string{"terminal"} }}}
	r, err := loadText(t, o, "environment: bench\nenv: {distribution: default}\n"+server)
	require.NoError(t, err)
	require.Nil(t, r.Env.EnabledToolsets)
	_, err = loadText(t, o, "environment: bench\nenv: {distribution: default, enabled_toolsets: [file]}\n"+server)
	require.ErrorContains(t, err, "can't be combined with env.enabled_toolsets")
}

func TestLoad_WarnsOfServersOfDifferentModels(t *testing.T) {
	r, err := loadText(t, options(), "environment: terminal-test\nopenai:\n- {base_url: 'http://h1/v1', model_name: a}\n- {base_url: 'http://h2/v1', model_name: b}\n")
	require.NoError(t, err)
	require.Len(t, r.Warnings, 1)
	require.Contains(t, r.Warnings[0], `openai[1].model_name: "b" is another model than "a"`)
}
