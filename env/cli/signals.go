package cli

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/hermes-env/hermes-env/env"
)

// notifySignals delivers Ctrl-C and SIGTERM; stop restores the default.
func notifySignals() (signals <-chan os.Signal, stop func()) {
	c := make(chan os.Signal, 4)
	signal.Notify(c, os.Interrupt, syscall.SIGTERM)
	return c, func() { signal.Stop(c) }
}

// interruptible makes the context of a run. The first signal closes drain, so
// that nothing new starts, and gives what runs the grace time before the context
// ends; the second ends it at once.
func interruptible(parent context.Context, signals <-chan os.Signal, grace time.Duration, out printer) (ctx context.Context, drain <-chan struct{}, release func()) {
	ctx, cancel := context.WithCancelCause(parent)
	draining := make(chan struct{})
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Add(1)
	go func() {
		defer wg.Done()
		var first os.Signal
		select {
		case first = <-signals:
		case <-done:
			return
		}
		close(draining)
		out.Note(fmt.Sprintf("%s: no new rollouts are started; those running have %s to finish (once more to stop at once)", name(first), grace))
		timer := time.NewTimer(grace)
		defer timer.Stop()
		select {
		case <-signals:
			out.Note("stopping now; finished rollouts are saved")
		case <-timer.C:
			out.Note("time is up; cancelling what still runs")
		case <-done:
			return
		}
		cancel(env.ErrInterrupted)
	}()
	return ctx, draining, func() {
		close(done)
		wg.Wait()
		cancel(nil)
	}
}

func name(s os.Signal) string {
	if s == os.Interrupt {
		return "interrupted"
	}
	return "asked to stop (" + s.String() + ")"
}
