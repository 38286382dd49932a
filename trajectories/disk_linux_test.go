package trajectories

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMakeDirs_NamesADirectoryWhoseParentTakesNone(t *testing.T) {
	err := makeDirs("/proc/no/run")
	require.ErrorContains(t, err, "mkdir /proc/no: /proc takes no new directories")
}

func TestMakeDirs_SaysThatTheWorkingDirectoryWasDeleted(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "deleted")
	require.NoError(t, os.Mkdir(dir, 0o755))
	t.Chdir(dir)
	require.NoError(t, os.Remove(dir))
	for _, name := range []string{"run", "runs/first"} {
		require.ErrorContains(t, makeDirs(name), "the working directory was deleted: change to one that exists", name)
	}
}

func TestMakeDirs_NamesWhatIsInTheWay(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "file"), nil, 0o644))
	require.NoError(t, os.Symlink("nothing", filepath.Join(dir, "link")))
	require.ErrorContains(t, makeDirs(filepath.Join(dir, "file")), "a file of that name exists")
	require.Error(t, makeDirs(filepath.Join(dir, "file", "run")))
	require.ErrorContains(t, makeDirs(filepath.Join(dir, "link")), "a symbolic link of that name leads nowhere")
	require.ErrorContains(t, makeDirs(filepath.Join(dir, "link", "run")), "a symbolic link of that name leads nowhere")
	require.NoError(t, makeDirs(filepath.Join(dir, "a", "b", "c")))
	require.NoError(t, makeDirs(filepath.Join(dir, "a", "b", "c")), "a second time")
}
