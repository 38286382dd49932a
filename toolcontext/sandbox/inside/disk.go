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
	diskHurry    = 4                      // the same where the bound may be reached, and processes are stopped meanwhile
	diskAgain    = 4 << 20                // bytes more after which processes are ended again
	diskInode    = 1 << 10                // what one file counts for beyond its blocks
	diskSlack    = 128 << 20              // beyond the limit and an eighth of it: what may be written before it is counted
	diskVerify   = 1 << 30                // at most so much may be written by those who come after the agent
)

// diskMeter says how much a sandbox has on disk.
type diskMeter interface {
	// growth returns the bytes that may have been added since the last reset, and
	// costs next to nothing. It may be too much, and misses what hides well. own is the
	// part of it that the sandbox's own processes have surely written, some perhaps over
	// what was there.
	growth() (all, own int64)
	reset()
	// count counts what was written since the sandbox began and is there still.
	count(ctx context.Context) int64
	// release gives back what was allocated and not written to.
	release(ctx context.Context)
	// busy reports whether any process could write.
	busy() bool
}

// diskWatch ends the sandbox's processes when they have written more than they may:
// for storage that can't bound a container by itself. Commands that would make that much
// more are not run any more.
type diskWatch struct {
	limit   int64
	meter   diskMeter
	killAll func(context.Context) error
	stop    func() (goOn func()) // stops the sandbox's processes

	restart bool // something was written before

	killing sync.Mutex // held while processes are ended: none is started or reported then

	active atomic.Int64  // requests under way that may write
	woken  chan struct{} // a request has come
	kills  atomic.Int64
	last   atomic.Int64 // bytes counted when processes were last ended
	most   atomic.Int64 // bytes that those who come after the agent may fill; 0 before
	closed atomic.Bool  // there are so many
}

// atMost is how much may be there before every process is ended: the limit, or what those
// who come after the agent may make it.
func (w *diskWatch) atMost() int64 { return max(w.most.Load(), w.limit) + diskAgain }

// bound is how much may be there before no command is run any more, and before processes
// are stopped until it is counted.
func (w *diskWatch) bound() int64 {
	return max(w.most.Load(), w.limit+w.limit/8+diskSlack)
}

// begin notes a request that may write; the function returned notes its end.
func (w *diskWatch) begin() func() {
	if w == nil {
		return func() {}
	}
	w.active.Add(1)
	w.wake()
	w.awaitKill()
	return func() { w.active.Add(-1) }
}

func (w *diskWatch) wake() {
	select {
	case w.woken <- struct{}{}:
	default:
	}
}

// reopen lets those who come after the agent write, although there may be too much already.
func (w *diskWatch) reopen() {
	if w == nil {
		return
	}
	w.most.Store(max(w.last.Load(), w.limit) + min(w.limit, diskVerify))
	w.closed.Store(false)
}

// refused is the result of a command that is not run, because there is too much already.
func (w *diskWatch) refused(merged bool) (sandbox.Result, bool) {
	if w == nil || !w.closed.Load() {
		return sandbox.Result{}, false
	}
	r := sandbox.Result{ExitCode: killed}
	addNote(&r, merged, "["+w.words(w.last.Load())+": no command is run any more]\n")
	return r, true
}

// watch looks at the disk while something runs, until ctx ends.
func (w *diskWatch) watch(ctx context.Context) {
	var (
		counted  int64        // by the last count
		allowed  = w.atMost() // one file may have all of the limit
		earliest time.Time    // of the next count
		hurried  time.Time    // of the next count with processes stopped
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
		grown, own := w.meter.growth()
		rate := float64(grown-before) / pause.Seconds()
		before = grown
		pause = min(2*pause, diskLook)
		if halfway := float64(allowed-counted-grown) / rate / 2; rate > 0 && halfway < pause.Seconds() {
			pause = max(time.Duration(halfway*float64(time.Second)), diskLookSoon)
		}
		now := time.Now()
		allowed = max(allowed, w.atMost())
		bound := max(w.bound(), allowed)
		// Others may write to the same disk, so what they may have done counts less.
		hurry := counted+own > bound || counted+grown > bound && now.After(hurried)
		if !hurry && (counted+grown <= allowed || now.Before(earliest)) && now.Before(latest) {
			continue
		}
		goOn := func() {}
		if hurry {
			goOn = w.stop()
		}
		counted = w.meter.count(ctx)
		w.meter.reset()
		before = 0
		took := time.Since(now)
		earliest, latest = time.Now().Add(diskShare*took), time.Now().Add(max(diskWalk, 10*diskShare*took))
		hurried = time.Now().Add(diskHurry * took)
		switch {
		case counted <= w.atMost():
			allowed = w.atMost()
		case counted <= allowed:
		default:
			counted = w.end(ctx, counted)
			w.meter.reset()
			allowed, earliest = counted+diskAgain, time.Time{}
		}
		goOn()
	}
}

// end ends every process, gives back what was only allocated, and returns what is left.
func (w *diskWatch) end(ctx context.Context, counted int64) int64 {
	w.last.Store(counted)
	w.killing.Lock()
	defer w.killing.Unlock()
	w.kills.Add(1)
	_ = w.killAll(ctx) // those that survive are found again
	w.meter.release(ctx)
	counted = w.meter.count(ctx)
	if counted > w.bound() {
		w.closed.Store(true)
		w.last.Store(counted)
	}
	return counted
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
	if w.closed.Load() {
		note = "[" + w.words(w.last.Load()) + ": every process was ended, and no command is run any more]\n"
	}
	addNote(r, merged, note)
}

// addNote puts words at the end of a result's output.
func addNote(r *sandbox.Result, merged bool, note string) {
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
