package local_test

import (
	"context"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/hermes-env/hermes-env/internal/slowtest"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox/local"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox/sandboxtest"
)

// TestMain fails the package when a goroutine or a process outlives the tests.
func TestMain(m *testing.M) {
	// Most of the time tests wait for processes, not for a processor.
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

// newProvider returns a provider that has to leave nothing behind: no directory, no
// control group.
func newProvider(t *testing.T, c local.Config) *local.Provider {
	t.Helper()
	if c.BaseDir == "" {
		c.BaseDir = t.TempDir()
	}
	p, err := local.New(c)
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, p.Close(context.Background()))
		entries, err := os.ReadDir(c.BaseDir)
		require.NoError(t, err)
		require.Empty(t, entries, "directories left behind")
		require.Empty(t, runningIn(c.BaseDir), "processes left behind")
	})
	return p
}

func open(t *testing.T, p *local.Provider, spec sandbox.Spec) sandbox.Sandbox {
	t.Helper()
	s, err := p.Create(t.Context(), spec)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close(context.Background())) })
	return s
}

func run(t *testing.T, s sandbox.Sandbox, c sandbox.Command) sandbox.Result {
	t.Helper()
	r, err := s.Exec(t.Context(), c)
	require.NoError(t, err)
	return r
}

// runningIn returns the live processes that work below a directory or were started
// in a sandbox below it.
func runningIn(base string) []string {
	ids := map[string]bool{}
	var found []string
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, stat := range stats {
		dir := filepath.Dir(stat)
		cwd, err := os.Readlink(filepath.Join(dir, "cwd"))
		if err == nil && strings.HasPrefix(cwd, base+"/") {
			ids[filepath.Base(dir)] = true
		}
		env, err := os.ReadFile(filepath.Join(dir, "environ"))
		if err == nil && strings.Contains(string(env), "\x00HOME="+base+"/") {
			ids[filepath.Base(dir)] = true
		}
	}
	for id := range ids {
		line, err := os.ReadFile("/proc/" + id + "/stat")
		if err == nil && !strings.Contains(string(line), ") Z ") {
			found = append(found, string(line))
		}
	}
	return found
}

// kind is a configuration whose difference the suite must not show.
type kind struct {
	config local.Config
	only   []string // what the difference can touch
}

func kinds(t *testing.T) map[string]kind {
	kinds := map[string]kind{
		"default":        {},
		"without groups": {local.Config{NoCgroups: true}, []string{"endings", "life"}},
	}
	for _, sh := range []string{"dash", "busybox", "ksh"} {
		path, err := exec.LookPath(sh)
		if err == nil && sh == "busybox" { // busybox is told what to be by its name
			link := filepath.Join(t.TempDir(), "sh")
			require.NoError(t, os.Symlink(path, link))
			path = link
		}
		if err == nil {
			kinds["with "+sh] = kind{local.Config{Shell: path, Grace: -1}, []string{"commands", "sessions", "streams"}}
		}
	}
	return kinds
}

func TestConformance(t *testing.T) {
	for name, k := range kinds(t) {
		t.Run(name, func(t *testing.T) {
			if name != "default" {
				slowtest.Require(t)
			}
			t.Parallel()
			sandboxtest.Run(t, func(t *testing.T) sandbox.Provider {
				return newProvider(t, k.config)
			}, sandboxtest.Options{
				NoFunctions: k.config.Shell != "",
				Only:        k.only,
				GroupsOnly:  runtime.GOOS != "linux",
				Short:       name != "default" || !slowtest.All(t),
			})
		})
	}
}
