package docker_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox/docker"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox/docker/dockertest"
)

// sacrifice makes the kernel choose the server when memory runs out: root in a
// container can do that, and no more, to the server.
const sacrifice = "sleep 0.2; echo 1000 > /proc/1/oom_score_adj; for p in /proc/[0-9]*; do [ $p = /proc/1 ] || echo 0 > $p/oom_score_adj; done 2>/dev/null; " +
	"echo 0 > /proc/self/oom_score_adj; exec tail -c 400000000 /dev/zero"

// restarts counts how often a sandbox was started again.
func restarts(s sandbox.Sandbox) int {
	n := 0
	for _, e := range s.(sandbox.Restarter).Events() {
		if e.Kind == sandbox.EventRestarted {
			n++
		}
	}
	return n
}

func TestACommandThatTakesAllMemoryIsEndedAndTheServerIsNot(t *testing.T) {
	p := newProvider(t, docker.Config{})
	s := open(t, p, sandbox.Spec{MemoryBytes: 64 << 20})
	sh(t, s, "echo kept > /work/file")
	for range 3 {
		r := run(t, s, sandbox.Command{Script: "cd /tmp; tail -c 400000000 /dev/zero; echo \"shell: $?\"", Session: true, Timeout: time.Minute})
		require.True(t, r.ExitCode == 137 || r.Stdout.String() == "shell: 137\n", "exit code %d: %s", r.ExitCode, r)
	}
	require.Zero(t, restarts(s))
	// On a busy machine the kernel takes a moment to get the memory of the killed back.
	var r sandbox.Result
	for try := 0; try == 0 || r.ExitCode == 137 && try < 50; try++ {
		r = run(t, s, sandbox.Command{Script: "cat /work/file"})
	}
	require.Equal(t, "kept\n", r.Stdout.String())
}

func TestASandboxWhoseServerRunsOutOfMemoryStartsAgainWithItsFiles(t *testing.T) {
	p := newProvider(t, docker.Config{}).WithoutServerCapabilities()
	s := open(t, p, sandbox.Spec{MemoryBytes: 64 << 20})
	run(t, s, sandbox.Command{Script: "echo kept > /work/file; mkdir -p /deep/er; cd /deep/er; export LOST=1", Session: true})
	background, err := s.(sandbox.Starter).Start(t.Context(), sandbox.Command{Script: "sleep 600"})
	require.NoError(t, err)

	r := run(t, s, sandbox.Command{Script: "echo once >> /work/times; " + sacrifice, Session: true, Merge: true, Timeout: time.Minute})
	require.Equal(t, 137, r.ExitCode, "%s", r)
	require.Contains(t, r.Stdout.String(), "the sandbox was started again because it ran out of memory")
	require.Equal(t, 1, restarts(s))
	event := s.(sandbox.Restarter).Events()[0]
	require.True(t, event.Inside, "the rollout used its memory up: %+v", event)
	require.True(t, event.Lost)
	require.Equal(t, "kept\nonce\n/work \n", run(t, s, sandbox.Command{Script: `cat /work/file /work/times; echo "$PWD $LOST"`, Session: true}).Stdout.String())
	ended, running, err := background.Poll(t.Context())
	require.NoError(t, err)
	require.False(t, running)
	require.Equal(t, 137, ended.ExitCode)
	_, err = background.Write(t.Context(), []byte("x"))
	require.ErrorIs(t, err, sandbox.ErrEnded)
	require.NoError(t, background.Kill(t.Context()))
	require.NotContains(t, sh(t, s, "ls -a /tmp | grep -c hermes-env- || true"), "2", "what the dead server left is gone")

	// While a verifier works it is a loss, and no failure of the machine.
	s.(sandbox.Restarter).AllowRestarts(false)
	_, err = s.Exec(t.Context(), sandbox.Command{Script: sacrifice, Timeout: time.Minute})
	require.ErrorIs(t, err, sandbox.ErrLost)
	require.ErrorIs(t, err, sandbox.ErrEndedInside)
}

func TestSandbox_StartsAgainWhenKilledFromOutsideOnlyWhereNothingIsLost(t *testing.T) {
	p := newProvider(t, docker.Config{})
	for name, c := range map[string]struct {
		before string
		lost   bool
	}{
		"nothing ran":         {"echo kept > /work/file", false},
		"a process ran":       {"(setsid sleep 600 > /dev/null 2>&1 &)", true},
		"a file is in memory": {"echo x > /dev/shm/file", true},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, p, sandbox.Spec{}).(*docker.Sandbox)
			sh(t, s, c.before)
			require.NoError(t, s.Look(t.Context()))
			dockertest.Command(t, "kill", s.Container())
			r, err := s.Exec(t.Context(), sandbox.Command{Script: "cat /work/file"})
			require.Len(t, s.Events(), 1)
			event := s.Events()[0]
			require.False(t, event.Inside)
			require.Equal(t, c.lost, event.Lost)
			if c.lost {
				require.ErrorIs(t, err, sandbox.ErrLost)
				require.NotErrorIs(t, err, sandbox.ErrEndedInside)
				require.ErrorContains(t, err, "was killed from outside")
				require.Equal(t, sandbox.EventEnded, event.Kind)
				return
			}
			require.NoError(t, err)
			require.Equal(t, sandbox.EventRestarted, event.Kind)
			require.Equal(t, "kept\n", r.Stdout.String())
			require.Contains(t, r.Stderr.String(), "before this command the sandbox was started again")
			require.NotContains(t, run(t, s, sandbox.Command{Script: "true"}).String(), "started again", "it is said once")
		})
	}
}

func TestWhileAVerifierWorksTheEndOfASandboxIsALoss(t *testing.T) {
	s := open(t, newProvider(t, docker.Config{}), sandbox.Spec{})
	s.(sandbox.Restarter).AllowRestarts(false)
	dockertest.Command(t, "kill", s.Container())
	_, err := s.Exec(t.Context(), sandbox.Command{Script: "true"})
	require.ErrorIs(t, err, sandbox.ErrLost)
	require.Zero(t, restarts(s))
}

func TestATransferThatTheEndOfTheContainerBreaksOffSaysSo(t *testing.T) {
	s := open(t, newProvider(t, docker.Config{}), sandbox.Spec{})
	source, done := blockingSource{make(chan struct{})}, make(chan error, 1)
	go func() { done <- s.Upload(t.Context(), source, "/work/up") }()
	dockertest.Command(t, "kill", s.Container())
	close(source.release)
	err := <-done
	require.ErrorIs(t, err, sandbox.ErrLost, "what was under way is lost, and something outside has ended it")
	require.NotErrorIs(t, err, sandbox.ErrEndedInside)
}

// blockingSource gives nothing until it is released, and zeros from then on.
type blockingSource struct{ release chan struct{} }

func (b blockingSource) Read(p []byte) (int, error) {
	<-b.release
	clear(p)
	return len(p), nil
}

func TestManyFilesBeyondTheDiskLimitEndTheCommandWithAClearResult(t *testing.T) {
	s := open(t, newProvider(t, docker.Config{DiskWatch: true}), sandbox.Spec{DiskBytes: 300 << 20})
	const write = "i=0; while [ $i -lt 100 ]; do head -c 104857600 /dev/zero > /work/big$i || exit 7; i=$((i+1)); done"
	r := run(t, s, sandbox.Command{Script: write, Merge: true, Timeout: 2 * time.Minute})
	if dockertest.Command(t, "inspect", "-f", "{{.HostConfig.StorageOpt}}", s.Container()) != "map[]" {
		require.NotZero(t, r.ExitCode) // the storage driver bounds it
		return
	}
	require.Equal(t, 137, r.ExitCode, "%s", r)
	require.Contains(t, r.Stdout.String(), "sandbox disk limit of 300 MB exceeded")
	used := strings.Fields(sh(t, s, "du -sm /work"))[0]
	t.Logf("10 GB asked for, a limit of 300 MB: %s MB written", used)
	require.Less(t, len(used), 5, "megabytes, not gigabytes: %s", used)
	// The sandbox goes on, and has room once files are deleted.
	sh(t, s, "rm /work/big*")
	require.Equal(t, "well\n", sh(t, s, "head -c 52428800 /dev/zero > /work/small; sleep 1; echo well"))
	// Files that have no name any more count too.
	r = run(t, s, sandbox.Command{Script: "exec 3>/work/a; rm /work/a; head -c 209715200 /dev/zero >&3; exec 4>/work/b; rm /work/b; head -c 209715200 /dev/zero >&4; sleep 30", Timeout: time.Minute})
	require.Equal(t, 137, r.ExitCode, "%s", r)
	require.Contains(t, r.Stderr.String(), "disk limit")
	require.Equal(t, "well\n", sh(t, s, "echo well"))
}

func TestASandboxThatNobodyUsesOrLeasesIsRemoved(t *testing.T) {
	warned := make(chan string, 10)
	p := newProvider(t, docker.Config{Idle: 2 * time.Second, Warn: func(m string) {
		if strings.Contains(m, "nobody used it") {
			warned <- m
		}
	}})
	leased := open(t, p, sandbox.Spec{})
	release := leased.(sandbox.Leaser).Lease()
	left := open(t, p, sandbox.Spec{})
	require.Contains(t, <-warned, left.Info().ID)
	require.Empty(t, dockertest.Command(t, "ps", "-aq", "--filter", "name="+left.Info().ID))
	_, err := left.Exec(t.Context(), sandbox.Command{Script: "true"})
	require.ErrorIs(t, err, sandbox.ErrLost)
	require.ErrorContains(t, err, "nobody used it")
	require.Equal(t, "well\n", sh(t, leased, "sleep 3; echo well"))
	release()
	release()
	require.Contains(t, <-warned, leased.Info().ID)
}
