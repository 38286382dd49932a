package sandboxtest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
)

// streams checks input and output.
func (s *suite) streams(t *testing.T) {
	s.each(t, map[string]func(*testing.T, *box){
		"stdout and stderr stay apart": func(t *testing.T, b *box) {
			r := b.exec(sandbox.Command{Script: "echo out; echo err >&2; echo out2"})
			require.Equal(t, "out\nout2\n", r.Stdout.String())
			require.Equal(t, "err\n", r.Stderr.String())
		},
		"merged streams keep the order of writing": func(t *testing.T, b *box) {
			r := b.exec(sandbox.Command{Script: "for i in 1 2 3 4 5; do echo out$i; echo err$i >&2; done", Merge: true})
			require.Equal(t, "out1\nerr1\nout2\nerr2\nout3\nerr3\nout4\nerr4\nout5\nerr5\n", r.Stdout.String())
			require.Zero(t, r.Stderr.Total)
		},
		"output is byte-exact": func(t *testing.T, b *box) {
			data := make([]byte, 300_000)
			rng := rand.New(rand.NewPCG(1, 2))
			for i := range data {
				data[i] = byte(rng.Uint32())
			}
			r := b.exec(sandbox.Command{Args: []string{"cat"}, Stdin: bytes.NewReader(data)})
			require.Zero(t, r.ExitCode)
			require.EqualValues(t, len(data), r.Stdout.Total)
			require.Zero(t, r.Stdout.Omitted())
			require.Equal(t, sha256.Sum256(data), sha256.Sum256(r.Stdout.Bytes()))
		},
		"the middle of long output is dropped while it is produced": func(t *testing.T, b *box) {
			want := lines(20_000)
			script := "i=0; while [ $i -lt 20000 ]; do echo line $i; i=$((i+1)); done"
			r := b.exec(sandbox.Command{Script: script + "; echo short >&2", MaxOutput: 1000})
			require.EqualValues(t, len(want), r.Stdout.Total)
			require.Equal(t, want[:400], string(r.Stdout.Head))
			require.Equal(t, want[len(want)-600:], string(r.Stdout.Tail))
			require.EqualValues(t, len(want)-1000, r.Stdout.Omitted())
			require.Contains(t, r.Stdout.String(), "bytes omitted out of")
			require.Equal(t, "short\n", r.Stderr.String())
		},
		"output up to the limit is whole": func(t *testing.T, b *box) {
			for _, n := range []string{"999", "1000", "1001"} {
				r := b.exec(sandbox.Command{Script: "head -c " + n + " /dev/zero | tr '\\0' x", MaxOutput: 1000})
				require.Equal(t, n == "1001", r.Stdout.Omitted() > 0, n)
			}
		},
		"each stream has a limit of its own": func(t *testing.T, b *box) {
			r := b.exec(sandbox.Command{Script: "head -c 5000 /dev/zero; head -c 7000 /dev/zero >&2", MaxOutput: 100})
			require.EqualValues(t, 5000, r.Stdout.Total)
			require.EqualValues(t, 7000, r.Stderr.Total)
			require.Len(t, r.Stdout.Bytes(), 100)
			require.Len(t, r.Stderr.Bytes(), 100)
		},
		"a flood neither fills memory nor stops the clock": func(t *testing.T, b *box) {
			if s.options.Short {
				return
			}
			r := b.exec(sandbox.Command{Script: "head -c 50000000 /dev/zero"})
			require.EqualValues(t, 50_000_000, r.Stdout.Total)
			require.Len(t, r.Stdout.Bytes(), sandbox.DefaultMaxOutput)
		},
		"without input there is an end of file": func(t *testing.T, b *box) {
			for _, session := range []bool{false, true} {
				r := b.exec(sandbox.Command{Script: "cat; read x; echo $?", Session: session})
				require.Equal(t, "1\n", r.Stdout.String())
			}
		},
		"a script reads its input, not itself": func(t *testing.T, b *box) {
			for _, session := range []bool{false, true} {
				r := b.exec(sandbox.Command{Script: "read a; read b; echo \"$b $a\"; cat", Stdin: strings.NewReader("1\n2\nrest\n"), Session: session})
				require.Equal(t, "2 1\nrest\n", r.Stdout.String())
			}
		},
		"input that nobody reads holds nothing up": func(t *testing.T, b *box) {
			r := b.exec(sandbox.Command{Script: "exit 5", Stdin: bytes.NewReader(make([]byte, 10<<20))})
			require.Equal(t, 5, r.ExitCode)
		},
		"a source of input that blocks holds nothing up": func(t *testing.T, b *box) {
			source := neverReader{make(chan struct{})}
			defer close(source.released)
			r := b.exec(sandbox.Command{Script: "echo done", Stdin: source})
			require.Equal(t, "done\n", r.Stdout.String())
		},
		"a background child that holds the pipes holds nothing up, and lives on": func(t *testing.T, b *box) {
			r := b.exec(sandbox.Command{Script: `sh -c 'echo $$ > pid; while [ ! -e go ]; do sleep 0.02; done; echo late; echo late >&2; sleep 0.05; echo late; : > survived; exec sleep 600' & 
				while [ ! -s pid ]; do sleep 0.01; done; echo first`})
			require.Zero(t, r.ExitCode)
			require.Equal(t, "first\n", r.Stdout.String())
			require.True(t, b.alive("pid"))
			b.sh(": > go")
			b.await("survived") // writing to where nobody listens did not kill it
			require.True(t, b.alive("pid"))
			require.NoError(t, b.KillAll(t.Context()))
			b.gone("pid")
		},
		"a background child that never stops writing holds nothing up": func(t *testing.T, b *box) {
			r := b.exec(sandbox.Command{Script: "yes & echo $! > pid; exit 4", MaxOutput: 1000})
			require.Equal(t, 4, r.ExitCode)
			require.True(t, b.alive("pid"))
			require.NoError(t, b.KillAll(t.Context()))
			b.gone("pid")
		},
		"all the command itself wrote arrives, also with a background child": func(t *testing.T, b *box) {
			for range 5 {
				r := b.exec(sandbox.Command{Script: "sleep 600 & head -c 60000 /dev/zero; head -c 50000 /dev/zero >&2"})
				require.EqualValues(t, 60000, r.Stdout.Total)
				require.EqualValues(t, 50000, r.Stderr.Total)
			}
			require.NoError(t, b.KillAll(context.Background()))
		},
		"a later command speaks with a background process": func(t *testing.T, b *box) {
			b.said("mkfifo ask answer; sh -c 'while read q <ask; do echo \"got $q\" >answer; done' >/dev/null 2>&1 & echo $! > pid")
			require.Equal(t, "got one\n", b.said("echo one >ask; cat answer"))
			require.Equal(t, "got two\n", b.sh("echo two >ask; cat answer"))
		},
	})
}
