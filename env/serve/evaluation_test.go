package serve

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/env/atropos"
)

func TestEvaluationsFollowTheTrainersSteps(t *testing.T) {
	a := newAPI(t)
	a.up()
	trainer := a.trainer(func(r *atropos.Registration) { r.StartingStep = 3 })
	begun := make(chan int64)
	end := make(chan error)
	dir := t.TempDir()
	evaluate := func(c *Config) {
		c.EvalEvery = 10
		c.Evaluate = func(ctx context.Context, step int64) error {
			select {
			case begun <- step:
			case <-ctx.Done():
				return ctx.Err()
			}
			select {
			case err := <-end:
				return err
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
	w := newWorkerIn(a, dir, evaluate)
	w.ready()
	at := func(step int64) {
		_, err := trainer.Register(t.Context(), atropos.Registration{WandbGroup: "g", WandbProject: "p", BatchSize: 4, MaxTokenLen: 64, CheckpointDir: "c", SaveCheckpointInterval: 10, NumSteps: 100, StartingStep: step})
		require.NoError(t, err)
		require.Eventually(t, func() bool { return w.Status().Queue.CurrentStep == step }, patience, time.Millisecond)
	}
	at(9)
	w.admit()
	w.Ended(0)
	at(25) // neither 10 nor 20 was ever seen
	require.EqualValues(t, 25, <-begun)
	w.held(HoldEval)
	at(31)
	w.notes.told("step 31: the evaluation before this one still runs")
	end <- errors.New("no disk")
	w.notes.told("the evaluation at step 25 failed: no disk")
	w.admit()
	w.Ended(0)
	at(40)
	require.EqualValues(t, 40, <-begun)

	// Killed in the middle of it: the next process begins it again, with the policy as it is by then.
	left := copied(t, dir)
	end <- nil
	require.NoError(t, w.finish())
	next := newWorkerIn(a, left, evaluate)
	require.EqualValues(t, 40, <-begun)
	end <- nil
	next.ready()
	require.NoError(t, next.finish())

	// At the start when that is asked for, but not a second time at the same step.
	fresh := newWorker(a, evaluate, func(c *Config) { c.EvalAtStart = true })
	require.EqualValues(t, 40, <-begun)
	fresh.held(HoldEval)
	end <- nil
	fresh.admit()
	require.NoError(t, fresh.finish())
	again := newWorkerIn(a, fresh.dir, evaluate, func(c *Config) { c.EvalAtStart = true })
	again.ready()
	again.admit()
	require.NoError(t, again.finish())
}

func TestCrossingsAreSeenHoweverFarAStepJumps(t *testing.T) {
	for _, c := range []struct {
		old, step, every int64
		want             bool
	}{
		{0, 3, 2, true}, {0, 1, 2, false}, {1, 2, 2, true}, {2, 3, 2, false}, {0, 2, 2, true}, {2, 6, 2, true}, {5, 5, 5, false},
		{9, 4, 5, false}, {3, 4, 0, false}, {3, 4, -1, false}, {0, 1, 1, true}, {99, 100, 100, true}, {100, 199, 100, false},
	} {
		require.Equal(t, c.want, crossed(c.old, c.step, c.every), "%+v", c)
	}
}
