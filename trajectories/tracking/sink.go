package tracking

import (
	"errors"
	"fmt"
	"math"
	"sync"
)

// Metric is one named figure, for example train/completion_lengths.
type Metric struct {
	Name  string
	Value float64 // one that is no finite number is left out
}

// Table is rows under named columns, for example the latest rollouts with their scores.
type Table struct {
	Name    string // such as train/rollouts
	Columns []string
	Rows    [][]Cell
}

// Cell is one value of a table: a text, or a number where IsNumber says so.
type Cell struct {
	Text     string
	Number   float64 // finite
	IsNumber bool
}

// TextCell returns a cell that holds a text.
func TextCell(text string) Cell { return Cell{Text: text} }

// NumberCell returns a cell that holds a finite number.
func NumberCell(n float64) Cell { return Cell{Number: n, IsNumber: true} }

// Sink takes figures to one place. Its methods are called by one goroutine at a time.
type Sink interface {
	// Log takes figures of one step. Steps never go down; the figures of a step that
	// was logged before join those it has.
	Log(step int, metrics []Metric, tables []Table) error
	// Close writes what is still held and ends the sink; Log must not follow.
	Close() error
}

// Fanout hands everything to several sinks. The failure of one is told once and keeps
// neither the others nor the run from going on; the sink is asked again next time, as a
// full disk may have room by then. It is safe for concurrent use.
type Fanout struct {
	mu    sync.Mutex
	warn  func(string)
	sinks []namedSink
}

type namedSink struct {
	name   string
	sink   Sink
	warned bool
}

// NewFanout returns a Fanout without sinks. warn is told of failures; nil tells nobody.
func NewFanout(warn func(string)) *Fanout {
	if warn == nil {
		warn = func(string) {}
	}
	return &Fanout{warn: warn}
}

// Add adds a sink under a name that failures are told with.
func (f *Fanout) Add(name string, s Sink) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.sinks = append(f.sinks, namedSink{name: name, sink: s})
}

// Len returns the number of sinks.
func (f *Fanout) Len() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.sinks)
}

// Log implements Sink. It always returns nil. Figures that are no finite numbers are left out.
func (f *Fanout) Log(step int, metrics []Metric, tables []Table) error {
	finite := make([]Metric, 0, len(metrics))
	for _, m := range metrics {
		if !math.IsNaN(m.Value) && !math.IsInf(m.Value, 0) {
			finite = append(finite, m)
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range f.sinks {
		f.told(i, guard(func() error { return f.sinks[i].sink.Log(step, finite, tables) }))
	}
	return nil
}

// Close implements Sink. It closes every sink and always returns nil.
func (f *Fanout) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range f.sinks {
		f.told(i, guard(f.sinks[i].sink.Close))
	}
	f.sinks = nil
	return nil
}

func (f *Fanout) told(i int, err error) {
	if err == nil || f.sinks[i].warned {
		return
	}
	f.sinks[i].warned = true
	f.warn(fmt.Sprintf("metrics are not complete in %s: %v (the run goes on; this is said once)", f.sinks[i].name, err))
}

// guard turns a panic of a sink into its failure.
func guard(call func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = errors.Join(err, fmt.Errorf("panic: %v", p))
		}
	}()
	return call()
}
