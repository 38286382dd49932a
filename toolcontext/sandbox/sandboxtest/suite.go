// Package sandboxtest is the conformance suite of sandbox backends: it checks every
// sentence of the contract in package sandbox, and what a hostile rollout may try.
//
// A backend's test calls Run with a function that makes a provider. The suite talks
// to the sandbox only through the interface, with a POSIX shell and the usual small
// programs (cat, head, mkdir, sleep, setsid, …) inside; what a backend can't do is
// declared in Options, so that a gap is visible and never a silent skip. It does not
// look at the machine from outside: leaks are for the backend's own tests to find.
package sandboxtest

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
)

// Options says what to create and which parts a backend lacks.
type Options struct {
	// Spec is what every sandbox of the suite is created from. Default: the zero Spec.
	Spec sandbox.Spec
	// GroupsOnly is set by backends that kill process groups but can't find a
	// process that left its group.
	GroupsOnly bool
	// NoFunctions is set by backends whose shell keeps no functions and aliases.
	NoFunctions bool
	// Only names the groups of tests to run, for further configurations of a backend
	// that passes the whole suite in another: commands, streams, endings, sessions,
	// transfers, hostile archives, life, processes. Default: all.
	Only []string
	// Reuse lets one test after another have a sandbox, for backends that take long to
	// make one: the processes and files of the last are removed, and that has to work.
	// Tests of sessions and of sandboxes' lives still have their own.
	Reuse bool
	// Short leaves out the transfers and outputs beyond a few megabytes.
	Short bool
}

// Run runs the whole suite. make is called once; the suite closes the provider.
func Run(t *testing.T, make func(t *testing.T) sandbox.Provider, o Options) {
	p := make(t)
	s := &suite{provider: p, options: o}
	if o.Reuse {
		s.used = &used{}
	}
	// The group ends when all its parallel tests have, so that Close comes last.
	t.Run("conforms", func(t *testing.T) {
		for _, group := range []struct {
			name string
			test func(*suite, *testing.T)
			own  bool // each test needs a new sandbox
		}{
			{"commands", (*suite).commands, false},
			{"streams", (*suite).streams, false},
			{"endings", (*suite).endings, false},
			{"sessions", (*suite).sessions, true},
			{"transfers", (*suite).transfers, false},
			{"hostile archives", (*suite).hostileArchives, false},
			{"life", (*suite).life, true},
			{"processes", (*suite).processes, false},
		} {
			if len(o.Only) > 0 && !slices.Contains(o.Only, group.name) {
				continue
			}
			t.Run(group.name, func(t *testing.T) {
				t.Parallel()
				of := s
				if group.own {
					of = &suite{provider: p, options: o}
				}
				group.test(of, t)
			})
		}
	})
	t.Run("closing the provider closes its sandboxes", func(t *testing.T) {
		b := s.open(t)
		require.NoError(t, p.Close(t.Context()))
		_, err := b.Exec(t.Context(), sandbox.Command{Script: "true"})
		require.ErrorIs(t, err, sandbox.ErrClosed)
		_, err = p.Create(t.Context(), o.Spec)
		require.Error(t, err, "a closed provider created a sandbox")
		require.NoError(t, p.Close(t.Context()), "a second Close")
	})
}

// patience bounds every wait of the suite; nothing is asserted about it but that
// what has to happen happens at all.
const patience = time.Minute

type suite struct {
	provider sandbox.Provider
	options  Options
	used     *used // nil where every test has a sandbox of its own
}

// box is a sandbox with the suite's shorthands.
type box struct {
	sandbox.Sandbox
	t *testing.T
}

// open returns a sandbox for a test, which is closed or given to another when the
// test ends.
func (s *suite) open(t *testing.T) *box {
	t.Helper()
	if b := s.used.take(t); b != nil {
		return b
	}
	made, err := s.provider.Create(t.Context(), s.options.Spec)
	require.NoError(t, err)
	b := &box{made, t}
	s.used.note(b)
	t.Cleanup(func() { s.used.done(t, made) })
	return b
}

// each runs named tests in parallel, each in a sandbox of its own.
func (s *suite) each(t *testing.T, tests map[string]func(*testing.T, *box)) {
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, s.open(t))
		})
	}
}

// exec runs a command that the sandbox has to carry out.
func (b *box) exec(c sandbox.Command) sandbox.Result {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), patience)
	defer cancel()
	r, err := b.Exec(ctx, c)
	require.NoError(b.t, err)
	require.False(b.t, r.Cancelled, "the command did not end within %v: %.200q", patience, c.Script)
	return r
}

// sh runs a script that has to succeed and returns its stdout.
func (b *box) sh(format string, args ...any) string {
	b.t.Helper()
	r := b.exec(sandbox.Command{Script: fmt.Sprintf(format, args...)})
	require.Zero(b.t, r.ExitCode, "exit code; stdout %q, stderr %q", r.Stdout, r.Stderr)
	return string(r.Stdout.Bytes())
}

// session runs a Session script and returns its result.
func (b *box) session(script string) sandbox.Result {
	b.t.Helper()
	return b.exec(sandbox.Command{Script: script, Session: true})
}

// said runs a Session script that has to succeed and returns its stdout.
func (b *box) said(script string) string {
	b.t.Helper()
	r := b.session(script)
	require.Zero(b.t, r.ExitCode, "exit code of %q; stdout %q, stderr %q", script, r.Stdout, r.Stderr)
	return string(r.Stdout.Bytes())
}

// await returns when a file exists in the sandbox.
func (b *box) await(file string) {
	b.t.Helper()
	b.sh(`i=0; while [ ! -e %s ] && [ $i -lt 3000 ]; do i=$((i+1)); sleep 0.01; done; [ -e %s ]`, file, file)
}

// alive reports whether a process lives whose id is in a file of the sandbox. A
// zombie does not.
func (b *box) alive(pidFile string) bool {
	b.t.Helper()
	return b.exec(sandbox.Command{Script: fmt.Sprintf(`
		pid=$(cat %s) || exit 2
		if [ -d /proc/self ]; then
			stat=$(cat /proc/$pid/stat 2>/dev/null) || exit 1
			case "${stat##*) }" in Z*|X*) exit 1 ;; esac
		else
			kill -0 $pid 2>/dev/null || exit 1
		fi
		exit 0`, pidFile)}).ExitCode == 0
}

// gone checks that no process lives whose id is in one of the files. The files have
// to be there: a process that never ran proves nothing.
func (b *box) gone(pidFiles ...string) {
	b.t.Helper()
	for _, f := range pidFiles {
		b.sh("[ -s %s ]", f)
		require.False(b.t, b.alive(f), "the process of %s lives", f)
	}
}

// start runs a command in the background of the test, and returns what ends it and
// a channel with its result.
func (b *box) start(c sandbox.Command) (cancel func(), ended <-chan outcome) {
	ctx, stop := context.WithTimeout(b.t.Context(), patience)
	done := make(chan outcome, 1)
	go func() {
		defer stop()
		r, err := b.Exec(ctx, c)
		done <- outcome{r, err}
	}()
	return stop, done
}

type outcome struct {
	result sandbox.Result
	err    error
}

// wait returns the outcome of a started command.
func (b *box) wait(ended <-chan outcome) outcome {
	b.t.Helper()
	select {
	case o := <-ended:
		return o
	case <-time.After(patience):
		require.Fail(b.t, "Exec did not return")
		return outcome{}
	}
}

// neverReader blocks until it is released.
type neverReader struct{ released chan struct{} }

func (r neverReader) Read([]byte) (int, error) {
	<-r.released
	return 0, io.EOF
}

// lines returns n numbered lines.
func lines(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "line %d\n", i)
	}
	return b.String()
}
