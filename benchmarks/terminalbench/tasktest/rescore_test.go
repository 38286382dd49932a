package tasktest_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/env/cli"
)

// The network was down while tests wanted to install their tools: the agents' work
// is not lost.
func TestRolloutsWhoseTestsHadNoToolsAreScoredAgain(t *testing.T) {
	p := newProgram(t)
	files := map[string]string{
		"task.toml":              "[environment]\ndocker_image = \"hermes-env-demo:busybox\"\nallow_internet = false\n",
		"instruction.md":         "Write 42 into /app/answer.\n",
		"environment/Dockerfile": "FROM hermes-env-demo:busybox\n",
		"solution/solve.sh":      "#!/bin/sh\necho 42 > /app/answer\n",
		"tests/test.sh":          "#!/bin/sh\necho 'curl: (6) Could not resolve host: astral.sh'\necho 0 > /logs/verifier/reward.txt\n",
	}
	write := func(name, content string) {
		path := p.path(filepath.Join("tasks", "answer", name))
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(content), 0o755))
	}
	for name, content := range files {
		write(name, content)
	}
	code, stdout, stderr := p.run("evaluate", "--environment", "tasks", "--env.tasks", p.path("tasks"), "--agent", "oracle", "--env.attempts", "1",
		"--env.retries", "0", "--env.keep_sandbox_diff", "--run-dir", p.path("run"))
	require.Equal(t, cli.ExitSandbox, code, "%s%s", stdout, stderr)
	require.Equal(t, []string{"sandbox_error"}, p.fields("run/rollouts.jsonl", "outcome")["answer"])

	write("tests/test.sh", "#!/bin/sh\n[ \"$(cat /app/answer)\" = 42 ] && echo 1 > /logs/verifier/reward.txt\n")
	code, stdout, stderr = p.run("rescore", p.path("run"), "--run-dir", p.path("again"))
	require.Equal(t, cli.ExitOK, code, "%s%s", stdout, stderr)
	require.Contains(t, stderr, "1 of 1 rollouts of "+p.path("run")+" can be scored again")
	require.Equal(t, []string{"scored"}, p.fields("again/rollouts.jsonl", "outcome")["answer"])
	require.Equal(t, []string{"1"}, p.fields("again/rollouts.jsonl", "score")["answer"])
}
