package hub_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/hermes-env/hermes-env/env/dataset/hub"
	"github.com/hermes-env/hermes-env/env/dataset/hub/hubtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var tasks = hub.Repo{Type: hub.Dataset, ID: "acme/tasks"}

// bytesOf makes content that differs everywhere.
func bytesOf(n int, seed byte) []byte {
	out := make([]byte, n)
	x := uint32(seed) + 1
	for i := range out {
		x = x*1664525 + 1013904223
		out[i] = byte(x >> 24)
	}
	return out
}

var small, large = []byte("---\nlicense: mit\n---\n# Tasks\n"), bytesOf(600_000, 1)

// fixture is a hub with one data set, and what a client of it waited for and said.
type fixture struct {
	*hubtest.Server
	commit  string
	options hub.Options

	mu       sync.Mutex
	waits    []time.Duration
	warnings []string
	progress []hub.Progress
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{Server: hubtest.Start(t)}
	f.commit = f.Put("dataset", tasks.ID, "main", map[string][]byte{
		"README.md": small, "data/train-00000-of-00001.parquet": large, "data/empty.jsonl": {}, "a b/ü#?%.json": []byte("{}"),
	})
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	f.options = hub.Options{
		Endpoint: f.URL, CacheDir: t.TempDir(), Client: &http.Client{Transport: transport},
		Wait: func(ctx context.Context, d time.Duration) error {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.waits = append(f.waits, d)
			return context.Cause(ctx)
		},
		Warn:     func(s string) { f.warnings = append(f.warnings, s) },
		Progress: func(p hub.Progress) { f.progress = append(f.progress, p) },
	}
	return f
}

func (f *fixture) client(t *testing.T, change ...func(*hub.Options)) *hub.Client {
	t.Helper()
	o := f.options
	for _, c := range change {
		c(&o)
	}
	client, err := hub.New(o)
	require.NoError(t, err)
	return client
}

func offline(o *hub.Options) { o.Offline = true }

func inPath(s string) func(*http.Request) bool {
	return func(r *http.Request) bool { return strings.Contains(r.URL.Path, s) }
}

// toCDN picks the requests for the content of large files.
func toCDN(r *http.Request) bool { return r.URL.Query().Has("X-Amz-Signature") }

func requireFile(t *testing.T, path string, content []byte) {
	t.Helper()
	got, err := os.ReadFile(path)
	require.NoError(t, err)
	require.True(t, bytes.Equal(content, got), "content of %s differs", path)
}

const parquet = "data/train-00000-of-00001.parquet"

func TestASnapshotHasEveryFileInTheStandardLayout(t *testing.T) {
	f := newFixture(t)
	c := f.client(t)
	dir, listing, err := c.Snapshot(t.Context(), tasks, "", nil)
	require.NoError(t, err)
	require.Equal(t, f.commit, listing.Commit)
	require.False(t, listing.Partial)

	root := filepath.Join(f.options.CacheDir, "datasets--acme--tasks")
	require.Equal(t, filepath.Join(root, "snapshots", f.commit), dir)
	ref, err := os.ReadFile(filepath.Join(root, "refs", "main"))
	require.NoError(t, err)
	require.Equal(t, f.commit, string(ref))
	requireFile(t, filepath.Join(dir, "README.md"), small)
	requireFile(t, filepath.Join(dir, parquet), large)
	requireFile(t, filepath.Join(dir, "data", "empty.jsonl"), nil)
	requireFile(t, filepath.Join(dir, "a b", "ü#?%.json"), []byte("{}"))

	for _, file := range listing.Files {
		target, err := os.Readlink(filepath.Join(dir, filepath.FromSlash(file.Path)))
		require.NoError(t, err)
		up := strings.Repeat("../", strings.Count(file.Path, "/")+2)
		etag := file.OID
		if file.Path == parquet {
			require.Len(t, file.SHA256, 64)
			etag = file.SHA256
		}
		require.Equal(t, up+"blobs/"+etag, filepath.ToSlash(target))
		require.FileExists(t, filepath.Join(f.options.CacheDir, ".locks", "datasets--acme--tasks", etag+".lock"))
	}
	require.FileExists(t, filepath.Join(f.options.CacheDir, "CACHEDIR.TAG"))
	left, err := filepath.Glob(filepath.Join(root, "blobs", "*.incomplete"))
	require.NoError(t, err)
	require.Empty(t, left)
	require.Empty(t, f.warnings)
}

func TestWhatIsCachedIsNotAskedForAgain(t *testing.T) {
	f := newFixture(t)
	_, _, err := f.client(t).Snapshot(t.Context(), tasks, "main", nil)
	require.NoError(t, err)
	before := len(f.Requests())
	_, _, err = f.client(t).Snapshot(t.Context(), tasks, "main", nil)
	require.NoError(t, err)
	require.Equal(t, before+1, len(f.Requests()), "only the revision is resolved again")
	_, _, err = f.client(t, offline).Snapshot(t.Context(), tasks, "main", nil)
	require.NoError(t, err)
	_, _, err = f.client(t).Snapshot(t.Context(), tasks, f.commit, nil)
	require.NoError(t, err)
	require.Equal(t, before+1, len(f.Requests()))
	last := f.progress[len(f.progress)-1]
	require.True(t, last.Cached && last.Finished)
}

func TestASnapshotCanBeAPart(t *testing.T) {
	f := newFixture(t)
	_, l, err := f.client(t).Snapshot(t.Context(), tasks, "main", func(f hub.File) bool { return strings.HasPrefix(f.Path, "data/") })
	require.NoError(t, err)
	require.Equal(t, []string{"data/empty.jsonl", parquet}, paths(l.Files))
	require.Equal(t, 1, f.Count("GET", "/resolve/"), "an empty file needs no request")
	_, _, err = f.client(t, offline).Snapshot(t.Context(), tasks, "main", nil)
	require.ErrorIs(t, err, hub.ErrNotCached)
	_, _, err = f.client(t, offline).Snapshot(t.Context(), hub.Repo{Type: hub.Dataset, ID: "acme/other"}, "main", nil)
	require.ErrorIs(t, err, hub.ErrNotCached)
	_, err = f.client(t, offline).List(t.Context(), tasks, strings.Repeat("0", 40))
	require.ErrorIs(t, err, hub.ErrNotCached)
}

func TestOneFileCanBeFetchedAlone(t *testing.T) {
	f := newFixture(t)
	c := f.client(t)
	for _, name := range []string{"README.md", parquet} {
		path, err := c.Download(t.Context(), tasks, "main", name)
		require.NoError(t, err)
		require.Equal(t, map[string][]byte{"README.md": small, parquet: large}[name], must(os.ReadFile(path)))
	}
	require.Zero(t, f.Count("", "/tree/"))

	t.Run("and offline only that is there", func(t *testing.T) {
		off := f.client(t, offline)
		path, err := off.Download(t.Context(), tasks, "", "README.md")
		require.NoError(t, err)
		requireFile(t, path, small)
		_, err = off.Download(t.Context(), tasks, "", "data/empty.jsonl")
		require.ErrorIs(t, err, hub.ErrNotCached)
		require.ErrorContains(t, err, "data/empty.jsonl")
		require.ErrorContains(t, err, "HF_HUB_OFFLINE")
		l, err := off.List(t.Context(), tasks, "main")
		require.NoError(t, err)
		require.True(t, l.Partial)
		require.Equal(t, []string{"README.md", parquet}, paths(l.Files))
		require.Equal(t, int64(len(large)), l.Files[1].Size)
		require.NotEmpty(t, l.Files[1].SHA256)
		require.NotEmpty(t, l.Files[0].OID)
	})
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func paths(files []hub.File) []string {
	var out []string
	for _, f := range files {
		out = append(out, f.Path)
	}
	return out
}

func TestAFileThatDoesNotExistIsRemembered(t *testing.T) {
	f := newFixture(t)
	c := f.client(t)
	_, err := c.Download(t.Context(), tasks, "main", "nope.json")
	require.ErrorIs(t, err, hub.ErrFileNotFound)
	require.ErrorContains(t, err, "nope.json")
	require.FileExists(t, filepath.Join(f.options.CacheDir, "datasets--acme--tasks", ".no_exist", f.commit, "nope.json"))
	before := f.Count("HEAD", "")
	_, err = c.Download(t.Context(), tasks, "main", "nope.json")
	require.ErrorIs(t, err, hub.ErrFileNotFound)
	require.Equal(t, before, f.Count("HEAD", ""))
	_, err = f.client(t, offline).Download(t.Context(), tasks, "main", "nope.json")
	require.ErrorIs(t, err, hub.ErrFileNotFound)
}

func TestListingsOfManyPagesAreComplete(t *testing.T) {
	f := newFixture(t)
	f.SetPageSize(7)
	files := map[string][]byte{}
	for i := range 100 {
		files[fmt.Sprintf("d%d/f%03d.txt", i%5, i)] = []byte{byte(i)}
	}
	f.Put("dataset", tasks.ID, "main", files)
	l, err := f.client(t).List(t.Context(), tasks, "main")
	require.NoError(t, err)
	require.Len(t, l.Files, 100)
	require.IsIncreasing(t, paths(l.Files))
	require.Equal(t, 15, f.Count("GET", "/tree/"), "105 entries with the folders")
}

func TestRevisionsCanBeTagsReferencesAndCommits(t *testing.T) {
	f := newFixture(t)
	converted := f.Put("dataset", tasks.ID, hub.ParquetRevision, map[string][]byte{"default/train/0000.parquet": large})
	f.Put("dataset", tasks.ID, "v1/rc", map[string][]byte{"x": []byte("1")})
	c := f.client(t)
	l, err := c.List(t.Context(), tasks, hub.ParquetRevision)
	require.NoError(t, err)
	require.Equal(t, converted, l.Commit)
	_, err = c.Fetch(t.Context(), tasks, l.Commit, l.Files)
	require.NoError(t, err)
	_, err = c.Download(t.Context(), tasks, "v1/rc", "x")
	require.NoError(t, err)
	commit, err := f.client(t, offline).Resolve(t.Context(), tasks, hub.ParquetRevision)
	require.NoError(t, err)
	require.Equal(t, converted, commit)
	_, err = c.Resolve(t.Context(), tasks, "v2")
	require.ErrorIs(t, err, hub.ErrRevisionNotFound)
	require.ErrorContains(t, err, `"v2"`)
	_, err = f.client(t, offline).Resolve(t.Context(), tasks, "v2")
	require.ErrorIs(t, err, hub.ErrNotCached)
}

func TestTheTokenGoesToTheHubAlone(t *testing.T) {
	f := newFixture(t)
	f.AllowToken("hf_secret")
	f.SetPrivate("dataset", tasks.ID)
	_, _, err := f.client(t, func(o *hub.Options) { o.Token = "hf_secret" }).Snapshot(t.Context(), tasks, "main", nil)
	require.NoError(t, err)
	cdn := 0
	for _, r := range f.Requests() {
		if r.CDN {
			cdn++
			require.Empty(t, r.Authorization)
		} else {
			require.Equal(t, "Bearer hf_secret", r.Authorization)
		}
	}
	require.Equal(t, 1, cdn)
}

func TestRefusalsSayWhatToDo(t *testing.T) {
	f := newFixture(t)
	f.AllowToken("hf_good")
	f.Put("model", "acme/gated", "main", map[string][]byte{"tokenizer.json": []byte("{}")})
	f.SetGated("model", "acme/gated", true)
	f.Put("dataset", "acme/hidden", "main", map[string][]byte{"x": nil})
	f.SetPrivate("dataset", "acme/hidden")
	gated := hub.Repo{Type: hub.Model, ID: "acme/gated"}
	for name, c := range map[string]struct {
		token hub.Token
		repo  hub.Repo
		path  string
		kind  error
		says  []string
	}{
		"no such data set":              {"", hub.Repo{Type: hub.Dataset, ID: "acme/nothing"}, "x", hub.ErrRepoNotFound, []string{"acme/nothing", "HF_TOKEN"}},
		"no such data set, with token":  {"hf_good", hub.Repo{Type: hub.Dataset, ID: "acme/nothing"}, "x", hub.ErrRepoNotFound, []string{"token (HF_TOKEN) may read it"}},
		"private":                       {"", hub.Repo{Type: hub.Dataset, ID: "acme/hidden"}, "x", hub.ErrRepoNotFound, []string{"private", "set HF_TOKEN"}},
		"wrong token":                   {"hf_wrong", tasks, "README.md", hub.ErrUnauthorized, []string{"/settings/tokens"}},
		"gated":                         {"", gated, "tokenizer.json", hub.ErrGated, []string{"accept its conditions at " + f.URL + "/acme/gated"}},
		"gated, with a token":           {"hf_good", gated, "tokenizer.json", hub.ErrGated, []string{"check that the token"}},
		"a data set asked for as model": {"", hub.Repo{Type: hub.Model, ID: tasks.ID}, "README.md", hub.ErrRepoNotFound, []string{"model acme/tasks"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := f.client(t, func(o *hub.Options) { o.Token = c.token }).Download(t.Context(), c.repo, "main", c.path)
			require.ErrorIs(t, err, c.kind)
			for _, s := range c.says {
				require.ErrorContains(t, err, s)
			}
			require.NotContains(t, err.Error(), "hf_")
			require.NotContains(t, err.Error(), "\n")
			var status *hub.StatusError
			require.ErrorAs(t, err, &status)
		})
	}
	require.Empty(t, f.waits, "refusals are final")
}

func TestPassingFailuresAreRepeated(t *testing.T) {
	for name, c := range map[string]struct {
		fault hubtest.Fault
		waits []time.Duration
	}{
		"too many requests, with a time": {hubtest.Fault{Match: inPath("/revision/"), Status: 429, Header: map[string]string{"Retry-After": "7"}}, []time.Duration{7 * time.Second}},
		"too many requests, new header":  {hubtest.Fault{Match: inPath("/tree/"), Status: 429, Header: map[string]string{"RateLimit": `"api";r=0;t=55`}}, []time.Duration{55 * time.Second}},
		"overload thrice":                {hubtest.Fault{Match: inPath("/resolve/"), Status: 503, Times: 3}, []time.Duration{500 * time.Millisecond, time.Second, 2 * time.Second}},
		"bad gateway at the CDN":         {hubtest.Fault{Match: toCDN, Status: 502}, []time.Duration{500 * time.Millisecond}},
		"a listing that breaks off":      {hubtest.Fault{Match: inPath("/tree/"), DropAfter: 40}, []time.Duration{500 * time.Millisecond}},
		"a file that breaks off":         {hubtest.Fault{Match: toCDN, DropAfter: 100_000}, []time.Duration{500 * time.Millisecond}},
		"a file that breaks off often":   {hubtest.Fault{Match: toCDN, DropAfter: 50_000, Times: 11}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.Inject(c.fault)
			dir, _, err := f.client(t, func(o *hub.Options) { o.Concurrency = 1 }).Snapshot(t.Context(), tasks, "main", nil)
			require.NoError(t, err)
			requireFile(t, filepath.Join(dir, parquet), large)
			if c.waits != nil {
				require.Equal(t, c.waits, f.waits)
			}
		})
	}
}

func TestAnEndlessFailureEndsInAnError(t *testing.T) {
	for name, c := range map[string]struct {
		fault hubtest.Fault
		kind  error
		says  string
		waits int
	}{
		"overload":             {hubtest.Fault{Status: 503, Times: -1}, hub.ErrUnreachable, "503", 5},
		"too many requests":    {hubtest.Fault{Status: 429, Times: -1}, hub.ErrRateLimited, "HF_TOKEN", 5},
		"asked to wait an age": {hubtest.Fault{Status: 429, Times: -1, Header: map[string]string{"Retry-After": "86400"}}, hub.ErrRateLimited, "24h0m0s", 0},
		"connections cut":      {hubtest.Fault{DropAfter: 1, Times: -1}, hub.ErrUnreachable, "HF_ENDPOINT", 5},
		"not a hub":            {hubtest.Fault{Status: 200, Body: "<html>sign in</html>", Times: -1}, hub.ErrUnreachable, "is HF_ENDPOINT right?", 0},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.Inject(c.fault)
			_, err := f.client(t).List(t.Context(), tasks, "main")
			require.ErrorIs(t, err, c.kind)
			require.ErrorContains(t, err, c.says)
			require.Len(t, f.waits, c.waits)
		})
	}
}

func TestADownloadGoesOnWhereItStopped(t *testing.T) {
	f := newFixture(t)
	f.Inject(hubtest.Fault{Match: toCDN, DropAfter: 200_000})
	_, err := f.client(t, func(o *hub.Options) { o.Retries = -1 }).Download(t.Context(), tasks, "main", parquet)
	require.ErrorIs(t, err, hub.ErrUnreachable)
	require.ErrorContains(t, err, "are kept")
	parts, err := filepath.Glob(filepath.Join(f.options.CacheDir, "datasets--acme--tasks", "blobs", "*.incomplete"))
	require.NoError(t, err)
	require.Len(t, parts, 1)
	kept := must(os.Stat(parts[0])).Size()
	require.Positive(t, kept)

	path, err := f.client(t).Download(t.Context(), tasks, "main", parquet)
	require.NoError(t, err)
	requireFile(t, path, large)
	requests := f.Requests()
	require.Equal(t, fmt.Sprintf("bytes=%d-", kept), requests[len(requests)-1].Range)
	require.Equal(t, http.StatusPartialContent, requests[len(requests)-1].Status)
	require.NoFileExists(t, parts[0])
}

func TestALeftoverOfOtherContentIsNotUsed(t *testing.T) {
	for name, left := range map[string][]byte{
		"wrong bytes": bytesOf(1000, 9), "whole but wrong": bytesOf(len(large), 9), "too long": bytesOf(len(large)+5, 9),
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			c := f.client(t)
			l, err := c.List(t.Context(), tasks, "main")
			require.NoError(t, err)
			blobs := filepath.Join(f.options.CacheDir, "datasets--acme--tasks", "blobs")
			require.NoError(t, os.MkdirAll(blobs, 0o755))
			for _, file := range l.Files {
				if file.Path == parquet {
					require.NoError(t, os.WriteFile(filepath.Join(blobs, file.SHA256+".incomplete"), left, 0o644))
				}
			}
			path, err := c.Download(t.Context(), tasks, "main", parquet)
			require.NoError(t, err)
			requireFile(t, path, large)
		})
	}
}

func TestWrongContentIsFetchedOnceMoreAndThenRefused(t *testing.T) {
	for name, c := range map[string]struct {
		fault hubtest.Fault
		path  string
	}{
		"changed bytes of a large file": {hubtest.Fault{Match: toCDN, Corrupt: true}, parquet},
		"changed bytes of a small file": {hubtest.Fault{Match: inPath("/api/resolve-cache/"), Corrupt: true}, "README.md"},
		"a wrong length":                {hubtest.Fault{Match: toCDN, ShortBy: 10}, parquet},
		"another file":                  {hubtest.Fault{Match: toCDN, Status: 200, Body: "not it"}, parquet},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.Inject(c.fault)
			client := f.client(t)
			_, err := client.List(t.Context(), tasks, "main")
			require.NoError(t, err)
			path, err := client.Download(t.Context(), tasks, "main", c.path)
			require.NoError(t, err)
			requireFile(t, path, map[string][]byte{"README.md": small, parquet: large}[c.path])
			require.Len(t, f.warnings, 1)

			f = newFixture(t)
			c.fault.Times = -1
			f.Inject(c.fault)
			client = f.client(t)
			_, err = client.List(t.Context(), tasks, "main")
			require.NoError(t, err)
			_, err = client.Download(t.Context(), tasks, "main", c.path)
			require.ErrorIs(t, err, hub.ErrCorrupt)
			require.ErrorContains(t, err, "twice")
			blobs, err := filepath.Glob(filepath.Join(f.options.CacheDir, "datasets--acme--tasks", "blobs", "*"))
			require.NoError(t, err)
			require.Empty(t, blobs, "nothing wrong stays")
		})
	}
}

func TestADamagedCacheIsRepairedOnlineAndToldOffline(t *testing.T) {
	f := newFixture(t)
	c := f.client(t)
	dir, _, err := c.Snapshot(t.Context(), tasks, "main", nil)
	require.NoError(t, err)
	name := filepath.Join(dir, parquet)
	require.NoError(t, os.Truncate(name, 10))
	_, err = f.client(t, offline).Download(t.Context(), tasks, "main", parquet)
	require.ErrorIs(t, err, hub.ErrCorrupt)
	require.ErrorContains(t, err, "10 bytes")
	path, err := c.Download(t.Context(), tasks, "main", parquet)
	require.NoError(t, err)
	requireFile(t, path, large)
	require.Len(t, f.warnings, 1)
}

func TestAnUnreachableHubIsReplacedByTheCacheWithAWarning(t *testing.T) {
	f := newFixture(t)
	_, _, err := f.client(t).Snapshot(t.Context(), tasks, "main", nil)
	require.NoError(t, err)
	away := func(o *hub.Options) { o.Endpoint, o.Retries = "http://127.0.0.1:1", -1 }
	dir, l, err := f.client(t, away).Snapshot(t.Context(), tasks, "main", nil)
	require.NoError(t, err)
	require.Equal(t, f.commit, l.Commit)
	requireFile(t, filepath.Join(dir, "README.md"), small)
	require.Len(t, f.warnings, 1)
	require.Contains(t, f.warnings[0], f.commit[:12])
	_, err = f.client(t, away).Resolve(t.Context(), hub.Repo{Type: hub.Dataset, ID: "acme/other"}, "main")
	require.ErrorIs(t, err, hub.ErrUnreachable)
}

func TestAHubInTroubleDoesNotHoldUpWhatIsCached(t *testing.T) {
	f := newFixture(t)
	_, _, err := f.client(t).Snapshot(t.Context(), tasks, "main", nil)
	require.NoError(t, err)
	f.Inject(hubtest.Fault{Status: 503, Times: -1})
	commit, err := f.client(t).Resolve(t.Context(), tasks, "main")
	require.NoError(t, err)
	require.Equal(t, f.commit, commit)
	require.Len(t, f.waits, 1)
}

func TestListingsAreKeptInTheFormOfThePythonClient(t *testing.T) {
	f := newFixture(t)
	sum, oid, xet := strings.Repeat("a", 64), strings.Repeat("b", 40), strings.Repeat("c", 64)
	f.Inject(hubtest.Fault{Match: inPath("/tree/"), Status: 200, Body: `[{"type":"directory","oid":"x","size":0,"path":"d"},` +
		`{"type":"file","oid":"` + oid + `","size":9,"lfs":{"oid":"` + sum + `","size":9,"pointerSize":130},"xetHash":"` + xet + `","path":"d/x"},` +
		`{"type":"file","oid":"` + oid + `","size":3,"path":"a.txt"}]`})
	_, err := f.client(t).List(t.Context(), tasks, "main")
	require.NoError(t, err)
	got, err := os.ReadFile(filepath.Join(f.options.CacheDir, "datasets--acme--tasks", "trees", f.commit+".json"))
	require.NoError(t, err)
	require.Equal(t, `{
 "format_version": 1,
 "files": {
  "a.txt": {
   "size": 3,
   "blob_id": "`+oid+`"
  },
  "d/x": {
   "size": 9,
   "blob_id": "`+oid+`",
   "lfs_sha256": "`+sum+`",
   "lfs_size": 9,
   "xet_hash": "`+xet+`"
  }
 }
}`, string(got))
	l, err := f.client(t, offline).List(t.Context(), tasks, "main")
	require.NoError(t, err)
	require.False(t, l.Partial)
	require.Equal(t, []string{"a.txt", "d/x"}, paths(l.Files))
}

func BenchmarkFetch(b *testing.B) {
	const size = 256 << 20
	s := hubtest.Start(b)
	s.Put("dataset", tasks.ID, "main", map[string][]byte{"big.bin": bytesOf(size, 3)})
	b.SetBytes(size)
	for b.Loop() {
		c, err := hub.New(hub.Options{Endpoint: s.URL, CacheDir: b.TempDir()})
		require.NoError(b, err)
		_, err = c.Download(b.Context(), tasks, "main", "big.bin")
		require.NoError(b, err)
	}
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
}

func TestSeveralClientsFetchAFileOnce(t *testing.T) {
	f := newFixture(t)
	var wg sync.WaitGroup
	errs := make([]error, 8)
	for i := range errs {
		client := f.client(t, func(o *hub.Options) { o.Progress, o.Warn = nil, nil })
		wg.Go(func() { _, errs[i] = client.Download(t.Context(), tasks, "main", parquet) })
	}
	wg.Wait()
	require.NoError(t, errors.Join(errs...))
	fetched := 0
	for _, r := range f.Requests() {
		if r.CDN && r.Method == http.MethodGet {
			fetched++
		}
	}
	require.Equal(t, 1, fetched)
}

func TestCancellingEndsADownloadThatHangs(t *testing.T) {
	f := newFixture(t)
	f.Inject(hubtest.Fault{Match: toCDN, Hang: true, Times: -1})
	ctx, cancel := context.WithCancelCause(t.Context())
	f.options.Progress = nil
	c := f.client(t)
	l, err := c.List(ctx, tasks, "main")
	require.NoError(t, err)
	stop := errors.New("the user stops")
	done := make(chan error)
	go func() {
		_, err := c.Fetch(ctx, tasks, l.Commit, l.Files)
		done <- err
	}()
	for f.Count("GET", "resolve/") == 0 {
		time.Sleep(time.Millisecond)
	}
	cancel(stop)
	require.ErrorIs(t, <-done, stop)
}

func TestASilentServerIsGivenUp(t *testing.T) {
	f := newFixture(t)
	f.Inject(hubtest.Fault{Match: inPath("/revision/"), Hang: true})
	c := f.client(t, func(o *hub.Options) { o.IdleTimeout, o.Retries = 50*time.Millisecond, 100 })
	commit, err := c.Resolve(t.Context(), tasks, "main")
	require.NoError(t, err)
	require.Equal(t, f.commit, commit)
	require.NotEmpty(t, f.waits)
}

func TestProgressReachesTheWholeSize(t *testing.T) {
	f := newFixture(t)
	_, err := f.client(t).Download(t.Context(), tasks, "main", parquet)
	require.NoError(t, err)
	last := f.progress[len(f.progress)-1]
	require.Equal(t, hub.Progress{Repo: tasks, Path: parquet, Done: int64(len(large)), Total: int64(len(large)), Finished: true}, last)
	require.False(t, f.progress[0].Finished)
}

func TestHostileListingsAreRefused(t *testing.T) {
	for name, body := range map[string]string{
		"a path that leads out": `[{"type":"file","path":"../../etc/x","size":1,"oid":"` + strings.Repeat("a", 40) + `"}]`,
		"an absolute path":      `[{"type":"file","path":"/etc/x","size":1,"oid":"` + strings.Repeat("a", 40) + `"}]`,
		"a hash with a slash":   `[{"type":"file","path":"x","size":1,"oid":"../../x"}]`,
		"no hash":               `[{"type":"file","path":"x","size":1}]`,
		"a negative size":       `[{"type":"file","path":"x","size":-1,"oid":"` + strings.Repeat("a", 40) + `"}]`,
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.Inject(hubtest.Fault{Match: inPath("/tree/"), Status: 200, Body: body, Times: -1})
			_, err := f.client(t).List(t.Context(), tasks, "main")
			require.ErrorIs(t, err, hub.ErrCorrupt)
		})
	}
}

func TestNextPagesOfAnotherHostAreAskedFromTheEndpoint(t *testing.T) {
	f := newFixture(t)
	f.AllowToken("hf_t")
	f.Inject(hubtest.Fault{Match: inPath("/tree/"), Status: 200, Body: "[]", Header: map[string]string{
		"Link": `<https://huggingface.co/api/datasets/acme/tasks/tree/` + f.commit + `?recursive=true&cursor=0&limit=9>; rel="next"`,
	}})
	l, err := f.client(t, func(o *hub.Options) { o.Token = "hf_t" }).List(t.Context(), tasks, "main")
	require.NoError(t, err)
	require.Len(t, l.Files, 4)
	require.Equal(t, 2, f.Count("GET", "/tree/"))
}

func TestNamesAreChecked(t *testing.T) {
	f := newFixture(t)
	c := f.client(t)
	for _, id := range []string{"", "a/b/c", "../x", "a/..", "a--b/c", "a b/c", "a/b.git", "-x/y", "a/b-", strings.Repeat("x", 200)} {
		_, err := c.Resolve(t.Context(), hub.Repo{Type: hub.Dataset, ID: id}, "main")
		require.ErrorContains(t, err, "is no name of a dataset", id)
	}
	_, err := c.Resolve(t.Context(), hub.Repo{Type: "space", ID: "a/b"}, "main")
	require.ErrorContains(t, err, "space")
	for _, rev := range []string{"../x", "/x", "a b", "a..b/../c", "x?", "-x"} {
		_, err := c.Resolve(t.Context(), tasks, rev)
		require.ErrorContains(t, err, "is no revision", rev)
	}
	for _, path := range []string{"", "../x", "/x", "a/../b", `a\b`, "C:/x", "./x"} {
		_, err := c.Download(t.Context(), tasks, "main", path)
		require.ErrorContains(t, err, "is no path", path)
	}
	_, err = c.Fetch(t.Context(), tasks, "main", nil)
	require.ErrorContains(t, err, "resolve the revision")
	require.Empty(t, f.Requests())
	for _, endpoint := range []string{"huggingface.co", "ftp://x", "https://user:pw@x", "https://x?y"} {
		_, err := hub.New(hub.Options{Endpoint: endpoint, CacheDir: t.TempDir()})
		require.ErrorContains(t, err, "HF_ENDPOINT")
		require.NotContains(t, err.Error(), "pw")
	}
}
