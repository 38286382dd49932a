package serve

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"github.com/hermes-env/hermes-env/env"
	"github.com/hermes-env/hermes-env/env/atropos"
	"github.com/hermes-env/hermes-env/env/atropos/client"
)

// Config says for whom a worker works, and how. Client, Dir and Name are required.
type Config struct {
	Client    *client.Client
	Dir       string   // of the run; the spool and refused groups go below it
	Name      string   // asked for at registration; the server adds a number
	MaxTokens int64    // of one completion; the server weighs workers by it
	Weight    float64  // among the workers; 0 means 1
	Throttle  Throttle // its LastStep may be lowered by the trainer's number of steps
	BatchSize int64    // sequences of a batch where the trainer doesn't say; 0: wait until it does

	IncludeMessages bool
	// Placeholders sends groups without tokens, with what trajectories.PlaceholderTokens
	// makes and the conversations, marked in group_overrides. Without it they are errors.
	Placeholders bool
	GroupFile    env.GroupSink // takes every group as well; nil: none

	EvalEvery   int64 // steps between evaluations; 0 and less: none
	EvalAtStart bool
	// Evaluate evaluates; nil: never. One call runs at a time.
	Evaluate func(ctx context.Context, step int64) error

	// Weighed is told this worker's share of the model servers, above 0 and at most 1,
	// whenever it changes; nil: nobody is.
	Weighed func(share float64)

	Observer Observer
	Drain    <-chan struct{} // once closed no more groups are admitted; nil: never

	Poll       time.Duration // between looks at the queue; 0 means 1 s
	MaxBackoff time.Duration // between tries when the server is away or refuses; 0 means 30 s
}

// Observer is told what a person wants to know, from many goroutines at once.
type Observer interface {
	Note(text string)
	Warn(text string)
	// Stepped tells that the trainer is at another step.
	Stepped(step int64)
	// Collected tells that a group is in the spool.
	Collected(Collected)
}

// Collected describes a group that was spooled.
type Collected struct {
	Step, Sequences int
	Lengths         []int // trained tokens by sequence
	MeanScore       float64
}

// Reasons why a worker ends.
var (
	// ErrDone: the trainer has taken the batches of all its steps.
	ErrDone = errors.New("the trainer has all its steps")
	// ErrUnauthorized: the server asks for a token that it did not get.
	ErrUnauthorized = errors.New("the API server refuses this worker")
	// ErrSpool: what is finished can't be kept.
	ErrSpool = errors.New("finished groups can't be kept")
	// ErrGroupTooLarge: no batch can hold a group.
	ErrGroupTooLarge = errors.New("a group is larger than a batch")
)

// Worker is one worker of a trainer. Its methods may be called from several
// goroutines. Start it, wait until it is Ready, run groups, then Finish it.
type Worker struct {
	config Config
	spool  *spool
	stop   context.CancelFunc
	loops  sync.WaitGroup

	mu        sync.Mutex
	changed   chan struct{} // closed and replaced when a decision may come out otherwise
	link      linkState
	posted    int64 // groups the server took, in this process
	counted   int64 // of these, those that the last status counts
	running   int
	hold      Hold
	evaluates bool
	finishing bool
	failed    error

	evalContext context.Context // of evaluations; ends with the loops
}

// New opens the spool of a worker. Close it by Finish, also when it was never started.
func New(config Config) (*Worker, error) {
	if config.Client == nil || config.Dir == "" || config.Name == "" {
		return nil, errors.New("make a worker: client, directory and name are required")
	}
	if config.Poll <= 0 {
		config.Poll = time.Second
	}
	if config.MaxBackoff <= 0 {
		config.MaxBackoff = 30 * time.Second
	}
	if config.Weight == 0 {
		config.Weight = 1
	}
	if config.Observer == nil {
		config.Observer = silent{}
	}
	s, err := openSpool(filepath.Join(config.Dir, "spool"), 0)
	if err != nil {
		return nil, err
	}
	w := &Worker{config: config, spool: s, changed: make(chan struct{})}
	w.link.lastStep = config.Throttle.LastStep
	s.look(func(state *spoolState) {
		if state.Worker != nil && state.Worker.URL == config.Client.URL() {
			before := *state.Worker
			w.link.before = &before
		}
	})
	return w, nil
}

// Start begins to look for the server and to send what the spool holds. The loops
// end with ctx, or with Finish.
func (w *Worker) Start(ctx context.Context) {
	ctx, w.stop = context.WithCancel(ctx)
	w.evalContext = ctx
	w.loops.Go(func() { w.keepLink(ctx) })
	w.loops.Go(func() { w.sendAll(ctx) })
}

// Ready returns when the worker is registered and the trainer's batch size is known.
// It waits for both as long as ctx and Drain let it.
func (w *Worker) Ready(ctx context.Context) error {
	return w.wait(ctx, func() (bool, error) {
		return w.link.registered && (w.link.batchSize > 0), w.failed
	})
}

// Admit blocks until a group may start, which then counts as running until Ended. The
// error is ErrDone when no more groups are wanted, env.ErrInterrupted when the worker
// drains.
func (w *Worker) Admit(ctx context.Context) error {
	return w.wait(ctx, func() (bool, error) {
		if w.failed != nil {
			return false, w.failed
		}
		d := w.decide()
		w.hold = d.Why
		switch {
		case d.Done:
			return false, ErrDone
		case d.Room > 0:
			w.running++
			w.hold = ""
			return true, nil
		}
		return false, nil
	})
}

// wait returns when ready says so; it is asked under the lock whenever something has changed.
func (w *Worker) wait(ctx context.Context, ready func() (bool, error)) error {
	for {
		w.mu.Lock()
		ok, err := ready()
		changed := w.changed
		w.mu.Unlock()
		if ok || err != nil {
			return err
		}
		select {
		case <-changed:
		case <-w.config.Drain:
			return env.ErrInterrupted
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// decide says how many groups may start. mu is held.
func (w *Worker) decide() Decision {
	t := w.config.Throttle
	t.LastStep = w.link.lastStep
	return t.Decide(w.situation())
}

func (w *Worker) situation() Situation {
	pending, _, _ := w.spool.counts()
	return Situation{
		Registered: w.link.registered, Away: w.link.away, Status: w.link.status, BatchSize: w.link.batchSize,
		Running: w.running, Waiting: pending + int(w.posted-w.counted), Evaluating: w.evaluates,
	}
}

// Ended says that an admitted group is over.
func (w *Worker) Ended(int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.running--
	w.wake()
}

// wake lets everybody who waits look again. mu is held.
func (w *Worker) wake() {
	close(w.changed)
	w.changed = make(chan struct{})
}

// fail ends the worker.
func (w *Worker) fail(err error) {
	if !errors.Is(err, ErrUnauthorized) && !errors.Is(err, ErrGroupTooLarge) {
		err = fmt.Errorf("%w: %w", ErrSpool, err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.failed == nil {
		w.failed = err
	}
	w.wake()
}

// MaxSequenceTokens is the length at which a sequence is too long for the trainer; 0
// when it sets no limit.
func (w *Worker) MaxSequenceTokens() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return int(max(0, w.link.maxTokens))
}

// WandbInfo is where the trainer logs, as far as it has said so.
func (w *Worker) WandbInfo() atropos.WandbInfo {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.link.wandb
}

// Finish lets an evaluation end and sends what is left in the spool, both for as long as ctx lasts, disconnects the
// worker and closes the spool. What could not be sent stays for the next start. It
// returns why the worker failed, if it did.
func (w *Worker) Finish(ctx context.Context) error {
	w.mu.Lock()
	w.finishing = true
	w.wake()
	started := w.stop != nil
	w.mu.Unlock()
	if started {
		w.flush(ctx)
		w.stop()
		w.loops.Wait()
		w.disconnect(ctx)
	}
	err := w.spool.close()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.failed != nil {
		return w.failed
	}
	return err
}

// flush waits until the spool is empty and no evaluation runs.
func (w *Worker) flush(ctx context.Context) {
	for {
		w.mu.Lock()
		pending, _, _ := w.spool.counts()
		changed, over := w.changed, w.failed != nil || pending == 0 && !w.evaluates
		w.mu.Unlock()
		if over {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

const disconnectTimeout = 3 * time.Second

// disconnect tells the server that this worker is going.
func (w *Worker) disconnect(ctx context.Context) {
	w.mu.Lock()
	registered, away, id := w.link.registered, w.link.away, w.link.identity
	w.mu.Unlock()
	if !registered || away {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), disconnectTimeout)
	defer cancel()
	if err := w.config.Client.DisconnectEnv(ctx, id.EnvID); err != nil {
		w.config.Observer.Warn(fmt.Sprintf("the server was not told that this worker goes: %v", err))
		return
	}
	if err := w.spool.record(&spoolEvent{Op: opWorker}); err != nil {
		w.fail(err)
	}
}

type silent struct{}

func (silent) Note(string)         {}
func (silent) Warn(string)         {}
func (silent) Stepped(int64)       {}
func (silent) Collected(Collected) {}
