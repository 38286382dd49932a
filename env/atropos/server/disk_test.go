package server

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"
)

// disk is one that a test fills.
type disk struct {
	full atomic.Bool
	left atomic.Int64
	log  bytes.Buffer
}

func (d *disk) config(dir string) Config {
	return Config{Dir: dir, diskPoll: time.Hour, Log: slog.New(slog.NewTextHandler(&d.log, nil)),
		write: func(f *os.File, p []byte) (int, error) {
			if d.full.Load() {
				return 0, syscall.ENOSPC
			}
			return f.Write(p)
		},
		free: func(string) (int64, error) { return d.left.Load(), nil },
	}
}

func TestServer_RecoversFromAFullDisk(t *testing.T) {
	var d disk
	f := open(t, d.config(t.TempDir()))
	f.post("/register", withBatchSize("2"))
	f.get("/batch")
	f.post("/register-env", worker("1", ""))
	f.post("/scored_data", group(1, "5", `,"env_id":0`))
	before := f.get("/overview")

	d.full.Store(true)
	refused := f.do("POST", "/register", withBatchSize("8"))
	require.Equal(t, 503, refused.code, refused.body)
	require.Equal(t, 503, f.do("POST", "/register-env", worker("1", "")).code)
	require.Equal(t, 503, f.do("POST", "/scored_data", group(1, "6", `,"env_id":0`)).code)
	health := f.do("GET", "/healthz", "")
	require.Equal(t, 503, health.code)
	require.Contains(t, health.body, "no space left on device")
	require.Contains(t, f.get("/info"), `"batch_size":2`)
	for _, path := range []string{"workers", "queue", "trainer"} {
		shown := gjson.Get(f.get("/overview"), path).Raw
		if path == "workers" {
			require.Equal(t, int64(1), gjson.Get(shown, "#").Int(), "what was refused does not show")
			continue
		}
		require.Equal(t, gjson.Get(before, path).Raw, shown)
	}
	f.server.store.checkDisk()
	require.Equal(t, 503, f.do("GET", "/healthz", "").code, "the disk is still full")
	require.Contains(t, d.log.String(), "no posts are taken")

	d.full.Store(false)
	f.server.store.checkDisk()
	require.Equal(t, `{"status":"ok"}`, f.get("/healthz"))
	require.Contains(t, d.log.String(), "posts are taken again")
	f.post("/scored_data", group(1, "7", `,"env_id":0`))
	require.Equal(t, "5 7", tags(f.get("/batch")))
}

func TestServer_BatchBeingSentIsNotSentAgainAfterAFullDisk(t *testing.T) {
	var d disk
	f := open(t, d.config(t.TempDir()))
	f.post("/register", withBatchSize("1"))
	f.post("/scored_data", group(1, "5", ""))
	f.post("/scored_data", group(1, "6", ""))
	delivery, _, number, err := f.server.begin(nil, false)
	require.NoError(t, err)
	defer delivery.close(f.server)
	require.NoError(t, f.server.store.log.Wait(t.Context(), number))
	d.full.Store(true)
	require.Equal(t, 503, f.do("POST", "/scored_data", group(1, "7", "")).code)
	d.full.Store(false)
	f.server.store.checkDisk()
	require.Equal(t, "6", tags(f.get("/batch")))
	f.server.giveBack(delivery)
	require.Equal(t, "5", tags(f.get("/batch")), "its reply broke off")
}

func TestServer_HealthSaysThatTheDiskIsShort(t *testing.T) {
	var d disk
	f := open(t, d.config(t.TempDir()))
	f.server.store.config.MinFree, f.server.config.MinFree = 1000, 1000
	f.post("/register", withBatchSize("1"))
	d.left.Store(999)
	f.server.store.checkDisk()
	health := f.do("GET", "/healthz", "")
	require.Equal(t, 503, health.code)
	require.Contains(t, health.body, "has 999 bytes left, and 1000 are kept free")
	require.Equal(t, 503, f.do("POST", "/scored_data", group(1, "5", "")).code)
	require.Equal(t, 1, strings.Count(d.log.String(), "no posts are taken"))
	d.left.Store(1 << 20)
	f.server.store.checkDisk()
	require.Equal(t, `{"status":"ok"}`, f.get("/healthz"))
	f.post("/scored_data", group(1, "5", ""))
}

func TestServer_HealthSaysThatPostsDoNotFit(t *testing.T) {
	var d disk
	f := open(t, d.config(t.TempDir()))
	st := f.server.store
	st.config.MinFree, f.server.config.MinFree = 1000, 1000
	now := time.Now()
	clock := func() time.Time { return now }
	st.config.clock, f.server.config.clock = clock, clock
	f.post("/register", withBatchSize("1"))
	d.left.Store(1001) // enough for nothing, and more than is kept free
	require.Equal(t, `{"status":"ok"}`, f.get("/healthz"))
	for range 2 {
		require.Equal(t, 503, f.do("POST", "/scored_data", group(1, "5", "")).code)
		st.checkDisk()
		health := f.do("GET", "/healthz", "")
		require.Equal(t, 503, health.code)
		require.Contains(t, health.body, "has 1001 bytes left, and 1000 are kept free; a post of ")
		require.Contains(t, gjson.Get(f.get("/overview"), "problem").String(), "has 1001 bytes left")
	}
	require.Equal(t, 1, strings.Count(d.log.String(), "no posts are taken"), d.log.String())
	require.NotContains(t, d.log.String(), "posts are taken again")
	room := st.room
	d.left.Store(1 << 20)
	st.checkDisk()
	require.Equal(t, `{"status":"ok"}`, f.get("/healthz"))
	require.Equal(t, 1, strings.Count(d.log.String(), "posts are taken again"))
	select {
	case <-room:
	default:
		t.Fatal("posts that wait for the disk are not tried again")
	}
	f.post("/scored_data", group(1, "5", ""))

	d.left.Store(1001)
	require.Equal(t, 503, f.do("POST", "/scored_data", group(1, "7", "")).code)
	st.short.bytes = 1 << 30 // as if it had been one that never fits
	d.left.Store(1 << 20)
	st.checkDisk()
	require.Equal(t, 503, f.do("GET", "/healthz", "").code)
	now = now.Add(2 * shortageMemory)
	f.post("/scored_data", group(1, "5", ""))
	st.checkDisk()
	require.Equal(t, `{"status":"ok"}`, f.get("/healthz"), "others have been taken since")
}

func TestServer_GivesBackTheSpaceOfADrainedJournal(t *testing.T) {
	var d disk
	dir := t.TempDir()
	f := open(t, d.config(dir))
	f.post("/register", withBatchSize("1"))
	size := func() (total int64) {
		files, err := filepath.Glob(filepath.Join(dir, "*.journal"))
		require.NoError(t, err)
		for _, path := range files {
			info, err := os.Stat(path)
			require.NoError(t, err)
			total += info.Size()
		}
		return total
	}
	noise := make([]byte, 300_000) // that gzip doesn't shorten much
	random := uint64(1)
	for i := range noise {
		random = random*6364136223846793005 + 1442695040888963407
		noise[i] = 'a' + byte(random>>60)
	}
	f.post("/scored_data", group(1, "1", ""))
	for range 10 {
		f.post("/scored_data", group(1, "5", `,"images":"`+string(noise)+`"`))
	}
	f.post("/scored_data", group(1, "6", "")) // stays as the latest example
	full := size()
	require.Greater(t, full, int64(1<<20))
	f.server.store.checkDisk()
	require.Equal(t, full, size(), "groups wait")
	for range 12 {
		require.NotEqual(t, `{"batch":null}`, f.get("/batch"))
	}
	require.Eventually(t, func() bool {
		f.server.store.checkDisk()
		return size() < 20_000
	}, 10*time.Second, time.Millisecond)
	files, err := filepath.Glob(filepath.Join(dir, "*.journal"))
	require.NoError(t, err)
	f.server.store.checkDisk()
	after, err := filepath.Glob(filepath.Join(dir, "*.journal"))
	require.NoError(t, err)
	require.Equal(t, files, after, "no new files without need")
	require.Contains(t, f.get("/latest_example"), "[6,2]")
}

func TestServer_SweepsTemporaryDirectoriesOfKilledServers(t *testing.T) {
	parent := t.TempDir()
	t.Setenv("TMPDIR", parent)
	alive := open(t, Config{})
	killed := filepath.Join(parent, temporary+"killed")
	require.NoError(t, os.CopyFS(killed, os.DirFS(alive.server.Dir())))
	foreign := filepath.Join(parent, temporary+"foreign")
	require.NoError(t, os.Mkdir(foreign, 0o700))
	fresh := filepath.Join(parent, temporary+"fresh")
	require.NoError(t, os.CopyFS(fresh, os.DirFS(alive.server.Dir())))
	old := time.Now().Add(-time.Hour)
	for _, dir := range []string{killed, foreign, alive.server.Dir()} {
		require.NoError(t, os.Chtimes(dir, old, old))
	}
	open(t, Config{})
	require.NoDirExists(t, killed)
	require.DirExists(t, foreign, "it holds no state")
	require.DirExists(t, fresh, "its server may be starting")
	require.DirExists(t, alive.server.Dir())
}
