package cli_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/env/cli"
	"github.com/hermes-env/hermes-env/internal/owner"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox/ssh/sshtest"
)

func TestCleanupSaysWhatItLacks(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		code int
		want string
	}{
		"a user without a machine":  {[]string{"--ssh-user", "me"}, cli.ExitUsage, "--ssh-host"},
		"a machine that is none":    {[]string{"--ssh-host", "me@host"}, cli.ExitSandbox, "env.ssh_user"},
		"a machine not to be found": {[]string{"--ssh-host", "host.invalid", "--ssh-key", "key"}, cli.ExitSandbox, "ssh (host.invalid)"},
		"a configuration of none":   {[]string{"--config", "missing.yaml"}, cli.ExitUsage, "missing.yaml"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newProgram(t)
			p.env["HOME"] = filepath.Join(p.dir, "home")
			p.env["DOCKER_HOST"] = "unix:///nonexistent/docker.sock"
			code, _, stderr := p.run(append([]string{"cleanup"}, c.args...)...)
			require.Equal(t, c.code, code, stderr)
			require.Contains(t, stderr, c.want)
		})
	}
}

func TestCleanupCountsBeforeItRemoves(t *testing.T) {
	state := fakeApptainer(t)
	p := newProgram(t)
	p.env["DOCKER_HOST"] = "unix:///nonexistent/docker.sock"
	t.Setenv("TMPDIR", t.TempDir())
	left := filepath.Join(state, "1-1-0123456789ab-"+owner.This().Place+"-left")
	require.NoError(t, os.WriteFile(left, []byte("/nonexistent\n"), 0o600))
	code, stdout, stderr := p.run("cleanup", "--dry-run")
	require.Equal(t, cli.ExitOK, code, stderr)
	require.Contains(t, stdout, "would remove 1 singularity sandboxes")
	require.Contains(t, stdout, "would remove 0 local sandboxes")
	require.Contains(t, stdout, "no container engine answers")
	require.FileExists(t, left)
	code, stdout, stderr = p.run("cleanup")
	require.Equal(t, cli.ExitOK, code, stderr)
	require.Contains(t, stdout, "removed 1 singularity sandboxes")
	require.NoFileExists(t, left)
}

func TestCleanupReachesMachinesThatAreNamed(t *testing.T) {
	m := sshtest.Start(t)
	p := newProgram(t)
	p.env["DOCKER_HOST"] = "unix:///nonexistent/docker.sock"
	p.env["HOME"] = m.Home
	t.Setenv("TMPDIR", t.TempDir())
	boxes := filepath.Join(m.Cache, "boxes")
	dead := "1-1-0123456789ab-" + owner.This().Place + "-left"
	foreign := "1-1-0123456789ab-0123456789ab-left"
	for _, name := range []string{dead, foreign} {
		require.NoError(t, os.MkdirAll(filepath.Join(boxes, name, "work"), 0o700))
	}
	flags := m.Flags("--ssh-", "-")
	code, stdout, stderr := p.run(append([]string{"cleanup", "--dry-run"}, flags...)...)
	require.Equal(t, cli.ExitOK, code, stderr)
	require.Contains(t, stdout, "would remove 1 ssh (127.0.0.1) sandboxes of dead runs; 1 belong to runs on other machines")
	require.DirExists(t, filepath.Join(boxes, dead))
	p.write("run.yaml", quickstart)
	code, stdout, stderr = p.run(append([]string{"cleanup", "--config", "run.yaml"}, flags...)...)
	require.Equal(t, cli.ExitOK, code, stderr)
	require.Contains(t, stdout, "removed 1 ssh (127.0.0.1) sandboxes of dead runs")
	require.NoDirExists(t, filepath.Join(boxes, dead))
	require.DirExists(t, filepath.Join(boxes, foreign))
}
