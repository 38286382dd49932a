package main

import (
	"bytes"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/env"
	"github.com/hermes-env/hermes-env/env/cli"
)

func TestTheExampleIsASoundEnvironmentWithAllCommands(t *testing.T) {
	t.Chdir(t.TempDir())
	run := func(args ...string) (int, string) {
		var out, errs bytes.Buffer
		app := cli.App{Name: "arithmetic", Environments: []env.Definition{definition()}, Stdout: &out, Stderr: &errs, Getenv: os.LookupEnv}
		return app.Run(t.Context(), args), out.String() + errs.String()
	}
	code, output := run("evaluate", "--agent", "oracle", "--env.problems", "7")
	require.Zero(t, code, output)
	require.Contains(t, output, "1.000 ± 0.000 (standard error over 7 items)")
	code, output = run("evaluate", "--agent", "nop")
	require.Zero(t, code, output)
	require.Contains(t, output, "0.000 ± 0.000 (standard error over 5 items)")
	code, output = run("envs", "arithmetic")
	require.Zero(t, code, output)
	require.Contains(t, output, "digits of each factor")
	code, output = run("evaluate", "--env.digits", "12")
	require.Equal(t, 2, code)
	require.Contains(t, output, "digits")
}
