package sandboxtest

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
)

// job is a background process with the suite's shorthands.
type job struct {
	sandbox.Process
	b *box
}

func (b *box) background(c sandbox.Command) *job {
	b.t.Helper()
	p, err := b.Sandbox.(sandbox.Starter).Start(b.t.Context(), c)
	require.NoError(b.t, err)
	return &job{p, b}
}

// end waits for the end.
func (j *job) end() sandbox.Result {
	j.b.t.Helper()
	ctx, cancel := context.WithTimeout(j.b.t.Context(), patience)
	defer cancel()
	r, err := j.Wait(ctx)
	require.NoError(j.b.t, err)
	return r
}

// says waits until the output contains text.
func (j *job) says(text string) {
	j.b.t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		r, running, err := j.Poll(j.b.t.Context())
		require.NoError(j.b.t, err)
		if strings.Contains(r.String(), text) {
			return
		}
		require.True(j.b.t, running && time.Now().Before(end), "no %q in %q", text, r)
	}
}

func (j *job) write(text string) {
	j.b.t.Helper()
	n, err := j.Write(j.b.t.Context(), []byte(text))
	require.NoError(j.b.t, err)
	require.Equal(j.b.t, len(text), n)
}

// processes checks background processes, of sandboxes that have them.
func (s *suite) processes(t *testing.T) {
	if _, ok := s.open(t).Sandbox.(sandbox.Starter); !ok {
		return
	}
	s.each(t, map[string]func(*testing.T, *box){
		"a process runs on, is polled without harm and waited for": func(t *testing.T, b *box) {
			j := b.background(sandbox.Command{Script: "echo begun; echo problem >&2; while [ ! -e go ]; do sleep 0.01; done; echo done; exit 3"})
			j.says("begun")
			j.says("problem")
			j.says("begun")
			require.Positive(t, j.PID())
			b.sh("kill -0 %d; : > go", j.PID())
			r := j.end()
			require.Equal(t, 3, r.ExitCode)
			require.Equal(t, "begun\ndone\n", r.Stdout.String())
			require.Equal(t, "problem\n", r.Stderr.String())
			again, running, err := j.Poll(t.Context())
			require.NoError(t, err)
			require.False(t, running)
			require.Equal(t, r, again)
			require.Equal(t, r, j.end())
		},
		"input arrives in order and ends": func(t *testing.T, b *box) {
			j := b.background(sandbox.Command{Args: []string{"cat"}})
			j.write("one\n")
			j.says("one\n")
			j.write("")
			j.write("two")
			require.NoError(t, j.CloseInput(t.Context()))
			require.Equal(t, "one\ntwo", j.end().Stdout.String())
			_, err := j.Write(t.Context(), []byte("x"))
			require.ErrorIs(t, err, sandbox.ErrEnded)
			require.NoError(t, j.CloseInput(t.Context()))
		},
		"input that nobody reads waits, and no longer than ctx": func(t *testing.T, b *box) {
			j := b.background(sandbox.Command{Args: []string{"sleep", "600"}})
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			defer cancel()
			n, err := j.Write(ctx, make([]byte, 4<<20))
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.Less(t, n, 4<<20)
			require.NoError(t, j.Kill(t.Context()))
			_, err = j.Write(t.Context(), []byte("x"))
			require.ErrorIs(t, err, sandbox.ErrEnded)
		},
		"much input arrives whole": func(t *testing.T, b *box) {
			j := b.background(sandbox.Command{Args: []string{"wc", "-c"}})
			n, err := j.Write(t.Context(), bytes.Repeat([]byte("x"), 3<<20))
			require.NoError(t, err)
			require.Equal(t, 3<<20, n)
			require.NoError(t, j.CloseInput(t.Context()))
			require.Equal(t, "3145728", strings.TrimSpace(j.end().Stdout.String()))
		},
		"a kill ends the tree and spares what else runs": func(t *testing.T, b *box) {
			other := b.background(sandbox.Command{Args: []string{"sleep", "600"}})
			j := b.background(sandbox.Command{Script: "sh -c 'echo $$ > pid-child; sleep 600; :' & while [ ! -s pid-child ]; do sleep 0.01; done; echo partial; sleep 600"})
			j.says("partial")
			require.NoError(t, j.Kill(t.Context()))
			b.gone("pid-child")
			r := j.end()
			require.True(t, r.Cancelled)
			require.Equal(t, sandbox.ExitCancelled, r.ExitCode)
			require.Equal(t, "partial\n", r.Stdout.String())
			require.NoError(t, j.Kill(t.Context()), "a second Kill")
			_, running, err := other.Poll(t.Context())
			require.NoError(t, err)
			require.True(t, running)
			require.NoError(t, other.Kill(t.Context()))
		},
		"KillAll ends it with the code of SIGKILL, a timeout with 124": func(t *testing.T, b *box) {
			j := b.background(sandbox.Command{Script: "echo begun; sleep 600"})
			j.says("begun")
			require.NoError(t, b.KillAll(t.Context()))
			require.Equal(t, 128+9, j.end().ExitCode)
			j = b.background(sandbox.Command{Args: []string{"sleep", "600"}, Timeout: 100 * time.Millisecond})
			r := j.end()
			require.True(t, r.TimedOut)
			require.Equal(t, sandbox.ExitTimeout, r.ExitCode)
		},
		"a wait ends with its context and the process runs on": func(t *testing.T, b *box) {
			j := b.background(sandbox.Command{Args: []string{"sleep", "600"}})
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			_, err := j.Wait(ctx)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			b.sh("kill -0 %d", j.PID())
		},
		"a program that is not there is a process that has ended": func(t *testing.T, b *box) {
			j := b.background(sandbox.Command{Args: []string{"no-such-program-here"}})
			require.Zero(t, j.PID())
			require.Equal(t, 127, j.end().ExitCode)
			require.Equal(t, 126, b.background(sandbox.Command{Args: []string{"true"}, Dir: "/no/such/dir"}).end().ExitCode)
		},
		"output is bounded while it runs": func(t *testing.T, b *box) {
			j := b.background(sandbox.Command{Script: "head -c 100000 /dev/zero; echo END; sleep 600", MaxOutput: 1000})
			j.says("END\n")
			r, running, err := j.Poll(t.Context())
			require.NoError(t, err)
			require.True(t, running)
			require.Len(t, r.Stdout.Bytes(), 1000)
			require.EqualValues(t, 100004, r.Stdout.Total)
		},
		"what contradicts itself is refused": func(t *testing.T, b *box) {
			starter := b.Sandbox.(sandbox.Starter)
			for name, c := range map[string]sandbox.Command{
				"session": {Script: "true", Session: true}, "no program": {Args: []string{}}, "stdin": {Script: "true", Stdin: strings.NewReader("")},
			} {
				_, err := starter.Start(t.Context(), c)
				require.ErrorIs(t, err, sandbox.ErrInvalidCommand, name)
			}
			_, err := b.Exec(t.Context(), sandbox.Command{Script: "true", Terminal: &sandbox.Terminal{}})
			require.ErrorIs(t, err, sandbox.ErrInvalidCommand)
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			_, err = starter.Start(ctx, sandbox.Command{Script: ": > ran"})
			require.ErrorIs(t, err, context.Canceled)
			b.sh("[ ! -e ran ]")
		},
		"Close ends it": func(t *testing.T, b *box) {
			j := b.background(sandbox.Command{Args: []string{"sleep", "600"}})
			require.NoError(t, b.Close(t.Context()))
			_, err := j.Wait(t.Context())
			require.ErrorIs(t, err, sandbox.ErrClosed)
			_, err = b.Sandbox.(sandbox.Starter).Start(t.Context(), sandbox.Command{Args: []string{"true"}})
			require.ErrorIs(t, err, sandbox.ErrClosed)
		},
	})
	if s.options.GroupsOnly {
		return // pseudo terminals are for Linux
	}
	s.each(t, map[string]func(*testing.T, *box){
		"a terminal is one": func(t *testing.T, b *box) {
			j := b.background(sandbox.Command{Script: "[ -t 0 ] && [ -t 1 ] && [ -t 2 ] && echo all; stty size 2>/dev/null; echo err >&2; read line; echo \"got $line\"; exit 5", Terminal: &sandbox.Terminal{Rows: 40, Cols: 100}})
			j.says("all\r\n")
			j.says("err\r\n")
			j.write("word\n")
			r := j.end()
			require.Equal(t, 5, r.ExitCode)
			require.Contains(t, r.Stdout.String(), "got word\r\n")
			require.Contains(t, r.Stdout.String(), "40 100")
			require.Zero(t, r.Stderr.Total)
		},
		"a terminal's input ends, its interrupt key interrupts and a kill ends it": func(t *testing.T, b *box) {
			j := b.background(sandbox.Command{Args: []string{"cat"}, Terminal: &sandbox.Terminal{}})
			j.write("text\n")
			j.says("text\r\ntext\r\n") // the echo, and cat's
			require.NoError(t, j.CloseInput(t.Context()))
			require.Zero(t, j.end().ExitCode)
			j = b.background(sandbox.Command{Script: "echo ready; exec sleep 600", Terminal: &sandbox.Terminal{}})
			j.says("ready")
			j.write("\x03")
			require.Equal(t, 128+2, j.end().ExitCode)
			j = b.background(sandbox.Command{Script: "trap '' HUP INT TERM; echo ready; while :; do sleep 1; done", Terminal: &sandbox.Terminal{}})
			j.says("ready")
			require.NoError(t, j.Kill(t.Context()))
			require.True(t, j.end().Cancelled)
		},
	})
}
