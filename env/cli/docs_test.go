package cli_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/benchmarks"
	"github.com/hermes-env/hermes-env/env/config"
)

func TestDocs_EveryFlagOfTheConfigurationExists(t *testing.T) {
	known := []string{"env.problems", "env.digits", "env.replies"} // of the examples
	add := func(fields []config.Field, err error) {
		require.NoError(t, err)
		for _, f := range fields {
			known = append(known, f.Flag())
		}
	}
	add(config.ServerFields())
	for _, d := range benchmarks.All() {
		add(config.Environment{Name: d.Name, Own: d.NewOwn, Defaults: func(c *config.Config) { d.SetDefaults(&c.Env, c.Own) }}.Fields())
	}
	root := filepath.Join("..", "..")
	files, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	require.NoError(t, err)
	configs, err := filepath.Glob(filepath.Join(root, "configs", "*.yaml"))
	require.NoError(t, err)
	flag := regexp.MustCompile(`--((?:env|openai)\.[a-z_]+(?:\.[a-z_]+)*)`)
	for _, file := range append(append(files, configs...), filepath.Join(root, "README.md")) {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, match := range flag.FindAllSubmatch(text, -1) {
			require.True(t, slices.Contains(known, string(match[1])), "%s: there is no flag --%s", file, match[1])
		}
	}
}
