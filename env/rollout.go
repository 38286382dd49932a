package env

import (
	"context"
	"errors"
	"fmt"
	"math"
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

// seal separates the agent's part from the verifier's.
func (r *Runner) seal(ctx context.Context, l *leg, result *agentloop.Result, tc *toolcontext.Context) error {
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

func (r *Runner) reward(ctx context.Context, rec *trajectories.Rollout, l *leg, result *agentloop.Result, tc *toolcontext.Context) (Score, error) {
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
