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
	others        int64 // what others have written to the same disk
	preallocated  int64 // of used, what release gives back
	base          int64
	slow          time.Duration // how long a count takes
	stopped       bool
	stops         int
	counts, looks int
	running       bool
}

func (d *fakeDisk) total() int64 { d.mu.Lock(); defer d.mu.Unlock(); return d.used }

func (d *fakeDisk) write(n int64) { d.mu.Lock(); d.used += n; d.mu.Unlock() }

func (d *fakeDisk) growth() (all, own int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.looks++
	own = max(d.used-d.preallocated-d.base, 0)
	return max(d.used-d.base, 0) + d.others, own
}

func (d *fakeDisk) release(context.Context) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.used -= d.preallocated
	d.preallocated = 0
}

// stop keeps writeAlways from writing.
func (d *fakeDisk) stop() (goOn func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.stopped = true
	d.stops++
	return func() { d.mu.Lock(); d.stopped = false; d.mu.Unlock() }
}

// writeAlways writes bytes a second for a time, unless it is stopped or was ended.
func (d *fakeDisk) writeAlways(perSecond int64, w *diskWatch, during time.Duration) {
	const step = 5 * time.Millisecond
	for end := time.Now().Add(during); time.Now().Before(end) && w.seen() == 0; time.Sleep(step) {
		d.mu.Lock()
		if !d.stopped {
			d.used += perSecond * int64(step) / int64(time.Second)
		}
		d.mu.Unlock()
	}
}

func (d *fakeDisk) reset() { d.mu.Lock(); d.base = d.used; d.mu.Unlock() }

func (d *fakeDisk) count(context.Context) int64 {
	d.mu.Lock()
	slow := d.slow
	d.mu.Unlock()
	time.Sleep(max(slow, 10*time.Millisecond))
	d.mu.Lock()
	defer d.mu.Unlock()
	d.counts++
	return d.used + d.hidden
}

func (d *fakeDisk) busy() bool { d.mu.Lock(); defer d.mu.Unlock(); return d.running }

// watched runs a watch of 100 MB over a disk while a test plays with it.
func watched(t *testing.T, play func(d *fakeDisk, w *diskWatch)) (d *fakeDisk, w *diskWatch) {
	d = &fakeDisk{running: true}
	w = &diskWatch{limit: 100 << 20, meter: d, woken: make(chan struct{}, 1),
		killAll: func(context.Context) error { return nil }, stop: d.stop}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); w.watch(ctx) }()
	play(d, w)
	cancel()
	<-done
	return d, w
}

func TestWritingBeyondTheLimitEndsProcessesOnceAndAgainWhenItGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, w := watched(t, func(d *fakeDisk, w *diskWatch) {
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
		r := sandbox.Result{ExitCode: killed, Stdout: sandbox.Output{Head: []byte("partial"), Total: 7}}
		w.explain(&r, true, 0)
		require.Equal(t, "partial\n[sandbox disk limit of 100 MB exceeded (120 MB are written): every process was ended; delete files before going on]\n", r.String())
		require.Zero(t, r.Stdout.Omitted())
		r = sandbox.Result{ExitCode: killed}
		w.explain(&r, true, w.seen())
		require.Empty(t, r.String(), "ended for another reason")
	})
}

func TestDiskWatch_RunsNoCommandsWhereTooMuchIsWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		watched(t, func(d *fakeDisk, w *diskWatch) {
			for w.bound() > d.total() { // each command adds a little after every process was ended
				_, refused := w.refused(false)
				require.False(t, refused)
				d.write(5 << 20)
				time.Sleep(time.Second)
			}
			d.write(5 << 20)
			time.Sleep(time.Second)
			r, refused := w.refused(true)
			require.True(t, refused)
			require.Equal(t, killed, r.ExitCode)
			require.Contains(t, r.Stdout.String(), "sandbox disk limit of 100 MB exceeded")
			require.LessOrEqual(t, d.total(), int64((100+25+256)<<20))

			// Those who score the rollout may write all the same.
			w.reopen()
			_, refused = w.refused(true)
			require.False(t, refused)
			kills := w.seen()
			d.write(3 << 20)
			time.Sleep(2 * time.Minute)
			require.Equal(t, kills, w.seen())
		})
	})
}

func TestDiskWatch_LeavesRoomForThoseWhoScore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, w := watched(t, func(d *fakeDisk, w *diskWatch) {
			d.write(99 << 20)
			time.Sleep(2 * time.Minute)
			w.reopen()
			d.write(50 << 20)
			time.Sleep(2 * time.Minute)
		})
		require.Zero(t, w.seen())
		require.EqualValues(t, 149<<20, d.used)
	})
}

func TestDiskWatch_BoundsWhatIsWrittenWhileFilesAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, w := watched(t, func(d *fakeDisk, w *diskWatch) {
			// So many files that a count takes five seconds, and is made only every 100 s.
			d.mu.Lock()
			d.slow = 5 * time.Second
			d.mu.Unlock()
			time.Sleep(2 * time.Minute)
			d.writeAlways(500<<20, w, time.Minute)
		})
		require.EqualValues(t, 1, w.seen())
		require.LessOrEqual(t, d.total(), int64((100+25+256)<<20))
	})
}

func TestDiskWatch_GivesBackWhatIsOnlyAllocated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, w := watched(t, func(d *fakeDisk, w *diskWatch) {
			d.mu.Lock()
			d.used, d.preallocated = 5000<<20, 4990<<20
			d.mu.Unlock()
			time.Sleep(time.Second)
			require.EqualValues(t, 1, w.seen())
			_, refused := w.refused(false)
			require.False(t, refused, "there is room again")
		})
		require.EqualValues(t, 10<<20, d.used)
		require.EqualValues(t, 1, w.seen())
	})
}

func TestDiskWatch_HardlyStopsProcessesForWhatOthersWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, w := watched(t, func(d *fakeDisk, _ *diskWatch) {
			d.slow = time.Second
			d.mu.Lock()
			d.others = 10 << 30
			d.mu.Unlock()
			time.Sleep(10 * time.Minute)
		})
		require.Zero(t, w.seen())
		require.LessOrEqual(t, d.stops, 1+600/(1+diskHurry), "stopped for no more than its share of the time")
	})
}

func TestAnIdleSandboxIsNotLookedAtAndAQuietOneNotCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, _ := watched(t, func(d *fakeDisk, w *diskWatch) {
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
		_, w := watched(t, func(d *fakeDisk, _ *diskWatch) {
			d.mu.Lock()
			d.hidden = 150 << 20
			d.mu.Unlock()
			time.Sleep(2 * time.Minute)
		})
		require.EqualValues(t, 1, w.seen())
	})
}
