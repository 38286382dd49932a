package cli_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/env/cli"
)

func TestOnlyKnownOutcomesOfAnEarlierSessionAreTriedAgain(t *testing.T) {
	p := newProgram(t)
	p.write("quick.yaml", quickstart)
	code, _, stderr := p.run("evaluate", "--config", "quick.yaml", "--retry-outcome", "sandbox_error")
	require.Equal(t, cli.ExitUsage, code)
	require.Contains(t, stderr, "add --resume and --run-dir")
	code, _, stderr = p.run("evaluate", "--config", "quick.yaml", "--resume", "--run-dir", "run", "--retry-outcome", "sandbox_error,failed")
	require.Equal(t, cli.ExitUsage, code)
	require.Contains(t, stderr, `unknown outcome "failed"; there are scored, limit`)
	code, _, stderr = p.run("evaluate", "--config", "quick.yaml", "--run-dir", "run")
	require.Equal(t, cli.ExitOK, code, stderr)
	code, stdout, stderr := p.run("evaluate", "--config", "quick.yaml", "--run-dir", "run", "--resume", "--retry-outcome", "scored")
	require.Equal(t, cli.ExitOK, code, stderr)
	require.Contains(t, stderr, "of an earlier session are run again")
	require.Contains(t, stdout, "scored")
}

func TestRescoreSaysWhatItCanNotDo(t *testing.T) {
	p := newProgram(t)
	p.write("quick.yaml", quickstart)
	code, _, stderr := p.run("evaluate", "--config", "quick.yaml", "--run-dir", "run")
	require.Equal(t, cli.ExitOK, code, stderr)
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"rescore", "nowhere"}, "not a run directory"},
		{[]string{"rescore", "run"}, "terminal-test keeps nothing that could be scored again"},
		{[]string{"rescore", "run", "--agent", "oracle"}, "rescore takes no --agent"},
		{[]string{"rescore", "run", "--resume"}, "add --run-dir DIR"},
		{[]string{"rescore", "run", "--run-dir", "./run"}, "name another"},
	} {
		code, _, stderr := p.run(test.args...)
		require.Equal(t, cli.ExitUsage, code, test.args)
		require.Contains(t, stderr, test.want, test.args)
	}
}
