package tools_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/internal/slowtest"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox/local"
	"github.com/hermes-env/hermes-env/toolcontext/tools"
)

// shells returns the kinds of userland the tools must work with: the machine's
// own with bash and with plain sh, and busybox alone where it is installed.
func shells(t *testing.T) map[string]local.Config {
	found := map[string]local.Config{"default": {}, "sh": {Shell: "/bin/sh"}}
	busybox, err := exec.LookPath("busybox")
	if err != nil {
		return found
	}
	applets, err := exec.Command(busybox, "--list").Output()
	require.NoError(t, err)
	dir := t.TempDir()
	for _, name := range strings.Fields(string(applets)) {
		require.NoError(t, os.Symlink(busybox, filepath.Join(dir, name)))
	}
	found["busybox"] = local.Config{Shell: filepath.Join(dir, "sh"), Environ: []string{"PATH=" + dir}}
	return found
}

func TestEveryToolWorksWithEveryShell(t *testing.T) {
	for name, config := range shells(t) {
		t.Run(name, func(t *testing.T) {
			if name == "busybox" {
				slowtest.Require(t)
			}
			r := newRolloutIn(t, tools.Options{AllowRepeatedReads: true}, config)
			require.Equal(t, `{"output":"","exit_code":0,"error":null}`, r.call("terminal", `{"command":"mkdir -p a && cd a"}`))
			content := strings.Repeat("x = 1\ny = 'é 7'\n", 3)
			written := r.do("write_file", "path", "sub/it's.py", "content", content)
			require.Equal(t, "true true", written.Get("dirs_created").Raw+" "+written.Get("verified").Raw)
			require.Equal(t, content, r.get("a/sub/it's.py"))
			require.Equal(t, "2|y = 'é 7'\n3|x = 1\n4|", r.do("read_file", "path", "sub/it's.py", "offset", 2, "limit", 2).Get("content").String())
			require.Equal(t, "[\""+r.path("a/sub/it's.py")+"\"]", r.do("read_file", "path", "sub/its.py").Get("similar_files").Raw)

			patched := r.do("patch", "path", "sub/it's.py", "old_string", "y = 'é 7'", "new_string", "z", "replace_all", true)
			require.EqualValues(t, 3, patched.Get("replacements").Int(), patched.Raw)
			require.Equal(t, strings.Repeat("x = 1\nz\n", 3), r.get("a/sub/it's.py"))
			require.NoError(t, os.Chmod(r.path("a/sub/it's.py"), 0o755))
			require.NoError(t, os.Symlink("it's.py", r.path("a/sub/link")))
			r.do("write_file", "path", "sub/link", "content", "one 1\r\ntwo 22\r\nthree\r\n")
			r.do("write_file", "path", "sub/link", "content", "one 1\ntwo 22\nthree\n")
			require.Equal(t, "one 1\r\ntwo 22\r\nthree\r\n", r.get("a/sub/it's.py"))
			info, err := os.Stat(r.path("a/sub/it's.py"))
			require.NoError(t, err)
			require.Equal(t, os.FileMode(0o755), info.Mode())

			r.put("a/.hidden/x.py", "one 1\n")
			r.put("a/z:9:z.txt", "two 22\nzero\n")
			require.Equal(t, `[{"path":"sub/it's.py","line":1,"content":"one 1"},{"path":"sub/it's.py","line":2,"content":"two 22"},{"path":"z:9:z.txt","line":1,"content":"two 22"}]`,
				r.do("search_files", "pattern", `^(?:one|two) [\d]+`).Get("matches").Raw)
			require.Equal(t, `{"z:9:z.txt":2}`, r.do("search_files", "pattern", `z|t\w`, "output_mode", "count", "file_glob", "*.txt").Get("counts").Raw)
			require.Equal(t, `["sub/it's.py","z:9:z.txt"]`, r.do("search_files", "pattern", "two", "output_mode", "files_only").Get("files").Raw)
			require.Equal(t, `["sub/it's.py"]`, r.do("search_files", "pattern", "sub/*.{py,go}", "target", "files").Get("files").Raw)
			require.Equal(t, "z:9:z.txt\n  1- two 22\n  2: zero", r.do("search_files", "pattern", "zero", "context", 1).Get("matches_text").String())
			require.Contains(t, r.do("search_files", "pattern", "(").Get("error").String(), "Invalid regular expression")
			require.Contains(t, r.do("write_file", "path", "sub", "content", "").Get("error").String(), "it is a directory")
			require.Contains(t, r.do("read_file", "path", "sub").Get("error").String(), "is a directory")
		})
	}
}
