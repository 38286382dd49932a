package docker_test

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/toolcontext/sandbox/docker"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox/docker/dockertest"
)

func TestInspectReportsTheEngineAndTryRunsASandboxWithoutAnyImage(t *testing.T) {
	binary := shared.server(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	r, err := docker.Inspect(ctx, docker.Config{Binary: binary, Image: dockertest.Image})
	require.NoError(t, err)
	require.Equal(t, dockertest.Command(t, "version", "--format", "{{.Server.Version}}"), r.Version)
	require.Equal(t, dockertest.Command(t, "info", "--format", "{{.DockerRootDir}}"), r.Root)
	require.Equal(t, dockertest.Command(t, "info", "--format", "{{.MemoryLimit}} {{.PidsLimit}}") == "true true", r.MemoryLimit && r.PIDsLimit)
	require.True(t, r.HasImage)
	require.NoError(t, r.ServerNone)
	require.Equal(t, binary, r.Server)

	r, err = docker.Inspect(ctx, docker.Config{Binary: "/etc/passwd", Image: "127.0.0.1:1/none:none"})
	require.NoError(t, err)
	require.False(t, r.HasImage)
	require.ErrorContains(t, r.ServerNone, "no program for Linux")

	images := func() string { return dockertest.Command(t, "images", "-aq", "--filter", "label=hermes-env.try") }
	before := images() // of runs that were killed
	tried, err := docker.Try(ctx, docker.Config{Binary: binary, Run: "try"})
	require.NoError(t, err)
	require.Positive(t, tried.Took)
	require.Contains(t, []docker.DiskBound{docker.DiskByEngine, docker.DiskByMount, docker.DiskByWatch}, tried.Disk)
	require.Equal(t, tried.Disk == docker.DiskByWatch, tried.NoMount != "")
	tried, err = docker.Try(ctx, docker.Config{Binary: binary, Run: "try", DiskWatch: true})
	require.NoError(t, err)
	require.NotEqual(t, docker.DiskByMount, tried.Disk)
	require.Empty(t, dockertest.Containers(t, "hermes-env.run=try"))
	require.Equal(t, before, images())
}

func TestInspectEndsWithItsContextWhereAnEngineIsSilent(t *testing.T) {
	socket := silentSocket(t)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := docker.Inspect(ctx, docker.Config{Host: "unix://" + socket})
	require.ErrorIs(t, err, docker.ErrNoEngine)
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

// silentSocket takes connections and never answers.
func silentSocket(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "s") // short: the path of a socket has a limit
	require.NoError(t, err)
	path := filepath.Join(dir, "s.sock")
	l, err := net.Listen("unix", path)
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, l.Close())
		require.NoError(t, os.RemoveAll(dir))
	})
	return path
}
