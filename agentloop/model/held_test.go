package model_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-env/hermes-env/agentloop/model"
	"github.com/stretchr/testify/require"
)

var errLimit = errors.New("the limit")

func TestATimeLimitStandsStillWhileARateHoldsRequestsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &provider{latency: 10 * time.Second}
		pool := newPool(t, model.PoolConfig{}, model.Member{Client: server, Rates: model.Rates{RequestsPerMinute: 1}})
		ctx, held, cancel := model.WithTimeout(t.Context(), 35*time.Second, errLimit)
		defer cancel()
		began := time.Now()
		for range 3 { // 10 s each, the second and third after waits of 50 s
			_, err := pool.Complete(ctx, hello())
			require.NoError(t, err)
		}
		require.Equal(t, 130*time.Second, time.Since(began))
		require.Equal(t, 100*time.Second, held.Total())
		deadline, ok := ctx.Deadline()
		require.True(t, ok)
		require.Equal(t, 5*time.Second, time.Until(deadline))
		<-ctx.Done()
		require.Equal(t, 135*time.Second, time.Since(began), "to the instant")
		require.ErrorIs(t, ctx.Err(), context.DeadlineExceeded)
		require.ErrorIs(t, context.Cause(ctx), errLimit)
	})
}

func TestWaitingForOtherRequestsCountsAgainstATimeLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pool := newPool(t, model.PoolConfig{}, model.Member{Client: &fake{latency: time.Hour}, MaxConcurrent: 1})
		var wg sync.WaitGroup
		holder, release := context.WithCancel(t.Context())
		wg.Go(func() { _, _ = pool.Complete(holder, hello()) })
		synctest.Wait()
		ctx, held, cancel := model.WithTimeout(t.Context(), time.Minute, errLimit)
		defer cancel()
		began := time.Now()
		_, err := pool.Complete(ctx, hello())
		require.Equal(t, model.KindCancelled, model.KindOf(err))
		require.Equal(t, time.Minute, time.Since(began))
		require.Zero(t, held.Total())
		release()
		wg.Wait()
	})
}

func TestSeveralRequestsHeldBackAtOnceCountOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pool := newPool(t, model.PoolConfig{}, model.Member{Client: &provider{}, Rates: model.Rates{RequestsPerMinute: 1}})
		outer, all := model.WithHeld(t.Context())
		ctx, held := model.WithHeld(outer)
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() { _, err := pool.Complete(ctx, hello()); require.NoError(t, err) })
		}
		time.Sleep(30 * time.Second)
		require.Equal(t, 30*time.Second, held.Total(), "also in the middle")
		wg.Wait()
		require.Equal(t, 3*time.Minute, held.Total())
		require.Equal(t, held.Total(), all.Total())
	})
}

func TestContextsMadeFromALimitedOneEndAsThoseOfTheStandardLibrary(t *testing.T) {
	for name, c := range map[string]struct {
		end   func(cancelOuter, cancel context.CancelFunc)
		err   error
		cause error
	}{
		"the limit":          {func(_, _ context.CancelFunc) { time.Sleep(time.Minute); synctest.Wait() }, context.DeadlineExceeded, errLimit},
		"the context around": {func(outer, _ context.CancelFunc) { outer() }, context.Canceled, context.Canceled},
		"its own end":        {func(_, own context.CancelFunc) { own() }, context.Canceled, context.Canceled},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				type key struct{}
				outer, cancelOuter := context.WithCancel(context.WithValue(t.Context(), key{}, "v"))
				defer cancelOuter()
				ctx, _, cancel := model.WithTimeout(outer, time.Minute, errLimit)
				defer cancel()
				child, cancelChild := context.WithCancel(ctx)
				defer cancelChild()
				other, cancelOther := context.WithTimeout(ctx, time.Hour)
				defer cancelOther()
				require.NoError(t, ctx.Err())
				require.Equal(t, "v", child.Value(key{}))
				c.end(cancelOuter, cancel)
				require.Equal(t, c.err, ctx.Err(), "at once")
				synctest.Wait()
				for _, one := range []context.Context{ctx, child, other} {
					<-one.Done()
					require.Equal(t, c.err, one.Err())
					require.Equal(t, c.cause, context.Cause(one))
				}
			})
		})
	}
}

func TestALimitedContextKeepsTheSoonerDeadlineAroundIt(t *testing.T) {
	outer, cancelOuter := context.WithTimeout(t.Context(), time.Minute)
	defer cancelOuter()
	ctx, _, cancel := model.WithTimeout(outer, time.Hour, errLimit)
	defer cancel()
	want, _ := outer.Deadline()
	got, ok := ctx.Deadline()
	require.True(t, ok)
	require.Equal(t, want, got)
}
