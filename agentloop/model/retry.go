package model

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

// RetryPolicy says how long and how often a failed request is sent again. The
// zero value suits runs of many rollouts that should outlast a server's restart.
type RetryPolicy struct {
	// MaxElapsed ends the attempts: none begins later than this after the first
	// failure, however long the request had run before. 0 means 10 minutes,
	// negative no limit.
	MaxElapsed time.Duration
	// BaseDelay is waited after the first failure and doubles with each further
	// one up to MaxDelay; up to half of the delay is added at random. 0 means 1 s
	// and 60 s. A longer wait that the server asks for is honoured.
	BaseDelay, MaxDelay time.Duration
	// MaxAttempts is the number of requests in all; 0 means no cap.
	MaxAttempts int
	// MaxUnreadable is how many unreadable or empty answers in a row are put up
	// with: a wrong address gives them for ever. 0 means 5, negative no limit.
	MaxUnreadable int

	// OnRetry is told about every wait before it begins. It must return quickly
	// and may be called from many goroutines at once.
	OnRetry func(RetryEvent)
	// Random gives numbers in [0, 1) for the jitter; nil means math/rand/v2.
	Random func() float64
}

// RetryEvent is one wait between two attempts.
type RetryEvent struct {
	Err      *Error        // what went wrong
	Attempt  int           // the attempt that failed, from 1
	Delay    time.Duration // how long is waited now
	Elapsed  time.Duration // since the first failure
	Affinity string        // of the request
}

// AttemptsError is the failure of a request that was sent more than once. It
// wraps the last failure.
type AttemptsError struct {
	Attempts int
	Elapsed  time.Duration // from the first attempt's start
	Reason   string        // why no further attempt was made
	Err      error
}

// Error gives the last failure, and how often and how long was tried.
func (e *AttemptsError) Error() string {
	return fmt.Sprintf("%v (gave up after %d attempts in %s: %s)", e.Err, e.Attempts, e.Elapsed.Round(time.Millisecond), e.Reason)
}

// Unwrap returns the last failure.
func (e *AttemptsError) Unwrap() error { return e.Err }

type retrying struct {
	next   Client
	policy RetryPolicy
}

// Retry returns a client that sends a request again when its failure may heal
// (Error.Retryable). Errors of other types are passed on at once.
func Retry(next Client, policy RetryPolicy) Client {
	if policy.MaxElapsed == 0 {
		policy.MaxElapsed = 10 * time.Minute
	}
	if policy.BaseDelay <= 0 {
		policy.BaseDelay = time.Second
	}
	if policy.MaxDelay <= 0 {
		policy.MaxDelay = time.Minute
	}
	if policy.MaxUnreadable == 0 {
		policy.MaxUnreadable = 5
	}
	if policy.Random == nil {
		policy.Random = rand.Float64
	}
	return &retrying{next, policy}
}

// CloseIdleConnections closes those of the client below.
func (r *retrying) CloseIdleConnections() { closeIdle(r.next) }

func closeIdle(c Client) {
	if closer, ok := c.(interface{ CloseIdleConnections() }); ok {
		closer.CloseIdleConnections()
	}
}

// Complete sends the request until it succeeds, can't, or the policy ends it.
func (r *retrying) Complete(ctx context.Context, req *Request) (*Response, error) {
	var (
		start        = time.Now()
		firstFailure time.Time
		waited       time.Duration
		unreadable   int
	)
	for attempt := 1; ; attempt++ {
		resp, err := r.next.Complete(ctx, req)
		if err == nil {
			resp.Attempts += attempt - 1
			resp.Wait += waited
			return resp, nil
		}
		var failure *Error
		retryable := errors.As(err, &failure) && failure.Retryable()
		now := time.Now()
		if attempt == 1 {
			firstFailure = now
		}
		giveUp := func(reason string) error {
			if attempt == 1 {
				return err
			}
			return &AttemptsError{Attempts: attempt, Elapsed: now.Sub(start), Reason: reason, Err: err}
		}
		if !retryable {
			return nil, giveUp("trying again can't help")
		}
		if failure.Kind == KindInvalidResponse || failure.Kind == KindEmptyResponse {
			unreadable++
		} else {
			unreadable = 0
		}
		switch {
		case r.policy.MaxAttempts > 0 && attempt >= r.policy.MaxAttempts:
			return nil, giveUp("no attempts left")
		case r.policy.MaxUnreadable > 0 && unreadable >= r.policy.MaxUnreadable:
			return nil, giveUp(fmt.Sprintf("%d answers in a row were of no use", unreadable))
		}
		delay := r.delay(attempt)
		if failure.RetryAfter > delay {
			// The jitter spreads the rollouts that were all told the same time.
			delay = failure.RetryAfter + time.Duration(r.policy.Random()*float64(r.delayBase(attempt))/2)
		}
		elapsed := now.Sub(firstFailure)
		if left := r.policy.MaxElapsed - elapsed; r.policy.MaxElapsed > 0 {
			if left <= 0 {
				return nil, giveUp("the time for retries is over")
			}
			if failure.RetryAfter > left {
				return nil, giveUp(fmt.Sprintf("the server asks to wait %s, longer than the %s left for retries", failure.RetryAfter, left.Round(time.Second)))
			}
			delay = min(delay, left)
		}
		if r.policy.OnRetry != nil {
			r.policy.OnRetry(RetryEvent{Err: failure, Attempt: attempt, Delay: delay, Elapsed: elapsed, Affinity: req.Affinity})
		}
		timer := time.NewTimer(delay)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			cancelled := *failure
			cancelled.Kind, cancelled.Err = KindCancelled, ctx.Err()
			cancelled.Message = "while waiting to try again after: " + failure.Kind.Summary() + ": " + failure.Message
			return nil, &cancelled
		}
		waited += time.Since(now)
	}
}

// delayBase is the wait after the given attempt without jitter.
func (r *retrying) delayBase(attempt int) time.Duration {
	delay := r.policy.BaseDelay
	for range attempt - 1 {
		if delay >= r.policy.MaxDelay {
			break
		}
		delay *= 2
	}
	return min(delay, r.policy.MaxDelay)
}

func (r *retrying) delay(attempt int) time.Duration {
	base := r.delayBase(attempt)
	return base + time.Duration(r.policy.Random()*float64(base)/2)
}
