package hub

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/env/dataset/hub/hubtest"
	"github.com/hermes-env/hermes-env/trajectories/filelock"
)

var repo = Repo{Dataset, "acme/tasks"}

func testClient(t *testing.T, s *hubtest.Server) *Client {
	t.Helper()
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	c, err := New(Options{
		Endpoint: s.URL, CacheDir: t.TempDir(), Client: &http.Client{Transport: transport},
		Wait: func(ctx context.Context, _ time.Duration) error { return context.Cause(ctx) },
	})
	require.NoError(t, err)
	return c
}

func TestFileSystemsWithoutLinksHoldFilesAllTheSame(t *testing.T) {
	fail := func(string, string) error { return &os.LinkError{Op: "link", Err: syscall.ENOTSUP} }
	for name, c := range map[string]struct {
		link     func(string, string) error
		hasBlobs int
	}{"with hard links": {os.Link, 1}, "with none at all": {fail, 0}} {
		t.Run(name, func(t *testing.T) {
			s := hubtest.Start(t)
			content := []byte("same content")
			first := s.Put("dataset", repo.ID, "main", map[string][]byte{"a.txt": content, "b/c.txt": content})
			client := testClient(t, s)
			client.symlink, client.link = fail, c.link
			client.options.Concurrency = 1
			dir, _, err := client.Snapshot(t.Context(), repo, "main", nil)
			require.NoError(t, err)
			require.Equal(t, client.snapshotDir(repo, first), dir)
			for _, name := range []string{"a.txt", "b/c.txt"} {
				info, err := os.Lstat(filepath.Join(dir, name))
				require.NoError(t, err)
				require.True(t, info.Mode().IsRegular())
				require.EqualValues(t, len(content), info.Size())
			}
			blobs, err := filepath.Glob(filepath.Join(client.repoDir(repo), "blobs", "*"))
			require.NoError(t, err)
			require.Len(t, blobs, c.hasBlobs)
			l, err := client.cachedFiles(repo, first)
			require.NoError(t, err)
			require.Len(t, l.Files, 2)
		})
	}
}

func TestAnOlderBlobIsCopiedWhereThereAreNoLinks(t *testing.T) {
	s := hubtest.Start(t)
	s.Put("dataset", repo.ID, "main", map[string][]byte{"a.txt": []byte("x")})
	client := testClient(t, s)
	_, err := client.Download(t.Context(), repo, "main", "a.txt")
	require.NoError(t, err)
	fail := func(string, string) error { return errors.New("no links here") }
	client.symlink, client.link = fail, fail
	s.Put("dataset", repo.ID, "main", map[string][]byte{"b.txt": []byte("x")})
	path, err := client.Download(t.Context(), repo, "main", "b.txt")
	require.NoError(t, err)
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "x", string(data))
	blobs, err := filepath.Glob(filepath.Join(client.repoDir(repo), "blobs", "*"))
	require.NoError(t, err)
	require.Len(t, blobs, 1)
}

func TestAFullDiskIsToldAndWhatFitsIsKept(t *testing.T) {
	s := hubtest.Start(t)
	content := []byte(strings.Repeat("0123456789", 100_000))
	s.Put("dataset", repo.ID, "main", map[string][]byte{"x.bin": content})
	client := testClient(t, s)
	room := 300_000
	client.write = func(f *os.File, p []byte) (int, error) {
		n := min(len(p), room)
		room -= n
		written, err := f.Write(p[:n])
		if n < len(p) && err == nil {
			err = &os.PathError{Op: "write", Path: f.Name(), Err: syscall.ENOSPC}
		}
		return written, err
	}
	_, err := client.Download(t.Context(), repo, "main", "x.bin")
	require.ErrorIs(t, err, ErrNoSpace)
	require.ErrorContains(t, err, "HF_HUB_CACHE")
	require.ErrorContains(t, err, "more bytes are needed")

	client.write = (*os.File).Write
	path, err := client.Download(t.Context(), repo, "main", "x.bin")
	require.NoError(t, err)
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, content, data)
	requests := s.Requests()
	require.NotEmpty(t, requests[len(requests)-1].Range, "the part was gone on with")
}

func TestADiskThatFailsIsNotTakenForTheNetwork(t *testing.T) {
	s := hubtest.Start(t)
	s.Put("dataset", repo.ID, "main", map[string][]byte{"x.bin": []byte("content")})
	client := testClient(t, s)
	client.write = func(f *os.File, _ []byte) (int, error) {
		return 0, &os.PathError{Op: "write", Path: f.Name(), Err: syscall.EIO}
	}
	_, err := client.Download(t.Context(), repo, "main", "x.bin")
	require.ErrorIs(t, err, syscall.EIO)
	require.NotErrorIs(t, err, ErrUnreachable)
	require.ErrorContains(t, err, "write the Hugging Face cache")
	require.Equal(t, 1, s.Count("GET", "/resolve/"), "it is not tried again")

	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	client.options.CacheDir = file
	_, err = client.Download(t.Context(), repo, "main", "x.bin")
	require.ErrorContains(t, err, "Hugging Face cache")
}

func TestAnotherProcessIsWaitedFor(t *testing.T) {
	s := hubtest.Start(t)
	s.Put("dataset", repo.ID, "main", map[string][]byte{"x.txt": []byte("x")})
	client := testClient(t, s)
	l, err := client.List(t.Context(), repo, "main")
	require.NoError(t, err)
	lock := filepath.Join(client.options.CacheDir, ".locks", repo.Folder(), l.Files[0].OID+".lock")
	require.NoError(t, os.MkdirAll(filepath.Dir(lock), 0o755))
	other, err := os.OpenFile(lock, os.O_RDWR|os.O_CREATE, 0o664)
	require.NoError(t, err)
	defer other.Close()
	require.NoError(t, filelock.Try(other))

	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = client.Fetch(ctx, repo, l.Commit, l.Files)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Zero(t, s.Count("GET", "/resolve/"))

	require.NoError(t, other.Close())
	_, err = client.Fetch(t.Context(), repo, l.Commit, l.Files)
	require.NoError(t, err)
}

func TestGoroutinesWaitForOneAnother(t *testing.T) {
	var k keyedLocks
	unlock, err := k.lock(t.Context(), "a")
	require.NoError(t, err)
	other, err := k.lock(t.Context(), "b")
	require.NoError(t, err)
	other()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = k.lock(ctx, "a")
	require.ErrorIs(t, err, context.Canceled)
	got := make(chan func())
	go func() {
		u, _ := k.lock(context.Background(), "a")
		got <- u
	}()
	unlock()
	(<-got)()
	require.Empty(t, k.held)
}

func TestWithoutLocksNoPartIsShared(t *testing.T) {
	s := hubtest.Start(t)
	s.Put("dataset", repo.ID, "main", map[string][]byte{"x.txt": []byte("content")})
	client := testClient(t, s)
	l, err := client.List(t.Context(), repo, "main")
	require.NoError(t, err)
	blob := client.blobPath(repo, l.Files[0].OID)
	require.NoError(t, client.makeDirs(blob))
	require.NoError(t, os.WriteFile(blob+".incomplete", []byte("of another process"), 0o644))
	require.NoError(t, client.transfer(t.Context(), target{repo, l.Commit, "x.txt"}, l.Files[0], blob, false))
	left, err := filepath.Glob(blob + "*")
	require.NoError(t, err)
	require.Equal(t, []string{blob, blob + ".incomplete"}, left)
}

func TestServersMayAskToWait(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for header, want := range map[string]time.Duration{
		"Retry-After: 120":                           2 * time.Minute,
		"Retry-After: Fri, 02 Jan 2026 03:05:05 GMT": time.Minute,
		"Retry-After: Fri, 02 Jan 2026 03:00:00 GMT": 0,
		`RateLimit: "api";r=0;t=9`:                   9 * time.Second,
	} {
		name, value, _ := strings.Cut(header, ": ")
		got, ok := askedWait(http.Header{http.CanonicalHeaderKey(name): {value}}, now)
		require.True(t, ok, header)
		require.Equal(t, want, got, header)
	}
	for _, header := range []string{"Retry-After: soon", "Retry-After: -1", `RateLimit: "api";r=3;t=9`, "X: y"} {
		name, value, _ := strings.Cut(header, ": ")
		_, ok := askedWait(http.Header{http.CanonicalHeaderKey(name): {value}}, now)
		require.False(t, ok, header)
	}
}

// A redirect to a sub-domain or another port is to another server, and one from https to http
// shows the request to everybody.
func TestOnlyTheEndpointsOwnOriginIsTrusted(t *testing.T) {
	c, err := New(Options{Endpoint: "https://hub.example:8443/base", CacheDir: t.TempDir()})
	require.NoError(t, err)
	for address, ours := range map[string]bool{
		"https://hub.example:8443/x": true, "https://HUB.example:8443/x": true, "http://hub.example:8443/x": false,
		"https://hub.example/x": false, "https://cdn.hub.example:8443/x": false, "https://hub.example.evil:8443/": false,
	} {
		u, err := c.endpoint.Parse(address)
		require.NoError(t, err)
		require.Equal(t, ours, c.ours(u), address)
	}
	for from, to := range map[string]string{
		"https://huggingface.co/api/datasets/a/b?cursor=1": "https://hub.example:8443/base/api/datasets/a/b?cursor=1",
		"https://hub.example:8443/base/api?cursor=1":       "https://hub.example:8443/base/api?cursor=1",
		"/base/api?cursor=2":                               "https://hub.example:8443/base/api?cursor=2",
	} {
		got, err := c.onEndpoint(from)
		require.NoError(t, err)
		require.Equal(t, to, got)
	}
}

func TestRedirectsThatLeadNowhereAreErrors(t *testing.T) {
	for name, location := range map[string]string{
		"a loop": "/loop", "another scheme": "ftp://127.0.0.1/x", "no host": "http:///x",
	} {
		t.Run(name, func(t *testing.T) {
			s := hubtest.Start(t)
			s.Inject(hubtest.Fault{Status: 302, Header: map[string]string{"Location": location}, Times: -1})
			_, err := testClient(t, s).Resolve(t.Context(), repo, "main")
			require.ErrorIs(t, err, ErrUnreachable)
			require.ErrorContains(t, err, "redirects")
		})
	}
}

func FuzzListings(f *testing.F) {
	f.Add([]byte(`[{"type":"file","oid":"aa","size":3,"path":"a/b.json"},{"type":"directory","path":"a"}]`))
	f.Add([]byte(`[{"type":"file","oid":"aa","size":130,"path":"x","lfs":{"oid":"bb","size":9,"pointerSize":130}}]`))
	f.Add([]byte(`[{"type":"file","path":"../x"}]`))
	s, err := hubtest.New("127.0.0.1:0")
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = s.Close() })
	f.Fuzz(func(t *testing.T, data []byte) {
		s.Inject(hubtest.Fault{Status: 200, Body: string(data)})
		client := testClient(t, s)
		files, err := client.tree(t.Context(), target{repo: repo, revision: "main"})
		if err != nil {
			return
		}
		for _, file := range files {
			name := client.pointerPath(repo, "main", file.Path)
			require.True(t, strings.HasPrefix(name, client.snapshotDir(repo, "main")+string(filepath.Separator)), name)
			require.Equal(t, client.repoDir(repo)+"/blobs", filepath.ToSlash(filepath.Dir(client.blobPath(repo, file.etag()))))
		}
		client.storeTree(repo, "main", files)
		again, ok := client.cachedTree(repo, "main")
		require.True(t, ok)
		require.LessOrEqual(t, len(again), len(files))
	})
}

func FuzzCachedTrees(f *testing.F) {
	f.Add([]byte(`{"format_version":1,"files":{"a":{"size":1,"blob_id":"aa"}}}`))
	f.Add([]byte(`{"format_version":1,"files":{"a":{"size":1,"blob_id":"aa","lfs_sha256":"bb","lfs_size":7,"xet_hash":"cc"}}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		files, ok := parseTree(data)
		if !ok {
			require.Nil(t, files)
		}
		for _, file := range files {
			require.NoError(t, checkPath(file.Path))
			require.True(t, etagName.MatchString(file.etag()))
		}
	})
}

func FuzzRevisionAnswers(f *testing.F) {
	f.Add([]byte(`{"sha":"0123456789012345678901234567890123456789"}`), "W/\"abc\"", "12", "<http://x/y>; rel=\"next\"")
	f.Fuzz(func(t *testing.T, body []byte, etag, size, link string) {
		_ = nextPage(http.Header{"Link": {link}})
		_, _ = askedWait(http.Header{"Retry-After": {size}, "Ratelimit": {etag}}, time.Time{})
		e := (&Client{endpoint: mustParse("https://x")}).statusError(target{repo: repo}, &http.Response{
			StatusCode: 404, Header: http.Header{"X-Error-Code": {etag}, "X-Error-Message": {string(body)}},
		})
		require.NotContains(t, e.Error(), "\n")
	})
}

func mustParse(s string) *url.URL {
	u, err := url.Parse(s)
	if err != nil {
		panic(err)
	}
	return u
}
