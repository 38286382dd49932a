package ssh_test

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
)

// attack prepares a machine as another user of it might, and returns the cache's
// directory to use.
type attack func(t *testing.T, m *machine) string

func TestDirectoriesThatOthersCouldHavePreparedAreRefused(t *testing.T) {
	shared := func(mode os.FileMode) attack {
		return func(t *testing.T, m *machine) string {
			require.NoError(t, os.MkdirAll(m.cache(), 0o700))
			require.NoError(t, os.Chmod(m.cache(), mode))
			return ""
		}
	}
	foreign := func(t *testing.T, dir string) {
		if os.Getuid() != 0 {
			t.Skip("only root can give a directory away")
		}
		require.NoError(t, os.Lchown(dir, 65534, 65534))
	}
	for name, c := range map[string]struct {
		prepare attack
		want    string
	}{
		"one that all can write":   {shared(0o777), "others may write"},
		"a sticky one":             {shared(os.ModeSticky | 0o777), "others may write"},
		"one that a group writes":  {shared(0o770), "others may write"},
		"one of somebody else":     {func(t *testing.T, m *machine) string { shared(0o755)(t, m); foreign(t, m.cache()); return "" }, "account's own"},
		"a link to a writable one": {linked(0o777), "others may write"},
		"boxes that all can write": {boxes(func(dir string) error {
			if err := os.Mkdir(dir, 0o700); err != nil {
				return err
			}
			return os.Chmod(dir, 0o777)
		}), "others may write"},
		"boxes that are a link":   {boxes(func(dir string) error { return os.Symlink(filepath.Dir(filepath.Dir(dir)), dir) }), "account's own"},
		"boxes that lead nowhere": {boxes(func(dir string) error { return os.Symlink("/nonexistent/x", dir) }), "cache directory"},
		"a file instead of boxes": {boxes(func(dir string) error { return os.WriteFile(dir, nil, 0o600) }), "cache directory"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := newClient(t)
			m := newMachine(t, client)
			config := m.config(client)
			config.CacheDir = c.prepare(t, m)
			_, err := newProvider(t, config).Create(t.Context(), sandbox.Spec{})
			require.ErrorContains(t, err, c.want)
			left, err := filepath.Glob(filepath.Join(m.cache(), "server-*"))
			require.NoError(t, err)
			require.Empty(t, left, "uploaded all the same")
			if name != "boxes that lead nowhere" {
				_, err = newProvider(t, config).Reap(t.Context())
				require.ErrorContains(t, err, c.want, "nothing is removed there either")
			}
		})
	}
}

// linked is a directory in a place for all, which leads to one of the account's own.
func linked(mode os.FileMode) attack {
	return func(t *testing.T, m *machine) string {
		target, link := filepath.Join(m.home, "public"), filepath.Join(t.TempDir(), "cache")
		require.NoError(t, os.Mkdir(target, 0o700))
		require.NoError(t, os.Chmod(target, mode))
		require.NoError(t, os.Symlink(target, link))
		return link
	}
}

// boxes makes something of the name of the trees' directory.
func boxes(prepare func(dir string) error) attack {
	return func(t *testing.T, m *machine) string {
		require.NoError(t, os.MkdirAll(m.cache(), 0o700))
		require.NoError(t, prepare(filepath.Join(m.cache(), "boxes")))
		return ""
	}
}

func TestLinksInThePlaceOfTheServerAreReplacedAndNotWrittenThrough(t *testing.T) {
	c := newClient(t)
	m := newMachine(t, c)
	require.NoError(t, newProvider(t, m.config(c)).Check(t.Context()))
	servers, err := filepath.Glob(filepath.Join(m.cache(), "server-*"))
	require.NoError(t, err)
	require.Len(t, servers, 1)
	precious := filepath.Join(m.home, "precious")
	require.NoError(t, os.WriteFile(precious, []byte("mine"), 0o700))
	require.NoError(t, os.Remove(servers[0]))
	require.NoError(t, os.Symlink(precious, servers[0]))
	require.NoError(t, newProvider(t, m.config(c)).Check(t.Context()))
	content, err := os.ReadFile(precious)
	require.NoError(t, err)
	require.Equal(t, "mine", string(content))
	info, err := os.Lstat(servers[0])
	require.NoError(t, err)
	require.True(t, info.Mode().IsRegular())
}

func TestOtherUsersOfTheMachineSeeNothing(t *testing.T) {
	c := newClient(t)
	m := newMachine(t, c)
	s := open(t, newProvider(t, m.config(c)), sandbox.Spec{Env: map[string]string{"TOKEN": "secret-of-a-rollout"}})
	sh(t, s, "umask 000; echo well >~/file; mkdir -p ~/open; chmod 777 ~ ~/open")
	for _, path := range []string{m.cache(), filepath.Join(m.cache(), "boxes"), s.Tree()} {
		info, err := os.Stat(path)
		require.NoError(t, err)
		require.Zero(t, info.Mode().Perm()&0o077, path)
	}
	require.NoError(t, filepath.WalkDir(m.cache(), func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && filepath.Dir(path) == m.cache() {
			info, err := d.Info()
			require.NoError(t, err)
			require.Zero(t, info.Mode().Perm()&0o077, path)
		}
		return err
	}))
	if os.Getuid() != 0 {
		return // the modes have to do
	}
	process, err := s.Start(t.Context(), sandbox.Command{Script: "sleep 60"})
	require.NoError(t, err)
	as := func(script string) string {
		cmd := exec.Command("/bin/sh", "-c", script)
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		out, _ := cmd.CombinedOutput() // has to fail
		return string(out)
	}
	servers, err := filepath.Glob(filepath.Join(m.cache(), "server-*"))
	require.NoError(t, err)
	for _, path := range append(servers, filepath.Join(s.Tree(), "home", "file"), filepath.Join(s.Tree(), "home", "open")) {
		require.Contains(t, as("ls -l "+path+" && cat "+path), "ermission denied", path)
	}
	pids := processes(t, s.Info().ID)
	require.NotEmpty(t, pids)
	for _, pid := range pids {
		dir := "/proc/" + itoa(pid)
		require.NotContains(t, as("cat "+dir+"/environ "+dir+"/fd/0 "+dir+"/cmdline; ls -l "+dir+"/fd"), "secret-of-a-rollout")
		require.Contains(t, as("cat "+dir+"/fd/0"), "ermission denied", "the stream of a process")
	}
	require.NoError(t, process.Kill(t.Context()))
}
