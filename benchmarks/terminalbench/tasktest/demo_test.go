package tasktest_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"github.com/hermes-env/hermes-env/benchmarks"
	"github.com/hermes-env/hermes-env/benchmarks/terminalbench/tasktest"
	"github.com/hermes-env/hermes-env/env/cli"
	"github.com/hermes-env/hermes-env/env/dataset/hub/hubtest"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox/docker/dockertest"
)

// program runs hermes-env inside the test, with the server for containers from a
// binary of its own.
type program struct {
	t   *testing.T
	dir string
	env map[string]string
}

// server is built once for all tests of the package.
var server = struct{ dir, path string }{}

func TestMain(m *testing.M) {
	code := m.Run()
	if server.dir != "" {
		_ = os.RemoveAll(server.dir)
	}
	os.Exit(code)
}

func newProgram(t *testing.T) *program {
	tasktest.MakeImages(t)
	if server.path == "" {
		dir, err := os.MkdirTemp("", "hermes-env-test-")
		require.NoError(t, err)
		server.dir, server.path = dir, dockertest.BuildServer(t, dir)
	}
	p := &program{t: t, dir: t.TempDir(), env: map[string]string{}}
	p.env["XDG_DATA_HOME"] = filepath.Join(p.dir, "data")
	t.Setenv("XDG_CACHE_HOME", filepath.Join(p.dir, "cache"))
	t.Setenv("HF_HOME", filepath.Join(p.dir, "hf"))
	p.env["HERMES_ENV_SANDBOX_BINARY"] = server.path
	if host, ok := os.LookupEnv("DOCKER_HOST"); ok {
		p.env["DOCKER_HOST"] = host
	}
	t.Cleanup(func() {
		require.Empty(t, dockertest.Containers(t, "hermes-env.owner-pid="+strconv.Itoa(os.Getpid())), "containers left behind")
	})
	return p
}

func (p *program) run(args ...string) (code int, stdout, stderr string) {
	p.t.Helper()
	var out, errs bytes.Buffer
	app := cli.App{
		Environments: benchmarks.All(), Stdout: &out, Stderr: &errs,
		Getenv: func(name string) (string, bool) { v, ok := p.env[name]; return v, ok },
	}
	code = app.Run(context.Background(), args)
	return code, out.String(), errs.String()
}

func (p *program) path(name string) string { return filepath.Join(p.dir, name) }

// fields returns one field of every line of a file by item.
func (p *program) fields(name, field string) map[string][]string {
	p.t.Helper()
	raw, err := os.ReadFile(p.path(name))
	require.NoError(p.t, err)
	found := map[string][]string{}
	for line := range strings.Lines(string(raw)) {
		item := gjson.Get(line, "item_id").String()
		found[item] = append(found[item], gjson.Get(line, field).String())
	}
	return found
}

func TestTheDemonstrationTasksAreSound(t *testing.T) {
	p := newProgram(t)
	code, stdout, stderr := p.run("validate", "--environment", "tasks", "--env.tasks", tasktest.Folder(t), "--run-dir", p.path("out"), "--env.max_eval_workers", "6")
	require.Equal(t, cli.ExitOK, code, "%s\n%s", stdout, stderr)
	require.Contains(t, stdout, "12 sound")
	for item, verdict := range p.fields("out/validations.jsonl", "verdict") {
		require.Equal(t, []string{"sound"}, verdict, item)
	}
}

func TestTheFaultOfEveryBrokenTaskIsFound(t *testing.T) {
	p := newProgram(t)
	// The coin of the flaky one lands on the same side 16 times in a row once in 32,768 runs.
	code, stdout, stderr := p.run("validate", "--environment", "tasks", "--env.tasks", tasktest.BrokenFolder(t), "--run-dir", p.path("flaky"),
		"--env.task_filter", "flaky-verifier", "--repeat", "16", "--env.max_eval_workers", "6")
	require.Equal(t, cli.ExitUnsound, code, "%s\n%s", stdout, stderr)
	require.Contains(t, stdout, "1 flaky")
	code, stdout, stderr = p.run("validate", "--environment", "tasks", "--env.tasks", tasktest.BrokenFolder(t), "--run-dir", p.path("out"),
		"--env.skip_tasks", "flaky-verifier", "--env.max_eval_workers", "6")
	require.Equal(t, cli.ExitUnsound, code, "%s\n%s", stdout, stderr)
	require.Equal(t, map[string][]string{
		"crashing-verifier": {"error"}, "wrong-solution": {"broken"}, "solved-already": {"trivial"}, "no-solution": {"unverifiable"}, "image-fails": {"error"},
	}, p.fields("out/validations.jsonl", "verdict"))
	require.Contains(t, stdout, "FAILED: answer.txt says 'finished', want 'done'", "the end of the verifier's output is shown")
	require.Contains(t, stdout, "the lamp store is closed", "the end of the build's output is shown")

	code, _, stderr = p.run("evaluate", "--environment", "tasks", "--env.tasks", tasktest.BrokenFolder(t), "--agent", "nop", "--env.skip_unsound", "--run-dir", p.path("rest"))
	require.Equal(t, cli.ExitOK, code, stderr)
	require.Equal(t, map[string][]string{"no-solution": {"0"}}, p.fields("rest/rollouts.jsonl", "score"))
}

func TestAModelWorksOnTheDemonstrationTasks(t *testing.T) {
	p := newProgram(t)
	code, stdout, stderr := p.run("evaluate", "--environment", "tasks", "--env.tasks", tasktest.Folder(t), "--env.attempts", "2", "--env.max_eval_workers", "6",
		"--openai.base_url", "replay:"+tasktest.ReplayScript(t), "--openai.model_name", "replay", "--run-dir", p.path("out"))
	require.Equal(t, cli.ExitOK, code, "%s\n%s", stdout, stderr)
	got := p.fields("out/rollouts.jsonl", "score")
	require.Len(t, got, 12)
	for item, want := range map[string]string{
		"built-image": "1 1", "modes-and-links": "0 1", "needle-in-the-flood": "1 1", "recover-chapter": "0 1",
		"repair-script": "0 1", "rewrite-settings": "0 1", "serve-status-page": "1 1", "three-reports": "0.6667 1",
		"two-steps": "0.5 1", "unprivileged-keeper": "1 1", "wait-for-batch": "0 1", "without-network": "0 1",
	} {
		require.ElementsMatch(t, strings.Fields(want), got[item], item)
	}
}

func TestTheTasksComeFromADatasetOnTheHubAndThenFromItsCache(t *testing.T) {
	p := newProgram(t)
	path := p.path("train-00000-of-00001.parquet")
	names := tasktest.WriteParquet(t, tasktest.Folder(t), path)
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	hub := hubtest.Start(t)
	hub.Put("dataset", "hermes-env/demo-tasks", "main", map[string][]byte{
		"README.md":                         []byte("---\nconfigs:\n- config_name: default\n  data_files:\n  - split: train\n    path: data/train-*\n---\nTasks.\n"),
		"data/train-00000-of-00001.parquet": content,
	})
	t.Setenv("HF_ENDPOINT", hub.URL)
	evaluate := func(dir string, args ...string) map[string][]string {
		code, stdout, stderr := p.run(append([]string{"evaluate", "--environment", "tasks", "--env.dataset_name", "hermes-env/demo-tasks",
			"--env.max_eval_workers", "6", "--run-dir", p.path(dir)}, args...)...)
		require.Equal(t, cli.ExitOK, code, "%s\n%s", stdout, stderr)
		return p.fields(dir+"/rollouts.jsonl", "score")
	}
	replay := []string{"--openai.base_url", "replay:" + tasktest.ReplayScript(t), "--openai.model_name", "replay"}
	online := evaluate("online", replay...)
	require.Len(t, online, len(names))
	for _, name := range names {
		if name != "unprivileged-keeper" && name != "without-network" { // rows have no users and networks
			require.Equal(t, []string{"1"}, online[name], name)
		}
	}
	require.Positive(t, hub.Count("GET", "train-00000"))

	// Nothing is asked of the hub any more.
	t.Setenv("HF_HUB_OFFLINE", "1")
	t.Setenv("HF_ENDPOINT", "http://127.0.0.1:1")
	offline := evaluate("offline", "--agent", "nop", "--env.task_filter", "rewrite-settings,three-reports")
	require.Equal(t, map[string][]string{"rewrite-settings": {"0"}, "three-reports": {"0"}}, offline)

	code, _, stderr := p.run("evaluate", "--environment", "tasks", "--env.dataset_name", "hermes-env/demo-tasks", "--agent", "oracle", "--run-dir", p.path("oracle"),
		"--env.task_filter", "rewrite-settings")
	require.NotEqual(t, cli.ExitOK, code)
	require.Contains(t, stderr, "solution")
}
