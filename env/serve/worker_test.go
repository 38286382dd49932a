package serve

import (
	"context"
	"encoding/json"
	"errors"
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
	"github.com/hermes-env/hermes-env/env"
	"github.com/hermes-env/hermes-env/env/atropos"
	"github.com/hermes-env/hermes-env/env/atropos/client"
	"github.com/hermes-env/hermes-env/trajectories"
)

func containsText(text, part string) bool { return strings.Contains(text, part) }

// batches takes n batches and returns the first token of each group in them, sorted.
func batches(t *testing.T, trainer *client.Client, n int) []int64 {
	t.Helper()
	var tags []int64
	last := ""
	for taken := 0; taken < n; {
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

func TestAWorkerWaitsForTheServerAndThenForTheTrainer(t *testing.T) {
	a := newAPI(t)
	w := newWorker(a)
	w.notes.told("can't be worked with")
	w.held(HoldServer)
	a.up()
	w.notes.told("waits for its trainer")
	w.held(HoldTrainer)
	a.trainer()
	w.ready()
	w.notes.told("registered as toy_0 with " + a.url() + ": step 0 of 100, batches of 4 sequences")
	require.Equal(t, 64, w.MaxSequenceTokens())
	require.Equal(t, "p", *w.WandbInfo().Project)
	row := a.overview().Workers[0]
	require.Equal(t, "toy_0", row.Name)
	require.EqualValues(t, 2, row.GroupSize)
	require.InDelta(t, 1, row.Weight, 0)
	w.admit()
	require.NoError(t, w.finish())
	require.False(t, a.overview().Workers[0].Connected, "it says goodbye")
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

func TestNewGroupsWaitWhileTheTrainerHasEnough(t *testing.T) {
	a := newAPI(t)
	a.up()
	trainer := a.trainer()
	w := newWorker(a, func(c *Config) { c.Throttle.MaxGroups = 20 })
	w.ready()
	for step := range 6 { // three batches of 4 sequences
		w.admit()
		if step < 4 {
			require.NoError(t, w.Write(group(step)))
			w.Ended(step)
		}
	}
	w.held(HoldQueue)
	require.Len(t, batches(t, trainer, 1), 2)
	w.admit()
	w.admit()
	w.held(HoldQueue)
}

func TestADroppedGroupMakesRoomForAnother(t *testing.T) {
	a := newAPI(t)
	a.up()
	a.trainer()
	w := newWorker(a, func(c *Config) { c.Throttle.MaxGroups = 1 })
	w.ready()
	w.admit()
	w.held(HoldBusy)
	w.Ended(0)
	w.admit()
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

func TestAServerThatLostItsMemoryIsRegisteredWithAgain(t *testing.T) {
	a := newAPI(t)
	a.up()
	a.trainer()
	w := newWorker(a)
	w.ready()
	a.down()
	require.NoError(t, w.Write(group(0)))
	require.NoError(t, w.Write(group(1)))
	a.forget()
	a.up()
	w.notes.told("registering again")
	w.held(HoldTrainer)
	trainer := a.trainer()
	require.Equal(t, []int64{0, 1}, batches(t, trainer, 1))
	w.admit()
}

func TestAServerThatWasResetIsRegisteredWithAgain(t *testing.T) {
	a := newAPI(t)
	a.up()
	trainer := a.trainer()
	w := newWorker(a)
	w.ready()
	require.NoError(t, trainer.Reset(t.Context()))
	w.notes.told("has forgotten this worker")
	w.held(HoldTrainer)
	a.trainer(func(r *atropos.Registration) { r.BatchSize = 8 })
	w.admit()
	require.EqualValues(t, 8, w.Status().BatchSize)
}

// The reply to a post is lost after the server took the group: it is sent again and
// counts once.
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

// What a killed process leaves is sent first by the next one, under the keys and the
// number it had.
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

func TestAWorkerThatLeftInGoodOrderRegistersAnew(t *testing.T) {
	a := newAPI(t)
	a.up()
	a.trainer()
	dir := t.TempDir()
	w := newWorkerIn(a, dir)
	w.ready()
	require.NoError(t, w.finish())
	w = newWorkerIn(a, dir)
	w.ready()
	require.Equal(t, "toy_1", w.Status().Name)
	o := a.overview()
	require.False(t, o.Workers[0].Connected)
	require.True(t, o.Workers[1].Connected)
}

func TestEvaluationsFollowTheTrainersSteps(t *testing.T) {
	a := newAPI(t)
	a.up()
	trainer := a.trainer(func(r *atropos.Registration) { r.StartingStep = 3 })
	begun := make(chan int64)
	end := make(chan error)
	dir := t.TempDir()
	evaluate := func(c *Config) {
		c.EvalEvery = 10
		c.Evaluate = func(ctx context.Context, step int64) error {
			select {
			case begun <- step:
			case <-ctx.Done():
				return ctx.Err()
			}
			select {
			case err := <-end:
				return err
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
	w := newWorkerIn(a, dir, evaluate)
	w.ready()
	at := func(step int64) {
		_, err := trainer.Register(t.Context(), atropos.Registration{WandbGroup: "g", WandbProject: "p", BatchSize: 4, MaxTokenLen: 64, CheckpointDir: "c", SaveCheckpointInterval: 10, NumSteps: 100, StartingStep: step})
		require.NoError(t, err)
		require.Eventually(t, func() bool { return w.Status().Queue.CurrentStep == step }, patience, time.Millisecond)
	}
	at(9)
	w.admit()
	w.Ended(0)
	at(25) // neither 10 nor 20 was ever seen
	require.EqualValues(t, 25, <-begun)
	w.held(HoldEval)
	at(31)
	w.notes.told("step 31: the evaluation before this one still runs")
	end <- errors.New("no disk")
	w.notes.told("the evaluation at step 25 failed: no disk")
	w.admit()
	w.Ended(0)
	at(40)
	require.EqualValues(t, 40, <-begun)

	// Killed in the middle of it: the next process begins it again, with the policy as it is by then.
	left := copied(t, dir)
	end <- nil
	require.NoError(t, w.finish())
	next := newWorkerIn(a, left, evaluate)
	require.EqualValues(t, 40, <-begun)
	end <- nil
	next.ready()
	require.NoError(t, next.finish())

	// At the start when that is asked for, but not a second time at the same step.
	fresh := newWorker(a, evaluate, func(c *Config) { c.EvalAtStart = true })
	require.EqualValues(t, 40, <-begun)
	fresh.held(HoldEval)
	end <- nil
	fresh.admit()
	require.NoError(t, fresh.finish())
	again := newWorkerIn(a, fresh.dir, evaluate, func(c *Config) { c.EvalAtStart = true })
	again.ready()
	again.admit()
	require.NoError(t, again.finish())
}

func TestCrossingsAreSeenHoweverFarAStepJumps(t *testing.T) {
	for _, c := range []struct {
		old, step, every int64
		want             bool
	}{
		{0, 3, 2, true}, {0, 1, 2, false}, {1, 2, 2, true}, {2, 3, 2, false}, {0, 2, 2, true}, {2, 6, 2, true}, {5, 5, 5, false},
		{9, 4, 5, false}, {3, 4, 0, false}, {3, 4, -1, false}, {0, 1, 1, true}, {99, 100, 100, true}, {100, 199, 100, false},
	} {
		require.Equal(t, c.want, crossed(c.old, c.step, c.every), "%+v", c)
	}
}

func TestTheWorkerEndsWithTheTrainer(t *testing.T) {
	a := newAPI(t)
	a.up()
	trainer := a.trainer(func(r *atropos.Registration) { r.NumSteps = 2 })
	w := newWorker(a)
	w.ready()
	for step := range 4 {
		w.admit()
		require.NoError(t, w.Write(group(step)))
		w.Ended(step)
	}
	w.held(HoldEnd)
	require.Len(t, batches(t, trainer, 2), 4)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	require.ErrorIs(t, w.Admit(ctx), ErrDone)
	require.NoError(t, w.finish())
}

func TestTheNumberOfStepsMayBeSetLower(t *testing.T) {
	a := newAPI(t)
	a.up()
	a.trainer()
	for last, want := range map[int64]int64{0: 100, 20: 20, 500: 100} {
		w := newWorker(a, func(c *Config) { c.Throttle.LastStep = last })
		w.ready()
		require.Equal(t, want, w.Status().LastStep)
	}
}

func TestWhatCanNotWorkIsSaidAtOnce(t *testing.T) {
	a := newAPI(t)
	a.config.Token = "secret"
	a.up()
	w := newWorker(a)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	err := w.Ready(ctx)
	require.ErrorIs(t, err, ErrUnauthorized)
	require.ErrorContains(t, err, "--token-env")
	require.ErrorIs(t, w.Admit(ctx), ErrUnauthorized)

	b := newAPI(t)
	b.up()
	b.trainer()
	w = newWorker(b, func(c *Config) { c.Throttle.GroupSize = 5 })
	err = w.Ready(ctx)
	require.ErrorIs(t, err, ErrGroupTooLarge)
	require.ErrorContains(t, err, "a group has 5 sequences (env.group_size) and a batch of the trainer 4")
}

func TestWhatIsNoAPIServerIsSaidInOneLine(t *testing.T) {
	a := newAPI(t)
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "<html>\n\n<title>"+strings.Repeat("no ", 500), http.StatusNotImplemented)
	}))
	defer page.Close()
	other, err := client.New(client.Config{URL: page.URL})
	require.NoError(t, err)
	w := newWorker(a, func(c *Config) { c.Client = other })
	w.notes.told("status 501: <html> <title>no no")
	w.held(HoldServer)
	w.notes.mu.Lock()
	defer w.notes.mu.Unlock()
	for _, text := range w.notes.texts {
		require.NotContains(t, text, "\n")
		require.Less(t, len(text), 600)
	}
	other.CloseIdle()
}

func TestATrainerThatTakesSmallerBatchesIsWaitedFor(t *testing.T) {
	a := newAPI(t)
	a.up()
	a.trainer()
	w := newWorker(a)
	w.ready()
	a.trainer(func(r *atropos.Registration) { r.BatchSize = 1 })
	require.Eventually(t, func() bool { return w.Status().BatchSize == 1 }, patience, time.Millisecond)
	w.held(HoldBatch)
	a.trainer()
	w.admit()
}

func TestAWorkerThatCanKeepNothingEnds(t *testing.T) {
	a := newAPI(t)
	a.up()
	trainer := a.trainer()
	w := newWorker(a)
	w.ready()
	require.NoError(t, w.Write(group(0)))
	w.sent(1)
	require.NoError(t, w.spool.log.Close()) // as a disk that fails
	require.ErrorContains(t, w.Write(group(1)), "write to the spool")
	_, err := trainer.Register(t.Context(), atropos.Registration{BatchSize: 4, MaxTokenLen: 64, NumSteps: 100, StartingStep: 50})
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for err == nil {
		if err = w.Admit(ctx); err == nil {
			w.Ended(0)
		}
	}
	require.ErrorIs(t, err, ErrSpool)
	require.ErrorIs(t, w.finish(), ErrSpool)
}

func TestADrainingWorkerAdmitsNothingMoreAndSendsWhatItHas(t *testing.T) {
	a := newAPI(t)
	a.up()
	trainer := a.trainer()
	w := newWorker(a)
	w.ready()
	w.admit()
	close(w.drain)
	require.NoError(t, w.Write(group(0)))
	require.NoError(t, w.Write(group(1)))
	for range 4 { // those that are busy
		_ = w.Admit(t.Context())
	}
	require.ErrorIs(t, w.Admit(t.Context()), env.ErrInterrupted)
	require.NoError(t, w.finish())
	require.Equal(t, []int64{0, 1}, batches(t, trainer, 1))
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

// The server of the original framework has no overview and no keys, and answers with
// status 500 when it is asked for a worker it doesn't know.
func TestAServerOfTheOriginalKindIsEnough(t *testing.T) {
	a := newAPI(t)
	f := a.flaky()
	spoil := func(w http.ResponseWriter, r *http.Request, next http.Handler) bool {
		switch r.URL.Path {
		case "/overview":
			http.NotFound(w, r)
			return true
		case "/status-env":
			recorder := httptest.NewRecorder()
			next.ServeHTTP(recorder, r)
			if recorder.Code == http.StatusNotFound {
				http.Error(w, "Internal Server Error", http.StatusInternalServerError)
				return true
			}
			_, _ = w.Write(recorder.Body.Bytes())
			return true
		}
		r.Header.Del(atropos.HeaderIdempotencyKey)
		return false
	}
	f.spoil.Store(&spoil)
	a.up()
	a.trainer()
	w := newWorker(a)
	w.ready()
	require.NoError(t, w.Write(group(0)))
	w.sent(1)
	a.down()
	w.notes.told("can't be worked with")
	require.NoError(t, w.Write(group(1)))
	require.NoError(t, w.Write(group(2)))
	a.forget()
	a.up()
	trainer := a.trainer()
	require.Equal(t, []int64{1, 2}, batches(t, trainer, 1))
	w.admit()
	require.NoError(t, trainer.Reset(t.Context()))
	w.notes.told("the server fails when asked for this worker")
	a.trainer()
	w.admit()
}

func TestWorkersShareTheModelServersByTheirWeights(t *testing.T) {
	a := newAPI(t)
	a.up()
	a.trainer()
	shares := make(chan float64, 10)
	first := newWorker(a, func(c *Config) { c.Weighed, c.Weight = func(share float64) { shares <- share }, 3 })
	first.ready()
	require.InDelta(t, 1, <-shares, 0)
	second := newWorker(a)
	second.ready()
	require.InDelta(t, 0.75, <-shares, 1e-9)
	require.NoError(t, second.finish())
	require.InDelta(t, 1, <-shares, 0)
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
