package cli_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/env/cli"
)

func TestRun_RefusesFlagsWithoutValueAndSecondConfigurations(t *testing.T) {
	x := newExaminer(t)
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"evaluate", "--config"}, "flag --config needs a value"},
		{[]string{"evaluate", "-c"}, "flag -c needs a value"},
		{[]string{"evaluate", "--config", "a.yaml", "--run-dir"}, "flag --run-dir needs a value"},
		{[]string{"evaluate", "--env.seed"}, "flag --env.seed needs a value"},
		{[]string{"evaluate", "--config", "a.yaml", "--config=b.yaml"}, "--config is given 2 times (a.yaml, b.yaml); a run has one configuration file"},
		{[]string{"config", "-c", "a.yaml", "-c", "b.yaml"}, "--config is given 2 times (a.yaml, b.yaml)"},
	} {
		code, _, stderr := x.run(c.args...)
		require.Equal(t, cli.ExitUsage, code, c.args)
		require.Contains(t, stderr, c.want)
	}
	code, _, stderr := x.run("evaluate", "--agent", "oracle", "--run-dir", "out", "--json")
	require.Equal(t, cli.ExitOK, code, "a flag without a value may come last: %s", stderr)
}
