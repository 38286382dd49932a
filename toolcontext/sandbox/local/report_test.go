package local_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox/local"
)

func TestReportCountsTheLivingAndTheDead(t *testing.T) {
	base := filepath.Join(t.TempDir(), "base")
	p, err := local.New(local.Config{BaseDir: base})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close(context.Background())) })
	r, err := p.Report()
	require.NoError(t, err)
	require.Equal(t, base, r.BaseDir)
	require.FileExists(t, r.Shell)
	require.Zero(t, r.Held+r.Abandoned)

	s, err := p.Create(t.Context(), sandbox.Spec{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close(context.Background())) })
	parts := strings.Split(s.Info().ID, "-")
	parts[0], parts[4] = "4194305", "dead" // beyond the largest process id
	require.NoError(t, os.Mkdir(filepath.Join(base, strings.Join(parts, "-")), 0o700))
	require.NoError(t, os.Mkdir(filepath.Join(base, "somebody's"), 0o700))
	r, err = p.Report()
	require.NoError(t, err)
	require.Equal(t, 1, r.Held)
	require.Equal(t, 1, r.Abandoned)
	n, err := p.Reap(t.Context())
	require.NoError(t, err)
	require.Equal(t, 1, n, "what is reported is what is reaped")
}
