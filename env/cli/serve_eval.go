package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/hermes-env/hermes-env/env"
	"github.com/hermes-env/hermes-env/env/config"
	"github.com/hermes-env/hermes-env/trajectories"
)

// evaluationDir returns the run directory of the evaluation at a step, and whether it was
// begun. Evaluations that earlier versions began beside the record stay there.
func evaluationDir(run string, step int64) (dir string, begun bool) {
	dir = filepath.Join(run, "evaluations", fmt.Sprintf("step-%d", step))
	for _, place := range []string{dir, filepath.Join(run, fmt.Sprintf("eval-step-%d", step))} {
		if _, err := os.Stat(filepath.Join(place, "run.json")); err == nil {
			return place, true
		}
	}
	return dir, false
}

// evaluate runs the held-out items with the policy of a step, as the command evaluate
// does, into a run directory of its own below the worker's. It has its own copy of the
// environment, since the worker's is handing out training items meanwhile.
func (w *workerRun) evaluate(ctx context.Context, step int64) (err error) {
	select {
	case <-w.modelReady:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	cfg, err := w.flags.load(w.session, config.Evaluate, false)
	if err != nil {
		return err
	}
	cfg.Env.MaxEvalWorkers = evalWorkers(cfg)
	dir, begun := evaluationDir(w.store.Dir(), step)
	flags := &runFlags{RunDir: dir, Resume: begun, AllowMissing: w.flags.AllowMissing, configFlagSet: w.flags.configFlagSet}
	j := &job{session: w.session, flags: flags, mode: config.Evaluate, cfg: cfg, out: evalPrinter{w.view}}
	if err := j.build(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, j.closeEnvironment()) }()
	if err := j.environment.Setup(ctx); err != nil {
		return fmt.Errorf("set up environment %s: %w", cfg.Environment, err)
	}
	if err := j.selectItems(ctx); err != nil {
		return err
	}
	store, err := j.openStore()
	if err != nil {
		return err
	}
	status := trajectories.StatusFailed
	defer func() { err = errors.Join(err, store.Close(status)) }()
	if err := j.keepSkipped(store); err != nil {
		return err
	}
	runner, err := env.New(env.Options{
		Mode: config.Evaluate, Config: cfg.Env, Environment: j.environment, Agent: env.Agent(cfg.Agent),
		Model: w.client.client, ModelName: w.client.name, RawText: w.client.rawText, Sessions: w.client.sessions,
		Provider: w.provider, Registry: j.registry, Store: store, Prices: j.prices(), Select: j.items.keep, Selected: j.items.size, Observer: j.out,
	})
	if err != nil {
		return err
	}
	summary, err := runner.Run(asEvaluation(ctx))
	switch {
	case errors.Is(err, env.ErrInterrupted), ctx.Err() != nil:
		status = trajectories.StatusInterrupted
		return err
	case err != nil:
		return err
	}
	if err := j.writeResults(store, summary); err != nil {
		return err
	}
	status = trajectories.StatusDone
	text := fmt.Sprintf("evaluation at step %d: score %s, %s; results in %s", step, scoreText(summary), roundDuration(summary.Wall), dir)
	if unscored := summary.Unscored(); unscored > cfg.Env.MaxUnscored {
		w.out.Warn(fmt.Sprintf("%s. %.1f %% of the rollouts have no score (env.max_unscored): don't trust it", text, 100*unscored))
	} else {
		w.out.Note(text)
	}
	w.evaluated(step, summary)
	return nil
}

// evalPrinter passes on what a person has to know about an evaluation, and keeps its
// progress to itself.
type evalPrinter struct{ printer }

// Planned implements printer.
func (evalPrinter) Planned(int) {}

// Skipped implements printer.
func (evalPrinter) Skipped(int) {}

// Finished implements printer.
func (evalPrinter) Finished(*trajectories.Rollout) {}

// Warn implements printer.
func (p evalPrinter) Warn(text string) { p.printer.Warn("evaluation: " + text) }

// Note implements printer.
func (p evalPrinter) Note(text string) { p.printer.Note("evaluation: " + text) }
