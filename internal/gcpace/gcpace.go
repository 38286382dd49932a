// Package gcpace makes the garbage collector of a process with little live memory run less
// often, and that of one with much a little more often. By default Go collects each time the
// heap has doubled, from 4 MB on: a process with a few megabytes of live memory that allocates
// much then collects hundreds of times a second, and one with hundreds needs twice as many.
package gcpace

import (
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
)

// Garbage is what Relax lets accumulate before a collection, in bytes, however little of the
// memory is live. With more live memory than that Go's default rule applies unchanged, up to
// Large bytes. With more than those, garbage may be three quarters of the live memory.
const (
	Garbage = 32 << 20
	Large   = 128 << 20
)

// Go's default value of GOGC, and the highest that Relax sets: the heap of a process that
// has just started is collected at 4 MB times GOGC/100.
const (
	largePercent   = 75
	defaultPercent = 100
	maxPercent     = 800
)

// Relax applies the rule to this process until the returned function is called. It does
// nothing if the user has set GOGC or GOMEMLIMIT.
func Relax() (end func()) {
	for _, name := range []string{"GOGC", "GOMEMLIMIT"} {
		if _, ok := os.LookupEnv(name); ok {
			return func() {}
		}
	}
	p := &pace{percent: maxPercent, before: debug.SetGCPercent(maxPercent)}
	p.afterCollection()
	return p.end
}

// pace adjusts the percentage after each collection.
type pace struct {
	mu      sync.Mutex
	percent int
	before  int
	ended   bool
}

// sentinel is collected with each cycle, which tells that there was one.
type sentinel struct{ _ [16]byte }

func (p *pace) afterCollection() {
	runtime.SetFinalizer(new(sentinel), func(*sentinel) { p.adjust() })
}

func (p *pace) adjust() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		return
	}
	if percent := percentFor(live()); percent != p.percent { // setting it stops the world for a moment
		p.percent = percent
		debug.SetGCPercent(percent)
	}
	p.afterCollection()
}

func (p *pace) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.ended {
		p.ended = true
		debug.SetGCPercent(p.before)
	}
}

// percentFor returns the percentage for that much live memory, in steps of an eighth so that
// it changes seldom.
func percentFor(live uint64) int {
	percent := maxPercent
	if live > Large {
		return largePercent
	}
	if live > 0 {
		percent = int(min(maxPercent, math.Round(float64(Garbage)*100/float64(live))))
	}
	for step := maxPercent; step > defaultPercent; step -= step / 8 {
		if percent >= step {
			return step
		}
	}
	return defaultPercent
}

// live returns what the collector counts: the heap that was live at the last collection, and
// stacks.
func live() uint64 {
	samples := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/memory/classes/heap/stacks:bytes"}}
	metrics.Read(samples)
	total := uint64(0)
	for _, s := range samples {
		if s.Value.Kind() == metrics.KindUint64 {
			total += s.Value.Uint64()
		}
	}
	return total
}
