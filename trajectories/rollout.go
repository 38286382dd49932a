package trajectories

import (
	"encoding/json"
	"time"

	"github.com/hermes-env/hermes-env/agentloop/chat"
)

// Rollout is the record of one finished rollout, one line of rollouts.jsonl. Its
// fields are written in the order given here; docs/formats.md describes them.
type Rollout struct {
	ID         string // unique in the run
	ItemID     string // stable name of the dataset row
	ItemDigest string // of the row's content; a changed digest means another item
	Step       int    // number of the step it belongs to, from 0
	Group      int    // number of the group (of the prompt) in the run, from 0
	Attempt    int    // number of the rollout among those of its item and step, from 0

	Outcome    Outcome
	Score      *float64    // nil when there is none; an unscored outcome never has one
	Passed     *bool       // nil when the environment draws no line
	ScoreParts []ScorePart // what the score is made of; left out when empty
	Tampering  []Tampering // what the agent did to its verification, at most MaxTampering; left out when empty

	StopReason string   // why the agent loop ended, in the loop's words
	Error      *Failure // what went wrong, nil when nothing did
	Model      string   // name of the model as the server knows it

	TurnsUsed         int  // model calls made
	FinishedNaturally bool // the model ended by itself, no limit cut it off

	Tools      []string // names of the tools offered to the model, in order
	Toolsets   []string // names of the toolsets they came from
	ToolErrors []ToolError
	// ToolCalls is how many calls the model made, InvalidToolCalls how many of them could
	// not run. They are recorded with rollouts without a score, for a later session to score.
	ToolCalls, InvalidToolCalls int
	Usage                       chat.Usage // tokens of all turns together
	Spend                       *Spend     // all model calls made for the rollout; nil in records of versions that did not count them
	Timings                     Timings
	Sandbox                     *Sandbox // nil when the rollout had none
	Retries                     int      // model requests that had to be repeated

	StartedAt  time.Time
	FinishedAt time.Time

	Sequences    []TokenSequence // of a token-exact session, one per branch; left out when empty
	NotTrainable string          // why the tokens of the rollout are incomplete; left out when ""

	Metadata json.RawMessage // a JSON object of the environment's own; left out when nil
	Messages []chat.Message  // the whole conversation
}

// ScorePart is one named part of a score, in the units of the environment.
type ScorePart struct {
	Name  string
	Value float64
}

// Failure says what went wrong in a rollout.
type Failure struct {
	Class   string // short and stable, to count by
	Message string // for people
}

// ToolError is a tool call that failed inside the harness rather than in the sandbox.
type ToolError struct {
	Turn      int // from 1
	Tool      string
	Arguments string // the JSON text the model wrote
	Error     string
	Result    string // what the model was told
}

// Timings says where the time of a rollout went, in seconds.
type Timings struct {
	Total   float64
	Model   float64 // waiting for the model
	Held    float64 // of Model and Verify: held back by the rates of servers, on no time limit's account
	Tools   float64 // inside tool calls
	Sandbox float64 // creating and closing the sandbox
	Verify  float64 // inside the verifier
	Harness float64 // everything else: what the harness itself costs
	Turns   []TurnTiming
}

// TurnTiming says where the time (seconds) and the tokens of one turn went.
type TurnTiming struct {
	Model            float64
	Tools            float64
	Total            float64
	PromptTokens     int64
	CompletionTokens int64
	FinishReason     string
}

// Sandbox names what the rollout ran in.
type Sandbox struct {
	Backend string // local, docker, …
	Image   string // as asked for; empty for backends without images
	Digest  string // content digest of the image, when known
	Events  []SandboxEvent
}

// SandboxEvent is something that happened to a sandbox beside the commands run in it.
type SandboxEvent struct {
	Kind   string // restarted, ended or server
	Text   string // what happened, and why
	Inside bool   // what ran in the sandbox is the cause, not something outside of it
	Lost   bool   // processes, or what was kept in memory, were lost
	Try    int    // of the rollout, from 1
	Time   time.Time
}

// Kinds of events with which a sandbox ended: it was started again with its files, or not.
const (
	SandboxRestarted = "restarted"
	SandboxEnded     = "ended"
)

func (e SandboxEvent) ends() bool { return e.Kind == SandboxRestarted || e.Kind == SandboxEnded }

// SandboxEnds returns how often the rollout's sandboxes ended before it did.
func (r *Rollout) SandboxEnds() int {
	if r.Sandbox == nil {
		return 0
	}
	n := 0
	for _, e := range r.Sandbox.Events {
		if e.ends() {
			n++
		}
	}
	return n
}

// Key names a rollout's place in the run; a run holds one finished rollout per key.
type Key struct {
	ItemID  string
	Step    int
	Attempt int
}

// Key returns the rollout's place in the run.
func (r *Rollout) Key() Key { return Key{r.ItemID, r.Step, r.Attempt} }

// HasModelTurn says whether the model spoke: any message has the role assistant.
func (r *Rollout) HasModelTurn() bool {
	for _, m := range r.Messages {
		if m.Role() == chat.RoleAssistant {
			return true
		}
	}
	return false
}

// Trained says whether the rollout has a line in trajectories.jsonl.
func (r *Rollout) Trained() bool { return r.Outcome.Trained() && r.HasModelTurn() }
