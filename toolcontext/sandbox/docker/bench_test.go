package docker_test

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox/docker"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox/docker/dockertest"
)

// BenchmarkCommands runs true in 1, 8 and 32 containers at once: through the server,
// through the bare exec call of the engine, and through the docker exec command line.
func BenchmarkCommands(b *testing.B) {
	p := newProvider(b, docker.Config{})
	boxes := make([]container, 32)
	for i := range boxes {
		boxes[i] = open(b, p, sandbox.Spec{})
	}
	ways := map[string]func(container) error{
		"server": func(s container) error {
			_, err := s.Exec(b.Context(), sandbox.Command{Args: []string{"true"}})
			return err
		},
		"server with a shell": func(s container) error {
			_, err := s.Exec(b.Context(), sandbox.Command{Script: "true", Session: true})
			return err
		},
		"engine API": func(s container) error {
			_, err := p.BareExec(b.Context(), s.Container(), "true")
			return err
		},
		"docker exec": func(s container) error { return exec.Command("docker", "exec", s.Container(), "true").Run() },
	}
	for _, name := range []string{"server", "server with a shell", "engine API", "docker exec"} {
		for _, n := range []int{1, 8, 32} {
			b.Run(fmt.Sprintf("%s/%d", name, n), func(b *testing.B) {
				var (
					wg    sync.WaitGroup
					mu    sync.Mutex
					taken []time.Duration
				)
				begun := time.Now()
				for i := range n {
					wg.Go(func() {
						var mine []time.Duration
						for range (b.N + n - 1 - i) / n {
							start := time.Now()
							if err := ways[name](boxes[i]); err != nil {
								b.Error(err)
								return
							}
							mine = append(mine, time.Since(start))
						}
						mu.Lock()
						defer mu.Unlock()
						taken = append(taken, mine...)
					})
				}
				wg.Wait()
				b.ReportMetric(float64(len(taken))/time.Since(begun).Seconds(), "commands/s")
				report(b, taken, "command")
			})
		}
	}
}

// report adds the median and the 99th percentile in milliseconds.
func report(b *testing.B, taken []time.Duration, what string) {
	slices.Sort(taken)
	if len(taken) == 0 {
		return
	}
	b.ReportMetric(float64(taken[len(taken)/2].Microseconds())/1000, "ms-median-"+what)
	b.ReportMetric(float64(taken[len(taken)*99/100].Microseconds())/1000, "ms-p99-"+what)
	b.ReportMetric(0, "ns/op")
}

// BenchmarkLife takes the time from asking for a container to the end of its first
// command, and that of its removal.
func BenchmarkLife(b *testing.B) {
	p := newProvider(b, docker.Config{})
	run := func(name string, one func(first func()) error) {
		b.Run(name, func(b *testing.B) {
			var first, removed []time.Duration
			for range b.N {
				begun := time.Now()
				var then time.Time
				require.NoError(b, one(func() { then = time.Now(); first = append(first, then.Sub(begun)) }))
				removed = append(removed, time.Since(then))
			}
			report(b, first, "first-command")
			report(b, removed, "removal")
		})
	}
	run("sandbox", func(first func()) error {
		s, err := p.Create(b.Context(), sandbox.Spec{})
		if err != nil {
			return err
		}
		if _, err := s.Exec(b.Context(), sandbox.Command{Args: []string{"true"}}); err != nil {
			return err
		}
		first()
		return s.Close(context.Background())
	})
	run("engine API", func(first func()) error { return p.BareRun(b.Context(), dockertest.Image, first) })
	run("docker run", func(first func()) error {
		id, err := exec.Command("docker", "run", "-d", "--network", "none", "--entrypoint", "sleep", dockertest.Image, "600").Output()
		if err != nil {
			return err
		}
		container := string(bytes.TrimSpace(id))
		if err := exec.Command("docker", "exec", container, "true").Run(); err != nil {
			return err
		}
		first()
		return exec.Command("docker", "rm", "-f", container).Run()
	})
}

// BenchmarkTransfers moves 100 MB in and out, against docker cp.
func BenchmarkTransfers(b *testing.B) {
	s := open(b, newProvider(b, docker.Config{}), sandbox.Spec{})
	const size = 100_000_000
	dir := b.TempDir()
	file := filepath.Join(dir, "big")
	require.NoError(b, os.WriteFile(file, bytes.Repeat([]byte("0123456789"), size/10), 0o644))
	run := func(name string, one func() error) {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(size)
			for range b.N {
				require.NoError(b, one())
			}
		})
	}
	run("up", func() error {
		r, w := io.Pipe()
		go func() { _ = w.CloseWithError(sandbox.WriteTar(b.Context(), w, file)) }()
		return s.Upload(b.Context(), r, "/work")
	})
	run("up with docker cp", func() error { return exec.Command("docker", "cp", file, s.Container()+":/work/big").Run() })
	run("down", func() error {
		r, err := s.Download(b.Context(), "/work/big")
		if err != nil {
			return err
		}
		defer r.Close()
		tr := tar.NewReader(r)
		if _, err := tr.Next(); err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, tr)
		return err
	})
	run("down with docker cp", func() error {
		return exec.Command("docker", "cp", s.Container()+":/work/big", filepath.Join(dir, "back")).Run()
	})
}
