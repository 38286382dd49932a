package serve

import (
	"math"

	"github.com/hermes-env/hermes-env/env/atropos"
)

// Handling says what an evaluation does to the groups that start meanwhile.
type Handling string

// The values of env.eval_handling.
const (
	StopTrain  Handling = "STOP_TRAIN"  // none start
	LimitTrain Handling = "LIMIT_TRAIN" // fewer start
	IgnoreEval Handling = "NONE"        // all start
)

// Throttle are the settings that decide how many groups may be under way.
type Throttle struct {
	GroupSize     int      // sequences of a group
	MaxGroups     int      // under way at once
	MaxBatches    int      // off policy: queued or under way before no more groups start
	MinAllocation *float64 // share of each batch that is this worker's; nil: none
	LastStep      int64    // of the trainer, after which nothing is needed; 0 and less: none
	SpoolGroups   int      // more groups than the off-policy limit while the server is away
	Handling      Handling // during an evaluation; "" means StopTrain
	EvalRatio     float64  // of MaxGroups, with LimitTrain
}

// Situation is what a decision depends on.
type Situation struct {
	Registered bool              // with a server whose status is known
	Away       bool              // the server does not answer now; Status is its last word
	Status     atropos.EnvStatus // of the queue
	BatchSize  int64             // sequences; 0 and less: unknown
	Running    int               // groups under way
	Waiting    int               // groups finished that Status doesn't count yet
	Evaluating bool
}

// Decision is how many groups may start.
type Decision struct {
	Room int  // groups that may start now
	Why  Hold // why it isn't more
	Done bool // the trainer has all its steps
}

// Hold is a reason for which no group starts, in words for people.
type Hold string

// The reasons.
const (
	HoldServer  Hold = "waiting for the API server"
	HoldTrainer Hold = "waiting for the trainer"
	HoldBusy    Hold = "all workers are busy"
	HoldQueue   Hold = "the trainer has enough (max_batches_offpolicy)"
	HoldStuck   Hold = "no queued groups add up to a batch: a larger batch_size of the trainer helps"
	HoldShare   Hold = "other workers have claimed whole batches (min_batch_allocation)"
	HoldBatch   Hold = "a batch of the trainer is smaller than a group"
	HoldEval    Hold = "evaluating"
	HoldEnd     Hold = "enough is queued for the last step"
)

// Decide says how many groups may start. The arithmetic is that of the original
// framework, with these differences. Groups that are on their way to the queue count
// as if they were in it. Groups under way are never stopped when the limit falls below
// them. What others have queued for the last step doesn't count for the minimum of this
// worker. While the trainer asks for a batch in vain, limits never stop all workers: as
// many batches again may wait if the queued groups don't make one, then one group at a
// time may start.
func (t Throttle) Decide(s Situation) Decision {
	if s.Registered && t.LastStep > 0 && s.Status.CurrentStep >= t.LastStep {
		return Decision{Why: HoldEnd, Done: true}
	}
	switch {
	case !s.Registered && s.Away:
		return Decision{Why: HoldServer}
	case !s.Registered || s.BatchSize <= 0:
		return Decision{Why: HoldTrainer}
	case int64(t.GroupSize) > s.BatchSize:
		return Decision{Why: HoldBatch}
	}
	size, batch := int64(t.GroupSize), s.BatchSize
	queue := s.Status.QueueSize + int64(s.Waiting)
	stuck := s.Status.BatchStuck && !s.Away
	if t.LastStep > 0 && !stuck && s.Status.CurrentStep+(queue+int64(s.Running))*size/batch >= t.LastStep {
		// What others have queued does not fill this worker's part of these batches.
		packs, inPack, _ := t.minimum(s, t.LastStep-s.Status.CurrentStep)
		if packs*inPack <= s.own()+int64(s.Running) {
			return Decision{Room: t.spare(s, s.starved()), Why: HoldEnd}
		}
	}
	limit, why := int64(t.MaxGroups), HoldBusy
	if s.Evaluating {
		switch t.Handling {
		case IgnoreEval:
		case LimitTrain:
			limit, why = int64(float64(t.MaxGroups)*t.EvalRatio), HoldEval
		default:
			return Decision{Why: HoldEval}
		}
	}
	most, whyMost := limit, why // what a minimum may raise the limit to
	available := t.available(s) / size
	if stuck {
		available *= 2
	}
	spool := int64(0)
	if s.Away {
		spool = int64(t.SpoolGroups)
	}
	if free := available + spool - queue; free < limit {
		limit = max(0, free)
		switch {
		case s.Away:
			why = HoldServer
		case available == 0:
			why = HoldShare
		case stuck:
			why = HoldStuck
		default:
			why = HoldQueue
		}
	}
	if share := min(most, t.share(s, queue)); share > limit {
		limit = share
		if limit == most {
			why = whyMost
		}
	}
	room := int(max(0, limit-int64(s.Running)))
	return Decision{Room: max(room, t.spare(s, s.starved() && available > 0 || stuck && batch%size == 0)), Why: why}
}

// spare is the room beyond all limits while the trainer gets no batch: for one group at
// a time, unless an evaluation holds all groups.
func (t Throttle) spare(s Situation, needed bool) int {
	evaluating := s.Evaluating && t.Handling != IgnoreEval
	if !needed || evaluating || t.MaxGroups <= 0 || s.Running > 0 {
		return 0
	}
	return 1
}

// available is how many sequences may be queued or under way: so many batches as the
// policy may be behind, less what other workers have a claim to.
func (t Throttle) available(s Situation) int64 {
	share := s.Status.UnallocatedFraction
	if t.MinAllocation != nil {
		share += *t.MinAllocation
	}
	return int64(t.MaxBatches) * int64(float64(s.BatchSize)*min(1, max(0, share))+1e-9)
}

// share is how many groups may be under way for this worker's minimum, however much
// others have queued: as many whole packs of the largest group size as that takes and
// some more, less what this worker has queued.
func (t Throttle) share(s Situation, queue int64) int64 {
	if t.MinAllocation == nil {
		return 0
	}
	size, own := int64(t.GroupSize), s.own()
	packs, inPack, largest := t.minimum(s, int64(t.MaxBatches))
	if queue*size >= int64(t.MaxBatches)*s.BatchSize && packs*inPack <= own {
		return 0
	}
	need := (packs+inPack)*largest - size*own
	return max(0, (need+size-1)/size)
}

// minimum returns how many packs of the largest group size this worker's minimum takes
// in a number of batches, how many of its groups are in a pack, and that size.
func (t Throttle) minimum(s Situation, batches int64) (packs, inPack, largest int64) {
	size := int64(t.GroupSize)
	largest = max(size, s.Status.MaxGroupSize)
	if t.MinAllocation != nil {
		packs = int64(math.Ceil(*t.MinAllocation*float64(s.BatchSize)*float64(batches)/float64(largest) - 1e-9))
	}
	return packs, largest / size, largest
}

// starved says that the trainer asked for a batch and the queue holds too little for
// one, whatever its size in groups of this worker, which is rounded, says.
func (s Situation) starved() bool { return s.Status.TrainerWaiting && !s.Away && s.Waiting == 0 }

// own is how many groups of this worker are queued.
func (s Situation) own() int64 { return s.Status.SelfQueueSize + int64(s.Waiting) }
