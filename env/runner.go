package env

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hermes-env/hermes-env/agentloop/chat"
	"github.com/hermes-env/hermes-env/agentloop/model"
	"github.com/hermes-env/hermes-env/env/config"
	"github.com/hermes-env/hermes-env/parsers"
	"github.com/hermes-env/hermes-env/toolcontext"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
	"github.com/hermes-env/hermes-env/toolcontext/tools"
	"github.com/hermes-env/hermes-env/trajectories"
)

// Options is what a Runner works with. All fields are required unless they say otherwise.
type Options struct {
	Mode        config.Mode
	Config      config.Env
	Environment Environment
	Agent       Agent
	Model       model.Client // only for AgentModel
	ModelName   string       // as recorded with every rollout
	RawText     bool         // the server returns the model's raw text, tool calls included
	// Sessions opens a token-exact session in place of Model for every rollout, whose
	// tokens are recorded with it. Optional.
	Sessions func() (model.Session, error)
	// GroupsInFlight is how many groups process runs at once; 0 means 1.
	GroupsInFlight int
	Provider       sandbox.Provider
	// Prices are what the model servers charge, nil for one whose prices are not known.
	// Only budgets use them, for rollouts that were recorded without their cost.
	Prices   []*model.Price
	Registry *tools.Registry
	Store    *trajectories.Run
	Groups   GroupSink // optional
	Observer Observer  // optional

	// MaxSequenceTokens returns the length at which a sequence is too long for the
	// trainer, 0 or less when it has no limit; it is asked for every group. Optional.
	MaxSequenceTokens func() int
	// ExactTokens keeps rollouts whose tokens are not known out of groups.
	ExactTokens bool

	// Stored returns the recorded rollout that AgentStored scores again in a place of the
	// run, nil where there is none, which is then left out. Only for AgentStored.
	Stored        func(trajectories.Key) *trajectories.Rollout
	StoredPlanned int // how many there are

	// ForgeriesPlanned is how many forgeries the items have together, -1 when unknown.
	// Only for AgentForger, whose config.Env.Attempts is the most that one item has.
	ForgeriesPlanned int

	// RetryOutcomes are the outcomes whose rollouts a resumed run does again; nil means
	// those that ended without a fair try (trajectories.Outcome.Retryable).
	RetryOutcomes []trajectories.Outcome

	// Select says which items are run; nil: all of them. It is called once for each,
	// from one goroutine. Selected is how many it keeps of those of evaluate, 0 when
	// that is not known. Process fails when no item is left to run.
	Select   func(Item) bool
	Selected int

	// Admit is asked before the rollouts of a group start and blocks until they may; its
	// error ends the run. It is called from one goroutine. Optional.
	Admit func(ctx context.Context) error
	// Ended is told that a group which was admitted is over: handed to Groups, or left out.
	// Optional.
	Ended func(step int)

	// Drain, once closed, stops new rollouts from starting; those under way go on
	// until they end or the context of Run does. Optional.
	Drain <-chan struct{}
}

// GroupSink takes complete, scored groups, from many goroutines at once, and keeps them
// for good: what Write accepted is never offered again.
type GroupSink interface {
	Has(step int) bool // written, also in an earlier session
	Write(group trajectories.Group) error
}

// Observer is told what happens in a run, from many goroutines at once.
type Observer interface {
	Planned(rollouts int)               // how many there are to run; -1 when unknown
	Finished(rec *trajectories.Rollout) // durable
	Retrying(rec *trajectories.Rollout, try int)
	Skipped(rollouts int) // finished in an earlier session
	Warn(text string)
}

// Reasons why a run ends before its work is done.
var (
	// ErrEndpoint: the model endpoint can't serve any rollout.
	ErrEndpoint = errors.New("model endpoint failed")
	// ErrSandbox: no sandbox can be made.
	ErrSandbox = errors.New("sandboxes failed")
	// ErrStore: results can't be written.
	ErrStore = errors.New("results can't be written")
	// ErrItemsChanged: the items of a resumed process run come in another order.
	ErrItemsChanged = errors.New("the items are not those of the run")
	// ErrInterrupted: the run was told to stop.
	ErrInterrupted = errors.New("interrupted")
)

// Runner executes the rollouts of one run.
type Runner struct {
	opts      Options
	extra     chat.Object
	parser    *parsers.Format
	resolve   func(step int) (*tools.Resolution, error)
	toolSlots slots
	starting  slots
	ahead     *prefetch
	now       func() time.Time

	seed       maphash.Seed   // of the hashes that items are known by
	stepItems  map[int]uint64 // process: the item each recorded step had
	itemSteps  map[uint64]int // process: the step each item has, where items are known by their content
	nextStep   int            // of the next item that has none
	yielded    int            // rollouts in the groups handed out so far
	itemsEnded bool           // there are no more

	namesWarned   bool // of rollouts recorded with a digest of their item's name
	toolsetsNamed bool // toolsets that are not here have been warned of

	groupMemory *groupMemory // nil when the run makes no groups

	limit   int // workers
	workers int // so far
	work    chan assignment
	// settling has an element for every rollout that is over and not yet settled: recorded,
	// and its group handed on. Without a bound, groups that are written more slowly than
	// rollouts end would wait in memory.
	settling chan struct{}

	budget   *budget
	abort    context.CancelCauseFunc
	failures atomic.Int64 // infrastructure failures in a row
	refused  atomic.Int64 // rollouts in a row whose first request was refused
	answered atomic.Bool  // the model has answered in some rollout
	// uncounted: the user was told that answers come without token counts.
	uncounted atomic.Bool
	wg        sync.WaitGroup
}

// New checks the options and prepares a run. Nothing has been started when it fails.
func New(opts Options) (*Runner, error) {
	r := &Runner{opts: opts, now: time.Now, seed: maphash.MakeSeed(), toolSlots: newSlots(opts.Config.ToolPoolSize)}
	if opts.Observer == nil {
		r.opts.Observer = silent{}
	}
	if opts.Agent == AgentOracle {
		if !HasOracle(opts.Environment) {
			return nil, fmt.Errorf("environment %s has no reference solution, so --agent oracle can't run it", opts.Environment.Name())
		}
	}
	if opts.Agent == AgentForger {
		if _, ok := opts.Environment.(Forger); !ok {
			return nil, fmt.Errorf("environment %s has no forgeries", opts.Environment.Name())
		}
	}
	if opts.Agent == AgentStored {
		if _, ok := opts.Environment.(Restorer); !ok || opts.Stored == nil {
			return nil, fmt.Errorf("environment %s can't restore what an agent left, so its rollouts can't be scored again", opts.Environment.Name())
		}
	}
	if d, ok := opts.Environment.(RunDirUser); ok {
		d.UseRunDir(opts.Store.Dir())
	}
	if d, ok := opts.Environment.(RestoreDirUser); ok && opts.Agent == AgentModel {
		d.RestoreFrom(opts.Store.Dir()) // for rollouts that only lack their score
	}
	if len(opts.Config.ExtraBody) > 0 && string(opts.Config.ExtraBody) != "null" {
		extra, err := chat.ParseObject(opts.Config.ExtraBody)
		if err != nil {
			return nil, fmt.Errorf("env.extra_body: %w", err)
		}
		r.extra = extra
	}
	if name := opts.Config.ToolCallParser; name != "" {
		parser, err := parsers.Lookup(name)
		if err != nil {
			return nil, fmt.Errorf("env.tool_call_parser: %w", err)
		}
		r.parser = parser
	}
	if opts.RawText {
		r.extra = rawTextFields(r.extra)
	}
	selection := tools.Selection{
		Enabled:      opts.Config.EnabledToolsets,
		Disabled:     opts.Config.DisabledToolsets,
		Distribution: opts.Config.Distribution,
	}
	if err := opts.Registry.Check(selection); err != nil {
		return nil, err
	}
	r.resolve = resolver(opts.Registry, selection, opts.Config.Seed)
	r.limit = max(1, r.concurrency())
	r.work = make(chan assignment)
	r.settling = make(chan struct{}, max(minSettling, r.limit))
	prices := opts.Prices
	if p, ok := opts.Environment.(Pricer); ok {
		prices = append(slices.Clone(prices), p.Prices()...)
	}
	r.budget = newBudget(opts.Config, prices, r.limit, r.opts.Observer.Warn)
	starting := opts.Config.MaxStartingSandboxes
	if starting == 0 {
		starting = defaultStarting
	}
	r.starting = newSlots(starting)
	return r, nil
}

// rawTextFields adds what makes vLLM and SGLang return the text of tool calls as
// the model wrote it: no parsing of their own, special tokens kept, no spaces put
// between those. The user's extra_body wins.
func rawTextFields(extra chat.Object) chat.Object {
	fields := chat.Object{
		{Key: "tool_choice", Value: json.RawMessage(`"none"`)},
		{Key: "skip_special_tokens", Value: json.RawMessage("false")},
		{Key: "spaces_between_special_tokens", Value: json.RawMessage("false")},
	}
	for _, f := range extra {
		fields.Set(f.Key, f.Value)
	}
	return fields
}

// defaultStarting is how many sandboxes start at once unless the config says.
// Starting is the expensive moment of a sandbox's life: beyond some tens at once
// engines get slower for all.
const defaultStarting = 32

// concurrency returns how many rollouts run at once.
func (r *Runner) concurrency() int {
	if r.opts.Mode == config.Evaluate {
		return r.opts.Config.MaxEvalWorkers
	}
	return max(1, r.opts.GroupsInFlight) * r.opts.Config.GroupSize
}

// Run executes everything that is not finished yet and returns the summary of
// the whole run, earlier sessions included. The environment must have been set
// up. The error says why the run ended early; the summary is valid all the same.
func (r *Runner) Run(ctx context.Context) (*Summary, error) {
	started := time.Now()
	ctx, abort := context.WithCancelCause(ctx)
	defer abort(nil)
	r.abort = abort
	var err error
	if r.groupMemory, err = r.openGroupMemory(); err == nil {
		err = r.execute(ctx)
	}
	close(r.work)
	r.wg.Wait()
	r.ahead.stop()
	if ctx.Err() != nil && (err == nil || errors.Is(err, context.Canceled)) {
		err = context.Cause(ctx)
		if errors.Is(err, context.Canceled) {
			err = ErrInterrupted
		}
	}
	summary := r.summarize(time.Since(started))
	if closeErr := r.groupMemory.close(); closeErr != nil && err == nil {
		err = fmt.Errorf("%w: %w", ErrStore, closeErr)
	}
	return summary, err
}

func (r *Runner) execute(ctx context.Context) error {
	// What failed for a reason that is not the agent's gets another chance on resume.
	failed := func(e trajectories.Entry) bool {
		if again := r.opts.RetryOutcomes; again != nil {
			return slices.Contains(again, e.Outcome)
		}
		// A group that went on without a rollout has no use for it any more.
		return e.Outcome.Retryable() && (r.opts.Groups == nil || !r.opts.Groups.Has(e.Step))
	}
	manifest := r.opts.Store.Manifest()
	r.budget.open(r.opts.Store.Spent(), manifest.Active(time.Now()))
	_, keyed := r.opts.Environment.(ContentKeyed)
	keyed = keyed && r.opts.Mode != config.Evaluate
	if r.opts.Mode != config.Evaluate {
		r.stepItems = make(map[int]uint64)
		if keyed {
			r.itemSteps = make(map[uint64]int)
		}
	}
	var again []trajectories.Entry
	if err := r.opts.Store.EachEntry(func(e trajectories.Entry) error {
		switch {
		case failed(e) && !e.Archived():
			again = append(again, e)
		case r.stepItems != nil:
			r.stepItems[e.Step] = r.hash(e.ItemID)
			if keyed {
				r.itemSteps[r.hash(e.ItemID)] = e.Step
				r.nextStep = max(r.nextStep, e.Step+1)
			}
		}
		return nil
	}); err != nil {
		return fmt.Errorf("%w: %w", ErrStore, err)
	}
	if len(again) > 0 {
		if err := r.budget.over(); err != nil {
			return err // before the records of what can't be run again are put away
		}
		if err := r.keepFailed(again); err != nil {
			return fmt.Errorf("%w: %w", ErrStore, err)
		}
		n, err := r.opts.Store.Supersede(failed)
		if err != nil {
			return fmt.Errorf("%w: %w", ErrStore, err)
		}
		r.opts.Observer.Warn(fmt.Sprintf("%d rollouts of an earlier session are run again; their records moved to superseded.jsonl", n))
	}
	if r.opts.Mode != config.Evaluate {
		if keyed { // what waits for its score is known by the step it was run in
			for _, key := range r.opts.Store.WaitingKeys() {
				r.itemSteps[r.hash(key.ItemID)] = key.Step
				r.nextStep = max(r.nextStep, key.Step+1)
			}
		}
		if err := r.handOnRecorded(); err != nil {
			return fmt.Errorf("%w: %w", ErrStore, err)
		}
	}
	r.opts.Observer.Planned(r.planned())
	r.ahead = r.newPrefetch(ctx)
	var queue []pending
	startOldest := func() error {
		next := queue[0]
		queue = queue[1:]
		if r.opts.Admit != nil {
			if err := r.opts.Admit(ctx); err != nil {
				return err
			}
		}
		if err := r.budget.admit(ctx, r.opts.Drain, len(next.todo)); err != nil {
			return err
		}
		for _, attempt := range next.todo {
			if err := r.start(ctx, assignment{next.group, attempt}); err != nil {
				return err
			}
		}
		return nil
	}
	var trouble error
	for g, err := range r.groups(ctx) {
		if err != nil {
			trouble = err
			break
		}
		todo, err := r.todo(g)
		if err != nil {
			trouble = err
			break
		}
		if len(todo) == 0 {
			if err := r.groupDone(g); err != nil {
				return fmt.Errorf("%w: %w", ErrStore, err)
			}
			continue
		}
		resolution, err := r.resolve(g.step)
		if err != nil {
			trouble = err
			break
		}
		r.warnOfToolsets(resolution.Skipped)
		g.toolset, g.toolsets = resolution.Toolset, resolution.Toolsets
		g.pending.Store(int64(len(todo)))
		r.ahead.announce(g, len(todo))
		if queue = append(queue, pending{g, todo}); r.ahead != nil && len(queue) <= r.opts.Config.Prefetch {
			continue
		}
		if err := startOldest(); err != nil {
			return err
		}
	}
	for len(queue) > 0 {
		if err := startOldest(); err != nil {
			return err
		}
	}
	return trouble
}

// warnOfToolsets says once which toolsets of the distribution have no tools here.
func (r *Runner) warnOfToolsets(skipped []string) {
	if len(skipped) == 0 || r.toolsetsNamed {
		return
	}
	r.toolsetsNamed = true
	r.opts.Observer.Warn(fmt.Sprintf("env.distribution %s has toolsets without tools here, which are left out: %s", r.opts.Config.Distribution, strings.Join(skipped, ", ")))
}

// hash is what is kept in memory of an item's id.
func (r *Runner) hash(id string) uint64 { return maphash.String(r.seed, id) }

// pending is a group whose attempts have not been started.
type pending struct {
	group *group
	todo  []int
}

// start hands an assignment to a worker that is free, to a new one while there
// may be more, or waits for one. It is called from one goroutine.
func (r *Runner) start(ctx context.Context, a assignment) error {
	switch {
	case r.draining():
		return ErrInterrupted
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	select {
	case r.work <- a:
		return nil
	default:
	}
	if r.workers < r.limit {
		r.workers++
		r.wg.Add(1)
		go r.worker(ctx, a)
		return nil
	}
	select {
	case r.work <- a:
		return nil
	case <-r.opts.Drain:
		return ErrInterrupted
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// worker runs assignments until there are no more. Workers are kept, so that
// their stacks have to grow only once.
func (r *Runner) worker(ctx context.Context, a assignment) {
	defer r.wg.Done()
	for more := true; more; a, more = <-r.work {
		rec := r.withinGroupTime(ctx, a)
		r.ahead.over(a.group)
		r.record(a.group, rec)
	}
}

// withRetries runs an assignment, and keeps account of what that costs.
func (r *Runner) withRetries(ctx context.Context, a assignment) *trajectories.Rollout {
	spend := &ledger{}
	r.budget.begin(spend)
	kept := r.waitingFor(a)
	spend.earlier = kept
	rec := r.tries(spend.into(ctx), a, spend, kept)
	r.budget.end(spend, rec)
	if n := spend.total().Unreported; n > 0 && r.uncounted.CompareAndSwap(false, true) {
		r.opts.Observer.Warn(fmt.Sprintf("rollout %s: %s of %s came without token counts, so what it used and cost is not known (said once)", rec.ID, plural(n, "answer"), r.opts.ModelName))
	}
	return rec
}

// tries runs an assignment again when something other than the agent decided its outcome.
// A conversation that is finished, and needs nothing else to be scored, is not held again.
func (r *Runner) tries(ctx context.Context, a assignment, spend *ledger, kept *trajectories.Rollout) *trajectories.Rollout {
	var earlier []trajectories.SandboxEvent
	for try := 0; ; try++ {
		rec, cause := r.rollout(ctx, a, kept)
		rec.Retries = try
		earlier = keepEvents(rec, earlier, try+1)
		rec.Spend = spend.record()
		r.watch(rec, cause)
		if !worthRetrying(rec, cause) || try >= r.opts.Config.Retries || ctx.Err() != nil || r.draining() || r.budget.exhausted() {
			return rec
		}
		r.opts.Observer.Retrying(rec, try+1)
		select {
		case <-time.After(retryDelay(try)):
			if kept = r.waitingFor(a); kept == nil && r.opts.Agent == AgentModel && r.scorable(a.group.item, rec) {
				kept = rec
			}
			if kept == nil {
				spend.nextTry()
			}
		case <-r.opts.Drain:
			return rec
		case <-ctx.Done():
			return rec
		}
	}
}

// keepEvents puts what happened to the sandboxes of earlier tries before what happened to
// that of this one.
func keepEvents(rec *trajectories.Rollout, earlier []trajectories.SandboxEvent, try int) []trajectories.SandboxEvent {
	if rec.Sandbox == nil && len(earlier) > 0 {
		rec.Sandbox = &trajectories.Sandbox{}
	}
	if rec.Sandbox == nil {
		return nil
	}
	for i := range rec.Sandbox.Events {
		rec.Sandbox.Events[i].Try = try
	}
	rec.Sandbox.Events = append(slices.Clone(earlier), rec.Sandbox.Events...)
	return rec.Sandbox.Events
}

func retryDelay(try int) time.Duration { return time.Second << min(try, 5) }

func worthRetrying(rec *trajectories.Rollout, cause error) bool {
	if !rec.Outcome.Retryable() || rec.Outcome == trajectories.OutcomeCancelled {
		return false
	}
	var modelErr *model.Error
	return !errors.As(cause, &modelErr) || modelErr.Retryable()
}

func (r *Runner) draining() bool {
	select {
	case <-r.opts.Drain:
		return true
	default:
		return false
	}
}

// watch ends the run when going on would only produce failures: on an error that
// no rollout can escape, or after many failures in a row without a success.
func (r *Runner) watch(rec *trajectories.Rollout, cause error) {
	failed := rec.Outcome == trajectories.OutcomeModelError
	if rec.TurnsUsed > 1 || rec.TurnsUsed == 1 && !failed { // the last one of those that failed did
		r.answered.Store(true)
		r.refused.Store(0)
	}
	kind := ErrEndpoint
	switch rec.Outcome {
	case trajectories.OutcomeCancelled:
		return
	case trajectories.OutcomeModelError:
		var modelErr *model.Error
		if errors.As(cause, &modelErr) {
			if modelErr.Fatal() {
				r.abort(fmt.Errorf("%w: %w", ErrEndpoint, cause))
				return
			}
			if !modelErr.Retryable() {
				r.watchRefusal(rec, modelErr.Kind, cause)
				return
			}
		}
	case trajectories.OutcomeSandboxError:
		kind = ErrSandbox
	default:
		r.failures.Store(0)
		return
	}
	limit := int64(max(minFailuresInARow, 2*r.limit))
	if n := r.failures.Add(1); n >= limit {
		r.abort(fmt.Errorf("%w: %d rollouts in a row failed, the last with: %w", kind, n, cause))
	}
}

// watchRefusal ends the run when the server refuses the first request of one rollout
// after the other. One such refusal is the trouble of that conversation alone; many,
// before any answer, are of the settings that all requests have in common.
func (r *Runner) watchRefusal(rec *trajectories.Rollout, kind model.Kind, cause error) {
	if rec.TurnsUsed > 1 {
		return
	}
	limit := int64(minFailuresInARow)
	switch {
	case r.answered.Load():
		limit = int64(max(minFailuresInARow, 2*r.limit))
		if kind != model.KindBadRequest {
			return // too long, too large or filtered: prompts differ in that
		}
	case kind == model.KindBadRequest:
		limit = minRefusalsInARow
	}
	if n := r.refused.Add(1); n >= limit {
		r.abort(fmt.Errorf("%w: the first requests of %d rollouts in a row were refused, the last with: %w", ErrEndpoint, n, cause))
	}
}

// minRefusalsInARow is how many rollouts the server may refuse before its first answer.
const minRefusalsInARow = 5

const minFailuresInARow = 20

// minSettling is how many rollouts may wait to be settled however few run at once, so
// that the disk has several to write together.
const minSettling = 64

// record stores a finished rollout. The worker waits for the disk only when many
// rollouts do already.
func (r *Runner) record(g *group, rec *trajectories.Rollout) {
	r.wg.Add(1)
	r.settling <- struct{}{}
	// Not the run's context: what is finished is kept also when the run is cancelled.
	r.opts.Store.AppendAsync(context.Background(), rec, func(err error) {
		go func() { // the store is waiting for this function to return
			defer func() {
				<-r.settling
				r.wg.Done()
			}()
			r.recorded(g, rec, err)
		}()
	})
}

func (r *Runner) recorded(g *group, rec *trajectories.Rollout, err error) {
	if err != nil {
		r.abort(fmt.Errorf("%w: %w", ErrStore, err))
		return
	}
	r.opts.Observer.Finished(rec)
	if r.opts.Groups != nil {
		g.noteRecorded(rec)
	}
	if g.pending.Add(-1) == 0 {
		if err := r.groupDone(g); err != nil {
			r.abort(fmt.Errorf("%w: %w", ErrStore, err))
		}
		if r.opts.Ended != nil {
			r.opts.Ended(g.step)
		}
	}
}

// newContext makes the handle on sandbox and tools for one rollout.
func (r *Runner) newContext(spec sandbox.Spec, toolset *chat.Toolset, task string) (*toolcontext.Context, error) {
	return toolcontext.New(toolcontext.Config{
		Provider: limitedProvider{r.opts.Provider, r.starting},
		Spec:     spec,
		Registry: r.opts.Registry,
		Toolset:  toolset,
		UserTask: task,
		Options:  tools.Options{TerminalTimeout: r.opts.Config.TerminalTimeout.Duration()},
	})
}

func (r *Runner) sandboxSpec(item Item, rollout string) (sandbox.Spec, error) {
	var spec sandbox.Spec
	if s, ok := r.opts.Environment.(SandboxSpecifier); ok {
		var err error
		if spec, err = s.Sandbox(item); err != nil {
			return spec, fmt.Errorf("sandbox of item %q: %w", item.ID, err)
		}
	}
	spec.Rollout = rollout
	return spec, nil
}

func newRolloutID() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails, as crypto/rand documents
	return "r" + hex.EncodeToString(b[:])
}

type silent struct{}

func (silent) Planned(int)                         {}
func (silent) Finished(*trajectories.Rollout)      {}
func (silent) Retrying(*trajectories.Rollout, int) {}
func (silent) Skipped(int)                         {}
func (silent) Warn(string)                         {}
