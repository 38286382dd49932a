package singularity_test

import (
	"context"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/hermes-env/hermes-env/internal/slowtest"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox/sandboxtest"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox/singularity"
)

// fixture is the program that serves in instances, made by the first test that needs it.
type fixture struct {
	mu          sync.Mutex
	dir, binary string
}

var shared fixture

func TestMain(m *testing.M) {
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	dir, err := os.MkdirTemp("", "hermes-env-singularity-test-")
	if err != nil {
		panic(err)
	}
	shared.dir = dir
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		_ = os.RemoveAll(dir)
		os.Exit(code)
	}))
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

func (f *fixture) server(t testing.TB) string {
	t.Helper()
	slowtest.Require(t)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.binary == "" {
		path, source := filepath.Join(f.dir, "hermes-env"), filepath.Join(f.dir, "main.go")
		require.NoError(t, os.WriteFile(source, []byte(serverSource), 0o600))
		build := exec.Command("go", "build", "-o", path, source)
		build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux")
		out, err := build.CombinedOutput()
		require.NoError(t, err, "build the server: %s", out)
		f.binary = path
	}
	return f.binary
}

// fake is the stand-in for apptainer and what it keeps.
type fake struct {
	t     testing.TB
	dir   string
	state string
	image string
}

func newFake(t testing.TB) fake {
	t.Helper()
	f := fake{t: t, dir: t.TempDir()}
	f.state = filepath.Join(f.dir, "state")
	f.image = filepath.Join(f.dir, "image.sif")
	require.NoError(t, os.Mkdir(f.state, 0o700))
	require.NoError(t, os.WriteFile(f.image, []byte("sif"), 0o600))
	return f
}

func (f fake) config() singularity.Config {
	return singularity.Config{
		Command: "testdata/apptainer", Image: f.image, Binary: shared.server(f.t),
		Environ: append(os.Environ(), "APPTAINER_FAKE_STATE="+f.state, "OPENAI_API_KEY=sk-secret-of-the-harness",
			"APPTAINERENV_LEAK=sk-secret", "SINGULARITYENV_LEAK=sk-secret", "APPTAINER_BIND=/root", "SINGULARITY_BINDPATH=/root"),
		BaseDir: filepath.Join(f.dir, "boxes"), ImageDir: filepath.Join(f.dir, "sif"),
	}
}

func (f fake) read(suffix string) string {
	f.t.Helper()
	data, err := os.ReadFile(f.state + suffix)
	require.NoError(f.t, err)
	return string(data)
}

func names(t testing.TB, dir string) []string {
	t.Helper()
	list, err := os.ReadDir(dir)
	require.NoError(t, err)
	out := []string{}
	for _, e := range list {
		out = append(out, e.Name())
	}
	return out
}

func newProvider(t testing.TB, c singularity.Config) *singularity.Provider {
	t.Helper()
	command, err := filepath.Abs(c.Command)
	require.NoError(t, err)
	c.Command = command
	p, err := singularity.New(c)
	require.NoError(t, err)
	require.NoError(t, p.Check())
	t.Cleanup(func() { require.NoError(t, p.Close(context.Background())) })
	return p
}

func open(t testing.TB, p *singularity.Provider, spec sandbox.Spec) sandbox.Sandbox {
	t.Helper()
	s, err := p.Create(t.Context(), spec)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close(context.Background())) })
	return s
}

func sh(t testing.TB, s sandbox.Sandbox, script string) string {
	t.Helper()
	r, err := s.Exec(t.Context(), sandbox.Command{Script: script})
	require.NoError(t, err)
	require.Zero(t, r.ExitCode, "%s: %s", script, r)
	return r.Stdout.String()
}

func TestConformance(t *testing.T) {
	slowtest.Require(t)
	f := newFake(t)
	sandboxtest.Run(t, func(t *testing.T) sandbox.Provider { return newProvider(t, f.config()) }, sandboxtest.Options{Short: true})
	require.Empty(t, names(t, f.state), "instances left behind")
	require.Empty(t, names(t, filepath.Join(f.dir, "boxes")), "directories left behind")
}

// TestConformanceInInstances runs the suite for real, where that is possible: with
// an image named by HERMES_ENV_SINGULARITY_IMAGE.
func TestConformanceInInstances(t *testing.T) {
	image := os.Getenv("HERMES_ENV_SINGULARITY_IMAGE")
	if image == "" {
		t.Skip("needs apptainer and an image named by HERMES_ENV_SINGULARITY_IMAGE")
	}
	base := filepath.Join(t.TempDir(), "boxes")
	p, err := singularity.New(singularity.Config{Image: image, Binary: shared.server(t), BaseDir: base})
	require.NoError(t, err)
	s, err := p.Create(t.Context(), sandbox.Spec{})
	require.NoError(t, err)
	r, err := s.Exec(t.Context(), sandbox.Command{Script: "command -v bash"})
	require.NoError(t, err)
	require.NoError(t, s.Close(t.Context()))
	sandboxtest.Run(t, func(*testing.T) sandbox.Provider { return p }, sandboxtest.Options{Short: true, NoFunctions: r.ExitCode != 0})
	require.Empty(t, names(t, base))
}

func TestAnInstanceGetsWhatItsSpecAsksForAndNothingElse(t *testing.T) {
	f := newFake(t)
	p := newProvider(t, f.config())
	s := open(t, p, sandbox.Spec{CPUs: 1.5, MemoryBytes: 1 << 30, PIDs: 100, Network: sandbox.NetworkNone, Env: map[string]string{"GIVEN": "yes"}})
	require.NotContains(t, sh(t, s, "env"), "sk-secret")
	require.Equal(t, "yes dumb\n", sh(t, s, `echo "$GIVEN $TERM"`))
	tree := filepath.Join(f.dir, "boxes", s.Info().ID)
	require.Contains(t, f.read(".log"), "instance start --containall --cleanenv --writable-tmpfs --home "+tree+"/home:/home/agent --workdir "+tree+"/scratch --bind "+
		shared.server(t)+":/.hermes-env/hermes-env:ro --cpus 1.5 --memory 1073741824 --pids-limit 100 --net --network none "+f.image+" "+s.Info().ID+"\n")
	require.Contains(t, f.read(".log"), "exec --cleanenv --pwd /home/agent instance://"+s.Info().ID+" /.hermes-env/hermes-env sandbox-server\n")
	for _, secret := range []string{"sk-secret", "BIND"} {
		require.NotContains(t, f.read(".env"), secret)
	}
	info, err := os.Stat(tree)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o700), info.Mode().Perm())
	require.Equal(t, f.image, s.Info().Image)
	sh(t, s, "mkdir -p d/e; chmod 0 d/e d")
	require.NoError(t, s.Close(t.Context()))
	require.NoDirExists(t, tree)
}

func TestImagesAreFetchedOnceAndPlainNamesAreDockers(t *testing.T) {
	f := newFake(t)
	p := newProvider(t, f.config())
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			s, err := p.Create(t.Context(), sandbox.Spec{Image: "debian:12"})
			if err == nil {
				err = s.Close(t.Context())
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	require.Equal(t, 1, strings.Count(f.read(".log"), "docker://debian:12\n"))
	require.Len(t, names(t, filepath.Join(f.dir, "sif")), 1)
	_, err := p.Create(t.Context(), sandbox.Spec{Image: "library://missing"})
	require.ErrorContains(t, err, "manifest unknown")
	require.Len(t, names(t, filepath.Join(f.dir, "sif")), 1)
}

func TestFailedCreatesSayWhyAndLeaveNothing(t *testing.T) {
	f := newFake(t)
	c := f.config()
	broken := filepath.Join(f.dir, "broken.sif")
	require.NoError(t, os.WriteFile(broken, nil, 0o600))
	p := newProvider(t, c)
	for name, test := range map[string]struct {
		spec sandbox.Spec
		want string
	}{
		"a broken image":   {sandbox.Spec{Image: broken}, "could not open image"},
		"a missing file":   {sandbox.Spec{Image: filepath.Join(f.dir, "none.sif")}, "no such file"},
		"another user":     {sandbox.Spec{User: "agent"}, "not supported"},
		"a folder":         {sandbox.Spec{Build: "/x"}, "not supported"},
		"a bounded disk":   {sandbox.Spec{DiskBytes: 1}, "not supported"},
		"a file as a Dir":  {sandbox.Spec{Dir: "/etc/passwd"}, "/etc/passwd"},
		"negative numbers": {sandbox.Spec{PIDs: -1}, "negative"},
	} {
		_, err := p.Create(t.Context(), test.spec)
		require.ErrorContains(t, err, test.want, name)
	}
	require.Empty(t, names(t, f.state))
	require.Empty(t, names(t, c.BaseDir))
	c.Image = ""
	_, err := newProvider(t, c).Create(t.Context(), sandbox.Spec{})
	require.ErrorContains(t, err, "env.singularity_image")
}

func TestAServerThatIsKilledIsALossThatSaysSo(t *testing.T) {
	f := newFake(t)
	s := open(t, newProvider(t, f.config()), sandbox.Spec{})
	pid, err := strconv.Atoi(strings.TrimSpace(f.read("/" + s.Info().ID + ".pid")))
	require.NoError(t, err)
	server, err := os.FindProcess(pid)
	require.NoError(t, err)
	require.NoError(t, server.Kill())
	_, err = s.Exec(t.Context(), sandbox.Command{Script: "sleep 600"})
	require.ErrorIs(t, err, sandbox.ErrLost)
	require.ErrorContains(t, err, "killed")
}

func TestAnInstanceThatCanNotBeStoppedIsNamed(t *testing.T) {
	f := newFake(t)
	p := newProvider(t, f.config())
	s, err := p.Create(t.Context(), sandbox.Spec{})
	require.NoError(t, err)
	stuck := filepath.Join(f.state, s.Info().ID+".stuck")
	require.NoError(t, os.WriteFile(stuck, nil, 0o600))
	err = s.Close(t.Context())
	require.ErrorContains(t, err, s.Info().ID)
	require.ErrorContains(t, err, "hermes-env cleanup")
	require.NoError(t, os.Remove(stuck))
}

func TestReapStopsWhatDeadOwnersLeftAndNothingElse(t *testing.T) {
	f := newFake(t)
	p := newProvider(t, f.config())
	mine := open(t, p, sandbox.Spec{})
	part := strings.Split(mine.Info().ID, "-")
	dead := exec.Command("true")
	require.NoError(t, dead.Run())
	gone := strconv.Itoa(dead.Process.Pid) + "-1-" + part[2] + "-" + part[3] + "-gone"
	onlyFiles := "1-1-0123456789ab-" + part[3] + "-earlier"
	elsewhere := "1-1-" + part[2] + "-0123456789ab-elsewhere"
	for _, name := range []string{gone, onlyFiles, elsewhere, "mine-own"} {
		require.NoError(t, os.MkdirAll(filepath.Join(f.dir, "boxes", name, "home", "x"), 0o700))
	}
	for _, name := range []string{gone, elsewhere, "web-server"} {
		require.NoError(t, os.WriteFile(filepath.Join(f.state, name), []byte(filepath.Join(f.dir, "boxes", name, "home")+"\n"), 0o600))
	}
	n, err := p.Reap(t.Context())
	require.NoError(t, err)
	require.Equal(t, 2, n)
	require.ElementsMatch(t, []string{mine.Info().ID, elsewhere, "mine-own"}, names(t, filepath.Join(f.dir, "boxes")))
	require.ElementsMatch(t, []string{mine.Info().ID, mine.Info().ID + ".pid", elsewhere, "web-server"}, names(t, f.state))
	require.Equal(t, "well\n", sh(t, mine, "echo well"))
}

func TestWithoutTheCommandTheErrorSaysWhatToInstall(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	_, err := singularity.New(singularity.Config{})
	require.ErrorIs(t, err, singularity.ErrNoCommand)
	require.ErrorContains(t, err, "apptainer.org")
	_, err = singularity.New(singularity.Config{Command: "/no/such/command"})
	require.ErrorContains(t, err, "/no/such/command")
}

func TestADirectoryThatOthersCanWriteIsNotUsed(t *testing.T) {
	f := newFake(t)
	c := f.config()
	require.NoError(t, os.Mkdir(c.BaseDir, 0o700))
	require.NoError(t, os.Chmod(c.BaseDir, 0o777))
	_, err := newProvider(t, c).Create(t.Context(), sandbox.Spec{})
	require.ErrorContains(t, err, "only you can write")
	require.Empty(t, names(t, c.BaseDir))
}

func TestCreateEndsWithItsContext(t *testing.T) {
	f := newFake(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Nanosecond)
	defer cancel()
	<-ctx.Done()
	_, err := newProvider(t, f.config()).Create(ctx, sandbox.Spec{})
	require.ErrorIs(t, err, context.DeadlineExceeded)
}
