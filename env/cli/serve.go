package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/hermes-env/hermes-env/agentloop/model"
	"github.com/hermes-env/hermes-env/env"
	"github.com/hermes-env/hermes-env/env/atropos/client"
	"github.com/hermes-env/hermes-env/env/config"
	"github.com/hermes-env/hermes-env/env/serve"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
	"github.com/hermes-env/hermes-env/trajectories"
)

// serveCommand is the worker of a trainer.
type serveCommand struct {
	EmbeddedAPI *bool  `name:"embedded-api" help:"Run the API server in this process too, at env.rollout_server_url: for a start with one command."`
	APIStateDir string `name:"api-state-dir" placeholder:"DIR" help:"With --embedded-api: the directory that keeps the server's state [api in the run directory]."`
	TokenEnv    string `name:"token-env" placeholder:"VARIABLE" help:"Environment variable with the token that the API server asks for."`
	runFlags
}

// Run runs the command.
func (c *serveCommand) Run(s *session) error {
	if err := c.settle(config.Serve); err != nil {
		return fail(ExitUsage, err)
	}
	c.takeRecordedFlags()
	cfg, err := c.load(s, config.Serve, false)
	if err != nil {
		return fail(ExitUsage, err)
	}
	if err := c.check(s, cfg); err != nil {
		return fail(ExitUsage, err)
	}
	w := &workerRun{job: &job{session: s, flags: &c.runFlags, mode: config.Serve, cfg: cfg, launch: c.launchFlags()}, command: c, modelReady: make(chan struct{})}
	w.view = newServePrinter(s.newPrinter(c.JSON), s.app.Stderr)
	w.out = w.view
	w.metrics = newRunMetrics(cfg, s.app.now, w.out.Warn)
	for _, text := range cfg.Warnings {
		w.out.Warn(text)
	}
	if err := w.build(); err != nil {
		return fail(ExitUsage, err)
	}
	if c.DryRun {
		return w.describe()
	}
	ctx, drain, release := interruptible(s.ctx, s.app.Signals, cfg.Env.InterruptGrace.Duration(), w.out)
	defer release()
	return w.run(ctx, drain)
}

// check finds what keeps a worker from being of any use before anything starts.
func (c *serveCommand) check(s *session, cfg *config.Resolved) error {
	if _, err := outcomes(c.Retry); err != nil {
		return err
	}
	if len(c.Retry) > 0 && !c.Resume {
		return errors.New("--retry-outcome acts on an earlier session: add --resume and --run-dir")
	}
	if err := c.checkAllowed(); err != nil {
		return err
	}
	if c.APIStateDir != "" && !c.embedsAPI() {
		return fmt.Errorf("--api-state-dir is about the server of --embedded-api; a server of its own is told with `%s api --state-dir`", s.name)
	}
	if c.TokenEnv != "" {
		if _, err := apiToken(s.app, c.TokenEnv); err != nil {
			return err
		}
	}
	if _, err := client.New(client.Config{URL: cfg.Env.RolloutServerURL}); err != nil {
		return fmt.Errorf("env.rollout_server_url: %w", err)
	}
	if cfg.Env.AllowPlaceholderTokens || reportsTokens(cfg) {
		return nil
	}
	who := "agent " + cfg.Agent + " samples none"
	if cfg.Agent == config.AgentModel {
		who = "servers of the type " + cfg.Servers[0].ServerType + " report none"
	}
	return fmt.Errorf("a trainer needs the tokens that the model sampled, and %s: use a server of the type vllm, sglang or generate (openai.server_type); "+
		"for a trainer that tokenizes the conversations itself, env.allow_placeholder_tokens sends counting numbers in their place", who)
}

// reportsTokens says whether the rollouts of a configuration have exact tokens.
func reportsTokens(cfg *config.Resolved) bool {
	if cfg.Agent != config.AgentModel {
		return false
	}
	for _, server := range cfg.Servers {
		if !samplesTokens(server) {
			return false
		}
	}
	return len(cfg.Servers) > 0
}

// workerRun is one run of a worker from configuration to its end.
type workerRun struct {
	*job
	command  *serveCommand
	view     *servePrinter
	provider sandbox.Provider
	client   *modelClient
	store    *trajectories.Run
	worker   *serve.Worker
	api      *embeddedAPI // nil without --embedded-api

	modelReady chan struct{} // closed once client is set
}

func (w *workerRun) run(ctx context.Context, drain <-chan struct{}) (err error) {
	figures, err := w.listenMetrics(ctx)
	if err != nil {
		return fail(ExitUsage, err)
	}
	defer func() { err = errors.Join(err, figures.close()) }()
	if w.provider, err = w.newProvider(); err != nil {
		return fail(ExitSandbox, err)
	}
	defer func() { err = errors.Join(err, fail(ExitSandbox, closeProvider(w.provider))) }()
	if n, err := w.provider.Reap(ctx); err != nil {
		w.out.Warn(fmt.Sprintf("look for sandboxes of dead runs: %v", err))
	} else if n > 0 {
		w.out.Note(fmt.Sprintf("removed %d sandboxes that a dead run had left behind", n))
	}
	defer func() { err = errors.Join(err, w.closeEnvironment()) }()
	if err := w.environment.Setup(ctx); err != nil {
		return fail(ExitUsage, fmt.Errorf("set up environment %s: %w", w.cfg.Environment, err))
	}
	if err := w.selectItems(ctx); err != nil {
		return fail(ExitUsage, err)
	}
	if w.store, err = w.openWorkerStore(); err != nil {
		return err
	}
	for _, r := range w.store.Repairs() {
		w.out.Note("repaired " + r)
	}
	status := trajectories.StatusFailed
	defer func() { err = errors.Join(err, fail(ExitStore, w.store.Close(status))) }()
	w.warnOfMixture(w.store)
	if err := w.keepSkipped(w.store); err != nil {
		return fail(ExitStore, err)
	}
	url := w.cfg.Env.RolloutServerURL
	if w.command.embedsAPI() {
		if w.api, err = w.startAPI(ctx); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, fail(ExitStore, w.api.close())) }()
		url = w.api.url
	}
	summary, err := w.work(ctx, drain, url, figures)
	why := "environment " + w.cfg.Environment + " has no more items"
	if errors.Is(err, serve.ErrDone) {
		err, why = nil, "the trainer has all its steps"
	}
	err = w.conclude(summary, err)
	status = statusOf(err)
	if err == nil {
		w.out.Note(why)
	}
	switch {
	case err != nil && summary == nil:
		w.out.Note("go on from here with: " + w.resumeCommand(w.store.Dir()))
	case err != nil:
		w.out.Note(w.goOn(err, summary))
	}
	return err
}

// conclude writes down what came of the run and shows it.
func (w *workerRun) conclude(s *env.Summary, err error) error {
	uploading := w.metrics.finish(s)
	if s == nil {
		return err
	}
	if !errors.Is(err, env.ErrStore) {
		if failed := w.writeResults(w.store, s); failed != nil {
			err = errors.Join(err, fail(ExitStore, failed))
		}
	}
	if w.flags.JSON { // the summary is the last event
		w.offer(w.store.Dir(), uploading, s, err)
	}
	w.out.Summary(s, w.cfg)
	if !w.flags.JSON {
		w.offer(w.store.Dir(), uploading, s, err)
	}
	return err
}

// openWorkerStore creates the run directory, or takes it up again with --resume. As
// whoever starts workers has one command for the first start and for later ones, a
// directory that is not there yet is created then too.
func (w *workerRun) openWorkerStore() (*trajectories.Run, error) {
	if w.flags.Resume && w.flags.RunDir != "" {
		_, err := os.Stat(filepath.Join(w.flags.RunDir, "run.json"))
		if errors.Is(err, os.ErrNotExist) {
			flags := *w.flags
			flags.Resume = false
			fresh := *w.job
			fresh.flags = &flags
			return fresh.openStore()
		}
	}
	return w.openStore()
}

// work connects the model and the trainer and runs groups until there is no need of more.
func (w *workerRun) work(ctx context.Context, drain <-chan struct{}, url string, figures *metricsServer) (summary *env.Summary, err error) {
	w.out.Begin(w.cfg, w.store.Dir(), "trainer at "+url)
	if err := w.startWorker(drain, url); err != nil {
		w.out.End()
		return nil, err
	}
	w.worker.Start(ctx)
	stopView, stopGauges := w.view.follow(w.worker), w.showGauges(ctx, figures)
	defer func() {
		stopGauges()
		stopView()
		w.out.End()
	}()
	defer func() {
		if w.client != nil {
			err = errors.Join(err, w.client.close())
		}
	}()
	defer func() { err = w.finish(ctx, err) }() // with the model still there for an evaluation
	if w.client, err = w.awaitModel(ctx, drain); err != nil {
		return nil, err
	}
	close(w.modelReady)
	if s := w.worker.Status(); s.Registered {
		w.share(s.Queue.EnvWeight)
	}
	if err := w.worker.Ready(ctx); err != nil {
		return nil, workerFailure(err)
	}
	w.openMetrics(figures)
	groupsCtx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	again, err := outcomes(w.flags.Retry)
	if err != nil {
		return nil, fail(ExitUsage, err)
	}
	if err := w.store.Archive(trajectories.ArchiveConfig{
		SegmentBytes: int64(w.cfg.Env.RecordSegmentMB) << 20, MaxAge: w.cfg.Env.RecordKeepTime.Duration(), MaxBytes: int64(w.cfg.Env.RecordKeepMB) << 20,
	}); err != nil {
		return nil, fail(ExitStore, err)
	}
	var end *time.Timer
	runner, err := env.New(env.Options{
		Mode: config.Serve, Config: w.cfg.Env, Environment: w.environment, Agent: env.Agent(w.cfg.Agent),
		Model: w.client.client, ModelName: w.client.name, RawText: w.client.rawText, Sessions: w.client.sessions,
		GroupsInFlight: w.cfg.GroupsInFlight(), Provider: w.provider, Registry: w.registry, Store: w.store, Groups: w.worker, Prices: w.prices(),
		MaxSequenceTokens: w.worker.MaxSequenceTokens, ExactTokens: !w.cfg.Env.AllowPlaceholderTokens,
		Select: w.items.keep, RetryOutcomes: again, Observer: w.metrics.observe(w.out), Drain: drain, Ended: w.worker.Ended,
		Admit: func(ctx context.Context) error {
			err := w.worker.Admit(ctx)
			if errors.Is(err, serve.ErrDone) && end == nil {
				// Nobody waits for the groups under way any more.
				end = time.AfterFunc(w.cfg.Env.InterruptGrace.Duration(), func() { cancel(serve.ErrDone) })
			}
			return err
		},
	})
	if err != nil {
		return nil, fail(ExitUsage, err)
	}
	summary, err = runner.Run(groupsCtx)
	if end != nil {
		end.Stop()
	}
	if summary != nil {
		summary.Metrics = append(summary.Metrics, w.client.rateMetrics(summary, w.out)...)
	}
	return summary, workerFailure(err)
}

// startWorker opens the worker's spool.
func (w *workerRun) startWorker(drain <-chan struct{}, url string) error {
	c := w.cfg.Env
	api, err := client.New(client.Config{URL: url, Token: w.token(), Timeout: 2 * time.Minute})
	if err != nil {
		return fail(ExitUsage, fmt.Errorf("env.rollout_server_url: %w", err))
	}
	groups, err := w.openGroups(w.store)
	if err != nil {
		return fail(ExitStore, err)
	}
	settings := serve.Config{
		Client: api, Dir: w.store.Dir(), Name: cmp.Or(c.WandbName, w.cfg.Environment), MaxTokens: int64(c.MaxTokenLength), Weight: max(0, c.InferenceWeight),
		Throttle: serve.Throttle{
			GroupSize: c.GroupSize, MaxGroups: w.cfg.GroupsInFlight(), MaxBatches: c.MaxBatchesOffPolicy, MinAllocation: c.MinBatchAllocation,
			LastStep: int64(max(0, c.TotalSteps)), SpoolGroups: c.SpoolGroups, Handling: serve.Handling(c.EvalHandling), EvalRatio: c.EvalLimitRatio,
		},
		BatchSize: int64(max(0, c.BatchSize)), IncludeMessages: c.IncludeMessages, Placeholders: c.AllowPlaceholderTokens,
		EvalEvery: int64(c.StepsPerEval), EvalAtStart: c.EvalAtStart, Evaluate: w.evaluate, Weighed: w.share, Observer: w.view, Drain: drain,
	}
	if groups != nil {
		settings.GroupFile = groups
		w.view.atEnd(groups.Close)
	}
	if w.worker, err = serve.New(settings); err != nil {
		return fail(ExitStore, err)
	}
	if c.AllowPlaceholderTokens && !reportsTokens(w.cfg) {
		w.out.Warn("the groups carry counting numbers in place of tokens (env.allow_placeholder_tokens), marked placeholder_tokens in group_overrides: only a trainer that tokenizes the messages itself can use them")
	}
	return nil
}

// share takes this worker's part of the model servers, which the workers of a trainer
// have in common.
func (w *workerRun) share(weight float64) {
	select {
	case <-w.modelReady:
		if w.client.share != nil {
			w.client.share(weight)
		}
	default: // as soon as they are connected
	}
}

// token is what the API server asks for, "" when it asks for nothing. It has been checked.
func (w *workerRun) token() string {
	if w.command.TokenEnv == "" {
		return ""
	}
	token, err := apiToken(w.app, w.command.TokenEnv)
	if err != nil {
		return ""
	}
	return token
}

// mayComeLater says whether a model server that can't be used now may be there later.
func mayComeLater(err error) bool {
	var e *model.Error
	return errors.As(err, &e) && e.Retryable()
}

// awaitModel connects to the model servers. Trainers start theirs when they please, so
// that one which isn't there yet is waited for.
func (w *workerRun) awaitModel(ctx context.Context, drain <-chan struct{}) (*modelClient, error) {
	const pause = 5 * time.Second
	said := ""
	for {
		m, err := w.startModel(ctx)
		switch {
		case err == nil:
			return m, nil
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case !mayComeLater(err):
			return nil, fail(ExitModel, err)
		}
		if text := err.Error(); text != said {
			said = text
			w.out.Warn("waiting for the model server: " + oneLine(text, 300))
		}
		select {
		case <-time.After(pause):
		case <-drain:
			return nil, env.ErrInterrupted
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// finish sends what is left, as long as that is wanted, and ends the worker.
func (w *workerRun) finish(ctx context.Context, cause error) error {
	limit := ctx
	if cause != nil && !errors.Is(cause, serve.ErrDone) && !errors.Is(cause, env.ErrInterrupted) {
		var cancel context.CancelFunc
		limit, cancel = context.WithTimeout(ctx, w.cfg.Env.InterruptGrace.Duration())
		defer cancel()
	}
	if w.api != nil && errors.Is(cause, serve.ErrDone) {
		w.api.awaitDelivery(ctx, w.token(), w.out)
	}
	err := w.worker.Finish(limit)
	if n := w.worker.Status().Spooled; n > 0 {
		w.out.Note(fmt.Sprintf("%d finished groups could not be sent; they are kept in %s and sent when the worker is started again", n, filepath.Join(w.store.Dir(), "spool")))
	}
	if err != nil && cause == nil {
		return workerFailure(err)
	}
	return cause
}

// workerFailure gives what ends a worker its exit code.
func workerFailure(err error) error {
	switch {
	case err == nil, errors.Is(err, serve.ErrDone), errors.Is(err, env.ErrInterrupted):
		return err
	case errors.Is(err, serve.ErrUnauthorized), errors.Is(err, serve.ErrGroupTooLarge):
		return fail(ExitUsage, err)
	case errors.Is(err, serve.ErrSpool):
		return fail(ExitStore, err)
	}
	return err
}
