package ssh

import (
	"bufio"
	"io"
	"os/exec"
	"path"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/toolcontext/sandbox/program"
)

func TestWordsReachTheScriptAsTheyAreThroughTheLoginShell(t *testing.T) {
	for _, word := range []string{"", "a b", "it's", `"$HOME"`, "`id`", "-n", "*", "a\\b", "''", "$(id)", "é\t|&;<>(){}#~"} {
		out, err := exec.Command("/bin/sh", "-c", commandLine(`printf %s "$1"`, word)).Output()
		require.NoError(t, err)
		require.Equal(t, word, string(out))
	}
}

func TestScriptsSuitEveryLoginShell(t *testing.T) {
	for _, script := range []string{lookScript, uploadScript, serveScript, removeScript, listScript, findScript, reportScript} {
		require.NotContains(t, script, "'")
		require.NotContains(t, script, "!")
		require.NotContains(t, script, "\n")
		out, err := exec.Command("/bin/sh", "-n", "-c", script).CombinedOutput()
		require.NoError(t, err, "%s: %s", script, out)
	}
}

func FuzzReadAnswer(f *testing.F) {
	f.Add("Linux\nx86_64\n/home/a/.cache/hermes-env\nnone\n")
	f.Add("Linux\nx86_64\n/c\n12\n")
	f.Add("Darwin\narm64\n/c\nabc  -\n")
	f.Add("")
	f.Fuzz(func(t *testing.T, answer string) {
		p := &Provider{program: program.Program{Path: "/p", Arch: "amd64", Size: 12}}
		m, _, err := p.read(answer, "abc")
		if err == nil {
			require.True(t, path.IsAbs(m.cache))
			require.NotContains(t, m.cache, "\n")
		}
	})
}

func FuzzSkipTo(f *testing.F) {
	f.Add("Welcome\n", "rest")
	f.Add("", "")
	f.Add("no end of line", "\x00\n")
	f.Fuzz(func(t *testing.T, before, after string) {
		const mark = "hermes-env-THEMARK"
		if strings.Contains(before, mark) {
			return
		}
		r := bufio.NewReaderSize(strings.NewReader(before+mark+"\n"+after), 64<<10)
		require.NoError(t, skipTo(r, mark))
		rest, err := io.ReadAll(r)
		require.NoError(t, err)
		require.Equal(t, after, string(rest))
		require.Error(t, skipTo(bufio.NewReader(strings.NewReader(before)), mark))
	})
}

func TestAFloodBeforeTheServerIsGivenUp(t *testing.T) {
	flood := io.MultiReader(strings.NewReader(strings.Repeat("x", 2*maxPreface)), strings.NewReader("m\n"))
	require.ErrorContains(t, skipTo(bufio.NewReader(flood), "m"), "login shell printed")
}
