package docker

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
)

func TestIgnoreRulesAreThoseOfDockerignore(t *testing.T) {
	rules, err := parseIgnoreRules(strings.NewReader("# comment\n\n*.log\n/build/\n**/cache\nsrc/*/tmp\n!keep.log\n docs \n"))
	require.NoError(t, err)
	for name, ignored := range map[string]bool{
		"a.log": true, "sub/a.log": false, "keep.log": false, "build": true, "build/x/y": true, "sub/build": false,
		"cache": true, "a/b/cache": true, "a/cache/x": true, "src/a/tmp": true, "src/tmp": false, "docs/x": true, "file": false,
	} {
		require.Equal(t, ignored, rules.match(name), name)
	}
	_, err = parseIgnoreRules(strings.NewReader("[a\n"))
	require.Error(t, err)
}

func FuzzIgnoreRulesNeverPanic(f *testing.F) {
	f.Add("*.log\n!a\n**/b", "a/b.log")
	f.Add("**", "x")
	f.Add("../x\n/\n.", "..")
	f.Fuzz(func(t *testing.T, text, name string) {
		if strings.Count(text, "**") > 8 || len(name) > 200 {
			return // exponential, and the user's own file
		}
		rules, err := parseIgnoreRules(strings.NewReader(text))
		if err == nil {
			rules.match(name)
		}
	})
}

func TestABuildFolderIsKnownByItsContent(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	_, err := readBuildFolder(t.Context(), dir, sandbox.BuildOptions{})
	require.ErrorIs(t, err, os.ErrNotExist)
	write("Dockerfile", "FROM x\n")
	write("a", "1")
	write(".dockerignore", "ignored\n")
	require.NoError(t, os.Symlink("/etc/passwd", filepath.Join(dir, "link")))
	digest := func() string {
		f, err := readBuildFolder(t.Context(), dir, sandbox.BuildOptions{})
		require.NoError(t, err)
		return f.digest
	}
	first := digest()
	write("ignored", "x")
	require.Equal(t, first, digest())
	write("a", "2")
	require.NotEqual(t, first, digest())
}
