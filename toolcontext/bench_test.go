package toolcontext_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/toolcontext"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox/local"
	"github.com/hermes-env/hermes-env/toolcontext/tools"
)

// BenchmarkTransfers moves a file of 100 MB to and from a local sandbox.
func BenchmarkTransfers(b *testing.B) {
	provider, err := local.New(local.Config{BaseDir: b.TempDir()})
	require.NoError(b, err)
	registry, err := tools.NewRegistry(tools.Builtin()...)
	require.NoError(b, err)
	tc, err := toolcontext.New(toolcontext.Config{Provider: provider, Registry: registry})
	require.NoError(b, err)
	b.Cleanup(func() {
		require.NoError(b, tc.Cleanup(context.Background()))
		require.NoError(b, provider.Close(context.Background()))
	})
	require.NoError(b, tc.Open(b.Context()))
	const size = 100 << 20
	dir := filepath.Join(b.TempDir(), "dir")
	file := filepath.Join(dir, "file")
	require.NoError(b, os.MkdirAll(dir, 0o755))
	require.NoError(b, os.WriteFile(file, noise(size), 0o644))
	for _, c := range []struct {
		name string
		move func() (toolcontext.Transfer, error)
	}{
		{"upload a file", func() (toolcontext.Transfer, error) { return tc.UploadFile(b.Context(), file, "f") }},
		{"download a file", func() (toolcontext.Transfer, error) { return tc.DownloadFile(b.Context(), "f", file+"2") }},
		{"upload a directory", func() (toolcontext.Transfer, error) { return tc.UploadDir(b.Context(), dir, "d") }},
		{"download a directory", func() (toolcontext.Transfer, error) { return tc.DownloadDir(b.Context(), "d", dir+"2") }},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.SetBytes(size)
			for b.Loop() {
				_, err := c.move()
				require.NoError(b, err)
			}
		})
		require.NoError(b, os.RemoveAll(file+"2"))
	}
}
