package model_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-env/hermes-env/agentloop/model"
	"github.com/hermes-env/hermes-env/agentloop/model/modeltest"
	"github.com/stretchr/testify/require"
)

func noJitter() float64 { return 0 }

// failing answers with the errors in turn and then well.
func failing(errs ...error) func(int) error {
	return func(call int) error {
		if call <= len(errs) {
			return errs[call-1]
		}
		return nil
	}
}

func repeat(n int, err error) []error {
	errs := make([]error, n)
	for i := range errs {
		errs[i] = err
	}
	return errs
}

func TestFailuresThatHealAreSentAgainWithGrowingDelays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var delays []time.Duration
		client := &fake{answer: failing(repeat(8, &model.Error{Kind: model.KindServerError})...)}
		retry := model.Retry(client, model.RetryPolicy{Random: noJitter, OnRetry: func(e model.RetryEvent) {
			delays = append(delays, e.Delay)
			require.Equal(t, len(delays), e.Attempt)
			require.Equal(t, model.KindServerError, e.Err.Kind)
			require.Equal(t, "rollout", e.Affinity)
		}})
		began := time.Now()
		req := hello()
		req.Affinity = "rollout"
		resp, err := retry.Complete(t.Context(), req)
		require.NoError(t, err)
		s := time.Second
		require.Equal(t, []time.Duration{s, 2 * s, 4 * s, 8 * s, 16 * s, 32 * s, 60 * s, 60 * s}, delays)
		require.Equal(t, 9, resp.Attempts)
		require.Equal(t, time.Since(began), resp.Wait)
	})
}

func TestTheJitterAddsUpToHalfOfTheDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := &fake{answer: failing(&model.Error{Kind: model.KindNetwork})}
		var delay time.Duration
		retry := model.Retry(client, model.RetryPolicy{
			BaseDelay: 4 * time.Second, Random: func() float64 { return 0.5 },
			OnRetry: func(e model.RetryEvent) { delay = e.Delay },
		})
		_, err := retry.Complete(t.Context(), hello())
		require.NoError(t, err)
		require.Equal(t, 5*time.Second, delay)
	})
}

func TestWhatTheServerAsksForIsHonoured(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := &fake{answer: failing(
			&model.Error{Kind: model.KindRateLimit, RetryAfter: 42 * time.Second},
			&model.Error{Kind: model.KindRateLimit, RetryAfter: time.Millisecond}, // shorter than the back-off
		)}
		resp, err := model.Retry(client, model.RetryPolicy{Random: noJitter}).Complete(t.Context(), hello())
		require.NoError(t, err)
		require.Equal(t, 42*time.Second+2*time.Second, resp.Wait)
	})
	t.Run("unless it is longer than the time left", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			client := &fake{answer: failing(&model.Error{Kind: model.KindRateLimit}, &model.Error{Kind: model.KindRateLimit, RetryAfter: time.Hour})}
			began := time.Now()
			_, err := model.Retry(client, model.RetryPolicy{Random: noJitter}).Complete(t.Context(), hello())
			require.ErrorContains(t, err, "the server asks to wait 1h0m0s, longer than the 9m59s left")
			require.Equal(t, model.KindRateLimit, model.KindOf(err))
			require.Equal(t, time.Second, time.Since(began))
		})
	})
}

func TestRetriesEnd(t *testing.T) {
	server := &model.Error{Kind: model.KindServerError, Message: "boom"}
	for name, test := range map[string]struct {
		policy   model.RetryPolicy
		latency  time.Duration
		err      error
		attempts int
		elapsed  time.Duration
		says     string
	}{
		"when the time is over, with a last attempt at its end": {
			policy: model.RetryPolicy{MaxElapsed: 10 * time.Second}, err: server, attempts: 5, elapsed: 10 * time.Second, says: "gave up after 5 attempts in 10s"},
		"not before a slow request was tried twice": {
			policy: model.RetryPolicy{MaxElapsed: 10 * time.Second}, latency: time.Hour, err: server, attempts: 2, elapsed: 2*time.Hour + time.Second, says: "the time for retries is over"},
		"when the attempts are used up": {
			policy: model.RetryPolicy{MaxAttempts: 3}, err: server, attempts: 3, elapsed: 3 * time.Second, says: "no attempts left"},
		"when answers stay unreadable": {
			err: &model.Error{Kind: model.KindInvalidResponse}, attempts: 5, elapsed: 15 * time.Second, says: "5 answers in a row"},
		"at once for what can't heal": {
			err: &model.Error{Kind: model.KindAuth}, attempts: 1, says: "the key was not accepted"},
		"at once for foreign errors": {
			err: errors.New("foreign"), attempts: 1, says: "foreign"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				test.policy.Random = noJitter
				client := &fake{latency: test.latency, answer: func(int) error { return test.err }}
				began := time.Now()
				_, err := model.Retry(client, test.policy).Complete(t.Context(), hello())
				require.ErrorIs(t, err, test.err)
				require.ErrorContains(t, err, test.says)
				require.Equal(t, test.attempts, client.count())
				require.Equal(t, test.elapsed, time.Since(began))
				var attempts *model.AttemptsError
				require.Equal(t, test.attempts > 1, errors.As(err, &attempts))
				if attempts != nil {
					require.Equal(t, test.attempts, attempts.Attempts)
				}
			})
		})
	}
}

func TestABackOffEndsWithTheContextAndSaysWhatItWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := &fake{answer: always(model.KindRateLimit)}
		ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
		defer cancel()
		began := time.Now()
		_, err := model.Retry(client, model.RetryPolicy{Random: noJitter}).Complete(ctx, hello())
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, model.KindCancelled, model.KindOf(err))
		require.ErrorContains(t, err, "rate limited")
		require.Equal(t, 1500*time.Millisecond, time.Since(began))
	})
}

func TestEveryFaultThatHealsIsOutlivedOverRealConnections(t *testing.T) {
	text := modeltest.Text("a fairly ordinary answer of the model")
	faults := []modeltest.Reply{
		modeltest.RateLimited(0), modeltest.Status(500), modeltest.Status(502), modeltest.Status(503), modeltest.Status(529),
		modeltest.Reset(), modeltest.CloseConnection(), text.ResetMidBody(), text.CutOff(), text.Truncated(), text.Stalled(),
		modeltest.Hang(), modeltest.InvalidJSON(), modeltest.HTML("Gateway"), modeltest.EmptyChoices(), modeltest.NullMessage(),
	}
	server := modeltest.NewServer(t, modeltest.InOrder(append(faults, text)...))
	client := newChat(t, model.Server{BaseURL: server.URL, Timeout: 500 * time.Millisecond, StallTimeout: 100 * time.Millisecond})
	resp, err := model.Retry(client, model.RetryPolicy{BaseDelay: time.Millisecond, MaxDelay: 2 * time.Millisecond, MaxUnreadable: -1}).Complete(t.Context(), hello())
	require.NoError(t, err)
	// More are possible where a busy machine lets the short timeout run out.
	require.GreaterOrEqual(t, resp.Attempts, len(faults)+1)
	require.Greater(t, server.RequestCount(), len(faults))
	require.Equal(t, "a fairly ordinary answer of the model", resp.Message.Text())
}
