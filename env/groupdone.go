package env

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"sync"

	"github.com/hermes-env/hermes-env/trajectories"
)

// GroupExtender adds to groups what only the environment knows: overrides of a sequence
// or of the group, images, log-probabilities of a reference model, advantages by
// position, a teacher's tokens.
type GroupExtender interface {
	// ExtendGroup is called once for a group that is about to be kept, from many
	// goroutines at once. members are its rollouts whole, found from a sequence by
	// RolloutID; they are not to be changed, nor are tokens, masks, log-probabilities,
	// scores and messages of the group. An error drops the group.
	ExtendGroup(item Item, members []*trajectories.Rollout, group *trajectories.Group) error
}

// Discarder keeps rollouts out of groups that are not worth training on, for reasons that
// a score doesn't express: no reasoning, the wrong language. They stay recorded.
type Discarder interface {
	// Discard says in words why a scored rollout is left out, "" for one that is good. It
	// is called from many goroutines at once and must say the same every time.
	Discard(item Item, rollout *trajectories.Rollout) (why string)
}

// GroupObserver is an Observer that is told what became of each group, from many
// goroutines at once, once it is durable. Groups of earlier sessions are not told again.
// The item of a group whose rollouts an earlier session recorded may have no value.
type GroupObserver interface {
	GroupJudged(step int, item Item, verdict GroupVerdict)
}

// maxDropsTold is how many groups left out for one reason are told of one by one.
const maxDropsTold = 5

// groupMemory knows what became of the groups of a run.
type groupMemory struct {
	decisions *trajectories.GroupDecisions

	mu   sync.Mutex
	kept map[int]struct{} // steps, as far as this session has seen them
	told map[DropReason]int
}

// openGroupMemory opens the memory of a run that makes groups; nil for one that doesn't.
func (r *Runner) openGroupMemory() (*groupMemory, error) {
	if r.opts.Groups == nil {
		return nil, nil
	}
	decisions, err := r.opts.Store.OpenGroupDecisions()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrStore, err)
	}
	return &groupMemory{decisions: decisions, kept: map[int]struct{}{}, told: map[DropReason]int{}}, nil
}

func (m *groupMemory) close() error {
	if m == nil {
		return nil
	}
	return m.decisions.Close()
}

func (m *groupMemory) countKept(step int) {
	m.mu.Lock()
	m.kept[step] = struct{}{}
	m.mu.Unlock()
}

// handOnRecorded hands on the groups whose rollouts an earlier session has recorded
// without coming to it. Their items may be gone from the dataset by now, so this does
// not wait for them; an environment that has a part in groups needs its items, and one
// whose items are not known by their content may have changed what they are.
func (r *Runner) handOnRecorded() error {
	_, keyed := r.opts.Environment.(ContentKeyed)
	if hooks := r.groupHooks(Item{}, nil); r.opts.Groups == nil || !keyed || hooks.Discard != nil || hooks.Extend != nil {
		return nil
	}
	recorded := make(map[int]*group)
	attempts := make(map[int]int)
	if err := r.opts.Store.EachEntry(func(e trajectories.Entry) error {
		if r.opts.Groups.Has(e.Step) {
			return nil
		}
		if attempts[e.Step]++; recorded[e.Step] == nil {
			recorded[e.Step] = &group{number: e.Group, step: e.Step, size: r.opts.Config.GroupSize, item: Item{ID: e.ItemID, Digest: e.ItemDigest}}
		}
		return nil
	}); err != nil {
		return err
	}
	for _, step := range slices.Sorted(maps.Keys(recorded)) {
		g := recorded[step]
		if attempts[step] != g.size {
			continue
		}
		if _, err := r.memberIDs(g); err != nil {
			continue // of another group size
		}
		if err := r.groupDone(g); err != nil {
			return err
		}
	}
	return nil
}

// groupDone judges a group whose rollouts have all been recorded, and hands it on.
func (r *Runner) groupDone(g *group) error {
	if r.opts.Groups == nil {
		return nil
	}
	if r.opts.Groups.Has(g.step) {
		r.groupMemory.countKept(g.step)
		return nil
	}
	rules := r.rules(g.size)
	ids, err := r.memberIDs(g)
	if err != nil {
		return err
	}
	decisions := r.groupMemory.decisions
	if decisions.Stands(g.step, ids, rules.fingerprint()) {
		return nil
	}
	members := make([]*trajectories.Rollout, 0, g.size)
	for attempt := range g.size {
		rec, err := r.opts.Store.Load(g.key(attempt))
		if errors.Is(err, os.ErrNotExist) { // in a segment of the record that was dropped
			r.opts.Observer.Warn(fmt.Sprintf("group %d is left out: %v", g.step, err))
			return nil
		}
		if err != nil {
			return fmt.Errorf("collect group %d: %w", g.step, err)
		}
		members = append(members, rec)
	}
	verdict := rules.Judge(g.step, g.item.ID, members, r.groupHooks(g.item, members))
	// Whatever was decided is known before the group is handed on: a kill in between
	// leaves a group that is judged once more.
	if verdict.Group == nil || len(verdict.LeftOut) > 0 || decisions.Has(g.step) {
		if err := decisions.Record(verdict.decision(g, ids, rules)); err != nil {
			return err
		}
	}
	if verdict.Group == nil {
		r.tellDropped(g, verdict)
	} else {
		if err := r.opts.Groups.Write(*verdict.Group); err != nil {
			return fmt.Errorf("write group %d: %w", g.step, err)
		}
		r.groupMemory.countKept(g.step)
	}
	if o, ok := r.opts.Observer.(GroupObserver); ok {
		o.GroupJudged(g.step, g.item, verdict)
	}
	return nil
}

// memberIDs returns the ids of a group's rollouts by attempt.
func (r *Runner) memberIDs(g *group) ([]string, error) {
	ids := make([]string, 0, g.size)
	for attempt := range g.size {
		if id, ok := g.recordedID(attempt); ok {
			ids = append(ids, id)
			continue
		}
		entry, ok := r.opts.Store.Lookup(g.key(attempt))
		if !ok {
			return nil, fmt.Errorf("collect group %d: attempt %d of item %q is not recorded", g.step, attempt, g.item.ID)
		}
		ids = append(ids, entry.ID)
	}
	return ids, nil
}

// decision is the verdict as it is remembered.
func (v *GroupVerdict) decision(g *group, ids []string, rules GroupRules) trajectories.GroupDecision {
	d := trajectories.GroupDecision{Step: g.step, ItemID: g.item.ID, Kept: v.Group != nil, Reason: string(v.Reason), Text: v.Text, Rollouts: ids, Rules: rules.fingerprint()}
	if v.Reason == DropEnvironmentError {
		d.Rules = "" // it may succeed next time
	}
	for _, l := range v.LeftOut {
		d.LeftOut = append(d.LeftOut, trajectories.LeftOut{Attempt: l.Attempt, Reason: string(l.Reason), Text: l.Text})
	}
	return d
}

// tellDropped warns of a group that is left out, until there have been many for the
// same reason.
func (r *Runner) tellDropped(g *group, v GroupVerdict) {
	r.groupMemory.mu.Lock()
	r.groupMemory.told[v.Reason]++
	told := r.groupMemory.told[v.Reason]
	r.groupMemory.mu.Unlock()
	if told <= maxDropsTold {
		r.opts.Observer.Warn(fmt.Sprintf("group %d (%s) is left out (%s): %s", g.step, r.itemName(g.item), v.Reason, v.Text))
	}
	if told == maxDropsTold {
		r.opts.Observer.Warn(fmt.Sprintf("more groups that are left out as %s are only counted; group_decisions.jsonl in the run directory names each", v.Reason))
	}
}

// rules are those of the run as they stand now.
func (r *Runner) rules(size int) GroupRules {
	rules := newGroupRules(&r.opts.Config)
	rules.Size, rules.ExactTokens = size, r.opts.ExactTokens
	if r.opts.MaxSequenceTokens != nil {
		rules.MaxSequenceTokens = r.opts.MaxSequenceTokens()
	}
	return rules
}

// groupHooks is the environment's part in a group.
func (r *Runner) groupHooks(item Item, members []*trajectories.Rollout) GroupHooks {
	var hooks GroupHooks
	if d, ok := r.opts.Environment.(Discarder); ok {
		hooks.Discard = func(m *trajectories.Rollout) string { return d.Discard(item, m) }
	}
	if e, ok := r.opts.Environment.(GroupExtender); ok {
		hooks.Extend = func(g *trajectories.Group) error { return e.ExtendGroup(item, members, g) }
	}
	return hooks
}

// TrainingGroups counts the groups of a run.
type TrainingGroups struct {
	Kept    int           // handed on
	Dropped []ReasonCount // groups, in the order of DropReasons
	LeftOut []ReasonCount // rollouts that groups were kept without
}

// ReasonCount is how often a reason occurred.
type ReasonCount struct {
	Reason DropReason `json:"reason"`
	Count  int        `json:"count"`
}

// DroppedGroups returns how many groups were dropped in all.
func (t *TrainingGroups) DroppedGroups() int {
	n := 0
	for _, c := range t.Dropped {
		n += c.Count
	}
	return n
}

// CountReasons sorts counts by reason as reports show them; reasons of other versions
// come last.
func CountReasons(counts map[string]int) []ReasonCount {
	var list []ReasonCount
	for _, reason := range DropReasons() {
		if n := counts[string(reason)]; n > 0 {
			list = append(list, ReasonCount{reason, n})
		}
	}
	var others []string
	for name := range counts {
		if !slices.Contains(DropReasons(), DropReason(name)) {
			others = append(others, name)
		}
	}
	slices.Sort(others)
	for _, name := range others {
		list = append(list, ReasonCount{DropReason(name), counts[name]})
	}
	return list
}

// trainingGroups counts the groups of all sessions, as far as the sink or this session
// knows of those that were kept.
func (r *Runner) trainingGroups() *TrainingGroups {
	m := r.groupMemory
	if m == nil {
		return nil
	}
	counts := m.decisions.Counts()
	m.mu.Lock()
	kept := len(m.kept)
	m.mu.Unlock()
	if sink, ok := r.opts.Groups.(interface{ Len() int }); ok {
		kept = sink.Len()
	}
	return &TrainingGroups{Kept: kept, Dropped: CountReasons(counts.Dropped), LeftOut: CountReasons(counts.LeftOut)}
}
