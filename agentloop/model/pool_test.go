package model_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-env/hermes-env/agentloop/chat"
	"github.com/hermes-env/hermes-env/agentloop/model"
	"github.com/hermes-env/hermes-env/agentloop/model/modeltest"
	"github.com/stretchr/testify/require"
)

// fake is a client whose answers a test decides.
type fake struct {
	mu       sync.Mutex
	calls    int
	inFlight int
	most     int
	latency  time.Duration
	answer   func(call int) error
}

func (f *fake) Complete(ctx context.Context, _ *model.Request) (*model.Response, error) {
	f.mu.Lock()
	f.calls++
	call := f.calls
	f.inFlight++
	f.most = max(f.most, f.inFlight)
	answer := f.answer
	f.mu.Unlock()
	defer func() { f.mu.Lock(); f.inFlight--; f.mu.Unlock() }()
	if f.latency > 0 {
		select {
		case <-time.After(f.latency):
		case <-ctx.Done():
			return nil, &model.Error{Kind: model.KindCancelled, Err: ctx.Err()}
		}
	}
	if answer != nil {
		if err := answer(call); err != nil {
			return nil, err
		}
	}
	return &model.Response{Message: chat.Assistant("ok", ""), Attempts: 1}, nil
}

func (f *fake) set(answer func(int) error) { f.mu.Lock(); f.answer = answer; f.mu.Unlock() }

func (f *fake) count() int { f.mu.Lock(); defer f.mu.Unlock(); return f.calls }

func always(kind model.Kind) func(int) error {
	return func(int) error { return &model.Error{Kind: kind, Message: string(kind)} }
}

func newPool(t *testing.T, config model.PoolConfig, members ...model.Member) *model.Pool {
	t.Helper()
	pool, err := model.NewPool(config, members...)
	require.NoError(t, err)
	return pool
}

func TestLoadIsSharedInProportionToTheWeights(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := &fake{latency: time.Second}, &fake{latency: time.Second}
		pool := newPool(t, model.PoolConfig{}, model.Member{Client: a, Weight: 3}, model.Member{Client: b, Weight: 1})
		var wg sync.WaitGroup
		for range 40 {
			wg.Go(func() { _, err := pool.Complete(t.Context(), hello()); require.NoError(t, err) })
		}
		wg.Wait()
		require.Equal(t, 30, a.most)
		require.Equal(t, 10, b.most)
	})
}

func TestIdleServersTakeTurns(t *testing.T) {
	a, b := &fake{}, &fake{}
	pool := newPool(t, model.PoolConfig{}, model.Member{Client: a}, model.Member{Client: b})
	for range 10 {
		_, err := pool.Complete(t.Context(), hello())
		require.NoError(t, err)
	}
	require.Equal(t, 5, a.count())
	require.Equal(t, 5, b.count())
}

func TestRequestsAboveTheLimitWaitInOrderAndReportTheirWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &fake{latency: time.Second}
		pool := newPool(t, model.PoolConfig{}, model.Member{Client: a, MaxConcurrent: 2})
		waits := make([]time.Duration, 6)
		var wg sync.WaitGroup
		for i := range waits {
			wg.Go(func() {
				resp, err := pool.Complete(t.Context(), hello())
				require.NoError(t, err)
				waits[i] = resp.Wait
			})
			synctest.Wait() // they arrive one after the other
		}
		_, waiting := pool.Snapshot()
		require.Equal(t, 4, waiting)
		wg.Wait()
		require.Equal(t, []time.Duration{0, 0, time.Second, time.Second, 2 * time.Second, 2 * time.Second}, waits)
		require.Equal(t, 2, a.most)
	})
}

func TestAWaitingRequestLeavesWhenItsContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &fake{latency: time.Hour}
		pool := newPool(t, model.PoolConfig{}, model.Member{Client: a, MaxConcurrent: 1})
		holder, release := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { _, _ = pool.Complete(holder, hello()) })
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := pool.Complete(ctx, hello())
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, model.KindCancelled, model.KindOf(err))
		release()
		wg.Wait()
		a.latency = 0
		_, err = pool.Complete(t.Context(), hello())
		require.NoError(t, err, "the slot of the one that left is free")
		members, waiting := pool.Snapshot()
		require.Zero(t, waiting)
		require.Zero(t, members[0].InFlight)
	})
}

func TestARolloutStaysOnItsServerWhileThatIsHealthy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clients := []*fake{{}, {}, {}}
		var members []model.Member
		for _, c := range clients {
			members = append(members, model.Member{Client: c, MaxConcurrent: 1})
		}
		pool := newPool(t, model.PoolConfig{}, members...)
		for turn := range 5 {
			for rollout := range 3 {
				req := hello()
				req.Affinity = fmt.Sprint("rollout-", (rollout+turn)%3) // another order each turn
				_, err := pool.Complete(t.Context(), req)
				require.NoError(t, err)
			}
		}
		for _, c := range clients {
			require.Equal(t, 5, c.count())
		}

		// Its server is busy: it waits there although the others are free.
		for _, c := range clients {
			c.latency = time.Second
		}
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() {
				req := hello()
				req.Affinity = "rollout-0"
				_, err := pool.Complete(t.Context(), req)
				require.NoError(t, err)
			})
		}
		began := time.Now()
		wg.Wait()
		require.Equal(t, 2*time.Second, time.Since(began))

		// Its server fails: the next request may go elsewhere.
		for _, c := range clients {
			c.latency = 0
		}
		before := []int{clients[0].count(), clients[1].count(), clients[2].count()}
		failing := slices.Index(before, slices.Max(before))
		clients[failing].set(always(model.KindServerError))
		req := hello()
		req.Affinity = "rollout-0"
		_, err := pool.Complete(t.Context(), req)
		require.Error(t, err)
		_, err = pool.Complete(t.Context(), req)
		require.NoError(t, err)
		require.Equal(t, before[failing]+1, clients[failing].count())
	})
}

func TestAFailingServerIsLeftOutProbedAndTakenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bad, good := &fake{}, &fake{}
		bad.set(always(model.KindNetwork))
		pool := newPool(t, model.PoolConfig{MaxFailures: 3, Cooldown: 10 * time.Second, MaxCooldown: 30 * time.Second},
			model.Member{Client: bad, Name: "bad"}, model.Member{Client: good, Name: "good"})
		ask := func(n int) (failed int) {
			for range n {
				if _, err := pool.Complete(t.Context(), hello()); err != nil {
					failed++
				}
			}
			return failed
		}
		require.Equal(t, 3, ask(20), "three failures, then it is left out")
		members, _ := pool.Snapshot()
		require.True(t, members[0].Ejected)
		require.Equal(t, 10*time.Second, members[0].ReturnIn)
		require.Contains(t, members[0].Reason, "the connection failed")
		require.False(t, members[1].Ejected)

		for _, cooldown := range []time.Duration{10, 20, 30, 30} { // doubles up to the maximum
			time.Sleep(cooldown*time.Second - time.Millisecond)
			require.Zero(t, ask(5), "still cooling down")
			time.Sleep(time.Millisecond)
			require.Equal(t, 1, ask(5), "one probe only")
		}
		bad.set(nil)
		time.Sleep(30 * time.Second)
		require.Zero(t, ask(10))
		members, _ = pool.Snapshot()
		require.False(t, members[0].Ejected)
		require.Greater(t, bad.count(), 3+4)
	})
}

func TestOnlyOneRequestProbesAReturningServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bad, good := &fake{}, &fake{}
		bad.set(always(model.KindTimeout))
		pool := newPool(t, model.PoolConfig{MaxFailures: 1, Cooldown: 10 * time.Second},
			model.Member{Client: bad}, model.Member{Client: good})
		_, _ = pool.Complete(t.Context(), hello())
		require.Equal(t, 1, bad.count())
		time.Sleep(11 * time.Second)
		bad.latency, good.latency = time.Minute, time.Minute
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() { _, _ = pool.Complete(t.Context(), hello()) })
		}
		wg.Wait()
		require.Equal(t, 2, bad.count())
	})
}

func TestACancelledProbeLeavesTheDecisionToTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bad, good := &fake{}, &fake{}
		bad.set(always(model.KindTimeout))
		pool := newPool(t, model.PoolConfig{MaxFailures: 1, Cooldown: 10 * time.Second},
			model.Member{Client: bad}, model.Member{Client: good})
		for range 3 { // one for bad, then two for good, so that bad is the next in turn
			_, _ = pool.Complete(t.Context(), hello())
		}
		require.Equal(t, 1, bad.count())
		time.Sleep(11 * time.Second)
		bad.set(nil)
		bad.latency = time.Minute
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := pool.Complete(ctx, hello())
		require.Equal(t, model.KindCancelled, model.KindOf(err))
		bad.latency = 0
		_, err = pool.Complete(t.Context(), hello())
		require.NoError(t, err)
		members, _ := pool.Snapshot()
		require.False(t, members[0].Ejected)
		require.Equal(t, 3, bad.count())
	})
}

func TestARequestsOwnFaultNeverEjectsAServer(t *testing.T) {
	for _, kind := range []model.Kind{model.KindBadRequest, model.KindContextLength, model.KindContentFilter, model.KindPayloadTooLarge, model.KindCancelled} {
		t.Run(string(kind), func(t *testing.T) {
			a, b := &fake{}, &fake{}
			a.set(always(kind))
			b.set(always(kind))
			pool := newPool(t, model.PoolConfig{MaxFailures: 2}, model.Member{Client: a}, model.Member{Client: b})
			for range 20 {
				_, err := pool.Complete(t.Context(), hello())
				require.Equal(t, kind, model.KindOf(err))
			}
			members, _ := pool.Snapshot()
			require.False(t, members[0].Ejected || members[1].Ejected)
			require.Equal(t, 20, a.count()+b.count(), "not tried on the other server")
		})
	}
}

func TestAServerThatRefusesTheKeyIsLeftOutAndTheRequestMovesOn(t *testing.T) {
	for _, kind := range []model.Kind{model.KindAuth, model.KindPermission, model.KindBilling, model.KindNotFound} {
		t.Run(string(kind), func(t *testing.T) {
			bad, good := &fake{}, &fake{}
			bad.set(always(kind))
			pool := newPool(t, model.PoolConfig{}, model.Member{Client: bad}, model.Member{Client: good})
			for range 10 {
				_, err := pool.Complete(t.Context(), hello())
				require.NoError(t, err)
			}
			require.Equal(t, 1, bad.count())
			members, _ := pool.Snapshot()
			require.True(t, members[0].Ejected)
			require.Contains(t, members[0].Reason, string(kind))

			good.set(always(model.KindAuth))
			_, err := pool.Complete(t.Context(), hello())
			var failure *model.Error
			require.ErrorAs(t, err, &failure)
			require.True(t, failure.Fatal(), "all refuse")
		})
	}
	t.Run("a refusal does not hide that another server is only down for now", func(t *testing.T) {
		down, bad := &fake{}, &fake{}
		down.set(always(model.KindNetwork))
		bad.set(always(model.KindAuth))
		pool := newPool(t, model.PoolConfig{MaxFailures: 1}, model.Member{Client: down}, model.Member{Client: bad})
		for range 4 {
			_, err := pool.Complete(t.Context(), hello())
			require.Equal(t, model.KindNetwork, model.KindOf(err))
		}
	})
}

func TestWhenAllAreLeftOutTheOneThatReturnsFirstIsTried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := &fake{}, &fake{}
		a.set(always(model.KindServerError))
		b.set(always(model.KindServerError))
		pool := newPool(t, model.PoolConfig{MaxFailures: 1, Cooldown: time.Minute}, model.Member{Client: a}, model.Member{Client: b})
		_, err := pool.Complete(t.Context(), hello())
		require.Error(t, err)
		time.Sleep(time.Second)
		_, err = pool.Complete(t.Context(), hello())
		require.Error(t, err)
		require.Equal(t, 1, a.count())
		require.Equal(t, 1, b.count())
		a.set(nil)
		resp, err := pool.Complete(t.Context(), hello())
		require.NoError(t, err)
		require.NotNil(t, resp)
		require.Equal(t, 2, a.count())
		members, _ := pool.Snapshot()
		require.False(t, members[0].Ejected)
	})
}

func TestWaitingRequestsMoveOnWhenTheirServerIsLeftOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := &fake{latency: time.Second}, &fake{latency: time.Second}
		pool := newPool(t, model.PoolConfig{MaxFailures: 1, Cooldown: time.Hour},
			model.Member{Client: a, MaxConcurrent: 1}, model.Member{Client: b, MaxConcurrent: 1})
		req := hello()
		req.Affinity = "r"
		_, err := pool.Complete(t.Context(), req) // on a
		require.NoError(t, err)
		a.set(always(model.KindStalled))
		var wg sync.WaitGroup
		var failed, fine int
		var mu sync.Mutex
		for range 4 {
			wg.Go(func() {
				_, err := pool.Complete(t.Context(), req)
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					failed++
				} else {
					fine++
				}
			})
		}
		wg.Wait()
		require.Equal(t, 1, failed)
		require.Equal(t, 3, fine)
		require.Equal(t, 3, b.count())
	})
}

func TestWaitingRequestsUseAServerWhoseCoolDownEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := &fake{}, &fake{latency: time.Hour}
		a.set(always(model.KindNetwork))
		pool := newPool(t, model.PoolConfig{MaxFailures: 1, Cooldown: 10 * time.Second},
			model.Member{Client: a, MaxConcurrent: 1}, model.Member{Client: b, MaxConcurrent: 1})
		_, err := pool.Complete(t.Context(), hello())
		require.Error(t, err)
		a.set(nil)
		var wg sync.WaitGroup
		wg.Go(func() { _, _ = pool.Complete(t.Context(), hello()) }) // occupies b for an hour
		synctest.Wait()
		resp, err := pool.Complete(t.Context(), hello())
		require.NoError(t, err)
		require.Equal(t, 10*time.Second, resp.Wait)
		wg.Wait()
	})
}

func TestAPanickingClientGivesItsSlotBack(t *testing.T) {
	a := &fake{}
	a.set(func(int) error { panic("broken client") })
	pool := newPool(t, model.PoolConfig{}, model.Member{Client: a, MaxConcurrent: 1})
	require.Panics(t, func() { _, _ = pool.Complete(t.Context(), hello()) })
	a.set(nil)
	_, err := pool.Complete(t.Context(), hello())
	require.NoError(t, err)
}

func TestImpossiblePoolsAreRefused(t *testing.T) {
	_, err := model.NewPool(model.PoolConfig{})
	require.ErrorContains(t, err, "at least one server")
	_, err = model.NewPool(model.PoolConfig{}, model.Member{Name: "x"})
	require.ErrorContains(t, err, "has no client")
	_, err = model.NewPool(model.PoolConfig{}, model.Member{Client: &fake{}, Weight: -1})
	require.ErrorContains(t, err, "weight")
	_, err = model.ForServers([]model.Server{{BaseURL: "localhost:8000", Model: "m"}, {BaseURL: "http://h/v1"}}, model.PoolConfig{})
	require.ErrorContains(t, err, "http:// or https://")
	require.ErrorContains(t, err, "the model name is empty")
}

func TestAPoolOfRealServersSurvivesTheLossOfOne(t *testing.T) {
	good := modeltest.NewServer(t, nil)
	pool, err := model.ForServers([]model.Server{
		{BaseURL: modeltest.RefusedURL(t), Model: "m"},
		{BaseURL: good.URL, Model: "m", MaxConcurrent: 3},
	}, model.PoolConfig{MaxFailures: 2})
	require.NoError(t, err)
	t.Cleanup(pool.CloseIdleConnections)
	client := model.Retry(pool, model.RetryPolicy{BaseDelay: time.Millisecond})
	var wg sync.WaitGroup
	errs := make([]error, 50)
	for i := range errs {
		wg.Go(func() { _, errs[i] = client.Complete(t.Context(), hello()) })
	}
	wg.Wait()
	require.NoError(t, errors.Join(errs...))
	require.LessOrEqual(t, good.MaxInFlight(), 3)
	require.Equal(t, 50, good.RequestCount())
	for _, r := range good.Requests() {
		require.Equal(t, http.MethodPost, r.Method)
	}
}
