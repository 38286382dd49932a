package cli

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/hermes-env/hermes-env/env"
	"github.com/hermes-env/hermes-env/env/batch"
	"github.com/hermes-env/hermes-env/env/config"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
	"github.com/hermes-env/hermes-env/trajectories"
)

// batchJob is one batch run from flags to summary.
type batchJob struct {
	*job
	command   *batchCommand
	on        batchSwitches
	ephemeral batch.Ephemeral
	dir       string
	show      *batchPrinter // nil with --json
	ran       *env.Summary  // of this session's rollouts; nil when there were none to run
}

func (b *batchJob) run() error {
	ctx, drain, release := interruptible(b.ctx, b.app.Signals, b.cfg.Env.InterruptGrace.Duration(), b.out)
	defer release()
	prompts, err := batch.ReadPrompts(ctx, b.command.DatasetFile, b.command.MaxSamples, b.out.Warn)
	if err != nil {
		return fail(ExitUsage, err)
	}
	if prompts.Odd > 0 {
		b.out.Warn(fmt.Sprintf("%d prompts are no texts; the model is given their JSON", prompts.Odd))
	}
	if err := b.checkImages(prompts); err != nil {
		return fail(ExitUsage, err)
	}
	started, err := batch.Started(b.dir)
	if err != nil {
		return fail(ExitUsage, fmt.Errorf("look at %s: %w", b.dir, err))
	}
	if started && !b.on.resume {
		return fail(ExitUsage, fmt.Errorf("%s holds a run already: add --resume to go on with it, or choose another --run_name", b.dir))
	}
	return b.runOn(ctx, drain, prompts, started)
}

// engines are what a run needs while there is something to run.
type engines struct {
	provider sandbox.Provider
	client   *modelClient
}

func (e *engines) close() error {
	var err error
	if e.client != nil {
		err = e.client.close()
	}
	if e.provider != nil {
		err = errors.Join(err, fail(ExitSandbox, closeProvider(e.provider)))
	}
	return err
}

func (b *batchJob) start(ctx context.Context, e *engines) error {
	var err error
	if e.provider, err = b.newProvider(); err != nil {
		return fail(ExitSandbox, err)
	}
	if n, err := e.provider.Reap(ctx); err != nil {
		b.out.Warn(fmt.Sprintf("look for sandboxes of dead runs: %v", err))
	} else if n > 0 {
		b.out.Note(fmt.Sprintf("removed %d sandboxes that a dead run had left behind", n))
	}
	if e.client, err = b.startModel(ctx); err != nil {
		return fail(ExitModel, err)
	}
	return nil
}

func (b *batchJob) runOn(ctx context.Context, drain <-chan struct{}, prompts *batch.Prompts, started bool) (err error) {
	begun := b.app.now()
	var e engines
	defer func() { err = errors.Join(err, e.close()) }()
	if !started {
		// What can't work leaves no folder behind.
		if err := b.start(ctx, &e); err != nil {
			return err
		}
	}
	store, err := b.openBatchStore()
	if err != nil {
		return err
	}
	status := trajectories.StatusFailed
	defer func() {
		if closeErr := store.Close(status); closeErr != nil && !errors.Is(err, env.ErrStore) {
			err = errors.Join(err, fail(ExitStore, closeErr))
		}
	}()
	for _, r := range store.Repairs() {
		b.out.Note("repaired " + r)
	}
	b.warnOfMixture(store)
	run, err := batch.Open(ctx, batch.Options{
		Dir: b.dir, RunName: b.command.RunName, Distribution: b.cfg.Env.Distribution, Model: b.cfg.Servers[0].ModelName,
		BatchSize: b.command.BatchSize, Prompts: prompts, Store: store,
		KeepWithoutReasoning: b.cfg.Own.(*batch.Config).KeepWithoutReasoning, Now: b.app.now, Warn: b.out.Warn,
	})
	if err != nil {
		return fail(ExitStore, err)
	}
	if run.Done() > 0 {
		b.out.Note(fmt.Sprintf("%d of %d prompts were run before, %d are left", run.Done(), prompts.Len(), run.Pending()))
	}
	var runErr error
	if run.Pending() > 0 {
		if e.client == nil {
			if err := b.start(ctx, &e); err != nil {
				return err
			}
		}
		runErr = b.rollouts(ctx, drain, run, store, &e)
	}
	status = statusOf(runErr)
	if errors.Is(runErr, env.ErrStore) {
		return runErr
	}
	result, err := run.Finish(b.app.now().Sub(begun))
	if err != nil {
		status = trajectories.StatusFailed
		return errors.Join(runErr, fail(ExitStore, err))
	}
	if err := b.summarize(result); err != nil {
		return errors.Join(runErr, err)
	}
	return b.judge(runErr, run, result)
}

// judge turns the end of a run into success or an exit code.
func (b *batchJob) judge(runErr error, run *batch.Run, result *batch.Result) error {
	switch {
	case runErr != nil:
		b.out.Note(b.goOnBatch(runErr))
		return runErr
	case result.Failed == 0:
		return nil
	case result.Failed == run.Pending() && result.Failed > 1:
		return fail(ExitModel, fmt.Errorf("none of the %d prompts could be run; the reasons are in %s; --resume tries them again", result.Failed, filepath.Join(b.dir, batch.RunDir, "rollouts.jsonl")))
	}
	return fail(ExitBelow, fmt.Errorf("%d prompts failed and left no row; --resume tries them again", result.Failed))
}

// openBatchStore opens the run directory below the batch files, or makes it.
func (b *batchJob) openBatchStore() (*trajectories.Run, error) {
	toolset, err := b.registry.Definitions(b.registry.Names()...)
	if err != nil {
		return nil, fail(ExitUsage, err)
	}
	info := trajectories.Info{
		Command: string(config.Process), Environment: batch.Name,
		Config: b.cfg.CanonicalJSON(), ConfigDigest: b.cfg.Digest, Affecting: b.cfg.AffectingJSON(), Defaults: b.cfg.DefaultsJSON(),
		AllowConfigChange: b.on.allowChange, AllowMissing: b.on.allowMissing,
		Version: Version(), Seeds: map[string]int64{"run": b.cfg.Env.Seed}, Tools: toolset,
	}
	if err := ensureDir(b.dir); err != nil {
		return nil, fail(ExitStore, err)
	}
	dir := filepath.Join(b.dir, batch.RunDir)
	if _, err := trajectories.OpenReadOnly(dir); err == nil || !errors.Is(err, trajectories.ErrNotRun) {
		store, err := trajectories.Resume(dir, info)
		var changed *trajectories.ConfigChangedError
		if errors.As(err, &changed) {
			err = fmt.Errorf("resume %s: it was started with other settings:\n  %s\nuse the old settings, start another run with another --run_name, or add --allow_config_change: the run is then marked as mixed from both", b.dir, strings.Join(changed.Differences, "\n  "))
			return nil, fail(ExitUsage, err)
		}
		return store, storeFailure(err)
	}
	store, err := trajectories.Create(dir, info)
	return store, storeFailure(err)
}

// rollouts runs the prompts that are left.
func (b *batchJob) rollouts(ctx context.Context, drain <-chan struct{}, run *batch.Run, store *trajectories.Run, e *engines) error {
	environment, steps, closing := run.Environment(fromImages(b.cfg.Env.TerminalBackend))
	defer closing()
	if err := environment.Setup(ctx); err != nil {
		return fail(ExitUsage, err)
	}
	settings := b.cfg.Env
	settings.TotalSteps = steps
	ctx, abort := context.WithCancelCause(ctx)
	defer abort(nil)
	rows := &batchRows{printer: b.out, run: run, abort: abort}
	runner, err := env.New(env.Options{
		Mode: config.Process, Config: settings, Environment: environment, Agent: env.AgentModel,
		Model: b.ephemeral.Client(e.client.client), ModelName: e.client.name, RawText: e.client.rawText,
		GroupsInFlight: b.cfg.GroupsInFlight(), Prices: b.prices(), Provider: e.provider, Registry: b.registry, Store: store,
		RetryOutcomes: batch.Again(), Observer: rows, Drain: drain,
	})
	if err != nil {
		return fail(ExitUsage, err)
	}
	b.out.Begin(b.cfg, b.dir, e.client.describe())
	b.ran, err = runner.Run(ctx)
	b.out.End()
	if failed := rows.failure(); failed != nil {
		return failed
	}
	return err
}

// batchRows writes the rows of rollouts as they are recorded.
type batchRows struct {
	printer
	run   *batch.Run
	abort context.CancelCauseFunc

	mu  sync.Mutex
	err error
}

// Finished writes the row and shows the rollout.
func (r *batchRows) Finished(rec *trajectories.Rollout) {
	if err := r.run.Add(rec); err != nil {
		r.mu.Lock()
		if r.err == nil {
			r.err = fail(ExitStore, fmt.Errorf("%w: %w", env.ErrStore, err))
			r.abort(r.err)
		}
		r.mu.Unlock()
	}
	r.printer.Finished(rec)
}

func (r *batchRows) failure() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// since is a duration for people.
func since(d time.Duration) string { return d.Round(100 * time.Millisecond).String() }
