package ssh_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/internal/owner"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
	backend "github.com/hermes-env/hermes-env/toolcontext/sandbox/ssh"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox/ssh/sshtest"
)

func TestAReportChangesNothing(t *testing.T) {
	c := newClient(t)
	m := newMachine(t, c)
	r, err := backend.Inspect(t.Context(), m.config(c))
	require.NoError(t, err)
	require.Empty(t, names(t, m.home), "something was made")
	require.Equal(t, m.cache(), r.CacheDir)
	require.NoError(t, r.CacheError)
	require.NoError(t, r.ServerNone)
	require.Equal(t, runtime.GOARCH, r.Arch)
	require.Contains(t, r.Kernel, "Linux ")
	require.True(t, r.SpaceKnown)
	require.Positive(t, r.FreeBytes)
	require.True(t, r.RunsCache)
	require.True(t, r.RunsTemp)
	require.False(t, r.Uploaded)
	require.Zero(t, r.Held+r.Abandoned+r.Foreign+r.Old)
	require.Equal(t, r.Asked, r.Sessions)
	left, err := filepath.Glob("/tmp/.hermes-env-try-*")
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestAReportCountsWhoseTreesThereAre(t *testing.T) {
	config := startSSHD(t)
	p := newProvider(t, config)
	s := open(t, p, sandbox.Spec{})
	dead := exec.Command("true")
	require.NoError(t, dead.Run())
	gone := owner.This()
	gone.PID, gone.Start = dead.Process.Pid, 1
	elsewhere := owner.This()
	elsewhere.Place = "0123456789ab"
	for _, name := range []string{gone.NewName(), gone.NewName(), elsewhere.NewName(), "notes"} {
		require.NoError(t, os.Mkdir(filepath.Join(config.CacheDir, "boxes", name), 0o700))
	}
	require.NoError(t, os.WriteFile(filepath.Join(config.CacheDir, "server-old"), nil, 0o700))
	r, err := backend.Inspect(t.Context(), config)
	require.NoError(t, err)
	require.True(t, r.Uploaded)
	require.Equal(t, []int{1, 2, 1, 1}, []int{r.Held, r.Abandoned, r.Foreign, r.Old})
	require.Equal(t, sshtest.MaxSessions, r.Sessions)
	n, err := p.Reap(t.Context())
	require.NoError(t, err)
	require.Equal(t, 2, n)
	require.Equal(t, "well\n", sh(t, s, "echo well"))
}

func TestAReportSaysWhyAMachineCanNotBeUsed(t *testing.T) {
	c := newClient(t)
	t.Run("no program", func(t *testing.T) {
		config := newMachine(t, c).config(c)
		config.Binary = "/etc/passwd"
		r, err := backend.Inspect(t.Context(), config)
		require.NoError(t, err)
		require.ErrorContains(t, r.ServerNone, "no program")
	})
	t.Run("another processor", func(t *testing.T) {
		m := newMachine(t, c)
		bin := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(bin, "uname"), []byte("#!/bin/sh\necho riscv64\n"), 0o755))
		m.path = bin + ":" + os.Getenv("PATH")
		r, err := backend.Inspect(t.Context(), m.config(c))
		require.NoError(t, err)
		require.ErrorContains(t, r.ServerNone, "riscv64")
	})
	t.Run("a directory that others write", func(t *testing.T) {
		m := newMachine(t, c)
		require.NoError(t, os.MkdirAll(m.cache(), 0o700))
		require.NoError(t, os.Chmod(m.cache(), 0o777))
		r, err := backend.Inspect(t.Context(), m.config(c))
		require.NoError(t, err)
		require.ErrorContains(t, r.CacheError, "others may write")
	})
	t.Run("a disk where nothing runs", func(t *testing.T) {
		m := newMachine(t, c)
		bin := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(bin, "chmod"), []byte("#!/bin/sh\nexit 1\n"), 0o755))
		m.path = bin + ":" + os.Getenv("PATH")
		r, err := backend.Inspect(t.Context(), m.config(c))
		require.NoError(t, err)
		require.False(t, r.RunsCache)
		require.False(t, r.RunsTemp)
	})
	t.Run("no login", func(t *testing.T) {
		m := newMachine(t, c)
		config := m.config(c)
		config.KeyFiles = []string{newClient(t).keyFile}
		_, err := backend.Inspect(t.Context(), config)
		require.ErrorIs(t, err, backend.ErrLogin)
		config.KnownHosts = []string{newClient(t).knownHosts}
		_, err = backend.Inspect(t.Context(), config)
		require.ErrorIs(t, err, backend.ErrHostKey)
	})
	t.Run("tricks on the terminal", func(t *testing.T) {
		m := newMachine(t, c)
		bin := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(bin, "uname"), []byte("#!/bin/sh\nprintf 'Linux\\033[2J'\n"), 0o755))
		m.path = bin + ":" + os.Getenv("PATH")
		r, err := backend.Inspect(t.Context(), m.config(c))
		require.NoError(t, err)
		require.False(t, strings.ContainsRune(r.Kernel+r.Arch, '\033'))
	})
}
