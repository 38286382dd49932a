package prompts_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"github.com/hermes-env/hermes-env/agentloop/model/modeltest"
	"github.com/hermes-env/hermes-env/benchmarks/prompts"
	"github.com/hermes-env/hermes-env/env"
	"github.com/hermes-env/hermes-env/env/cli"
)

// asProgram is set for a child process of this test binary that is to be hermes-env.
const asProgram = "HERMES_ENV_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		cli.Main(prompts.Definition())
	}
	os.Exit(m.Run())
}

// workplace is a directory with the files of a test, in which hermes-env is run.
type workplace struct {
	t   *testing.T
	dir string
	env map[string]string
}

func newWorkplace(t *testing.T, files map[string]string) *workplace {
	dir := t.TempDir()
	t.Chdir(dir)
	w := &workplace{t: t, dir: dir, env: map[string]string{}}
	for name, text := range files {
		w.write(name, text)
	}
	return w
}

func (w *workplace) write(name, text string) {
	w.t.Helper()
	path := filepath.Join(w.dir, name)
	require.NoError(w.t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(w.t, os.WriteFile(path, []byte(text), 0o644))
}

func (w *workplace) run(args ...string) (code int, output string) {
	w.t.Helper()
	var out bytes.Buffer
	app := cli.App{
		Environments: []env.Definition{prompts.Definition()}, Stdin: strings.NewReader(""), Stdout: &out, Stderr: &out,
		Getenv: func(name string) (string, bool) { v, ok := w.env[name]; return v, ok },
	}
	code = app.Run(context.Background(), args)
	return code, out.String()
}

// echo answers every prompt with the word behind "say " in it.
func echo(r *modeltest.Request) modeltest.Reply {
	_, word, _ := strings.Cut(r.Prompt(), "say ")
	return modeltest.Text(strings.TrimSpace(word))
}

// rollouts reads the records of a run.
func (w *workplace) rollouts(run string) []gjson.Result {
	w.t.Helper()
	raw, err := os.ReadFile(filepath.Join(w.dir, run, "rollouts.jsonl"))
	require.NoError(w.t, err)
	var list []gjson.Result
	for _, line := range strings.Split(strings.TrimSpace(string(raw)), "\n") {
		require.True(w.t, gjson.Valid(line), line)
		list = append(list, gjson.Parse(line))
	}
	return list
}
