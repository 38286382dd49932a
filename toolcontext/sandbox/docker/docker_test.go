package docker_test

import (
	"context"
	"flag"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox/docker"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox/docker/dockertest"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox/sandboxtest"
)

// fixture is what the tests share: made by the first that needs it.
type fixture struct {
	mu     sync.Mutex
	dir    string
	binary string
}

var shared fixture

func TestMain(m *testing.M) {
	if doomed() {
		return
	}
	// Most of the time tests wait for the engine, not for a processor.
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	dir, err := os.MkdirTemp("", "hermes-env-docker-test-")
	if err != nil {
		panic(err)
	}
	shared.dir = dir
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		_ = os.RemoveAll(dir)
		os.Exit(code)
	}))
}

// server returns the program that serves inside containers, after making the image.
func (f *fixture) server(t testing.TB) string {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.binary == "" {
		dockertest.RequireEngine(t)
		dockertest.MakeImage(t)
		f.binary = dockertest.BuildServer(t, f.dir)
	}
	return f.binary
}

// newProvider returns a provider of the test image.
func newProvider(t testing.TB, c docker.Config) *docker.Provider {
	t.Helper()
	if c.Binary == "" {
		c.Binary = shared.server(t)
	}
	if c.Image == "" {
		c.Image = dockertest.Image
	}
	if c.Network == "" {
		c.Network = sandbox.NetworkNone
	}
	p, err := docker.New(c)
	require.NoError(t, err)
	require.NoError(t, p.Check())
	t.Cleanup(func() { require.NoError(t, p.Close(context.Background())) })
	return p
}

// container is a sandbox that says what container it is.
type container interface {
	sandbox.Sandbox
	Container() string
}

func open(t testing.TB, p *docker.Provider, spec sandbox.Spec) container {
	t.Helper()
	s, err := p.Create(t.Context(), spec)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close(context.Background())) })
	return s.(container)
}

func run(t testing.TB, s sandbox.Sandbox, c sandbox.Command) sandbox.Result {
	t.Helper()
	r, err := s.Exec(t.Context(), c)
	require.NoError(t, err)
	return r
}

// sh runs a script that has to succeed and returns its stdout.
func sh(t testing.TB, s sandbox.Sandbox, script string) string {
	t.Helper()
	r := run(t, s, sandbox.Command{Script: script})
	require.Zero(t, r.ExitCode, "%s: %s", script, r)
	return r.Stdout.String()
}

func TestConformance(t *testing.T) {
	for name, c := range map[string]docker.Config{
		"mounted server":  {},
		"uploaded server": {Upload: true},
		"plain exec":      {PlainExec: true},
	} {
		t.Run(name, func(t *testing.T) {
			// busybox has no bash. What is big goes through the server once.
			o := sandboxtest.Options{NoFunctions: true, Reuse: true, Short: name != "mounted server"}
			sandboxtest.Run(t, func(t *testing.T) sandbox.Provider { return newProvider(t, c) }, o)
		})
	}
}

// How long tests wait for what happens by itself, and how often they look.
const (
	waitLimit = 30 * time.Second
	waitStep  = 10 * time.Millisecond
)
