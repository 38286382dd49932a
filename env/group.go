package env

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"hash/maphash"
	"io"
	"iter"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/hermes-env/hermes-env/agentloop/chat"
	"github.com/hermes-env/hermes-env/env/config"
	"github.com/hermes-env/hermes-env/toolcontext/tools"
	"github.com/hermes-env/hermes-env/trajectories"
)

// group is the rollouts of one item that share a prompt and a choice of tools.
type group struct {
	number   int // in the run, from 0
	step     int // process and serve: the same as number; evaluate: 0
	item     Item
	size     int
	toolset  *chat.Toolset
	toolsets []string
	pending  atomic.Int64 // rollouts of this session not yet durable
	clock    groupClock

	mu  sync.Mutex
	ids map[int]string // of the rollouts recorded in this session, by attempt
}

func (g *group) noteRecorded(rec *trajectories.Rollout) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ids == nil {
		g.ids = make(map[int]string, g.size)
	}
	g.ids[rec.Attempt] = rec.ID
}

func (g *group) recordedID(attempt int) (id string, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	id, ok = g.ids[attempt]
	return id, ok
}

func (g *group) key(attempt int) trajectories.Key {
	return trajectories.Key{ItemID: g.item.ID, Step: g.step, Attempt: attempt}
}

// Sizer tells how many items EvalItems yields, so that progress can be shown
// against a total; -1 when that is unknown.
type Sizer interface {
	EvalSize() int
}

// ContentKeyed is implemented by environments whose items are known by their content:
// no two items of a pass have the same id, and an id stays the item's own when the
// dataset is reordered, appended to or edited elsewhere. A resumed process run then
// takes its items in any order; otherwise they have to come in the same one.
type ContentKeyed interface {
	ContentKeyed()
}

// TrainSizer tells how many items NextItem yields before its end, -1 when that is
// unknown or there is no end. Without it env.total_steps is the total.
type TrainSizer interface {
	TrainSize() int
}

// planned returns how many rollouts the whole run has, -1 when unknown. Process
// may have fewer: its items can come to an end.
func (r *Runner) planned() int {
	switch r.opts.Agent {
	case AgentStored:
		return r.opts.StoredPlanned
	case AgentForger:
		return r.opts.ForgeriesPlanned
	}
	if r.itemsEnded {
		return r.yielded
	}
	switch r.opts.Mode {
	case config.Process:
		return r.plannedGroups()
	case config.Serve:
		return -1 // the trainer decides
	}
	if r.opts.Select != nil {
		return r.plannedSelection()
	}
	if s, ok := r.opts.Environment.(Sizer); ok && s.EvalSize() >= 0 {
		return SubsetOf(r.opts.Config).size(s.EvalSize()) * r.opts.Config.Attempts
	}
	return -1
}

// plannedGroups is planned for process.
func (r *Runner) plannedGroups() int {
	steps := r.opts.Config.TotalSteps
	if s, ok := r.opts.Environment.(TrainSizer); ok {
		n := SubsetOf(r.opts.Config).size(s.TrainSize())
		if n < 0 && steps >= UnlimitedSteps {
			return -1
		}
		if n >= 0 {
			steps = min(steps, n)
		}
	}
	if most := SubsetOf(r.opts.Config).Bound(); most > 0 {
		steps = min(steps, most)
	}
	return steps * r.opts.Config.GroupSize
}

// Rewinder is implemented by environments whose items come to an end and can begin anew,
// so that serve goes on for as long as the trainer does: after NextItem has returned
// io.EOF, Rewind begins another pass. An environment that is ContentKeyed gives the items
// of each pass ids of their own.
type Rewinder interface {
	Rewind(ctx context.Context) error
}

// UnlimitedSteps as env.total_steps leaves the end of a run to the environment.
const UnlimitedSteps = 1_000_000_000

// plannedSelection is planned for an evaluation of some of the items.
func (r *Runner) plannedSelection() int {
	if r.opts.Selected <= 0 {
		return -1
	}
	return r.opts.Selected * r.opts.Config.Attempts
}

// groups yields the work of the whole run in its fixed order.
func (r *Runner) groups(ctx context.Context) iter.Seq2[*group, error] {
	size := r.opts.Config.GroupSize
	limit := r.opts.Config.TotalSteps
	switch r.opts.Mode {
	case config.Evaluate:
		size = r.opts.Config.Attempts
		limit = -1
	case config.Serve:
		limit = -1
	}
	return func(yield func(*group, error) bool) {
		number := 0
		defer func() { r.yielded = number * size }()
		skipped := make(map[string]bool) // items left out in a row
		for item, err := range SubsetOf(r.opts.Config).items(ctx, r.opts.Environment, r.opts.Mode) {
			if err == nil {
				err = item.fillDigest()
			}
			if err == nil && r.opts.Select != nil && !r.opts.Select(item) {
				if !skipped[item.ID] {
					skipped[item.ID] = true
					continue
				}
				err = fmt.Errorf("%q comes round again and nothing between was selected: no items are left to run", item.ID)
			}
			if err != nil {
				yield(nil, fmt.Errorf("environment %s: item %d: %w", r.opts.Environment.Name(), number+1, err))
				return
			}
			clear(skipped)
			g := &group{number: number, item: item, size: size}
			if r.opts.Mode != config.Evaluate {
				g.step = r.stepOf(item, number)
			}
			number++
			if !yield(g, nil) || number == limit {
				return
			}
		}
		r.itemsEnded = ctx.Err() == nil
	}
}

// stepOf returns the step of the group with a number. Where items are known by their
// content it is the one the item had in earlier sessions, wherever it stands now, and
// a new one for an item that was not run before.
func (r *Runner) stepOf(item Item, number int) int {
	if r.itemSteps == nil {
		return number
	}
	hash := r.hash(item.ID)
	step, ok := r.itemSteps[hash]
	if !ok {
		step = r.nextStep
		r.nextStep++
		r.itemSteps[hash] = step
	}
	return step
}

// idSet is a set of ids, of which it keeps hashes only.
type idSet struct {
	seed maphash.Seed
	ids  map[uint64]struct{}
}

func newIDSet() *idSet { return &idSet{maphash.MakeSeed(), make(map[uint64]struct{})} }

func (s *idSet) has(id string) bool {
	_, ok := s.ids[maphash.String(s.seed, id)]
	return ok
}

func (s *idSet) add(id string) { s.ids[maphash.String(s.seed, id)] = struct{}{} }

// items yields the items of the mode: the held-out set for evaluate where there
// is one, else what NextItem hands out.
func items(ctx context.Context, e Environment, mode config.Mode) iter.Seq2[Item, error] {
	evaluate := mode == config.Evaluate
	if held, ok := e.(Evaluator); ok && evaluate {
		return func(yield func(Item, error) bool) {
			seen := newIDSet()
			for item, err := range held.EvalItems(ctx) {
				if err == nil && seen.has(item.ID) {
					err = fmt.Errorf("the id %q occurs twice in the held-out set", item.ID)
				}
				seen.add(item.ID)
				if !yield(item, err) {
					return
				}
			}
		}
	}
	return func(yield func(Item, error) bool) {
		seen := newIDSet()
		empty := true // the present pass
		for {
			item, err := e.NextItem(ctx)
			if errors.Is(err, io.EOF) {
				again, ok := e.(Rewinder)
				if !ok || mode != config.Serve {
					return
				}
				if err = again.Rewind(ctx); err == nil && empty {
					err = errors.New("there are no items")
				}
				if err != nil {
					yield(Item{}, err)
					return
				}
				empty = true
				continue
			}
			empty = false
			if evaluate && err == nil {
				if seen.has(item.ID) {
					return // the items start over: every one has been taken once
				}
				seen.add(item.ID)
			}
			if !yield(item, err) {
				return
			}
		}
	}
}

// recordedItem names the item that a recorded step had.
func (r *Runner) recordedItem(step int) string {
	name := "another item"
	found := errors.New("found")
	_ = r.opts.Store.EachEntry(func(e trajectories.Entry) error {
		if e.Step != step {
			return nil
		}
		name = fmt.Sprintf("item %q", e.ItemID)
		return found
	})
	return name
}

// todo returns the attempts of a group that have to run. Attempts recorded for
// another version of the item are taken out of the run first.
func (r *Runner) todo(g *group) ([]int, error) {
	if known, ok := r.stepItems[g.step]; ok && known != r.hash(g.item.ID) {
		return nil, fmt.Errorf("%w: step %d of the run was %s, now the environment %s hands out %q: start a new run, or make NextItem give the same items in the same order every time",
			ErrItemsChanged, g.step, r.recordedItem(g.step), r.opts.Environment.Name(), g.item.ID)
	}
	stale := false
	var missing, byName []int
	left := 0
	forgeries := len(r.forgeries(g.item))
	for attempt := range g.size {
		if r.opts.Agent == AgentStored && r.stored(g, attempt) == nil || r.opts.Agent == AgentForger && attempt >= forgeries {
			left++
			continue
		}
		recorded, same := r.opts.Store.Recorded(g.key(attempt), g.item.Digest)
		switch {
		case !recorded:
			missing = append(missing, attempt)
		case !same && r.recordedByName(g, attempt):
			byName = append(byName, attempt)
		case !same:
			stale = true
			missing = append(missing, attempt)
		}
	}
	if stale {
		missing = append(missing, byName...) // recorded earlier still
		slices.Sort(missing)
		if _, err := r.opts.Store.Supersede(func(e trajectories.Entry) bool {
			return e.ItemID == g.item.ID && e.Step == g.step && e.ItemDigest != g.item.Digest
		}); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrStore, err)
		}
		missing = slices.DeleteFunc(missing, func(attempt int) bool { // in the archive, where it stays
			recorded, _ := r.opts.Store.Recorded(g.key(attempt), g.item.Digest)
			return recorded
		})
		r.opts.Observer.Warn(fmt.Sprintf("%s changed since it was run; its rollouts moved to superseded.jsonl and run again", r.itemName(g.item)))
	} else if len(byName) > 0 && !r.namesWarned {
		r.namesWarned = true
		r.opts.Observer.Warn(fmt.Sprintf("the run was recorded by a version that compared items by name and not by content, as %s: its rollouts are kept, but whether their items changed since is unknown (a new run makes sure)", r.itemName(g.item)))
	}
	if done := g.size - left - len(missing); done > 0 {
		r.opts.Observer.Skipped(done)
	}
	return missing, nil
}

// recordedByName reports whether an attempt was recorded with a digest of the item's name.
func (r *Runner) recordedByName(g *group, attempt int) bool {
	if g.item.NameDigest == "" {
		return false
	}
	_, same := r.opts.Store.Recorded(g.key(attempt), g.item.NameDigest)
	return same
}

// resolver returns the choice of tools per step. Without a distribution it is
// one choice for the run; with one each group draws its own, from a seed that
// depends on the step alone, so that a resumed run draws the same.
func resolver(registry *tools.Registry, selection tools.Selection, seed int64) func(step int) (*tools.Resolution, error) {
	if selection.Distribution == "" {
		resolution, err := registry.Resolve(selection, nil)
		return func(int) (*tools.Resolution, error) { return resolution, err }
	}
	return func(step int) (*tools.Resolution, error) {
		h := fnv.New64a()
		_, _ = fmt.Fprintf(h, "tools/%d", step)
		return registry.Resolve(selection, rand.New(rand.NewPCG(uint64(seed), h.Sum64())))
	}
}
