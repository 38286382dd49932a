package ssh_test

import (
	"bytes"
	"context"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/hermes-env/hermes-env/internal/slowtest"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox/sandboxtest"
	backend "github.com/hermes-env/hermes-env/toolcontext/sandbox/ssh"
)

// fixture is what the tests share: the program that serves on the machine, static
// as a test's own is not with the race detector.
type fixture struct {
	mu          sync.Mutex
	dir, binary string
}

var shared fixture

func TestMain(m *testing.M) {
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	dir, err := os.MkdirTemp("", "hermes-env-ssh-test-")
	if err != nil {
		panic(err)
	}
	shared.dir = dir
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		_ = os.RemoveAll(dir)
		os.Exit(code)
	}))
}

func (f *fixture) server(t testing.TB) string {
	t.Helper()
	slowtest.Require(t)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.binary == "" {
		path := filepath.Join(f.dir, "hermes-env")
		source := filepath.Join(f.dir, "main.go")
		require.NoError(t, os.WriteFile(source, []byte(serverSource), 0o600))
		build := exec.Command("go", "build", "-o", path, source)
		build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux")
		out, err := build.CombinedOutput()
		require.NoError(t, err, "build the server: %s", out)
		f.binary = path
	}
	return f.binary
}

// serverSource is a program that is the server and nothing else.
const serverSource = `package main

import (
	"os"

	"github.com/hermes-env/hermes-env/toolcontext/sandbox/inside"
)

func main() {
	if handled, code := inside.Main(os.Args[1:], "test", os.Stderr); handled {
		os.Exit(code)
	}
	os.Exit(3)
}
`

func contains(data []byte, text string) bool { return bytes.Contains(data, []byte(text)) }

func newProvider(t testing.TB, c backend.Config) *backend.Provider {
	t.Helper()
	p, err := backend.New(c)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close(context.Background())) })
	return p
}

func open(t testing.TB, p *backend.Provider, spec sandbox.Spec) *backend.Sandbox {
	t.Helper()
	s, err := p.Create(t.Context(), spec)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close(context.Background())) })
	return s.(*backend.Sandbox)
}

// sh runs a script that has to succeed and returns its stdout.
func sh(t testing.TB, s sandbox.Sandbox, script string) string {
	t.Helper()
	r, err := s.Exec(t.Context(), sandbox.Command{Script: script})
	require.NoError(t, err)
	require.Zero(t, r.ExitCode, "%s: %s", script, r)
	return r.Stdout.String()
}

func TestConformance(t *testing.T) {
	slowtest.Require(t)
	c := newClient(t)
	m := newMachine(t, c)
	sandboxtest.Run(t, func(t *testing.T) sandbox.Provider { return newProvider(t, m.config(c)) }, sandboxtest.Options{})
	require.Empty(t, m.boxes(), "trees left behind")
	require.Len(t, names(t, m.cache()), 2, "the binary and the trees' directory")
}

func TestASandboxHasATreeOfItsOwnAndNothingOfEitherEnvironment(t *testing.T) {
	c := newClient(t)
	m := newMachine(t, c)
	t.Setenv("OPENAI_API_KEY", "sk-secret-of-the-harness")
	p := newProvider(t, m.config(c))
	s := open(t, p, sandbox.Spec{Env: map[string]string{"GIVEN": "it's"}})
	require.Equal(t, s.Tree()+"/home\n"+s.Tree()+"/work\n"+s.Tree()+"/tmp\nit's\n", sh(t, s, `echo ~; pwd; echo "$TMPDIR"; echo "$GIVEN"`))
	env := sh(t, s, "env")
	require.NotContains(t, env, "SECRET")
	require.NotContains(t, env, "sk-secret")
	require.Equal(t, "0022\n", sh(t, s, "umask"))
	info, err := os.Stat(s.Tree())
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o700), info.Mode().Perm())
	other := open(t, p, sandbox.Spec{})
	require.NotEqual(t, s.Tree(), other.Tree())
	sh(t, s, "mkdir -p a/b; : > a/b/c; chmod 0 a/b a")
	require.NoError(t, s.Close(t.Context()))
	require.NoDirExists(t, s.Tree())
	require.DirExists(t, other.Tree())
	require.NoError(t, p.Close(t.Context()))
	require.Empty(t, m.boxes())
	require.Empty(t, processes(t, m.home))
}

func TestTheBinaryIsUploadedOncePerContentAndReplacedWhenItIsNotWhole(t *testing.T) {
	slowtest.Require(t)
	c := newClient(t)
	m := newMachine(t, c)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			p, err := backend.New(m.config(c))
			if err == nil {
				err = p.Check(context.Background())
			}
			if err == nil {
				err = p.Close(context.Background())
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	list := names(t, m.cache())
	require.Len(t, list, 2, "%v", list)
	path := filepath.Join(m.cache(), list[1])
	want, err := os.ReadFile(shared.server(t))
	require.NoError(t, err)
	first, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o700), first.Mode().Perm())

	require.NoError(t, newProvider(t, m.config(c)).Check(t.Context()))
	second, err := os.Stat(path)
	require.NoError(t, err)
	require.True(t, os.SameFile(first, second), "uploaded again")

	require.NoError(t, os.WriteFile(path, want[:len(want)/2], 0o700))
	require.Equal(t, "well\n", sh(t, open(t, newProvider(t, m.config(c)), sandbox.Spec{}), "echo well"))
	got, err := os.ReadFile(path)
	require.NoError(t, err)
	require.True(t, bytes.Equal(want, got), "the broken binary stayed")
}

func TestAShellThatPrintsAtItsStartIsNoHindrance(t *testing.T) {
	c := newClient(t)
	m := newMachine(t, c)
	m.before.Store("Welcome!\n\x00 no line end")
	require.Equal(t, "well\n", sh(t, open(t, newProvider(t, m.config(c)), sandbox.Spec{}), "echo well"))
}

func TestMoreSessionsThanAServerAllowsGoOverMoreConnections(t *testing.T) {
	c := newClient(t)
	m := newMachine(t, c)
	m.maxSessions.Store(3)
	p := newProvider(t, m.config(c))
	var (
		wg    sync.WaitGroup
		mu    sync.Mutex
		boxes []sandbox.Sandbox
	)
	for range 10 {
		wg.Go(func() {
			s, err := p.Create(context.Background(), sandbox.Spec{})
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			boxes = append(boxes, s)
		})
	}
	wg.Wait()
	require.Len(t, boxes, 10)
	for _, s := range boxes {
		require.Equal(t, "well\n", sh(t, s, "echo well"))
	}
	require.GreaterOrEqual(t, m.connects.Load(), int64(4))
	for _, s := range boxes {
		require.NoError(t, s.Close(t.Context()))
	}
	connects := m.connects.Load()
	open(t, p, sandbox.Spec{})
	require.Equal(t, connects, m.connects.Load(), "connections with room are used again")
	require.LessOrEqual(t, connects, int64(10))
}

func TestConnectionsAreSharedAndDroppedOnesMadeAgain(t *testing.T) {
	c := newClient(t)
	m := newMachine(t, c)
	m.refuse.Store(2) // a server that is busy with others
	p := newProvider(t, m.config(c))
	for range 6 {
		open(t, p, sandbox.Spec{})
	}
	require.EqualValues(t, 1, m.connects.Load())
}

func TestAConnectionThatBreaksIsALossThatSaysSoAndLeavesNothing(t *testing.T) {
	c := newClient(t)
	m := newMachine(t, c)
	p := newProvider(t, m.config(c))
	s := open(t, p, sandbox.Spec{})
	sh(t, s, "setsid sh -c 'exec sleep 600' </dev/null >/dev/null 2>&1 &")
	failed := make(chan error, 1)
	go func() {
		_, err := s.Exec(context.Background(), sandbox.Command{Script: ": > ready; sleep 600"})
		failed <- err
	}()
	sh(t, s, "while [ ! -e ready ]; do sleep 0.01; done")
	m.cut()
	err := <-failed
	require.ErrorIs(t, err, sandbox.ErrLost)
	require.ErrorContains(t, err, "the connection broke")
	_, err = s.Exec(t.Context(), sandbox.Command{Script: "true"})
	require.ErrorIs(t, err, sandbox.ErrLost)
	// The next sandbox gets a connection of its own, and Close cleans up over it.
	require.Equal(t, "well\n", sh(t, open(t, p, sandbox.Spec{}), "echo well"))
	require.NoError(t, s.Close(t.Context()))
	require.NoDirExists(t, s.Tree())
	require.Empty(t, processes(t, s.Info().ID))
}

func TestAServerThatIsKilledIsALossAndItsProcessesGoWithTheTree(t *testing.T) {
	c := newClient(t)
	m := newMachine(t, c)
	s := open(t, newProvider(t, m.config(c)), sandbox.Spec{})
	sh(t, s, "setsid sh -c 'exec sleep 600' </dev/null >/dev/null 2>&1 &")
	_, err := s.Exec(t.Context(), sandbox.Command{Script: `kill -9 "$(cat ../server.pid)"; sleep 600`})
	require.ErrorIs(t, err, sandbox.ErrLost)
	require.ErrorContains(t, err, "was killed (signal KILL)")
	require.NotEmpty(t, processes(t, s.Info().ID))
	require.NoError(t, s.Close(t.Context()))
	require.NoDirExists(t, s.Tree())
	require.Empty(t, processes(t, s.Info().ID))
}

func TestAMachineThatFallsSilentIsGivenUp(t *testing.T) {
	c := newClient(t)
	m := newMachine(t, c)
	config := m.config(c)
	require.NoError(t, newProvider(t, config).Check(t.Context()))
	config.KeepAlive = 300 * time.Millisecond
	s := open(t, newProvider(t, config), sandbox.Spec{})
	m.mute.Store(true)
	_, err := s.Exec(t.Context(), sandbox.Command{Script: "sleep 600"})
	require.ErrorIs(t, err, sandbox.ErrLost)
	m.mute.Store(false)
}

func TestCloseIsBoundedWhenTheMachineIsGone(t *testing.T) {
	c := newClient(t)
	m := newMachine(t, c)
	config := m.config(c)
	config.CloseLimit = 200 * time.Millisecond
	p, err := backend.New(config)
	require.NoError(t, err)
	s, err := p.Create(t.Context(), sandbox.Spec{})
	require.NoError(t, err)
	require.NoError(t, m.listener.Close())
	m.cut()
	require.ErrorContains(t, s.Close(t.Context()), s.(*backend.Sandbox).Tree())
	require.NoError(t, p.Close(t.Context()))
}

func TestReapRemovesTreesOfDeadOwnersOfThisMachineOnly(t *testing.T) {
	c := newClient(t)
	m := newMachine(t, c)
	p := newProvider(t, m.config(c))
	mine := open(t, p, sandbox.Spec{})
	me := mine.Info().ID
	dead := exec.Command("true")
	require.NoError(t, dead.Run())
	fields := bytes.SplitN([]byte(me), []byte("-"), 5)
	name := func(pid, start, boot, place, rest string) string {
		return pid + "-" + start + "-" + boot + "-" + place + "-" + rest
	}
	boot, place := string(fields[2]), string(fields[3])
	gone := name(itoa(dead.Process.Pid), "1", boot, place, "gone")
	earlier := name("1", "1", "0123456789ab", place, "earlier")
	busy := name("1", "1", "0123456789ab", place, "busy")
	elsewhere := name("1", "1", boot, "0123456789ab", "elsewhere")
	for _, n := range []string{gone, earlier, busy, elsewhere, "somebody's own"} {
		require.NoError(t, os.MkdirAll(filepath.Join(m.cache(), "boxes", n, "work", "sub"), 0o700))
	}
	require.NoError(t, os.Chmod(filepath.Join(m.cache(), "boxes", gone, "work"), 0))
	sleeper := func(name string) *exec.Cmd {
		cmd := exec.Command("sleep", "600")
		cmd.Env = []string{"HOME=" + filepath.Join(m.cache(), "boxes", name, "home")}
		require.NoError(t, cmd.Start())
		return cmd
	}
	left, user := sleeper(gone), sleeper(busy)
	n, err := p.Reap(t.Context())
	require.NoError(t, err)
	require.Equal(t, 2, n)
	require.ElementsMatch(t, []string{me, busy, elsewhere, "somebody's own"}, m.boxes())
	require.ErrorContains(t, left.Wait(), "killed")
	require.NoError(t, user.Process.Kill())
	require.Error(t, user.Wait())
	require.Equal(t, "well\n", sh(t, mine, "echo well"))
}
