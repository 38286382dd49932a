package serve

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/hermes-env/hermes-env/agentloop/chat"
)

// spoolState is what a spool knows of its groups but their data. It changes only
// through apply, so that it can be made again from the events of the journal.
type spoolState struct {
	Run       string    `json:"run"`   // random; begins the keys of groups
	Taken     intervals `json:"taken"` // steps whose groups were spooled, also those sent by now
	Pending   []*Parcel `json:"pending,omitempty"`
	Sent      Tally     `json:"sent"`
	Refused   Tally     `json:"refused"`
	Worker    *Identity `json:"worker,omitempty"`
	Step      *int64    `json:"step,omitempty"`       // the trainer's, seen last
	Evaluated *int64    `json:"evaluated,omitempty"`  // step of the last evaluation that ended
	Evaluates *int64    `json:"evaluating,omitempty"` // step of one that began and has not ended
}

// Tally counts groups and what they hold.
type Tally struct {
	Groups    int64 `json:"groups"`
	Sequences int64 `json:"sequences"`
	Tokens    int64 `json:"tokens"`
}

func (t Tally) plus(p *Parcel) Tally {
	return Tally{t.Groups + 1, t.Sequences + p.Sequences, t.Tokens + p.Tokens}
}

// Identity is what a server calls this worker.
type Identity struct {
	URL        string `json:"url"`
	Generation string `json:"generation"` // of the server's state; "" from servers that don't tell
	EnvID      int64  `json:"env_id"`
	Name       string `json:"name"`
}

// Parcel is one group in the spool.
type Parcel struct {
	Step      int    `json:"step"`
	ItemID    string `json:"item_id"`
	Key       string `json:"key"` // idempotency key
	Sequences int64  `json:"sequences"`
	Tokens    int64  `json:"tokens"`
	// Sender is under which identity the group is sent, once that is decided: a server
	// takes a key again only with the same content, and the sender is part of it.
	Sender *Identity `json:"sender,omitempty"`
	Place  place     `json:"place"`

	taken bool // being sent
}

// place says where the packed JSON of a group lies in the journal.
type place struct {
	File   uint64 `json:"file,omitempty"`
	Offset int64  `json:"at"`
	Length int64  `json:"len"`
	Check  uint32 `json:"check"`
}

// spoolEvent is one change of the state.
type spoolEvent struct {
	Op       spoolOp   `json:"op"`
	Parcel   *Parcel   `json:"parcel,omitempty"`
	Step     int64     `json:"step,omitempty"`
	Identity *Identity `json:"identity,omitempty"`
}

type spoolOp string

const (
	opAdd      spoolOp = "add"      // Parcel
	opAssign   spoolOp = "assign"   // Step, Identity: a group gets its sender
	opSent     spoolOp = "sent"     // Step: the server has it
	opRefused  spoolOp = "refused"  // Step: the server will never take it
	opWorker   spoolOp = "worker"   // Identity: the worker registered; none: it disconnected
	opStep     spoolOp = "step"     // Step: the trainer's
	opEvaluate spoolOp = "evaluate" // Step: an evaluation began
	opEvalDone spoolOp = "evaldone" // Step: it ended
)

func (s *spoolState) apply(e *spoolEvent) error {
	switch e.Op {
	case opAdd:
		s.Taken.add(int64(e.Parcel.Step))
		s.Pending = append(s.Pending, e.Parcel)
	case opAssign, opSent, opRefused:
		i := slices.IndexFunc(s.Pending, func(p *Parcel) bool { return int64(p.Step) == e.Step })
		if i < 0 {
			return fmt.Errorf("the spool has no unsent group of step %d", e.Step)
		}
		p := s.Pending[i]
		switch e.Op {
		case opAssign:
			p.Sender = e.Identity
			return nil
		case opSent:
			s.Sent = s.Sent.plus(p)
		case opRefused:
			s.Refused = s.Refused.plus(p)
		}
		s.Pending = slices.Delete(s.Pending, i, i+1)
	case opWorker:
		s.Worker = e.Identity
	case opStep:
		s.Step = &e.Step
	case opEvaluate:
		s.Evaluates = &e.Step
	case opEvalDone:
		s.Evaluates, s.Evaluated = nil, &e.Step
	default:
		return fmt.Errorf("the spool was written by a newer version: unknown event %q", e.Op)
	}
	return nil
}

func (s *spoolState) snapshot() ([]byte, error) {
	content, err := chat.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("write a snapshot of the spool: %w", err)
	}
	return content, nil
}

func restoreSpool(snapshot []byte) (*spoolState, error) {
	var s spoolState
	if err := json.Unmarshal(snapshot, &s); err != nil {
		return nil, fmt.Errorf("read a snapshot of the spool: %w", err)
	}
	for i, run := range s.Taken {
		if run[0] > run[1] || i > 0 && run[0] <= s.Taken[i-1][1] {
			return nil, errors.New("read a snapshot of the spool: its steps are not in order")
		}
	}
	if slices.Contains(s.Pending, nil) {
		return nil, errors.New("read a snapshot of the spool: a group is null")
	}
	return &s, nil
}

// intervals is a set of numbers as ascending runs [from, to] that neither overlap nor touch.
type intervals [][2]int64

func (x intervals) has(n int64) bool {
	i, found := slices.BinarySearchFunc(x, n, func(run [2]int64, n int64) int {
		switch {
		case run[1] < n:
			return -1
		case run[0] > n:
			return 1
		}
		return 0
	})
	return found && i < len(x)
}

func (x *intervals) add(n int64) {
	list := *x
	i, found := slices.BinarySearchFunc(list, n, func(run [2]int64, n int64) int {
		switch {
		case run[1] < n:
			return -1
		case run[0] > n:
			return 1
		}
		return 0
	})
	if found {
		return
	}
	left := i > 0 && list[i-1][1] == n-1
	right := i < len(list) && list[i][0] == n+1
	switch {
	case left && right:
		list[i-1][1] = list[i][1]
		list = slices.Delete(list, i, i+1)
	case left:
		list[i-1][1] = n
	case right:
		list[i][0] = n
	default:
		list = slices.Insert(list, i, [2]int64{n, n})
	}
	*x = list
}
