package batch

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"slices"
	"strconv"

	"github.com/hermes-env/hermes-env/agentloop"
	"github.com/hermes-env/hermes-env/agentloop/chat"
	"github.com/hermes-env/hermes-env/env"
	"github.com/hermes-env/hermes-env/toolcontext"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
	"github.com/hermes-env/hermes-env/trajectories"
)

// Name is the environment's name in run.json.
const Name = "batch"

// item is what the runner carries for the environment.
type item struct {
	prompt prompt
	where  trajectories.BatchRow
}

// environment hands the prompts that are left to the runner.
type environment struct {
	run *Run
	// images says whether sandboxes can be made from images, and so whether image and cwd
	// of a row mean anything.
	images bool

	recorded map[int]env.Item // by step: what earlier sessions ran
	step     int
	pending  []todo
	position int
	next     func() (prompt, error, bool)
	stop     func()
}

// Environment returns the environment of the prompts that are left, and how many steps the
// run has. images says whether the sandboxes are made from images. The environment has
// to be closed.
func (r *Run) Environment(images bool) (e env.Environment, steps int, closing func()) {
	found := &environment{run: r, images: images, recorded: make(map[int]env.Item), pending: r.plan.pending, stop: func() {}}
	again := Again()
	_ = r.opts.Store.EachEntry(func(entry trajectories.Entry) error { // fails only if visit does
		if !slices.Contains(again, entry.Outcome) {
			found.recorded[entry.Step] = env.Item{ID: entry.ItemID, Digest: entry.ItemDigest}
		}
		return nil
	})
	return found, len(found.recorded) + len(found.pending), func() { found.stop() }
}

// Name returns the environment's name.
func (e *environment) Name() string { return Name }

// Setup begins to read the prompts.
func (e *environment) Setup(ctx context.Context) error {
	next, stop := iter.Pull2(e.run.opts.Prompts.read(ctx, func(int, error) {}))
	e.next, e.stop = next, stop
	return nil
}

// NextItem returns what was run at a step before, so that steps stay what they were, and
// fills the steps between and after with the prompts that are left.
func (e *environment) NextItem(context.Context) (env.Item, error) {
	if len(e.pending) == 0 {
		return env.Item{}, io.EOF
	}
	step := e.step
	e.step++
	if known, ok := e.recorded[step]; ok {
		return known, nil
	}
	due := e.pending[0]
	e.pending = e.pending[1:]
	for {
		entry, err, more := e.next()
		if err != nil {
			return env.Item{}, err
		}
		position := e.position
		e.position++
		rows := e.run.opts.Prompts.rows
		if !more || position >= len(rows) || rows[position].digest != entry.digest() {
			return env.Item{}, fmt.Errorf("the dataset file %s changed while the run went on: run again with --resume", e.run.opts.Prompts.file)
		}
		if position == due.position {
			r := rows[position]
			where := trajectories.BatchRow{PromptIndex: due.index, BatchNum: due.index / e.run.opts.BatchSize}
			return env.Item{ID: r.itemID(), Digest: r.itemDigest(), Value: item{entry, where}}, nil
		}
	}
}

// FormatPrompt returns the prompt as the user's message.
func (e *environment) FormatPrompt(it env.Item) ([]chat.Message, error) {
	return []chat.Message{chat.User(it.Value.(item).prompt.text)}, nil
}

// Describe notes where the row belongs.
func (e *environment) Describe(it env.Item) json.RawMessage {
	v := it.Value.(item)
	note := append([]byte(`{"prompt_index":`), strconv.Itoa(v.where.PromptIndex)...)
	note = append(append(note, `,"batch_num":`...), strconv.Itoa(v.where.BatchNum)...)
	return append(note, '}')
}

// Sandbox returns what the row asks for.
func (e *environment) Sandbox(it env.Item) (sandbox.Spec, error) {
	if !e.images {
		return sandbox.Spec{}, nil
	}
	p := it.Value.(item).prompt
	return sandbox.Spec{Image: p.image, Dir: p.dir}, nil
}

// ScoresInstantly says that samples are told apart by their text.
func (e *environment) ScoresInstantly() bool { return true }

// ScoresConversation says that nothing else is looked at.
func (e *environment) ScoresConversation() bool { return true }

// Reward scores 1 for a sample that is kept and 0 for one that is discarded.
func (e *environment) Reward(_ context.Context, _ env.Item, result *agentloop.Result, tc *toolcontext.Context) (env.Score, error) {
	turns := reasoningTurns(e.run.convert, result.Messages, nil)
	if turns == 0 && !e.run.opts.KeepWithoutReasoning {
		return env.Score{Details: json.RawMessage(`{"discarded":"` + Reason + `"}`)}, nil
	}
	return env.Score{Value: 1, Parts: map[string]float64{"reasoning_turns": float64(turns)}}, nil
}
