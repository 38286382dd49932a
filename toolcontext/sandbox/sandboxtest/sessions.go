package sandboxtest

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
)

// sessions checks what one Session script hands to the next.
func (s *suite) sessions(t *testing.T) {
	tests := map[string]func(*testing.T, *box){
		"directory and exported variables persist, nothing else": func(t *testing.T, b *box) {
			b.said("mkdir -p a/b; cd a/b; export KEPT=1; LOCAL=2; set -e; set -u; set -f; umask 077; trap 'echo trapped' USR1")
			require.Equal(t, "1 unset b\n", b.said(`false; : $NOPE; echo "$KEPT ${LOCAL-unset} $(basename "$PWD")"`))
			b.said("unset KEPT; cd ..")
			require.Equal(t, "unset a\n", b.said(`echo "${KEPT-unset} $(basename "$PWD")"`))
			require.NotContains(t, b.said("echo $-"), "e")
		},
		"values of every kind survive": func(t *testing.T, b *box) {
			for _, value := range []string{
				"", " ", "plain", "two words", "it's", `say "hi"`, "$HOME", "`id`", `back\slash`, `\`, "a\nb", "\n", "end\n\n",
				"tab\there", "é日本🙂", "\x01\x02\x1b[31m", "\x7f", "\xff\xfe", "'", "''", `"`, "$'x'", "a=b", "!", "*", "~", "#c",
				"declare -x EVIL=\"1\"", "x\ndeclare -x EVIL=\"1\"\nexport EVIL='1'", "';export EVIL=1;'", strings.Repeat("long ", 5000),
			} {
				b.exec(sandbox.Command{Script: `export VALUE="$IN"`, Session: true, Env: map[string]string{"IN": value}})
				b.session("true") // once more through the state
				require.Equal(t, value+"|", b.said(`printf '%s|' "$VALUE"`), "%q", value)
				require.Equal(t, "unset\n", b.said(`echo "${EVIL-unset}"`))
			}
		},
		"state survives exit, failure and errors of syntax": func(t *testing.T, b *box) {
			require.Equal(t, 3, b.session("mkdir d1; cd d1; export A=1; exit 3").ExitCode)
			require.Equal(t, 1, b.session("mkdir d2; cd d2; export B=2; false").ExitCode)
			require.Equal(t, 1, b.session("set -e; mkdir d3; cd d3; export C=3; false; export C=no").ExitCode)
			require.Equal(t, 2, b.session("echo 'unbalanced").ExitCode)
			require.NotZero(t, b.session("set -u; export D=4; echo $MISSING; export D=no").ExitCode)
			require.Equal(t, "1 2 3 4 d1/d2/d3\n", b.said(`echo "$A $B $C $D ${PWD#"$PWD_START"}" | sed 's| /.*/d1| d1|'`))
		},
		"a script may turn every shell option on": func(t *testing.T, b *box) {
			b.session("export BEFORE=1; set -Ceuf; set -x; export AFTER=2")
			require.Equal(t, "1 2\n", b.said(`echo "$BEFORE $AFTER"`))
		},
		"an EXIT trap of the script's own runs, and what came before is kept": func(t *testing.T, b *box) {
			require.Equal(t, "body\ntrapped\n", b.said("trap 'echo trapped' EXIT; export T=1; echo body"))
			require.Equal(t, "1\n", b.said("echo $T"))
		},
		"a script that replaces its shell leaves the session as it was": func(t *testing.T, b *box) {
			b.said("export V=before")
			require.Equal(t, 7, b.session("export V=after; exec sh -c 'exit 7'").ExitCode)
			require.Equal(t, "before\n", b.said("echo $V"))
		},
		"a killed script leaves the session as it was": func(t *testing.T, b *box) {
			b.said("mkdir kept; cd kept; export V=before")
			cancel, ended := b.start(sandbox.Command{Script: "cd /; export V=after; : > ~/ready; sleep 60", Session: true})
			b.await("~/ready")
			cancel()
			o := b.wait(ended)
			require.NoError(t, o.err)
			require.Equal(t, sandbox.ExitCancelled, o.result.ExitCode)
			r := b.exec(sandbox.Command{Script: "cd /; export V=after; sleep 60", Session: true, Timeout: 300 * time.Millisecond})
			require.True(t, r.TimedOut)
			require.Equal(t, 128+9, b.session("export V=after; kill -KILL $$").ExitCode)
			require.Equal(t, "before kept\n", b.said(`echo "$V $(basename "$PWD")"`))
		},
		"a directory removed under the session is told and left": func(t *testing.T, b *box) {
			b.said("mkdir -p here/gone/deep; cd here/gone/deep")
			b.sh("rm -rf here/gone")
			r := b.session("pwd; export STILL=works")
			require.Zero(t, r.ExitCode)
			require.Contains(t, r.Stdout.String(), "/here\n")
			require.Contains(t, r.Stderr.String(), "gone/deep")
			r = b.session("pwd; echo $STILL")
			require.Zero(t, r.Stderr.Total, "told twice: %q", r.Stderr)
			require.Contains(t, r.Stdout.String(), "works")
			r = b.session(`mkdir x; cd x; rmdir ../x`)
			require.Zero(t, r.ExitCode)
			r = b.session("pwd")
			require.Zero(t, r.ExitCode)
			require.Contains(t, r.Stdout.String(), "/here\n", "also by the script that went there")
			require.Contains(t, r.Stderr.String(), "here/x is gone")
		},
		"the working directory itself may be removed": func(t *testing.T, b *box) {
			b.exec(sandbox.Command{Script: `d=$PWD; cd /; rm -rf "$d"`})
			for _, session := range []bool{false, true} {
				r := b.exec(sandbox.Command{Script: "echo ran", Session: session})
				require.Zero(t, r.ExitCode, "%v", r)
				require.Equal(t, "ran\n", r.Stdout.String())
			}
		},
		"directories with odd names are kept": func(t *testing.T, b *box) {
			for _, name := range []string{"with space", "quo'te", "dou\"ble", "$dollar", "new\nline", "é日本", "-dash", "back\\slash"} {
				b.exec(sandbox.Command{Script: `mkdir -- "./$N" && cd "./$N"`, Session: true, Env: map[string]string{"N": name}})
				require.Equal(t, name+"|", b.said(`printf '%s|' "${PWD##*/}"`))
				b.said("cd ..")
			}
		},
		"a directory for one command does not move the session": func(t *testing.T, b *box) {
			b.said("mkdir -p base other/sub; cd base")
			b.exec(sandbox.Command{Script: "export SEEN=$PWD", Session: true, Dir: "../other"})
			require.Equal(t, "base other\n", b.said(`echo "$(basename "$PWD") $(basename "$SEEN")"`))
			b.exec(sandbox.Command{Script: "cd sub", Session: true, Dir: "../other"})
			require.Equal(t, "sub\n", b.said(`basename "$PWD"`))
		},
		"variables for one command are not kept, unless the script changes them": func(t *testing.T, b *box) {
			b.said("export BOTH=session")
			env := map[string]string{"BOTH": "command", "ONCE": "1", "CHANGED": "1"}
			b.exec(sandbox.Command{Script: "export CHANGED=2", Session: true, Env: env})
			require.Equal(t, "session unset 2\n", b.said(`echo "$BOTH ${ONCE-unset} $CHANGED"`))
		},
		"a command outside the session neither sees nor changes it": func(t *testing.T, b *box) {
			b.said("export IN=1; mkdir -p sub; cd sub")
			require.Equal(t, "unset\n", b.sh(`echo "${IN-unset}"`))
			b.sh("export IN=2; cd /")
			require.Equal(t, "1 sub\n", b.said(`echo "$IN $(basename "$PWD")"`))
		},
		"scripts run one after another": func(t *testing.T, b *box) {
			b.said("export N=0")
			var wg sync.WaitGroup
			for range 12 {
				wg.Go(func() {
					_, err := b.Exec(t.Context(), sandbox.Command{Script: "export N=$((N+1))", Session: true})
					if err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
			require.Equal(t, "12\n", b.said("echo $N"))
		},
		"waiting for the session can be cancelled": func(t *testing.T, b *box) {
			cancel, ended := b.start(sandbox.Command{Script: ": > ready; sleep 60", Session: true})
			b.await("ready")
			ctx, stop := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer stop()
			r, err := b.Exec(ctx, sandbox.Command{Script: "echo ran > proof", Session: true})
			require.NoError(t, err)
			require.True(t, r.Cancelled)
			require.Equal(t, sandbox.ExitCancelled, r.ExitCode)
			cancel()
			b.wait(ended)
			b.sh("[ ! -e proof ]")
		},
		"shells do not nest": func(t *testing.T, b *box) {
			level := b.said("echo ${SHLVL-none}")
			b.session("true")
			require.Equal(t, level, b.said("echo ${SHLVL-none}"))
		},
		"variables no program could be started with do not break the session": func(t *testing.T, b *box) {
			b.session(`BIG=$(head -c 200000 /dev/zero | tr '\0' x); export BIG; export SMALL=1`)
			require.Equal(t, "1\n", b.said("echo $SMALL; cat /dev/null"))
			b.session(`i=0; while [ $i -lt 60 ]; do export "V$i=$(head -c 60000 /dev/zero | tr '\0' x)"; i=$((i+1)); done`)
			require.Zero(t, b.session("cat /dev/null").ExitCode)
		},
		"variables that steer the shell reach its children, not the shell": func(t *testing.T, b *box) {
			b.sh("echo 'echo LOADED' > startup")
			b.said(`export BASH_ENV="$PWD/startup" ENV="$PWD/startup"`)
			require.Equal(t, "startup\n", b.said(`echo "${BASH_ENV##*/}"`))
			require.Equal(t, "startup\n", b.said(`echo "${ENV##*/}"`))
		},
	}
	if !s.options.NoFunctions {
		tests["functions and aliases persist"] = func(t *testing.T, b *box) {
			b.said("greet() { echo \"hello $1\"; }; alias hey='greet alias'")
			require.Equal(t, "hello you\nhello alias\n", b.said("greet you\nhey"))
			b.said("unset -f greet; unalias hey")
			require.Equal(t, 127, b.session("greet you").ExitCode)
		}
		tests["functions named like the shell's own words do no harm"] = func(t *testing.T, b *box) {
			b.said("export V=1; trap() { echo HIJACK; }; eval() { echo HIJACK; }; set() { echo HIJACK; }; pwd() { echo HIJACK; }; export() { echo HIJACK; }")
			require.Equal(t, "1\n", b.said("echo $V"))
		}
	}
	s.each(t, tests)
}
