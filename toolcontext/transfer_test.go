package toolcontext_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/toolcontext"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
	"github.com/hermes-env/hermes-env/toolcontext/tools"
)

// noise returns bytes that no text channel would survive.
func noise(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{byte(n)}).Read(b) // never fails
	return b
}

func sh(t *testing.T, tc *toolcontext.Context, script string) string {
	t.Helper()
	r, err := tc.Terminal(context.Background(), script, 0)
	require.NoError(t, err)
	require.Zero(t, r.ExitCode, "%s: %s", script, r.Output)
	return r.Output
}

func write(t *testing.T, name string, content []byte, mode fs.FileMode) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o755))
	require.NoError(t, os.WriteFile(name, content, 0o600))
	require.NoError(t, os.Chmod(name, mode))
}

func TestAFileGoesInAndOutUnchangedWhateverItsNameSizeAndMode(t *testing.T) {
	everywhere(t, func(t *testing.T, tc *toolcontext.Context) {
		ctx, here := t.Context(), t.TempDir()
		sh(t, tc, "mkdir -p sub && cd sub")
		for i, c := range []struct {
			remote string
			size   int
			mode   fs.FileMode
		}{
			{"plain", 10, 0o644}, {"empty", 0, 0o600}, {"new/dirs/made", 1, 0o751}, {"~/in home", 512, 0o444},
			{"a 'quoted' \"name\" $(touch ran) `x`; rm -rf *", 100, 0o755}, {"-rf", 100, 0o644}, {"line\nbreak", 100, 0o644},
			{"日本 é", 1023, 0o644}, {"../up", 100, 0o640}, {"./here", 100, 0o644}, {"a/~", 100, 0o644}, {"big", 9_000_001, 0o700},
			{strings.Repeat("long/", 60) + strings.Repeat("n", 200), 100, 0o644},
		} {
			from, to := filepath.Join(here, fmt.Sprint("from", i)), filepath.Join(here, fmt.Sprint("to", i), "deep", "file")
			write(t, from, noise(c.size), c.mode)
			stamp := time.Unix(1_600_000_000, 0)
			require.NoError(t, os.Chtimes(from, stamp, stamp))
			want := toolcontext.Transfer{Files: 1, Bytes: int64(c.size)}
			moved, err := tc.UploadFile(ctx, from, c.remote)
			require.NoError(t, err, c.remote)
			require.Equal(t, want, moved)
			moved, err = tc.DownloadFile(ctx, c.remote, to)
			require.NoError(t, err, c.remote)
			require.Equal(t, want, moved)
			got, err := os.ReadFile(to)
			require.NoError(t, err)
			require.True(t, bytes.Equal(noise(c.size), got), c.remote)
			info, err := os.Stat(to)
			require.NoError(t, err)
			require.Equal(t, c.mode, info.Mode(), c.remote)
			require.True(t, stamp.Equal(info.ModTime()), c.remote)
		}
		require.Equal(t, "done", sh(t, tc, "[ -f ../up ] && [ -f plain ] && [ ! -e ran ] && [ -f ~/in\\ home ] && echo done"))
		require.NoError(t, tc.Seal(ctx))
		_, err := tc.DownloadFile(ctx, "sub/plain", filepath.Join(here, "sealed"))
		require.NoError(t, err, "after Seal relative paths start at the sandbox's own directory")
		_, err = tc.DownloadFile(ctx, "plain", filepath.Join(here, "sealed"))
		require.ErrorIs(t, err, fs.ErrNotExist)
	})
}

// tree describes everything below a directory.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	require.NoError(t, filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		require.NoError(t, err)
		rel, err := filepath.Rel(dir, name)
		require.NoError(t, err)
		if rel == "." {
			return nil
		}
		info, err := d.Info()
		require.NoError(t, err)
		text := info.Mode().String()
		switch {
		case info.Mode().IsRegular():
			content, err := os.ReadFile(name)
			require.NoError(t, err)
			text += " " + string(content)
		case info.Mode()&fs.ModeSymlink != 0:
			target, err := os.Readlink(name)
			require.NoError(t, err)
			text += " " + target
		}
		found[rel] = text
		return nil
	}))
	return found
}

func TestADirectoryGoesInAndOutUnchanged(t *testing.T) {
	everywhere(t, func(t *testing.T, tc *toolcontext.Context) {
		ctx, here := t.Context(), t.TempDir()
		from := filepath.Join(here, "from")
		write(t, filepath.Join(from, "a"), noise(100_000), 0o640)
		write(t, filepath.Join(from, "none"), nil, 0o600)
		write(t, filepath.Join(from, "bin", "run me.sh"), []byte("#!/bin/sh\n"), 0o755)
		require.NoError(t, os.MkdirAll(filepath.Join(from, "empty", "deeper"), 0o750))
		require.NoError(t, os.Symlink("../a", filepath.Join(from, "bin", "link")))
		want := toolcontext.Transfer{Files: 3, Bytes: 100_010}
		for _, remote := range []string{"new place/it's", "~/x", "."} {
			moved, err := tc.UploadDir(ctx, from, remote)
			require.NoError(t, err)
			require.Equal(t, want, moved)
			to := filepath.Join(here, "to", remote)
			moved, err = tc.DownloadDir(ctx, remote, to)
			require.NoError(t, err)
			if remote != "." {
				require.Equal(t, want, moved)
				require.Equal(t, tree(t, from), tree(t, to))
			}
			require.Equal(t, tree(t, from)["a"], tree(t, to)["a"])
		}
		require.NoError(t, syscall.Mkfifo(filepath.Join(from, "pipe"), 0o600))
		moved, err := tc.UploadDir(ctx, from+"/", "again")
		require.NoError(t, err)
		require.Equal(t, want, moved)

		none := filepath.Join(here, "none")
		require.NoError(t, os.Mkdir(none, 0o755))
		moved, err = tc.UploadDir(ctx, none, "nothing")
		require.NoError(t, err)
		require.Zero(t, moved)
		moved, err = tc.DownloadDir(ctx, "nothing/", filepath.Join(here, "nothing"))
		require.NoError(t, err)
		require.Zero(t, moved)
		require.DirExists(t, filepath.Join(here, "nothing"))

		sh(t, tc, "mkdir -p open && chmod 1777 open")
		_, err = tc.UploadDir(ctx, from, "open")
		require.NoError(t, err)
		require.Equal(t, "drwxrwxrwt", strings.Fields(sh(t, tc, "ls -ld open"))[0], "a directory that was there keeps its mode")
	})
}

func TestLinksInTheSandboxLeadNoDownloadOut(t *testing.T) {
	everywhere(t, func(t *testing.T, tc *toolcontext.Context) {
		ctx, here := t.Context(), t.TempDir()
		sh(t, tc, `mkdir -p d/in && echo ok > d/in/f && ln -s /etc/passwd d/abs && ln -s ../../.. d/in/up && ln -s in/f d/good && ln -s d/in dlink
			ln -s loop loop && ln d/in/f d/hard && mkfifo d/pipe && ln -s in d/indir`)
		outside := filepath.Join(here, "outside")
		write(t, filepath.Join(outside, "f"), []byte("canary"), 0o644)
		to := filepath.Join(here, "to")
		require.NoError(t, os.MkdirAll(to, 0o755))
		require.NoError(t, os.Symlink(outside, filepath.Join(to, "in")))
		_, err := tc.DownloadDir(ctx, "d", to)
		require.Error(t, err, "what is in the way of a directory is not written through")
		require.Equal(t, map[string]string{"f": "-rw-r--r-- canary"}, tree(t, outside))

		to = filepath.Join(here, "clean")
		moved, err := tc.DownloadDir(ctx, "d", to)
		require.NoError(t, err)
		require.Equal(t, 2, moved.Files)
		require.Equal(t, 2, moved.SkippedTotal)
		require.ElementsMatch(t, []string{"abs", "in/up"}, []string{moved.Skipped[0].Name, moved.Skipped[1].Name})
		got := tree(t, to)
		require.Equal(t, "-rw-r--r-- ok\n", got["hard"])
		require.Contains(t, got["good"], "in/f")
		require.Len(t, got, 5)
		moved, err = tc.DownloadDir(ctx, "dlink", filepath.Join(here, "through"))
		require.NoError(t, err, "the path itself may be a link")
		require.Equal(t, 1, moved.Files)

		write(t, filepath.Join(here, "victim"), []byte("canary"), 0o644)
		require.NoError(t, os.Symlink("victim", filepath.Join(here, "link")))
		_, err = tc.DownloadFile(ctx, "d/good", filepath.Join(here, "link"))
		require.NoError(t, err)
		require.Equal(t, "-rw-r--r-- ok\n", tree(t, here)["link"], "a link is replaced and not written through")
		require.Equal(t, "-rw-r--r-- canary", tree(t, here)["victim"])
	})
}

func TestTransfersSayWhatIsWrong(t *testing.T) {
	everywhere(t, func(t *testing.T, tc *toolcontext.Context) {
		ctx, here := t.Context(), t.TempDir()
		file, dir, pipe := filepath.Join(here, "file"), filepath.Join(here, "dir"), filepath.Join(here, "pipe")
		write(t, file, []byte("x"), 0o644)
		require.NoError(t, os.Mkdir(dir, 0o755))
		require.NoError(t, syscall.Mkfifo(pipe, 0o600))
		require.NoError(t, os.Mkdir(filepath.Join(here, "bad"), 0o755))
		require.NoError(t, os.Symlink("/etc", filepath.Join(here, "bad", "out")))
		sh(t, tc, "mkdir rdir && echo x > rfile && mkfifo rpipe")
		for name, c := range map[string]struct {
			call func(context.Context, string, string) (toolcontext.Transfer, error)
			a, b string
			is   error
			text string
		}{
			"upload of nothing":             {tc.UploadFile, file + "?", "x", fs.ErrNotExist, file + "?"},
			"upload of a directory":         {tc.UploadFile, dir, "x", toolcontext.ErrNotRegular, dir},
			"upload of a pipe":              {tc.UploadFile, pipe, "x", toolcontext.ErrNotRegular, pipe},
			"upload to a directory":         {tc.UploadFile, file, "rdir", nil, "in the way"},
			"upload to a directory's name":  {tc.UploadFile, file, "rdir/", nil, "name the file"},
			"upload to the home":            {tc.UploadFile, file, "~", nil, "name the file"},
			"upload below a file":           {tc.UploadFile, file, "rfile/x", nil, "rfile"},
			"upload to a NUL":               {tc.UploadFile, file, "a\x00/b", nil, "NUL"},
			"directory upload of nothing":   {tc.UploadDir, dir + "?", "x", fs.ErrNotExist, dir + "?"},
			"directory upload of a file":    {tc.UploadDir, file, "x", toolcontext.ErrNotDirectory, file},
			"directory upload over a file":  {tc.UploadDir, dir, "rfile", nil, "rfile"},
			"directory upload with a link":  {tc.UploadDir, filepath.Join(here, "bad"), "x", sandbox.ErrUnsafeArchive, "out"},
			"download of nothing":           {tc.DownloadFile, "rnone", file, fs.ErrNotExist, "rnone"},
			"download below a file":         {tc.DownloadFile, "rfile/x", file, fs.ErrNotExist, "rfile/x"},
			"download of a directory":       {tc.DownloadFile, "rdir", file, toolcontext.ErrNotRegular, "rdir"},
			"download of a pipe":            {tc.DownloadFile, "rpipe", file, toolcontext.ErrNotRegular, "rpipe"},
			"download over a directory":     {tc.DownloadFile, "rfile", dir, nil, "name the file"},
			"download below a local file":   {tc.DownloadFile, "rfile", file + "/x", syscall.ENOTDIR, file},
			"directory download of nothing": {tc.DownloadDir, "rnone", dir, fs.ErrNotExist, "rnone"},
			"directory download of a file":  {tc.DownloadDir, "rfile", dir, toolcontext.ErrNotDirectory, "rfile"},
			"directory download of a pipe":  {tc.DownloadDir, "rpipe", dir, toolcontext.ErrNotDirectory, "rpipe"},
			"directory download to a file":  {tc.DownloadDir, "rdir", file, syscall.ENOTDIR, file},
		} {
			moved, err := c.call(ctx, c.a, c.b)
			require.Error(t, err, name)
			if c.is != nil {
				require.ErrorIs(t, err, c.is, name)
			}
			require.ErrorContains(t, err, c.text, name)
			require.False(t, toolcontext.IsInfrastructure(err), "%s: %v", name, err)
			require.Zero(t, moved, name)
		}
		content, err := os.ReadFile(file)
		require.NoError(t, err)
		require.Equal(t, "x", string(content), "a download that failed leaves what was there")

		require.NoError(t, tc.Cleanup(ctx))
		for name, call := range map[string]func() (toolcontext.Transfer, error){
			"upload":             func() (toolcontext.Transfer, error) { return tc.UploadFile(ctx, file, "/x") },
			"directory upload":   func() (toolcontext.Transfer, error) { return tc.UploadDir(ctx, dir, "/x") },
			"download":           func() (toolcontext.Transfer, error) { return tc.DownloadFile(ctx, "/x", file) },
			"directory download": func() (toolcontext.Transfer, error) { return tc.DownloadDir(ctx, "/x", dir) },
		} {
			_, err := call()
			require.True(t, toolcontext.IsInfrastructure(err), name)
			require.ErrorIs(t, err, sandbox.ErrClosed, name)
		}
	})
}

func TestTransfersEndWithTheirContext(t *testing.T) {
	everywhere(t, func(t *testing.T, tc *toolcontext.Context) {
		here := t.TempDir()
		large := filepath.Join(here, "d", "large")
		write(t, large, nil, 0o644)
		require.NoError(t, os.Truncate(large, 4<<30)) // takes no room
		sh(t, tc, "mkdir d && truncate -s 2000M d/large")
		why := errors.New("verification took too long")
		for name, call := range map[string]func(context.Context) (toolcontext.Transfer, error){
			"upload": func(ctx context.Context) (toolcontext.Transfer, error) { return tc.UploadFile(ctx, large, "up") },
			"directory upload": func(ctx context.Context) (toolcontext.Transfer, error) {
				return tc.UploadDir(ctx, filepath.Dir(large), "up")
			},
		} {
			ctx, cancel := context.WithTimeoutCause(t.Context(), 50*time.Millisecond, why)
			_, err := call(ctx)
			require.ErrorIs(t, err, why, name)
			require.False(t, toolcontext.IsInfrastructure(err), name)
			cancel()
			sh(t, tc, "rm -rf up")
		}
		for name, call := range map[string]func(context.Context) (toolcontext.Transfer, error){
			"download": func(ctx context.Context) (toolcontext.Transfer, error) {
				return tc.DownloadFile(ctx, "d/large", filepath.Join(here, "file"))
			},
			"directory download": func(ctx context.Context) (toolcontext.Transfer, error) {
				return tc.DownloadDir(ctx, "d", filepath.Join(here, "dir"))
			},
		} {
			ctx, cancel := context.WithTimeoutCause(t.Context(), 50*time.Millisecond, why)
			_, err := call(ctx)
			require.ErrorIs(t, err, why, name)
			require.False(t, toolcontext.IsInfrastructure(err), name)
			cancel()
		}
		names, err := filepath.Glob(filepath.Join(here, ".hermes*"))
		require.NoError(t, err)
		require.Empty(t, names, "nothing half done stays")
	})
}

func TestAFileThatTakesNoRoomThereCannotFillTheDiskHere(t *testing.T) {
	registry, err := tools.NewRegistry(tools.Builtin()...)
	require.NoError(t, err)
	tc, err := toolcontext.New(toolcontext.Config{Provider: newProvider(t), Registry: registry, MaxDownloadBytes: 1 << 20})
	require.NoError(t, err)
	defer func() { require.NoError(t, tc.Cleanup(context.Background())) }()
	here := t.TempDir()
	sh(t, tc, "mkdir d && truncate -s 1000G d/large")
	_, err = tc.DownloadFile(t.Context(), "d/large", filepath.Join(here, "file"))
	require.ErrorContains(t, err, "more than the limit")
	require.False(t, toolcontext.IsInfrastructure(err))
	_, err = tc.DownloadDir(t.Context(), "d", filepath.Join(here, "dir"))
	require.ErrorIs(t, err, sandbox.ErrUnsafeArchive)
	require.Empty(t, tree(t, here)["file"])
	sh(t, tc, "truncate -s 1M d/large")
	moved, err := tc.DownloadDir(t.Context(), "d", filepath.Join(here, "dir"))
	require.NoError(t, err)
	require.EqualValues(t, 1<<20, moved.Bytes)
}

func TestTransfersNeedLittleMemory(t *testing.T) {
	tc, here := newContext(t, newProvider(t)), t.TempDir()
	const size = 64 << 20
	large := filepath.Join(here, "d", "large")
	write(t, large, nil, 0o644)
	require.NoError(t, os.Truncate(large, size))
	require.NoError(t, tc.Open(t.Context()))
	allocated := func() uint64 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.TotalAlloc
	}
	before := allocated()
	for _, call := range []func() (toolcontext.Transfer, error){
		func() (toolcontext.Transfer, error) { return tc.UploadFile(t.Context(), large, "f") },
		func() (toolcontext.Transfer, error) { return tc.UploadDir(t.Context(), filepath.Dir(large), "d") },
		func() (toolcontext.Transfer, error) { return tc.DownloadFile(t.Context(), "f", large+"2") },
		func() (toolcontext.Transfer, error) {
			return tc.DownloadDir(t.Context(), "d", filepath.Join(here, "e"))
		},
	} {
		moved, err := call()
		require.NoError(t, err)
		require.Equal(t, toolcontext.Transfer{Files: 1, Bytes: size}, moved)
	}
	require.Less(t, allocated()-before, uint64(16<<20), "bytes allocated for moving %d", 4*size)
}

// hostile is a sandbox that hands out any bytes as an archive.
type hostile struct {
	sandbox.Provider
	archive func() io.Reader
}

func (hostile) Name() string { return "hostile" }

func (h hostile) Create(context.Context, sandbox.Spec) (sandbox.Sandbox, error) {
	return hostileBox{archive: h.archive}, nil
}

type hostileBox struct {
	sandbox.Sandbox
	archive func() io.Reader
}

func (hostileBox) Info() sandbox.Info { return sandbox.Info{Dir: "/w", Home: "/h", TempDir: "/tmp"} }

func (h hostileBox) Download(context.Context, string) (io.ReadCloser, error) {
	return io.NopCloser(h.archive()), nil
}

func (hostileBox) Exec(context.Context, sandbox.Command) (sandbox.Result, error) {
	return sandbox.Result{Stdout: sandbox.Output{Head: []byte("directory\n"), Total: 10}}, nil
}

func (hostileBox) Upload(_ context.Context, r io.Reader, _ string) error {
	_, err := io.CopyN(io.Discard, r, 100)
	return errors.Join(err, fmt.Errorf("connection reset: %w", sandbox.ErrLost))
}

func newHostile(t *testing.T, archive func() io.Reader) *toolcontext.Context {
	t.Helper()
	registry, err := tools.NewRegistry(tools.Builtin()...)
	require.NoError(t, err)
	tc, err := toolcontext.New(toolcontext.Config{Provider: hostile{archive: archive}, Registry: registry, MaxDownloadBytes: 1 << 20})
	require.NoError(t, err)
	return tc
}

func pack(t testing.TB, headers ...tar.Header) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range headers {
		if h.Mode == 0 {
			h.Mode = 0o755
		}
		require.NoError(t, w.WriteHeader(&h))
		_, err := w.Write(bytes.Repeat([]byte("x"), int(h.Size)))
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	return b.Bytes()
}

func folder(name string) tar.Header { return tar.Header{Typeflag: tar.TypeDir, Name: name} }
func regular(name string) tar.Header {
	return tar.Header{Typeflag: tar.TypeReg, Name: name, Size: 3}
}
func link(name, target string) tar.Header {
	return tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: target}
}

// attacks are archives that try to write outside.
func attacks(t testing.TB) map[string][]byte {
	return map[string][]byte{
		"a name that goes up":             pack(t, folder("d/"), regular("d/../../canary")),
		"a name that goes up at once":     pack(t, folder("d/"), regular("d/../canary")),
		"an absolute name":                pack(t, folder("d/"), regular("/canary")),
		"an absolute name below":          pack(t, folder("d/"), regular("d//canary")),
		"another directory":               pack(t, folder("d/"), regular("e/canary")),
		"a directory that goes up":        pack(t, folder("../"), regular("../../canary")),
		"a file through a link":           pack(t, folder("d/"), link("d/l", ".."), regular("d/l/canary")),
		"a file through an absolute link": pack(t, folder("d/"), link("d/l", "/tmp"), regular("d/l/hermes-env-canary")),
		"a file through two links":        pack(t, folder("d/"), folder("d/a/"), link("d/a/y", "."), link("d/z", "a/y/../.."), regular("d/z/canary")),
		"a hard link":                     pack(t, folder("d/"), tar.Header{Typeflag: tar.TypeLink, Name: "d/h", Linkname: "../canary"}, regular("d/h")),
		"a device":                        pack(t, folder("d/"), tar.Header{Typeflag: tar.TypeBlock, Name: "d/dev", Devmajor: 8}),
		"no end":                          pack(t, folder("d/"), regular("d/a"))[:1024+1],
		"no archive":                      []byte(strings.Repeat("not an archive at all ", 100)),
		"nothing":                         nil,
		"a file":                          pack(t, regular("canary")),
		"a link":                          pack(t, link("d", "d")),
	}
}

// attack downloads an archive next to a file that must not change.
func attack(t *testing.T, data []byte) error {
	around := t.TempDir()
	write(t, filepath.Join(around, "canary"), []byte("alive"), 0o600)
	tc := newHostile(t, func() io.Reader { return bytes.NewReader(data) })
	_, err := tc.DownloadDir(t.Context(), "d", filepath.Join(around, "target"))
	_, _ = tc.DownloadFile(t.Context(), "d", filepath.Join(around, "file"))
	entries, listErr := os.ReadDir(around)
	require.NoError(t, listErr)
	for _, e := range entries {
		require.Contains(t, []string{"canary", "target", "file"}, e.Name())
	}
	content, readErr := os.ReadFile(filepath.Join(around, "canary"))
	require.NoError(t, readErr)
	require.Equal(t, "alive", string(content))
	require.NoFileExists(t, "/tmp/hermes-env-canary")
	_ = filepath.WalkDir(filepath.Join(around, "target"), func(name string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			_ = os.Chmod(name, 0o700) // so that the test can clean up
		}
		return nil
	})
	return err
}

func TestNoArchiveOfASandboxWritesOutside(t *testing.T) {
	for name, data := range attacks(t) {
		t.Run(name, func(t *testing.T) {
			err := attack(t, data)
			// Links that lead out and what is no file are left out, so that a file below
			// such a link lands in a directory of that name.
			leftOut := strings.Contains(name, "link") || name == "a device"
			require.Equal(t, !leftOut || name == "a link", err != nil, "%v", err)
		})
	}
}

func FuzzDownloadDir(f *testing.F) {
	for _, data := range attacks(f) {
		f.Add(data)
	}
	f.Add(pack(f, folder("./"), regular("a/b"), link("c", "a/b")))
	f.Fuzz(func(t *testing.T, data []byte) {
		_ = attack(t, data) // whatever comes of it, nothing outside is written
	})
}

func TestATransferThatBreaksOffIsTheSandboxsFault(t *testing.T) {
	here := t.TempDir()
	whole := pack(t, tar.Header{Typeflag: tar.TypeReg, Name: "d", Size: 100_000})
	broken := func() io.Reader {
		return io.MultiReader(bytes.NewReader(whole[:50_000]), iotestError{errors.New("connection reset")})
	}
	old := filepath.Join(here, "old")
	write(t, old, []byte("old"), 0o644)
	_, err := newHostile(t, broken).DownloadFile(t.Context(), "d", old)
	require.ErrorContains(t, err, "d")
	content, readErr := os.ReadFile(old)
	require.NoError(t, readErr)
	require.Equal(t, "old", string(content))
	require.Len(t, tree(t, here), 1)

	whole = pack(t, folder("d"), tar.Header{Typeflag: tar.TypeReg, Name: "d/f", Size: 100_000})
	_, err = newHostile(t, broken).DownloadDir(t.Context(), "d", filepath.Join(here, "d"))
	require.True(t, toolcontext.IsInfrastructure(err), "%v", err)
	require.ErrorContains(t, err, "connection reset")

	large := filepath.Join(here, "large")
	write(t, large, make([]byte, 1<<20), 0o644)
	tc := newHostile(t, broken)
	_, err = tc.UploadFile(t.Context(), large, "x")
	require.True(t, toolcontext.IsInfrastructure(err), "%v", err)
	_, err = tc.UploadDir(t.Context(), here, "x")
	require.True(t, toolcontext.IsInfrastructure(err), "%v", err)
	require.ErrorContains(t, err, "connection reset")
}

type iotestError struct{ err error }

func (e iotestError) Read([]byte) (int, error) { return 0, e.err }
