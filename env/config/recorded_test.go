package config

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLoad_TakesKeysThatARunDidNotRecord(t *testing.T) {
	const remote, local = "https://models.example.com/v1", "http://127.0.0.1:8000/v1"
	for name, test := range map[string]struct {
		address   string
		flags     []Flag
		vars      map[string]string
		key, want string
	}{
		"nothing for this machine": {address: local},
		"the usual variable":       {address: remote, vars: map[string]string{"OPENAI_API_KEY": "sk-1"}, key: "sk-1"},
		"a flag with the key":      {address: remote, flags: []Flag{{Name: "openai.api_key", Value: "sk-2"}}, key: "sk-2"},
		"a flag with the variable": {address: remote, flags: []Flag{{Name: "openai.api_key_env", Value: "MINE"}}, vars: map[string]string{"MINE": "sk-3", "OPENAI_API_KEY": "sk-1"}, key: "sk-3"},
		"no key": {address: remote, want: "openai.api_key: the key for models.example.com was written out in the configuration, and runs do not record keys: " +
			"set OPENAI_API_KEY in the environment or in .env, or name another variable with --openai.api_key_env"},
		"another server": {address: remote, flags: []Flag{{Name: "openai.base_url", Value: local}}},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := Load(Options{File: "run/run.json", Recorded: true, Flags: test.flags, WorkDir: t.TempDir(),
				Text:         []byte(`{"environment":"terminal-test","openai":{"base_url":"` + test.address + `","model_name":"m","api_key":"[redacted]"}}`),
				Environments: []Environment{{Name: "terminal-test"}},
				LookupEnv:    func(name string) (string, bool) { v, ok := test.vars[name]; return v, ok }})
			if test.want != "" {
				require.ErrorContains(t, err, test.want)
				require.NotContains(t, err.Error(), "run.json")
				return
			}
			require.NoError(t, err)
			require.Equal(t, test.key, r.Config.Servers[0].APIKey.Reveal())
		})
	}
}

func TestLoad_NamesTheFlagOfASecretThatARunDidNotRecord(t *testing.T) {
	type own struct {
		Key   Secret `yaml:"key" help:"a key"`
		Judge Server `yaml:"judge" help:"a judge"`
	}
	_, err := Load(Options{File: "run.json", Recorded: true, WorkDir: t.TempDir(),
		Text:         []byte(`{"environment":"e","env":{"key":"[redacted]","judge":{"base_url":"https://judge.example.com/v1","model_name":"m","api_key":"[redacted]"}},"openai":{"base_url":"http://localhost:1","model_name":"m"}}`),
		Environments: []Environment{{Name: "e", Own: func() any { return &own{Judge: NewServer()} }}}})
	require.ErrorContains(t, err, "env.key: it was written out in the configuration, and runs do not record secrets: pass --env.key")
	require.ErrorContains(t, err, "env.judge.api_key: the key for judge.example.com was written out")
	require.ErrorContains(t, err, "with --env.judge.api_key_env")
}
