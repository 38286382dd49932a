package serve

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/env"
	"github.com/hermes-env/hermes-env/env/atropos"
	"github.com/hermes-env/hermes-env/env/atropos/client"
)

func containsText(text, part string) bool { return strings.Contains(text, part) }

// batches takes n batches and returns the first token of each group in them, sorted.
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

func TestAServerThatLostItsMemoryIsRegisteredWithAgain(t *testing.T) {
	a := newAPI(t)
	a.up()
	a.trainer()
	w := newWorker(a)
	w.ready()
	a.down()
	require.NoError(t, w.Write(group(0)))
	require.NoError(t, w.Write(group(1)))
	w.notes.told("can't be worked with") // a poll or a group that was sent in vain
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
// What a killed process leaves is sent first by the next one, under the keys and the
// number it had.
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
