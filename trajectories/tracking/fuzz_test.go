package tracking

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// Whatever a crash, an editor or a copy left of the file, a session goes on after its
// whole lines and adds one that can be read.
func FuzzASessionGoesOnAfterAnyFile(f *testing.F) {
	for _, seed := range []string{"", "\n", "{\"_step\":3}\n", "{\"_step\":3}\n{\"_st", "{\"_step\":-1}\n", "{\"_step\":1e300}\n", "\x00\xff\n\n", "{\"_step\":{}}\n", "[]\n"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		path := filepath.Join(t.TempDir(), MetricsFile)
		require.NoError(t, os.WriteFile(path, content, 0o644))
		j, err := NewJSONL(filepath.Dir(path), nil)
		require.NoError(t, err)
		require.GreaterOrEqual(t, j.LastStep(), 0)
		require.NoError(t, j.Log(j.LastStep()+1, []Metric{{"a", 1}}, nil))
		require.NoError(t, j.Close())
		got, err := os.ReadFile(path)
		require.NoError(t, err)
		kept := content[:bytes.LastIndexByte(content, '\n')+1]
		require.True(t, bytes.HasPrefix(got, kept))
		require.True(t, json.Valid(got[len(kept):]), "%q", got[len(kept):])
	})
}
