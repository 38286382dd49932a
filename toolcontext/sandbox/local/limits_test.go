package local_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/hermes-env/hermes-env/internal/slowtest"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox/local"
)

func TestCommandsSeeNothingOfTheHarnessButTheAllowList(t *testing.T) {
	p := newProvider(t, local.Config{
		Environ: []string{
			"PATH=/usr/bin:/bin", "LANG=C.UTF-8", "LC_CTYPE=C.UTF-8", "TZ=UTC", "USER=somebody", "TERM=xterm", "HOME=/root", "PWD=/root",
			"OPENAI_API_KEY=sk-1", "HF_TOKEN=hf-1", "AWS_SECRET_ACCESS_KEY=s", "MY_PASSWORD=p", "DATABASE_URL=postgres://u:p@h", "SOMETHING=else",
			"BASH_ENV=/root/startup", "LD_PRELOAD=/root/x.so", "BASH_FUNC_ls%%=() { echo hijacked; }", "HERMES_ENV_SANDBOX=stolen/1", "WANTED=yes", "broken",
		},
		PassEnv: []string{"WANTED"},
	})
	s := open(t, p, sandbox.Spec{})
	for _, session := range []bool{false, true} {
		r := run(t, s, sandbox.Command{Script: "env", Session: session})
		seen := map[string]string{}
		for line := range strings.Lines(r.Stdout.String()) {
			name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
			seen[name] = value
		}
		delete(seen, "_")
		delete(seen, "SHLVL")
		delete(seen, "OLDPWD")
		require.True(t, strings.HasPrefix(seen["HERMES_ENV_SANDBOX"], s.Info().ID+"/"))
		delete(seen, "HERMES_ENV_SANDBOX")
		require.NotEmpty(t, seen["SHELL"])
		delete(seen, "SHELL")
		require.Equal(t, map[string]string{
			"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "LC_CTYPE": "C.UTF-8", "TZ": "UTC", "USER": "somebody", "TERM": "dumb", "WANTED": "yes",
			"HOME": s.Info().Home, "PWD": s.Info().Dir, "TMPDIR": s.Info().TempDir, "PAGER": "cat", "GIT_PAGER": "cat",
		}, seen)
	}
}

func TestOpenFilesOfTheHarnessDoNotReachCommands(t *testing.T) {
	if runtime.GOOS != "linux" {
		return // there is no other way to list a process's open files
	}
	f, err := os.Open(os.DevNull)
	require.NoError(t, err)
	defer f.Close()
	s := open(t, newProvider(t, local.Config{}), sandbox.Spec{})
	r := run(t, s, sandbox.Command{Args: []string{"ls", "/proc/self/fd"}})
	require.Equal(t, "0\n1\n2\n3\n", r.Stdout.String()) // 3 is ls's own
	r = run(t, s, sandbox.Command{Script: "ls /proc/self/fd", Session: true})
	require.Equal(t, "0\n1\n2\n3\n", r.Stdout.String())
}

func TestCreateRefusesWhatTheMachineDoesNotHave(t *testing.T) {
	p := newProvider(t, local.Config{})
	for _, spec := range []sandbox.Spec{
		{Image: "debian"}, {Build: "/folder"}, {User: "nobody"}, {CPUs: 1}, {MemoryBytes: 1 << 30}, {PIDs: 10}, {DiskBytes: 1 << 30},
		{Network: sandbox.NetworkNone}, {Healthcheck: &sandbox.Healthcheck{Script: "true"}},
	} {
		_, err := p.Create(t.Context(), spec)
		require.ErrorIs(t, err, sandbox.ErrUnsupported, "%+v", spec)
	}
	_, err := p.Create(t.Context(), sandbox.Spec{Dir: "/no/such/dir"})
	require.ErrorIs(t, err, os.ErrNotExist)
	there := t.TempDir()
	s := open(t, p, sandbox.Spec{Dir: there})
	require.Equal(t, there, s.Info().Dir)
	require.Equal(t, there+"\n", run(t, s, sandbox.Command{Script: "pwd"}).Stdout.String())
	s = open(t, p, sandbox.Spec{Dir: "sub/dir"})
	require.True(t, strings.HasSuffix(run(t, s, sandbox.Command{Script: "pwd"}).Stdout.String(), "/work/sub/dir\n"))
}

func TestNewSaysWhatIsWrong(t *testing.T) {
	_, err := local.New(local.Config{BaseDir: t.TempDir(), Shell: "no-such-shell"})
	require.ErrorContains(t, err, "no-such-shell")
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	_, err = local.New(local.Config{BaseDir: filepath.Join(file, "sub")})
	require.ErrorContains(t, err, "base directory")
}

func TestDirectoriesWithoutRightsAreRemoved(t *testing.T) {
	p := newProvider(t, local.Config{})
	s, err := p.Create(t.Context(), sandbox.Spec{})
	require.NoError(t, err)
	run(t, s, sandbox.Command{Script: "mkdir -p a/b/c; touch a/b/c/f; chmod 000 a/b/c/f a/b/c a/b; chmod 555 a . .."})
	require.NoError(t, s.Close(t.Context()))
	require.NoDirExists(t, filepath.Dir(s.Info().Home))
}

func TestClosedSandboxesLeaveNoProcess(t *testing.T) {
	for name, config := range map[string]local.Config{"with groups": {}, "without groups": {NoCgroups: true}} {
		t.Run(name, func(t *testing.T) {
			config.BaseDir = t.TempDir()
			p := newProvider(t, config)
			s, err := p.Create(t.Context(), sandbox.Spec{})
			require.NoError(t, err)
			run(t, s, sandbox.Command{Script: `sleep 600 & setsid sleep 600 & (env -i setsid sh -c 'sleep 600; :' &)
				nohup sleep 600 >/dev/null 2>&1 & (set -m; sleep 600 & ); sleep 0.1`})
			require.NotEmpty(t, runningIn(config.BaseDir))
			require.NoError(t, s.Close(t.Context()))
			require.Empty(t, runningIn(config.BaseDir))
		})
	}
}

func TestProcessesOutsideTheSandboxAreSpared(t *testing.T) {
	p := newProvider(t, local.Config{})
	s := open(t, p, sandbox.Spec{})
	// A process of the harness that looks like the sandbox's: a child of the same
	// parent, in the sandbox's directory.
	stranger := exec.Command("sleep", "600")
	stranger.Dir = s.Info().Dir
	require.NoError(t, stranger.Start())
	defer func() {
		_ = stranger.Process.Kill()
		_ = stranger.Wait()
	}()
	run(t, s, sandbox.Command{Script: "sleep 600 & true"})
	require.NoError(t, s.KillAll(t.Context()))
	require.NoError(t, stranger.Process.Signal(syscall.Signal(0)))
}

func TestAThousandSandboxesAtOnce(t *testing.T) {
	slowtest.Require(t)
	before := runtime.NumGoroutine()
	p := newProvider(t, local.Config{})
	const n = 1000
	boxes := make([]sandbox.Sandbox, n)
	var g errgroup.Group
	g.SetLimit(16)
	for i := range n {
		g.Go(func() (err error) {
			boxes[i], err = p.Create(t.Context(), sandbox.Spec{Rollout: strconv.Itoa(i)})
			return err
		})
	}
	require.NoError(t, g.Wait())
	require.Less(t, runtime.NumGoroutine(), before+20, "idle sandboxes hold goroutines")
	for i := 0; i < n; i += 10 {
		g.Go(func() error {
			r, err := boxes[i].Exec(t.Context(), sandbox.Command{Args: []string{"pwd"}})
			if err == nil && r.Stdout.String() != boxes[i].Info().Dir+"\n" {
				t.Errorf("sandbox %d is in %s", i, r.Stdout)
			}
			return err
		})
	}
	require.NoError(t, g.Wait())
	require.NoError(t, p.Close(t.Context()))
}

func TestManyCommandsRunAtOnceWithoutAThreadEach(t *testing.T) {
	if runtime.GOOS != "linux" {
		return // waiting takes a thread elsewhere
	}
	p := newProvider(t, local.Config{})
	s := open(t, p, sandbox.Spec{})
	threads := func() int {
		entries, err := os.ReadDir("/proc/self/task")
		require.NoError(t, err)
		return len(entries)
	}
	before := threads()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var wg sync.WaitGroup
	for range 150 {
		wg.Go(func() { _, _ = s.Exec(ctx, sandbox.Command{Script: ": >> begun; echo x >> begun; exec sleep 600"}) })
	}
	run(t, s, sandbox.Command{Script: "while [ $(wc -l < begun 2>/dev/null || echo 0) -lt 150 ]; do sleep 0.02; done"})
	require.Less(t, threads(), before+60)
	require.NoError(t, s.KillAll(t.Context()))
	wg.Wait()
}
