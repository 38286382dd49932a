package journal

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOpen_SaysThatTheWorkingDirectoryWasDeleted(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "deleted")
	require.NoError(t, os.Mkdir(dir, 0o755))
	t.Chdir(dir)
	require.NoError(t, os.Remove(dir))
	_, _, err := Open(Config{Dir: "api-state", Snapshot: func() ([]byte, error) { return nil, nil }})
	require.ErrorContains(t, err, "the working directory was deleted: change to one that exists")
}
