package atropos

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"
)

// Errors of requests that the state can't serve.
var (
	ErrConflict      = errors.New("another trainer is registered with other settings: reset the server with GET /reset_data, or start it with --reregister update")
	ErrUnknownWorker = errors.New("no worker of this env_id is registered: register it with POST /register-env")
	ErrOtherPost     = errors.New("the idempotency key was used for another post before")
)

// workerRuntime is what is known of a worker since the server started.
type workerRuntime struct {
	seen     time.Time
	accepted int64
}

// Register takes a trainer's settings. Registering the settings the server has
// already changes nothing: the trainer goes on where it was.
func (s *State) Register(r Registration) (*Event, error) {
	switch {
	case !s.Registered:
		return s.apply(&Event{Op: OpRegister, Trainer: &r, Step: r.StartingStep}), nil
	case r == s.Trainer || s.rules.Reregister == ReregisterIgnore:
		return nil, nil
	case s.rules.Reregister == ReregisterRefuse:
		return nil, ErrConflict
	}
	step := s.Step
	if r.StartingStep != s.Trainer.StartingStep {
		step = r.StartingStep
	}
	return s.apply(&Event{Op: OpRegister, Trainer: &r, Step: step}), nil
}

// apply makes the change of an event and returns it.
func (s *State) apply(e *Event) *Event {
	s.Apply(e)
	return e
}

// Misfits returns the batches that are not of the size the trainer wants now, nor
// being sent: they go back to the queue one by one with Dissolve.
func (s *State) Misfits() []string {
	var ids []string
	for _, b := range s.Batches {
		if b.Sending == 0 && !b.Sent && b.Sequences() != s.Trainer.BatchSize {
			ids = append(ids, b.ID)
		}
	}
	return ids
}

// Dissolve puts the groups of a batch back to the head of the queue.
func (s *State) Dissolve(batch string) *Event { return s.apply(&Event{Op: OpDissolve, Batch: batch}) }

// RegisterWorker adds a worker; the event is nil while the trainer has not asked
// for its first batch.
func (s *State) RegisterWorker(r EnvRegistration, now time.Time) (EnvRegistered, *Event) {
	if !s.Started {
		return EnvRegistered{Status: StatusWait}, nil
	}
	same := 0
	for _, w := range s.Workers {
		if w.DesiredName == r.DesiredName {
			same++
		}
	}
	name := r.DesiredName + "_" + strconv.Itoa(same)
	event := s.apply(&Event{Op: OpWorker, Worker: &Worker{EnvRegistration: r, Name: name}})
	id := int64(len(s.Workers) - 1)
	s.runtime[id].seen = now
	return EnvRegistered{
		Status: StatusSuccess, EnvID: id, WandbName: name, CheckpointDir: s.Trainer.CheckpointDir,
		StartingStep: s.Step, CheckpointInterval: s.Trainer.SaveCheckpointInterval, NumSteps: s.Trainer.NumSteps,
	}, event
}

// index resolves an env_id as the original does: negative ones count from the last.
func (s *State) index(envID int64) (int64, bool) {
	if envID < 0 {
		envID += int64(len(s.Workers))
	}
	return envID, envID >= 0 && envID < int64(len(s.Workers))
}

// Disconnect takes a worker out of weights and minimums.
func (s *State) Disconnect(envID int64) (*Event, bool) {
	index, ok := s.index(envID)
	if !ok {
		return nil, false
	}
	if s.Workers[index].Disconnected {
		return nil, true
	}
	return s.apply(&Event{Op: OpDisconnect, Env: index}), true
}

// Reset forgets trainer, workers and data, if there are any.
func (s *State) Reset() *Event {
	if !s.Registered && len(s.entries) == 0 && len(s.Workers) == 0 && !s.Started {
		return nil
	}
	return s.apply(&Event{Op: OpReset})
}

// Start notes that the trainer asked for a batch.
func (s *State) Start() *Event {
	if s.Started {
		return nil
	}
	return s.apply(&Event{Op: OpStart})
}

// alive says whether a worker counts: connected and not silent for too long.
func (s *State) alive(index int64, now time.Time) bool {
	return !s.Workers[index].Disconnected && (s.rules.WorkerTimeout < 0 || now.Sub(s.runtime[index].seen) <= s.rules.WorkerTimeout)
}

// Awake notes that all workers were heard of, for a server that just started.
func (s *State) Awake(now time.Time) {
	for i := range s.runtime {
		s.runtime[i].seen = now
	}
}

// Accept says whether a group may be posted: its shape and lengths. The error is
// an *InvalidError. Nothing of the state is changed.
func (s *State) Accept(g *Incoming) error {
	if !s.rules.AcceptRagged {
		if err := g.Check(); err != nil {
			return err
		}
		if s.Registered && s.Trainer.BatchSize > 0 && g.Sequences > s.Trainer.BatchSize {
			return invalid("too_large", fmt.Sprintf("The group has %d sequences and a batch only %d: it could never be delivered", g.Sequences, s.Trainer.BatchSize), "tokens")
		}
	}
	if limit := s.Trainer.MaxTokenLen; s.Registered && limit > 0 && g.Longest > limit && !s.rules.AcceptOverLong {
		return invalid("too_long", fmt.Sprintf("A sequence has %d tokens, and the trainer takes at most %d (max_token_len)", g.Longest, limit), "tokens")
	}
	if g.EnvID != nil && *g.EnvID < -int64(len(s.Workers)) {
		return invalid("unknown_env", ErrUnknownWorker.Error(), "env_id")
	}
	return nil
}

// Knows says whether a post of an idempotency key was answered.
func (s *State) Knows(key string) bool { return s.answers[key] != nil }

// Answered returns what the post of an idempotency key was answered, or nil when
// there was none; ErrOtherPost when the key was another post's.
func (s *State) Answered(key, print string) (*Answer, error) {
	a := s.answers[key]
	if a != nil && a.Print != print {
		return nil, ErrOtherPost
	}
	return a, nil
}

// Add takes groups that were accepted, in their order, and gives them their IDs. A
// key makes the answer one that is remembered.
func (s *State) Add(entries []*Entry, list bool, key, print string, now time.Time) (*Answer, *Event) {
	answer := &Answer{Key: key, Print: print, List: list, Posted: Posted{Status: StatusReceived}, GroupsProcessed: int64(len(entries))}
	event := &Event{Op: OpAdd}
	for _, e := range entries {
		e.ID = s.NextEntry
		added := s.place(e)
		s.applyAdded(added)
		event.Added = append(event.Added, added)
		if added.Buffer != nil {
			answer.Buffered++
			answer.BufferSize = sequences(s.Workers[*added.Buffer].Buffer)
			answer.Status = StatusBuffered
		} else {
			answer.Status = StatusReceived
		}
		if e.EnvID != nil {
			if index, ok := s.index(*e.EnvID); ok {
				s.runtime[index].seen = now
				s.runtime[index].accepted++
			}
		}
	}
	if list {
		answer.Status = StatusReceived
	}
	if key != "" {
		s.remember(answer)
		event.Answered = answer
	}
	return answer, event
}

// place decides where a group goes.
func (s *State) place(e *Entry) Added {
	if e.EnvID == nil {
		return Added{Entry: e}
	}
	index, ok := s.index(*e.EnvID)
	if !ok {
		return Added{Entry: e}
	}
	w := s.Workers[index]
	if e.Sequences == w.GroupSize || !s.rules.StrictPacking && (e.Sequences > w.GroupSize || s.cannotFill(w)) {
		return Added{Entry: e}
	}
	waiting := append(slices.Clone(w.Buffer), e)
	sizes := make([]int64, len(waiting))
	for i, b := range waiting {
		sizes[i] = b.Sequences
	}
	added := Added{Entry: e, Buffer: &index}
	for _, i := range subset(sizes, w.GroupSize) {
		added.Released = append(added.Released, waiting[i].ID)
	}
	return added
}

// cannotFill says whether nothing will fill up the group size of a worker: it is
// gone, or its groups would be larger than a batch.
func (s *State) cannotFill(w *Worker) bool {
	return w.Disconnected || s.Registered && s.Trainer.BatchSize > 0 && w.GroupSize > s.Trainer.BatchSize
}

// Abandoned returns the workers whose buffered groups nobody will fill up, since
// they are gone, or silent for too long. Release makes their groups ones of the queue.
func (s *State) Abandoned(now time.Time) []int64 {
	if s.rules.StrictPacking {
		return nil
	}
	var abandoned []int64
	for i, w := range s.Workers {
		if len(w.Buffer) > 0 && (s.cannotFill(w) || !s.alive(int64(i), now)) {
			abandoned = append(abandoned, int64(i))
		}
	}
	return abandoned
}

// Release puts the buffered groups of a worker, by its index, into the queue.
func (s *State) Release(worker int64) *Event { return s.apply(&Event{Op: OpRelease, Env: worker}) }

func sequences(entries []*Entry) int64 {
	var n int64
	for _, e := range entries {
		n += e.Sequences
	}
	return n
}

// WorkerStatus answers /status-env. The event is not nil when the worker's group
// size turned out to be larger than it said.
func (s *State) WorkerStatus(envID int64, now time.Time) (EnvStatus, *Event, error) {
	index, ok := s.index(envID)
	if !ok {
		return EnvStatus{}, nil, ErrUnknownWorker
	}
	s.runtime[index].seen = now
	w := s.Workers[index]
	reply := EnvStatus{CurrentStep: s.Step, MaxGroupSize: max(1, s.sizes.largest())}
	reply.EnvWeight, reply.UnallocatedFraction = s.weights(w, now)
	reply.BatchStuck = s.isStuck() && s.mayHelp(index, now)

	own := s.senders[sender{true, envID}]
	if own == nil {
		own = &tally{}
	}
	var event *Event
	largest := max(own.largest(), w.GroupSize)
	if largest > w.GroupSize && s.rules.StrictPacking {
		// Groups of the size that the worker said then wait in its buffer for others.
		event = s.apply(&Event{Op: OpSize, Env: index, Size: largest})
	}
	var others int64
	if m := reply.MaxGroupSize; m > 1 {
		for from, t := range s.senders {
			if from.known && from.id == envID {
				continue
			}
			var reserved int64
			if other := s.worker(from.id); from.known && other != nil && s.alive(from.id, now) && other.MinBatchAllocation != nil {
				reserved = truncate(float64(s.Trainer.BatchSize) * *other.MinBatchAllocation)
			}
			others += max(0, (t.Sequences+m-1)/m*m-reserved)
		}
	}
	unit := max(1, largest)
	reply.QueueSize = (own.Sequences + others) / unit
	reply.SelfQueueSize = own.Sequences / unit
	// Queue sizes are rounded, so that these may speak of a batch that is not there.
	reply.TrainerWaiting = s.waiting && s.batchable() < s.Trainer.BatchSize && (reply.QueueSize+1)*unit >= s.Trainer.BatchSize
	return reply, event, nil
}

// minimums returns the claims of the workers that count, in the order of registration.
func (s *State) minimums(now time.Time) []minimum {
	var minimums []minimum
	for i, w := range s.Workers {
		if w.MinBatchAllocation != nil && s.alive(int64(i), now) {
			minimums = append(minimums, minimum{int64(i), *w.MinBatchAllocation})
		}
	}
	return minimums
}

// mayHelp says whether groups of a worker can make a batch of a queue that gives none:
// groups of the workers that have a minimum and nothing queued, else those of all.
func (s *State) mayHelp(worker int64, now time.Time) bool {
	lacking := false
	for _, m := range s.minimums(now) {
		if truncate(float64(s.Trainer.BatchSize)*m.share) <= 0 || s.hasBatchable(m.sender) {
			continue
		}
		if m.sender == worker {
			return true
		}
		lacking = true
	}
	return !lacking
}

// hasBatchable says whether a worker has a group in the queue that fits into a batch.
func (s *State) hasBatchable(worker int64) bool {
	t := s.senders[sender{true, worker}]
	if t == nil {
		return false
	}
	for size := range t.bySize {
		if size <= s.Trainer.BatchSize {
			return true
		}
	}
	return false
}

// weights returns a worker's share of the model servers, and the share of a batch
// that no minimum claims.
func (s *State) weights(w *Worker, now time.Time) (weight, unallocated float64) {
	var total, allocated float64
	connected := 0
	for i, other := range s.Workers {
		if !s.alive(int64(i), now) {
			continue
		}
		connected++
		total += float64(other.MaxTokenLength) * max(0, other.Weight)
		if other.MinBatchAllocation != nil {
			allocated += *other.MinBatchAllocation
		}
	}
	unallocated = 1 - min(1, allocated)
	if total <= 0 { // weights that say nothing: all are alike
		return 1 / float64(max(1, connected)), unallocated
	}
	weight = max(0.01, float64(w.MaxTokenLength)*w.Weight/total)
	if math.IsInf(weight, 0) || math.IsNaN(weight) {
		weight = 1
	}
	return weight, unallocated
}

// Form forms the batches that a request for one calls for, or returns nil when
// the queue gives none.
func (s *State) Form(now time.Time) *Event {
	size := s.Trainer.BatchSize
	if !s.Registered || size <= 0 {
		return nil
	}
	minimums := s.minimums(now)
	rest := make([]*Entry, 0, len(s.Queue))
	for _, e := range s.Queue {
		if s.rules.StrictPacking || e.Sequences <= size {
			rest = append(rest, e)
		}
	}
	event := &Event{Op: OpForm, Step: s.Step}
	next := s.NextBatch
	for {
		groups := make([]queued, len(rest))
		for i, e := range rest {
			groups[i] = queued{e.Sequences, e.EnvID}
		}
		chosen := s.choose(groups, size, minimums)
		if chosen == nil {
			break
		}
		formed := Formed{ID: s.Generation + "-" + strconv.FormatUint(next, 10)}
		next++
		taken := make([]bool, len(rest))
		for _, i := range chosen {
			taken[i] = true
			formed.Groups = append(formed.Groups, rest[i].ID)
		}
		kept := rest[:0:0]
		for i, e := range rest {
			if !taken[i] {
				kept = append(kept, e)
			}
		}
		rest = kept
		event.Batches = append(event.Batches, formed)
		if !s.rules.NewestFirst {
			break
		}
	}
	s.waiting = len(event.Batches) == 0
	s.stuck = s.waiting && sequences(rest) >= size
	if len(event.Batches) == 0 {
		return nil
	}
	event.Step += int64(len(event.Batches))
	return s.apply(event)
}

func (s *State) choose(groups []queued, size int64, minimums []minimum) []int {
	var chosen []int
	if len(minimums) > 0 {
		chosen = minimumBatch(groups, size, minimums)
	} else {
		chosen = plainBatch(groups, size)
	}
	if chosen == nil && !s.rules.StrictPacking {
		chosen = anyBatch(groups, size, minimums)
	}
	return chosen
}

// Next returns the batch to deliver now, of those that are formed, or nil. For a
// trainer that acknowledges, a batch that is sent and not acknowledged comes first,
// even while another reply with it is being written: that one may have hung.
func (s *State) Next(acknowledges bool) *Batch {
	for _, b := range s.Batches {
		if b.Sent && b.Sending == 0 || acknowledges && (b.Sent || b.Sending > 0) {
			return b
		}
	}
	ready := func(b *Batch) bool { return b.Sending == 0 }
	if s.rules.NewestFirst {
		for _, b := range slices.Backward(s.Batches) {
			if ready(b) {
				return b
			}
		}
		return nil
	}
	if i := slices.IndexFunc(s.Batches, ready); i >= 0 {
		return s.Batches[i]
	}
	return nil
}

// Sent notes that a batch was sent to a trainer that acknowledges.
func (s *State) Sent(batch string) *Event {
	if b := s.Batch(batch); b == nil || b.Sent {
		return nil
	}
	return s.apply(&Event{Op: OpSent, Batch: batch})
}

// Done notes that a batch was delivered; false when there is no such batch.
func (s *State) Done(batch string) (*Event, bool) {
	if s.Batch(batch) == nil {
		return nil, false
	}
	return s.apply(&Event{Op: OpDone, Batch: batch}), true
}

// Delivered says whether a batch of this state was formed and is delivered by now.
func (s *State) Delivered(batch string) bool {
	generation, digits, ok := cutLast(batch)
	n, err := strconv.ParseUint(digits, 10, 64)
	return ok && err == nil && generation == s.Generation && n < s.NextBatch && s.Batch(batch) == nil
}

// Move notes that the data of a group lies elsewhere.
func (s *State) Move(entry uint64, place Place) *Event {
	return s.apply(&Event{Op: OpMove, Entry: entry, Place: &place})
}

// Lost gives up a group whose data can't be read.
func (s *State) Lost(entry uint64) *Event { return s.apply(&Event{Op: OpLost, Entry: entry}) }
