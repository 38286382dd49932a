package terminalbench

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
)

func outputOf(b []byte) sandbox.Output { return sandbox.Output{Head: b, Total: int64(len(b))} }

func TestChangesOfWhatVerifiersRelyOnAreFound(t *testing.T) {
	for _, test := range []struct {
		path string
		kind sandbox.ChangeKind
		want string
	}{
		{"/bin/sh", sandbox.Modified, "replaced"},
		{"/usr/bin/bash", sandbox.Deleted, "removed"},
		{"/usr/bin/python3", sandbox.Modified, "replaced"},
		{"/usr/bin/python3.12", sandbox.Modified, "replaced"},
		{"/usr/local/bin/curl", sandbox.Added, "shadows"},
		{"/root/.local/bin/uv", sandbox.Added, "shadows"},
		{"/usr/local/bin/uvx", sandbox.Modified, "replaced"},
		{"/etc/ld.so.preload", sandbox.Added, "preload"},
		{"/etc/ld.so.preload", sandbox.Deleted, ""},
		{"/usr/lib/python3/dist-packages/sitecustomize.py", sandbox.Added, "startup"},
		{"/root/.curlrc", sandbox.Added, "startup"},
		{"/conftest.py", sandbox.Added, "startup"},
		{"/lib/x86_64-linux-gnu/libc.so.6", sandbox.Modified, "replaced"},
		{"/lib64/ld-linux-x86-64.so.2", sandbox.Modified, "replaced"},
		{"/usr/lib/x86_64-linux-gnu/libtinfo.so.6.3", sandbox.Modified, "replaced"},
		{"/lib/x86_64-linux-gnu/libtinfo.so.6", sandbox.Deleted, "removed"},
		{"/usr/lib/x86_64-linux-gnu/glibc-hwcaps/x86-64-v2/libtinfo.so.6", sandbox.Added, "shadows"},
		{"/usr/lib/x86_64-linux-gnu/libtinfo.so.6", sandbox.Added, ""}, // an installed library
		{"/usr/lib/x86_64-linux-gnu/libpng16.so.16", sandbox.Modified, ""},
		{"/app/lib/libtinfo.so.6", sandbox.Added, ""}, // nobody looks there
		{"/etc/ld.so.cache", sandbox.Modified, ""},    // by ldconfig
		{"/usr/bin/curl", sandbox.Added, ""},          // installed by the package manager
		{"/usr/bin/python3.x", sandbox.Modified, ""},
		{"/usr/local/bin/my-program", sandbox.Added, ""},
		{"/app/bin/python3", sandbox.Added, ""},
		{"/app/conftest.py", sandbox.Added, ""},
		{"/root/.gitconfig", sandbox.Added, ""},
		{"/usr/bin", sandbox.Modified, ""},
	} {
		require.Equal(t, test.want, judgeChange(sandbox.Change{Path: test.path, Kind: test.kind}), "%s %s", test.path, test.kind)
	}
}

func TestOnlyWhatDecidesEveryScriptIsRestoredByItself(t *testing.T) {
	shell := sandbox.Change{Path: "/bin/sh", Kind: sandbox.Modified}
	preload := sandbox.Change{Path: "/etc/ld.so.preload", Kind: sandbox.Added}
	libc := sandbox.Change{Path: "/lib/x86_64-linux-gnu/libc.so.6", Kind: sandbox.Modified}
	curl := sandbox.Change{Path: "/usr/bin/curl", Kind: sandbox.Modified}
	shadow := sandbox.Change{Path: "/usr/local/bin/bash", Kind: sandbox.Added}
	packages := sandbox.Change{Path: "/var/lib/dpkg/status", Kind: sandbox.Modified}
	all := []sandbox.Change{shell, preload, libc, curl, shadow}
	require.Equal(t, map[string]bool{"/bin/sh": true, "/etc/ld.so.preload": true, libc.Path: true}, toRestore(tamperingCore, all, false))
	require.Equal(t, map[string]bool{"/bin/sh": true, "/etc/ld.so.preload": true}, toRestore(tamperingCore, append(all, packages), true), "an upgraded C library stays")
	require.Len(t, toRestore(tamperingRestore, all, false), 5)
	require.Empty(t, toRestore(tamperingNote, all, false))
	require.Empty(t, toRestore(tamperingCore, []sandbox.Change{curl, shadow, packages}, true))
}

func TestLibrariesOfTheShellsAreTakenFromTheImage(t *testing.T) {
	library := sandbox.Change{Path: "/usr/lib/x86_64-linux-gnu/libtinfo.so.6.3", Kind: sandbox.Modified}
	first := sandbox.Change{Path: "/lib/x86_64-linux-gnu/glibc-hwcaps/x86-64-v3/libtinfo.so.6", Kind: sandbox.Added}
	list := sandbox.Change{Path: "/etc/ld.so.cache", Kind: sandbox.Modified}
	elsewhere := sandbox.Change{Path: "/app/lib/libtinfo.so.6", Kind: sandbox.Added}
	other := sandbox.Change{Path: "/usr/local/lib/libmine.so.1", Kind: sandbox.Added}
	packages := sandbox.Change{Path: "/var/lib/dpkg/status", Kind: sandbox.Modified}
	for _, policy := range []string{tamperingCore, tamperingRestore} {
		require.Equal(t, map[string]bool{library.Path: true, first.Path: true}, toRestore(policy, []sandbox.Change{library, first, other}, false))
		require.Equal(t, map[string]bool{list.Path: true}, toRestore(policy, []sandbox.Change{list, elsewhere}, false), "the loader takes it from there")
		require.Empty(t, toRestore(policy, []sandbox.Change{list, other}, false), "make install and ldconfig")
		require.Empty(t, toRestore(policy, []sandbox.Change{elsewhere}, false))
	}
	require.Empty(t, toRestore(tamperingCore, []sandbox.Change{library, list, elsewhere, packages}, true), "an upgrade of packages")
	require.Equal(t, []tampering{{list.Path, "loader"}}, judgeChanges([]sandbox.Change{list, elsewhere}, false))
}

func TestJudgeChanges_NotesLibrariesThatNoPackageHasBrought(t *testing.T) {
	library := sandbox.Change{Path: "/usr/lib/x86_64-linux-gnu/libz.so.1.2.13", Kind: sandbox.Modified}
	require.Equal(t, []tampering{{library.Path, "replaced"}}, judgeChanges([]sandbox.Change{library}, false))
	require.Empty(t, judgeChanges([]sandbox.Change{library, {Path: "/var/lib/dpkg/status", Kind: sandbox.Modified}}, true))
}
