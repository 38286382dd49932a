package local

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestExportsAreReadAsShellsPrintThem(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want map[string]string
		ok   bool
	}{
		"nothing":             {"", map[string]string{}, true},
		"bash":                {"declare -x A=\"1\"\ndeclare -x B=\"a\\\"b\\$c\\`d\\\\e\"\n", map[string]string{"A": "1", "B": "a\"b$c`d\\e"}, true},
		"bash with a line":    {"declare -x A=\"1\n2\"\ndeclare -x B=\"\"\n", map[string]string{"A": "1\n2", "B": ""}, true},
		"bash control":        {`declare -x A=$'a\001\E[m\t\n\'\\x'`, map[string]string{"A": "a\x01\x1b[m\t\n'\\x"}, true},
		"hex and unicode":     {`declare -x A=$'\x41\u00e9\U0001f600'`, map[string]string{"A": "Aé😀"}, true},
		"read-only, integer":  {"declare -rx A=\"1\"\ndeclare -irx B=\"2\"\n", map[string]string{"A": "1", "B": "2"}, true},
		"without a value":     {"declare -x A\ndeclare -x B=\"1\"\nexport C\n", map[string]string{"B": "1"}, true},
		"arrays":              {"declare -ax A=([0]=\"x y\" [1]=\"z\")\ndeclare -x B=\"1\"\n", map[string]string{"B": "1"}, true},
		"dash":                {"export A='1'\nexport B='it'\"'\"'s'\nexport C='two\nlines'\n", map[string]string{"A": "1", "B": "it's", "C": "two\nlines"}, true},
		"bare words":          {"export A=plain\\ word\ntypeset -x B=1\n", map[string]string{"A": "plain word", "B": "1"}, true},
		"other commands":      {"rm -rf /\n", nil, false},
		"no name":             {"declare -x =1\n", nil, false},
		"an open quote":       {"declare -x A=\"1\n", nil, false},
		"an open ansi quote":  {"declare -x A=$'1\n", nil, false},
		"an open single":      {"export A='1\n", nil, false},
		"a NUL by escape":     {`declare -x A=$'\000'`, nil, false},
		"a backslash at last": {`declare -x A="\`, nil, false},
		"substitution stays":  {"declare -x A=$(id)\n", map[string]string{"A": "$(id)"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			got, ok := parseExports(c.text)
			require.Equal(t, c.ok, ok)
			require.Equal(t, c.want, got)
		})
	}
}

func TestAnyValueSurvivesARealShell(t *testing.T) {
	for _, sh := range []string{"bash", "dash", "sh"} {
		path, err := exec.LookPath(sh)
		if err != nil {
			continue
		}
		t.Run(sh, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				// Many values a shell, for it is the shell that takes the time.
				values := rapid.SliceOfN(rapid.OneOf(rapid.String(), rapid.StringMatching(`[ -~\n\t'"$\\]*`),
					rapid.Map(rapid.SliceOf(rapid.ByteRange(1, 255)), func(b []byte) string { return string(b) })), 1, 400).Draw(t, "values")
				want := map[string]string{}
				c := exec.Command(path, "-c", "export -p")
				c.Env = []string{"LC_ALL=C.UTF-8"}
				for i, v := range values {
					name := "V" + strings.Repeat("x", i)
					want[name] = strings.ReplaceAll(v, "\x00", "")
					c.Env = append(c.Env, name+"="+want[name])
				}
				out, err := c.Output()
				require.NoError(t, err)
				got, ok := parseExports(string(out))
				require.True(t, ok)
				for name, value := range want {
					require.Equal(t, value, got[name])
				}
			})
		})
	}
}

func FuzzParseState(f *testing.F) {
	f.Add([]byte("/dir\n\x00declare -x A=\"1\"\n\x00f () \n{ \n    echo\n}\n\x00end"))
	f.Add([]byte("/d\x00export A='it'\"'\"'s'\n\x00\x00end"))
	f.Add([]byte("\x00\x00\x00end"))
	f.Add([]byte("/\x00declare -x A=$'\\001\\xff\\u1234\\U7fffffff'\x00\x00end"))
	f.Fuzz(func(t *testing.T, data []byte) {
		st, ok := parseState(data)
		if !ok {
			return
		}
		if st.dir != "" && st.dir[0] != '/' {
			t.Fatalf("relative directory %q", st.dir)
		}
		for name, value := range st.variables {
			if !isIdentifier(name) || strings.IndexByte(value, 0) >= 0 {
				t.Fatalf("%q=%q can't be passed to a process", name, value)
			}
		}
	})
}
