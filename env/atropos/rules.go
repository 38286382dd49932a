package atropos

import "time"

// Rules choose between what the original server does and what is better. The zero
// value is the better.
type Rules struct {
	// NewestFirst forms all batches at once when one is asked for, counts their steps
	// at that moment and delivers the newest first. Without it one batch is formed at a
	// time, the oldest data first, and its step counts when it is handed out.
	NewestFirst bool
	// StrictPacking leaves groups in the queue that the original rules can't batch.
	// Without it any whole groups whose sequences add up to a batch are used when those
	// rules give nothing, groups larger than a batch hold nobody up, and no group waits
	// in a worker's buffer that nothing will fill up: one larger than the group size, or
	// one whose worker is gone or silent.
	StrictPacking bool
	// AcceptRagged takes groups whose lists don't fit each other, empty groups and
	// groups larger than a batch. Without it they are refused.
	AcceptRagged bool
	// AcceptImpossible takes batch and group sizes of 0 and less, lengths and steps below
	// those that have a meaning, minimum allocations outside 0 to 1, token ids that no vocabulary has, objects with a key given twice,
	// and bodies of unknown encodings, which are read as they are. Without it they are
	// refused.
	AcceptImpossible bool
	// AcceptOverLong takes sequences longer than the trainer's max_token_len.
	AcceptOverLong bool
	// Reregister says what the registration of a second trainer with other settings does.
	Reregister Reregister
	// WorkerTimeout is how long a worker may be silent before its minimum allocation
	// and its weight stop counting, until it is heard of again; 0 means a minute, and a
	// negative one that silence never matters.
	WorkerTimeout time.Duration
}

// Reregister is an answer to a second registration with other settings.
type Reregister string

// The answers.
const (
	ReregisterUpdate Reregister = "update" // the new settings take the place of the old; data and workers stay
	ReregisterRefuse Reregister = "refuse" // status 409
	ReregisterIgnore Reregister = "ignore" // answered like a success and ignored, as the original does
)

func (r Rules) withDefaults() Rules {
	if r.Reregister == "" {
		r.Reregister = ReregisterUpdate
	}
	if r.WorkerTimeout == 0 {
		r.WorkerTimeout = time.Minute
	}
	return r
}

// OriginalRules are those of the original server, with everything that it accepts
// and loses.
func OriginalRules() Rules {
	return Rules{NewestFirst: true, StrictPacking: true, AcceptRagged: true, AcceptImpossible: true, AcceptOverLong: true, Reregister: ReregisterIgnore, WorkerTimeout: -1}
}
