package model

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

// mostRefusals is how often one request is refused for its rate before others that get
// through stop counting in its favour: some requests are too large for any rate.
const mostRefusals = 100

// RetryPolicy says how long and how often a failed request is sent again. The
// zero value suits runs of many rollouts that should outlast a server's restart.
type RetryPolicy struct {
	// MaxElapsed ends the attempts: none begins later than this after the first
	// failure, however long the request had run before. 0 means 10 minutes,
	// negative no limit. For requests that a Pool refuses for their rate it counts
	// from the last good answer that any request got: a server that serves others
	// is not down.
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
	pool   *Pool // next, when it is one: it knows when a refused request may be sent again
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
	pool, _ := next.(*Pool)
	return &retrying{next, pool, policy}
}

// CloseIdleConnections closes those of the client below.
func (r *retrying) CloseIdleConnections() { closeIdle(r.next) }

func closeIdle(c Client) {
	if closer, ok := c.(interface{ CloseIdleConnections() }); ok {
		closer.CloseIdleConnections()
	}
}

// attempts is the state of one request.
type attempts struct {
	start        time.Time
	sent         time.Time // the last attempt
	firstFailure time.Time // other than a refusal that the pool waits out
	failures     int       // of that kind
	refusals     int       // of the other
	alone        int       // of them in a row, those that concerned this request alone
	unreadable   int       // in a row
	ticket       ticket
}

// send makes one attempt.
func (r *retrying) send(ctx context.Context, req *Request, a *attempts) (*Response, error) {
	if r.pool == nil {
		return r.next.Complete(ctx, req)
	}
	return r.pool.completeAgain(ctx, req, &a.ticket)
}

// Complete sends the request until it succeeds, can't, or the policy ends it.
func (r *retrying) Complete(ctx context.Context, req *Request) (*Response, error) {
	now := time.Now()
	a := &attempts{start: now, ticket: ticket{began: now, patience: max(0, r.policy.MaxElapsed)}}
	var waited time.Duration
	for attempt := 1; ; attempt++ {
		a.sent = time.Now()
		resp, err := r.send(ctx, req, a)
		if err == nil {
			resp.Attempts += attempt - 1
			resp.Wait += waited
			return resp, nil
		}
		more, err := r.pause(ctx, req, a, attempt, err)
		if err != nil {
			return nil, err
		}
		waited += more
	}
}

// pause waits until a request that failed may be sent again, and returns for how long it
// waited; an error if it may not.
func (r *retrying) pause(ctx context.Context, req *Request, a *attempts, attempt int, err error) (time.Duration, error) {
	var failure *Error
	retryable := errors.As(err, &failure) && failure.Retryable()
	now := time.Now()
	giveUp := func(reason string) error {
		if attempt == 1 {
			return err
		}
		return &AttemptsError{Attempts: attempt, Elapsed: now.Sub(a.start), Reason: reason, Err: err}
	}
	if !retryable {
		return 0, giveUp("trying again can't help")
	}
	if failure.Kind == KindInvalidResponse || failure.Kind == KindEmptyResponse {
		a.unreadable++
	} else {
		a.unreadable = 0
	}
	switch {
	case r.policy.MaxAttempts > 0 && attempt >= r.policy.MaxAttempts:
		return 0, giveUp("no attempts left")
	case r.policy.MaxUnreadable > 0 && a.unreadable >= r.policy.MaxUnreadable:
		return 0, giveUp(fmt.Sprintf("%d answers in a row were of no use", a.unreadable))
	}
	delay, elapsed, reason := r.wait(now, a, failure)
	if reason != "" {
		return 0, giveUp(reason)
	}
	if r.policy.OnRetry != nil {
		shown := delay
		if delay == 0 {
			shown = failure.RetryAfter
		}
		r.policy.OnRetry(RetryEvent{Err: failure, Attempt: attempt, Delay: shown, Elapsed: elapsed, Affinity: req.Affinity})
	}
	if delay == 0 {
		return now.Sub(a.sent), nil // the pool counts the rest
	}
	timer := time.NewTimer(delay)
	select {
	case <-timer.C:
	case <-ctx.Done():
		timer.Stop()
		cancelled := *failure
		cancelled.Kind, cancelled.Err = KindCancelled, ctx.Err()
		cancelled.Message = "while waiting to try again after: " + failure.Kind.Summary() + ": " + failure.Message
		return 0, &cancelled
	}
	return time.Since(now), nil
}

// wait decides how long to wait after a failure: 0 when the pool does. elapsed is the
// time that counts against MaxElapsed. A reason ends the attempts.
func (r *retrying) wait(now time.Time, a *attempts, failure *Error) (delay, elapsed time.Duration, reason string) {
	asked := failure.RetryAfter
	if r.pool != nil && failure.limits() {
		asked = r.pool.pauseLeft() // other servers may serve it at once
		if a.refusals++; a.refusals%3 == 0 {
			a.ticket.place = 0 // it may be at fault itself: those behind it come first
		}
		since := a.start
		if refused := r.pool.refusedSince(); refused.After(since) {
			since = refused
		}
		if a.refusals >= mostRefusals && now.Sub(a.start) >= 3*r.policy.MaxElapsed {
			since = a.start
		}
		elapsed = now.Sub(since)
		if a.ticket.alone {
			delay = r.aloneDelay(a.alone, failure.RetryAfter)
			asked = delay
			a.alone++
		} else {
			a.alone = 0
		}
	} else {
		if a.failures++; a.failures == 1 {
			a.firstFailure = now
		}
		elapsed = now.Sub(a.firstFailure)
		delay = r.delay(a.failures)
		if failure.RetryAfter > delay {
			// The jitter spreads the rollouts that were all told the same time.
			delay = failure.RetryAfter + time.Duration(r.policy.Random()*float64(r.delayBase(a.failures))/2)
		}
	}
	if left := r.policy.MaxElapsed - elapsed; r.policy.MaxElapsed > 0 {
		if left <= 0 {
			return 0, elapsed, "the time for retries is over"
		}
		if asked > left {
			return 0, elapsed, fmt.Sprintf("the server asks to wait %s, longer than the %s left for retries", asked.Round(time.Millisecond), left.Round(time.Second))
		}
		delay = min(delay, left)
	}
	return delay, elapsed, ""
}

// briefDelay is the first wait of a request that alone was refused for a rate. A server
// that takes other requests at that moment may take it, too.
const briefDelay = 100 * time.Millisecond

// aloneDelay is the wait of a request after so many refusals that concerned it alone. What
// the server asks is honoured from two seconds: one is the least that Retry-After can say.
func (r *retrying) aloneDelay(before int, asked time.Duration) time.Duration {
	delay := min(briefDelay<<min(before, 10), r.policy.MaxDelay)
	if asked > 0 {
		delay = min(delay, max(asked, briefDelay))
	}
	if asked > time.Second {
		delay = asked
	}
	return delay + time.Duration(r.policy.Random()*float64(min(delay, time.Second))/2)
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
