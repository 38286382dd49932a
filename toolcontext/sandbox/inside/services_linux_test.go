package inside_test

import (
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
)

// TestMain's program listens on a socket when it is asked to by this variable.
const listenVariable = "TEST_LISTEN"

func listen(path string) int {
	l, err := net.Listen("unix", path)
	if err != nil {
		return 1
	}
	for {
		c, err := l.Accept()
		if err != nil {
			return 0
		}
		_ = c.Close()
	}
}

func TestOnlyServicesAreKept(t *testing.T) {
	self, err := os.Executable()
	require.NoError(t, err)
	dir, err := os.MkdirTemp("/tmp", "services-test-") // the names of sockets are short
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	path := filepath.Join(dir, "socket")
	c := create(t, kind{})
	c.script(t, "%s", "setsid sh -c '"+listenVariable+"="+path+" "+self+" & while :; do sleep 0.05; done' > /dev/null 2>&1 &\n"+
		"setsid sh -c 'while :; do sleep 0.05; done' > /dev/null 2>&1 & echo $! > "+dir+"/other\nwhile [ ! -S "+path+" ]; do sleep 0.01; done")
	require.Eventually(t, func() bool { // the socket is there a moment before it listens
		conn, err := net.Dial("unix", path)
		return err == nil && conn.Close() == nil
	}, 10*time.Second, time.Millisecond)
	other, err := os.ReadFile(filepath.Join(dir, "other"))
	require.NoError(t, err)
	kept, _, err := c.KillOthers(t.Context(), sandbox.KeepServices)
	require.NoError(t, err)
	var listener *sandbox.Service
	for i, s := range kept {
		if len(s.Listens) > 0 {
			listener = &kept[i]
			continue
		}
		require.Contains(t, []string{"parent", "session", "child"}, s.Because, s.Command)
	}
	require.NotNil(t, listener, "%v", kept)
	require.Equal(t, []string{"unix " + path}, listener.Listens)
	require.GreaterOrEqual(t, len(kept), 2, "the shell above it goes on as well")
	conn, err := net.Dial("unix", path)
	require.NoError(t, err)
	require.NoError(t, conn.Close())
	pid := string(other[:len(other)-1])
	require.NotEmpty(t, pid)
	require.Equal(t, "gone\n", c.script(t, "kill -0 %s 2>/dev/null || echo gone", pid))
	state := c.script(t, "cut -d ' ' -f 3 /proc/%s/stat", strconv.Itoa(listener.PID))
	require.NotEqual(t, "T\n", state, "it goes on")
	require.NoError(t, c.KillAll(t.Context()))
	_, err = net.Dial("unix", path)
	require.Error(t, err, "killing all ends services too")
	kept, _, err = c.KillOthers(t.Context(), sandbox.KeepServices)
	require.NoError(t, err)
	require.Empty(t, kept)
}

func TestChangesOfWatchedDirectoriesAreCounted(t *testing.T) {
	for name, a := range map[string]struct {
		script string
		want   map[string]sandbox.WatchEvents
	}{
		"nothing":           {"true", nil},
		"reading":           {"cat results/old tests/deep/file", nil},
		"a write":           {"echo 1 > results/new", map[string]sandbox.WatchEvents{"results/new": {Created: 1, Written: 1}}},
		"two writes":        {"echo 1 > results/new; echo 2 > results/new", map[string]sandbox.WatchEvents{"results/new": {Created: 1, Written: 2}}},
		"a rename":          {"echo 1 > aside; mv aside results/new", map[string]sandbox.WatchEvents{"results/new": {Arrived: 1}}},
		"a removal":         {"rm results/old", map[string]sandbox.WatchEvents{"results/old": {Left: 1}}},
		"a link":            {"echo 1 > aside; ln aside results/new", map[string]sandbox.WatchEvents{"results/new": {Created: 1, Elsewhere: 1}}},
		"a change deep in":  {"echo 1 >> tests/deep/file", map[string]sandbox.WatchEvents{"tests/deep/file": {Written: 1}}},
		"a moved directory": {"mv results away; mkdir results; echo 1 > results/new", map[string]sandbox.WatchEvents{"results": {Created: 1, Left: 1}}},
		"another directory": {"mkdir other; echo 1 > other/file", nil},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			c := create(t, kind{})
			c.script(t, "cd %s && mkdir -p results tests/deep && echo 0 > results/old && echo 0 > tests/deep/file", dir)
			_, _, err := c.Watched(t.Context(), false)
			require.ErrorIs(t, err, fs.ErrNotExist)
			require.NoError(t, c.Watch(t.Context(), []string{filepath.Join(dir, "results"), filepath.Join(dir, "tests")}))
			c.script(t, "cd %s && %s", dir, a.script)
			events, lost, err := c.Watched(t.Context(), false)
			require.NoError(t, err)
			require.False(t, lost)
			got := map[string]sandbox.WatchEvents{}
			for _, e := range events {
				at, err := filepath.Rel(dir, e.Path)
				require.NoError(t, err)
				e.Path = ""
				got[at] = e
			}
			if a.want == nil {
				a.want = map[string]sandbox.WatchEvents{}
			}
			require.Equal(t, a.want, got)
			events, _, err = c.Watched(t.Context(), true)
			require.NoError(t, err)
			require.Empty(t, events, "each is told once")
			_, _, err = c.Watched(t.Context(), true)
			require.Error(t, err, "the watch has ended")
		})
	}
}

func TestOnlyDirectoriesCanBeWatched(t *testing.T) {
	dir := t.TempDir()
	c := create(t, kind{})
	require.NoError(t, os.Symlink(dir, filepath.Join(dir, "link")))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "file"), nil, 0o600))
	for _, bad := range []string{"relative", "/", "", filepath.Join(dir, "file"), filepath.Join(dir, "link"), filepath.Join(dir, "missing")} {
		require.Error(t, c.Watch(t.Context(), []string{bad}), bad)
	}
	require.NoError(t, c.Watch(t.Context(), []string{dir}))
	require.NoError(t, c.Watch(t.Context(), []string{dir}), "in place of the first")
}

func TestAFloodOfChangesIsToldAsSuch(t *testing.T) {
	dir := t.TempDir()
	c := create(t, kind{})
	require.NoError(t, c.Watch(t.Context(), []string{dir}))
	c.script(t, "cd %s && i=0; while [ $i -lt 700 ]; do : > f$i; i=$((i+1)); done", dir)
	events, lost, err := c.Watched(t.Context(), true)
	require.NoError(t, err)
	require.True(t, lost)
	require.LessOrEqual(t, len(events), 500)
}
