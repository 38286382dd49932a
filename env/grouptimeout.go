package env

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hermes-env/hermes-env/env/config"
	"github.com/hermes-env/hermes-env/trajectories"
)

// errGroupTimeout is why the rollouts of a group end that takes longer than env.worker_timeout.
var errGroupTimeout = errors.New("the time limit of the group is reached")

// classGroupTimeout is the class of failure of rollouts that their group's time limit ended.
const classGroupTimeout = "worker_timeout"

// groupClock is when the time of a group is over; it starts with its first rollout.
type groupClock struct {
	once     sync.Once
	deadline time.Time
}

func (c *groupClock) start(limit time.Duration) time.Time {
	c.once.Do(func() { c.deadline = time.Now().Add(limit) })
	return c.deadline
}

// withinGroupTime runs an assignment in what is left of its group's time. A rollout that
// is cut off counts as one whose limit ran out: it has no score, and no resumed run
// tries it again.
func (r *Runner) withinGroupTime(ctx context.Context, a assignment) *trajectories.Rollout {
	limit := r.opts.Config.WorkerTimeout.Duration()
	if limit <= 0 || r.opts.Mode == config.Evaluate {
		return r.withRetries(ctx, a)
	}
	within, cancel := context.WithDeadlineCause(ctx, a.group.clock.start(limit), errGroupTimeout)
	defer cancel()
	rec := r.withRetries(within, a)
	if rec.Score == nil && errors.Is(context.Cause(within), errGroupTimeout) {
		rec.Outcome = trajectories.OutcomeLimit
		rec.Error = &trajectories.Failure{Class: classGroupTimeout, Message: fmt.Sprintf("%v: %g s (env.worker_timeout)", errGroupTimeout, limit.Seconds())}
	}
	return rec
}
