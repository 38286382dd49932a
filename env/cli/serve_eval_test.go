package cli

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestEvaluationDir_GoesOnWhereAnEvaluationWasBegun(t *testing.T) {
	run := t.TempDir()
	dir, begun := evaluationDir(run, 20)
	require.Equal(t, filepath.Join(run, "evaluations", "step-20"), dir)
	require.False(t, begun)
	earlier := filepath.Join(run, "eval-step-20")
	require.NoError(t, os.MkdirAll(earlier, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(earlier, "run.json"), nil, 0o644))
	dir, begun = evaluationDir(run, 20)
	require.Equal(t, earlier, dir, "one of an earlier version")
	require.True(t, begun)
}
