package agentloop

import (
	"time"

	"github.com/hermes-env/hermes-env/agentloop/chat"
	"github.com/hermes-env/hermes-env/agentloop/model"
)

// StopReason says why a loop ended.
type StopReason string

// Why a loop ends. The first group ends with an answer, the second at a limit,
// the third by failure.
const (
	StopNatural       StopReason = "natural"        // the model answered without tool calls
	StopEmpty         StopReason = "empty"          // the answer had neither text nor calls
	StopRefusal       StopReason = "refusal"        // the model or its provider refused
	StopContentFilter StopReason = "content_filter" // the provider cut the answer

	StopTurnLimit     StopReason = "turn_limit"
	StopTokenLimit    StopReason = "token_limit"
	StopTimeLimit     StopReason = "time_limit"
	StopAnswerCut     StopReason = "length"         // the final answer hit the completion limit
	StopContextLength StopReason = "context_length" // the conversation no longer fits the model

	StopModelError   StopReason = "model_error"
	StopSandboxError StopReason = "sandbox_error"
	StopCancelled    StopReason = "cancelled"
)

// Limit says whether the reason is a limit that ran out.
func (s StopReason) Limit() bool {
	switch s {
	case StopTurnLimit, StopTokenLimit, StopTimeLimit, StopAnswerCut, StopContextLength:
		return true
	}
	return false
}

// ToolError records a call that did not run or whose tool failed. Texts are cut
// as in the original framework: arguments to 200 characters, the result to 500.
type ToolError struct {
	Turn      int    `json:"turn"` // 1-based
	Tool      string `json:"tool_name"`
	Arguments string `json:"arguments"`
	Error     string `json:"error"`
	Result    string `json:"tool_result"`
}

// Turn is what one turn cost: one model call and the tool calls it led to.
type Turn struct {
	Model        time.Duration // waiting for the model, queue and retries included
	Queue        time.Duration // part of Model spent in queues and back-off
	Held         time.Duration // part of Model in which the rates of servers held the request back; no time limit counts it
	Tools        time.Duration // executing tool calls
	Total        time.Duration // the whole turn; the rest is the harness
	ToolCalls    int
	FinishReason string
	Usage        chat.Usage
}

// Result is a loop's outcome. Messages always form a valid conversation: every
// tool call has its result.
type Result struct {
	Messages          []chat.Message
	Sequences         []model.Sequence // tokens so far of a token-exact session, nil without one
	TurnsUsed         int              // model calls attempted, a failing last one included
	FinishedNaturally bool             // the model answered without tool calls
	ReasoningPerTurn  []string         // one entry per answer, "" when it had none
	ToolErrors        []ToolError
	ToolCalls         int // calls the model made
	InvalidToolCalls  int // calls that could not run: unknown tool, broken or cut arguments
	StopReason        StopReason
	Usage             chat.Usage // over all turns
	Turns             []Turn
}

// FinalText returns the text of the last assistant message, or "".
func (r *Result) FinalText() string {
	for i := len(r.Messages) - 1; i >= 0; i-- {
		if r.Messages[i].Role() == chat.RoleAssistant {
			return r.Messages[i].Text()
		}
	}
	return ""
}
