package docker_test

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox/docker"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox/docker/dockertest"
)

func TestAContainerSeesNothingOfTheHarness(t *testing.T) {
	t.Setenv("OPENAI_API_KEY", "sk-secret-of-the-harness")
	s := open(t, newProvider(t, docker.Config{}), sandbox.Spec{Env: map[string]string{"GIVEN": "yes"}})
	for _, session := range []bool{false, true} {
		seen := map[string]bool{}
		for line := range strings.Lines(run(t, s, sandbox.Command{Script: "env", Session: session}).Stdout.String()) {
			name, _, _ := strings.Cut(line, "=")
			seen[name] = true
		}
		for name := range seen {
			require.Contains(t, []string{"PATH", "HOME", "HOSTNAME", "PWD", "OLDPWD", "SHLVL", "SHELL", "TERM", "PAGER", "GIT_PAGER", "TMPDIR", "GIVEN", "HERMES_ENV_SANDBOX", "_"}, name)
		}
	}
	require.NotContains(t, sh(t, s, "cat /proc/1/environ 2>/dev/null | tr '\\0' '\\n'; cat /proc/*/environ 2>/dev/null | tr '\\0' '\\n'; true"), "sk-secret")
	require.NotContains(t, sh(t, s, "cat /proc/*/cmdline | tr '\\0' ' '"), "sk-secret")
}

func TestTheOnlyHostFileInAContainerIsTheBinaryAndNobodyCanWriteIt(t *testing.T) {
	binary := shared.server(t)
	before, err := os.ReadFile(binary)
	require.NoError(t, err)
	s := open(t, newProvider(t, docker.Config{}), sandbox.Spec{})
	mounts := dockertest.Command(t, "inspect", "-f", "{{range .Mounts}}{{.Type}} {{.Destination}} {{.RW}};{{end}}", s.Container())
	require.Equal(t, "bind /.hermes-env false;", mounts)
	for name, attack := range map[string]string{
		"overwrite":             "echo evil > /.hermes-env",
		"append":                "echo evil >> /.hermes-env",
		"through /proc":         "echo evil > /proc/1/exe",
		"through its memory":    "echo evil > /proc/1/mem",
		"replace":               "rm -f /.hermes-env || mv /.hermes-env /x",
		"mount over it":         "mount --bind /bin/busybox /.hermes-env",
		"remount it writable":   "mount -o remount,rw /.hermes-env",
		"change its mode":       "chmod 777 /.hermes-env",
		"the kernel's settings": "echo /evil > /proc/sys/kernel/core_pattern",
		"make a device":         "mknod /disk b 254 0",
	} {
		require.NotZero(t, run(t, s, sandbox.Command{Script: attack}).ExitCode, name)
	}
	after, err := os.ReadFile(binary)
	require.NoError(t, err)
	require.True(t, bytes.Equal(before, after), "the binary changed")
	require.Equal(t, "well\n", sh(t, s, "echo well"))
}

func TestTheServersStreamIsOutOfReach(t *testing.T) {
	for _, user := range []string{"", "agent"} {
		s := open(t, newProvider(t, docker.Config{}), sandbox.Spec{User: user})
		for name, attack := range map[string]string{
			"see its files":   "for f in 0 1 2 3 4 5 6 7 8 9 10 11 12; do readlink /proc/1/fd/$f && exit 0; done; exit 1",
			"write to stdout": "for f in 0 1 2 3 4 5 6 7 8 9 10 11 12; do echo evil > /proc/1/fd/$f && exit 0; done 2>/dev/null; exit 1",
			"read its stream": "for f in 0 10 11; do timeout 1 head -c 1 /proc/1/fd/$f && exit 0; done 2>/dev/null; exit 1",
			"its memory":      "head -c 1 /proc/1/mem",
			"its environment": "[ -n \"$(cat /proc/1/environ)\" ]",
		} {
			require.NotZero(t, run(t, s, sandbox.Command{Script: attack}).ExitCode, "user %q: %s", user, name)
		}
		// Signals from inside do not end the first process of a container.
		run(t, s, sandbox.Command{Script: "kill -9 1; kill -15 1; kill -2 1; kill -1 1; kill -19 1; true"})
		require.Equal(t, "well\n", sh(t, s, "echo well"), "user %q", user)
	}
}

func TestCapabilitiesArePackageManagersOnly(t *testing.T) {
	p := newProvider(t, docker.Config{})
	// CHOWN 0, DAC_OVERRIDE 1, FOWNER 3, FSETID 4, KILL 5, SETGID 6, SETUID 7, NET_BIND_SERVICE 10.
	const kept = 1<<0 | 1<<1 | 1<<3 | 1<<4 | 1<<5 | 1<<6 | 1<<7 | 1<<10
	s := open(t, p, sandbox.Spec{})
	status := sh(t, s, "cat /proc/self/status")
	require.Contains(t, status, fmt.Sprintf("CapBnd:\t%016x\n", kept))
	require.Contains(t, status, fmt.Sprintf("CapEff:\t%016x\n", kept))
	require.Contains(t, status, "NoNewPrivs:\t1\n")
	require.Contains(t, status, "Seccomp:\t2\n")
	s = open(t, p, sandbox.Spec{User: "agent"})
	status = sh(t, s, "cat /proc/self/status")
	require.Contains(t, status, "CapEff:\t0000000000000000\n")
	require.Equal(t, "1000\n/home/agent\n", sh(t, s, "id -u; echo ~"))
}

func TestLimitsAreInForce(t *testing.T) {
	p := newProvider(t, docker.Config{CPUs: 1.5, MemoryBytes: 200 << 20, PIDs: 300, OpenFiles: 777})
	s := open(t, p, sandbox.Spec{MemoryBytes: 100 << 20})
	require.Equal(t, "777\n0\n", sh(t, s, "ulimit -n; ulimit -c"))
	got := dockertest.Command(t, "inspect", "-f", "{{.HostConfig.NanoCpus}} {{.HostConfig.Memory}} {{.HostConfig.MemorySwap}} {{.HostConfig.PidsLimit}} {{.HostConfig.NetworkMode}} {{.HostConfig.Privileged}}", s.Container())
	require.Equal(t, "1500000000 104857600 104857600 300 none false", got)
	require.Equal(t, "lo\n", sh(t, s, "ls /sys/class/net"))
}

func TestAForkBombIsBoundedAndCleared(t *testing.T) {
	p := newProvider(t, docker.Config{PIDs: 120})
	s := open(t, p, sandbox.Spec{})
	r := run(t, s, sandbox.Command{Script: "b() { b | b & }; b; sleep 600", Timeout: 2 * time.Second})
	require.NotZero(t, r.ExitCode)
	require.NoError(t, s.KillAll(t.Context()))
	require.Equal(t, "well\n", sh(t, s, "echo well"))
}

func TestAFloodOfOutputNeitherFillsMemoryNorTheDisk(t *testing.T) {
	s := open(t, newProvider(t, docker.Config{}), sandbox.Spec{})
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	r := run(t, s, sandbox.Command{Script: "yes & cat /dev/urandom", Timeout: 2 * time.Second, MaxOutput: 10_000})
	require.True(t, r.TimedOut)
	require.Greater(t, r.Stdout.Total, int64(1<<20))
	require.Len(t, r.Stdout.Bytes(), 10_000)
	runtime.GC()
	runtime.ReadMemStats(&after)
	require.Less(t, int64(after.HeapAlloc)-int64(before.HeapAlloc), int64(20<<20))
	log := dockertest.Command(t, "inspect", "-f", "{{.HostConfig.LogConfig.Type}}", s.Container())
	require.Equal(t, "none", log)
}

func TestAWriteBeyondTheLimitIsCutOffWithAClearResult(t *testing.T) {
	s := open(t, newProvider(t, docker.Config{}), sandbox.Spec{DiskBytes: 20 << 20})
	r := run(t, s, sandbox.Command{Script: "head -c 10000000000 /dev/zero > big"})
	require.NotZero(t, r.ExitCode)
	require.LessOrEqual(t, len(sh(t, s, "wc -c < big")), len("20971520\n"))
	require.Equal(t, "20971520\n", sh(t, s, "wc -c < big"))
	require.Equal(t, "well\n", sh(t, s, "echo well > other; cat other"))
}

func TestMemoryIsBoundedAndTheCommandThatTakesItAllIsKilled(t *testing.T) {
	s := open(t, newProvider(t, docker.Config{}), sandbox.Spec{MemoryBytes: 96 << 20})
	r := run(t, s, sandbox.Command{Script: "head -c 500000000 /dev/zero | tail -c 400000000 > /dev/null", Timeout: time.Minute})
	require.NotZero(t, r.ExitCode, "%s", r)
	require.Equal(t, "well\n", sh(t, s, "echo well"))
}

func TestDaemonsAreGoneAfterATimeout(t *testing.T) {
	s := open(t, newProvider(t, docker.Config{}), sandbox.Spec{})
	r := run(t, s, sandbox.Command{Script: `for i in 1 2 3; do (env -i /bin/setsid /bin/sh -c 'cd /; exec sleep 600' </dev/null >/dev/null 2>&1 &); done; sleep 0.2; echo partial; sleep 600`, Timeout: time.Second})
	require.True(t, r.TimedOut)
	require.Equal(t, "partial\n", r.Stdout.String())
	// The host's view: nothing but the server is left.
	top := dockertest.Command(t, "top", s.Container(), "-o", "pid,args")
	require.Equal(t, 2, len(strings.Split(top, "\n")), top)
}

func TestArchivesFromAContainerCanNotEscapeOnTheHost(t *testing.T) {
	s := open(t, newProvider(t, docker.Config{}), sandbox.Spec{})
	sh(t, s, "mkdir -p out/d; ln -s /etc out/etc; ln -s ../../.. out/d/up; echo x > out/file; ln out/file out/hard; mkfifo out/pipe")
	r, err := s.Download(t.Context(), "out")
	require.NoError(t, err)
	defer r.Close()
	dir := filepath.Join(t.TempDir(), "target")
	var skipped []string
	require.NoError(t, sandbox.ExtractTar(context.Background(), r, dir, sandbox.TarLimits{Skip: func(name string, _ error) { skipped = append(skipped, name) }}))
	require.ElementsMatch(t, []string{"out/etc", "out/d/up"}, skipped)
	content, err := os.ReadFile(filepath.Join(dir, "out", "hard"))
	require.NoError(t, err)
	require.Equal(t, "x\n", string(content))
}

func TestAnArchiveWithLinksDoesNotWriteElsewhereInTheContainer(t *testing.T) {
	s := open(t, newProvider(t, docker.Config{}), sandbox.Spec{})
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	require.NoError(t, w.WriteHeader(&tar.Header{Typeflag: tar.TypeSymlink, Name: "l", Linkname: "/etc"}))
	require.NoError(t, w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "l/evil", Mode: 0o644, Size: 1}))
	_, err := io.WriteString(w, "x")
	require.NoError(t, err)
	require.NoError(t, w.Close())
	require.ErrorIs(t, s.Upload(t.Context(), &b, "target"), sandbox.ErrUnsafeArchive)
	sh(t, s, "[ ! -e /etc/evil ]")
}
