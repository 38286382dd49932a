package docker_test

import (
	"archive/tar"
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox/docker"
)

// BenchmarkTransfersInTurns is BenchmarkTransfers with ways that take turns, so that
// what else the machine does hits them alike. The ratio is the median of those of
// each round: above 1 the sandbox is faster than docker cp.
func BenchmarkTransfersInTurns(b *testing.B) {
	const size = 100_000_000
	s := open(b, newProvider(b, docker.Config{}), sandbox.Spec{})
	dir := b.TempDir()
	file := filepath.Join(dir, "big")
	require.NoError(b, os.WriteFile(file, bytes.Repeat([]byte("0123456789"), size/10), 0o644))
	ways := []struct {
		name string
		run  func() error
	}{
		{"up", func() error {
			r, w := io.Pipe()
			go func() { _ = w.CloseWithError(sandbox.WriteTar(b.Context(), w, file)) }()
			return s.Upload(b.Context(), r, "/work")
		}},
		{"up-docker-cp", func() error { return exec.Command("docker", "cp", file, s.Container()+":/work/big").Run() }},
		{"down", func() error { // to a file, as docker cp
			r, err := s.Download(b.Context(), "/work/big")
			if err != nil {
				return err
			}
			defer r.Close()
			return sandbox.ExtractTar(b.Context(), r, filepath.Join(dir, "back"), sandbox.TarLimits{})
		}},
		{"down-docker-cp", func() error {
			return exec.Command("docker", "cp", s.Container()+":/work/big", filepath.Join(dir, "back", "big")).Run()
		}},
		{"down-discard", func() error {
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
		}},
	}
	taken := make([][]time.Duration, len(ways))
	for range b.N {
		for i, way := range ways {
			begun := time.Now()
			require.NoError(b, way.run(), way.name)
			taken[i] = append(taken[i], time.Since(begun))
		}
	}
	ratio := func(ours, theirs []time.Duration) float64 {
		var of []time.Duration // of a million
		for i := range ours {
			of = append(of, time.Duration(float64(theirs[i])/float64(ours[i])*1e6))
		}
		return median(of)
	}
	b.ReportMetric(ratio(taken[0], taken[1]), "up/docker-cp")
	b.ReportMetric(ratio(taken[2], taken[3]), "down/docker-cp")
	for i, way := range ways {
		b.ReportMetric(size/1e6/(median(taken[i])/1000), "MB/s-"+way.name)
	}
	b.ReportMetric(0, "ns/op")
}
