package terminalbench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"time"

	"github.com/hermes-env/hermes-env/agentloop"
	"github.com/hermes-env/hermes-env/agentloop/chat"
	"github.com/hermes-env/hermes-env/env"
	"github.com/hermes-env/hermes-env/env/config"
	"github.com/hermes-env/hermes-env/env/dataset/harbor"
	"github.com/hermes-env/hermes-env/internal/textutil"
	"github.com/hermes-env/hermes-env/toolcontext"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
)

// Environment runs the tasks of one dataset.
type Environment struct {
	name      string
	common    config.Env
	own       Config
	published Config // what the environment's published protocol has
	getenv    func(string) (string, bool)

	tasks   []*task
	byName  map[string]*task
	dataset datasetInfo
	next    int

	// Tasks whose tests loaded the agent's code, were not isolated, or got no reward after
	// services of the agent's were stopped.
	stopped taskCount

	runDir     string // where this run is recorded
	restoreDir string // where the run that is scored again is recorded
}

var (
	_ env.Evaluator        = (*Environment)(nil)
	_ env.Sizer            = (*Environment)(nil)
	_ env.Rewinder         = (*Environment)(nil)
	_ env.Aggregator       = (*Environment)(nil)
	_ env.Grouper          = (*Environment)(nil)
	_ env.SandboxSpecifier = (*Environment)(nil)
	_ env.Preparer         = (*Environment)(nil)
	_ env.Limiter          = (*Environment)(nil)
	_ env.Stager           = (*Environment)(nil)
	_ env.StageOracle      = (*Environment)(nil)
	_ env.PartialOracle    = (*Environment)(nil)
	_ env.Describer        = (*Environment)(nil)
	_ env.Protocol         = (*Environment)(nil)
	_ env.DatasetDescriber = (*Environment)(nil)
	_ env.Noter            = (*Environment)(nil)
	_ env.StagePreparer    = (*Environment)(nil)
)

// Name returns the environment's name.
func (e *Environment) Name() string { return e.name }

func (e *Environment) lookup() func(string) (string, bool) {
	if e.getenv != nil {
		return e.getenv
	}
	return os.LookupEnv
}

// Setup loads the tasks and chooses those that are run.
func (e *Environment) Setup(ctx context.Context) error {
	all, err := e.load(ctx)
	if err != nil {
		return err
	}
	s := selection{only: e.own.TaskFilter, skip: e.own.SkipTasks, categories: e.own.Categories, difficulties: e.own.Difficulties}
	if e.tasks, err = s.choose(all); err != nil {
		return err
	}
	e.byName = make(map[string]*task, len(e.tasks))
	var broken []error
	for _, t := range e.tasks {
		if t.broken != nil {
			broken = append(broken, t.broken)
		}
		e.byName[t.name] = t
	}
	if len(broken) > 0 {
		return fmt.Errorf("%d of %d tasks can't be run: %w; mend them or leave them out with env.skip_tasks", len(broken), len(e.tasks), errors.Join(broken...))
	}
	return nil
}

func (t *task) item() env.Item { return env.Item{ID: t.name, Digest: t.digest, Value: t} }

// NextItem returns the tasks in turn, each once.
func (e *Environment) NextItem(context.Context) (env.Item, error) {
	if e.next == len(e.tasks) {
		return env.Item{}, io.EOF
	}
	e.next++
	return e.tasks[e.next-1].item(), nil
}

// Rewind begins with the first task again.
func (e *Environment) Rewind(context.Context) error {
	e.next = 0
	return nil
}

// EvalItems yields the tasks.
func (e *Environment) EvalItems(context.Context) iter.Seq2[env.Item, error] {
	return func(yield func(env.Item, error) bool) {
		for _, t := range e.tasks {
			if !yield(t.item(), nil) {
				return
			}
		}
	}
}

// EvalSize returns how many tasks are run.
func (e *Environment) EvalSize() int { return len(e.tasks) }

// Dataset says where the tasks come from.
func (e *Environment) Dataset() (json.RawMessage, string, error) {
	text, err := chat.Marshal(e.dataset)
	return text, e.dataset.Digest, err
}

// Deviations says what makes the results incomparable with published ones.
func (e *Environment) Deviations() []string { return e.own.deviations(e.common, e.published) }

// HasProtocol says whether there are published results to compare with.
func (e *Environment) HasProtocol() bool { return e.published.DatasetName != "" }

// FormatPrompt returns the instruction as the user's message.
func (e *Environment) FormatPrompt(item env.Item) ([]chat.Message, error) {
	return []chat.Message{chat.User(item.Value.(*task).parts[0].instruction)}, nil
}

// Sandbox returns the task's container.
func (e *Environment) Sandbox(item env.Item) (sandbox.Spec, error) {
	t := item.Value.(*task)
	s := e.sandboxSpec(t)
	if s.Image == "" && s.Build == "" && s.Compose == nil {
		return s, fmt.Errorf("the task has neither docker_image nor a Dockerfile")
	}
	return s, nil
}

// Describe returns name, category and the like for the records.
func (e *Environment) Describe(item env.Item) json.RawMessage {
	text, err := item.Value.(*task).description()
	if err != nil {
		return nil // strings and numbers can always be encoded
	}
	return text
}

// Limits returns the task's own limits, or the fixed ones.
func (e *Environment) Limits(item env.Item) env.Limits {
	return e.limits(item.Value.(*task).parts[0])
}

func (e *Environment) limits(p part) env.Limits {
	tests := p.verifierTimeout
	if e.own.TimeoutMode == timeoutFixed {
		tests = e.own.TestTimeout.Duration()
	}
	times := time.Duration(1 + e.own.VerifierRetries)
	if p.keep != keepNone {
		times *= 2 // a verification in doubt is repeated
	}
	return env.Limits{
		Agent:         p.agentTimeout,
		Verify:        tests*times + verifyOverhead,
		KeepProcesses: p.keep == keepAll,
		KeepServices:  p.keep == keepServices,
	}
}

// Stages returns the steps of a task that has some.
func (e *Environment) Stages(item env.Item) ([]env.Stage, error) {
	t := item.Value.(*task)
	if !t.staged {
		return nil, nil
	}
	stages := make([]env.Stage, len(t.parts))
	for i, p := range t.parts {
		stages[i] = env.Stage{Name: p.name, Prompt: []chat.Message{chat.User(p.instruction)}, Limits: e.limits(p)}
	}
	return stages, nil
}

// Prepare makes the directories that agents and tests write their logs to.
func (e *Environment) Prepare(ctx context.Context, item env.Item, tc *toolcontext.Context) error {
	box, err := tc.Sandbox(ctx)
	if err != nil {
		return err
	}
	root, done, err := rootOf(ctx, box)
	if err != nil {
		return err
	}
	defer done()
	for _, dir := range logDirs {
		if err := clean(ctx, root, dir, 0o777); err != nil {
			return infra("make "+dir, err)
		}
	}
	return noteNetworkFiles(ctx, root, tc)
}

// PrepareStage merges a step's files into the working directory and runs its setup.
func (e *Environment) PrepareStage(ctx context.Context, item env.Item, stage int, tc *toolcontext.Context) error {
	p := item.Value.(*task).parts[stage]
	if p.workdir == "" && p.healthcheck == nil {
		return nil
	}
	box, err := tc.Sandbox(ctx)
	if err != nil {
		return err
	}
	if p.workdir != "" {
		if err := uploadFolder(ctx, box, p.workdir, box.Info().Dir); err != nil {
			return infra("put the step's files into the working directory", err)
		}
	}
	if p.setup {
		if err := runSetup(ctx, box, sandbox.Command{Args: []string{"/bin/sh", "-c", "if command -v bash >/dev/null 2>&1; then exec bash setup.sh; fi; exec sh setup.sh"}, Timeout: 10 * time.Minute, MaxOutput: 4000}, "setup.sh of the step"); err != nil {
			return err
		}
	}
	if h := healthcheckOf(p.healthcheck); h != nil {
		return awaitHealthy(ctx, box, h)
	}
	return nil
}

func runSetup(ctx context.Context, box sandbox.Sandbox, c sandbox.Command, what string) error {
	r, err := box.Exec(ctx, c)
	switch {
	case err != nil:
		return infra("run "+what, err)
	case r.Cancelled:
		return context.Cause(ctx)
	case r.ExitCode != 0:
		return infra("run "+what, fmt.Errorf("exit code %d: %s", r.ExitCode, textutil.Quote(r.String(), 60)))
	}
	return nil
}

// awaitHealthy runs a step's health check until it succeeds.
func awaitHealthy(ctx context.Context, box sandbox.Sandbox, h *sandbox.Healthcheck) error {
	grace := time.Now().Add(h.StartPeriod)
	for failures := 0; ; {
		early := time.Now().Before(grace)
		r, err := box.Exec(ctx, sandbox.Command{Script: h.Script, Timeout: h.Timeout, MaxOutput: 2000})
		switch {
		case err != nil:
			return infra("run the step's health check", err)
		case r.Cancelled:
			return context.Cause(ctx)
		case r.ExitCode == 0:
			return nil
		}
		pause := h.StartInterval
		if !early {
			pause = h.Interval
			if failures++; failures >= max(1, h.Retries) {
				return infra("wait for the step's health check", fmt.Errorf("it failed %d times, at last with exit code %d: %s", failures, r.ExitCode, textutil.Quote(r.String(), 60)))
			}
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// rootOf returns a way into a sandbox that may write anywhere; done gives it up.
func rootOf(ctx context.Context, box sandbox.Sandbox) (root sandbox.Sandbox, done func(), err error) {
	if canClean(ctx, box) {
		return box, func() {}, nil
	}
	if root, err = openAs(ctx, box, "0"); err != nil {
		return nil, nil, err
	}
	return root, func() { _ = root.Close(context.WithoutCancel(ctx)) }, nil // ends with the sandbox anyway
}

// VerifiesClean says whether the tests of an item run in a clean container.
func (e *Environment) VerifiesClean(item env.Item) bool {
	return e.verifiesIn(item.Value.(*task).config) == verifyClean
}

// Reward runs the task's tests.
func (e *Environment) Reward(ctx context.Context, item env.Item, result *agentloop.Result, tc *toolcontext.Context) (env.Score, error) {
	t := item.Value.(*task)
	return e.verify(ctx, t, t.parts[0], result, tc)
}

// StageReward runs the tests of a step.
func (e *Environment) StageReward(ctx context.Context, item env.Item, stage int, result *agentloop.Result, tc *toolcontext.Context) (env.Score, error) {
	t := item.Value.(*task)
	return e.verify(ctx, t, t.parts[stage], result, tc)
}

// CombineStages returns the mean over the steps that were verified, or the reward of
// the last of them, as the task says. Both are Harbor's rules: a step that was not
// reached, because one before it fell short of its min_reward, does not count as 0.
func (e *Environment) CombineStages(item env.Item, scores []env.Score) env.Score {
	t := item.Value.(*task)
	combined := env.Score{Parts: map[string]float64{}}
	for i, s := range scores {
		combined.Value += s.Value / float64(len(scores))
		combined.Parts["step:"+t.parts[i].name] = s.Value
	}
	if t.config.RewardStrategy == "final" && len(scores) > 0 {
		combined.Value = scores[len(scores)-1].Value
	}
	return combined
}

// HasSolution says whether a task came with its solution.
func (e *Environment) HasSolution(item env.Item) bool { return item.Value.(*task).solved }

// Oracle runs the task's reference solution.
func (e *Environment) Oracle(ctx context.Context, item env.Item, tc *toolcontext.Context) error {
	return e.OracleStage(ctx, item, 0, tc)
}

// OracleStage runs the reference solution of a step. Its exit code does not matter:
// the tests say whether it did its work.
func (e *Environment) OracleStage(ctx context.Context, item env.Item, stage int, tc *toolcontext.Context) error {
	t := item.Value.(*task)
	if !t.solved {
		return fmt.Errorf("the task %s came without a solution: rows of a dataset have none, a folder of tasks has them in solution/", t.name)
	}
	tc.Note(solvedNote, "")
	box, err := tc.Sandbox(ctx)
	if err != nil {
		return err
	}
	return e.solve(ctx, t, stage, box)
}

// solve runs the reference solution of a step.
func (e *Environment) solve(ctx context.Context, t *task, stage int, box sandbox.Sandbox) error {
	values, err := harbor.Expand(t.solutionEnv, e.lookup())
	if err != nil {
		return fmt.Errorf("the solution of task %s: %w", t.name, err)
	}
	root, done, err := rootOf(ctx, box)
	if err != nil {
		return err
	}
	defer done()
	if err := clean(ctx, root, solutionDir, 0o755); err != nil {
		return infra("empty "+solutionDir, err)
	}
	if err := uploadFolder(ctx, root, t.parts[stage].solution, solutionDir); err != nil {
		return infra("put the solution into "+solutionDir, err)
	}
	r, err := box.Exec(ctx, sandbox.Command{
		Args: []string{"/bin/sh", "-c", `if command -v bash >/dev/null 2>&1; then exec bash "$0"; fi; exec sh "$0"`, solutionDir + "/solve.sh"},
		Dir:  t.workdir(), Env: values, Merge: true, MaxOutput: outputBytes,
	})
	if err != nil {
		return infra("run the solution", err)
	}
	if r.Cancelled {
		return context.Cause(ctx)
	}
	// Where Harbor's oracle leaves it, for people who look into the sandbox. There is no room
	// for it where the solution has filled the disk.
	if err := writeFile(ctx, root, "/logs/agent/oracle.txt", []byte(r.Stdout.String())); errors.Is(err, sandbox.ErrLost) {
		return infra("keep the solution's output", err)
	}
	return nil
}
