package terminalbench

import (
	"archive/tar"
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"
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

func FuzzDamagedParquetIsAnError(f *testing.F) {
	f.Add([]byte("PAR1PAR1"))
	f.Add([]byte("PAR1\x15\x02\x19\x2c\x48\x04root\x15\x02\x00\x15\x0c\x25\x00\x18\x01a\x00\x16\x00\x19\x0c\x00\x1e\x00\x00\x00PAR1"))
	f.Fuzz(func(t *testing.T, data []byte) {
		name := filepath.Join(t.TempDir(), "x.parquet")
		require.NoError(t, os.WriteFile(name, data, 0o600))
		n := 0
		for row, err := range (rowFile{Path: "x.parquet", local: name}).rows(context.Background()) {
			if err != nil {
				return
			}
			require.True(t, gjson.ValidBytes(row))
			if n++; n > 1000 {
				return
			}
		}
	})
}
