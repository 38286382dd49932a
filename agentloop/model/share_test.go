package model_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/agentloop/chat"
	"github.com/hermes-env/hermes-env/agentloop/model"
	"github.com/hermes-env/hermes-env/agentloop/model/modeltest"
)

func TestAShareOfAServerBoundsWhatIsInFlight(t *testing.T) {
	server := modeltest.NewServer(t, func(*modeltest.Request) modeltest.Reply { return modeltest.Hang() })
	pool, err := model.ForServers([]model.Server{{BaseURL: server.URL, Model: "m", MaxConcurrent: 10}}, model.PoolConfig{})
	require.NoError(t, err)
	defer pool.CloseIdleConnections()
	ctx, cancel := context.WithCancel(t.Context())
	var requests sync.WaitGroup
	for range 20 {
		requests.Go(func() {
			_, err := pool.Complete(ctx, &model.Request{Messages: []chat.Message{chat.User("x")}})
			require.Error(t, err)
		})
	}
	settles := func(n int) {
		t.Helper()
		require.Eventually(t, func() bool { return server.InFlight() == n }, time.Minute, time.Millisecond)
		members, waiting := pool.Snapshot()
		require.Equal(t, n, members[0].InFlight)
		require.Equal(t, 20-n, waiting)
	}
	pool.SetShare(0.01)
	require.Eventually(t, func() bool { _, waiting := pool.Snapshot(); return waiting >= 10 }, time.Minute, time.Millisecond)
	pool.SetShare(1)
	settles(10)
	pool.SetShare(0.25) // those in flight stay
	settles(10)
	cancel()
	requests.Wait()

	ctx, cancel = context.WithCancel(t.Context())
	for range 20 {
		requests.Go(func() { _, _ = pool.Complete(ctx, &model.Request{Messages: []chat.Message{chat.User("x")}}) })
	}
	settles(3)
	pool.SetShare(0)
	settles(3)
	pool.SetShare(0.5)
	settles(5)
	cancel()
	requests.Wait()
}
