//go:build unix && !aix && !solaris

package filelock_test

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/trajectories/filelock"
)

// childVariable names the file that this test binary, started again, locks and keeps.
const childVariable = "HERMES_ENV_FILELOCK_CHILD"

func TestMain(m *testing.M) {
	if path := os.Getenv(childVariable); path != "" {
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		if err == nil {
			err = filelock.Try(f)
		}
		if err != nil {
			os.Exit(1)
		}
		_, _ = os.Stdout.WriteString("locked\n")
		select {}
	}
	os.Exit(m.Run())
}

func open(t *testing.T, path string) *os.File {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	require.NoError(t, err)
	t.Cleanup(func() { _ = f.Close() })
	return f
}

func TestOnlyOneOpenFileHasTheLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	first, second := open(t, path), open(t, path)
	require.NoError(t, filelock.Try(first))
	require.ErrorIs(t, filelock.Try(second), filelock.ErrHeld)
	require.NoError(t, first.Close())
	require.NoError(t, filelock.Try(second))
}

func TestTheLockOfAKilledProcessIsFree(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	f := open(t, path)
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), childVariable+"="+path)
	out, err := child.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, child.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "locked\n", line)
	require.ErrorIs(t, filelock.Try(f), filelock.ErrHeld)
	require.NoError(t, child.Process.Kill())
	require.Error(t, child.Wait(), "it was killed")
	require.NoError(t, filelock.Try(f))
}

func TestAClosedFileCanNotBeLocked(t *testing.T) {
	f := open(t, filepath.Join(t.TempDir(), "lock"))
	require.NoError(t, f.Close())
	err := filelock.Try(f)
	require.Error(t, err)
	require.NotErrorIs(t, err, filelock.ErrHeld)
}
