package sandboxtest

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"io"
	"io/fs"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
)

// entry is one entry of a tar archive.
type entry struct {
	tar.Header
	content string
}

func file(name, content string) entry {
	return entry{tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: int64(len(content))}, content}
}

func link(name, target string) entry {
	return entry{tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: target, Mode: 0o777}, ""}
}

func folder(name string, mode int64) entry {
	return entry{tar.Header{Typeflag: tar.TypeDir, Name: name, Mode: mode}, ""}
}

func (e entry) mode(mode int64) entry {
	e.Mode = mode
	return e
}

// archiveOf writes entries as they are, hostile names included.
func archiveOf(t *testing.T, entries ...entry) io.Reader {
	t.Helper()
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, e := range entries {
		if e.ModTime.IsZero() {
			e.ModTime = time.Unix(1_700_000_000, 0)
		}
		require.NoError(t, w.WriteHeader(&e.Header))
		_, err := io.WriteString(w, e.content)
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	return &buf
}

// fetch downloads a path and returns its entries by name.
func (b *box) fetch(path string) map[string]entry {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), patience)
	defer cancel()
	r, err := b.Download(ctx, path)
	require.NoError(b.t, err)
	defer r.Close()
	found := map[string]entry{}
	for tr := tar.NewReader(r); ; {
		h, err := tr.Next()
		if err == io.EOF {
			return found
		}
		require.NoError(b.t, err)
		content, err := io.ReadAll(tr)
		require.NoError(b.t, err)
		found[strings.TrimSuffix(h.Name, "/")] = entry{*h, string(content)}
	}
}

func (b *box) put(dir string, entries ...entry) {
	b.t.Helper()
	require.NoError(b.t, b.Upload(b.t.Context(), archiveOf(b.t, entries...), dir))
}

// transfers checks that files pass through unchanged.
func (s *suite) transfers(t *testing.T) {
	s.each(t, map[string]func(*testing.T, *box){
		"content, modes, empty files and directories, links and times survive": func(t *testing.T, b *box) {
			var every strings.Builder
			for i := range 256 {
				every.WriteByte(byte(i))
			}
			sent := []entry{
				folder("tree/", 0o755), folder("tree/empty dir/", 0o700), folder("tree/read only/", 0o555),
				file("tree/bytes", every.String()), file("tree/empty", ""), file("tree/run.sh", "#!/bin/sh\necho ran\n").mode(0o755),
				file("tree/secret", "s").mode(0o600), file("tree/read only/fixed", "f").mode(0o444), file("tree/odd mode", "n").mode(0o417),
				file("tree/é日本 name", "u"), file("tree/new\nline", "l"), link("tree/link", "bytes"), link("tree/empty dir/up", "../bytes"),
				file("tree/"+strings.Repeat("long/", 60)+"leaf", "deep"),
			}
			b.put("in", sent...)
			require.Equal(t, "ran\n", b.sh("in/tree/run.sh"))
			b.sh(`[ "$(readlink in/tree/link)" = bytes ] && cmp in/tree/link in/tree/bytes`)
			got := b.fetch("in/tree")
			for _, e := range sent {
				name := strings.TrimSuffix(e.Name, "/")
				require.Contains(t, got, name)
				require.Equal(t, e.Typeflag, got[name].Typeflag, name)
				require.Equal(t, e.content, got[name].content, name)
				require.Equal(t, e.Linkname, got[name].Linkname, name)
				if e.Typeflag != tar.TypeSymlink {
					require.Equal(t, e.Mode, got[name].Mode, name)
				}
				if e.Typeflag == tar.TypeReg {
					require.EqualValues(t, 1_700_000_000, got[name].ModTime.Unix(), name)
				}
			}
			require.NotContains(t, got, "in")
		},
		"a single file": func(t *testing.T, b *box) {
			b.sh("mkdir -p d; printf content > d/one; : > d/empty; ln -s one d/link")
			require.Equal(t, map[string]string{"one": "content"}, contents(b.fetch("d/one")))
			require.Equal(t, map[string]string{"empty": ""}, contents(b.fetch("d/empty")))
			require.Equal(t, map[string]string{"link": "content"}, contents(b.fetch("d/link")))
		},
		"paths may be absolute, relative or in the home": func(t *testing.T, b *box) {
			work := strings.TrimSpace(b.sh("pwd"))
			for dir, at := range map[string]string{"rel/sub": work + "/rel/sub", work + "/abs": work + "/abs", "~/h": b.Info().Home + "/h", "~": b.Info().Home, "": work} {
				b.put(dir, file("f", dir+"!"))
				require.Equal(t, dir+"!", b.sh("cat '%s/f'", at))
				if dir != "" {
					require.Contains(t, contents(b.fetch(dir)), strings.TrimPrefix(at[strings.LastIndex(at, "/"):]+"/f", "/"))
				}
			}
		},
		"a session's directory does not move transfers": func(t *testing.T, b *box) {
			b.said("mkdir sub; cd sub")
			b.put(".", file("f", "x"))
			b.sh("[ -e f ] && [ ! -e sub/f ]")
		},
		"an upload replaces files and leaves others": func(t *testing.T, b *box) {
			b.sh("mkdir d; echo old-and-longer > d/f; chmod 400 d/f; echo stays > d/g; ln d/f hard")
			b.put("d", file("f", "new"))
			require.Equal(t, "new", b.sh("cat d/f"))
			require.Equal(t, "old-and-longer\n", b.sh("cat hard"), "written through a hard link")
			require.Equal(t, "stays\n", b.sh("cat d/g"))
		},
		"what does not exist is said": func(t *testing.T, b *box) {
			for _, path := range []string{"nothing", "no/such/dir", "/no-such-path", "~/nothing"} {
				_, err := b.Download(t.Context(), path)
				require.ErrorIs(t, err, fs.ErrNotExist, path)
			}
		},
		"an empty archive makes the directory": func(t *testing.T, b *box) {
			b.put("made/here")
			b.sh("[ -d made/here ]")
		},
		"an archive that breaks off is an error": func(t *testing.T, b *box) {
			data, err := io.ReadAll(archiveOf(t, file("f", strings.Repeat("x", 5000))))
			require.NoError(t, err)
			require.Error(t, b.Upload(t.Context(), bytes.NewReader(data[:3000]), "d"))
			require.Error(t, b.Upload(t.Context(), strings.NewReader("this is no archive"+strings.Repeat("!", 1000)), "d"))
		},
		"an upload can be cancelled": func(t *testing.T, b *box) {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			require.ErrorIs(t, b.Upload(ctx, archiveOf(t, file("f", "x")), "."), context.Canceled)
			b.sh("[ ! -e f ]")
		},
		"a download can be cancelled and left": func(t *testing.T, b *box) {
			b.sh("head -c 3000000 /dev/zero > big")
			ctx, cancel := context.WithCancel(t.Context())
			r, err := b.Download(ctx, "big")
			require.NoError(t, err)
			_, err = io.ReadFull(r, make([]byte, 1000))
			require.NoError(t, err)
			cancel()
			_, err = io.Copy(io.Discard, r)
			require.ErrorIs(t, err, context.Canceled)
			require.NoError(t, r.Close())
			r, err = b.Download(t.Context(), "big")
			require.NoError(t, err)
			require.NoError(t, r.Close(), "closed unread")
		},
		"pipes and sockets do not hold a download up": func(t *testing.T, b *box) {
			b.sh("mkdir d; mkfifo d/pipe; echo x > d/file; ln -s /etc/passwd d/out; ln -s nowhere d/dangling")
			got := b.fetch("d")
			require.Equal(t, "x\n", got["d/file"].content)
			require.NotContains(t, got, "d/pipe")
			require.Equal(t, byte(tar.TypeSymlink), got["d/out"].Typeflag, "a link was followed")
			require.Equal(t, "/etc/passwd", got["d/out"].Linkname)
			require.Contains(t, got, "d/dangling")
		},
		"a big file streams both ways": func(t *testing.T, b *box) {
			size := 20 << 20
			if s.options.Short {
				size = 2 << 20
			}
			content := strings.Repeat("0123456789abcdef", size/16)
			b.put(".", file("big", content))
			sum := sha256.Sum256([]byte(content))
			require.Equal(t, sum, sha256.Sum256([]byte(b.fetch("big")["big"].content)))
		},
	})
}

func contents(entries map[string]entry) map[string]string {
	m := map[string]string{}
	for name, e := range entries {
		if e.Typeflag == tar.TypeReg {
			m[name] = e.content
		}
	}
	return m
}

// hostileArchives checks that an upload never writes outside its directory.
func (s *suite) hostileArchives(t *testing.T) {
	device := entry{tar.Header{Typeflag: tar.TypeChar, Name: "dev", Mode: 0o666, Devmajor: 1, Devminor: 3}, ""}
	pipe := entry{tar.Header{Typeflag: tar.TypeFifo, Name: "fifo", Mode: 0o666}, ""}
	hard := func(name, target string) entry {
		return entry{tar.Header{Typeflag: tar.TypeLink, Name: name, Linkname: target, Mode: 0o644}, ""}
	}
	for name, entries := range map[string][]entry{
		"dots":                          {file("../evil", "x")},
		"dots inside":                   {file("a/../../evil", "x")},
		"dots that stay":                {file("a/../evil", "x")},
		"a directory of dots":           {folder("../evil/", 0o755)},
		"absolute":                      {file("/evil", "x")},
		"an absolute link":              {link("l", "/"), file("l/evil", "x")},
		"a link up":                     {link("l", ".."), file("l/evil", "x")},
		"a link up from below":          {folder("d/", 0o755), link("d/l", "../.."), file("d/l/evil", "x")},
		"a link through a link":         {folder("a/", 0o755), link("a/y", "."), link("z", "a/y/../.."), file("z/evil", "x")},
		"a link below a link":           {folder("deep/", 0o755), link("deep/x", ".."), link("deep/x/l", "../evil-dir"), file("deep/x/l/evil", "x")},
		"a file over the directory":     {file(".", "x")},
		"a link over the directory":     {link(".", "/")},
		"a hard link":                   {hard("h", "/etc/passwd")},
		"a hard link up":                {hard("h", "../secret")},
		"a device":                      {device},
		"a pipe":                        {pipe},
		"a file where a link is, twice": {link("l", "../evil"), file("l", "x")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := s.open(t)
			b.sh("mkdir -p around/target; echo secret > around/secret")
			err := b.Upload(t.Context(), archiveOf(t, entries...), "around/target")
			require.ErrorIs(t, err, sandbox.ErrUnsafeArchive)
			require.Equal(t, "secret\ntarget\n", b.sh("ls around"))
			require.Equal(t, "secret\n", b.sh("cat around/secret"))
			b.sh("[ ! -e /evil ] && [ ! -e /evil-dir ]")
		})
	}
	s.each(t, map[string]func(*testing.T, *box){
		"a link the rollout has put there is not followed out": func(t *testing.T, b *box) {
			b.sh("mkdir -p around/target outside; ln -s ../../outside around/target/sub; ln -s ../../outside/file around/target/file; echo kept > outside/file")
			err := b.Upload(t.Context(), archiveOf(t, file("sub/evil", "x")), "around/target")
			require.ErrorIs(t, err, sandbox.ErrUnsafeArchive)
			b.put("around/target", file("file", "new"))
			require.Equal(t, "file\n", b.sh("ls outside"))
			require.Equal(t, "kept\n", b.sh("cat outside/file"))
			require.Equal(t, "new", b.sh("cat around/target/file"))
		},
		"set-user-id bits are dropped": func(t *testing.T, b *box) {
			b.put(".", file("f", "x").mode(0o6755))
			require.EqualValues(t, 0o755, b.fetch("f")["f"].Mode)
		},
		"a pipe in the place of a file is replaced, not written to": func(t *testing.T, b *box) {
			b.sh("mkfifo f")
			b.put(".", file("f", "content"))
			require.Equal(t, "content", b.sh("cat f"))
		},
	})
}
