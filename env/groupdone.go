package env

import (
	"fmt"

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

// groupDone judges a group whose rollouts have all been recorded, and hands it on.
func (r *Runner) groupDone(g *group) error {
	if r.opts.Groups == nil || r.opts.Groups.Has(g.step) {
		return nil
	}
	members := make([]*trajectories.Rollout, 0, g.size)
	for attempt := range g.size {
		rec, err := r.opts.Store.Load(g.key(attempt))
		if err != nil {
			return fmt.Errorf("collect group %d: %w", g.step, err)
		}
		members = append(members, rec)
	}
	verdict := r.rules(g.size).Judge(g.step, g.item.ID, members, r.extender(g.item, members))
	if verdict.Group == nil {
		r.opts.Observer.Warn(fmt.Sprintf("group %d (item %q) is left out (%s): %s", g.step, g.item.ID, verdict.Reason, verdict.Text))
		return nil
	}
	if err := r.opts.Groups.Write(*verdict.Group); err != nil {
		return fmt.Errorf("write group %d: %w", g.step, err)
	}
	return nil
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

// extender returns what the environment adds to a group, nil when it adds nothing.
func (r *Runner) extender(item Item, members []*trajectories.Rollout) func(*trajectories.Group) error {
	e, ok := r.opts.Environment.(GroupExtender)
	if !ok {
		return nil
	}
	return func(g *trajectories.Group) (err error) {
		defer func() {
			if p := recover(); p != nil {
				err = fmt.Errorf("panic: %v", p)
			}
		}()
		return e.ExtendGroup(item, members, g)
	}
}
