package sandbox

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
// what sessions kept are lost.
type Restarter interface {
	// Restarts returns how often the sandbox was started again.
	Restarts() int
	// AllowRestarts says whether it may be; at first it may. Where it may not, as
	// while a verifier works, the end of the sandbox is ErrLost for every call.
	AllowRestarts(allow bool)
}
