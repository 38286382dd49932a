package docker_test

import (
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox/docker"
)

// BenchmarkCommandCost takes the processor time of one command in 1 and 32 containers at
// once: of everything in the containers, and of this process. Unlike commands per second
// it says the same on a busy machine. It needs control groups of version 1.
func BenchmarkCommandCost(b *testing.B) {
	p := newProvider(b, docker.Config{})
	boxes := make([]container, 32)
	for i := range boxes {
		boxes[i] = open(b, p, sandbox.Spec{})
	}
	if _, err := os.Stat(usageFile(boxes[0])); err != nil {
		b.Skipf("can't read what a container has used: %v", err)
	}
	for _, way := range []struct {
		name    string
		command sandbox.Command
	}{
		{"program", sandbox.Command{Args: []string{"true"}}},
		{"script", sandbox.Command{Script: "true"}},
		{"shell", sandbox.Command{Script: "true", Session: true}},
	} {
		for _, n := range []int{1, 32} {
			b.Run(way.name+"/"+strconv.Itoa(n), func(b *testing.B) {
				inside, own := used(b, boxes), ownTime(b)
				var g errgroup.Group
				for _, s := range boxes[:n] {
					g.Go(func() error {
						for range b.N {
							if _, err := s.Exec(b.Context(), way.command); err != nil {
								return err
							}
						}
						return nil
					})
				}
				require.NoError(b, g.Wait())
				commands := float64(n * b.N)
				b.ReportMetric(float64((used(b, boxes)-inside).Microseconds())/commands, "us-container/command")
				b.ReportMetric(float64((ownTime(b)-own).Microseconds())/commands, "us-harness/command")
				b.ReportMetric(commands/b.Elapsed().Seconds(), "commands/s")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}

func usageFile(s container) string {
	return "/sys/fs/cgroup/cpuacct/docker/" + s.Container() + "/cpuacct.usage"
}

// used returns the processor time of containers.
func used(b *testing.B, boxes []container) (total time.Duration) {
	b.Helper()
	for _, s := range boxes {
		data, err := os.ReadFile(usageFile(s))
		require.NoError(b, err)
		n, err := strconv.ParseInt(strings.TrimSpace(string(data)), 10, 64)
		require.NoError(b, err)
		total += time.Duration(n)
	}
	return total
}

// ownTime returns the processor time of this process.
func ownTime(b *testing.B) time.Duration {
	b.Helper()
	var u unix.Rusage
	require.NoError(b, unix.Getrusage(unix.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
