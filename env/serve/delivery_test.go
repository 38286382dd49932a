package serve

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"github.com/hermes-env/hermes-env/agentloop/chat"
	"github.com/hermes-env/hermes-env/env/atropos"
	"github.com/hermes-env/hermes-env/env/atropos/client"
	"github.com/hermes-env/hermes-env/trajectories"
)

func batches(t *testing.T, trainer *client.Client, n int) []int64 {
	t.Helper()
	var tags []int64
	last := ""
	deadline := time.Now().Add(patience)
	for taken := 0; taken < n; {
		require.True(t, time.Now().Before(deadline), "%d of %d batches came", taken, n)
		b, err := trainer.Batch(t.Context(), client.BatchOptions{Acknowledge: true, Last: last})
		require.NoError(t, err)
		if b == nil {
			time.Sleep(2 * time.Millisecond)
			continue
		}
		taken++
		last = b.ID
		for _, g := range b.Groups {
			tags = append(tags, gjson.GetBytes(g, "tokens.0.0").Int())
		}
	}
	require.NoError(t, trainer.Ack(t.Context(), last))
	slices.Sort(tags)
	return tags
}

func TestGroupsReachTheTrainerAsTheyAre(t *testing.T) {
	a := newAPI(t)
	a.up()
	trainer := a.trainer()
	w := newWorker(a, func(c *Config) { c.IncludeMessages = true })
	w.ready()
	for step := range 2 {
		w.admit()
		require.NoError(t, w.Write(group(step, func(g *trajectories.Group) {
			g.Overrides = json.RawMessage(`{"env_id":null,"x":"<é>"}`)
			for i := range g.Sequences {
				g.Sequences[i].Messages = []chat.Message{chat.User(`"env_id":null,`)}
			}
		})))
		w.Ended(step)
	}
	b, err := trainer.Batch(t.Context(), client.BatchOptions{})
	for ; err == nil && b == nil; b, err = trainer.Batch(t.Context(), client.BatchOptions{}) {
		time.Sleep(2 * time.Millisecond)
	}
	require.NoError(t, err)
	require.Len(t, b.Groups, 2)
	slices.SortFunc(b.Groups, func(x, y json.RawMessage) int { return strings.Compare(string(x), string(y)) })
	require.Equal(t, `{"tokens":[[0,7,8],[0,7,8]],"masks":[[-100,7,8],[-100,7,8]],"scores":[0.0,1.0],"advantages":null,"ref_logprobs":null,`+
		`"messages":[[{"role":"user","content":"\"env_id\":null,"}],[{"role":"user","content":"\"env_id\":null,"}]],"generation_params":null,`+
		`"inference_logprobs":[[1.0,-0.5,-0.25],[1.0,-0.5,-0.25]],"overrides":null,"group_overrides":{"env_id":null,"x":"<é>"},"images":null,"env_id":0,"distill_token_ids":null,"distill_logprobs":null}`,
		string(b.Groups[0]))
	w.notes.mu.Lock()
	defer w.notes.mu.Unlock()
	require.Equal(t, Collected{Step: 0, Sequences: 2, Lengths: []int{2, 2}, MeanScore: 0.5}, w.notes.collected[0])
}

func TestGroupsWithoutTokensAreSentOnlyWhereThatIsWanted(t *testing.T) {
	a := newAPI(t)
	a.up()
	a.trainer()
	bare := func(g *trajectories.Group) {
		for i := range g.Sequences {
			s := &g.Sequences[i]
			s.Tokens, s.Masks, s.Logprobs = nil, nil, nil
			s.Messages = []chat.Message{chat.User("what is the sum of these numbers?"), chat.Assistant("it is 12", "")}
		}
	}
	w := newWorker(a)
	require.ErrorContains(t, w.Write(group(0, bare)), "the model servers reported no tokens for it")
	require.False(t, w.Has(0))

	w = newWorker(a, func(c *Config) { c.Placeholders = true })
	w.ready()
	require.NoError(t, w.Write(group(0, bare)))
	w.sent(1)
	var latest json.RawMessage
	resp, err := http.Get(a.url() + "/latest_example")
	require.NoError(t, err)
	require.NoError(t, json.NewDecoder(resp.Body).Decode(&latest))
	require.NoError(t, resp.Body.Close())
	http.DefaultClient.CloseIdleConnections()
	require.True(t, gjson.GetBytes(latest, "group_overrides.placeholder_tokens").Bool(), "they are marked")
	require.Equal(t, "it is 12", gjson.GetBytes(latest, "messages.1.1.content").String(), "and come with the conversations, also when those are not asked for")
}

func TestNothingIsLostWhileTheServerIsAway(t *testing.T) {
	a := newAPI(t)
	a.up()
	trainer := a.trainer()
	w := newWorker(a, func(c *Config) { c.Throttle.MaxGroups, c.Throttle.SpoolGroups = 20, 2 })
	w.ready()
	w.admit()
	require.NoError(t, w.Write(group(0)))
	w.Ended(0)
	w.sent(1)
	require.Eventually(t, func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.link.status.QueueSize == 1 && w.posted == w.counted
	}, patience, time.Millisecond, "the server's last word is about it")
	a.down()
	w.notes.told("can't be worked with")
	for step := 1; step < 8; step++ { // the limit of 6 groups, and 2 more
		w.admit()
		require.NoError(t, w.Write(group(step)))
		w.Ended(step)
	}
	w.held(HoldServer)
	require.Equal(t, 7, w.Status().Spooled)
	a.up()
	w.sent(8)
	w.notes.told("the API server is back")
	require.Equal(t, []int64{0, 1, 2, 3, 4, 5, 6, 7}, batches(t, trainer, 4))
	require.Len(t, a.overview().Workers, 1, "it is the worker it was")
}

func TestAGroupWhoseReplyWasLostCountsOnce(t *testing.T) {
	a := newAPI(t)
	f := a.flaky()
	var dropped atomic.Int64
	spoil := func(w http.ResponseWriter, r *http.Request, next http.Handler) bool {
		if r.URL.Path != "/scored_data" || dropped.Add(1) > 3 {
			return false
		}
		next.ServeHTTP(httptest.NewRecorder(), r)
		panic(http.ErrAbortHandler)
	}
	f.spoil.Store(&spoil)
	a.up()
	trainer := a.trainer()
	w := newWorker(a)
	w.ready()
	require.NoError(t, w.Write(group(0)))
	require.NoError(t, w.Write(group(1)))
	w.sent(2)
	require.Equal(t, []int64{0, 1}, batches(t, trainer, 1))
	totals := a.overview().Totals
	require.EqualValues(t, 2, totals.Groups)
	require.EqualValues(t, 3, totals.Duplicates)
}

func TestAGroupThatIsRefusedIsKeptWithTheReasonAndTheOthersGoOn(t *testing.T) {
	a := newAPI(t)
	a.up()
	a.trainer()
	w := newWorker(a)
	w.ready()
	long := func(g *trajectories.Group) {
		g.Sequences[1].Tokens, g.Sequences[1].Masks, g.Sequences[1].Logprobs = make([]int, 65), make([]int, 65), make([]float64, 65)
	}
	require.NoError(t, w.Write(group(0, long)))
	require.NoError(t, w.Write(group(1)))
	w.sent(1)
	require.EqualValues(t, 1, w.Status().Refused.Groups)
	w.notes.told("refused the group of step 0")
	require.NoError(t, w.finish())
	raw, err := os.ReadFile(filepath.Join(w.dir, refusedFile))
	require.NoError(t, err)
	require.Equal(t, 1, strings.Count(string(raw), "\n"))
	line := gjson.ParseBytes(raw)
	require.EqualValues(t, 422, line.Get("status").Int())
	require.Equal(t, "item-0", line.Get("item_id").String())
	require.Contains(t, line.Get("detail").String(), "at most 64 (max_token_len)")
	require.Len(t, line.Get("group.tokens.1").Array(), 65, "the group is kept whole")
	require.True(t, w.Has(0), "it is not made again")
}

func TestAServerThatIsFullIsSentToLater(t *testing.T) {
	a := newAPI(t)
	a.config.MaxSequences, a.config.Patience = 4, -1
	f := a.flaky()
	var asked atomic.Int64
	spoil := func(w http.ResponseWriter, r *http.Request, next http.Handler) bool {
		// The server's own Retry-After is seconds; a test has no time for those.
		if r.URL.Path != "/scored_data" {
			return false
		}
		asked.Add(1)
		recorder := httptest.NewRecorder()
		next.ServeHTTP(recorder, r)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(recorder.Code)
		_, _ = w.Write(recorder.Body.Bytes())
		return true
	}
	f.spoil.Store(&spoil)
	a.up()
	trainer := a.trainer()
	w := newWorker(a, func(c *Config) { c.Throttle.MaxGroups, c.Throttle.MaxBatches = 20, 2 })
	w.ready()
	for step := range 4 {
		w.admit()
		require.NoError(t, w.Write(group(step)))
		w.Ended(step)
	}
	w.notes.told("groups can't be sent for now")
	w.held(HoldQueue)
	require.Equal(t, []int64{0, 1, 2, 3}, batches(t, trainer, 2))
	w.sent(4)
	require.Greater(t, asked.Load(), int64(4))
}

func TestRetryAfterIsHonoured(t *testing.T) {
	a := newAPI(t)
	f := a.flaky()
	var times sync.Map
	var posts atomic.Int64
	spoil := func(w http.ResponseWriter, r *http.Request, _ http.Handler) bool {
		if r.URL.Path != "/scored_data" {
			return false
		}
		n := posts.Add(1)
		times.Store(n, time.Now())
		if n > 1 {
			return false
		}
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusServiceUnavailable)
		return true
	}
	f.spoil.Store(&spoil)
	a.up()
	a.trainer()
	w := newWorker(a, func(c *Config) { c.MaxBackoff = 200 * time.Millisecond })
	w.ready()
	require.NoError(t, w.Write(group(0)))
	w.sent(1)
	first, _ := times.Load(int64(1))
	second, _ := times.Load(int64(2))
	require.GreaterOrEqual(t, second.(time.Time).Sub(first.(time.Time)), 900*time.Millisecond)
}

func TestAWorkerThatWasKilledGoesOnWhereItWas(t *testing.T) {
	a := newAPI(t)
	f := a.flaky()
	a.up()
	trainer := a.trainer()
	w := newWorker(a)
	w.ready()
	// The server takes the first group and its replies are lost from then on.
	lost := make(chan struct{})
	var once sync.Once
	spoil := func(_ http.ResponseWriter, r *http.Request, next http.Handler) bool {
		if r.URL.Path != "/scored_data" {
			return false
		}
		next.ServeHTTP(httptest.NewRecorder(), r)
		once.Do(func() { close(lost) })
		panic(http.ErrAbortHandler)
	}
	f.spoil.Store(&spoil)
	require.NoError(t, w.Write(group(0)))
	<-lost
	require.NoError(t, w.Write(group(1)))
	left := copied(t, w.dir)

	f.spoil.Store(nil)
	next := newWorkerIn(a, left)
	next.ready()
	require.True(t, next.Has(0) && next.Has(1), "they are not made again")
	next.sent(2)
	require.NoError(t, next.Write(group(0)), "a group that is there is not taken twice")
	require.Equal(t, []int64{0, 1}, batches(t, trainer, 1))
	o := a.overview()
	require.Len(t, o.Workers, 1, "it takes up its registration")
	require.EqualValues(t, 2, o.Totals.Groups)
}

func TestWhatCouldNotBeSentInTimeStays(t *testing.T) {
	a := newAPI(t)
	w := newWorker(a)
	require.NoError(t, w.Write(group(0)))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w.over = true
	require.NoError(t, w.Finish(ctx))
	a.up()
	trainer := a.trainer(func(r *atropos.Registration) { r.BatchSize = 2 })
	w = newWorkerIn(a, w.dir)
	require.Equal(t, []int64{0}, batches(t, trainer, 1))
	w.sent(1)
}

type fileSink struct {
	mu    sync.Mutex
	steps []int
}

func (s *fileSink) Has(step int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Contains(s.steps, step)
}

func (s *fileSink) Write(g trajectories.Group) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.steps = append(s.steps, g.Step)
	return nil
}

func TestAGroupGoesToTheGroupFileToo(t *testing.T) {
	file := &fileSink{steps: []int{1}} // killed between file and spool
	w := newWorker(newAPI(t), func(c *Config) { c.GroupFile = file })
	require.False(t, w.Has(0))
	require.NoError(t, w.Write(group(0)))
	require.True(t, w.Has(0))
	require.False(t, w.Has(1))
	require.NoError(t, w.Write(group(1)))
	require.True(t, w.Has(1))
	require.Equal(t, []int{1, 0}, file.steps)
	require.Equal(t, 2, w.Status().Spooled)
}
