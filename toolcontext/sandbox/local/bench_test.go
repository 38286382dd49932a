package local_test

import (
	"context"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox/local"
)

// BenchmarkExec compares a command in a sandbox with the bare ways to run one.
func BenchmarkExec(b *testing.B) {
	sh := local.Config{Shell: "sh"}
	for _, c := range []struct {
		name    string
		config  local.Config
		command sandbox.Command
	}{
		{"args", local.Config{}, sandbox.Command{Args: []string{"true"}}},
		{"args without groups", local.Config{NoCgroups: true}, sandbox.Command{Args: []string{"true"}}},
		{"sh script", sh, sandbox.Command{Script: "true"}},
		{"sh session", sh, sandbox.Command{Script: "true", Session: true}},
		{"bash script", local.Config{}, sandbox.Command{Script: "true"}},
		{"bash session", local.Config{}, sandbox.Command{Script: "true", Session: true}},
	} {
		b.Run(c.name, func(b *testing.B) {
			c.config.BaseDir = b.TempDir()
			p, err := local.New(c.config)
			require.NoError(b, err)
			s, err := p.Create(b.Context(), sandbox.Spec{})
			require.NoError(b, err)
			defer reportCPU(b)()
			for b.Loop() {
				if r, err := s.Exec(b.Context(), c.command); err != nil || r.ExitCode != 0 {
					b.Fatal(r, err)
				}
			}
			require.NoError(b, p.Close(context.Background()))
		})
	}
	for _, args := range [][]string{{"true"}, {"sh", "-c", "true"}, {"bash", "-c", "true"}} {
		b.Run("bare "+args[0], func(b *testing.B) {
			defer reportCPU(b)()
			for b.Loop() {
				if _, err := exec.Command(args[0], args[1:]...).Output(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkLife measures a sandbox from creation to removal, with one command.
func BenchmarkLife(b *testing.B) {
	p, err := local.New(local.Config{BaseDir: b.TempDir()})
	require.NoError(b, err)
	defer reportCPU(b)()
	for b.Loop() {
		s, err := p.Create(b.Context(), sandbox.Spec{})
		require.NoError(b, err)
		_, err = s.Exec(b.Context(), sandbox.Command{Args: []string{"true"}})
		require.NoError(b, err)
		require.NoError(b, s.Close(b.Context()))
	}
	require.NoError(b, p.Close(context.Background()))
}

// reportCPU reports the processor time per iteration of this process and the
// children it has waited for: unlike the wall clock, it can be compared on a busy
// machine.
func reportCPU(b *testing.B) func() {
	used := func() time.Duration {
		var total time.Duration
		for _, who := range []int{unix.RUSAGE_SELF, unix.RUSAGE_CHILDREN} {
			var u unix.Rusage
			require.NoError(b, unix.Getrusage(who, &u))
			total += time.Duration(u.Utime.Nano() + u.Stime.Nano())
		}
		return total
	}
	before := used()
	return func() { b.ReportMetric(float64((used()-before).Microseconds())/float64(b.N), "cpu-µs/op") }
}
