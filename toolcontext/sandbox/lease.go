package sandbox

import "time"

// Leaser is implemented by sandboxes that end when they are idle for as long as the
// backend's configuration says: unused, and with nobody who holds a lease. A harness
// that dies or hangs holds none, wherever the sandbox is.
type Leaser interface {
	// Lease keeps the sandbox until release is called, which may happen more than once.
	Lease() (release func())
}

// Restarter is implemented by sandboxes that start again, with their files, when they
// end for a reason of their own (they ran out of memory). Commands that ran then are
// Results with exit code 128+9 which say so; none is run a second time. Processes and
// what sessions kept are lost. A sandbox that something outside of it has ended starts
// again only if no process and nothing in memory was lost.
type Restarter interface {
	// Events returns what happened to the sandbox so far.
	Events() []Event
	// AllowRestarts says whether it may be; at first it may. Where it may not, as
	// while a verifier works, the end of the sandbox is ErrLost for every call.
	AllowRestarts(allow bool)
}

// EventKind says what happened to a sandbox.
type EventKind string

// The kinds of events.
const (
	EventRestarted EventKind = "restarted" // it ended and was started again, with its files
	EventEnded     EventKind = "ended"     // it ended, and was not started again
	EventServer    EventKind = "server"    // commands acted on the program that carries them out
)

// Event is something that happened to a sandbox beside the commands it was asked to run.
type Event struct {
	Kind   EventKind
	Text   string // what happened, and why
	Inside bool   // what ran in the sandbox is the cause, not something outside of it
	Lost   bool   // processes, or what was kept in memory, were lost
	Time   time.Time
}
