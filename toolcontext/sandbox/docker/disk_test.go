package docker_test

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox/docker"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox/docker/dockertest"
)

// usedBelow returns the bytes on disk of what is below a directory.
func usedBelow(dir string) int64 {
	total := int64(0)
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil // gone meanwhile
		}
		if info, err := d.Info(); err == nil {
			if st, ok := info.Sys().(*syscall.Stat_t); ok {
				total += st.Blocks * 512
			}
		}
		return nil
	})
	return total
}

// most watches from outside how much a sandbox ever has on disk.
func most(t *testing.T, s container) (stop func() int64) {
	t.Helper()
	dir := dockertest.Command(t, "inspect", "-f", "{{.GraphDriver.Data.UpperDir}}", s.Container())
	if _, err := os.Stat(dir); err != nil {
		t.Skipf("the engine's directory can't be seen from here: %v", err)
	}
	var highest atomic.Int64
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			highest.Store(max(highest.Load(), usedBelow(dir)))
			time.Sleep(time.Millisecond)
		}
	}()
	return func() int64 {
		cancel()
		<-done
		return highest.Load()
	}
}

// writers fill the disk in several ways at once, beside busy commands.
const writers = "cd /work; for k in 1 2 3 4 5 6 7 8; do (while :; do :; done) & done\n" +
	"p=; for k in 1 2 3 4; do (i=0; while [ $i -lt 60 ] && head -c 104857600 /dev/zero > f$k.$i; do i=$((i+1)); done) & p=\"$p $!\"; done\n" +
	"wait $p"

func TestDisk_IsBoundedByAFileSystemOfItsOwn(t *testing.T) {
	p := newProvider(t, docker.Config{Capabilities: sandbox.Capabilities{Base: sandbox.CapabilitiesEngine}})
	if why := p.WhyNoDisks(); why != "" {
		t.Skipf("containers get no file system of their own here: %s", why)
	}
	const limit = 200 << 20
	s := open(t, p, sandbox.Spec{DiskBytes: limit}).(*docker.Sandbox)
	layer := s.Layer()
	if layer == "" {
		t.Skipf("containers get no file system of their own here: %s", p.WhyNoDisks())
	}
	arm(t, s)
	stop := most(t, s)
	r := run(t, s, sandbox.Command{Args: []string{"/tmp/attacker", "allocate", "/work", "150"}})
	require.Equal(t, 1, r.ExitCode, "%s", r)
	require.Contains(t, r.Stderr.String(), "no space left on device")
	sh(t, s, "rm /work/allocated*")
	run(t, s, sandbox.Command{Script: writers, Timeout: time.Minute})
	highest := stop()
	t.Logf("at most %d MB of %d", highest>>20, limit>>20)
	require.LessOrEqual(t, highest, int64(limit+limit/50+16<<20))
	require.NoError(t, s.KillAll(t.Context()))

	// What comes after the agent has some room, and the sandbox is what it always is.
	require.NotZero(t, run(t, s, sandbox.Command{Script: "head -c 10485760 /dev/zero > /work/more"}).ExitCode)
	s.AllowRestarts(false)
	sh(t, s, "head -c 104857600 /dev/zero > /work/more")
	sh(t, s, "rm -rf /home/agent; mv /etc/passwd /etc/users; ln -s users /etc/passwd")
	changes, err := s.Changes(t.Context())
	require.NoError(t, err)
	require.Contains(t, changes, sandbox.Change{Path: "/home/agent", Kind: sandbox.Deleted})
	for _, c := range changes {
		require.NotContains(t, c.Path, "spare")
	}

	// Nothing stays behind, also not of one that is removed by others.
	require.NoError(t, s.Close(t.Context()))
	other := open(t, p, sandbox.Spec{DiskBytes: limit}).(*docker.Sandbox)
	require.NotEmpty(t, other.Layer())
	dockertest.Command(t, "rm", "-f", other.Container())
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	require.NoError(t, err)
	for _, dir := range []string{layer, other.Layer()} {
		require.NoDirExists(t, dir)
		require.NotContains(t, string(mounts), dir)
	}
}

func TestDisk_WithoutAFileSystemOfItsOwnIsBoundedByTheWatch(t *testing.T) {
	p := newProvider(t, docker.Config{DiskWatch: true})
	const limit = 200 << 20
	s := open(t, p, sandbox.Spec{DiskBytes: limit}).(*docker.Sandbox)
	require.Empty(t, s.Layer())
	if dockertest.Command(t, "inspect", "-f", "{{.HostConfig.StorageOpt}}", s.Container()) != "map[]" {
		t.Skip("the storage driver bounds it")
	}
	arm(t, s)
	stop := most(t, s)
	for range 4 { // each time as far as it gets
		r := run(t, s, sandbox.Command{Script: writers, Timeout: 2 * time.Minute, Merge: true})
		require.Equal(t, 137, r.ExitCode, "%s", r)
		require.Contains(t, r.Stdout.String(), "sandbox disk limit of 200 MB exceeded")
	}
	highest := stop()
	t.Logf("at most %d MB of %d", highest>>20, limit>>20)
	require.LessOrEqual(t, highest, int64(limit+limit/4+256<<20))

	// A verifier can still work, and nothing of it is a failure of the machine.
	require.NoError(t, s.KillAll(t.Context()))
	sh(t, s, "head -c 20971520 /dev/zero > /work/more; rm /work/f*")

	// Space that is allocated and not written to is given back, with the files as they were.
	sh(t, s, "sleep 1; echo kept > /work/kept")
	r := run(t, s, sandbox.Command{Script: "/tmp/attacker allocate /work 150; sleep 30", Merge: true, Timeout: time.Minute})
	require.Equal(t, 137, r.ExitCode, "%s", r)
	require.Equal(t, "kept\n157286400\n", sh(t, s, "cat /work/kept; wc -c < /work/allocated0"))
	used := usedBelow(dockertest.Command(t, "inspect", "-f", "{{.GraphDriver.Data.UpperDir}}", s.Container()))
	require.Less(t, used, int64(limit), strings.TrimSpace(r.Stdout.String()))
}
