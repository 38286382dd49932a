package tools_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/toolcontext/tools"
)

func TestPatchReplacesAndShowsTheDiff(t *testing.T) {
	r := newRollout(t, tools.Options{})
	r.put("f.py", "def f():\n    return 1\n")
	require.Equal(t, `{"success":true,"diff":"--- a/f.py\n+++ b/f.py\n@@ -1,2 +1,2 @@\n def f():\n-    return 1\n+    return 2\n","files_modified":["DIR/f.py"],"resolved_path":"DIR/f.py"}`,
		strings.ReplaceAll(r.call("patch", `{"mode":"replace","path":"f.py","old_string":"return 1","new_string":"return 2"}`), r.box.Info().Dir, "DIR"))
	require.Equal(t, "def f():\n    return 2\n", r.get("f.py"))
}

func TestPatchSaysHowAnInexactTextWasFound(t *testing.T) {
	r := newRollout(t, tools.Options{})
	r.put("f.py", "class A:\n        def f(self):\n                return 1\n")
	result := r.do("patch", "path", "f.py", "old_string", "def f(self):\n        return 1", "new_string", "def f(self):\n        x = 1\n        return x")
	require.Equal(t, "line_trimmed", result.Get("strategy").String())
	require.Equal(t, "class A:\n        def f(self):\n                x = 1\n                return x\n", r.get("f.py"))
}

func TestPatchReplacesAllOnRequestOnly(t *testing.T) {
	r := newRollout(t, tools.Options{})
	r.put("f", "x = 1\ny = 1\n")
	ambiguous := r.do("patch", "path", "f", "old_string", "= 1", "new_string", "= 2")
	require.False(t, ambiguous.Get("success").Bool())
	require.Contains(t, ambiguous.Get("error").String(), "found 2 matches")
	require.Contains(t, ambiguous.Get("error").String(), "\nL1: = 1\nL2: = 1")
	all := r.do("patch", "path", "f", "old_string", "= 1", "new_string", "= 2", "replace_all", "true")
	require.EqualValues(t, 2, all.Get("replacements").Int())
	require.Equal(t, "x = 2\ny = 2\n", r.get("f"))
}

func TestPatchKeepsLineEndsMarkModeAndOtherBytes(t *testing.T) {
	r := newRollout(t, tools.Options{})
	r.put("win", "\ufeffone\r\ntwo\r\n")
	require.NoError(t, os.Chmod(r.path("win"), 0o700))
	require.True(t, r.do("patch", "path", "win", "old_string", "one\ntwo", "new_string", "1\n2\n3").Get("success").Bool())
	require.Equal(t, "\ufeff1\r\n2\r\n3\r\n", r.get("win"))
	info, err := os.Stat(r.path("win"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o700), info.Mode())
	r.put("latin", "caf\xe9 one\n")
	require.True(t, r.do("patch", "path", "latin", "old_string", "one", "new_string", "two").Get("success").Bool())
	require.Equal(t, "caf\xe9 two\n", r.get("latin"))
}

func TestPatchTellsAnEditThatWasMadeBefore(t *testing.T) {
	r := newRollout(t, tools.Options{})
	r.put("f", "value = compute_all()\n")
	result := r.do("patch", "path", "f", "old_string", "value = old()", "new_string", "value = compute_all()")
	require.Equal(t, "true true", result.Get("success").Raw+" "+result.Get("no_change").Raw)
}

func TestPatchExplainsFailuresAndInsistsAfterThree(t *testing.T) {
	r := newRollout(t, tools.Options{})
	r.put("f", "some text\n")
	r.put("bin", "a\x00b")
	for _, c := range []struct{ arguments, want string }{
		{`{"mode":"patch","patch":"*** Begin Patch"}`, `mode "patch" is not available here`},
		{`{"path":"f","old_string":"x"}`, "missing required argument: new_string"},
		{`{"path":"","old_string":"x","new_string":"y"}`, "path is empty"},
		{`{"path":"nope","old_string":"x","new_string":"y"}`, "File not found"},
		{`{"path":".","old_string":"x","new_string":"y"}`, "is a directory"},
		{`{"path":"bin","old_string":"a","new_string":"y"}`, "binary file"},
		{`{"path":"f","old_string":"","new_string":"y"}`, "old_string is empty"},
		{`{"path":"f","old_string":"x","new_string":"x"}`, "identical"},
		{`{"path":"f","old_string":"x","new_string":"y","replace_all":"perhaps"}`, "expected boolean"},
	} {
		result := r.call("patch", c.arguments)
		require.Contains(t, result, `{"success":false,"error":"`)
		require.Contains(t, strings.ReplaceAll(result, `\"`, `"`), c.want)
	}
	r.put("g", "some text\n")
	var hints []string
	for range 3 {
		hints = append(hints, r.do("patch", "path", "g", "old_string", "entirely different words", "new_string", "y").Get("_hint").String())
	}
	require.Contains(t, hints[0], "Use read_file")
	require.Contains(t, hints[2], "failure 3 in a row")
	require.True(t, r.do("patch", "path", "g", "old_string", "some", "new_string", "no").Get("success").Bool())
	require.NotContains(t, r.do("patch", "path", "g", "old_string", "entirely different words", "new_string", "y").Get("_hint").String(), "in a row")
}
