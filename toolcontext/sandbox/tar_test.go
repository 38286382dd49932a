package sandbox_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
)

func pack(t testing.TB, headers ...tar.Header) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, h := range headers {
		require.NoError(t, w.WriteHeader(&h))
		_, err := w.Write(bytes.Repeat([]byte("x"), int(h.Size)))
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	return buf.Bytes()
}

func regular(name string, size int64) tar.Header {
	return tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: size}
}

func TestExtractTarKeepsItsLimits(t *testing.T) {
	three := pack(t, regular("a", 100), regular("b", 100), regular("c", 100))
	for name, c := range map[string]struct {
		limits sandbox.TarLimits
		left   []string // files there afterwards
	}{
		"bytes":   {sandbox.TarLimits{MaxBytes: 250}, []string{"a", "b"}},
		"entries": {sandbox.TarLimits{MaxEntries: 2}, []string{"a", "b"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			require.ErrorIs(t, sandbox.ExtractTar(t.Context(), bytes.NewReader(three), dir, c.limits), sandbox.ErrUnsafeArchive)
			files, err := filepath.Glob(filepath.Join(dir, "*"))
			require.NoError(t, err)
			require.Len(t, files, len(c.left))
		})
	}
	require.NoError(t, sandbox.ExtractTar(t.Context(), bytes.NewReader(three), t.TempDir(), sandbox.TarLimits{MaxBytes: 300, MaxEntries: 3}))
}

func TestExtractTarRefusesAFileThatClaimsMoreThanThereIsRoom(t *testing.T) {
	data := pack(t, regular("a", 10))
	// A header whose size is 8 EiB - 1 in base 256.
	copy(data[124:136], "\x80\x00\x00\x00\x7f\xff\xff\xff\xff\xff\xff\xff")
	sum := int64(0)
	copy(data[148:156], "        ")
	for _, b := range data[:512] {
		sum += int64(b)
	}
	copy(data[148:156], []byte{'0', '0' + byte(sum>>12&7), '0' + byte(sum>>9&7), '0' + byte(sum>>6&7), '0' + byte(sum>>3&7), '0' + byte(sum&7), 0, ' '})
	require.ErrorIs(t, sandbox.ExtractTar(t.Context(), bytes.NewReader(data), t.TempDir(), sandbox.TarLimits{}), sandbox.ErrUnsafeArchive)
}

func TestExtractTarCanLeaveUnsafeEntriesOut(t *testing.T) {
	data := pack(t, regular("a", 1),
		tar.Header{Typeflag: tar.TypeSymlink, Name: "python", Linkname: "/usr/bin/python3"},
		tar.Header{Typeflag: tar.TypeLink, Name: "hard", Linkname: "a"},
		tar.Header{Typeflag: tar.TypeFifo, Name: "pipe"}, regular("b", 1))
	skipped := map[string]error{}
	dir := t.TempDir()
	require.NoError(t, sandbox.ExtractTar(t.Context(), bytes.NewReader(data), dir, sandbox.TarLimits{
		Skip: func(name string, reason error) { skipped[name] = reason },
	}))
	require.Len(t, skipped, 3)
	require.ErrorContains(t, skipped["python"], "/usr/bin/python3")
	require.FileExists(t, filepath.Join(dir, "b"))
	// What would land outside is an error all the same.
	data = pack(t, regular("../b", 1))
	require.ErrorIs(t, sandbox.ExtractTar(t.Context(), bytes.NewReader(data), dir, sandbox.TarLimits{
		Skip: func(string, error) {},
	}), sandbox.ErrUnsafeArchive)
}

func TestExtractTarStopsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("enough")
	data := pack(t, regular("a", 10), regular("b", 10))
	r := io.MultiReader(bytes.NewReader(data[:1024]), readerFunc(func([]byte) (int, error) { cancel(why); return 0, nil }), bytes.NewReader(data[1024:]))
	require.ErrorIs(t, sandbox.ExtractTar(ctx, r, t.TempDir(), sandbox.TarLimits{}), why)
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func TestWhatIsPackedUnpacksTheSame(t *testing.T) {
	from := filepath.Join(t.TempDir(), "tree")
	require.NoError(t, os.MkdirAll(filepath.Join(from, "sub", "empty"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(from, "sub", "f"), []byte("content"), 0o640))
	require.NoError(t, os.WriteFile(filepath.Join(from, "none"), nil, 0o600))
	require.NoError(t, os.Symlink("../none", filepath.Join(from, "sub", "link")))
	require.NoError(t, os.Link(filepath.Join(from, "none"), filepath.Join(from, "hard")))
	require.NoError(t, syscall.Mkfifo(filepath.Join(from, "pipe"), 0o600))
	require.NoError(t, os.Chmod(filepath.Join(from, "sub", "empty"), 0o500))
	var buf bytes.Buffer
	require.NoError(t, sandbox.WriteTar(t.Context(), &buf, from))
	to := t.TempDir()
	require.NoError(t, sandbox.ExtractTar(t.Context(), &buf, to, sandbox.TarLimits{}))
	to = filepath.Join(to, "tree")
	seen := 0
	require.NoError(t, filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		require.NoError(t, err)
		rel, err := filepath.Rel(from, path)
		require.NoError(t, err)
		if d.Type()&fs.ModeNamedPipe != 0 {
			require.NoFileExists(t, filepath.Join(to, rel))
			return nil
		}
		seen++
		a, err := os.Lstat(path)
		require.NoError(t, err)
		b, err := os.Lstat(filepath.Join(to, rel))
		require.NoError(t, err)
		require.Equal(t, a.Mode(), b.Mode(), rel)
		if a.Mode().IsRegular() {
			require.Equal(t, a.Size(), b.Size(), rel)
			require.Equal(t, a.ModTime().Unix(), b.ModTime().Unix(), rel)
		}
		return nil
	}))
	require.Equal(t, 7, seen)
	require.NoError(t, os.Chmod(filepath.Join(to, "sub", "empty"), 0o700))
	require.NoError(t, os.Chmod(filepath.Join(from, "sub", "empty"), 0o700))
}

func TestWriteTarRefusesWhatIsNeitherFileNorDirectory(t *testing.T) {
	require.ErrorIs(t, sandbox.WriteTar(t.Context(), io.Discard, filepath.Join(t.TempDir(), "no")), fs.ErrNotExist)
	pipe := filepath.Join(t.TempDir(), "pipe")
	require.NoError(t, syscall.Mkfifo(pipe, 0o600))
	require.ErrorContains(t, sandbox.WriteTar(t.Context(), io.Discard, pipe), "neither")
}

// FuzzExtractTar unpacks anything next to a file that must not change.
func FuzzExtractTar(f *testing.F) {
	f.Add(pack(f, regular("a/b/c", 10), tar.Header{Typeflag: tar.TypeDir, Name: "d/", Mode: 0o555}))
	f.Add(pack(f, tar.Header{Typeflag: tar.TypeSymlink, Name: "l", Linkname: ".."}, regular("l/canary", 3)))
	f.Add(pack(f, tar.Header{Typeflag: tar.TypeSymlink, Name: "a/y", Linkname: "."}, tar.Header{Typeflag: tar.TypeSymlink, Name: "z", Linkname: "a/y/../.."}, regular("z/canary", 3)))
	f.Add(pack(f, regular("../canary", 3)))
	f.Add(pack(f, tar.Header{Typeflag: tar.TypeLink, Name: "h", Linkname: "../canary"}, regular("h", 3)))
	f.Add([]byte("no archive"))
	f.Fuzz(func(t *testing.T, data []byte) {
		around := t.TempDir()
		canary := filepath.Join(around, "canary")
		require.NoError(t, os.WriteFile(canary, []byte("alive"), 0o600))
		target := filepath.Join(around, "target")
		// Whatever comes of it, the limits bound it.
		_ = sandbox.ExtractTar(context.Background(), bytes.NewReader(data), target, sandbox.TarLimits{
			MaxBytes: 1 << 20, MaxEntries: 100, Skip: func(string, error) {},
		})
		got, err := os.ReadFile(canary)
		require.NoError(t, err)
		require.Equal(t, "alive", string(got))
		entries, err := os.ReadDir(around)
		require.NoError(t, err)
		require.LessOrEqual(t, len(entries), 2)
		// No link in it leads out.
		_ = filepath.WalkDir(target, func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.Type()&fs.ModeSymlink != 0 {
				if real, err := filepath.EvalSymlinks(path); err == nil {
					if real != target && !strings.HasPrefix(real, target+string(filepath.Separator)) {
						t.Fatalf("%s leads to %s", path, real)
					}
				}
			}
			if err == nil && d.IsDir() {
				_ = os.Chmod(path, 0o700) // so that the test can clean up
			}
			return nil
		})
	})
}
