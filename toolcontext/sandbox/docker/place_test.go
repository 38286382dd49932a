package docker_test

import (
	"archive/tar"
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox/docker"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox/docker/dockertest"
)

// attacker is the program in testdata/attacker, built once.
var attacker = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp(shared.dir, "attacker")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "attacker")
	c := exec.Command("go", "build", "-o", path, "./testdata/attacker")
	c.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux")
	_, err = c.Output()
	return path, err
})

// arm puts the attacker into a sandbox, as /tmp/attacker.
func arm(t testing.TB, s sandbox.Sandbox) {
	t.Helper()
	path, err := attacker()
	require.NoError(t, err)
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	require.NoError(t, w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "attacker", Mode: 0o755, Size: int64(len(content))}))
	_, err = w.Write(content)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	require.NoError(t, s.Upload(t.Context(), &b, "/tmp"))
}

func TestServer_KeepsItsLimitsAndPriorityFromRootsCommands(t *testing.T) {
	p := newProvider(t, docker.Config{Capabilities: sandbox.Capabilities{Base: sandbox.CapabilitiesEngine}, AllowNewPrivileges: true})
	for _, user := range []string{"", "agent"} {
		s := open(t, p, sandbox.Spec{User: user})
		arm(t, s)
		for _, resource := range []int{unix.RLIMIT_AS, unix.RLIMIT_CPU, unix.RLIMIT_DATA, unix.RLIMIT_FSIZE, unix.RLIMIT_NOFILE, unix.RLIMIT_NPROC, unix.RLIMIT_STACK} {
			r := run(t, s, sandbox.Command{Args: []string{"/tmp/attacker", "limit", strconv.Itoa(resource)}})
			require.Equal(t, 1, r.ExitCode, "user %q, limit %d: %s", user, resource, r)
		}
		if len(p.ServerCapabilities()) == 0 {
			t.Log("the engine gives the server no capabilities of its own, so its priority can be lowered")
			continue
		}
		for _, attack := range []string{"nice", "idle", "disk-priority", "processor"} {
			r := run(t, s, sandbox.Command{Args: []string{"/tmp/attacker", attack}})
			require.Equal(t, 1, r.ExitCode, "user %q, %s: %s", user, attack, r)
		}
		// It is ahead of its commands, which are where commands belong.
		require.Equal(t, "-20\n0\n", sh(t, s, "cut -d ' ' -f 19 /proc/1/stat; cut -d ' ' -f 19 /proc/self/stat"))
	}
}

// TestServer_AnswersBesideBusyCommands sets no limit on processors: Linux 6.18 sometimes
// leaves single threads of a group that is throttled waiting for minutes.
func TestServer_AnswersBesideBusyCommands(t *testing.T) {
	s := open(t, newProvider(t, docker.Config{}), sandbox.Spec{})
	sh(t, s, "i=0; while [ $i -lt 300 ]; do (while :; do :; done) & i=$((i+1)); done")
	r := run(t, s, sandbox.Command{Script: "sleep 600", Timeout: time.Second})
	require.True(t, r.TimedOut)
	require.Less(t, r.Duration, 30*time.Second, "a command is ended near its limit")
	require.NoError(t, s.KillAll(t.Context()))
}

func TestKillOthers_EndsAForkLoopWhateverItHolds(t *testing.T) {
	p := newProvider(t, docker.Config{PIDs: 150, MemoryBytes: 128 << 20})
	s := open(t, p, sandbox.Spec{})
	arm(t, s)
	for _, attack := range []string{"/tmp/attacker forks", "b() { b | b & }; b"} {
		run(t, s, sandbox.Command{Script: "(setsid sh -c '" + attack + "' > /dev/null 2>&1 &); sleep 2", Timeout: 20 * time.Second})
		kept, _, err := s.(sandbox.ServiceKeeper).KillOthers(t.Context(), sandbox.KeepServices)
		require.NoError(t, err, attack)
		require.Empty(t, kept, attack)
		require.Equal(t, "well\n", sh(t, s, "echo well"), attack)
	}
	require.Zero(t, restarts(s))
}

func TestWatch_WorksAlthoughARolloutHoldsEveryWatchOfItsUser(t *testing.T) {
	s := open(t, newProvider(t, docker.Config{}), sandbox.Spec{User: "agent"}) // with watches of its own
	arm(t, s)
	held := sh(t, s, "(setsid /tmp/attacker watches > /tmp/held 2>&1 &); while [ ! -s /tmp/held ]; do sleep 0.05; done; cat /tmp/held")
	require.NotEqual(t, "0\n", held)
	sh(t, s, "mkdir -p /tmp/results")
	require.NoError(t, s.(sandbox.Watcher).Watch(t.Context(), []string{"/tmp/results"}))
	require.NoError(t, s.(*docker.Sandbox).Look(t.Context()))
	events := s.(sandbox.Restarter).Events()
	require.NotEmpty(t, events)
	require.Equal(t, sandbox.EventServer, events[0].Kind)
	require.Contains(t, events[0].Text, "inotify")
	require.True(t, events[0].Inside)
}

func TestAs_RunsTheHarnesssProgramWhateverTheAgentDid(t *testing.T) {
	for name, c := range map[string]docker.Config{"mounted": {}, "copied": {Upload: true}} {
		t.Run(name, func(t *testing.T) {
			p := newProvider(t, c)
			s := open(t, p, sandbox.Spec{Dir: "/work/below"})
			if c.Upload { // root can put another program in its place
				sh(t, s, "rm /.hermes-env; printf '#!/bin/sh\\necho forged\\n' > /.hermes-env; chmod 755 /.hermes-env")
			}
			run(t, s, sandbox.Command{Script: "cd /; rm -rf /work; echo x > /work; mv /.hermes-env /moved"})
			other, err := s.(sandbox.UserSwitcher).As(t.Context(), "agent")
			require.NoError(t, err)
			require.Equal(t, "1000\n", sh(t, other, "id -u"))
			require.NoError(t, other.Close(t.Context()))
		})
	}
}

func TestAs_EndedByTheAgentIsNoFailureOfTheMachine(t *testing.T) {
	s := open(t, newProvider(t, docker.Config{}), sandbox.Spec{})
	other, err := s.(sandbox.UserSwitcher).As(t.Context(), "agent")
	require.NoError(t, err)
	sh(t, s, "(setsid sh -c 'sleep 0.5; for p in /proc/[0-9]*; do [ $p = /proc/1 ] || grep -q sandbox-server $p/cmdline && kill -9 ${p#/proc/}; done' > /dev/null 2>&1 &)")
	_, err = other.Exec(t.Context(), sandbox.Command{Script: "sleep 60"})
	require.ErrorIs(t, err, sandbox.ErrLost)
	require.ErrorIs(t, err, sandbox.ErrEndedInside)
	require.Equal(t, "well\n", sh(t, s, "echo well"))
}

// setUserID makes a program that gives its caller root's rights, and runs it as another user.
const setUserID = "mkdir /suid; cp /bin/busybox /suid/su; chmod 4755 /suid/su; sed -i 's/^root:x:/root::/' /etc/passwd; su agent -c '/suid/su root -c \"id -u\"'"

func TestCapabilitiesAreTheEnginesOwnWhereThatIsAskedFor(t *testing.T) {
	p := newProvider(t, docker.Config{Capabilities: sandbox.Capabilities{Base: sandbox.CapabilitiesEngine}, AllowNewPrivileges: true})
	s := open(t, p, sandbox.Spec{})
	want := dockertest.Command(t, "run", "--rm", "--network", "none", dockertest.Image, "grep", "-E", "^(Cap|NoNewPrivs|Seccomp:)", "/proc/self/status")
	require.Equal(t, want, strings.TrimSpace(sh(t, s, "grep -E '^(Cap|NoNewPrivs|Seccomp:)' /proc/self/status")), "as docker run has them")
	require.Equal(t, "0\n", sh(t, s, setUserID))
	sh(t, s, "chroot / /bin/true")
	sh(t, s, "mknod /pipe p && mknod /null c 1 3")
	if strings.Contains(want, "a80425fb") { // with NET_RAW
		sh(t, s, "ping -c 1 127.0.0.1")
	}
	as, err := s.(sandbox.UserSwitcher).As(t.Context(), "0")
	require.NoError(t, err)
	const wakeAlarm = "00000008"
	require.Equal(t, want, strings.ReplaceAll(strings.TrimSpace(sh(t, as, "grep -E '^(Cap|NoNewPrivs|Seccomp:)' /proc/self/status")), wakeAlarm, "00000000"), "another way in has one more")
	require.NoError(t, as.Close(t.Context()))

	s = open(t, p, sandbox.Spec{User: "agent"})
	status := sh(t, s, "cat /proc/self/status")
	require.Contains(t, status, "CapEff:\t0000000000000000\n")
	require.Contains(t, status, "CapPrm:\t0000000000000000\n")

	s = open(t, newProvider(t, docker.Config{}), sandbox.Spec{})
	require.NotEqual(t, "0\n", run(t, s, sandbox.Command{Script: setUserID}).Stdout.String(), "no new privileges")
}

func TestCapabilitiesAreThoseOfTheConfig(t *testing.T) {
	words := []string{"none", "CHOWN", "SETUID", "SETGID", "+NET_RAW"}
	set, err := sandbox.ParseCapabilities(words)
	require.NoError(t, err)
	s := open(t, newProvider(t, docker.Config{Capabilities: set}), sandbox.Spec{})
	require.Contains(t, sh(t, s, "cat /proc/self/status"), "CapBnd:\t00000000000020c1\n")
	// The harness reaches everything all the same.
	sh(t, s, "mkdir -m 000 /closed")
	require.NoError(t, s.(sandbox.Cleaner).Clean(t.Context(), "/closed/below", 0o755))
}

func TestKillAll_EndsWhatAnotherUserHasStartedThroughSudo(t *testing.T) {
	p := newProvider(t, docker.Config{Capabilities: sandbox.Capabilities{Base: sandbox.CapabilitiesEngine}, AllowNewPrivileges: true})
	s := open(t, p, sandbox.Spec{User: "agent"})
	root, err := s.(sandbox.UserSwitcher).As(t.Context(), "0")
	require.NoError(t, err)
	sh(t, root, "mkdir /suid; cp /bin/busybox /suid/su; chmod 4755 /suid/su; sed -i 's/^root:x:/root::/' /etc/passwd")
	require.NoError(t, root.Close(t.Context()))
	sh(t, s, "(setsid /suid/su root -c 'sleep 600' > /dev/null 2>&1 &); while ! ps -o user,args | grep -Eq '^(root|0) .*sleep 600'; do sleep 0.05; done")
	require.NoError(t, s.KillAll(t.Context()))
	top := dockertest.Command(t, "top", s.Container(), "-o", "pid,args")
	require.Len(t, strings.Split(top, "\n"), 2, top)
}

func TestAs_StartsWhatTheOthersCanNotTrace(t *testing.T) {
	p := newProvider(t, docker.Config{Capabilities: sandbox.Capabilities{Base: sandbox.CapabilitiesEngine}, AllowNewPrivileges: true})
	for _, user := range []string{"", "agent"} {
		t.Run("user "+user, func(t *testing.T) {
			s := open(t, p, sandbox.Spec{User: user})
			other, err := s.(sandbox.UserSwitcher).As(t.Context(), user)
			require.NoError(t, err)
			const start = "sleep 600 > /dev/null 2>&1 & echo $!"
			own, theirs := strings.TrimSpace(sh(t, s, start)), strings.TrimSpace(sh(t, other, start))
			require.NotEmpty(t, sh(t, s, "cat /proc/"+own+"/maps; : >> /proc/"+own+"/mem"), "the kernel allows it among equals")
			for _, file := range []string{"maps", "mem", "environ"} {
				r := run(t, s, sandbox.Command{Script: "head -c 1 /proc/" + theirs + "/" + file})
				require.NotZero(t, r.ExitCode, file)
				require.Contains(t, r.String(), "ermission denied", file)
			}
			require.NoError(t, other.Close(t.Context()))
		})
	}
}
