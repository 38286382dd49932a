package server

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/env/atropos"
	"github.com/hermes-env/hermes-env/env/atropos/client"
	"github.com/hermes-env/hermes-env/internal/slowtest"
)

// serveVariable makes the test binary a server, on a port and a directory.
const serveVariable = "HERMES_ENV_API_TEST"

func TestMain(m *testing.M) {
	if setup := os.Getenv(serveVariable); setup != "" {
		port, dir, _ := strings.Cut(setup, " ")
		if err := serveForTest(port, dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func serveForTest(port, dir string) error {
	number, err := strconv.Atoi(port)
	if err != nil {
		return err
	}
	listeners, err := Listen(context.Background(), "localhost", number)
	if err != nil {
		return err
	}
	s, err := New(Config{Dir: dir, MinFree: -1, FileSize: 64 << 10}) // files turn over often
	if err != nil {
		return err
	}
	fmt.Println(listeners[0].Addr().String())
	return s.Serve(context.Background(), listeners, time.Second)
}

// process is a server that can be killed.
type process struct {
	command *exec.Cmd
	url     string
}

func spawn(t *testing.T, port, dir string) *process {
	t.Helper()
	command := exec.Command(os.Args[0], "-test.run=^$")
	command.Env = append(os.Environ(), serveVariable+"="+port+" "+dir)
	command.Stderr = os.Stderr
	out, err := command.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, command.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err, "the server says where it listens")
	return &process{command, "http://" + strings.TrimSpace(line)}
}

func (p *process) kill(t *testing.T) {
	t.Helper()
	require.NoError(t, p.command.Process.Kill())
	_ = p.command.Wait() // it says that it was killed
}

// again calls until it succeeds or the context ends: the server may be dead just now.
func again(ctx context.Context, call func() error) error {
	for {
		err := call()
		if err == nil || ctx.Err() != nil || !client.Retryable(err) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(2 * time.Millisecond):
		}
	}
}

// TestNothingIsLostOrDeliveredTwiceWhenTheServerIsKilled kills the server at random
// moments while workers post and a trainer, which uses the names of posts and
// batches, takes what they posted.
func TestNothingIsLostOrDeliveredTwiceWhenTheServerIsKilled(t *testing.T) {
	slowtest.Require(t)
	const workers = 3
	kills := slowtest.Times(6, 100)
	dir := t.TempDir()
	p := spawn(t, "0", dir)
	port := p.url[strings.LastIndexByte(p.url, ':')+1:]
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	api, err := client.New(client.Config{URL: p.url, Timeout: 10 * time.Second})
	require.NoError(t, err)
	register := func() error {
		_, err := api.Register(ctx, atropos.Registration{BatchSize: 4, MaxTokenLen: 100_000})
		return err
	}
	require.NoError(t, again(ctx, register))

	stop := make(chan struct{})
	var mu sync.Mutex
	var posted int64
	var running sync.WaitGroup
	for w := range workers {
		running.Go(func() {
			padding := int64(1)
			for n := int64(0); ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				tag := int64(w)*1_000_000 + n
				tokens := make([]int64, 200)
				for i := range tokens {
					padding = padding*1103515245 + 12345
					tokens[i] = padding >> 16 & 0x7fff
				}
				tokens[0] = tag
				body, err := atropos.AppendGroup(nil, &atropos.Group{Tokens: [][]int64{tokens}, Masks: [][]int64{tokens}, Scores: []float64{1}})
				if err == nil {
					var post client.Post
					if post, err = client.NewPost(body, false, fmt.Sprintf("post-%d", tag)); err == nil {
						err = again(ctx, func() error { _, err := api.Send(ctx, post); return err })
					}
				}
				if err != nil {
					t.Errorf("worker %d: %v", w, err)
					return
				}
				mu.Lock()
				posted++
				mu.Unlock()
			}
		})
	}
	used := map[string]bool{}
	seen := map[int64]int{}
	var trained sync.WaitGroup
	var idle bool
	trained.Go(func() {
		last := ""
		for ctx.Err() == nil {
			var batch *client.Batch
			err := again(ctx, func() (err error) {
				batch, err = api.Batch(ctx, client.BatchOptions{Acknowledge: true, Last: last})
				return err
			})
			if err != nil {
				t.Errorf("trainer: %v", err)
				return
			}
			if batch == nil {
				mu.Lock()
				done := idle
				mu.Unlock()
				if done {
					return
				}
				time.Sleep(time.Millisecond)
				continue
			}
			last = batch.ID
			if used[batch.ID] {
				continue
			}
			used[batch.ID] = true
			for _, raw := range batch.Groups {
				var g atropos.Group
				if err := json.Unmarshal(raw, &g); err != nil {
					t.Errorf("trainer: %v", err)
					return
				}
				seen[g.Tokens[0][0]]++
			}
		}
	})
	random := rand.New(rand.NewPCG(1, 2))
	for range kills {
		time.Sleep(time.Duration(10+random.IntN(60)) * time.Millisecond)
		p.kill(t)
		p = spawn(t, port, dir)
	}
	close(stop)
	running.Wait()
	mu.Lock()
	idle = true
	total := posted
	mu.Unlock()
	trained.Wait()
	held := must(api.Overview(ctx)).Queue.Groups
	require.Less(t, held, int64(4), "what doesn't fill a batch is left")
	require.Equal(t, total, int64(len(seen))+held, "no group is lost")
	for tag, times := range seen {
		require.Equal(t, 1, times, "group %d is delivered once", tag)
	}
	require.Greater(t, total, int64(kills))
	t.Logf("%d groups and %d batches over %d kills", total, len(used), kills)
	p.kill(t)
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func TestEverythingSurvivesARestart(t *testing.T) {
	dir := t.TempDir()
	f := open(t, Config{Dir: dir})
	f.post("/register", withBatchSize("2"))
	f.get("/batch")
	f.post("/register-env", worker("2", ""))
	f.post("/scored_data", group(1, "3", `,"env_id":0`), "Idempotency-Key", "k")
	f.post("/scored_data", group(2, "5", `,"env_id":0`))
	f.post("/scored_data", group(2, "6", `,"env_id":0`))
	unacknowledged := f.do("GET", "/batch", "", "X-Ack-Batch", "")
	for range 2 {
		require.NoError(t, f.server.Close())
		f.web.Close()
		f = open(t, Config{Dir: dir})
		require.Equal(t, `{"batch_size":2,"max_token_len":512}`, f.get("/info"))
		require.Equal(t, `{"current_step":1,"queue_size":1}`, f.get("/status"))
		require.Contains(t, f.get("/status-env?env_id=0"), `"self_queue_size":1`)
		require.Equal(t, `{"status":"buffered","buffer_size":1}`, f.post("/scored_data", group(1, "3", `,"env_id":0`), "Idempotency-Key", "k"))
		require.Contains(t, f.get("/latest_example"), `"tokens":[[6,2],[6,2]]`)
		redelivered := f.do("GET", "/batch", "", "X-Ack-Batch", "")
		require.Equal(t, unacknowledged.body, redelivered.body)
		require.Equal(t, unacknowledged.header.Get("X-Batch-Id"), redelivered.header.Get("X-Batch-Id"))
	}
	require.Equal(t, "6", tags(f.do("GET", "/batch", "", "X-Ack-Batch", unacknowledged.header.Get("X-Batch-Id")).body))
	require.Equal(t, `{"status":"success","env_id":1,"wandb_name":"toy_1","checkpoint_dir":"/ckpt","starting_step":2,"checkpoint_interval":2,"num_steps":100}`, f.post("/register-env", worker("2", "")))
}

func TestABatchThatBrokeOffIsDeliveredAgain(t *testing.T) {
	f := open(t, Config{})
	f.post("/register", withBatchSize("8"))
	long := `,"messages":[[{"role":"user","content":"` + noise(2<<20) + `"}]]`
	for range 8 {
		f.post("/scored_data", group(1, "5", long))
	}
	api, err := client.New(client.Config{URL: f.web.URL})
	require.NoError(t, err)
	resp := must(http.Get(f.web.URL + "/batch"))
	id := resp.Header.Get("X-Batch-Id")
	_, err = io.CopyN(io.Discard, resp.Body, 1000)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close()) // the trainer goes away in the middle
	var batch *client.Batch
	require.Eventually(t, func() bool {
		batch, err = api.Batch(context.Background(), client.BatchOptions{})
		return err == nil && batch != nil
	}, 20*time.Second, time.Millisecond)
	require.Equal(t, id, batch.ID)
	require.Len(t, batch.Groups, 8)
	require.Equal(t, `{"current_step":1,"queue_size":0}`, f.get("/status"))
	require.Contains(t, f.get("/metrics"), "hermes_api_interrupted_batches_total 1\n")
}

// noise is text that doesn't pack well.
func noise(n int) string {
	random := rand.New(rand.NewPCG(3, 4))
	b := make([]byte, n)
	for i := range b {
		b[i] = 'a' + byte(random.IntN(26))
	}
	return string(b)
}

func TestFilesOfTheJournalGoWhenNothingInThemIsNeeded(t *testing.T) {
	dir := t.TempDir()
	f := open(t, Config{Dir: dir, FileSize: 20_000, NoSync: true})
	f.post("/register", withBatchSize("2"))
	f.post("/scored_data", group(1, "3", "")) // alone in its size once the others are there
	stuck := `,"messages":[[{"role":"user","content":"` + noise(3000) + `"}]]`
	f.post("/register", withBatchSize("3"))
	for range 60 {
		f.post("/scored_data", group(3, "5", strings.Replace(stuck, "[[", "[[],[],[", 1)))
		require.Equal(t, "5", tags(f.get("/batch")))
	}
	var files []os.DirEntry
	require.Eventually(t, func() bool {
		var err error
		files, err = os.ReadDir(dir)
		require.NoError(t, err)
		f.post("/scored_data", group(3, "5", strings.Replace(stuck, "[[", "[[],[],[", 1)))
		f.get("/batch")
		return len(files) <= 5
	}, 20*time.Second, time.Millisecond, "the group that nobody takes moves to newer files")
	require.NoError(t, f.server.Close())
	f.web.Close()
	f = open(t, Config{Dir: dir})
	f.post("/register", withBatchSize("1"))
	require.Equal(t, "3", tags(f.get("/batch")))
}
