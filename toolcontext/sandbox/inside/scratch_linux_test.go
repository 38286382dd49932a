package inside_test

import (
	"archive/tar"
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/internal/slowtest"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
)

// static builds the real program as it is mounted into containers.
func static(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "hermes-env")
	build := exec.Command("go", "build", "-o", path, "github.com/hermes-env/hermes-env/cmd/hermes-env")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return path
}

// TestAnImageWithNothingInIt runs the real program as the first process of a root
// directory that holds no other file.
func TestAnImageWithNothingInIt(t *testing.T) {
	if !canIsolate() {
		return // only root can change the root directory
	}
	slowtest.Require(t)
	program := static(t)
	root := t.TempDir()
	require.NoError(t, os.Link(program, filepath.Join(root, "server")))
	c := create(t, kind{first: true, root: root})
	run := func(cmd sandbox.Command) sandbox.Result {
		cmd.Timeout = time.Minute
		r, err := c.Exec(t.Context(), cmd)
		require.NoError(t, err)
		return r
	}
	require.Equal(t, 1, c.Server().PID)
	require.Equal(t, "/", c.Info().Dir)

	// The program itself is all there is to run.
	r := run(sandbox.Command{Args: []string{"/server", "version"}})
	require.Zero(t, r.ExitCode, "%v", r)
	require.Contains(t, r.Stdout.String(), "linux/")
	r = run(sandbox.Command{Script: "echo x"})
	require.Equal(t, 127, r.ExitCode)
	require.Contains(t, r.String(), "no shell")
	require.Equal(t, 127, run(sandbox.Command{Args: []string{"sh"}}).ExitCode)

	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	require.NoError(t, w.WriteHeader(&tar.Header{Name: "file", Mode: 0o640, Size: 4}))
	_, err := io.WriteString(w, "text")
	require.NoError(t, err)
	require.NoError(t, w.Close())
	require.NoError(t, c.Upload(t.Context(), &archive, "/some/where"))
	info, err := c.Stat(t.Context(), "/some/where/file")
	require.NoError(t, err)
	require.EqualValues(t, 4, info.Size)
	d, err := c.Download(t.Context(), "/some/where")
	require.NoError(t, err)
	require.NoError(t, sandbox.ExtractTar(t.Context(), d, filepath.Join(root, "copy"), sandbox.TarLimits{}))
	require.NoError(t, d.Close())
	data, err := os.ReadFile(filepath.Join(root, "copy", "where", "file"))
	require.NoError(t, err)
	require.Equal(t, "text", string(data))
	require.NoError(t, c.KillAll(t.Context()))

	// A shell that comes later is found: busybox, as one file without links to it.
	busybox, err := exec.LookPath("busybox")
	if err != nil {
		return
	}
	require.NoError(t, os.MkdirAll(filepath.Join(root, "bin"), 0o755))
	content, err := os.ReadFile(busybox)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(root, "bin", "busybox"), content, 0o755))
	r = run(sandbox.Command{Script: "cd /some; export V=1; echo $V", Session: true})
	if r.ExitCode == 126 || r.ExitCode == 127 {
		return // one that needs libraries
	}
	require.Equal(t, "1\n", r.Stdout.String(), "%v", r)
	r = run(sandbox.Command{Script: "echo $V; pwd", Session: true})
	require.Equal(t, "1\n/some\n", r.Stdout.String(), "%v", r)
	r, err = c.Exec(t.Context(), sandbox.Command{Script: "busybox sleep 600", Timeout: 50 * time.Millisecond})
	require.NoError(t, err)
	require.True(t, r.TimedOut, "%v", r)
}

func TestCommandsAreEndedBeforeTheServerWhenMemoryRunsOut(t *testing.T) {
	each(t, func(t *testing.T, c *child) {
		r, err := c.Exec(t.Context(), sandbox.Command{Script: "sleep 0.05; cat /proc/$$/oom_score_adj; sh -c 'cat /proc/self/oom_score_adj'"})
		require.NoError(t, err)
		require.Equal(t, "1000\n1000\n", r.Stdout.String())
	})
}

func TestCommandsKeepTheUsualTimerSlack(t *testing.T) {
	want, err := os.ReadFile("/proc/self/timerslack_ns")
	require.NoError(t, err)
	each(t, func(t *testing.T, c *child) {
		for range 20 { // on several threads of the server
			r, err := c.Exec(t.Context(), sandbox.Command{Script: "cat /proc/self/timerslack_ns"})
			require.NoError(t, err)
			require.Equal(t, string(want), r.Stdout.String())
		}
	})
}
