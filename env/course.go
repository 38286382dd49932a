package env

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"runtime/debug"
	"time"

	"github.com/hermes-env/hermes-env/agentloop"
	"github.com/hermes-env/hermes-env/agentloop/chat"
	"github.com/hermes-env/hermes-env/toolcontext"
	"github.com/hermes-env/hermes-env/trajectories"
)

// rollout runs one assignment from prompt to score. It never fails: whatever
// happens, panics included, ends in a record with exactly one outcome. The
// second value is the cause of a failure, for the runner to decide on.
//
// kept is a finished conversation of the same assignment that only lacks its score; nil
// has the agent work.
//
// While a model thinks, rollout and what it calls wait on the stacks of as many goroutines
// as rollouts run. Whatever needs much of a stack is done in functions of its own, which
// have returned by then (TestRunner_NeedsLittleStackWhileModelsThink).
func (r *Runner) rollout(ctx context.Context, a assignment, kept *trajectories.Rollout) (rec *trajectories.Rollout, cause error) {
	c := r.newCourse(a, kept)
	rec = c.rec
	defer func() {
		if p := recover(); p != nil {
			cause = r.panicked(c, p)
		}
		r.finishTimings(c)
	}()
	finish, err := r.prepareCourse(c)
	if err != nil {
		return rec, err
	}
	defer finish()
	if err := r.openContext(c); err != nil {
		return rec, err
	}
	defer r.cleanUp(ctx, c)
	if err := r.prepareSandbox(ctx, c); err != nil {
		return rec, err
	}
	return rec, r.carryOut(ctx, c)
}

// course is a rollout under way.
type course struct {
	a    assignment
	kept *trajectories.Rollout // see rollout
	rec  *trajectories.Rollout
	legs []leg
	tc   *toolcontext.Context

	began  time.Time            // of the work of this session
	before trajectories.Timings // of kept
	phase  string
	sealed time.Duration

	// stored is the conversation that is scored, nil where the agent works.
	stored      *trajectories.Rollout
	description json.RawMessage // of the item
	all         *agentloop.Result
	scores      []Score
	stages      []stageRecord
	tampering   []trajectories.Tampering
}

func (r *Runner) newCourse(a assignment, kept *trajectories.Rollout) *course {
	item := &a.group.item
	c := &course{a: a, kept: kept, phase: classEnvironment, rec: &trajectories.Rollout{
		ID:         newRolloutID(),
		ItemID:     item.ID,
		ItemDigest: item.Digest,
		Step:       a.group.step,
		Group:      a.group.number,
		Attempt:    a.attempt,
		Model:      r.opts.ModelName,
		StartedAt:  r.now(),
	}}
	c.began = c.rec.StartedAt
	if kept != nil {
		takeUp(c.rec, kept)
		c.before = kept.Timings
	}
	return c
}

// panicked records a panic and returns it as an error.
func (r *Runner) panicked(c *course, p any) error {
	cause := fmt.Errorf("panic in %s: %v", c.phase, p)
	rec := c.rec
	rec.Outcome = trajectories.OutcomeVerifierError
	if c.phase == classEnvironment {
		rec.Outcome, cause = trajectories.OutcomeEnvironmentError, fmt.Errorf("environment %s: panic: %v", r.opts.Environment.Name(), p)
	}
	rec.Error = &trajectories.Failure{Class: classPanic, Message: cause.Error() + "\n" + firstLines(string(debug.Stack()), 24)}
	rec.Score, rec.Passed = nil, nil
	return cause
}

func (r *Runner) finishTimings(c *course) {
	c.rec.FinishedAt = r.now()
	t := &c.rec.Timings
	t.Total = c.before.Total + c.rec.FinishedAt.Sub(c.began).Seconds()
	t.Harness = math.Max(0, t.Total-t.Model-t.Tools-t.Sandbox-t.Verify)
}

// prepareCourse finds out what is to be done. What it returns ends the token-exact session
// of the rollout, if there is one.
func (r *Runner) prepareCourse(c *course) (finish func(), err error) {
	rec, item := c.rec, c.a.group.item
	if d, ok := r.opts.Environment.(Describer); ok {
		if rec.Metadata, err = metadata(d.Describe(item), nil, nil); err != nil {
			return nil, r.failEnvironment(rec, err)
		}
	}
	legs, err := r.legs(item)
	if err != nil {
		return nil, r.failEnvironment(rec, err)
	}
	c.legs = legs
	if list := r.forgeries(item); c.a.attempt < len(list) {
		f := list[c.a.attempt]
		describeForgery(rec, f)
		for i := range legs {
			legs[i].forge = func(ctx context.Context, tc *toolcontext.Context) error {
				return r.opts.Environment.(Forger).Forge(ctx, item, i, f, tc)
			}
		}
	}
	rec.Messages = legs[0].Prompt
	if finish, err = r.openSession(rec, legs, c.kept != nil); err != nil {
		r.fail(rec, trajectories.OutcomeModelError, classModel, err)
		return nil, err
	}
	return finish, nil
}

// openContext makes the handle on the sandbox and the tools of the rollout.
func (r *Runner) openContext(c *course) error {
	spec, err := r.sandboxSpec(c.a.group.item, c.rec.ID)
	if err != nil {
		return r.failEnvironment(c.rec, err)
	}
	if c.tc, err = r.newContext(spec, c.a.group.toolset, userTask(c.legs[0].Prompt)); err != nil {
		r.fail(c.rec, trajectories.OutcomeSandboxError, classSandbox, err)
		return err
	}
	c.rec.Tools = c.a.group.toolset.Names()
	c.rec.Toolsets = c.a.group.toolsets
	return nil
}

// cleanUp removes the sandbox and records what it took.
func (r *Runner) cleanUp(ctx context.Context, c *course) {
	rec, tc := c.rec, c.tc
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
	defer cancel()
	if err := tc.Cleanup(closing); err != nil {
		r.opts.Observer.Warn(fmt.Sprintf("rollout %s: remove its sandbox: %v", rec.ID, err))
	}
	spent := tc.Timings()
	rec.Timings.Sandbox = c.before.Sandbox + (spent.Create + spent.Close + c.sealed).Seconds()
	rec.Timings.Tools = math.Max(0, rec.Timings.Tools-spent.CreateInTools.Seconds())
	rec.Timings.Verify = math.Max(0, rec.Timings.Verify-spent.CreateOutsideTools.Seconds())
	if info, ok := tc.Info(); ok {
		rec.Sandbox = &trajectories.Sandbox{Backend: info.Backend, Image: info.Image, Digest: info.Digest, Events: sandboxEvents(tc.Events())}
	}
}

// prepareSandbox has the environment put into a fresh sandbox what the item needs there.
// A stored conversation that is scored without a sandbox gets none.
func (r *Runner) prepareSandbox(ctx context.Context, c *course) error {
	if c.stored = c.kept; c.stored == nil {
		c.stored = r.stored(c.a.group, c.a.attempt)
	}
	if p, ok := r.opts.Environment.(Preparer); ok && (c.stored == nil || !r.scoresConversation()) {
		if err := c.tc.Open(ctx); err != nil {
			r.failUnlessCancelled(ctx, c.rec, trajectories.OutcomeSandboxError, classSandbox, err)
			return err
		}
		preparing := time.Now()
		if err := p.Prepare(ctx, c.a.group.item, c.tc); err != nil {
			r.failUnlessCancelled(ctx, c.rec, trajectories.OutcomeSandboxError, classSandbox, fmt.Errorf("prepare the sandbox: %w", err))
			return err
		}
		c.sealed += time.Since(preparing)
	}
	c.rec.Timings.Held, c.rec.Timings.Verify = c.before.Held, c.before.Verify
	return nil
}

// carryOut carries out the legs of a rollout in its sandbox and settles the score.
func (r *Runner) carryOut(ctx context.Context, c *course) error {
	c.description = c.rec.Metadata
	if c.stored != nil && r.opts.Agent == AgentStored {
		c.rec.Model = c.stored.Model
		object, err := chat.ParseObject(c.description)
		if err != nil {
			object = nil // nothing was described
		}
		object.Set("rescored_from", chat.AppendString(nil, c.stored.ID))
		c.description = object.Append(nil)
	}
	for i := range c.legs {
		l := &c.legs[i]
		record := &stageRecord{Name: l.Name}
		messages, err := r.beginLeg(ctx, c, i, record)
		if err != nil {
			return err
		}
		c.phase = "agent"
		result, err := r.act(ctx, c, l, messages)
		if err := r.endLeg(ctx, c, i, result, err); err != nil {
			return err
		}
		if done, err := r.scoreLeg(ctx, c, i, result, record); done || err != nil {
			return err
		}
		if c.scores[i].Stop {
			break
		}
	}
	return r.settleLegs(c)
}

// beginLeg prepares the sandbox for a leg and returns the messages that it begins with.
func (r *Runner) beginLeg(ctx context.Context, c *course, i int, record *stageRecord) ([]chat.Message, error) {
	l := &c.legs[i]
	messages := l.Prompt
	if c.all != nil {
		record.Message = len(c.all.Messages)
		if l.Continue {
			messages = append(append([]chat.Message(nil), c.all.Messages...), l.Prompt...)
		}
		if err := c.tc.Unseal(ctx); err != nil {
			r.failWithSandbox(ctx, c.rec, c.all, err)
			return nil, err
		}
	}
	if p, ok := r.opts.Environment.(StagePreparer); ok && l.staged {
		if err := p.PrepareStage(ctx, c.a.group.item, i, c.tc); err != nil {
			r.failWithSandbox(ctx, c.rec, c.all, fmt.Errorf("prepare stage %d (%s): %w", i+1, l.Name, err))
			return nil, err
		}
	}
	return messages, nil
}

// endLeg records what the agent did, makes the conversation durable and ends what the agent
// left running. failed is the failure of the agent's part.
func (r *Runner) endLeg(ctx context.Context, c *course, i int, result *agentloop.Result, failed error) error {
	l, rec := &c.legs[i], c.rec
	for _, t := range result.Turns {
		rec.Timings.Held += t.Held.Seconds()
	}
	c.all = joinResults(c.all, result, l.Continue && i > 0)
	r.describe(rec, c.all)
	if failed != nil {
		r.classifyAgentFailure(ctx, rec, result, failed)
		return failed
	}
	if err := r.keepWaiting(ctx, c, l); err != nil {
		r.failUnlessCancelled(ctx, rec, trajectories.OutcomeCancelled, classCancelled, err)
		return err
	}
	c.phase = "seal"
	sealing := time.Now()
	err := r.seal(ctx, l, result, c.tc)
	c.sealed += time.Since(sealing)
	if err != nil {
		r.failWithSandbox(ctx, rec, c.all, fmt.Errorf("end what the agent left running: %w", err))
		return err
	}
	return nil
}

// scoreLeg scores a leg. done says that the rollout has its score already.
func (r *Runner) scoreLeg(ctx context.Context, c *course, i int, result *agentloop.Result, record *stageRecord) (done bool, err error) {
	l, rec := &c.legs[i], c.rec
	c.phase = "reward"
	score, err := r.reward(ctx, rec, l, result, c.tc)
	details := score.Details
	if err != nil {
		details = detailsOf(err)
	}
	c.tampering = append(c.tampering, tamperingOf(score, err)...)
	rec.Tampering = trajectories.BoundTampering(c.tampering)
	record.Turns, record.StopReason = result.TurnsUsed, string(result.StopReason)
	if l.staged {
		record.Verifier = details
		if err == nil {
			record.Score = &score.Value
		}
		c.stages, details = append(c.stages, *record), nil
	}
	if m, bad := metadata(c.description, details, c.stages); bad == nil {
		rec.Metadata = m
	} else if err == nil {
		err = fmt.Errorf("record what the verifier found: %w", bad)
	}
	if err != nil {
		if l.staged {
			err = fmt.Errorf("stage %d (%s): %w", i+1, l.Name, err)
		}
		if class, zero := r.zeroFailure(ctx, rec, err); zero {
			r.settleAsZero(rec, c.all, class, "the failure to score counts as 0: "+err.Error())
			return true, nil
		}
		r.classifyRewardFailure(ctx, rec, c.all, err)
		return true, err
	}
	c.scores = append(c.scores, score)
	return false, nil
}

// settleLegs makes one score of those of the legs.
func (r *Runner) settleLegs(c *course) error {
	score := c.scores[0]
	if c.legs[0].staged {
		score = r.opts.Environment.(Stager).CombineStages(c.a.group.item, c.scores)
		if err := finiteScore(score); err != nil {
			r.fail(c.rec, trajectories.OutcomeVerifierError, classVerifier, err)
			return err
		}
	}
	r.applyScore(c.rec, c.all, score)
	return nil
}
