package env

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"iter"

	"github.com/hermes-env/hermes-env/agentloop"
	"github.com/hermes-env/hermes-env/agentloop/chat"
	"github.com/hermes-env/hermes-env/toolcontext"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
	"github.com/hermes-env/hermes-env/toolcontext/tools"
	"github.com/hermes-env/hermes-env/trajectories"
)

// Environment is what a user implements. The Runner calls Setup once, then
// NextItem from one goroutine; FormatPrompt and Reward are called from many
// goroutines at once and must not share state without protecting it.
type Environment interface {
	// Name is the environment's name in configs and results.
	Name() string
	// Setup loads data and checks prerequisites.
	Setup(ctx context.Context) error
	// NextItem returns the next item to work on, or io.EOF when there is none.
	// The sequence must be the same in every process, or a run can't be resumed.
	NextItem(ctx context.Context) (Item, error)
	// FormatPrompt returns the messages a rollout starts with.
	FormatPrompt(item Item) ([]chat.Message, error)
	// Reward scores a finished rollout, in the sandbox the agent used. An error is
	// the verifier's failure, not the agent's: the rollout stays unscored.
	Reward(ctx context.Context, item Item, result *agentloop.Result, tc *toolcontext.Context) (Score, error)
}

// Evaluator has a held-out set for evaluate. Without it evaluate takes the items
// of NextItem until io.EOF or until the first item comes round again.
type Evaluator interface {
	EvalItems(ctx context.Context) iter.Seq2[Item, error]
}

// Aggregator adds metrics of its own to the mean, error bar and outcome counts. The
// records are read from disk, and may be asked for more than once.
type Aggregator interface {
	Aggregate(records iter.Seq[Record]) []Metric
}

// SandboxSpecifier says what sandbox an item needs.
type SandboxSpecifier interface {
	Sandbox(item Item) (sandbox.Spec, error)
}

// Oracle can carry out an item's reference solution in place of a model. A
// sound environment scores 1 after it.
type Oracle interface {
	Oracle(ctx context.Context, item Item, tc *toolcontext.Context) error
}

// AnswerOracle is an Oracle whose solution, or a part of it, is the text of an answer: for
// environments that score what the agent says. OracleAnswer does what has to be done in
// the sandbox and returns the answer, which ends the conversation as a model's would; ""
// adds none. An environment that has it needs no Oracle.
type AnswerOracle interface {
	OracleAnswer(ctx context.Context, item Item, tc *toolcontext.Context) (string, error)
}

// Responder replies to the agent's answers: a user that is played, a game, a check with
// another try. Respond is called after each answer without tool calls, with all that
// happened so far; the messages it returns go on with the conversation, none ends it and
// leads to Reward. The limits of a rollout end it too. An error ends the rollout as an
// environment_error, or as a sandbox_error if a method of tc failed because the sandbox
// did.
//
// Respond is called from many goroutines at once. What it has to remember of a rollout is
// in soFar.Messages and in the sandbox; a value of the environment would be shared.
type Responder interface {
	Respond(ctx context.Context, item Item, soFar *agentloop.Result, tc *toolcontext.Context) ([]chat.Message, error)
}

// ToolProvider adds tools of its own to the built-in ones.
type ToolProvider interface {
	Tools() []tools.Tool
}

// Item is one row of a dataset.
type Item struct {
	ID     string // stable and unique within the dataset; the key of resume
	Digest string // content digest; "" means that the Runner computes it from Value
	// NameDigest is the digest that earlier versions recorded for the item although it
	// covers only its name; usually "". A rollout recorded with it is kept, with a warning
	// that its content could not be compared.
	NameDigest string
	Value      any // the environment's own data
}

// NewItem returns an item whose digest is that of value's JSON encoding.
func NewItem(id string, value any) (Item, error) {
	it := Item{ID: id, Value: value}
	return it, it.fillDigest()
}

func (it *Item) fillDigest() error {
	if it.ID == "" {
		return fmt.Errorf("an item has no id")
	}
	if it.Digest != "" {
		return nil
	}
	encoded, err := chat.Marshal(it.Value)
	if err != nil {
		return fmt.Errorf("digest of item %q: encode its value: %w (set Item.Digest if the value can't be encoded)", it.ID, err)
	}
	sum := sha256.Sum256(encoded)
	it.Digest = "sha256:" + hex.EncodeToString(sum[:])
	return nil
}

// Score is a verifier's judgement of one rollout.
type Score struct {
	Value  float64            // the reward, finite
	Passed *bool              // nil: passed when Value reaches env.pass_threshold
	Parts  map[string]float64 // named components, recorded beside the score
	// Details is a JSON object with what the verifier found, recorded in
	// metadata.verifier; nil: nothing.
	Details json.RawMessage
	// Stop leaves out the stages that would follow; see Stager.
	Stop bool
	// Tampering is what the agent did to the verification. With an active entry
	// env.on_tampering decides what becomes of the score.
	Tampering []trajectories.Tampering
}
