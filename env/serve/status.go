package serve

import "github.com/hermes-env/hermes-env/env/atropos"

// Status is how a worker stands.
type Status struct {
	Name       string // as registered; "" before
	Registered bool
	Away       string            // why the server can't be worked with now, "" when it can
	Full       string            // why it takes no groups for now, "" when it does
	Queue      atropos.EnvStatus // its last word
	LastStep   int64             // after which nothing is needed; 0 and less: none
	BatchSize  int64             // sequences; 0 and less: unknown
	Running    int               // groups under way
	Spooled    int               // groups finished and not sent
	Sent       Tally             // over all sessions, as is Refused
	Refused    Tally
	Hold       Hold // why no group starts now, "" while one may
	Evaluating bool
}

// Status returns how the worker stands.
func (w *Worker) Status() Status {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := Status{
		Name: w.link.identity.Name, Registered: w.link.registered, Away: w.link.awayWhy, Full: w.link.full, Queue: w.link.status,
		LastStep: w.link.lastStep, BatchSize: w.link.batchSize, Running: w.running, Hold: w.hold, Evaluating: w.evaluates,
	}
	s.Spooled, s.Sent, s.Refused = w.spool.counts()
	return s
}
