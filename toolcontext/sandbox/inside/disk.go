package inside

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
)

// How often a sandbox's disk is looked at while something runs in it.
const (
	diskLook     = 250 * time.Millisecond // at most so long between two looks
	diskLookSoon = 25 * time.Millisecond  // at least
	diskWalk     = time.Minute            // between two counts that nothing asks for
	diskShare    = 20                     // counting takes one part in so many of the time
	diskAgain    = 4 << 20                // bytes more after which processes are ended again
	diskInode    = 1 << 10                // what one file counts for beyond its blocks
)

// diskMeter says how much a sandbox has on disk.
type diskMeter interface {
	// growth returns the bytes that may have been added since the last reset, and
	// costs next to nothing. It may be too much, and misses what hides well.
	growth() int64
	reset()
	// count counts what was written since the sandbox began and is there still.
	count(ctx context.Context) int64
	// busy reports whether any process could write.
	busy() bool
}

// diskWatch ends the sandbox's processes when they have written more than they may:
// for storage that can't bound a container by itself.
type diskWatch struct {
	limit   int64
	meter   diskMeter
	killAll func(context.Context) error
	giveUp  func(error)

	restart bool // something was written before

	killing sync.Mutex // held while processes are ended: none is started or reported then

	active atomic.Int64  // requests under way that may write
	woken  chan struct{} // a request has come
	kills  atomic.Int64
	last   atomic.Int64 // bytes counted when processes were last ended
}

// begin notes a request that may write; the function returned notes its end.
func (w *diskWatch) begin() func() {
	if w == nil {
		return func() {}
	}
	w.active.Add(1)
	select {
	case w.woken <- struct{}{}:
	default:
	}
	w.awaitKill()
	return func() { w.active.Add(-1) }
}

// watch looks at the disk while something runs, until ctx ends.
func (w *diskWatch) watch(ctx context.Context) {
	var (
		counted  int64                 // by the last count
		allowed  = w.limit + diskAgain // one file may have all of the limit
		earliest time.Time             // of the next count
		latest   = time.Now().Add(diskWalk)
		pause    = diskLookSoon
		before   int64
	)
	if w.restart {
		latest = time.Now()
	}
	for {
		if w.active.Load() == 0 && !w.meter.busy() {
			select {
			case <-w.woken:
				pause = diskLookSoon
			case <-ctx.Done():
				return
			}
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
		grown := w.meter.growth()
		rate := float64(grown-before) / pause.Seconds()
		before = grown
		pause = min(2*pause, diskLook)
		if halfway := float64(allowed-counted-grown) / rate / 2; rate > 0 && halfway < pause.Seconds() {
			pause = max(time.Duration(halfway*float64(time.Second)), diskLookSoon)
		}
		now := time.Now()
		if (counted+grown <= allowed || now.Before(earliest)) && now.Before(latest) {
			continue
		}
		counted = w.meter.count(ctx)
		w.meter.reset()
		before = 0
		took := time.Since(now)
		earliest, latest = time.Now().Add(diskShare*took), time.Now().Add(max(diskWalk, 10*diskShare*took))
		switch {
		case counted <= w.limit+diskAgain:
			allowed = w.limit + diskAgain
		case counted <= allowed:
		case counted > 2*w.limit && w.kills.Load() > 0:
			w.giveUp(fmt.Errorf("%w: %s", errFull, w.words(counted)))
			return
		default:
			w.last.Store(counted)
			w.killing.Lock()
			w.kills.Add(1)
			_ = w.killAll(ctx) // those that survive are found again
			w.killing.Unlock()
			allowed, earliest = counted+diskAgain, time.Time{}
		}
	}
}

// awaitKill returns when no processes are being ended.
func (w *diskWatch) awaitKill() {
	w.killing.Lock()
	defer w.killing.Unlock()
}

func (w *diskWatch) words(counted int64) string {
	return fmt.Sprintf("sandbox disk limit of %d MB exceeded (%d MB are written)", w.limit>>20, counted>>20)
}

// killed is the exit code of commands that SIGKILL has ended.
const killed = 128 + 9

// explain tells a command's result why the command was ended, when the watch has done
// it since seen kills.
func (w *diskWatch) explain(r *sandbox.Result, merged bool, seen int64) {
	if w == nil || r.ExitCode != killed || w.kills.Load() == seen {
		return
	}
	w.awaitKill()
	note := "[" + w.words(w.last.Load()) + ": every process was ended; delete files before going on]\n"
	o := &r.Stderr
	if merged {
		o = &r.Stdout
	}
	part := &o.Head
	if o.Omitted() > 0 || len(o.Tail) > 0 {
		part = &o.Tail
	}
	if n := len(*part); n > 0 && (*part)[n-1] != '\n' {
		note = "\n" + note
	}
	*part = append(*part, note...)
	o.Total += int64(len(note))
}

// seen returns how often processes were ended so far.
func (w *diskWatch) seen() int64 {
	if w == nil {
		return 0
	}
	return w.kills.Load()
}
