package model_test

import (
	"context"
	"fmt"
	"time"

	"github.com/hermes-env/hermes-env/agentloop/chat"
	"github.com/hermes-env/hermes-env/agentloop/model"
	"github.com/hermes-env/hermes-env/agentloop/model/modeltest"
)

// Two servers behind one client: requests go to the less busy one, failures that
// may heal are sent again.
func Example() {
	first, err := modeltest.Start(modeltest.Config{Script: modeltest.InOrder(modeltest.Status(503), modeltest.Text("Paris"))})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer first.Close()
	second, err := modeltest.Start(modeltest.Config{Script: modeltest.Always(modeltest.Text("Paris"))})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer second.Close()

	pool, err := model.ForServers([]model.Server{
		{BaseURL: first.URL, Model: "small", Weight: 2},
		{BaseURL: second.URL, Model: "small", MaxConcurrent: 64},
	}, model.PoolConfig{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer pool.CloseIdleConnections()
	client := model.Retry(pool, model.RetryPolicy{
		MaxElapsed: time.Minute, BaseDelay: time.Millisecond,
		OnRetry: func(e model.RetryEvent) { fmt.Println("waiting:", e.Err.Kind) },
	})
	answer, err := client.Complete(context.Background(), &model.Request{
		Messages: []chat.Message{chat.User("What is the capital of France?")},
		Affinity: "rollout-1",
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(answer.Message.Text(), answer.Attempts)
	// Output:
	// waiting: overloaded
	// Paris 2
}
