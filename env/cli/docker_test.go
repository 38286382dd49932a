package cli_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"github.com/hermes-env/hermes-env/env/cli"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox/docker/dockertest"
)

func TestWithoutAnEngineTheDockerBackendSaysHowToGetOne(t *testing.T) {
	p := newProgram(t)
	p.write("quick.yaml", quickstart)
	p.env["DOCKER_HOST"] = "unix:///no/such/socket"
	code, _, stderr := p.run("evaluate", "--config", "quick.yaml", "--env.terminal_backend", "docker")
	require.Equal(t, cli.ExitSandbox, code)
	require.Contains(t, stderr, "no container engine answers")
	require.Contains(t, stderr, "DOCKER_HOST")
	code, stdout, stderr := p.run("cleanup")
	require.Equal(t, cli.ExitOK, code, stderr)
	require.Contains(t, stdout, "no container engine answers")
}

// ownedBy returns the containers of a process.
func ownedBy(t *testing.T, pid int) []string {
	return dockertest.Containers(t, "hermes-env.owner-pid="+strconv.Itoa(pid))
}

func TestTheTestEnvironmentRunsInContainers(t *testing.T) {
	dockertest.RequireEngine(t)
	dockertest.MakeImage(t)
	dir := t.TempDir()
	binary := dockertest.BuildServer(t, dir)
	inContainers := []string{"--environment", "terminal-test", "--env.eval_items=all", "--env.attempts=2", "--openai.base_url=replay:", "--openai.model_name=replay",
		"--env.terminal_backend", "docker", "--env.docker_image", dockertest.Image}
	program := func(args ...string) *exec.Cmd {
		c := exec.Command(binary, args...)
		c.Dir = dir
		c.Env = append(os.Environ(), "OPENAI_API_KEY=sk-secret-of-the-harness")
		return c
	}
	c := program(append([]string{"evaluate", "--run-dir", "run"}, inContainers...)...)
	out, err := c.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "8 scored")
	require.Empty(t, ownedBy(t, c.Process.Pid), "containers left behind")
	raw, err := os.ReadFile(filepath.Join(dir, "run", "rollouts.jsonl"))
	require.NoError(t, err)
	require.NotContains(t, string(raw), "sk-secret-of-the-harness")
	scored := 0
	for line := range strings.Lines(string(raw)) {
		if gjson.Get(line, "outcome").String() == "scored" {
			scored++
		}
	}
	require.Equal(t, 8, scored)

	// Killed while containers run: the next start removes them.
	c = program(append([]string{"evaluate", "--run-dir", "killed", "--env.attempts=200"}, inContainers...)...)
	require.NoError(t, c.Start())
	for len(ownedBy(t, c.Process.Pid)) == 0 {
		time.Sleep(20 * time.Millisecond)
	}
	require.NoError(t, c.Process.Kill())
	require.Error(t, c.Wait())
	left := ownedBy(t, c.Process.Pid)
	require.NotEmpty(t, left)
	require.Subset(t, dockertest.Containers(t, "hermes-env.run=killed"), left)
	// The engine may still be making one that was asked for at that instant.
	for tries := 0; tries == 0 || len(ownedBy(t, c.Process.Pid)) > 0 && tries < 20; tries++ {
		out, err = program("cleanup").CombinedOutput()
		require.NoError(t, err, "%s", out)
		time.Sleep(100 * time.Millisecond)
	}
	require.Empty(t, ownedBy(t, c.Process.Pid), "%s", out)
}
