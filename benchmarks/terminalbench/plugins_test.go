package terminalbench

import (
	"archive/tar"
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
)

func TestJudgeChange_FindsCompiledModulesOfTestRunners(t *testing.T) {
	for name, want := range map[string]string{
		"/usr/local/lib/python3.11/dist-packages/pluggy.pyc":                                 "patched",
		"/usr/local/lib/python3.11/dist-packages/pluggy.cpython-311-x86_64-linux-gnu.so":     "patched",
		"/usr/lib/python3/dist-packages/_pytest/config.cpython-311-x86_64-linux-gnu.so":      "patched",
		"/usr/local/lib/python3.11/dist-packages/numpy.pyc":                                  "",
		"/usr/lib/python3/dist-packages/_pytest/__pycache__/config.cpython-311.pyc":          "",
		"/usr/local/lib/python3.11/dist-packages/numpy/core.cpython-311-x86_64-linux-gnu.so": "",
		"/usr/local/lib/python3.11/dist-packages/__pycache__/pluggy.cpython-311.pyc":         "",
	} {
		require.Equal(t, want, judgeChange(sandbox.Change{Path: name, Kind: sandbox.Added}), name)
	}
}

func TestJudgeChanges_FindsModulesBeforeThoseOfPython(t *testing.T) {
	added := func(names ...string) (list []sandbox.Change) {
		for _, name := range names {
			list = append(list, sandbox.Change{Path: name, Kind: sandbox.Added})
		}
		return list
	}
	for _, name := range []string{"/usr/lib/python3.11/argparse/__init__.py", "/usr/lib/python3.11/argparse/__init__.pyc", "/usr/lib/python3.11/argparse.cpython-311-x86_64-linux-gnu.so", "/usr/lib/python3.11/lib-dynload/pluggy.pyc", "/usr/lib/python3.11/_pytest/__init__.py"} {
		require.Equal(t, []tampering{{name, "patched"}}, judgeChanges(added(name), false), name)
		require.Empty(t, judgeChanges(added(name), true), name)
	}
	own := "/root/.local/share/uv/python/cpython-3.12/lib/python3.12"
	require.Empty(t, judgeChanges(added(own, own+"/argparse.py", own+"/asyncio/__init__.py", "/usr/lib/python3.11/mine.py"), false), "a Python of the agent's")
}

func TestJudgeChanges_FindsLibrariesThatLookUpNames(t *testing.T) {
	library := sandbox.Change{Path: "/usr/lib/x86_64-linux-gnu/libnss_evil.so.2", Kind: sandbox.Added}
	conf := sandbox.Change{Path: "/etc/nsswitch.conf", Kind: sandbox.Modified}
	require.Equal(t, []tampering{{library.Path, "loader"}}, judgeChanges([]sandbox.Change{conf, library}, false))
	require.Empty(t, judgeChanges([]sandbox.Change{conf}, false))
	require.Empty(t, judgeChanges([]sandbox.Change{library}, false))
}

func TestListsPlugins_IncludesTheStandardLibrary(t *testing.T) {
	require.True(t, listsPlugins("/usr/lib/python3.11/helper-1.dist-info/entry_points.txt"))
	require.True(t, listsPlugins("/usr/lib/python3/dist-packages/helper-1.dist-info"))
	require.False(t, listsPlugins("/app/helper-1.dist-info/entry_points.txt"))
}

func TestPluginLists_TakesWhatCanNotBeReadForOne(t *testing.T) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	put := func(name string, kind byte, text string) {
		require.NoError(t, w.WriteHeader(&tar.Header{Name: name, Typeflag: kind, Linkname: "/x", Size: int64(len(text)), Mode: 0o644}))
		_, err := w.Write([]byte(text))
		require.NoError(t, err)
	}
	put("dir.dist-info/", tar.TypeDir, "")
	put("plain", tar.TypeReg, "[console_scripts]\nx = y\n")
	put("plugin", tar.TypeReg, "[ pytest11 ]\nx = y\n")
	put("large", tar.TypeReg, string(make([]byte, maxEntryPointBytes+1)))
	put("link.dist-info", tar.TypeSymlink, "")
	require.NoError(t, w.Close())
	found, err := pluginLists(&b)
	require.NoError(t, err)
	require.Equal(t, []string{"/plugin", "/large", "/link.dist-info"}, found)
}
