package model_test

import (
	"context"
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-env/hermes-env/agentloop/chat"
	"github.com/hermes-env/hermes-env/agentloop/model"
	"github.com/stretchr/testify/require"
)

// provider is a server with limits, in virtual time.
type provider struct {
	latency  time.Duration
	perSec   float64                                // of its token bucket; 0 for none
	burst    float64                                // what the bucket holds
	window   time.Duration                          // of a fixed window in place of the bucket; burst requests per window
	parallel int                                    // requests at once; 0 for no limit
	says     func(wait time.Duration) time.Duration // Retry-After; nil says nothing

	mu                sync.Mutex
	level             float64
	at                time.Time
	inFlight          int
	accepted, refused int
}

func (p *provider) admit() (wait time.Duration, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if p.at.IsZero() {
		p.at, p.level = now, p.burst
	}
	switch {
	case p.window > 0:
		if n := now.Sub(p.at) / p.window; n > 0 {
			p.at, p.level = p.at.Add(n*p.window), p.burst
		}
		wait = p.at.Add(p.window).Sub(now)
	case p.perSec > 0:
		p.level = min(p.burst, p.level+now.Sub(p.at).Seconds()*p.perSec)
		p.at = now
		wait = time.Duration((1 - p.level) / p.perSec * float64(time.Second))
	default:
		p.level = 1
	}
	if p.level < 1 || p.parallel > 0 && p.inFlight >= p.parallel {
		p.refused++
		return wait, false
	}
	p.level--
	p.accepted++
	p.inFlight++
	return 0, true
}

func (p *provider) Complete(ctx context.Context, _ *model.Request) (*model.Response, error) {
	wait, ok := p.admit()
	if !ok {
		time.Sleep(5 * time.Millisecond) // what a refusal takes
		e := &model.Error{Kind: model.KindRateLimit, Status: 429, Message: "rate limit reached"}
		if p.says != nil {
			e.RetryAfter = p.says(wait)
		}
		return nil, e
	}
	defer func() { p.mu.Lock(); p.inFlight--; p.mu.Unlock() }()
	select {
	case <-time.After(p.latency):
	case <-ctx.Done():
		return nil, &model.Error{Kind: model.KindCancelled, Err: ctx.Err()}
	}
	return &model.Response{Message: chat.Assistant("ok", ""), Attempts: 1}, nil
}

// wholeSeconds is how most servers put Retry-After.
func wholeSeconds(wait time.Duration) time.Duration {
	return time.Duration(max(1, math.Ceil(wait.Seconds()))) * time.Second
}

func TestARateLimitedServerIsUsedAtNearlyItsRateAndSeldomAskedInVain(t *testing.T) {
	const rollouts = 200
	exact := func(wait time.Duration) time.Duration { return wait }
	for name, c := range map[string]struct {
		server   *provider
		requests int           // of each rollout
		ideal    time.Duration // for all of them
	}{
		"a token bucket":                          {&provider{latency: 2 * time.Second, perSec: 20, burst: 20, says: wholeSeconds}, 10, 100 * time.Second},
		"a small bucket that asks for too much":   {&provider{latency: 2 * time.Second, perSec: 20, burst: 5, says: wholeSeconds}, 20, 200 * time.Second},
		"answers that take long":                  {&provider{latency: 30 * time.Second, perSec: 5, burst: 5, says: wholeSeconds}, 5, 230 * time.Second},
		"answers that take no time":               {&provider{latency: 10 * time.Millisecond, perSec: 50, burst: 50, says: wholeSeconds}, 20, 80 * time.Second},
		"a server that doesn't say when":          {&provider{latency: 2 * time.Second, perSec: 20, burst: 20}, 10, 100 * time.Second},
		"a server that says it to the instant":    {&provider{latency: 2 * time.Second, perSec: 20, burst: 20, says: exact}, 10, 100 * time.Second},
		"so many requests in each minute":         {&provider{latency: 2 * time.Second, burst: 100, window: time.Minute, says: wholeSeconds}, 5, 9 * time.Minute},
		"so many requests at once":                {&provider{latency: 2 * time.Second, parallel: 16}, 8, 200 * time.Second},
		"so many requests at once that take long": {&provider{latency: 30 * time.Second, parallel: 50, says: wholeSeconds}, 5, 600 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				pool := newPool(t, model.PoolConfig{}, model.Member{Client: c.server})
				client := model.Retry(pool, model.RetryPolicy{})
				began := time.Now()
				var wg sync.WaitGroup
				for range rollouts {
					wg.Go(func() {
						for range c.requests {
							_, err := client.Complete(t.Context(), hello())
							require.NoError(t, err)
						}
					})
				}
				wg.Wait()
				used := c.ideal.Seconds() / time.Since(began).Seconds()
				t.Logf("%.0f %% of the allowed rate, %d refused of %d", 100*used, c.server.refused, c.server.refused+c.server.accepted)
				require.Equal(t, rollouts*c.requests, c.server.accepted)
				require.GreaterOrEqual(t, used, 0.8, "of the rate that is allowed")
				// The first 200 are sent before anything is known.
				later := c.server.refused - rollouts
				require.Less(t, float64(later)/float64(c.server.accepted), 0.08, "%d refused", c.server.refused)
				status := pool.Rates()
				require.EqualValues(t, c.server.refused, status.Refused)
				require.Zero(t, status.Waiting)
				require.Greater(t, status.Waited, status.Held)
			})
		})
	}
}

type clientFunc func(context.Context, *model.Request) (*model.Response, error)

func (f clientFunc) Complete(ctx context.Context, req *model.Request) (*model.Response, error) {
	return f(ctx, req)
}

func TestConfiguredRequestsPerMinuteAreKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &provider{latency: time.Second}
		pool := newPool(t, model.PoolConfig{}, model.Member{Client: server, Rates: model.Rates{RequestsPerMinute: 60}})
		began := time.Now()
		var order []int
		var mu sync.Mutex
		var wg sync.WaitGroup
		for i := range 65 {
			wg.Go(func() {
				_, err := pool.Complete(t.Context(), hello())
				require.NoError(t, err)
				mu.Lock()
				order = append(order, i)
				mu.Unlock()
			})
			synctest.Wait() // they arrive one after the other
		}
		status := pool.Rates()
		require.Equal(t, 60, status.Waiting, "five seconds' worth goes out at once")
		require.Equal(t, time.Second, status.NextIn)
		wg.Wait()
		require.Equal(t, 61*time.Second, time.Since(began), "60 of them at one a second, the last takes a second")
		require.IsIncreasing(t, order[5:], "first come, first served")
		status = pool.Rates()
		require.Equal(t, 60*time.Second, status.Held)
		require.Equal(t, 60*61/2*time.Second, status.Waited)
		require.Zero(t, status.Refused)
		require.Zero(t, status.AtOnce)
	})
}

func TestConfiguredTokensPerMinuteAreKeptByWhatRequestsReallyCost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// Ten tokens a second. Each request costs 100, which only its answer tells.
		costly := clientFunc(func(context.Context, *model.Request) (*model.Response, error) {
			return &model.Response{Message: chat.Assistant("ok", ""), Usage: chat.Usage{PromptTokens: 60, CompletionTokens: 40, TotalTokens: 100}}, nil
		})
		pool := newPool(t, model.PoolConfig{}, model.Member{Client: costly, Rates: model.Rates{TokensPerMinute: 600}})
		began := time.Now()
		for range 31 {
			_, err := pool.Complete(t.Context(), hello())
			require.NoError(t, err)
		}
		require.InDelta(t, 300, time.Since(began).Seconds(), 10, "30 requests of 100 tokens after the first")
	})
}

func TestARequestThatWaitsForARateCanBeCancelledAndCostsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &provider{}
		pool := newPool(t, model.PoolConfig{}, model.Member{Client: server, Rates: model.Rates{RequestsPerMinute: 1}})
		_, err := pool.Complete(t.Context(), hello())
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = pool.Complete(ctx, hello())
		require.Equal(t, model.KindCancelled, model.KindOf(err))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		began := time.Now()
		_, err = pool.Complete(t.Context(), hello())
		require.NoError(t, err)
		require.Equal(t, 59*time.Second, time.Since(began))
		require.Equal(t, 2, server.accepted)
	})
}

func TestARefusalPausesTheWholeServerAndKeepsItsPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var served []string
		var sent []time.Duration
		began := time.Now()
		refuseFirst := clientFunc(func(_ context.Context, req *model.Request) (*model.Response, error) {
			mu.Lock()
			defer mu.Unlock()
			sent = append(sent, time.Since(began))
			if len(sent) == 1 {
				return nil, &model.Error{Kind: model.KindOverloaded, Status: 503, RetryAfter: 40 * time.Second}
			}
			served = append(served, req.Affinity)
			return &model.Response{Message: chat.Assistant("ok", ""), Attempts: 1}, nil
		})
		pool := newPool(t, model.PoolConfig{}, model.Member{Client: refuseFirst})
		client := model.Retry(pool, model.RetryPolicy{})
		var wg sync.WaitGroup
		for _, name := range []string{"a", "b", "c"} {
			wg.Go(func() {
				req := hello()
				req.Affinity = name
				resp, err := client.Complete(t.Context(), req)
				require.NoError(t, err)
				require.GreaterOrEqual(t, resp.Wait, 40*time.Second)
			})
			synctest.Wait()
		}
		members, _ := pool.Snapshot()
		require.Equal(t, 40*time.Second, members[0].PausedIn)
		require.Equal(t, 1, members[0].AtOnce)
		require.EqualValues(t, 1, members[0].Refused)
		require.False(t, members[0].Ejected)
		wg.Wait()
		require.Equal(t, 40*time.Second, sent[1], "nobody is sent during the pause")
		require.Equal(t, "a", served[0], "the refused one goes first")
	})
}

func TestOtherServersServeWhileOneIsPaused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limited := &fake{answer: func(int) error { return &model.Error{Kind: model.KindRateLimit, RetryAfter: time.Hour} }}
		free := &fake{latency: time.Second}
		pool := newPool(t, model.PoolConfig{}, model.Member{Client: limited}, model.Member{Client: free})
		client := model.Retry(pool, model.RetryPolicy{}) // whose patience is shorter than the pause
		began := time.Now()
		for range 10 {
			req := hello()
			req.Affinity = "rollout"
			_, err := client.Complete(t.Context(), req)
			require.NoError(t, err)
		}
		require.Equal(t, 10*time.Second, time.Since(began))
		require.Equal(t, 1, limited.count())
	})
}

func TestPatienceCountsFromTheLastGoodAnswerOfAny(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// One request a minute is let through: 30 requests need half an hour, with a
		// patience of five minutes.
		server := &provider{perSec: 1.0 / 60, burst: 1}
		client := model.Retry(newPool(t, model.PoolConfig{}, model.Member{Client: server}), model.RetryPolicy{MaxElapsed: 5 * time.Minute})
		began := time.Now()
		var wg sync.WaitGroup
		for range 30 {
			wg.Go(func() {
				_, err := client.Complete(t.Context(), hello())
				require.NoError(t, err)
			})
		}
		wg.Wait()
		require.Greater(t, time.Since(began), 28*time.Minute)
	})
}

func TestAServerThatLetsNobodyThroughIsGivenUpByAllAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &fake{answer: always(model.KindRateLimit)}
		client := model.Retry(newPool(t, model.PoolConfig{}, model.Member{Client: server}), model.RetryPolicy{MaxElapsed: 5 * time.Minute})
		began := time.Now()
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() {
				_, err := client.Complete(t.Context(), hello())
				require.Equal(t, model.KindRateLimit, model.KindOf(err))
				require.ErrorContains(t, err, "rate_limit")
			})
		}
		wg.Wait()
		require.InDelta(t, 5, time.Since(began).Minutes(), 1.1)
		require.Less(t, server.count(), 50+15)
	})
}

func TestARequestThatAloneIsRefusedEndsAndHoldsNobodyUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := clientFunc(func(_ context.Context, req *model.Request) (*model.Response, error) {
			if req.Affinity == "too large" {
				return nil, &model.Error{Kind: model.KindRateLimit, RetryAfter: time.Second}
			}
			return &model.Response{Message: chat.Assistant("ok", ""), Attempts: 1}, nil
		})
		client := model.Retry(newPool(t, model.PoolConfig{}, model.Member{Client: server}), model.RetryPolicy{MaxElapsed: time.Minute})
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		others := 0
		wg.Go(func() {
			for ctx.Err() == nil {
				_, err := client.Complete(t.Context(), hello())
				require.NoError(t, err)
				others++
				time.Sleep(time.Second)
			}
		})
		req := hello()
		req.Affinity = "too large"
		_, err := client.Complete(ctx, req)
		require.Equal(t, model.KindRateLimit, model.KindOf(err))
		cancel()
		wg.Wait()
		require.Greater(t, others, 20)
	})
}

func TestARefusalWithoutRetriesIsReturnedAtOnce(t *testing.T) {
	server := &fake{answer: always(model.KindRateLimit)}
	client := model.Retry(newPool(t, model.PoolConfig{}, model.Member{Client: server}), model.RetryPolicy{MaxAttempts: 1})
	_, err := client.Complete(t.Context(), hello())
	require.Equal(t, model.KindRateLimit, model.KindOf(err))
	require.Equal(t, 1, server.count())
}

func TestLimitsThatAreNoNumbersAreRefused(t *testing.T) {
	for _, rates := range []model.Rates{{RequestsPerMinute: -1}, {TokensPerMinute: math.NaN()}} {
		_, err := model.NewPool(model.PoolConfig{}, model.Member{Client: &fake{}, Rates: rates})
		require.ErrorContains(t, err, "limit per minute")
	}
}

func TestAPauseThatOutlastsThePatienceIsSaidAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &fake{answer: func(int) error { return &model.Error{Kind: model.KindRateLimit, RetryAfter: time.Hour} }}
		client := model.Retry(newPool(t, model.PoolConfig{}, model.Member{Client: server}), model.RetryPolicy{})
		began := time.Now()
		_, err := client.Complete(t.Context(), hello())
		require.Equal(t, model.KindRateLimit, model.KindOf(err))
		require.Zero(t, time.Since(began))
		_, err = client.Complete(t.Context(), hello())
		require.ErrorContains(t, err, "no request was let through for 10m0s")
		require.Equal(t, 10*time.Minute, time.Since(began), "it waits, as the server may change its mind")
		require.Equal(t, 1, server.count())
	})
}
