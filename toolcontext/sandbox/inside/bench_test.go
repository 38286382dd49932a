package inside_test

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"os/exec"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
)

// BenchmarkExec runs "true" at several degrees of concurrency, each request on one
// stream, against what starting a process costs this program by itself.
func BenchmarkExec(b *testing.B) {
	s := create(b, kind{})
	ways := map[string]func() error{
		"protocol": func() error {
			r, err := s.Exec(b.Context(), sandbox.Command{Args: []string{"true"}})
			if err == nil && r.ExitCode != 0 {
				err = fmt.Errorf("exit code %d", r.ExitCode)
			}
			return err
		},
		"ping": func() error { return s.Ping(b.Context()) },
		"bare": func() error { _, err := exec.Command("true").Output(); return err },
	}
	for _, way := range []string{"ping", "bare", "protocol"} {
		for _, n := range []int{1, 8, 32} {
			b.Run(fmt.Sprintf("%s/%d", way, n), func(b *testing.B) {
				start := time.Now()
				var next atomic.Int64
				var wg sync.WaitGroup
				for range n {
					wg.Go(func() {
						for next.Add(1) <= int64(b.N) {
							if err := ways[way](); err != nil {
								b.Error(err)
								return
							}
						}
					})
				}
				wg.Wait()
				b.ReportMetric(float64(b.N)/time.Since(start).Seconds(), "commands/s")
			})
		}
	}
}

// BenchmarkTransfer moves 64 MiB in one file as a tar stream.
func BenchmarkTransfer(b *testing.B) {
	s := create(b, kind{})
	const size = 64 << 20
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	require.NoError(b, w.WriteHeader(&tar.Header{Name: "file", Mode: 0o644, Size: size}))
	_, err := w.Write(make([]byte, size))
	require.NoError(b, err)
	require.NoError(b, w.Close())
	b.Run("up", func(b *testing.B) {
		b.SetBytes(size)
		for b.Loop() {
			require.NoError(b, s.Upload(b.Context(), bytes.NewReader(archive.Bytes()), "."))
		}
	})
	b.Run("down", func(b *testing.B) {
		require.NoError(b, s.Upload(b.Context(), bytes.NewReader(archive.Bytes()), "."))
		b.SetBytes(size)
		for b.Loop() {
			r, err := s.Download(b.Context(), "file")
			require.NoError(b, err)
			_, err = io.Copy(io.Discard, r)
			require.NoError(b, err)
			require.NoError(b, r.Close())
		}
	})
}
