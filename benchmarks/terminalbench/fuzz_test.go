package terminalbench

import (
	"archive/tar"
	"bytes"
	"io"
	"testing"

	"github.com/stretchr/testify/require"
)

func FuzzAStoredDiffIsReadOrRefused(f *testing.F) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	list := `[{"path":"/a","kind":"deleted"}]`
	require.NoError(f, w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: changesEntry, Size: int64(len(list))}))
	_, err := io.WriteString(w, list)
	require.NoError(f, err)
	require.NoError(f, w.Close())
	f.Add(b.Bytes())
	f.Add([]byte("no archive"))
	f.Add(b.Bytes()[:600])
	f.Fuzz(func(t *testing.T, data []byte) {
		changes, rest, err := readChanges(bytes.NewReader(data))
		if err != nil {
			return
		}
		require.NotNil(t, rest)
		require.LessOrEqual(t, len(changes), len(data))
	})
}
