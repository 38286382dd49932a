package atif

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/hermes-env/hermes-env/agentloop/chat"
)

// Version is the schema version this package writes.
const Version = "ATIF-v1.7"

// Source says who a step comes from.
type Source string

// The sources of a step.
const (
	SourceSystem Source = "system"
	SourceUser   Source = "user"
	SourceAgent  Source = "agent"
)

// Trajectory is one ATIF document. Members it does not name are ignored when
// reading.
type Trajectory struct {
	SchemaVersion          string          `json:"schema_version"`
	SessionID              string          `json:"session_id,omitempty"`    // of the run; required before version 1.7
	TrajectoryID           string          `json:"trajectory_id,omitempty"` // of this document, since 1.7
	Agent                  Agent           `json:"agent"`
	Steps                  []Step          `json:"steps"` // at least one, numbered from 1
	Notes                  string          `json:"notes,omitempty"`
	FinalMetrics           *FinalMetrics   `json:"final_metrics,omitempty"`
	ContinuedTrajectoryRef string          `json:"continued_trajectory_ref,omitempty"` // the next file of the chain
	Extra                  json.RawMessage `json:"extra,omitempty"`                    // a JSON object
	SubagentTrajectories   []Trajectory    `json:"subagent_trajectories,omitempty"`    // since 1.7
}

// Agent says who acted.
type Agent struct {
	Name            string          `json:"name"`
	Version         string          `json:"version"`
	ModelName       string          `json:"model_name,omitempty"`
	ToolDefinitions json.RawMessage `json:"tool_definitions,omitempty"` // a JSON array of objects
	Extra           json.RawMessage `json:"extra,omitempty"`
}

// Step is one turn of the system, the user or the agent. ModelName,
// ReasoningEffort, ReasoningContent, ToolCalls and Metrics belong to agent steps only.
type Step struct {
	StepID           int             `json:"step_id"`             // 1, 2, 3, … without gaps
	Timestamp        string          `json:"timestamp,omitempty"` // ISO 8601
	Source           Source          `json:"source"`
	ModelName        string          `json:"model_name,omitempty"`
	ReasoningEffort  json.RawMessage `json:"reasoning_effort,omitempty"` // a string or a number
	Message          Content         `json:"message"`
	ReasoningContent string          `json:"reasoning_content,omitempty"`
	ToolCalls        []ToolCall      `json:"tool_calls,omitempty"`
	Observation      *Observation    `json:"observation,omitempty"`
	Metrics          *Metrics        `json:"metrics,omitempty"`
	IsCopiedContext  bool            `json:"is_copied_context,omitempty"` // came with the prompt, was not generated in this run
	LLMCallCount     *int            `json:"llm_call_count,omitempty"`    // model calls behind this step; 0: no model was asked
	Extra            json.RawMessage `json:"extra,omitempty"`
}

// ToolCall is one call of a tool; its id is unique within the step.
type ToolCall struct {
	ID           string          `json:"tool_call_id"`
	FunctionName string          `json:"function_name"`
	Arguments    json.RawMessage `json:"arguments"` // a JSON object
	Extra        json.RawMessage `json:"extra,omitempty"`
}

// Observation is what the environment answered to a step.
type Observation struct {
	Results []ObservationResult `json:"results"`
}

// ObservationResult is one answer. SourceCallID names a call of the same step, and
// is empty where the answer belongs to none.
type ObservationResult struct {
	SourceCallID          string          `json:"source_call_id,omitempty"`
	Content               *Content        `json:"content,omitempty"`
	SubagentTrajectoryRef []SubagentRef   `json:"subagent_trajectory_ref,omitempty"`
	Extra                 json.RawMessage `json:"extra,omitempty"`
}

// SubagentRef points to the trajectory of a subagent.
type SubagentRef struct {
	TrajectoryID   string          `json:"trajectory_id,omitempty"`
	SessionID      string          `json:"session_id,omitempty"`
	TrajectoryPath string          `json:"trajectory_path,omitempty"`
	Extra          json.RawMessage `json:"extra,omitempty"`
}

// Metrics counts the tokens and the money of one model call. PromptTokens includes
// CachedTokens.
type Metrics struct {
	PromptTokens       *int64          `json:"prompt_tokens,omitempty"`
	CompletionTokens   *int64          `json:"completion_tokens,omitempty"`
	CachedTokens       *int64          `json:"cached_tokens,omitempty"`
	CostUSD            *float64        `json:"cost_usd,omitempty"`
	PromptTokenIDs     json.RawMessage `json:"prompt_token_ids,omitempty"`     // a JSON array of integers
	CompletionTokenIDs json.RawMessage `json:"completion_token_ids,omitempty"` // a JSON array of integers
	Logprobs           json.RawMessage `json:"logprobs,omitempty"`             // a JSON array of numbers
	Extra              json.RawMessage `json:"extra,omitempty"`
}

// FinalMetrics adds up the metrics of all steps.
type FinalMetrics struct {
	TotalPromptTokens     *int64          `json:"total_prompt_tokens,omitempty"`
	TotalCompletionTokens *int64          `json:"total_completion_tokens,omitempty"`
	TotalCachedTokens     *int64          `json:"total_cached_tokens,omitempty"`
	TotalCostUSD          *float64        `json:"total_cost_usd,omitempty"`
	TotalSteps            *int            `json:"total_steps,omitempty"`
	Extra                 json.RawMessage `json:"extra,omitempty"`
}

// JSON returns the document as Harbor writes it: indented by two spaces, with a
// newline at the end.
func (t *Trajectory) JSON() ([]byte, error) {
	compact, err := chat.Marshal(t)
	if err != nil {
		return nil, fmt.Errorf("encode ATIF trajectory %q: %w", t.TrajectoryID, err)
	}
	var out bytes.Buffer
	if err := json.Indent(&out, compact, "", "  "); err != nil {
		return nil, fmt.Errorf("encode ATIF trajectory %q: %w", t.TrajectoryID, err)
	}
	out.WriteByte('\n')
	return out.Bytes(), nil
}

// Decode reads a document of any version 1.x. It fails on what Validate calls a
// problem; members it does not know are ignored.
func Decode(raw []byte) (*Trajectory, error) {
	raw = bytes.TrimPrefix(raw, []byte("\xef\xbb\xbf"))
	if problems := Validate(raw, Options{}); len(problems) > 0 {
		return nil, &Error{Problems: problems}
	}
	var t Trajectory
	if err := json.Unmarshal(raw, &t); err != nil {
		return nil, fmt.Errorf("decode ATIF trajectory: %w", err)
	}
	return &t, nil
}
