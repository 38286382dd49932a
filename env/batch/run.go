package batch

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/hermes-env/hermes-env/agentloop/chat"
	"github.com/hermes-env/hermes-env/trajectories"
)

// RunDir is the folder of the run directory below that of the batch files.
const RunDir = "run"

// Reason is why a sample without reasoning in any turn is discarded, as tombstones say it.
const Reason = "no_reasoning"

// Options is what a Run works with. All fields are required unless they say otherwise.
type Options struct {
	Dir          string // data/<run name>, which exists
	RunName      string
	Distribution string
	Model        string
	BatchSize    int
	Prompts      *Prompts
	Store        *trajectories.Run // opened in Dir/run
	// KeepWithoutReasoning keeps samples without reasoning in any turn.
	KeepWithoutReasoning bool
	Now                  func() time.Time
	Warn                 func(string)
}

// Run keeps the files of the original batch runner in step with the recorded rollouts.
// Its methods may be called from many goroutines at once.
type Run struct {
	opts    Options
	convert *trajectories.ShareGPT
	plan    plan
	known   int // rows of the dataset that were done before

	mu        sync.Mutex
	ours      map[identity]bool // rows made from recorded rollouts
	completed map[int]bool
	batches   map[int]batchStats
	left      map[int]int // prompts of each batch that this session has still to end
	failures  int
	saved     time.Time
}

// Started says whether dir holds what a batch run leaves.
func Started(dir string) (bool, error) {
	numbers, err := batchNumbers(dir)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil || len(numbers) > 0 {
		return len(numbers) > 0, err
	}
	for _, name := range []string{checkpointFile, RunDir} {
		if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
			return true, nil
		}
	}
	return false, nil
}

// Again are the outcomes whose rollouts a resumed run does again: everything that left no row.
func Again() []trajectories.Outcome {
	return []trajectories.Outcome{trajectories.OutcomeModelError, trajectories.OutcomeSandboxError, trajectories.OutcomeCancelled, trajectories.OutcomeVerifierError, trajectories.OutcomeEnvironmentError}
}

// Open reads what earlier sessions left, the original's included, writes the rows that a
// killed session recorded but did not get to write, and decides what is left to run.
func Open(ctx context.Context, opts Options) (*Run, error) {
	r := &Run{
		opts:      opts,
		convert:   trajectories.NewShareGPT(trajectories.ShareGPTConfig{Tools: opts.Store.Tools()}),
		ours:      make(map[identity]bool),
		completed: make(map[int]bool),
		batches:   make(map[int]batchStats),
		left:      make(map[int]int),
	}
	places, err := r.scan(newToolNames())
	if err != nil {
		return nil, err
	}
	before, err := readCompleted(opts.Dir, opts.RunName, opts.Warn)
	if err != nil {
		return nil, err
	}
	found := &past{items: make(map[string]bool), indices: make(map[int]bool), completed: before}
	if err := r.reconcile(places, found); err != nil {
		return nil, err
	}
	for i := range places {
		p := &places[i]
		if p.ours = r.ours[p.identity()]; !p.ours && (p.kind == kindRow || p.kind == kindTombstone) {
			found.foreign = append(found.foreign, *p)
			r.count(p.batch, p.index, p.kind == kindTombstone)
		}
		if p.kind != kindBroken && p.kind != kindFailed {
			found.indices[p.index] = true
		}
	}
	r.plan = makePlan(opts.Prompts.rows, found)
	r.known = r.plan.done
	if n := r.plan.distrusted; n > 0 {
		opts.Warn(fmt.Sprintf("%s calls %d prompts done that have no row, and the dataset is not the one it was written for: they are run", checkpointFile, n))
	}
	if err := r.bury(ctx); err != nil {
		return nil, err
	}
	for _, t := range r.plan.pending {
		r.left[t.index/opts.BatchSize]++
	}
	return r, r.Save()
}

func (r *Run) scan(names *toolNames) ([]place, error) {
	numbers, err := batchNumbers(r.opts.Dir)
	if err != nil {
		return nil, fmt.Errorf("list the batch files: %w", err)
	}
	var all []place
	for _, n := range numbers {
		places, err := scanBatch(r.opts.Dir, n, names, r.opts.Warn)
		if err != nil {
			return nil, err
		}
		all = append(all, places...)
	}
	return all, nil
}

// reconcile writes the rows of recorded rollouts that are in no batch file. The others
// are not decoded: their conversations come last in the line and are not looked at.
func (r *Run) reconcile(places []place, found *past) error {
	present := make(map[identity]kind, len(places))
	for i := range places {
		present[places[i].identity()] = places[i].kind
	}
	again := Again()
	missing := 0
	path := filepath.Join(r.opts.Store.Dir(), "rollouts.jsonl")
	err := trajectories.EachLineOf(path, func(line trajectories.Line) error {
		head := readHead(line.Text)
		if slices.Contains(again, head.outcome) {
			return nil
		}
		where, err := head.place()
		if err != nil {
			return fmt.Errorf("%s, line %d: %w", path, line.Number, err)
		}
		found.items[head.item] = true
		found.indices[where.PromptIndex] = true
		id := identity{where.PromptIndex, hashStamp(trajectories.BatchTimestamp(&trajectories.Rollout{FinishedAt: head.finished}))}
		r.ours[id] = true
		if kind, ok := present[id]; ok {
			r.count(where.BatchNum, where.PromptIndex, kind == kindTombstone)
			return nil
		}
		rec, err := trajectories.DecodeRollout(line.Text)
		if err != nil {
			return fmt.Errorf("%s, line %d: %w", path, line.Number, err)
		}
		row, discarded := r.line(rec, where)
		r.count(where.BatchNum, where.PromptIndex, discarded)
		missing++
		return appendTo(batchFile(r.opts.Dir, where.BatchNum), row)
	})
	if err != nil {
		return fmt.Errorf("compare the batch files with the recorded rollouts: %w", err)
	}
	if missing > 0 {
		r.opts.Warn(fmt.Sprintf("%d recorded rollouts had no row in the batch files yet; they were written", missing))
	}
	return nil
}

// bury writes tombstones for discards that the original remembered by number only.
func (r *Run) bury(ctx context.Context) error {
	if len(r.plan.discarded) == 0 {
		return nil
	}
	wanted := make(map[int]int, len(r.plan.discarded))
	for _, t := range r.plan.discarded {
		wanted[t.position] = t.index
	}
	position := 0
	for entry, err := range r.opts.Prompts.read(ctx, func(int, error) {}) {
		if err != nil {
			return err
		}
		if index, ok := wanted[position]; ok {
			n := index / r.opts.BatchSize
			line := trajectories.AppendBatchTombstone(nil, &trajectories.Rollout{
				Messages: []chat.Message{chat.User(entry.text)}, FinishedAt: r.opts.Now(), Model: r.opts.Model,
			}, trajectories.BatchRow{PromptIndex: index, BatchNum: n}, Reason)
			if err := appendTo(batchFile(r.opts.Dir, n), append(line, '\n')); err != nil {
				return err
			}
			r.count(n, index, true)
		}
		position++
	}
	r.opts.Warn(fmt.Sprintf("%d prompts that %s calls done without a row were discarded for want of reasoning; they are marked so and not run again", len(wanted), checkpointFile))
	return nil
}

// line makes the row of a rollout, with its newline.
func (r *Run) line(rec *trajectories.Rollout, where trajectories.BatchRow) (line []byte, discarded bool) {
	if !r.opts.KeepWithoutReasoning && reasoningTurns(r.convert, rec.Messages, rec.Tools) == 0 {
		return append(trajectories.AppendBatchTombstone(nil, rec, where, Reason), '\n'), true
	}
	return append(r.convert.AppendBatchRow(nil, rec, where), '\n'), false
}

func reasoningTurns(convert *trajectories.ShareGPT, messages []chat.Message, tools []string) (n int) {
	turns, _ := convert.Conversations(messages, tools)
	for _, t := range turns {
		if t.From == "gpt" && trajectories.HasReasoning(t.Value) {
			n++
		}
	}
	return n
}

// count notes a prompt that is done.
func (r *Run) count(batch, index int, discarded bool) {
	stats := r.batches[batch]
	stats.Processed++
	if discarded {
		stats.Discarded++
	}
	r.batches[batch] = stats
	if index >= 0 {
		r.completed[index] = true
	}
}

// Pending returns how many prompts are left to run.
func (r *Run) Pending() int { return len(r.plan.pending) }

// Done returns how many prompts of the dataset need not be run.
func (r *Run) Done() int { return r.known }

// Add writes the row of a rollout that has been recorded.
func (r *Run) Add(rec *trajectories.Rollout) error {
	where, err := placeOf(rec.Metadata)
	if err != nil {
		return fmt.Errorf("rollout %s: %w", rec.ID, err)
	}
	counts := !slices.Contains(Again(), rec.Outcome)
	var line []byte
	var discarded bool
	if counts {
		line, discarded = r.line(rec, where)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if counts {
		if err := appendTo(batchFile(r.opts.Dir, where.BatchNum), line); err != nil {
			return err
		}
		r.ours[identity{where.PromptIndex, hashStamp(trajectories.BatchTimestamp(rec))}] = true
		r.count(where.BatchNum, where.PromptIndex, discarded)
	} else {
		r.failures++
	}
	if r.left[where.BatchNum]--; r.left[where.BatchNum] == 0 && r.opts.Now().Sub(r.saved) >= checkpointPause {
		return r.save()
	}
	return nil
}

// checkpointPause keeps large runs of small batches from writing the list all the time.
const checkpointPause = 2 * time.Second

// Save writes checkpoint.json.
func (r *Run) Save() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.save()
}

func (r *Run) save() error {
	r.saved = r.opts.Now()
	c := checkpoint{RunName: r.opts.RunName, Batches: r.batches, Updated: r.saved}
	for index := range r.completed {
		c.Completed = append(c.Completed, index)
	}
	slices.Sort(c.Completed)
	return c.write(r.opts.Dir)
}
