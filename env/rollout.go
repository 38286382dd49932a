package env

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime/debug"
	"sort"
	"strings"
	"time"

	"github.com/hermes-env/hermes-env/agentloop"
	"github.com/hermes-env/hermes-env/agentloop/chat"
	"github.com/hermes-env/hermes-env/agentloop/model"
	"github.com/hermes-env/hermes-env/env/config"
	"github.com/hermes-env/hermes-env/toolcontext"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
	"github.com/hermes-env/hermes-env/trajectories"
)

// Classes of failure in a record, finer than the outcome.
const (
	classPanic       = "panic"
	classEnvironment = "environment"
	classOracle      = "oracle"
	classVerifier    = "verifier"
	classTimeout     = "timeout"
	classSandbox     = "sandbox"
	classCancelled   = "cancelled"
	classModel       = "model"
	// classEndedInside: what ran in the sandbox has ended it, which another try would not change.
	classEndedInside = "sandbox_ended"
)

// cleanupTimeout bounds the removal of one rollout's sandbox, which also runs
// after the run was cancelled.
const cleanupTimeout = 30 * time.Second

var errVerifyTimeout = errors.New("the time limit of the verification is reached")

// assignment is one rollout to run: an attempt at an item in a group.
type assignment struct {
	group   *group
	attempt int
}

// rollout runs one assignment from prompt to score. It never fails: whatever
// happens, panics included, ends in a record with exactly one outcome. The
// second value is the cause of a failure, for the runner to decide on.
//
// kept is a finished conversation of the same assignment that only lacks its score; nil
// has the agent work.
func (r *Runner) rollout(ctx context.Context, a assignment, kept *trajectories.Rollout) (rec *trajectories.Rollout, cause error) {
	var err error
	item := a.group.item
	rec = &trajectories.Rollout{
		ID:         newRolloutID(),
		ItemID:     item.ID,
		ItemDigest: item.Digest,
		Step:       a.group.step,
		Group:      a.group.number,
		Attempt:    a.attempt,
		Model:      r.opts.ModelName,
		StartedAt:  r.now(),
	}
	began, before := rec.StartedAt, trajectories.Timings{}
	if kept != nil {
		takeUp(rec, kept)
		before = kept.Timings
	}
	phase := classEnvironment
	defer func() {
		if p := recover(); p != nil {
			cause = fmt.Errorf("panic in %s: %v", phase, p)
			rec.Outcome = trajectories.OutcomeVerifierError
			if phase == classEnvironment {
				rec.Outcome, cause = trajectories.OutcomeEnvironmentError, fmt.Errorf("environment %s: panic: %v", r.opts.Environment.Name(), p)
			}
			rec.Error = &trajectories.Failure{Class: classPanic, Message: cause.Error() + "\n" + firstLines(string(debug.Stack()), 24)}
			rec.Score, rec.Passed = nil, nil
		}
		rec.FinishedAt = r.now()
		rec.Timings.Total = before.Total + rec.FinishedAt.Sub(began).Seconds()
		t := &rec.Timings
		t.Harness = math.Max(0, t.Total-t.Model-t.Tools-t.Sandbox-t.Verify)
	}()

	if d, ok := r.opts.Environment.(Describer); ok {
		if rec.Metadata, err = metadata(d.Describe(item), nil, nil); err != nil {
			return rec, r.failEnvironment(rec, err)
		}
	}
	legs, err := r.legs(item)
	if err != nil {
		return rec, r.failEnvironment(rec, err)
	}
	if list := r.forgeries(item); a.attempt < len(list) {
		f := list[a.attempt]
		describeForgery(rec, f)
		for i := range legs {
			legs[i].forge = func(ctx context.Context, tc *toolcontext.Context) error {
				return r.opts.Environment.(Forger).Forge(ctx, item, i, f, tc)
			}
		}
	}
	rec.Messages = legs[0].Prompt
	finish, err := r.openSession(rec, legs, kept != nil)
	if err != nil {
		r.fail(rec, trajectories.OutcomeModelError, classModel, err)
		return rec, err
	}
	defer finish()
	spec, err := r.sandboxSpec(item, rec.ID)
	if err != nil {
		return rec, r.failEnvironment(rec, err)
	}
	tc, err := r.newContext(spec, a.group.toolset, userTask(legs[0].Prompt))
	if err != nil {
		r.fail(rec, trajectories.OutcomeSandboxError, classSandbox, err)
		return rec, err
	}
	var sealed time.Duration
	rec.Tools = a.group.toolset.Names()
	rec.Toolsets = a.group.toolsets
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
		defer cancel()
		if err := tc.Cleanup(closing); err != nil {
			r.opts.Observer.Warn(fmt.Sprintf("rollout %s: remove its sandbox: %v", rec.ID, err))
		}
		spent := tc.Timings()
		rec.Timings.Sandbox = before.Sandbox + (spent.Create + spent.Close + sealed).Seconds()
		rec.Timings.Tools = math.Max(0, rec.Timings.Tools-spent.CreateInTools.Seconds())
		rec.Timings.Verify = math.Max(0, rec.Timings.Verify-spent.CreateOutsideTools.Seconds())
		if info, ok := tc.Info(); ok {
			rec.Sandbox = &trajectories.Sandbox{Backend: info.Backend, Image: info.Image, Digest: info.Digest, Events: sandboxEvents(tc.Events())}
		}
	}()

	if p, ok := r.opts.Environment.(Preparer); ok {
		if err := tc.Open(ctx); err != nil {
			r.failUnlessCancelled(ctx, rec, trajectories.OutcomeSandboxError, classSandbox, err)
			return rec, err
		}
		preparing := time.Now()
		if err := p.Prepare(ctx, item, tc); err != nil {
			r.failUnlessCancelled(ctx, rec, trajectories.OutcomeSandboxError, classSandbox, fmt.Errorf("prepare the sandbox: %w", err))
			return rec, err
		}
		sealed += time.Since(preparing)
	}
	rec.Timings.Held, rec.Timings.Verify = before.Held, before.Verify
	stored := kept
	if stored == nil {
		stored = r.stored(a.group, a.attempt)
	}
	return rec, r.carryOut(ctx, rec, item, legs, stored, tc, &phase, &sealed)
}

// carryOut carries out the legs of a rollout in its sandbox and settles the score.
func (r *Runner) carryOut(ctx context.Context, rec *trajectories.Rollout, item Item, legs []leg, stored *trajectories.Rollout, tc *toolcontext.Context, phase *string, sealed *time.Duration) error {
	var all *agentloop.Result
	var scores []Score
	var stages []stageRecord
	var tampering []trajectories.Tampering
	description := rec.Metadata
	if stored != nil && r.opts.Agent == AgentStored {
		rec.Model = stored.Model
		object, err := chat.ParseObject(description)
		if err != nil {
			object = nil // nothing was described
		}
		object.Set("rescored_from", chat.AppendString(nil, stored.ID))
		description = object.Append(nil)
	}
	for i, l := range legs {
		messages := l.Prompt
		record := stageRecord{Name: l.Name}
		if all != nil {
			record.Message = len(all.Messages)
			if l.Continue {
				messages = append(append([]chat.Message(nil), all.Messages...), l.Prompt...)
			}
			if err := tc.Unseal(ctx); err != nil {
				r.failWithSandbox(ctx, rec, all, err)
				return err
			}
		}
		if p, ok := r.opts.Environment.(StagePreparer); ok && l.staged {
			if err := p.PrepareStage(ctx, item, i, tc); err != nil {
				r.failWithSandbox(ctx, rec, all, fmt.Errorf("prepare stage %d (%s): %w", i+1, l.Name, err))
				return err
			}
		}
		*phase = "agent"
		result, err := r.act(ctx, rec.ID, item, stored, l, messages, tc)
		for _, t := range result.Turns {
			rec.Timings.Held += t.Held.Seconds()
		}
		all = joinResults(all, result, l.Continue && i > 0)
		r.describe(rec, all)
		if err != nil {
			r.classifyAgentFailure(ctx, rec, result, err)
			return err
		}

		*phase = "seal"
		sealing := time.Now()
		err = r.seal(ctx, l, result, tc)
		*sealed += time.Since(sealing)
		if err != nil {
			r.failWithSandbox(ctx, rec, all, fmt.Errorf("end what the agent left running: %w", err))
			return err
		}

		if err := r.keepWaiting(ctx, rec, item, l, stored, tc); err != nil {
			r.failUnlessCancelled(ctx, rec, trajectories.OutcomeCancelled, classCancelled, err)
			return err
		}
		*phase = "reward"
		score, err := r.reward(ctx, rec, l, result, tc)
		details := score.Details
		if err != nil {
			details = detailsOf(err)
		}
		tampering = append(tampering, tamperingOf(score, err)...)
		rec.Tampering = trajectories.BoundTampering(tampering)
		record.Turns, record.StopReason = result.TurnsUsed, string(result.StopReason)
		if l.staged {
			record.Verifier = details
			if err == nil {
				record.Score = &score.Value
			}
			stages, details = append(stages, record), nil
		}
		if m, bad := metadata(description, details, stages); bad == nil {
			rec.Metadata = m
		} else if err == nil {
			err = fmt.Errorf("record what the verifier found: %w", bad)
		}
		if err != nil {
			if l.staged {
				err = fmt.Errorf("stage %d (%s): %w", i+1, l.Name, err)
			}
			if class, zero := r.zeroFailure(ctx, rec, err); zero {
				r.settleAsZero(rec, all, class, "the failure to score counts as 0: "+err.Error())
				return nil
			}
			r.classifyRewardFailure(ctx, rec, all, err)
			return err
		}
		if scores = append(scores, score); score.Stop {
			break
		}
	}
	score := scores[0]
	if legs[0].staged {
		score = r.opts.Environment.(Stager).CombineStages(item, scores)
		if err := finiteScore(score); err != nil {
			r.fail(rec, trajectories.OutcomeVerifierError, classVerifier, err)
			return err
		}
	}
	r.applyScore(rec, all, score)
	return nil
}

// seal separates the agent's part from the verifier's.
func (r *Runner) seal(ctx context.Context, l leg, result *agentloop.Result, tc *toolcontext.Context) error {
	switch {
	case l.Limits.KeepProcesses && result.StopReason != agentloop.StopTimeLimit:
		return tc.SealKeeping(ctx)
	case l.Limits.KeepProcesses || l.Limits.KeepServices:
		return tc.SealServices(ctx)
	}
	return tc.Seal(ctx)
}

// prompt builds the messages a rollout starts with. The configured system prompt
// comes first unless the environment sends one of its own.
func (r *Runner) prompt(item Item) ([]chat.Message, error) {
	messages, err := r.opts.Environment.FormatPrompt(item)
	if err != nil {
		return nil, fmt.Errorf("format the prompt of item %q: %w", item.ID, err)
	}
	if len(messages) == 0 {
		return nil, fmt.Errorf("format the prompt of item %q: the environment returned no messages", item.ID)
	}
	return r.withSystemPrompt(messages), nil
}

func userTask(messages []chat.Message) string {
	for _, m := range messages {
		if m.Role() == chat.RoleUser {
			return m.Text()
		}
	}
	return ""
}

// describe copies what the agent did into the record.
func (r *Runner) describe(rec *trajectories.Rollout, result *agentloop.Result) {
	rec.Messages = result.Messages
	rec.StopReason = string(result.StopReason)
	rec.TurnsUsed = result.TurnsUsed
	rec.FinishedNaturally = result.FinishedNaturally
	rec.Usage = result.Usage
	rec.ToolCalls, rec.InvalidToolCalls = result.ToolCalls, result.InvalidToolCalls
	rec.ToolErrors, rec.Timings.Turns, rec.Timings.Model, rec.Timings.Tools = nil, nil, 0, 0
	for _, e := range result.ToolErrors {
		rec.ToolErrors = append(rec.ToolErrors, trajectories.ToolError(e))
	}
	for _, t := range result.Turns {
		rec.Timings.Model += t.Model.Seconds()
		rec.Timings.Tools += t.Tools.Seconds()
		if r.opts.Agent != AgentModel && r.opts.Agent != AgentStored {
			continue // an oracle's work is tool time, but no turn
		}
		rec.Timings.Turns = append(rec.Timings.Turns, trajectories.TurnTiming{
			Model: t.Model.Seconds(), Tools: t.Tools.Seconds(), Total: t.Total.Seconds(),
			PromptTokens: t.Usage.PromptTokens, CompletionTokens: t.Usage.CompletionTokens,
			FinishReason: t.FinishReason,
		})
	}
}

func (r *Runner) reward(ctx context.Context, rec *trajectories.Rollout, l leg, result *agentloop.Result, tc *toolcontext.Context) (Score, error) {
	started := time.Now()
	defer func() { rec.Timings.Verify += time.Since(started).Seconds() }()
	limit := l.Limits.Verify
	if limit == 0 {
		limit = r.opts.Config.VerifyTimeout.Duration()
	}
	// A judge that waits for its server's rate is no verifier that hangs.
	ctx, held, cancel := model.WithTimeout(judging(ctx), limit, errVerifyTimeout)
	defer cancel()
	defer func() { rec.Timings.Held += held.Total().Seconds() }()
	score, err := l.reward(ctx, result, tc)
	if err != nil {
		if errors.Is(context.Cause(ctx), errVerifyTimeout) {
			return score, fmt.Errorf("%w after %s: %w", errVerifyTimeout, limit, err)
		}
		return score, err
	}
	return score, finiteScore(score)
}

func finiteScore(score Score) error {
	if math.IsNaN(score.Value) || math.IsInf(score.Value, 0) {
		return fmt.Errorf("the verifier returned the score %v, which is not a finite number", score.Value)
	}
	return nil
}

// settle records a score and which of the scored outcomes it belongs to.
func (r *Runner) settle(rec *trajectories.Rollout, result *agentloop.Result, score Score) {
	value := score.Value
	passed := value >= r.opts.Config.PassThreshold
	if score.Passed != nil {
		passed = *score.Passed
	}
	rec.Score, rec.Passed = &value, &passed
	for name, part := range score.Parts {
		rec.ScoreParts = append(rec.ScoreParts, trajectories.ScorePart{Name: name, Value: part})
	}
	sort.Slice(rec.ScoreParts, func(i, j int) bool { return rec.ScoreParts[i].Name < rec.ScoreParts[j].Name })
	switch {
	case result.ToolCalls > 0 && result.InvalidToolCalls == result.ToolCalls && !result.FinishedNaturally:
		rec.Outcome = trajectories.OutcomeAgentError
		rec.Error = &trajectories.Failure{Class: "invalid_tool_calls", Message: fmt.Sprintf("none of the model's %d tool calls could be run", result.ToolCalls)}
	case result.StopReason.Limit():
		rec.Outcome = trajectories.OutcomeLimit
	default:
		rec.Outcome = trajectories.OutcomeScored
	}
}

func (r *Runner) classifyAgentFailure(ctx context.Context, rec *trajectories.Rollout, result *agentloop.Result, err error) {
	var modelErr *model.Error
	var replyErr *agentloop.ReplyError
	switch {
	case ctx.Err() != nil:
		r.fail(rec, trajectories.OutcomeCancelled, classCancelled, context.Cause(ctx))
	case r.opts.Agent == AgentOracle && !toolcontext.IsInfrastructure(err):
		r.fail(rec, trajectories.OutcomeVerifierError, classOracle, err)
	case r.opts.Agent == AgentForger && !toolcontext.IsInfrastructure(err):
		r.fail(rec, trajectories.OutcomeVerifierError, ClassForgery, err)
	case errors.As(err, &replyErr) && !toolcontext.IsInfrastructure(err):
		_ = r.failEnvironment(rec, err) // the loop's error is the cause
	case errors.As(err, &modelErr):
		r.fail(rec, trajectories.OutcomeModelError, string(modelErr.Kind), err)
	case result.StopReason == agentloop.StopModelError:
		r.fail(rec, trajectories.OutcomeModelError, classModel, err)
	case errors.Is(err, sandbox.ErrEndedInside):
		r.failEndedInside(ctx, rec, result, err)
	default:
		r.fail(rec, trajectories.OutcomeSandboxError, classSandbox, err)
	}
}

func (r *Runner) classifyRewardFailure(ctx context.Context, rec *trajectories.Rollout, result *agentloop.Result, err error) {
	var named *VerifierError
	switch {
	case errors.As(err, &named) && named.Infrastructure:
		r.failUnlessCancelled(ctx, rec, trajectories.OutcomeSandboxError, named.Class, err)
	case errors.As(err, &named) && named.Class != "":
		r.failUnlessCancelled(ctx, rec, trajectories.OutcomeVerifierError, named.Class, err)
	case errors.Is(err, sandbox.ErrEndedInside):
		r.failEndedInside(ctx, rec, result, err)
	case errors.Is(err, errVerifyTimeout):
		r.failUnlessCancelled(ctx, rec, trajectories.OutcomeVerifierError, classTimeout, err)
	case toolcontext.IsInfrastructure(err):
		r.failUnlessCancelled(ctx, rec, trajectories.OutcomeSandboxError, classSandbox, fmt.Errorf("during verification: %w", err))
	default:
		r.failUnlessCancelled(ctx, rec, trajectories.OutcomeVerifierError, classVerifier, err)
	}
}

// failEnvironment records that the environment made nothing to run of the item.
func (r *Runner) failEnvironment(rec *trajectories.Rollout, err error) error {
	err = fmt.Errorf("environment %s: %w", r.opts.Environment.Name(), err)
	r.fail(rec, trajectories.OutcomeEnvironmentError, classEnvironment, err)
	return err
}

func (r *Runner) failUnlessCancelled(ctx context.Context, rec *trajectories.Rollout, outcome trajectories.Outcome, class string, err error) {
	if ctx.Err() != nil {
		outcome, class, err = trajectories.OutcomeCancelled, classCancelled, context.Cause(ctx)
	}
	r.fail(rec, outcome, class, err)
}

// failWithSandbox records the failure of a sandbox that an agent has worked in.
func (r *Runner) failWithSandbox(ctx context.Context, rec *trajectories.Rollout, result *agentloop.Result, err error) {
	if errors.Is(err, sandbox.ErrEndedInside) {
		r.failEndedInside(ctx, rec, result, err)
		return
	}
	r.failUnlessCancelled(ctx, rec, trajectories.OutcomeSandboxError, classSandbox, err)
}

// failEndedInside records that what ran in the sandbox has ended it. With env.on_tampering
// zero that is a score of 0: a policy must not gain by a sandbox that can't be scored.
func (r *Runner) failEndedInside(ctx context.Context, rec *trajectories.Rollout, result *agentloop.Result, err error) {
	r.failUnlessCancelled(ctx, rec, trajectories.OutcomeVerifierError, classEndedInside, err)
	if rec.Outcome == trajectories.OutcomeCancelled || r.opts.Config.OnTampering != config.TamperingZero {
		return
	}
	rec.Error = nil
	r.settleAsZero(rec, result, classEndedInside, "the failure to score counts as 0: "+err.Error())
}

func (r *Runner) fail(rec *trajectories.Rollout, outcome trajectories.Outcome, class string, err error) {
	rec.Outcome = outcome
	rec.Error = &trajectories.Failure{Class: class, Message: err.Error()}
	rec.Score, rec.Passed, rec.ScoreParts = nil, nil, nil
}

// sandboxEvents records what happened to a sandbox.
func sandboxEvents(list []sandbox.Event) []trajectories.SandboxEvent {
	var events []trajectories.SandboxEvent
	for _, e := range list {
		events = append(events, trajectories.SandboxEvent{Kind: string(e.Kind), Text: e.Text, Inside: e.Inside, Lost: e.Lost, Try: 1, Time: e.Time})
	}
	return events
}

func firstLines(s string, n int) string {
	lines := strings.SplitN(s, "\n", n+1)
	if len(lines) > n {
		lines = lines[:n]
	}
	return strings.Join(lines, "\n")
}
