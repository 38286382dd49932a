package docker_test

import (
	"context"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox/docker"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox/docker/dockertest"
)

// BenchmarkCommandsInTurns is BenchmarkCommands with ways that take turns: a round
// runs true so and so often in each of n containers at once, first through one way,
// then through the next.
func BenchmarkCommandsInTurns(b *testing.B) {
	p := newProvider(b, docker.Config{})
	boxes := make([]container, 32)
	for i := range boxes {
		boxes[i] = open(b, p, sandbox.Spec{})
	}
	ways := []struct {
		name  string
		times int // in each container and round
		run   func(container) error
	}{
		{"server", 40, func(s container) error {
			_, err := s.Exec(b.Context(), sandbox.Command{Args: []string{"true"}})
			return err
		}},
		{"shell", 20, func(s container) error {
			_, err := s.Exec(b.Context(), sandbox.Command{Script: "true", Session: true})
			return err
		}},
		{"engine-api", 1, func(s container) error {
			_, err := p.BareExec(b.Context(), s.Container(), "true")
			return err
		}},
		{"docker-exec", 1, func(s container) error { return exec.Command("docker", "exec", s.Container(), "true").Run() }},
	}
	for _, n := range []int{1, 8, 32} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			taken, total := make([][]time.Duration, len(ways)), make([]time.Duration, len(ways))
			for range b.N {
				for i, way := range ways {
					mine := make([][]time.Duration, n)
					var g errgroup.Group
					begun := time.Now()
					for k := range n {
						g.Go(func() error {
							for range way.times {
								start := time.Now()
								if err := way.run(boxes[k]); err != nil {
									return err
								}
								mine[k] = append(mine[k], time.Since(start))
							}
							return nil
						})
					}
					require.NoError(b, g.Wait(), way.name)
					total[i] += time.Since(begun)
					taken[i] = append(taken[i], slices.Concat(mine...)...)
				}
			}
			for i, way := range ways {
				b.ReportMetric(float64(len(taken[i]))/total[i].Seconds(), "commands/s-"+way.name)
				b.ReportMetric(median(taken[i]), "ms-median-"+way.name)
				b.ReportMetric(float64(taken[i][len(taken[i])*99/100].Microseconds())/1000, "ms-p99-"+way.name)
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

// BenchmarkLifeInTurns makes a container, runs true in it and removes it. The ways
// take turns, so that what else the machine does hits them alike.
func BenchmarkLifeInTurns(b *testing.B) {
	p := newProvider(b, docker.Config{})
	command := func(args ...string) (string, error) {
		out, err := exec.Command("docker", args...).Output()
		return strings.TrimSpace(string(out)), err
	}
	ways := []struct {
		name string
		run  func(first func()) error
	}{
		{"sandbox", func(first func()) error {
			s, err := p.Create(b.Context(), sandbox.Spec{})
			if err != nil {
				return err
			}
			if _, err := s.Exec(b.Context(), sandbox.Command{Args: []string{"true"}}); err != nil {
				return err
			}
			first()
			return s.Close(context.Background())
		}},
		{"engine-api", func(first func()) error { return p.BareRun(b.Context(), dockertest.Image, first) }},
		{"docker-run", func(first func()) error { // true is the container's own process
			name := "hermes-env-figures-" + strconv.Itoa(os.Getpid())
			if _, err := command("run", "--name", name, "--network", "none", "--entrypoint", "true", dockertest.Image); err != nil {
				return err
			}
			first()
			_, err := command("rm", "-f", name)
			return err
		}},
		{"docker-run-exec", func(first func()) error { // the container goes on
			id, err := command("run", "-d", "--network", "none", "--entrypoint", "sleep", dockertest.Image, "600")
			if err != nil {
				return err
			}
			if _, err := command("exec", id, "true"); err != nil {
				return err
			}
			first()
			_, err = command("rm", "-f", id)
			return err
		}},
	}
	first, removed := make([][]time.Duration, len(ways)), make([][]time.Duration, len(ways))
	for range b.N {
		for i, way := range ways {
			begun := time.Now()
			var then time.Time
			require.NoError(b, way.run(func() { then = time.Now() }), way.name)
			first[i], removed[i] = append(first[i], then.Sub(begun)), append(removed[i], time.Since(then))
		}
	}
	for i, way := range ways {
		b.ReportMetric(median(first[i]), "ms-first-"+way.name)
		b.ReportMetric(median(removed[i]), "ms-removal-"+way.name)
	}
	b.ReportMetric(0, "ns/op")
}

// median returns the middle of some times in milliseconds.
func median(times []time.Duration) float64 {
	slices.Sort(times)
	return float64(times[len(times)/2].Microseconds()) / 1000
}

// BenchmarkResidentMemory takes what the kernel counts as this process's memory with
// 200 open sandboxes, and the private memory of the servers inside.
func BenchmarkResidentMemory(b *testing.B) {
	const n = 200
	p := newProvider(b, docker.Config{})
	for range b.N {
		runtime.GC()
		before := status(b, "self", "VmRSS:")
		boxes := make([]container, n)
		var g errgroup.Group
		for i := range boxes {
			g.Go(func() error {
				s, err := p.Create(b.Context(), sandbox.Spec{})
				if err != nil {
					return err
				}
				boxes[i] = s.(container)
				_, err = s.Exec(b.Context(), sandbox.Command{Script: "true", Session: true})
				return err
			})
		}
		require.NoError(b, g.Wait())
		runtime.GC()
		after := status(b, "self", "VmRSS:")
		b.ReportMetric(after/1024, "MiB-resident")
		b.ReportMetric((after-before)/n, "KiB-resident/sandbox")
		var inside []float64
		for _, s := range boxes[:20] {
			inside = append(inside, status(b, dockertest.Command(b, "inspect", "-f", "{{.State.Pid}}", s.Container()), "RssAnon:"))
		}
		slices.Sort(inside)
		b.ReportMetric(inside[len(inside)/2], "KiB-private/server")
		g.SetLimit(8)
		for _, s := range boxes {
			g.Go(func() error { return s.Close(context.Background()) })
		}
		require.NoError(b, g.Wait())
	}
	b.ReportMetric(0, "ns/op")
}

// status returns KiB from a process's status file.
func status(b *testing.B, pid, field string) float64 {
	b.Helper()
	data, err := os.ReadFile("/proc/" + pid + "/status")
	require.NoError(b, err)
	_, after, ok := strings.Cut(string(data), field)
	require.True(b, ok)
	kib, err := strconv.ParseFloat(strings.Fields(after)[0], 64)
	require.NoError(b, err)
	return kib
}
