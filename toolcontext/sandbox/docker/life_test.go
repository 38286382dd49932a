package docker_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox/docker"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox/docker/dockertest"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox/inside"
)

// doomedBinary names the variable that makes this test binary a harness that is killed.
const doomedBinary = "DOCKER_TEST_DOOMED_BINARY"

// doomed is a harness with three sandboxes that waits to be killed.
func doomed() bool {
	binary := os.Getenv(doomedBinary)
	if binary == "" {
		return false
	}
	idle, _ := time.ParseDuration(os.Getenv("DOCKER_TEST_IDLE"))
	p, err := docker.New(docker.Config{Idle: idle, Binary: binary, Image: dockertest.Image, Run: os.Getenv("DOCKER_TEST_RUN"), Network: sandbox.NetworkNone})
	if err != nil {
		panic(err)
	}
	for i := range 3 {
		s, err := p.Create(context.Background(), sandbox.Spec{Rollout: strconv.Itoa(i)})
		if err != nil {
			panic(err)
		}
		if _, err := s.Exec(context.Background(), sandbox.Command{Script: "sleep 600 & (setsid sleep 600 &)"}); err != nil {
			panic(err)
		}
	}
	fmt.Println("ready")
	time.Sleep(time.Hour)
	return true
}

// leaveBehind runs a harness and kills it, as a power cut would.
func leaveBehind(t *testing.T, run string) {
	t.Helper()
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), doomedBinary+"="+shared.server(t), "DOCKER_TEST_RUN="+run)
	c.Stderr = os.Stderr
	out, err := c.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, c.Start())
	for lines := bufio.NewScanner(out); lines.Scan() && lines.Text() != "ready"; {
	}
	require.NoError(t, c.Process.Kill())
	var exit *exec.ExitError
	require.True(t, errors.As(c.Wait(), &exit))
}

func TestContainersOfAHarnessThatHangsEndByThemselves(t *testing.T) {
	run := "hanging-" + strconv.Itoa(os.Getpid())
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), doomedBinary+"="+shared.server(t), "DOCKER_TEST_RUN="+run, "DOCKER_TEST_IDLE=5s")
	out, err := c.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, c.Start())
	for lines := bufio.NewScanner(out); lines.Scan() && lines.Text() != "ready"; {
	}
	running := func() []string {
		return strings.Fields(dockertest.Command(t, "ps", "-q", "--filter", "label=hermes-env.run="+run))
	}
	require.Len(t, running(), 3)
	require.NoError(t, c.Process.Signal(syscall.SIGSTOP)) // it neither speaks nor hangs up
	for tries := 0; len(running()) > 0 && tries < 300; tries++ {
		time.Sleep(100 * time.Millisecond)
	}
	require.Empty(t, running())
	for _, id := range dockertest.Containers(t, "hermes-env.run="+run) {
		require.Equal(t, strconv.Itoa(inside.ExitForsaken), dockertest.Command(t, "inspect", "-f", "{{.State.ExitCode}}", id))
	}
	require.NoError(t, c.Process.Kill())
	require.Error(t, c.Wait())
	_, err = newProvider(t, docker.Config{}).Reap(t.Context())
	require.NoError(t, err)
	require.Empty(t, dockertest.Containers(t, "hermes-env.run="+run))
}

func TestReapRemovesWhatADeadHarnessLeftAndNothingElse(t *testing.T) {
	p := newProvider(t, docker.Config{Run: "living"})
	mine := open(t, p, sandbox.Spec{Rollout: "mine"})
	run := "dead-" + strconv.Itoa(os.Getpid())
	leaveBehind(t, run)
	leaveBehind(t, run)
	require.Len(t, dockertest.Containers(t, "hermes-env.run="+run), 6)
	// Of a machine elsewhere, and nobody's.
	strange := dockertest.Command(t, "create", "--label", "hermes-env.run="+run, "--label", "hermes-env.owner-pid=1", "--label", "hermes-env.owner-start=1",
		"--label", "hermes-env.boot-id=b", "--label", "hermes-env.place=elsewhere", dockertest.Image, "true")
	t.Cleanup(func() { dockertest.Command(t, "rm", "-f", strange) })

	var (
		wg    sync.WaitGroup
		mu    sync.Mutex
		total int
	)
	for range 3 { // harnesses that start at once share the work
		wg.Go(func() {
			n, err := p.Reap(context.Background())
			mu.Lock()
			defer mu.Unlock()
			total += n
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	require.GreaterOrEqual(t, total, 6)
	require.Equal(t, []string{strange[:12]}, dockertest.Containers(t, "hermes-env.run="+run))
	require.Equal(t, "alive\n", sh(t, mine, "echo alive"))
}

func TestLabelsSayWhoseAContainerIs(t *testing.T) {
	s := open(t, newProvider(t, docker.Config{Run: "run-1"}), sandbox.Spec{Rollout: "rollout-7"})
	for label, want := range map[string]string{"hermes-env.run": "run-1", "hermes-env.rollout": "rollout-7", "hermes-env.owner-pid": strconv.Itoa(os.Getpid())} {
		require.Equal(t, want, dockertest.Command(t, "inspect", "-f", `{{index .Config.Labels "`+label+`"}}`, s.Container()))
	}
	for _, label := range []string{"hermes-env.boot-id", "hermes-env.owner-start", "hermes-env.place"} {
		require.NotEmpty(t, dockertest.Command(t, "inspect", "-f", `{{index .Config.Labels "`+label+`"}}`, s.Container()))
	}
}

func TestFailedCreatesLeaveNothingBehind(t *testing.T) {
	run := "failing-" + strconv.Itoa(os.Getpid())
	p := newProvider(t, docker.Config{Run: run})
	cause := errors.New("enough")
	cancelled, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	for name, c := range map[string]struct {
		ctx  context.Context
		spec sandbox.Spec
		want string
	}{
		"no such user":        {t.Context(), sandbox.Spec{User: "nobody-there"}, "nobody-there"},
		"no such image":       {t.Context(), sandbox.Spec{Image: "127.0.0.1:1/none:none"}, "127.0.0.1:1/none"},
		"never healthy":       {t.Context(), sandbox.Spec{Healthcheck: &sandbox.Healthcheck{Script: "echo sick; exit 3", Interval: time.Millisecond}}, "sick"},
		"a file as directory": {t.Context(), sandbox.Spec{Dir: "/bin/busybox"}, "busybox"},
		"cancelled meanwhile": {cancelled, sandbox.Spec{Healthcheck: &sandbox.Healthcheck{Script: "exit 1", Interval: time.Millisecond, Retries: 1 << 30}}, "enough"},
	} {
		if c.ctx == cancelled {
			time.AfterFunc(300*time.Millisecond, func() { cancel(cause) })
		}
		_, err := p.Create(c.ctx, c.spec)
		require.ErrorContains(t, err, c.want, name)
		require.Empty(t, dockertest.Containers(t, "hermes-env.run="+run), name)
	}
}

func TestAHealthCheckIsAwaited(t *testing.T) {
	p := newProvider(t, docker.Config{})
	s := open(t, p, sandbox.Spec{Healthcheck: &sandbox.Healthcheck{
		Script: "echo x >> /tries; [ $(wc -l < /tries) -ge 5 ]", Interval: time.Millisecond, StartInterval: time.Millisecond, StartPeriod: time.Hour,
	}})
	require.Equal(t, "5\n", sh(t, s, "wc -l < /tries"))
}

func TestContainersThatVanishOrDieAreALossThatSaysWhy(t *testing.T) {
	p := newProvider(t, docker.Config{})
	for name, c := range map[string]struct {
		end  func(container)
		want string
	}{
		"removed": {func(s container) { dockertest.Command(t, "rm", "-f", s.Container()) }, "its container"},
		"killed":  {func(s container) { dockertest.Command(t, "kill", s.Container()) }, "exit code 137"},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, p, sandbox.Spec{})
			s.(sandbox.Restarter).AllowRestarts(false)
			failed := make(chan error, 1)
			go func() {
				_, err := s.Exec(context.Background(), sandbox.Command{Script: ": > /ready; sleep 600"})
				failed <- err
			}()
			sh(t, s, "while [ ! -e /ready ]; do sleep 0.01; done")
			c.end(s)
			err := <-failed
			require.ErrorIs(t, err, sandbox.ErrLost)
			require.ErrorContains(t, err, c.want)
			_, err = s.Exec(t.Context(), sandbox.Command{Script: "true"})
			require.ErrorIs(t, err, sandbox.ErrLost)
		})
	}
}

func TestNewAndCheckSayWhatToDo(t *testing.T) {
	none := func(string) (string, bool) { return "", false }
	_, err := docker.New(docker.Config{Host: "unix:///no/such/socket", Getenv: none})
	require.ErrorIs(t, err, docker.ErrNoEngine)
	require.ErrorContains(t, err, "DOCKER_HOST")
	_, err = docker.New(docker.Config{Host: "ssh://somewhere", Getenv: none})
	if _, missing := exec.LookPath("ssh"); missing != nil {
		require.ErrorContains(t, err, "start ssh")
	} else {
		require.ErrorContains(t, err, "ssh said")
	}
	_, err = docker.New(docker.Config{Network: "host"})
	require.ErrorContains(t, err, "none, bridge and allowlist")
	dockertest.RequireEngine(t)
	p, err := docker.New(docker.Config{Binary: "/etc/passwd"})
	require.NoError(t, err)
	require.ErrorContains(t, p.Check(), "no program for Linux")
	_, err = p.Create(t.Context(), sandbox.Spec{Image: dockertest.Image})
	require.ErrorContains(t, err, "no program for Linux")
	_, err = p.Reap(t.Context())
	require.NoError(t, err)
	require.NoError(t, p.Close(t.Context()))
}

func TestAnItemThatNamesNoImageNeedsOneInTheConfig(t *testing.T) {
	p, err := docker.New(docker.Config{Binary: shared.server(t)})
	require.NoError(t, err)
	_, err = p.Create(t.Context(), sandbox.Spec{})
	require.ErrorContains(t, err, "env.docker_image")
	require.NoError(t, p.Close(t.Context()))
}
