package trajectories

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestAFullFileSystemLosesNothingAcknowledged runs against a real full disk where
// the rights to mount one are there, and otherwise against /dev/full, the device
// that is always full.
func TestAFullFileSystemLosesNothingAcknowledged(t *testing.T) {
	base := t.TempDir()
	if err := syscall.Mount("tmpfs", base, "tmpfs", 0, "size=128k"); err != nil {
		f, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
		require.NoError(t, err)
		defer func() { require.NoError(t, f.Close()) }()
		_, err = f.Write([]byte("x"))
		require.ErrorContains(t, diskFailure("write", err), "free space and run again with --resume")
		return
	}
	t.Cleanup(func() { require.NoError(t, syscall.Unmount(base, 0)) })
	dir := filepath.Join(base, "run")
	run := mustCreate(t, dir)
	ballast := filepath.Join(base, "ballast")
	require.ErrorIs(t, os.WriteFile(ballast, make([]byte, 104<<10), 0o644), error(nil))
	acknowledged, refusal := fill(t, run, base)
	require.ErrorIs(t, refusal, syscall.ENOSPC)
	require.ErrorContains(t, refusal, "free space and run again with --resume")
	require.NotEmpty(t, acknowledged)
	closing := run.Close(StatusDone)
	t.Log(closing)
	require.NoError(t, os.Remove(ballast))
	again := mustResume(t, dir)
	for _, key := range acknowledged {
		_, ok := again.Lookup(key)
		require.True(t, ok)
	}
	_, refusal = fill(t, again, base)
	require.NoError(t, refusal)
	require.NoError(t, again.Close(StatusDone))
	checkAgreement(t, dir)
}
