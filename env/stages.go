package env

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/hermes-env/hermes-env/agentloop"
	"github.com/hermes-env/hermes-env/agentloop/chat"
	"github.com/hermes-env/hermes-env/agentloop/model"
	"github.com/hermes-env/hermes-env/toolcontext"
	"github.com/hermes-env/hermes-env/trajectories"
)

// Limits are how one item is run where it differs from the configuration. Zero
// fields leave it to the configuration.
type Limits struct {
	// Agent is the wall clock the agent has; when env.rollout_timeout is set as well
	// the shorter one counts. When it is up the agent's processes are killed, and
	// Reward is called all the same.
	Agent time.Duration
	// Verify bounds one call of Reward in place of env.verify_timeout.
	Verify time.Duration
	// KeepProcesses lets what the agent left running live on while Reward runs, for
	// items whose result is a running service. It then can act during verification.
	KeepProcesses bool
	// KeepServices lets those of them live on that are services (sandbox.ServiceKeeper);
	// so does KeepProcesses when the agent's time was up.
	KeepServices bool
}

// Limiter gives items limits of their own.
type Limiter interface {
	Limits(item Item) Limits
}

// Preparer puts into a fresh sandbox what an item needs there before the agent
// starts. The sandbox is then made at once instead of on first use. Its error is
// the sandbox's failure.
type Preparer interface {
	Prepare(ctx context.Context, item Item, tc *toolcontext.Context) error
}

// Describer says what to record of an item beside its rollouts: a JSON object that
// becomes the metadata of each.
type Describer interface {
	Describe(item Item) json.RawMessage
}

// Stage is one of the parts an item is worked on in, one after the other in the same
// sandbox, each with its own prompt and its own score.
type Stage struct {
	Name   string
	Prompt []chat.Message
	// Continue appends the prompt to the conversation so far; otherwise a new one starts.
	Continue bool
	Limits   Limits
}

// Stager has items that consist of stages.
type Stager interface {
	// Stages returns the stages of an item; none for an ordinary one, for which
	// FormatPrompt and Reward are called.
	Stages(item Item) ([]Stage, error)
	// StageReward scores a stage after the agent has worked on it.
	StageReward(ctx context.Context, item Item, stage int, result *agentloop.Result, tc *toolcontext.Context) (Score, error)
	// CombineStages makes one score of those of the stages, which are fewer than there
	// are stages when one of them was the last (Score.Stop).
	CombineStages(item Item, scores []Score) Score
}

// StagePreparer puts into the sandbox what a stage needs there, before the agent works
// on it. Its error is the sandbox's failure.
type StagePreparer interface {
	PrepareStage(ctx context.Context, item Item, stage int, tc *toolcontext.Context) error
}

// StageOracle has reference solutions for stages; an Oracle without it is called
// for the first stage only.
type StageOracle interface {
	OracleStage(ctx context.Context, item Item, stage int, tc *toolcontext.Context) error
}

// VerifierError is a failure to score that has a name of its own.
type VerifierError struct {
	Class string // short and stable, becomes the class of the recorded error
	// Infrastructure says that neither the agent nor the verifier is at fault: the
	// rollout is a sandbox_error, which is tried again, instead of a verifier_error.
	Infrastructure bool
	Err            error           // for people
	Details        json.RawMessage // a JSON object recorded in metadata.verifier; nil: nothing
	// Tampering is what the agent did to the verification. With env.on_tampering zero an
	// error that has an active entry, or is of the class ClassTampered with any, is a
	// score of 0, unless it is of the infrastructure.
	Tampering []trajectories.Tampering
	// Agent says that code of the agent's ran when the verifier failed, so that the failure
	// can be its doing. With env.on_tampering zero it is a score of 0 as well.
	Agent bool
}

// Error returns the text for people.
func (e *VerifierError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *VerifierError) Unwrap() error { return e.Err }

// leg is a stage as the runner carries it out; an ordinary item has one.
type leg struct {
	Stage
	staged bool
	client model.Client // who acts, nil without a model
	// session is the client if that is token-exact.
	session model.Session
	oracle  func(context.Context, *toolcontext.Context) (answer string, err error)
	reply   func(context.Context, *agentloop.Result, *toolcontext.Context) ([]chat.Message, error) // nil: answers end the stage
	forge   func(context.Context, *toolcontext.Context) error                                      // for AgentForger
	reward  func(context.Context, *agentloop.Result, *toolcontext.Context) (Score, error)
}

// legs returns what a rollout of an item consists of.
func (r *Runner) legs(item Item) ([]leg, error) {
	e := r.opts.Environment
	staged, isStager := e.(Stager)
	var stages []Stage
	if isStager {
		var err error
		if stages, err = staged.Stages(item); err != nil {
			return nil, fmt.Errorf("stages of item %q: %w", item.ID, err)
		}
	}
	if len(stages) == 0 {
		messages, err := r.prompt(item)
		if err != nil {
			return nil, err
		}
		l := leg{Stage: Stage{Prompt: messages}}
		if limiter, ok := e.(Limiter); ok {
			l.Limits = limiter.Limits(item)
		}
		l.oracle = r.itemOracle(item)
		if responder, ok := e.(Responder); ok {
			l.reply = func(ctx context.Context, soFar *agentloop.Result, tc *toolcontext.Context) ([]chat.Message, error) {
				return responder.Respond(ctx, item, soFar, tc)
			}
		}
		l.reward = func(ctx context.Context, result *agentloop.Result, tc *toolcontext.Context) (Score, error) {
			return e.Reward(ctx, item, result, tc)
		}
		return []leg{l}, nil
	}
	legs := make([]leg, len(stages))
	for i, s := range stages {
		if len(s.Prompt) == 0 {
			return nil, fmt.Errorf("stages of item %q: stage %d has no prompt", item.ID, i+1)
		}
		if !s.Continue || i == 0 {
			s.Prompt = r.withSystemPrompt(s.Prompt)
		}
		legs[i] = leg{Stage: s, staged: true, oracle: r.stageOracle(item, i), reward: func(ctx context.Context, result *agentloop.Result, tc *toolcontext.Context) (Score, error) {
			return staged.StageReward(ctx, item, i, result, tc)
		}}
	}
	return legs, nil
}

// itemOracle returns what carries out an item's solution, nil without one.
func (r *Runner) itemOracle(item Item) func(context.Context, *toolcontext.Context) (string, error) {
	switch o := r.opts.Environment.(type) {
	case AnswerOracle:
		return func(ctx context.Context, tc *toolcontext.Context) (string, error) {
			return o.OracleAnswer(ctx, item, tc)
		}
	case Oracle:
		return func(ctx context.Context, tc *toolcontext.Context) (string, error) { return "", o.Oracle(ctx, item, tc) }
	}
	return nil
}

func (r *Runner) stageOracle(item Item, stage int) func(context.Context, *toolcontext.Context) (string, error) {
	if s, ok := r.opts.Environment.(StageOracle); ok {
		return func(ctx context.Context, tc *toolcontext.Context) (string, error) {
			return "", s.OracleStage(ctx, item, stage, tc)
		}
	}
	whole := r.itemOracle(item)
	if whole == nil || stage == 0 {
		return whole
	}
	return func(context.Context, *toolcontext.Context) (string, error) { return "", nil }
}

// withSystemPrompt puts the configured system prompt first unless the environment
// sends one of its own.
func (r *Runner) withSystemPrompt(messages []chat.Message) []chat.Message {
	if text := r.opts.Config.SystemPrompt; text != "" && messages[0].Role() != chat.RoleSystem {
		messages = append([]chat.Message{chat.System(text)}, messages...)
	}
	return withThinkingPrompt(r.opts.Config.Reasoning.Prompt(), messages)
}

// withThinkingPrompt puts a text before all else that the system message says, whoever
// wrote that.
func withThinkingPrompt(text string, messages []chat.Message) []chat.Message {
	if text == "" {
		return messages
	}
	rest := messages
	if messages[0].Role() == chat.RoleSystem {
		if system := strings.TrimSpace(messages[0].Text()); system != "" {
			text = strings.TrimRight(text, "\n") + "\n\n" + messages[0].Text()
		}
		rest = messages[1:]
	}
	return append([]chat.Message{chat.System(text)}, rest...)
}

// joinResults makes one result of what the agent did in two stages. The
// conversation is written down as one, without a repeated system message.
func joinResults(all, next *agentloop.Result, continued bool) *agentloop.Result {
	if all == nil {
		return next
	}
	joined := *all
	if continued {
		joined.Messages = next.Messages
	} else {
		more := next.Messages
		if len(more) > 0 && len(all.Messages) > 0 && more[0].Role() == chat.RoleSystem && all.Messages[0].Role() == chat.RoleSystem {
			more = more[1:]
		}
		joined.Messages = append(append([]chat.Message(nil), all.Messages...), more...)
	}
	joined.TurnsUsed += next.TurnsUsed
	joined.FinishedNaturally = all.FinishedNaturally && next.FinishedNaturally
	joined.ReasoningPerTurn = append(append([]string(nil), all.ReasoningPerTurn...), next.ReasoningPerTurn...)
	joined.ToolErrors = append([]agentloop.ToolError(nil), all.ToolErrors...)
	for _, e := range next.ToolErrors {
		e.Turn += all.TurnsUsed
		joined.ToolErrors = append(joined.ToolErrors, e)
	}
	joined.ToolCalls += next.ToolCalls
	joined.InvalidToolCalls += next.InvalidToolCalls
	if !all.StopReason.Limit() || !next.FinishedNaturally {
		joined.StopReason = next.StopReason
	}
	joined.Usage = all.Usage.Add(next.Usage)
	joined.Sequences = next.Sequences // one session lasts for all stages
	joined.Turns = append(append([]agentloop.Turn(nil), all.Turns...), next.Turns...)
	return &joined
}

// stageRecord is what metadata.stages says of each stage.
type stageRecord struct {
	Name       string          `json:"name"`
	Message    int             `json:"message"` // index of its first message
	Turns      int             `json:"turns_used"`
	StopReason string          `json:"stop_reason"`
	Score      *float64        `json:"score"`
	Verifier   json.RawMessage `json:"verifier,omitempty"`
}

// metadata joins what the environment says of an item, what the verifier found and
// how the stages went into one JSON object.
func metadata(item, verifier json.RawMessage, stages []stageRecord) (json.RawMessage, error) {
	var object chat.Object
	if len(item) > 0 {
		var err error
		if object, err = chat.ParseObject(item); err != nil {
			return nil, fmt.Errorf("the environment's description of the item: %w", err)
		}
	}
	if len(verifier) > 0 {
		object.Set("verifier", verifier)
	}
	if len(stages) > 0 {
		encoded, err := chat.Marshal(stages)
		if err != nil {
			return nil, err
		}
		object.Set("stages", encoded)
	}
	if len(object) == 0 {
		return nil, nil
	}
	return chat.Marshal(object)
}

// detailsOf returns what a failed verification has to say beyond its error.
func detailsOf(err error) json.RawMessage {
	var failure *VerifierError
	if errors.As(err, &failure) {
		return failure.Details
	}
	return nil
}
