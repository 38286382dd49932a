package env

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hermes-env/hermes-env/agentloop"
	"github.com/hermes-env/hermes-env/agentloop/chat"
	"github.com/hermes-env/hermes-env/toolcontext"
)

// Agent names who acts in a rollout.
type Agent string

// The agents: a model, the environment's reference solution, or nobody.
const (
	AgentModel  Agent = "model"
	AgentOracle Agent = "oracle"
	AgentNop    Agent = "nop"
)

// act lets the agent work on an item. Like agentloop.Run it always returns a
// Result; the error tells of an endpoint, a sandbox or an oracle that failed.
func (r *Runner) act(ctx context.Context, c *course, l *leg, messages []chat.Message) (*agentloop.Result, error) {
	if c.stored != nil {
		return r.actStored(ctx, c.a.group.item, c.stored, len(l.Prompt), c.tc)
	}
	limit := shorter(r.opts.Config.RolloutTimeout.Duration(), l.Limits.Agent)
	switch r.opts.Agent {
	case AgentNop:
		return &agentloop.Result{Messages: messages, StopReason: agentloop.StopNatural, FinishedNaturally: true}, nil
	case AgentOracle:
		return r.actOracle(ctx, l, limit, messages, c.tc)
	case AgentForger:
		return r.actForger(ctx, l, limit, messages, c.tc)
	}
	return agentloop.Run(ctx, *r.loopConfig(c, l, limit), messages)
}

// loopConfig says how the agent's conversation goes.
func (r *Runner) loopConfig(course *course, l *leg, limit time.Duration) *agentloop.Config {
	c, tc := &r.opts.Config, course.tc
	temperature := c.AgentTemperature
	cfg := &agentloop.Config{
		Model: l.client,
		Tools: limitedTools{Tools: tc, slots: r.toolSlots},
		Stop: []agentloop.StopCondition{
			agentloop.MaxTurns(c.MaxAgentTurns),
			agentloop.MaxTokens(int64(c.RolloutTokenLimit)),
			agentloop.MaxElapsed(limit),
		},
		Timeout:     limit,
		Temperature: &temperature,
		MaxTokens:   c.MaxTokenLength,
		Extra:       r.extra,
		Affinity:    course.rec.ID,
		Budget: agentloop.Budget{
			ResultChars:  c.DefaultResultSizeChars,
			TurnChars:    c.TurnBudgetChars,
			PreviewChars: c.PreviewSizeChars,
			Overrides:    c.ToolResultOverrides,
		},
		Parser:        r.parser,
		TextCalls:     r.textCalls(),
		ParallelTools: c.ParallelToolCalls,
		GraceTurn:     c.GraceTurn,
	}
	if l.reply != nil {
		cfg.Reply = func(ctx context.Context, soFar *agentloop.Result) ([]chat.Message, error) {
			return l.reply(ctx, soFar, tc)
		}
	}
	return cfg
}

// textCalls says when the text of answers is parsed for tool calls.
func (r *Runner) textCalls() agentloop.TextCalls {
	switch {
	case r.opts.Config.ParseToolCalls == "never":
		return agentloop.TextCallsNever
	case r.opts.Config.ParseToolCalls == "always", r.opts.RawText:
		return agentloop.TextCallsAlways
	}
	return agentloop.TextCallsAuto
}

// shorter returns the shorter of two limits; 0 is none.
func shorter(a, b time.Duration) time.Duration {
	switch {
	case a == 0:
		return b
	case b == 0:
		return a
	}
	return min(a, b)
}

var errRolloutTimeout = errors.New("the time limit of the rollout is reached")

func (r *Runner) actOracle(ctx context.Context, l *leg, limit time.Duration, messages []chat.Message, tc *toolcontext.Context) (*agentloop.Result, error) {
	answer := ""
	result, err := r.actInPlace(ctx, func(ctx context.Context, tc *toolcontext.Context) (err error) {
		answer, err = l.oracle(ctx, tc)
		return err
	}, limit, messages, tc)
	if err != nil {
		return result, fmt.Errorf("reference solution: %w", err)
	}
	if answer != "" && result.FinishedNaturally {
		result.Messages = append(slices.Clone(result.Messages), chat.Assistant(answer, ""))
	}
	return result, nil
}

// actInPlace runs what acts in place of a model, within its time.
func (r *Runner) actInPlace(ctx context.Context, act func(context.Context, *toolcontext.Context) error, limit time.Duration, messages []chat.Message, tc *toolcontext.Context) (*agentloop.Result, error) {
	result := &agentloop.Result{Messages: messages, StopReason: agentloop.StopNatural, FinishedNaturally: true}
	if limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, limit, errRolloutTimeout)
		defer cancel()
	}
	started := time.Now()
	err := act(ctx, tc)
	result.Turns = []agentloop.Turn{{Tools: time.Since(started), Total: time.Since(started)}}
	if err == nil {
		return result, nil
	}
	if errors.Is(context.Cause(ctx), errRolloutTimeout) {
		result.StopReason, result.FinishedNaturally = agentloop.StopTimeLimit, false
		return result, nil
	}
	return result, err
}
