package terminalbench

import (
	"archive/tar"
	"bytes"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
)

func TestFindSetupFailure_ReturnsTheText(t *testing.T) {
	_, phrase := findSetupFailure("1c1\n< x: uv: not found\n---\n> K\n")
	require.Equal(t, ": uv: not found", phrase)
	_, phrase = findSetupFailure("answer:\ncurl: (6) Could not resolve host: astral.sh\n")
	require.Equal(t, "curl: (6) Could not resolve host", phrase)
}

func TestFileWith_NamesTheFileOfAText(t *testing.T) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, f := range [][2]string{{"app/large", strings.Repeat("x", 200_000)}, {"app/answer", strings.Repeat("y", 65_530) + ": uv: not found\n"}} {
		require.NoError(t, w.WriteHeader(&tar.Header{Name: f[0], Typeflag: tar.TypeReg, Size: int64(len(f[1])), Mode: 0o644}))
		_, err := w.Write([]byte(f[1]))
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	for text, want := range map[string]string{": uv: not found": "/app/answer", "curl": ""} {
		got, err := fileWith(bytes.NewReader(b.Bytes()), text)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	got, err := fileWith(bytes.NewReader(b.Bytes()[:100_000]), "curl")
	require.NoError(t, err)
	require.Empty(t, got)
	found, err := holds(iotest.OneByteReader(strings.NewReader("abcabd")), []byte("abd"))
	require.NoError(t, err)
	require.True(t, found)
}
