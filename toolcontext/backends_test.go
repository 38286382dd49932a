package toolcontext_test

import (
	"context"
	"os"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/hermes-env/hermes-env/toolcontext"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox/docker"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox/docker/dockertest"
)

// container is what the tests with containers share: made by the first of them.
type container struct {
	mu     sync.Mutex
	dir    string
	server string // the program that serves inside containers
}

var shared container

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "hermes-env-toolcontext-test-")
	if err != nil {
		panic(err)
	}
	shared.dir = dir
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		_ = os.RemoveAll(dir)
		os.Exit(code)
	}))
}

func (c *container) provider(t *testing.T) sandbox.Provider {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.server == "" {
		dockertest.RequireEngine(t)
		dockertest.MakeImage(t)
		c.server = dockertest.BuildServer(t, c.dir)
	}
	p, err := docker.New(docker.Config{Binary: c.server, Image: dockertest.Image, Network: sandbox.NetworkNone})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close(context.Background())) })
	return p
}

// everywhere runs a test on a local sandbox and, where an engine answers, in a container.
func everywhere(t *testing.T, test func(t *testing.T, tc *toolcontext.Context)) {
	t.Run("local", func(t *testing.T) { test(t, newContext(t, newProvider(t))) })
	t.Run("docker", func(t *testing.T) { test(t, newContext(t, shared.provider(t))) })
}
