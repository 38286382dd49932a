package model_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-env/hermes-env/agentloop/model"
	"github.com/stretchr/testify/require"
)

// unreliable refuses a share of the requests at random, before the limits of the provider.
type unreliable struct {
	*provider
	share  float64
	asks   time.Duration
	random *rand.Rand
	lost   int
}

func (u *unreliable) Complete(ctx context.Context, req *model.Request) (*model.Response, error) {
	u.mu.Lock()
	refuse := u.random.Float64() < u.share
	if refuse {
		u.lost++
	}
	u.mu.Unlock()
	if refuse {
		time.Sleep(5 * time.Millisecond)
		return nil, &model.Error{Kind: model.KindRateLimit, Status: 429, Message: "try again", RetryAfter: u.asks}
	}
	return u.provider.Complete(ctx, req)
}

// timeOf sends the requests of rollouts, and returns how long that takes in virtual time.
func timeOf(t *testing.T, server model.Client, rates model.Rates, atOnce, rollouts, requests int) time.Duration {
	t.Helper()
	var took time.Duration
	synctest.Test(t, func(t *testing.T) {
		random := rand.New(rand.NewPCG(3, 4))
		var mu sync.Mutex
		policy := model.RetryPolicy{Random: func() float64 { mu.Lock(); defer mu.Unlock(); return random.Float64() }}
		client := model.Retry(newPool(t, model.PoolConfig{}, model.Member{Client: server, Rates: rates}), policy)
		began := time.Now()
		work := make(chan bool)
		var wg sync.WaitGroup
		for range atOnce {
			wg.Go(func() {
				for range work {
					for range requests {
						_, err := client.Complete(t.Context(), hello())
						require.NoError(t, err)
					}
				}
			})
		}
		for range rollouts {
			work <- true
		}
		close(work)
		wg.Wait()
		took = time.Since(began)
	})
	return took
}

func TestPool_RandomRefusalsCostLittleThroughput(t *testing.T) {
	for _, latency := range []time.Duration{100 * time.Millisecond, 2 * time.Second} {
		for _, asks := range []time.Duration{0, time.Second} {
			for _, atOnce := range []int{4, 16, 64} {
				rollouts := 40 * atOnce
				undisturbed := timeOf(t, &provider{latency: latency}, model.Rates{}, atOnce, rollouts, 2)
				for _, share := range []float64{0.01, 0.04, 0.1} {
					worst := 1.0
					for seed := range uint64(5) {
						server := &unreliable{&provider{latency: latency}, share, asks, rand.New(rand.NewPCG(seed, 7)), 0}
						took := timeOf(t, server, model.Rates{}, atOnce, rollouts, 2)
						worst = min(worst, undisturbed.Seconds()/took.Seconds())
					}
					t.Logf("answers in %s, %d at once, Retry-After %s, %.0f %% refused: %.0f %% of the throughput at worst", latency, atOnce, asks, 100*share, 100*worst)
					require.GreaterOrEqual(t, worst, 0.5)
				}
			}
		}
	}
}

func TestPool_KeepsARateThatIsExceededByLittle(t *testing.T) {
	for name, c := range map[string]struct {
		atOnce int
		share  float64 // refused at random in addition
	}{"12 a second": {12, 0}, "14 a second": {14, 0}, "far more": {64, 0}} {
		t.Run(name, func(t *testing.T) {
			server := &unreliable{&provider{latency: time.Second, perSec: 10, burst: 10, says: wholeSeconds}, c.share, time.Second, rand.New(rand.NewPCG(1, 7)), 0}
			took := timeOf(t, server, model.Rates{}, c.atOnce, 3000, 1)
			refused := float64(server.refused) / 3000
			t.Logf("%.1f a second taken, %.1f %% refused for the rate", 3000/took.Seconds(), 100*refused)
			require.GreaterOrEqual(t, 3000/took.Seconds(), 8.5)
			require.Less(t, refused, 0.05)
		})
	}
}

// A limit of ten requests a second, and refusals that have nothing to do with it. The first
// minutes, in which both have to be told apart, count too.
func TestPool_KeepsARateBesideRandomRefusals(t *testing.T) {
	const requests = 15_000
	for _, atOnce := range []int{20, 60} {
		for _, share := range []float64{0.01, 0.04, 0.1} {
			for seed := range uint64(2) {
				server := &unreliable{&provider{latency: time.Second, perSec: 10, burst: 10, says: wholeSeconds}, share, time.Second, rand.New(rand.NewPCG(seed, 7)), 0}
				took := timeOf(t, server, model.Rates{}, atOnce, requests, 1)
				used, refused := requests/10/took.Seconds(), float64(server.refused)/requests
				t.Logf("%d at once, %.0f %% refused at random: %.0f %% of the rate used, %.1f %% refused for it", atOnce, 100*share, 100*used, 100*refused)
				require.GreaterOrEqual(t, used, 0.9)
				require.Less(t, refused, 0.13)
			}
		}
	}
}

func TestPool_RefusalPolicyIsASetting(t *testing.T) {
	slow := func(policy model.RefusalPolicy) time.Duration {
		server := &unreliable{&provider{latency: 100 * time.Millisecond}, 0.04, 0, rand.New(rand.NewPCG(1, 7)), 0}
		return timeOf(t, server, model.Rates{OnRefusal: policy}, 64, 640, 2)
	}
	require.Greater(t, slow(model.RefusalsPause), 20*time.Second, "every refusal holds all back")
	require.Less(t, slow(model.RefusalsAlone), 4*time.Second)
	require.Less(t, slow(model.RefusalsAdapt), 4*time.Second)
	_, err := model.NewPool(model.PoolConfig{}, model.Member{Client: &fake{}, Rates: model.Rates{OnRefusal: "sometimes"}})
	require.ErrorContains(t, err, "want adapt, pause or alone")
}

func TestRetry_ARequestRefusedAloneWaitsAsLongAsTheServerAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sent := 0
		server := clientFunc(func(ctx context.Context, req *model.Request) (*model.Response, error) {
			if req.Affinity == "refused" {
				if sent++; sent == 1 {
					return nil, &model.Error{Kind: model.KindRateLimit, Status: 429, RetryAfter: 30 * time.Second}
				}
			}
			return (&provider{latency: time.Second}).Complete(ctx, req)
		})
		client := model.Retry(newPool(t, model.PoolConfig{}, model.Member{Client: server}), model.RetryPolicy{Random: func() float64 { return 0 }})
		for range 10 {
			_, err := client.Complete(t.Context(), hello())
			require.NoError(t, err)
		}
		began := time.Now()
		var wg sync.WaitGroup
		wg.Go(func() {
			req := hello()
			req.Affinity = "refused"
			_, err := client.Complete(t.Context(), req)
			require.NoError(t, err)
			require.Equal(t, 31*time.Second, time.Since(began))
		})
		synctest.Wait()
		_, err := client.Complete(t.Context(), hello())
		require.NoError(t, err)
		require.Equal(t, time.Second, time.Since(began), "others are sent meanwhile")
		wg.Wait()
	})
}
