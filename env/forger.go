package env

import (
	"context"
	"fmt"
	"time"

	"github.com/hermes-env/hermes-env/agentloop"
	"github.com/hermes-env/hermes-env/agentloop/chat"
	"github.com/hermes-env/hermes-env/toolcontext"
	"github.com/hermes-env/hermes-env/trajectories"
)

// AgentForger tries to get a reward without doing the work. Attempt number k at an item
// carries out the item's forgery k.
const AgentForger Agent = "forger"

// Forgery is one attempt to get a reward without doing the work.
type Forgery struct {
	Name    string // short and stable
	Summary string // what it tries, in one sentence
	// Control is the name of a forgery that changes the same without trying to get a
	// reward, "" without one. Where that passes, this one shows nothing.
	Control string
}

// Forger knows forgeries of the rewards of its items.
type Forger interface {
	// Forgeries returns those for an item, each time the same.
	Forgeries(item Item) []Forgery
	// Forge carries out one of them in place of an agent, in the sandbox of an item or,
	// for items with stages, once for each stage. An error that is not the sandbox's
	// says why the forgery can't be tried on this item.
	Forge(ctx context.Context, item Item, stage int, forgery Forgery, tc *toolcontext.Context) error
}

// Members of a record's metadata that name the forgery it tried.
const (
	forgeryField        = "forgery"
	forgerySummaryField = "forgery_summary"
	forgeryControlField = "forgery_control"
)

// ClassForgery is the class of an error that says why a forgery could not be tried.
const ClassForgery = "forgery"

// forgeries returns the forgeries for an item; none unless the agent is AgentForger.
func (r *Runner) forgeries(item Item) []Forgery {
	if r.opts.Agent != AgentForger {
		return nil
	}
	return r.opts.Environment.(Forger).Forgeries(item)
}

// describeForgery adds the forgery of a rollout to its metadata.
func describeForgery(rec *trajectories.Rollout, f Forgery) {
	object, err := chat.ParseObject(rec.Metadata)
	if err != nil {
		object = nil // nothing was described
	}
	object.Set(forgeryField, chat.AppendString(nil, f.Name))
	object.Set(forgerySummaryField, chat.AppendString(nil, f.Summary))
	if f.Control != "" {
		object.Set(forgeryControlField, chat.AppendString(nil, f.Control))
	}
	rec.Metadata = object.Append(nil)
}

// actForger carries out a forgery.
func (r *Runner) actForger(ctx context.Context, l *leg, limit time.Duration, messages []chat.Message, tc *toolcontext.Context) (*agentloop.Result, error) {
	result, err := r.actInPlace(ctx, l.forge, limit, messages, tc)
	if err != nil {
		return result, fmt.Errorf("forgery: %w", err)
	}
	return result, nil
}
