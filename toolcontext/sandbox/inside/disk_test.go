package inside

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
)

// fakeDisk is written to by a test.
type fakeDisk struct {
	mu            sync.Mutex
	used, hidden  int64 // what a count finds; hidden is what growth does not see
	base          int64
	counts, looks int
	running       bool
}

func (d *fakeDisk) write(n int64) { d.mu.Lock(); d.used += n; d.mu.Unlock() }

func (d *fakeDisk) growth() int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.looks++
	return max(d.used-d.base, 0)
}

func (d *fakeDisk) reset() { d.mu.Lock(); d.base = d.used; d.mu.Unlock() }

func (d *fakeDisk) count(context.Context) int64 {
	time.Sleep(10 * time.Millisecond)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.counts++
	return d.used + d.hidden
}

func (d *fakeDisk) busy() bool { d.mu.Lock(); defer d.mu.Unlock(); return d.running }

// watched runs a watch of 100 MB over a disk while a test plays with it.
func watched(t *testing.T, play func(d *fakeDisk, w *diskWatch)) (d *fakeDisk, w *diskWatch, gaveUp error) {
	d = &fakeDisk{running: true}
	w = &diskWatch{limit: 100 << 20, meter: d, woken: make(chan struct{}, 1),
		killAll: func(context.Context) error { return nil }, giveUp: func(err error) { gaveUp = err }}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); w.watch(ctx) }()
	play(d, w)
	cancel()
	<-done
	return d, w, gaveUp
}

func TestWritingBeyondTheLimitEndsProcessesOnceAndAgainWhenItGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, w, gaveUp := watched(t, func(d *fakeDisk, w *diskWatch) {
			d.write(90 << 20)
			time.Sleep(10 * time.Second)
			require.Zero(t, w.seen(), "within the limit")
			d.write(20 << 20)
			time.Sleep(time.Second)
			require.EqualValues(t, 1, w.seen())
			time.Sleep(time.Hour)
			require.EqualValues(t, 1, w.seen(), "who writes nothing more may clean up")
			d.write(10 << 20)
			time.Sleep(time.Minute)
			require.EqualValues(t, 2, w.seen())
			d.write(-100 << 20)
			time.Sleep(2 * time.Minute)
			d.write(60 << 20)
			time.Sleep(time.Minute)
			require.EqualValues(t, 2, w.seen(), "there is room again")
		})
		require.NoError(t, gaveUp)
		r := sandbox.Result{ExitCode: killed, Stdout: sandbox.Output{Head: []byte("partial"), Total: 7}}
		w.explain(&r, true, 0)
		require.Equal(t, "partial\n[sandbox disk limit of 100 MB exceeded (120 MB are written): every process was ended; delete files before going on]\n", r.String())
		require.Zero(t, r.Stdout.Omitted())
		r = sandbox.Result{ExitCode: killed}
		w.explain(&r, true, w.seen())
		require.Empty(t, r.String(), "ended for another reason")
	})
}

func TestASandboxThatGoesOnWritingAfterItsProcessesWereEndedIsEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, _, gaveUp := watched(t, func(d *fakeDisk, _ *diskWatch) {
			for range 100 {
				d.write(5 << 20)
				time.Sleep(time.Second)
			}
		})
		require.ErrorIs(t, gaveUp, errFull)
		require.ErrorContains(t, gaveUp, "disk limit of 100 MB exceeded")
		require.Equal(t, ExitFull, exitCode(gaveUp))
	})
}

func TestAnIdleSandboxIsNotLookedAtAndAQuietOneNotCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, _, _ := watched(t, func(d *fakeDisk, w *diskWatch) {
			d.mu.Lock()
			d.running = false
			d.mu.Unlock()
			time.Sleep(24 * time.Hour)
			require.LessOrEqual(t, d.looks, 1)
			end := w.begin()
			time.Sleep(50 * time.Second)
			end()
			time.Sleep(time.Hour)
		})
		require.Positive(t, d.looks)
		require.Less(t, d.looks, 400)
		require.LessOrEqual(t, d.counts, 1)
	})
}

func TestWhatTheKernelsNumbersMissIsFoundByCountingNowAndThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, w, _ := watched(t, func(d *fakeDisk, _ *diskWatch) {
			d.mu.Lock()
			d.hidden = 150 << 20
			d.mu.Unlock()
			time.Sleep(2 * time.Minute)
		})
		require.EqualValues(t, 1, w.seen())
	})
}
