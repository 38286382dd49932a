package model_test

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/agentloop/chat"
	"github.com/hermes-env/hermes-env/agentloop/model"
	"github.com/hermes-env/hermes-env/agentloop/model/modeltest"
)

func TestPricesOfTokens(t *testing.T) {
	p := model.Price{Input: 2, CachedInput: 0.5, Output: 10}
	for name, c := range map[string]struct {
		usage chat.Usage
		usd   float64
	}{
		"nothing":                            {chat.Usage{}, 0},
		"in and out":                         {chat.Usage{PromptTokens: 1_000_000, CompletionTokens: 100_000}, 3},
		"cached tokens are part of those in": {chat.Usage{PromptTokens: 1_000_000, CachedTokens: 600_000}, 1.1},
		"reasoning is part of those out":     {chat.Usage{CompletionTokens: 1000, ReasoningTokens: 900}, 0.01},
		"more cached than there are":         {chat.Usage{PromptTokens: 10, CachedTokens: 1_000_000}, 5e-6},
		"fewer cached than none":             {chat.Usage{PromptTokens: 10, CachedTokens: -5}, 20e-6},
	} {
		t.Run(name, func(t *testing.T) { require.InDelta(t, c.usd, p.USD(c.usage), 1e-12) })
	}
	require.True(t, model.Price{}.Free())
	require.False(t, p.Free())
}

func TestPoolsBookEveryAnswerToTheAccountOfItsContext(t *testing.T) {
	price := &model.Price{Input: 1, Output: 10}
	cost := 100e-6 + 200e-6
	for name, c := range map[string]struct {
		reply []modeltest.Reply
		price *model.Price
		want  model.Spend
	}{
		"an answer": {[]modeltest.Reply{modeltest.Text("x").WithUsage(100, 20)}, price,
			model.Spend{Calls: 1, Usage: chat.Usage{PromptTokens: 100, CompletionTokens: 20, TotalTokens: 120}, USD: cost}},
		"one without a price": {[]modeltest.Reply{modeltest.Text("x").WithUsage(100, 20)}, nil,
			model.Spend{Calls: 1, Unpriced: 1, Usage: chat.Usage{PromptTokens: 100, CompletionTokens: 20, TotalTokens: 120}}},
		"one without usage": {[]modeltest.Reply{modeltest.Text("x").WithoutUsage()}, price,
			model.Spend{Calls: 1, Unreported: 1, Unpriced: 1}},
		"one without usage of a free server": {[]modeltest.Reply{modeltest.Text("x").WithoutUsage()}, &model.Price{},
			model.Spend{Calls: 1, Unreported: 1}},
		"one that is of no use but was paid for": {
			[]modeltest.Reply{
				modeltest.Raw(200, "application/json", `{"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":0}}`),
				modeltest.Text("x").WithUsage(100, 20),
			}, price,
			model.Spend{Calls: 2, Usage: chat.Usage{PromptTokens: 107, CompletionTokens: 20, TotalTokens: 127}, USD: cost + 7e-6}},
		"refusals cost nothing": {[]modeltest.Reply{modeltest.Status(500, "down"), modeltest.Text("x").WithUsage(100, 20)}, price,
			model.Spend{Calls: 1, Usage: chat.Usage{PromptTokens: 100, CompletionTokens: 20, TotalTokens: 120}, USD: cost}},
	} {
		t.Run(name, func(t *testing.T) {
			server := modeltest.NewServer(t, modeltest.InOrder(c.reply...))
			pool, err := model.ForServers([]model.Server{{BaseURL: server.URL, Model: "m", Price: c.price}}, model.PoolConfig{})
			require.NoError(t, err)
			defer pool.CloseIdleConnections()
			client := model.Retry(pool, model.RetryPolicy{BaseDelay: 1, MaxDelay: 1})
			var account model.Account
			_, err = client.Complete(model.WithAccount(t.Context(), &account), &model.Request{Messages: []chat.Message{chat.User("hi")}})
			require.NoError(t, err)
			got := account.Take()
			require.InDelta(t, c.want.USD, got.USD, 1e-12)
			got.USD, c.want.USD = 0, 0
			require.Equal(t, c.want, got)
			require.Zero(t, account.Spend(), "what was taken is gone")
			_, err = client.Complete(context.Background(), &model.Request{Messages: []chat.Message{chat.User("hi")}})
			require.NoError(t, err, "without an account nothing is booked")
		})
	}
}

func TestAnAccountIsBookedByManyAtOnce(t *testing.T) {
	server := modeltest.NewServer(t, modeltest.Always(modeltest.Text("x").WithUsage(10, 1)))
	pool, err := model.ForServers([]model.Server{{BaseURL: server.URL, Model: "m", Price: &model.Price{Input: 1}}}, model.PoolConfig{})
	require.NoError(t, err)
	defer pool.CloseIdleConnections()
	var account model.Account
	ctx := model.WithAccount(t.Context(), &account)
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			_, err := pool.Complete(ctx, &model.Request{Messages: []chat.Message{chat.User("hi")}})
			require.NoError(t, err)
			account.Spend()
		})
	}
	all.Wait()
	require.Equal(t, 50, account.Spend().Calls)
	require.InDelta(t, 500e-6, account.Spend().USD, 1e-9)
}
