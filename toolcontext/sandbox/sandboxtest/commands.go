package sandboxtest

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
)

// commands checks what is run, where and with which environment.
func (s *suite) commands(t *testing.T) {
	s.each(t, map[string]func(*testing.T, *box){
		"exit codes arrive": func(t *testing.T, b *box) {
			for _, code := range []int{0, 1, 2, 3, 124, 126, 130, 255} {
				r := b.exec(sandbox.Command{Script: fmt.Sprintf("exit %d", code)})
				require.Equal(t, code, r.ExitCode)
				require.False(t, r.TimedOut)
				require.False(t, r.Cancelled)
			}
		},
		"a signal n ends with 128+n": func(t *testing.T, b *box) {
			for name, n := range map[string]int{"TERM": 15, "KILL": 9, "SEGV": 11} {
				r := b.exec(sandbox.Command{Script: "ulimit -c 0; kill -" + name + " $$; sleep 60"})
				require.Equal(t, 128+n, r.ExitCode, name)
				require.False(t, r.TimedOut)
			}
		},
		"arguments reach the program as they are, without a shell": func(t *testing.T, b *box) {
			args := []string{"printf", "%s|", "a b", "", "$HOME", "*", "`id`", "q\"u'o", "line\nbreak", "\xff\xfe", "é日本"}
			r := b.exec(sandbox.Command{Args: args})
			require.Zero(t, r.ExitCode)
			require.Equal(t, strings.Join(args[2:], "|")+"|", string(r.Stdout.Bytes()))
		},
		"a missing program is 127": func(t *testing.T, b *box) {
			r := b.exec(sandbox.Command{Args: []string{"no-such-program-here"}})
			require.Equal(t, 127, r.ExitCode)
			require.Contains(t, r.String(), "no-such-program-here")
			require.Equal(t, 127, b.exec(sandbox.Command{Script: "no-such-program-here"}).ExitCode)
		},
		"a file that can't be run is 126": func(t *testing.T, b *box) {
			b.sh("echo text > plain; chmod 644 plain; mkdir -p folder")
			require.Equal(t, 126, b.exec(sandbox.Command{Args: []string{"./plain"}}).ExitCode)
			require.Equal(t, 126, b.exec(sandbox.Command{Args: []string{"./folder"}}).ExitCode)
			require.Equal(t, 126, b.exec(sandbox.Command{Script: "./plain"}).ExitCode)
		},
		"a missing directory is 126 and says which": func(t *testing.T, b *box) {
			for _, c := range []sandbox.Command{
				{Script: "echo ran", Dir: "no/such/dir"}, {Args: []string{"echo", "ran"}, Dir: "/no-such-dir"},
				{Script: "echo ran", Dir: "no/such/dir", Session: true}, {Script: "echo ran", Dir: "no/such/dir", Merge: true},
			} {
				r := b.exec(c)
				require.Equal(t, 126, r.ExitCode)
				require.Contains(t, r.String(), "no")
				require.NotContains(t, r.String(), "ran")
			}
			b.sh("touch file")
			require.Equal(t, 126, b.exec(sandbox.Command{Script: "true", Dir: "file"}).ExitCode)
		},
		"a directory is for this command only; ~ is home, relative starts in the working directory": func(t *testing.T, b *box) {
			info := b.Info()
			b.sh("mkdir -p sub/deeper ~/inner")
			dir := func(d string) string {
				return strings.TrimSpace(string(b.exec(sandbox.Command{Args: []string{"pwd"}, Dir: d}).Stdout.Bytes()))
			}
			work := dir("")
			require.Equal(t, work+"/sub/deeper", dir("sub/deeper"))
			require.Equal(t, work+"/sub", dir(work+"/sub"))
			require.Equal(t, strings.TrimSpace(b.sh("cd %s && pwd", info.Home)), dir("~"))
			require.Equal(t, strings.TrimSpace(b.sh("cd ~/inner && pwd")), dir("~/inner"))
			require.Equal(t, work, dir(""))
		},
		"info is true": func(t *testing.T, b *box) {
			info := b.Info()
			require.Equal(t, s.provider.Name(), info.Backend)
			require.NotEmpty(t, info.ID)
			require.Equal(t, info.Home, strings.TrimSpace(b.sh(`echo "$HOME"`)))
			b.sh(`[ "$(cd %s && pwd -P)" = "$(pwd -P)" ]`, info.Dir)
			b.sh("touch %s/scratch && touch ~/file", info.TempDir)
			require.NotEqual(t, info.ID, s.open(t).Info().ID)
		},
		"scripts of every shape": func(t *testing.T, b *box) {
			for script, want := range map[string]string{
				"":                                    "",
				"\n\n":                                "",
				"# only a comment":                    "",
				"echo a\necho b":                      "a\nb\n",
				"cat <<'E'\n$x `y`\nE\n":              "$x `y`\n",
				"cat <<E\nno newline at the end\nE":   "no newline at the end\n",
				"#!/bin/sh\necho shebang":             "shebang\n",
				"f() { echo \"f $1\"; }\nf x":         "f x\n",
				"echo $#":                             "0\n",
				"printf '%s' 'a\tb\\n\"c\"'":          "a\tb\\n\"c\"",
				"printf '\\303\\251'; echo é日本":       "éé日本\n",
				"echo one; \\\necho two":              "one\ntwo\n",
				"case x in x) echo yes ;; esac":       "yes\n",
				"echo \"$(echo \"$(echo nested)\")\"": "nested\n",
			} {
				for _, session := range []bool{false, true} {
					r := b.exec(sandbox.Command{Script: script, Session: session})
					require.Equal(t, want, string(r.Stdout.Bytes()), "session %v: %q: %q", session, script, r.Stderr)
					require.Zero(t, r.ExitCode, "%q", script)
					require.Zero(t, r.Stderr.Total, "%q: %q", script, r.Stderr)
				}
			}
		},
		"bytes that are no text pass through a script": func(t *testing.T, b *box) {
			for _, session := range []bool{false, true} {
				r := b.exec(sandbox.Command{Script: "printf %s '\xff\x01\xc3\x28\x7f'", Session: session})
				require.Equal(t, "\xff\x01\xc3\x28\x7f", string(r.Stdout.Bytes()))
			}
		},
		"a script the shell can't parse is 2 with the shell's words": func(t *testing.T, b *box) {
			for _, script := range []string{"echo 'open", "if true; then", "echo \"open", "$(", "case x in", "fi"} {
				for _, session := range []bool{false, true} {
					r := b.exec(sandbox.Command{Script: script, Session: session})
					require.Equal(t, 2, r.ExitCode, "session %v: %q: %v", session, script, r)
					require.NotZero(t, r.Stderr.Total, "%q", script)
				}
			}
		},
		"a script longer than an argument may be": func(t *testing.T, b *box) {
			for _, session := range []bool{false, true} {
				text := strings.Repeat("0123456789abcde\n", 40_000) // 640 kB
				r := b.exec(sandbox.Command{Script: "wc -c <<'E'\n" + text + "E\n", Session: session})
				require.Zero(t, r.ExitCode, "%v", r)
				require.Equal(t, fmt.Sprint(len(text)), strings.TrimSpace(r.Stdout.String()))
			}
		},
		"pkill with a word of the script spares the script's shell": func(t *testing.T, b *box) {
			word := "needle-" + strings.ReplaceAll(b.Info().ID, ".", "-")
			script := "if command -v pkill >/dev/null; then pkill -f " + word + "; fi; echo survived"
			require.Equal(t, "survived\n", b.sh("%s", script))
		},
		"commands that contradict themselves are refused": func(t *testing.T, b *box) {
			for name, c := range map[string]sandbox.Command{
				"both":             {Args: []string{"true"}, Script: "true"},
				"no program":       {Args: []string{}},
				"empty program":    {Args: []string{""}},
				"session of args":  {Args: []string{"true"}, Session: true},
				"negative timeout": {Script: "true", Timeout: -1},
				"negative output":  {Script: "true", MaxOutput: -1},
				"NUL in script":    {Script: "echo a\x00b"},
				"NUL in argument":  {Args: []string{"echo", "a\x00b"}},
				"NUL in directory": {Script: "true", Dir: "a\x00b"},
				"NUL in value":     {Script: "true", Env: map[string]string{"A": "\x00"}},
				"= in name":        {Script: "true", Env: map[string]string{"A=B": ""}},
				"no name":          {Script: "true", Env: map[string]string{"": "x"}},
			} {
				_, err := b.Exec(t.Context(), c)
				require.ErrorIs(t, err, sandbox.ErrInvalidCommand, name)
			}
			b.sh("true")
		},
		"variables of a command are for this command only": func(t *testing.T, b *box) {
			value := "a'b\"c$d`e\\f\nline two\té日本 "
			env := map[string]string{"GIVEN": value, "EMPTY": ""}
			for _, session := range []bool{false, true} {
				r := b.exec(sandbox.Command{Script: `printf '%s|%s' "$GIVEN" "${EMPTY-unset}"`, Env: env, Session: session})
				require.Equal(t, value+"|", string(r.Stdout.Bytes()))
				r = b.exec(sandbox.Command{Script: `echo "${GIVEN-unset}${EMPTY-unset}"`, Session: session})
				require.Equal(t, "unsetunset\n", string(r.Stdout.Bytes()))
			}
			r := b.exec(sandbox.Command{Args: []string{"printenv", "GIVEN"}, Env: env})
			require.Equal(t, value+"\n", string(r.Stdout.Bytes()))
		},
		"variables of the spec are there for every command": func(t *testing.T, _ *box) {
			spec := s.options.Spec
			spec.Env = map[string]string{"FROM_SPEC": "spec value", "OVERRIDDEN": "no"}
			made, err := s.provider.Create(t.Context(), spec)
			require.NoError(t, err)
			b := &box{made, t}
			defer func() { require.NoError(t, b.Close(context.Background())) }()
			for _, session := range []bool{false, true} {
				r := b.exec(sandbox.Command{Script: `echo "$FROM_SPEC $OVERRIDDEN"`, Session: session, Env: map[string]string{"OVERRIDDEN": "yes"}})
				require.Equal(t, "spec value yes\n", string(r.Stdout.Bytes()))
			}
		},
		"start-up files are not read": func(t *testing.T, b *box) {
			b.sh(`for f in .bashrc .profile .bash_profile .bash_login .shrc startup; do echo 'echo LOADED' > ~/$f; done`)
			env := map[string]string{"BASH_ENV": b.Info().Home + "/startup", "ENV": b.Info().Home + "/startup"}
			for _, session := range []bool{false, true} {
				r := b.exec(sandbox.Command{Script: `echo "ran ${BASH_ENV##*/}"`, Session: session, Env: env})
				require.Equal(t, "ran startup\n", string(r.Stdout.Bytes()))
			}
		},
		"pagers do not wait for a key": func(t *testing.T, b *box) {
			require.Equal(t, "cat cat\n", b.sh(`echo "$PAGER $GIT_PAGER"`))
		},
		"many commands at once do not mix": func(t *testing.T, b *box) {
			var wg sync.WaitGroup
			for i := range 24 {
				wg.Go(func() {
					r, err := b.Exec(t.Context(), sandbox.Command{Script: fmt.Sprintf("echo out%d; echo err%d >&2; exit %d", i, i, i)})
					if err != nil || r.ExitCode != i || r.Stdout.String() != fmt.Sprintf("out%d\n", i) || r.Stderr.String() != fmt.Sprintf("err%d\n", i) {
						t.Errorf("command %d: %v, exit code %d, %q, %q", i, err, r.ExitCode, r.Stdout, r.Stderr)
					}
				})
			}
			wg.Wait()
		},
		"duration counts the command's time": func(t *testing.T, b *box) {
			r := b.exec(sandbox.Command{Script: "sleep 0.2"})
			require.GreaterOrEqual(t, r.Duration, 200*time.Millisecond)
		},
	})
}
