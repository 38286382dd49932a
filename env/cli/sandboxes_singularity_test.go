package cli_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/env/cli"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox/docker/dockertest"
)

func TestWithoutApptainerTheSingularityBackendSaysWhatToInstall(t *testing.T) {
	p := newProgram(t)
	p.write("quick.yaml", quickstart)
	t.Setenv("PATH", t.TempDir())
	code, _, stderr := p.run("evaluate", "--config", "quick.yaml", "--env.terminal_backend", "singularity")
	require.Equal(t, cli.ExitSandbox, code)
	require.Contains(t, stderr, "apptainer.org")
}

// fakeApptainer puts the stand-in into this process's PATH and returns the directory
// with a file for each of its instances. It has to be called before the test changes
// its directory.
func fakeApptainer(t *testing.T) (state string) {
	t.Helper()
	script, err := os.ReadFile(filepath.FromSlash("../../toolcontext/sandbox/singularity/testdata/apptainer"))
	require.NoError(t, err)
	dir := t.TempDir()
	bin := filepath.Join(dir, "bin")
	state = filepath.Join(dir, "state")
	require.NoError(t, os.Mkdir(bin, 0o700))
	require.NoError(t, os.Mkdir(state, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(bin, "apptainer"), script, 0o700))
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	t.Setenv("APPTAINER_FAKE_STATE", state)
	return state
}

func TestTheTestEnvironmentRunsInInstances(t *testing.T) {
	state := fakeApptainer(t)
	dir := t.TempDir()
	image := filepath.Join(dir, "image.sif")
	require.NoError(t, os.WriteFile(image, nil, 0o600))
	c := exec.Command(dockertest.BuildServer(t, dir), "evaluate", "--run-dir", "run", "--environment", "terminal-test", "--env.eval_items=all",
		"--openai.base_url=replay:", "--openai.model_name=replay", "--env.terminal_backend", "singularity", "--env.singularity_image", image)
	c.Dir = dir
	c.Env = append(os.Environ(), "TMPDIR="+dir)
	out, err := c.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "4 scored")
	left, err := os.ReadDir(state)
	require.NoError(t, err)
	require.Empty(t, left, "instances left behind")
}
