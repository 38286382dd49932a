package tools_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/toolcontext/tools"
)

// A bind-mounted file, as /etc/hosts is in containers, can be written but not replaced.
func TestWriteFile_WritesOntoAMountPoint(t *testing.T) {
	r := newRollout(t, tools.Options{})
	r.put("hosts", "127.0.0.1 localhost\n")
	source := filepath.Join(t.TempDir(), "source")
	require.NoError(t, os.WriteFile(source, []byte("127.0.0.1 localhost\n"), 0o644))
	if err := syscall.Mount(source, r.path("hosts"), "", syscall.MS_BIND, ""); err != nil {
		t.Skipf("needs the right to mount: %v", err)
	}
	t.Cleanup(func() { require.NoError(t, syscall.Unmount(r.path("hosts"), 0)) })
	for _, content := range []string{"10.0.0.1 db\n", "127.0.0.1 localhost\n10.0.0.1 a much longer text\n", ""} {
		result := r.do("write_file", "path", "hosts", "content", content)
		require.Empty(t, result.Get("error").String())
		require.Equal(t, content, r.get("hosts"))
	}
	left, err := filepath.Glob(r.path(".hermes-tmp*"))
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestWriteFile_WritesAFileInADirectoryThatIsNot(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root may write everywhere")
	}
	r := newRollout(t, tools.Options{})
	r.put("closed/file", "old")
	require.NoError(t, os.Chmod(r.path("closed"), 0o555))
	t.Cleanup(func() { require.NoError(t, os.Chmod(r.path("closed"), 0o755)) })
	require.Empty(t, r.do("write_file", "path", "closed/file", "content", "new").Get("error").String())
	require.Equal(t, "new", r.get("closed/file"))
	require.Contains(t, r.do("write_file", "path", "closed/other", "content", "new").Get("error").String(), "cannot write beside it")
}
