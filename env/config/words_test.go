package config_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/env/config"
)

type wordsOwn struct {
	TaskFilter config.Words `yaml:"task_filter" help:"names"`
}

func TestWordsAreAListOrOneTextWithCommas(t *testing.T) {
	for name, test := range map[string]struct {
		yaml  string
		flags []config.Flag
		want  config.Words
		fails string
	}{
		"a list":             {yaml: "[a, 'b*']", want: config.Words{"a", "b*"}},
		"one text":           {yaml: `"a, b* ,,c"`, want: config.Words{"a", "b*", "c"}},
		"a word":             {yaml: "a", want: config.Words{"a"}},
		"null":               {yaml: "null"},
		"a flag":             {yaml: "a", flags: []config.Flag{{Name: "env.task_filter", Value: "*git*,x"}}, want: config.Words{"*git*", "x"}},
		"a flag with a list": {yaml: "a", flags: []config.Flag{{Name: "env.task_filter", Value: `["x"]`}}, want: config.Words{"x"}},
		"a number":           {yaml: "7", fails: "want a list of text"},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "c.yaml")
			require.NoError(t, os.WriteFile(file, []byte("environment: e\nagent: nop\nenv:\n  task_filter: "+test.yaml+"\n"), 0o600))
			own := &wordsOwn{}
			got, err := config.Load(config.Options{File: file, Flags: test.flags, Environments: []config.Environment{{Name: "e", Own: func() any { return own }}}})
			if test.fails != "" {
				require.ErrorContains(t, err, test.fails)
				return
			}
			require.NoError(t, err)
			require.Equal(t, test.want, got.Own.(*wordsOwn).TaskFilter)
		})
	}
}
