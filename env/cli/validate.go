package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"github.com/hermes-env/hermes-env/env"
	"github.com/hermes-env/hermes-env/env/config"
	"github.com/hermes-env/hermes-env/env/validation"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
	"github.com/hermes-env/hermes-env/trajectories"
)

type validateCommand struct {
	Repeat       int        `name:"repeat" default:"-1" placeholder:"K" help:"Attempts of each agent at each item; with several, results that differ are found [1]."`
	RunDir       string     `name:"run-dir" placeholder:"DIR" help:"Directory for the rollouts and verdicts [runs/validate-<environment>-<time>]."`
	ResumeDir    resumeFlag `name:"resume" placeholder:"DIR" help:"Go on with the validation in DIR, or in --run-dir: only what is missing runs. Without --config and --environment its own configuration is taken."`
	Resume       bool       `kong:"-"`
	AllowMissing bool       `name:"allow-missing-rollouts" help:"With --resume: go on although finished rollouts are gone from rollouts.jsonl. They run again."`
	Adversarial  bool       `name:"adversarial" help:"Also try to get rewards without the work, with every forgery that the environment knows: an item where one passes is not sound."`
	Strict       bool       `name:"strict" help:"Count items without a reference solution as not sound."`
	JSON         bool       `name:"json" help:"Write events and the verdicts to standard output as JSON, one object per line."`
	configFlagSet
	profileFlags
}

// Run runs the command.
func (c *validateCommand) Run(s *session) (err error) {
	if err := c.settle(); err != nil {
		return fail(ExitUsage, err)
	}
	if err := c.check(); err != nil {
		return fail(ExitUsage, err)
	}
	v := &validationRun{session: s, command: c, out: s.newPrinter(c.JSON)}
	oracle, err := v.phase(env.AgentOracle)
	if err != nil {
		return fail(ExitUsage, err)
	}
	nop, err := v.phase(env.AgentNop)
	if err != nil {
		return fail(ExitUsage, err)
	}
	all := phases{oracle: oracle, nop: nop}
	if c.Adversarial {
		if all.forger, err = v.forgerPhase(); err != nil {
			return fail(ExitUsage, err)
		}
	}
	if err := v.openDir(oracle.cfg.Environment); err != nil {
		return fail(ExitUsage, err)
	}
	ctx, drain, release := interruptible(s.ctx, s.app.Signals, oracle.cfg.Env.InterruptGrace.Duration(), v.out)
	defer release()
	defer func() {
		for _, p := range all.list() {
			err = errors.Join(err, p.closeEnvironment())
		}
	}()
	return v.run(ctx, drain, all)
}

// settle makes one directory of --resume and --run-dir, and takes what flags don't say
// from the validation that is resumed.
func (c *validateCommand) settle() (err error) {
	if c.RunDir, err = c.ResumeDir.runDir(c.RunDir); err != nil {
		return err
	}
	c.Resume = c.ResumeDir.set
	if nop := filepath.Join(c.RunDir, string(env.AgentNop)); c.Resume && c.RunDir != "" && hasRun(nop) {
		if err := c.takeRecorded(nop, ""); err != nil {
			return err
		}
		if c.recorded != nil && c.Repeat < 0 {
			c.Repeat = int(gjson.GetBytes(c.recorded, "env.attempts").Int())
		}
		c.Adversarial = c.Adversarial || c.recorded != nil && hasRun(filepath.Join(c.RunDir, string(env.AgentForger)))
	}
	if c.Repeat < 0 {
		c.Repeat = 1
	}
	return nil
}

func (c *validateCommand) check() error {
	switch {
	case c.Repeat < 1:
		return fmt.Errorf("--repeat %d: at least one attempt is needed", c.Repeat)
	case c.Agent != "":
		return fmt.Errorf("--agent %s: validate runs the agents oracle and nop, one after the other; leave the flag out", c.Agent)
	case c.Resume && c.RunDir == "":
		return errors.New("--resume needs the validation to go on with: --resume DIR, or add --run-dir DIR")
	}
	for _, f := range c.flags.given() {
		if f.Name == "env.attempts" {
			return errors.New("--env.attempts: validate makes --repeat attempts; use that")
		}
	}
	return nil
}

// validationRun is one validation from configuration to verdicts.
type validationRun struct {
	*session
	command *validateCommand
	dir     string
	out     printer
	items   []listed
	shared  bool // one environment serves all phases
}

// listed is an item of the validated set, without its content.
type listed struct {
	id, digest string
	solvable   bool // there is a reference solution
	forgeries  int
}

// phase is the part of a validation that one agent does: an evaluation of its own,
// in a run directory below that of the validation.
type phase struct {
	*job
	agent  env.Agent
	ready  bool              // the environment is set up
	store  *trajectories.Run // nil until the phase begins
	status trajectories.Status
}

// phase resolves the configuration for one agent.
func (v *validationRun) phase(agent env.Agent) (*phase, error) {
	flags := &runFlags{JSON: v.command.JSON, AllowMissing: v.command.AllowMissing, configFlagSet: v.command.configFlagSet}
	if flags.Agent = string(agent); agent == env.AgentForger {
		flags.Agent = config.AgentNop // what a configuration has for agents without a model
	}
	cfg, err := flags.load(v.session, config.Evaluate, false, config.Flag{Name: "env.attempts", Value: strconv.Itoa(v.command.Repeat)})
	if err != nil {
		return nil, err
	}
	cfg.Env.DataDirToSaveEvals = "" // these are no results of an evaluation
	cfg.Env.SkipUnsound = false
	if agent == env.AgentOracle {
		for _, w := range cfg.Warnings {
			v.out.Warn(w)
		}
	}
	p := &phase{job: &job{session: v.session, flags: flags, mode: config.Evaluate, cfg: cfg, out: v.out, agent: agent}, agent: agent}
	return p, p.build()
}

// openDir decides on the directory of the validation. It must be new, or hold a
// validation when one is to be gone on with.
func (v *validationRun) openDir(environment string) error {
	dir := v.command.RunDir
	if dir == "" {
		now := time.Now
		if v.app.Now != nil {
			now = v.app.Now
		}
		base := filepath.Join("runs", "validate-"+environment+"-"+now().Format("20060102-150405"))
		v.dir = base
		for n := 2; ; n++ {
			if _, err := os.Lstat(v.dir); err != nil {
				return nil
			}
			v.dir = fmt.Sprintf("%s-%d", base, n)
		}
	}
	v.dir = dir
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("validate in %s: %w", dir, err)
	}
	begun := v.begun(env.AgentOracle) || v.begun(env.AgentNop)
	switch {
	case v.command.Resume && !begun:
		return fmt.Errorf("%s holds no validation: start it without --resume, or check --run-dir", dir)
	case !v.command.Resume && begun:
		return fmt.Errorf("%s holds a validation: add --resume to go on with it, or choose another directory with --run-dir", dir)
	case !v.command.Resume && len(entries) > 0:
		return fmt.Errorf("%s is not empty (it holds %s): choose another directory with --run-dir", dir, entries[0].Name())
	}
	return nil
}

func (v *validationRun) phaseDir(agent env.Agent) string { return filepath.Join(v.dir, string(agent)) }

func (v *validationRun) begun(agent env.Agent) bool {
	_, err := os.Stat(filepath.Join(v.phaseDir(agent), "run.json"))
	return err == nil
}

func (v *validationRun) run(ctx context.Context, drain <-chan struct{}, all phases) (err error) {
	provider, err := all.oracle.newProvider()
	if err != nil {
		return fail(ExitSandbox, err)
	}
	defer func() { err = errors.Join(err, fail(ExitSandbox, closeProvider(provider))) }()
	if n, err := provider.Reap(ctx); err != nil {
		v.out.Warn(fmt.Sprintf("look for sandboxes of dead runs: %v", err))
	} else if n > 0 {
		v.out.Note(fmt.Sprintf("removed %d sandboxes that a dead run had left behind", n))
	}
	defer func() { err = errors.Join(err, fail(ExitStore, v.closeEnvironments(all))) }()
	if err := v.list(ctx, all); err != nil {
		return fail(ExitUsage, err)
	}
	phases := all.list()
	if v.solvable() == 0 {
		v.out.Note("there are no reference solutions: only doing nothing is tried")
		phases = phases[1:]
	}
	var runErr error
	for _, p := range phases {
		if runErr = v.runPhase(ctx, drain, p, provider); runErr != nil {
			break
		}
	}
	report, judgeErr := v.judge(all)
	for _, p := range phases {
		if p.store != nil {
			runErr = errors.Join(runErr, fail(ExitStore, p.store.Close(p.status)))
		}
	}
	if judgeErr != nil {
		return errors.Join(runErr, fail(ExitStore, judgeErr))
	}
	v.print(report)
	if runErr != nil {
		v.out.Note("go on from here with: " + v.resumeCommand())
		return runErr
	}
	return v.verdict(report)
}

// list finds out what items there are. An environment with a held-out set then
// serves all phases; another one is made anew for each, because listing took its
// items.
func (v *validationRun) list(ctx context.Context, all phases) error {
	oracle := all.oracle
	e := oracle.environment
	if err := e.Setup(ctx); err != nil {
		return fmt.Errorf("set up environment %s: %w", oracle.cfg.Environment, err)
	}
	for item, err := range env.EvalItems(ctx, e, env.SubsetOf(oracle.cfg.Env)) {
		if err != nil {
			return err
		}
		v.items = append(v.items, listed{item.ID, item.Digest, env.HasSolution(e, item), all.forgeries(item)})
	}
	if len(v.items) == 0 {
		return fmt.Errorf("environment %s has no items to validate", oracle.cfg.Environment)
	}
	if _, ok := e.(env.Evaluator); ok {
		v.shared = true
		for _, p := range all.list() {
			p.environment, p.ready = e, true
		}
		return nil
	}
	if c, ok := e.(io.Closer); ok {
		if err := c.Close(); err != nil {
			return err
		}
	}
	return oracle.build()
}

// closeEnvironments gives up what the environments of the phases hold.
func (v *validationRun) closeEnvironments(all phases) error {
	var errs []error
	for _, p := range all.list() {
		if c, ok := p.environment.(io.Closer); ok && (p == all.oracle || !v.shared) {
			errs = append(errs, c.Close())
		}
	}
	return errors.Join(errs...)
}

// solvable returns how many items have a reference solution.
func (v *validationRun) solvable() int {
	n := 0
	for _, item := range v.items {
		if item.solvable {
			n++
		}
	}
	return n
}

// runPhase lets one agent try every item that is for it.
func (v *validationRun) runPhase(ctx context.Context, drain <-chan struct{}, p *phase, provider sandbox.Provider) error {
	if !p.ready {
		if err := p.environment.Setup(ctx); err != nil {
			return fail(ExitUsage, fmt.Errorf("set up environment %s: %w", p.cfg.Environment, err))
		}
	}
	if p.agent == env.AgentForger {
		p.cfg.Env.Attempts, p.forgeriesPlanned = v.forgeries()
	}
	p.flags.RunDir, p.flags.Resume = v.phaseDir(p.agent), v.begun(p.agent)
	store, err := p.openStore()
	if err != nil {
		return err
	}
	for _, r := range store.Repairs() {
		v.out.Note("repaired " + r)
	}
	p.store, p.status = store, trajectories.StatusFailed
	if solvable := v.solvable(); p.agent == env.AgentOracle && solvable < len(v.items) {
		p.items = itemSelection{size: solvable, keep: func(item env.Item) bool { return env.HasSolution(p.environment, item) }}
	}
	summary, err := p.runIn(ctx, drain, store, provider, &modelClient{name: "agent " + string(p.agent)})
	switch {
	case err == nil:
		p.status = trajectories.StatusDone
	case errors.Is(err, env.ErrInterrupted):
		p.status = trajectories.StatusInterrupted
	}
	if summary != nil && !errors.Is(err, env.ErrStore) {
		err = errors.Join(err, fail(ExitStore, p.writeResults(store, summary)))
	}
	return err
}

// judge makes a verdict of what was recorded for each item, and keeps the verdicts.
func (v *validationRun) judge(all phases) (*validationReport, error) {
	oracle, nop := all.oracle, all.nop
	report := &validationReport{RunDir: v.dir, Environment: nop.cfg.Environment, Repeats: v.command.Repeat}
	var entries []trajectories.Entry
	if nop.store != nil {
		entries = nop.store.Entries()
	}
	for _, l := range env.SummarizeTestLimits(slices.Values(entries)) {
		if l.Limit == trajectories.TestsNotIsolated { // verdicts name the others
			report.Notes = append(report.Notes, l.Sentence())
		}
	}
	if n, ok := nop.environment.(env.Noter); ok {
		report.Notes = append(report.Notes, n.Notes()...)
	}
	for _, item := range v.items {
		verdict := validation.Verdict{
			Environment: nop.cfg.Environment, ItemID: item.id, ItemDigest: item.digest,
			Config: nop.cfg.Digest, Version: Version(), Run: v.dir,
		}
		if absolute, err := filepath.Abs(v.dir); err == nil {
			verdict.Run = absolute
		}
		nops, err := v.attempts(nop.store, item, v.command.Repeat)
		if err != nil {
			return nil, err
		}
		var oracles []*trajectories.Rollout
		finished := len(nops) > 0
		if item.solvable {
			if oracles, err = v.attempts(oracle.store, item, v.command.Repeat); err != nil {
				return nil, err
			}
			finished = finished && len(oracles) > 0
		}
		if !finished || verdict.Judge(oracles, nops) != nil {
			report.Unfinished++
			continue
		}
		if done, err := v.judgeForgeries(all.forger, item, &verdict); err != nil {
			return nil, err
		} else if !done {
			report.Unfinished++
			continue
		}
		report.Verdicts = append(report.Verdicts, verdict)
	}
	return report, v.keep(report)
}

// attempts loads the rollouts of n attempts at an item; none unless all of them were made.
func (v *validationRun) attempts(store *trajectories.Run, item listed, n int) ([]*trajectories.Rollout, error) {
	if store == nil {
		return nil, nil
	}
	var rollouts []*trajectories.Rollout
	for attempt := range n {
		key := trajectories.Key{ItemID: item.id, Attempt: attempt}
		if entry, ok := store.Lookup(key); !ok || entry.ItemDigest != item.digest {
			return nil, nil
		}
		r, err := store.Load(key)
		if err != nil {
			return nil, err
		}
		rollouts = append(rollouts, r)
	}
	return rollouts, nil
}

// keep writes the verdicts into the directory of the validation and adds them to
// those that evaluate looks at.
func (v *validationRun) keep(report *validationReport) error {
	if len(report.Verdicts) == 0 {
		return nil
	}
	if err := validation.Write(filepath.Join(v.dir, validation.FileName), report.Verdicts); err != nil {
		return err
	}
	path, ok := validation.DefaultPath(v.app.Getenv)
	if !ok {
		v.out.Warn("there is no home directory to keep the verdicts in: evaluate will not know of them")
		return nil
	}
	if err := validation.Append(path, report.Verdicts...); err != nil {
		v.out.Warn(fmt.Sprintf("%v; evaluate will not know of these verdicts", err))
		return nil
	}
	report.Kept = path
	return nil
}

// verdict turns a finished validation into success or exit code 1.
func (v *validationRun) verdict(report *validationReport) error {
	bad := 0
	for _, verdict := range report.Verdicts {
		if verdict.Kind.Unsound() || v.command.Strict && verdict.Kind != validation.Sound {
			bad++
		}
	}
	switch {
	case report.Unfinished > 0:
		return fail(ExitUnsound, fmt.Errorf("%d items could not be tried as often as they should", report.Unfinished))
	case bad > 0:
		return fail(ExitUnsound, fmt.Errorf("%d of %d items are not sound", bad, len(report.Verdicts)))
	}
	return nil
}

func (v *validationRun) resumeCommand() string {
	program := v.app.Command
	if program == "" {
		program = v.name
	}
	parts := append([]string{program, "validate"}, v.command.words()...)
	if v.command.Strict {
		parts = append(parts, "--strict")
	}
	if v.command.Adversarial {
		parts = append(parts, "--adversarial")
	}
	return strings.Join(append(parts, "--repeat", strconv.Itoa(v.command.Repeat), "--run-dir", shellWord(v.dir), "--resume"), " ")
}
