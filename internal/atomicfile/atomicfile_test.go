package atomicfile

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWrite_ReplacesTheContent(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.json")
	for _, content := range []string{"a long first content", "second", ""} {
		require.NoError(t, Write(path, []byte(content)))
		got, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, content, string(got))
	}
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o644), info.Mode().Perm())
	alone(t, path)
}

func TestWriteFrom_LeavesTheFileWhenWritingFails(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.json")
	require.NoError(t, Write(path, []byte("old")))
	full := errors.New("disk full")
	err := WriteFrom(path, func(w io.Writer) error {
		_, err := w.Write([]byte("half"))
		return errors.Join(err, full)
	})
	require.ErrorIs(t, err, full)
	got, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "old", string(got))
	alone(t, path)
}

func TestWrite_TakesTheLongestName(t *testing.T) {
	path := filepath.Join(t.TempDir(), strings.Repeat("n", 255))
	require.NoError(t, Write(path, []byte("x")))
	alone(t, path)
}

func TestWrite_FailsWithoutTheDirectory(t *testing.T) {
	require.ErrorIs(t, Write(filepath.Join(t.TempDir(), "missing", "a"), nil), os.ErrNotExist)
}

// alone says that no temporary file is left beside path.
func alone(t *testing.T, path string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	require.Len(t, entries, 1)
}
