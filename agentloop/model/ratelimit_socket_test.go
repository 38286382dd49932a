package model_test

import (
	"sync"
	"testing"
	"time"

	"github.com/hermes-env/hermes-env/agentloop/model"
	"github.com/hermes-env/hermes-env/agentloop/model/modeltest"
	"github.com/hermes-env/hermes-env/internal/slowtest"
	"github.com/stretchr/testify/require"
)

func TestTwoHundredRolloutsGetThroughARateLimitedServer(t *testing.T) {
	throughRateLimitedServer(t, 0)
}

func TestTwoHundredRolloutsGetThroughAServerThatAlsoRefusesAtRandom(t *testing.T) {
	slowtest.Require(t)
	throughRateLimitedServer(t, 20)
}

// throughRateLimitedServer sends rollouts to a server on a socket that takes 500 requests a
// second, and refuses one in some requests whatever their rate; 0 for none.
func throughRateLimitedServer(t *testing.T, oneIn int) {
	const rollouts, turns, perSecond, bucket = 200, 4, 500.0, 100.0
	var (
		mu                sync.Mutex
		level             = bucket
		at                = time.Now()
		accepted, refused int
		asked             int
	)
	server := modeltest.NewServer(t, func(*modeltest.Request) modeltest.Reply {
		mu.Lock()
		defer mu.Unlock()
		if asked++; oneIn > 0 && asked%oneIn == 0 {
			refused++
			return modeltest.Status(429, "busy")
		}
		now := time.Now()
		level = min(bucket, level+now.Sub(at).Seconds()*perSecond)
		at = now
		if level < 1 {
			refused++
			return modeltest.Status(429, "rate limit reached").WithHeader("Retry-After-Ms", "100")
		}
		level--
		accepted++
		return modeltest.Text("ok")
	})
	pool, err := model.ForServers([]model.Server{{BaseURL: server.URL, Model: "mock"}}, model.PoolConfig{})
	require.NoError(t, err)
	defer pool.CloseIdleConnections()
	client := model.Retry(pool, model.RetryPolicy{})
	var wg sync.WaitGroup
	for range rollouts {
		wg.Go(func() {
			ctx, _, cancel := model.WithTimeout(t.Context(), time.Minute, errLimit)
			defer cancel()
			for range turns {
				_, err := client.Complete(ctx, hello())
				require.NoError(t, err)
			}
		})
	}
	wg.Wait()
	require.Equal(t, rollouts*turns, accepted)
	// What is sent before the first refusal is known, a quarter here, can't be helped.
	require.Less(t, refused, accepted)
	require.EqualValues(t, refused, pool.Rates().Refused)
}
