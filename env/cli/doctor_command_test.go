package cli_test

import (
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"github.com/hermes-env/hermes-env/agentloop/model/modeltest"
	"github.com/hermes-env/hermes-env/env/cli"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox/docker/dockertest"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox/ssh/sshtest"
)

// nowhere is an engine that is not there.
const nowhere = "unix:///no/such/socket"

// check returns one finding of doctor --json as JSON.
func check(t *testing.T, stdout, part, name string) gjson.Result {
	t.Helper()
	require.True(t, gjson.Valid(stdout), stdout)
	for _, f := range gjson.Get(stdout, "checks").Array() {
		if f.Get("part").String() == part && f.Get("check").String() == name {
			return f
		}
	}
	require.Fail(t, "no such check", "%s %s in %s", part, name, stdout)
	return gjson.Result{}
}

func TestDoctorLooksAtTheMachineOfSSHSandboxes(t *testing.T) {
	m, server := sshtest.Start(t), dockertest.BuildServer(t, t.TempDir())
	p := newProgram(t)
	p.write("quick.yaml", quickstart)
	p.env["DOCKER_HOST"], p.env["HOME"], p.env["HERMES_ENV_SANDBOX_BINARY"] = nowhere, m.Home, server
	args := append([]string{"doctor", "--json", "--config", "quick.yaml", "--env.terminal_backend", "ssh"}, m.Flags("--env.ssh_", "_")...)
	code, stdout, stderr := p.run(args...)
	require.Equal(t, cli.ExitOK, code, stdout+stderr)
	for _, name := range []string{"login", "machine", "server", "directory", "programs", "sessions", "leftovers", "start"} {
		require.Equal(t, "ok", check(t, stdout, "ssh", name).Get("level").String(), name)
	}
	require.Contains(t, check(t, stdout, "ssh", "sessions").Get("found").String(), strconv.Itoa(sshtest.MaxSessions)+" on a connection")

	require.NoError(t, os.Truncate(m.KnownHosts, 0))
	code, stdout, _ = p.run(args...)
	require.Equal(t, cli.ExitProblems, code, stdout)
	require.Contains(t, check(t, stdout, "ssh", "host key").Get("found").String(), "SHA256:")
}

func TestDoctorLooksAtAnInstallationOfApptainer(t *testing.T) {
	server := dockertest.BuildServer(t, t.TempDir())
	fakeApptainer(t)
	p := newProgram(t)
	p.write("quick.yaml", quickstart)
	p.write("image.sif", "")
	p.env["DOCKER_HOST"], p.env["HERMES_ENV_SANDBOX_BINARY"] = nowhere, server
	t.Setenv("TMPDIR", t.TempDir())
	args := []string{"doctor", "--json", "--config", "quick.yaml", "--env.terminal_backend", "singularity", "--env.singularity_image", "image.sif"}
	code, stdout, stderr := p.run(args...)
	require.Equal(t, cli.ExitOK, code, stdout+stderr)
	for _, name := range []string{"command", "image", "start", "leftovers"} {
		require.Equal(t, "ok", check(t, stdout, "singularity", name).Get("level").String(), name)
	}
	t.Setenv("APPTAINER_FAKE_VERSION", "1.0.0")
	code, stdout, _ = p.run(args...)
	require.Equal(t, cli.ExitProblems, code, stdout)
	require.Equal(t, "problem", check(t, stdout, "singularity", "command").Get("level").String())
	t.Setenv("PATH", t.TempDir())
	_, stdout, _ = p.run(args...)
	require.Contains(t, check(t, stdout, "singularity", "command").Get("fix").String(), "apptainer")
}

func TestDoctorNeedsNoEngineUnlessTheConfigurationDoes(t *testing.T) {
	p := newProgram(t)
	p.write("quick.yaml", quickstart)
	p.env["DOCKER_HOST"] = nowhere
	code, stdout, stderr := p.run("doctor", "--json")
	require.Equal(t, cli.ExitOK, code, stdout+stderr)
	require.True(t, gjson.Get(stdout, "ok").Bool())
	require.Equal(t, "warning", check(t, stdout, "docker", "engine").Get("level").String())
	require.Equal(t, "ok", check(t, stdout, "local", "start").Get("level").String())
	require.NotContains(t, stdout, `"part": "config"`)

	code, stdout, _ = p.run("doctor", "--json", "--config", "quick.yaml")
	require.Equal(t, cli.ExitOK, code, stdout)
	for _, name := range []string{"valid", "environment"} {
		require.Equal(t, "ok", check(t, stdout, "config", name).Get("level").String())
	}
	require.Equal(t, "ok", check(t, stdout, "models", "server").Get("level").String())

	code, stdout, stderr = p.run("doctor", "--json", "--config", "quick.yaml", "--env.terminal_backend", "docker")
	require.Equal(t, cli.ExitProblems, code, stdout)
	require.False(t, gjson.Get(stdout, "ok").Bool())
	require.Equal(t, "problem", check(t, stdout, "docker", "engine").Get("level").String())
	require.Contains(t, stderr, "1 problem found")

	code, stdout, _ = p.run("doctor")
	require.Equal(t, cli.ExitOK, code)
	require.Contains(t, stdout, "warn engine")
	require.Contains(t, stdout, "fix: start Docker")
	p.env["LANG"] = "C.UTF-8"
	_, stdout, _ = p.run("doctor")
	require.Contains(t, stdout, "! engine")
	require.NotContains(t, stdout, "\x1b", "no colors but on a terminal")
}

func TestDoctorChecksTheModelServersAndNeverShowsAKey(t *testing.T) {
	const key = "sk-never-to-be-shown"
	good := modeltest.NewServer(t, conversation())
	locked := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, `{"error":{"message":"wrong key `+key+`"}}`, http.StatusUnauthorized)
	}))
	t.Cleanup(locked.Close)
	for name, c := range map[string]struct {
		url, level, found, fix string
	}{
		"answers":        {good.URL, "ok", "with the key from environment variable MY_KEY, answers", ""},
		"refuses a key":  {locked.URL, "problem", "401", "MY_KEY"},
		"is not there":   {"http://127.0.0.1:1", "problem", "refused", "openai.base_url"},
		"a built-in one": {"replay:none.yaml", "problem", "none.yaml", "replay:FILE"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newProgram(t)
			p.env["DOCKER_HOST"], p.env["MY_KEY"] = nowhere, key
			code, stdout, stderr := p.run("doctor", "--json", "--environment", "terminal-test", "--openai.base_url", c.url, "--openai.model_name", "mock", "--openai.api_key_env", "MY_KEY")
			f := check(t, stdout, "models", "server")
			require.Equal(t, c.level, f.Get("level").String(), f)
			require.Contains(t, f.Get("found").String(), c.found)
			require.Contains(t, f.Get("fix").String(), c.fix)
			require.Equal(t, map[bool]int{true: cli.ExitOK, false: cli.ExitProblems}[c.level == "ok"], code)
			require.NotContains(t, stdout+stderr, key)
		})
	}
}

func TestDoctorListsEveryProblemOfAConfiguration(t *testing.T) {
	p := newProgram(t)
	p.env["DOCKER_HOST"] = nowhere
	p.write("bad.yaml", "environment: terminal-test\nenv: {group_sise: 4, max_agent_turns: 0}\nopenai: {model_name: m}\n")
	code, stdout, _ := p.run("doctor", "--json", "--config", "bad.yaml")
	require.Equal(t, cli.ExitProblems, code)
	for _, want := range []string{"group_sise", "max_agent_turns", "OPENAI_API_KEY"} {
		require.Contains(t, stdout, want)
	}
	require.GreaterOrEqual(t, gjson.Get(stdout, "problems").Int(), int64(3))
	p.write("tools.yaml", strings.Replace(quickstart, "env: {", "env: {enabled_toolsets: [no-such], ", 1))
	code, stdout, _ = p.run("doctor", "--json", "--config", "tools.yaml")
	require.Equal(t, cli.ExitProblems, code)
	require.Contains(t, stdout, "no-such")
	code, stdout, _ = p.run("doctor", "--json", "--config", "missing.yaml")
	require.Equal(t, cli.ExitProblems, code)
	require.Contains(t, stdout, "missing.yaml")
}

func TestDoctorTriesOtherBackendsOfAConfiguration(t *testing.T) {
	p := newProgram(t)
	p.env["DOCKER_HOST"] = nowhere
	p.write("quick.yaml", quickstart)
	code, stdout, _ := p.run("doctor", "--json", "--config", "quick.yaml", "--env.terminal_backend", "ssh", "--env.ssh_host", "127.0.0.1", "--env.ssh_port", "1")
	require.Equal(t, cli.ExitProblems, code, stdout)
	require.Equal(t, "problem", check(t, stdout, "ssh", "connection").Get("level").String())
	require.NotEmpty(t, check(t, stdout, "ssh", "connection").Get("fix").String())
}

// The names of checks are for programs to rely on.
func TestDoctorOfAMachineWithAnEngineFindsItSound(t *testing.T) {
	dockertest.RequireEngine(t)
	dockertest.MakeImage(t)
	binary := dockertest.BuildServer(t, t.TempDir())
	c := exec.Command(binary, "doctor", "--json", "--environment", "terminal-test", "--openai.base_url=replay:", "--openai.model_name=replay",
		"--env.terminal_backend", "docker", "--env.docker_image", dockertest.Image)
	var stderr strings.Builder
	c.Stderr = &stderr
	out, err := c.Output()
	stdout := string(out)
	require.NoError(t, err, stdout+stderr.String())
	var names []string
	for _, f := range gjson.Get(stdout, "checks").Array() {
		names = append(names, f.Get("part").String()+": "+f.Get("check").String())
	}
	require.Equal(t, []string{
		"program: version", "program: static", "machine: open files", "machine: processes",
		"local: start", "local: shell", "local: control groups", "local: keys", "local: leftovers", "local: space",
		"docker: engine", "docker: version", "docker: storage", "docker: control groups", "docker: limits", "docker: isolation",
		"docker: space", "docker: network", "docker: leftovers", "docker: image", "docker: start", "docker: disk limit",
		"config: valid", "config: environment", "models: server",
	}, slices.Compact(names))
	for _, name := range []string{"engine", "version", "image", "start"} {
		require.Equal(t, "ok", check(t, stdout, "docker", name).Get("level").String(), name)
	}
	require.Contains(t, check(t, stdout, "docker", "start").Get("found").String(), "ready for commands")
	require.Contains(t, check(t, stdout, "program", "static").Get("found").String(), "runs in any container")
	require.Empty(t, ownedBy(t, c.Process.Pid), "the check removes its own container")
}

// A user who may not use the socket is told to join its group. Root may use every
// socket, so then the program runs as somebody else.
func TestDoctorOfASocketWithoutPermissionNamesTheGroup(t *testing.T) {
	dir, err := os.MkdirTemp("", "e") // short: the path of a socket has a limit
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	require.NoError(t, os.Chmod(dir, 0o755))
	socket := filepath.Join(dir, "s")
	l, err := net.Listen("unix", socket)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	require.NoError(t, os.Chmod(socket, 0o600))
	program := dockertest.BuildServer(t, dir)
	home := filepath.Join(dir, "home")
	require.NoError(t, os.Mkdir(home, 0o755))
	c := exec.Command(program, "doctor", "--json")
	c.Dir = home
	c.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "TMPDIR=" + home, "DOCKER_HOST=unix://" + socket}
	if os.Geteuid() == 0 {
		const nobody = 65534
		require.NoError(t, os.Chown(home, nobody, nobody))
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	} else {
		require.NoError(t, os.Chmod(socket, 0))
	}
	out, err := c.Output()
	require.NoError(t, err, string(out))
	f := check(t, string(out), "docker", "engine")
	require.Equal(t, "warning", f.Get("level").String(), f)
	require.Contains(t, f.Get("found").String(), "permission denied")
	require.Contains(t, f.Get("fix").String(), "usermod -aG docker")
}

func TestDoctorCountsWhatDeadRunsLeftBehind(t *testing.T) {
	dockertest.RequireEngine(t)
	dockertest.MakeImage(t)
	dir := t.TempDir()
	binary := dockertest.BuildServer(t, dir)
	c := exec.Command(binary, "evaluate", "--run-dir", "run", "--environment", "terminal-test", "--env.eval_items=all", "--env.attempts=200",
		"--openai.base_url=replay:", "--openai.model_name=replay", "--env.terminal_backend", "docker", "--env.docker_image", dockertest.Image)
	c.Dir = dir
	require.NoError(t, c.Start())
	for len(ownedBy(t, c.Process.Pid)) == 0 {
		time.Sleep(20 * time.Millisecond)
	}
	require.NoError(t, c.Process.Kill())
	require.Error(t, c.Wait())
	t.Cleanup(func() {
		for _, id := range ownedBy(t, c.Process.Pid) {
			_ = exec.Command("docker", "rm", "-f", id).Run()
		}
	})
	out, err := exec.Command(binary, "doctor", "--json").Output()
	require.NoError(t, err)
	f := check(t, string(out), "docker", "leftovers")
	require.Equal(t, "warning", f.Get("level").String(), f)
	n, err := strconv.Atoi(strings.Fields(f.Get("found").String())[0])
	require.NoError(t, err, f)
	require.Positive(t, n)
	require.Contains(t, f.Get("fix").String(), " cleanup")
}
