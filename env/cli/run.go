package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kong"
	"golang.org/x/term"

	"github.com/hermes-env/hermes-env/env"
	"github.com/hermes-env/hermes-env/env/config"
	"github.com/hermes-env/hermes-env/env/validation"
	"github.com/hermes-env/hermes-env/parsers"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
	"github.com/hermes-env/hermes-env/toolcontext/tools"
	"github.com/hermes-env/hermes-env/trajectories"
)

// clock returns the current time; tests replace it.
type clock func() time.Time

// configFlagSet is what every command that reads a configuration shares.
type configFlagSet struct {
	File             string `name:"config" short:"c" placeholder:"FILE" help:"YAML configuration file."`
	Environment      string `name:"environment" placeholder:"NAME" help:"Environment to run, in place of the file's."`
	Agent            string `name:"agent" placeholder:"NAME" help:"Who acts: model, oracle (the reference solutions) or nop (nobody). A sound environment scores 1 with oracle and 0 with nop."`
	Limit            *int   `name:"limit" placeholder:"N" help:"Take the first N items only (env.max_items)."`
	Sample           *int   `name:"sample" placeholder:"N" help:"Take N items only, drawn at random by env.seed (env.sample_items)."`
	AllowUnsupported bool   `name:"allow-unsupported" help:"Warn about fields of the original framework that do nothing here, instead of refusing them."`
	kong.Plugins

	flags    *configFlags
	recorded []byte // the configuration of the run in File, which is not typed then
	// recordedFlags are the flags recorded beside it.
	recordedFlags map[string]string
}

// load resolves the configuration; more are flags that the command itself sets.
func (f *configFlagSet) load(s *session, mode config.Mode, withoutKeys bool, more ...config.Flag) (*config.Resolved, error) {
	flags := append(f.given(), more...)
	if f.Environment != "" {
		flags = append(flags, config.Flag{Name: "environment", Value: f.Environment})
	}
	if f.Agent != "" {
		flags = append(flags, config.Flag{Name: "agent", Value: f.Agent})
	}
	return config.Load(config.Options{
		Mode:             mode,
		File:             f.File,
		Text:             f.recorded,
		Recorded:         f.recorded != nil,
		Flags:            flags,
		Environments:     s.app.configEnvironments(),
		Parsers:          parsers.Names(),
		AbsentParsers:    parsers.Absent(),
		ServerTypes:      serverTypes(),
		EmbeddedServers:  []string{replayScheme},
		Backends:         backends(),
		LookupEnv:        s.app.Getenv,
		WithoutKeys:      withoutKeys,
		AllowUnsupported: f.AllowUnsupported,
	})
}

// given are the fields that flags set, those with a short flag of their own included.
func (f *configFlagSet) given() []config.Flag {
	flags := f.flags.given()
	if f.Limit != nil {
		flags = append(flags, config.Flag{Name: "env.max_items", Value: strconv.Itoa(*f.Limit)})
	}
	if f.Sample != nil {
		flags = append(flags, config.Flag{Name: "env.sample_items", Value: strconv.Itoa(*f.Sample)})
	}
	return flags
}

// runFlags are the flags of the commands that run rollouts.
type runFlags struct {
	RunDir            string     `name:"run-dir" placeholder:"DIR" help:"Directory for the results [runs/<environment>-<time>]."`
	ResumeDir         resumeFlag `name:"resume" placeholder:"DIR" help:"Go on with the run in DIR, or in --run-dir: finished rollouts are kept, failed and missing ones run. Without --config and --environment the run's own configuration is taken, and flags change it."`
	Resume            bool       `kong:"-"`
	begin             bool       // with Resume: the directory has no run yet
	AllowConfigChange bool       `name:"allow-config-change" help:"With --resume: go on although settings changed that can affect results. The run is marked as mixed from both."`
	AllowMissing      bool       `name:"allow-missing-rollouts" help:"With --resume: go on although finished rollouts are gone from rollouts.jsonl. They run again."`
	Retry             []string   `name:"retry-outcome" placeholder:"OUTCOME" help:"With --resume: run again just the rollouts that ended so (sandbox_error, model_error, verifier_error, environment_error, …; several with commas), in place of those that had no fair try [model_error,sandbox_error,cancelled]. Missing ones run in any case."`
	DryRun            bool       `name:"dry-run" help:"Say what would run, and run nothing."`
	JSON              bool       `name:"json" help:"Write events and the summary to standard output as JSON, one object per line."`
	MetricsListen     string     `name:"metrics-listen" placeholder:"ADDRESS" help:"Let Prometheus fetch the run's figures at /metrics of this address while it goes on, such as 127.0.0.1:9464; a port alone is on the loopback interface."`
	profileFlags
	configFlagSet
}

// checkAllowed finds flags about an earlier session beside a run that begins.
func (f *runFlags) checkAllowed() error {
	switch {
	case f.Resume:
		return nil
	case f.AllowConfigChange:
		return errors.New("--allow-config-change acts on an earlier session: add --resume and --run-dir")
	case f.AllowMissing:
		return errors.New("--allow-missing-rollouts acts on an earlier session: add --resume and --run-dir")
	}
	return nil
}

type evaluateCommand struct {
	runFlags
	FailUnder *float64 `name:"fail-under" placeholder:"SCORE" help:"End with exit code 1 when the mean score is below SCORE."`
}

type processCommand struct {
	runFlags
}

// Run runs the command.
func (c *evaluateCommand) Run(s *session) error {
	return s.execute(&c.runFlags, config.Evaluate, c.FailUnder)
}

// Run runs the command.
func (c *processCommand) Run(s *session) error { return s.execute(&c.runFlags, config.Process, nil) }

// job is one run from configuration to summary.
type job struct {
	*session
	flags       *runFlags
	mode        config.Mode
	cfg         *config.Resolved
	definition  env.Definition
	environment env.Environment
	registry    *tools.Registry
	items       itemSelection
	skipped     []validation.Verdict // on the items left out
	rescoring   *rescoring           // where the rollouts come from that are scored again; nil in other runs
	agent       env.Agent            // in place of the configuration's; "" leaves it
	// forgeriesPlanned is how many forgeries the items have together, for env.AgentForger.
	forgeriesPlanned int
	out              printer
	// launch are the flags given beside those of the configuration that the next session
	// needs too.
	launch  []launchFlag
	metrics *runMetrics // nil in runs whose figures nobody watches
}

func (s *session) execute(flags *runFlags, mode config.Mode, failUnder *float64) error {
	if _, err := outcomes(flags.Retry); err != nil {
		return fail(ExitUsage, err)
	}
	if err := flags.settle(mode); err != nil {
		return fail(ExitUsage, err)
	}
	cfg, err := flags.load(s, mode, false)
	if err != nil {
		return fail(ExitUsage, err)
	}
	if len(flags.Retry) > 0 && !flags.Resume {
		return fail(ExitUsage, errors.New("--retry-outcome acts on an earlier session: add --resume and --run-dir"))
	}
	if err := flags.checkAllowed(); err != nil {
		return fail(ExitUsage, err)
	}
	j := &job{session: s, flags: flags, mode: mode, cfg: cfg}
	if failUnder != nil {
		j.launch = append(j.launch, launchFlag{name: "fail-under", value: strconv.FormatFloat(*failUnder, 'g', -1, 64)})
	}
	if flags.MetricsListen != "" {
		j.launch = append(j.launch, launchFlag{name: "metrics-listen", value: flags.MetricsListen})
	}
	j.out = s.newPrinter(flags.JSON)
	j.metrics = newRunMetrics(cfg, s.app.now, j.out.Warn)
	for _, w := range cfg.Warnings {
		j.out.Warn(w)
	}
	if err := j.build(); err != nil {
		return fail(ExitUsage, err)
	}
	if flags.DryRun {
		return j.describe()
	}
	ctx, drain, release := interruptible(s.ctx, s.app.Signals, cfg.Env.InterruptGrace.Duration(), j.out)
	defer release()
	return j.run(ctx, drain, failUnder)
}

// build makes the environment and its tools, and checks what can be checked
// before anything starts.
func (j *job) build() error {
	var err error
	if j.definition, err = j.app.definition(j.cfg.Environment); err != nil {
		return err
	}
	if j.environment, err = j.definition.New(j.cfg.Env, j.cfg.Own); err != nil {
		return fmt.Errorf("environment %s: %w", j.cfg.Environment, err)
	}
	list := tools.Builtin()
	if p, ok := j.environment.(env.ToolProvider); ok {
		list = append(list, p.Tools()...)
	}
	if j.registry, err = tools.NewRegistry(list...); err != nil {
		return fmt.Errorf("tools of environment %s: %w", j.cfg.Environment, err)
	}
	return j.registry.Check(j.selection())
}

// closeEnvironment ends what the environment has started.
func (j *job) closeEnvironment() error {
	c, ok := j.environment.(env.Closer)
	if !ok {
		return nil
	}
	if err := c.Close(); err != nil {
		return fmt.Errorf("close environment %s: %w", j.cfg.Environment, err)
	}
	return nil
}

// selection is the choice of tools that the configuration makes.
func (j *job) selection() tools.Selection {
	c := j.cfg.Env
	return tools.Selection{Enabled: c.EnabledToolsets, Disabled: c.DisabledToolsets, Distribution: c.Distribution}
}

func (j *job) run(ctx context.Context, drain <-chan struct{}, failUnder *float64) (err error) {
	figures, err := j.listenMetrics(ctx)
	if err != nil {
		return fail(ExitUsage, err)
	}
	defer func() { err = errors.Join(err, figures.close()) }()
	provider, err := j.newProvider()
	if err != nil {
		return fail(ExitSandbox, err)
	}
	defer func() { err = errors.Join(err, fail(ExitSandbox, closeProvider(provider))) }()
	if n, err := provider.Reap(ctx); err != nil {
		j.out.Warn(fmt.Sprintf("look for sandboxes of dead runs: %v", err))
	} else if n > 0 {
		j.out.Note(fmt.Sprintf("removed %d sandboxes that a dead run had left behind", n))
	}
	client, err := j.startModel(ctx)
	if err != nil {
		return fail(ExitModel, err)
	}
	defer func() { err = errors.Join(err, client.close()) }()
	defer func() { err = errors.Join(err, j.closeEnvironment()) }()
	if err := j.environment.Setup(ctx); err != nil {
		return fail(ExitUsage, fmt.Errorf("set up environment %s: %w", j.cfg.Environment, err))
	}
	if err := j.selectItems(ctx); err != nil {
		return fail(ExitUsage, err)
	}
	if j.rescoring != nil {
		if err := j.rescoring.choose(ctx, j); err != nil {
			return fail(ExitUsage, err)
		}
	}
	store, err := j.openStore()
	if err != nil {
		return err
	}
	for _, r := range store.Repairs() {
		j.out.Note("repaired " + r)
	}
	j.warnOfMixture(store)
	if err := j.keepSkipped(store); err != nil {
		return errors.Join(fail(ExitStore, err), store.Close(trajectories.StatusFailed))
	}
	j.metrics.open(store.Dir(), wandbNames{}, figures.sink())
	summary, runErr := j.runIn(ctx, drain, store, provider, client)
	uploading := j.metrics.finish(summary)
	status := statusOf(runErr)
	if summary != nil && !errors.Is(runErr, env.ErrStore) {
		if err := j.writeResults(store, summary); err != nil {
			runErr = errors.Join(runErr, fail(ExitStore, err))
			status = trajectories.StatusFailed
		}
	}
	// A store that failed before says so again when it is closed.
	if err := store.Close(status); err != nil && !errors.Is(runErr, env.ErrStore) {
		runErr = errors.Join(runErr, fail(ExitStore, err))
	}
	if summary == nil {
		return runErr
	}
	if j.flags.JSON { // the summary is the last event
		j.offer(store.Dir(), uploading, summary, runErr)
	}
	j.out.Summary(summary, j.cfg)
	if !j.flags.JSON {
		j.offer(store.Dir(), uploading, summary, runErr)
	}
	if runErr != nil {
		j.out.Note(j.goOn(runErr, summary))
		return runErr
	}
	return j.verdict(summary, failUnder)
}

func (j *job) runIn(ctx context.Context, drain <-chan struct{}, store *trajectories.Run, provider sandbox.Provider, client *modelClient) (*env.Summary, error) {
	groups, err := j.openGroups(store)
	if err != nil {
		return nil, fail(ExitStore, err)
	}
	again, err := outcomes(j.flags.Retry)
	if err != nil {
		return nil, fail(ExitUsage, err)
	}
	agent, stored, storedPlanned := env.Agent(j.cfg.Agent), (func(trajectories.Key) *trajectories.Rollout)(nil), 0
	if j.agent != "" {
		agent = j.agent
	}
	if j.rescoring != nil {
		agent, stored, storedPlanned = env.AgentStored, j.rescoring.stored, len(j.rescoring.entries)
		client = &modelClient{name: j.rescoring.model}
	}
	var sink env.GroupSink
	if groups != nil {
		sink = groups
	}
	runner, err := env.New(env.Options{
		Mode: j.mode, Config: j.cfg.Env, Environment: j.environment, Agent: agent, Stored: stored, StoredPlanned: storedPlanned, ForgeriesPlanned: j.forgeriesPlanned,
		Model: client.client, ModelName: client.name, RawText: client.rawText, Sessions: client.sessions, GroupsInFlight: j.cfg.GroupsInFlight(),
		Provider: provider, Registry: j.registry, Store: store, Groups: sink, Prices: j.prices(),
		Select: j.items.keep, Selected: j.items.size, RetryOutcomes: again,
		Observer: j.metrics.observe(j.out), Ended: j.metrics.ended, Drain: drain,
	})
	if err != nil {
		return nil, fail(ExitUsage, err)
	}
	j.out.Begin(j.cfg, store.Dir(), client.describe())
	j.warnOfDeviations()
	summary, err := runner.Run(ctx)
	j.out.End()
	if summary != nil {
		summary.Metrics = append(summary.Metrics, client.rateMetrics(summary, j.out)...)
	}
	if len(j.skipped) > 0 && summary != nil {
		summary.Metrics = append(summary.Metrics, env.Metric{Name: "eval/skipped_unsound_items", Value: float64(len(j.skipped))})
	}
	if groups != nil {
		err = errors.Join(err, fail(ExitStore, groups.Close()))
	}
	return summary, err
}

// verdict turns a finished run into success or exit code 1.
func (j *job) verdict(s *env.Summary, failUnder *float64) error {
	unscored, allowed := s.Unscored(), j.cfg.Env.MaxUnscored
	switch {
	case unscored > allowed && s.Score.N == 0 && s.Outcomes[trajectories.OutcomeModelError] == s.Rollouts:
		return fail(ExitModel, fmt.Errorf("%w: none of the %d rollouts could be run; see the errors in %s", env.ErrEndpoint, s.Rollouts, filepath.Join(s.Dir, "rollouts.jsonl")))
	case unscored > allowed && s.Score.N == 0 && s.Outcomes[trajectories.OutcomeSandboxError] == s.Rollouts:
		return fail(ExitSandbox, fmt.Errorf("%w: none of the %d rollouts could be run; see the errors in %s", env.ErrSandbox, s.Rollouts, filepath.Join(s.Dir, "rollouts.jsonl")))
	case unscored > allowed:
		return fail(ExitBelow, fmt.Errorf("%.1f %% of the rollouts have no score, more than the %.1f %% of env.max_unscored: don't trust the headline%s",
			100*unscored, 100*allowed, j.unscoredAdvice(s)))
	case failUnder != nil && !(s.Score.Mean >= *failUnder):
		return fail(ExitBelow, fmt.Errorf("the mean score %.4f is below --fail-under %g", s.Score.Mean, *failUnder))
	}
	return nil
}

// resumeCommand is what a user types to go on; flags ("--name=value") replace those given.
func (j *job) resumeCommand(dir string, flags ...string) string {
	program := j.app.Command
	if program == "" {
		program = j.name
	}
	words := j.flags.words()
	for _, f := range j.launch {
		words = append(words, f.word())
	}
	given := replaceFlags(words, flags)
	parts := append([]string{program, string(j.mode)}, given...)
	if j.rescoring != nil {
		parts = append([]string{program, "rescore", shellWord(j.rescoring.reader.Dir())}, given...)
	}
	return strings.Join(append(parts, "--run-dir", shellWord(dir), "--resume"), " ")
}

// unscoredAdvice says what can be done about the rollouts without a score. Those whose agent
// tampered with the verification are not run again: that would only replace them by luckier ones.
func (j *job) unscoredAdvice(s *env.Summary) string {
	var advice string
	failed := maps.Clone(s.Outcomes)
	if n := s.Tampering.Unscored; n > 0 {
		failed[trajectories.OutcomeVerifierError] -= n
		advice = fmt.Sprintf("; in %d of them the agent tampered with the verification (env.on_tampering zero scores such rollouts 0)", n)
	}
	for o, n := range failed {
		if n > 0 && !o.Scored() {
			return advice + fmt.Sprintf("; %s runs the failed ones again%s", j.resumeCommand(s.Dir)+retryWords(failed), cutOffWords(s))
		}
	}
	if words := cutOffWords(s); words != "" {
		return advice + "; " + j.resumeCommand(s.Dir) + " runs the failed ones again" + words
	}
	return advice
}

// retryWords is the flag that has every unscored rollout run again, empty where a
// resumed run does so by itself.
func retryWords(outcomes map[trajectories.Outcome]int) string {
	var unscored []string
	byItself := true
	for _, o := range trajectories.Outcomes() {
		if outcomes[o] > 0 && !o.Scored() {
			unscored = append(unscored, string(o))
			byItself = byItself && o.Retryable()
		}
	}
	if byItself {
		return ""
	}
	return " --retry-outcome " + strings.Join(unscored, ",")
}

// cutOffWords tell of rollouts without a score that no resumed run tries again, since a
// limit ended them, as that of their group's time does.
func cutOffWords(s *env.Summary) string {
	n := -s.Score.N
	for o, count := range s.Outcomes {
		if o.Scored() {
			n += count
		}
	}
	if n <= 0 {
		return ""
	}
	return fmt.Sprintf(", but for %d that a limit such as env.worker_timeout cut off: --retry-outcome limit runs all of that outcome again", n)
}

// words are the flags as a user typed them, without secrets.
func (f *configFlagSet) words() []string {
	var parts []string
	if f.File != "" && f.recorded == nil {
		parts = append(parts, "--config", shellWord(f.File))
	}
	if f.Environment != "" {
		parts = append(parts, "--environment", shellWord(f.Environment))
	}
	if f.Agent != "" {
		parts = append(parts, "--agent", shellWord(f.Agent))
	}
	for _, given := range f.given() {
		if given.Name == "openai.api_key" {
			parts = append(parts, "--openai.api_key=…")
			continue
		}
		parts = append(parts, "--"+given.Name+"="+shellWord(given.Value))
	}
	return parts
}

func shellWord(s string) string {
	if s != "" && !strings.ContainsAny(s, " \t\n\"'\\$&|;<>()*?[]{}~#`!") {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// openStore creates the run directory or takes it up again.
func (j *job) openStore() (*trajectories.Run, error) {
	toolset, err := j.registry.Definitions(j.registry.Names()...)
	if err != nil {
		return nil, fail(ExitUsage, err)
	}
	info := trajectories.Info{
		Command: string(j.mode), Environment: j.cfg.Environment,
		Config: j.cfg.CanonicalJSON(), ConfigDigest: j.cfg.Digest, Affecting: j.cfg.AffectingJSON(), Defaults: j.cfg.DefaultsJSON(), Upgrade: j.cfg.Upgrade,
		Version: Version(), Seeds: map[string]int64{"run": j.cfg.Env.Seed}, Tools: toolset, Flags: recordedFlags(j.launch),
	}
	if j.rescoring != nil {
		info.RescoredFrom = j.rescoring.reader.Dir()
	}
	if err := j.describeItems(&info); err != nil {
		return nil, fail(ExitUsage, err)
	}
	if j.flags.Resume && !j.flags.begin {
		dir := j.flags.RunDir
		if dir == "" {
			return nil, fail(ExitUsage, errors.New("--resume needs the run to go on with: --resume DIR, or add --run-dir DIR"+newestRun(j.cfg.Environment)))
		}
		info.AllowConfigChange, info.AllowMissing = j.flags.AllowConfigChange, j.flags.AllowMissing
		store, err := trajectories.Resume(dir, info)
		return store, storeFailure(err)
	}
	if dir := j.flags.RunDir; dir != "" {
		store, err := trajectories.Create(dir, info)
		return store, storeFailure(err)
	}
	now := time.Now
	if j.app.Now != nil {
		now = j.app.Now
	}
	base := filepath.Join("runs", j.cfg.Environment+"-"+now().Format("20060102-150405"))
	for n := 1; ; n++ {
		dir := base
		if n > 1 {
			dir = fmt.Sprintf("%s-%d", base, n)
		}
		store, err := trajectories.Create(dir, info)
		if errors.Is(err, trajectories.ErrExists) || errors.Is(err, trajectories.ErrLocked) || errors.Is(err, trajectories.ErrNotRun) {
			continue // another run began in the same second
		}
		return store, storeFailure(err)
	}
}

// storeFailure sorts what is the user's to change from a disk that refuses.
func storeFailure(err error) error {
	for _, usage := range []error{trajectories.ErrExists, trajectories.ErrLocked, trajectories.ErrNotRun, trajectories.ErrConfigChanged, trajectories.ErrCorrupt} {
		if errors.Is(err, usage) {
			return fail(ExitUsage, err)
		}
	}
	return fail(ExitStore, err)
}

// openGroups opens the group file when the configuration names one.
func (j *job) openGroups(store *trajectories.Run) (*trajectories.GroupWriter, error) {
	path := j.cfg.Env.DataPathToSaveGroups
	if j.mode == config.Evaluate || path == "" {
		return nil, nil
	}
	groups, err := store.OpenGroups(trajectories.GroupConfig{Path: path, IncludeMessages: j.cfg.Env.IncludeMessages})
	if err != nil {
		return nil, err
	}
	if absolute, err := filepath.Abs(path); err != nil || groups.Path() != absolute {
		j.out.Note("groups go to " + groups.Path() + ", because " + path + " exists")
	}
	return groups, nil
}

func closeProvider(p sandbox.Provider) error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := p.Close(ctx); err != nil {
		return fmt.Errorf("close the sandboxes: %w", err)
	}
	return nil
}

func isTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }
