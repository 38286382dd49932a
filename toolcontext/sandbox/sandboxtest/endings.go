package sandboxtest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
)

// A tree is a script that leaves processes running, each with its id in a file
// named pid-something, and in the end creates the file ready.
var inGroup = map[string]string{
	"a child":                        `sh -c 'echo $$ > pid-child; sleep 600; :' & `,
	"grandchildren":                  `sh -c 'sh -c "sh -c \"echo \\\$\\\$ > pid-grand; sleep 600; :\"; :"; :' & `,
	"nohup":                          `nohup sh -c 'echo $$ > pid-nohup; sleep 600; :' >/dev/null 2>&1 & `,
	"a process that ignores SIGTERM": `sh -c 'trap "" TERM HUP INT; echo $$ > pid-stubborn; while :; do sleep 0.05; done' & `,
	"a stopped process":              `sh -c 'echo $$ > pid-stopped; kill -STOP $$; sleep 600' & `,
	"a pipeline":                     `(while echo y; do sleep 0.05; done) | cat >/dev/null & echo $! > pid-pipeline; `,
}

var outOfGroup = map[string]string{
	"setsid":                                    `setsid sh -c 'echo $$ > pid-setsid; sleep 600; :' & `,
	"a double-forked daemon":                    `(setsid sh -c 'echo $$ > pid-daemon; sleep 600; :' </dev/null >/dev/null 2>&1 &) ; `,
	"setsid without a variable":                 `env -i "$(command -v setsid)" sh -c 'echo $$ > pid-bare; exec sleep 600' & `,
	"a bare daemon in the sandbox's directory":  `(env -i "$(command -v setsid)" sh -c 'echo $$ > pid-bare-daemon; exec sleep 600' </dev/null >/dev/null 2>&1 &) ; `,
	"a bare daemon elsewhere that holds a pipe": `(env -i "$(command -v setsid)" sh -c 'echo $$ > pid-bare-pipe; cd /; exec sleep 600' </dev/null &) ; `,
	"job control":                               `(set -m; sh -c 'echo $$ > pid-job; sleep 600; :' & ) ; `,
	"an orphan that ignores every signal":       `(setsid sh -c 'trap "" TERM HUP INT QUIT USR1 USR2 PIPE; echo $$ > pid-deaf; while :; do sleep 0.05; done' &) ; `,
}

// trees returns the trees that the backend has to find.
func (s *suite) trees() map[string]string {
	all := maps.Clone(inGroup)
	if !s.options.GroupsOnly {
		maps.Copy(all, outOfGroup)
	}
	return all
}

// waitForTree makes a script wait until every process of a tree has noted its id.
const waitForTree = `
	for f in %s; do while [ ! -s $f ]; do sleep 0.01; done; done
	: > ready
`

// endings checks timeouts, cancels and KillAll.
func (s *suite) endings(t *testing.T) {
	for name, tree := range s.trees() {
		ways := map[string]func(*testing.T, *box, string){
			"is gone after a cancel": func(t *testing.T, b *box, script string) {
				cancel, ended := b.start(sandbox.Command{Script: script + "echo partial; while :; do sleep 600; done", Session: true})
				b.await("ready")
				cancel()
				o := b.wait(ended)
				require.NoError(t, o.err)
				require.True(t, o.result.Cancelled)
				require.False(t, o.result.TimedOut)
				require.Equal(t, sandbox.ExitCancelled, o.result.ExitCode)
			},
			"is gone after KillAll": func(t *testing.T, b *box, script string) {
				b.exec(sandbox.Command{Script: script})
				require.NoError(t, b.KillAll(t.Context()))
			},
		}
		for way, end := range ways {
			t.Run(name+" "+way, func(t *testing.T) {
				t.Parallel()
				b := s.open(t)
				file := pidFile(tree)
				end(t, b, tree+fmt.Sprintf(waitForTree, file))
				b.gone(file)
				require.Equal(t, "usable\n", b.said("echo usable"))
			})
		}
	}
	tests := map[string]func(*testing.T, *box){
		"a timeout is 124 with what was written until then, and the tree is gone": func(t *testing.T, b *box) {
			script := ""
			files := ""
			for _, tree := range s.trees() {
				script += tree
				files += " " + pidFile(tree)
			}
			r := b.exec(sandbox.Command{Script: "echo before; echo problem >&2; " + script + fmt.Sprintf(waitForTree, files) + "echo partial; sleep 600", Timeout: 3 * time.Second})
			require.True(t, r.TimedOut)
			require.False(t, r.Cancelled)
			require.Equal(t, sandbox.ExitTimeout, r.ExitCode)
			require.Contains(t, r.Stdout.String(), "before\npartial\n")
			require.Contains(t, r.Stderr.String(), "problem\n")
			require.GreaterOrEqual(t, r.Duration, 3*time.Second)
			for _, tree := range s.trees() {
				b.gone(pidFile(tree))
			}
		},
		"a command that ends in time has no timeout": func(t *testing.T, b *box) {
			r := b.exec(sandbox.Command{Script: "exit 124", Timeout: patience})
			require.False(t, r.TimedOut)
			require.Equal(t, 124, r.ExitCode)
		},
		"a program run by arguments times out too": func(t *testing.T, b *box) {
			r := b.exec(sandbox.Command{Args: []string{"sleep", "600"}, Timeout: 50 * time.Millisecond})
			require.True(t, r.TimedOut)
			require.Equal(t, sandbox.ExitTimeout, r.ExitCode)
		},
		"a timeout spares what earlier commands left running": func(t *testing.T, b *box) {
			b.sh("(setsid sh -c 'echo $$ > pid-earlier; sleep 600; :' >/dev/null 2>&1 &); sleep 600 >/dev/null 2>&1 & echo $! > pid-plain")
			b.await("pid-earlier")
			r := b.exec(sandbox.Command{Script: "sleep 600", Timeout: 100 * time.Millisecond})
			require.True(t, r.TimedOut)
			require.True(t, b.alive("pid-earlier"))
			require.True(t, b.alive("pid-plain"))
			require.NoError(t, b.KillAll(t.Context()))
			b.gone("pid-earlier", "pid-plain")
		},
		"a timeout spares commands that run beside it": func(t *testing.T, b *box) {
			cancel, ended := b.start(sandbox.Command{Script: ": > beside; while [ ! -e stop ]; do sleep 0.02; done; echo finished"})
			defer cancel()
			b.await("beside")
			require.True(t, b.exec(sandbox.Command{Script: "sleep 600", Timeout: 100 * time.Millisecond}).TimedOut)
			b.sh(": > stop")
			o := b.wait(ended)
			require.NoError(t, o.err)
			require.Equal(t, "finished\n", o.result.Stdout.String())
		},
		"a context that has ended runs nothing": func(t *testing.T, b *box) {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			for _, c := range []sandbox.Command{{Script: ": > ran"}, {Script: ": > ran", Session: true}, {Args: []string{"touch", "ran"}}} {
				r, err := b.Exec(ctx, c)
				require.NoError(t, err)
				require.True(t, r.Cancelled)
				require.Equal(t, sandbox.ExitCancelled, r.ExitCode)
			}
			b.sh("[ ! -e ran ]")
		},
		"a context's deadline counts as a cancel": func(t *testing.T, b *box) {
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			r, err := b.Exec(ctx, sandbox.Command{Script: "sleep 600"})
			require.NoError(t, err)
			require.True(t, r.Cancelled)
			require.False(t, r.TimedOut)
		},
		"KillAll ends running commands with the code of SIGKILL": func(t *testing.T, b *box) {
			_, ended := b.start(sandbox.Command{Script: "echo begun; : > ready; sleep 600"})
			b.await("ready")
			require.NoError(t, b.KillAll(t.Context()))
			o := b.wait(ended)
			require.NoError(t, o.err)
			require.Equal(t, 128+9, o.result.ExitCode)
			require.False(t, o.result.TimedOut)
			require.False(t, o.result.Cancelled)
			require.Equal(t, "begun\n", o.result.Stdout.String())
		},
		"KillAll with nothing to kill": func(t *testing.T, b *box) {
			require.NoError(t, b.KillAll(t.Context()))
			b.sh("true")
			require.NoError(t, b.KillAll(t.Context()))
			require.NoError(t, b.KillAll(t.Context()))
			b.sh("true")
		},
		"a tree that keeps forking is caught": func(t *testing.T, b *box) {
			cancel, ended := b.start(sandbox.Command{Script: `
				n=0; while [ $n -lt 3 ]; do n=$((n+1))
				sh -c 'echo $$ > pid-fork$0; while :; do sleep 0.02 & sh -c "sleep 0.01; :" & wait; done' $n &
				while [ ! -s pid-fork$n ]; do sleep 0.01; done; done; : > ready; while :; do sleep 0.01; done`})
			b.await("ready")
			cancel()
			require.True(t, b.wait(ended).result.Cancelled)
			b.gone("pid-fork1", "pid-fork2", "pid-fork3")
		},
	}
	if !s.options.GroupsOnly {
		tests["a process that hops from session to session is caught"] = func(t *testing.T, b *box) {
			b.sh(`printf '#!/bin/sh\necho x >> beats\nsleep 0.005\nsetsid ./hop </dev/null >/dev/null 2>&1 &\n' > hop; chmod +x hop`)
			cancel, ended := b.start(sandbox.Command{Script: "./hop; : > ready; sleep 600"})
			b.await("ready")
			cancel()
			o := b.wait(ended)
			require.NoError(t, o.err)
			count := func() string { return b.sh("wc -c < beats") }
			before := count()
			b.sh("sleep 0.3")
			require.Equal(t, before, count(), "it still hops")
		}
	}
	s.each(t, tests)
}

// pidFile returns the name of the file a tree notes its process in.
func pidFile(tree string) string {
	const prefix = "pid-"
	for i := 0; i+len(prefix) <= len(tree); i++ {
		if tree[i:i+len(prefix)] == prefix {
			j := i
			for j < len(tree) && (tree[j] == '-' || 'a' <= tree[j] && tree[j] <= 'z') {
				j++
			}
			return tree[i:j]
		}
	}
	return ""
}

// life checks creation and closing.
func (s *suite) life(t *testing.T) {
	s.each(t, map[string]func(*testing.T, *box){
		"two sandboxes share neither files nor state": func(t *testing.T, b *box) {
			other := s.open(t)
			b.said("echo mine > file; export V=mine; echo mine > ~/homefile")
			other.sh("[ ! -e file ] && [ ! -e ~/homefile ]")
			require.Equal(t, "unset\n", other.said(`echo "${V-unset}"`))
		},
		"KillAll of one sandbox spares the other": func(t *testing.T, b *box) {
			other := s.open(t)
			other.sh("sleep 600 >/dev/null 2>&1 & echo $! > pid")
			b.sh("sleep 600 >/dev/null 2>&1 & echo $! > pid")
			require.NoError(t, b.KillAll(t.Context()))
			b.gone("pid")
			require.True(t, other.alive("pid"))
		},
		"after Close every method says so": func(t *testing.T, b *box) {
			b.sh("sleep 600 & true")
			require.NoError(t, b.Close(t.Context()))
			require.NoError(t, b.Close(t.Context()), "a second Close")
			_, err := b.Exec(t.Context(), sandbox.Command{Script: "true"})
			require.ErrorIs(t, err, sandbox.ErrClosed)
			_, err = b.Exec(t.Context(), sandbox.Command{Script: "true", Session: true})
			require.ErrorIs(t, err, sandbox.ErrClosed)
			require.ErrorIs(t, b.KillAll(t.Context()), sandbox.ErrClosed)
			require.ErrorIs(t, b.Upload(t.Context(), archiveOf(t, file("a", "x")), "."), sandbox.ErrClosed)
			_, err = b.Download(t.Context(), ".")
			require.ErrorIs(t, err, sandbox.ErrClosed)
			require.NotEmpty(t, b.Info().ID)
		},
		"Close interrupts what runs": func(t *testing.T, b *box) {
			_, first := b.start(sandbox.Command{Script: ": > ready; sleep 600", Session: true})
			b.await("ready")
			_, second := b.start(sandbox.Command{Script: "sleep 600", Session: true}) // waits for the session
			require.NoError(t, b.Close(t.Context()))
			require.ErrorIs(t, b.wait(first).err, sandbox.ErrClosed)
			require.ErrorIs(t, b.wait(second).err, sandbox.ErrClosed)
		},
		"Close with a context that has ended still cleans up": func(t *testing.T, b *box) {
			b.sh("sleep 600 & mkdir -p a/b/c; chmod 000 a/b; chmod 555 a")
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			require.NoError(t, b.Close(ctx))
		},
		"an unread download does not hold Close up": func(t *testing.T, b *box) {
			b.sh("head -c 3000000 /dev/zero > big")
			r, err := b.Download(t.Context(), "big")
			require.NoError(t, err)
			require.NoError(t, b.Close(t.Context()))
			_, err = r.Read(make([]byte, 1))
			require.Error(t, err)
			require.NoError(t, r.Close())
		},
		"Create with a context that has ended makes nothing": func(t *testing.T, _ *box) {
			ctx, cancel := context.WithCancelCause(t.Context())
			cause := errors.New("the run is over")
			cancel(cause)
			_, err := s.provider.Create(ctx, s.options.Spec)
			require.ErrorIs(t, err, cause)
		},
		"Create with a variable no process can have is an error": func(t *testing.T, _ *box) {
			spec := s.options.Spec
			spec.Env = map[string]string{"A=B": "x"}
			_, err := s.provider.Create(t.Context(), spec)
			require.Error(t, err)
		},
		"Reap leaves what is in use": func(t *testing.T, b *box) {
			b.said("export V=1; echo text > file")
			_, err := s.provider.Reap(t.Context())
			require.NoError(t, err)
			require.Equal(t, "1 text\n", b.said("echo $V $(cat file)"))
		},
	})
}
