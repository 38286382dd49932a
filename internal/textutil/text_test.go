package textutil

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestShorten_CountsCharacters(t *testing.T) {
	require.Equal(t, "äöü", Shorten("äöü", 3))
	require.Equal(t, "äö…", Shorten("äöü", 2))
	require.Equal(t, "", Shorten("", 0))
	require.Equal(t, "…", Shorten("a", 0))
	require.Equal(t, `"a\n…"`, Quote("a\nb", 2))
	require.Equal(t, "a b c", Line(" a\r\n\tb\x00c "))
}

func TestDistance_CountsEdits(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"", "abc", 3}, {"abc", "", 3}, {"kitten", "sitting", 3}, {"ab", "ba", 1}, {"äb", "ab", 1}, {"ca", "abc", 3}} {
		require.Equal(t, c.want, Distance(c.a, c.b), "%q %q", c.a, c.b)
	}
	require.Zero(t, Distance(strings.Repeat("a", 1000), strings.Repeat("a", 2000)))
}

func TestNearest_IsWhatAMisspeltNameStandsFor(t *testing.T) {
	have := []string{"group_size", "total_steps", "terminalbench", "max_agent_turns"}
	for name, want := range map[string]string{
		"grup_size": "group_size", "GROUP-SIZE": "group_size", "toatl_steps": "total_steps", "term": "terminalbench", "xyz": "", "": "", "g": "",
		strings.Repeat("x", 1000): "",
	} {
		require.Equal(t, want, Nearest(name, have), name)
	}
}

func TestMisspelt_TakesNoBeginningForTheWhole(t *testing.T) {
	names := []string{"work_directories", "verify_in", "sandbox.image"}
	for in, want := range map[string]string{
		"workdirectories": "work_directories", "Work-Directories": "work_directories", "verfiy_in": "verify_in", "verify_inn": "verify_in",
		"verified": "", "verify": "", "work": "", "": "", strings.Repeat("a", 1000): "",
	} {
		require.Equal(t, want, Misspelt(in, names), in)
	}
}

func TestRank_LeavesOutNegativeDistances(t *testing.T) {
	got := Rank([]string{"ccc", "a", "bb", "b"}, 2, func(s string) int {
		if s == "a" {
			return -1
		}
		return len(s)
	})
	require.Equal(t, []string{"b", "bb"}, got)
}

func TestShellQuote_IsOneWord(t *testing.T) {
	for _, s := range []string{"", "a b", "it's", `$HOME "x" \`, "a\nb", "'''"} {
		out, err := exec.Command("sh", "-c", "printf %s "+ShellQuote(s)).Output()
		require.NoError(t, err)
		require.Equal(t, s, string(out))
	}
}
