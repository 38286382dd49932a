package atif

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"github.com/hermes-env/hermes-env/agentloop/chat"
	"github.com/hermes-env/hermes-env/trajectories"
)

// Config says what a rollout does not know about itself.
type Config struct {
	AgentName       string          // "" means hermes-env
	AgentVersion    string          // "" means unknown
	ToolDefinitions json.RawMessage // of the run's tools, as in a request; nil leaves them out
	CostUSD         *float64        // of the whole rollout; nil when no prices are known
	// SaveImage stores an image that a message carries in itself and returns its
	// path relative to the document. nil replaces such images by a note.
	SaveImage func(name, mediaType string, data []byte) (path string, err error)
}

// Loss counts what a document could not carry.
type Loss struct {
	What  string
	Count int
}

// FromRollout converts a recorded rollout. Steps that were part of the prompt
// (few-shot examples, prefill) are marked as copied context: they are those up to
// the last assistant message that no model call of the rollout made.
func FromRollout(r *trajectories.Rollout, config Config) (*Trajectory, []Loss, error) {
	c := converter{rollout: r, config: config}
	if c.config.AgentName == "" {
		c.config.AgentName = "hermes-env"
	}
	if c.config.AgentVersion == "" {
		c.config.AgentVersion = "unknown"
	}
	if err := c.steps(); err != nil {
		return nil, nil, fmt.Errorf("convert rollout %s of item %q to ATIF: %w", r.ID, r.ItemID, err)
	}
	extra, err := c.rootExtra()
	if err != nil {
		return nil, nil, fmt.Errorf("convert rollout %s of item %q to ATIF: %w", r.ID, r.ItemID, err)
	}
	t := &Trajectory{
		SchemaVersion: Version, SessionID: r.ID, TrajectoryID: r.ID,
		Agent:        Agent{Name: c.config.AgentName, Version: c.config.AgentVersion, ModelName: r.Model, ToolDefinitions: c.tools()},
		Steps:        c.list,
		FinalMetrics: c.finalMetrics(),
		Extra:        extra,
	}
	return t, c.losses, nil
}

type converter struct {
	rollout *trajectories.Rollout
	config  Config
	list    []Step
	losses  []Loss
	images  int
}

func (c *converter) lose(what string) {
	i := slices.IndexFunc(c.losses, func(l Loss) bool { return l.What == what })
	if i < 0 {
		c.losses = append(c.losses, Loss{What: what})
		i = len(c.losses) - 1
	}
	c.losses[i].Count++
}

// copied returns how many leading messages came with the prompt because a later
// one of them is an assistant message that no model call made.
func (c *converter) copied() int {
	assistants := 0
	for _, m := range c.rollout.Messages {
		if m.Role() == chat.RoleAssistant {
			assistants++
		}
	}
	given := assistants - c.rollout.TurnsUsed
	if given <= 0 {
		return 0
	}
	for i, m := range c.rollout.Messages {
		if m.Role() != chat.RoleAssistant {
			continue
		}
		if given--; given == 0 {
			end := i + 1
			for end < len(c.rollout.Messages) && c.rollout.Messages[end].Role() == chat.RoleTool {
				end++
			}
			return end
		}
	}
	return 0
}

func (c *converter) steps() error {
	messages := c.rollout.Messages
	copied, turn := c.copied(), 0
	for i := 0; i < len(messages); {
		m := messages[i]
		step := Step{StepID: len(c.list) + 1, IsCopiedContext: i < copied}
		if len(c.list) == 0 && !c.rollout.StartedAt.IsZero() {
			step.Timestamp = c.rollout.StartedAt.UTC().Format("2006-01-02T15:04:05.000Z07:00")
		}
		content, err := c.content(m)
		if err != nil {
			return fmt.Errorf("message %d: %w", i, err)
		}
		step.Message = content
		step.Source = SourceSystem
		i++
		switch m.Role() {
		case chat.RoleUser:
			step.Source = SourceUser
		case chat.RoleAssistant:
			step.Source = SourceAgent
			step.ReasoningContent = m.NativeReasoning()
			step.ToolCalls = c.calls(m, step.StepID)
			if !step.IsCopiedContext {
				c.generated(&step, turn)
				turn++
			}
		case chat.RoleTool:
			// An answer to nothing: the environment speaking of its own accord.
			step.Message = Content{}
			i--
		}
		if step.Extra, err = messageExtra(m); err != nil {
			return fmt.Errorf("message %d: %w", i-1, err)
		}
		end := i
		for end < len(messages) && messages[end].Role() == chat.RoleTool {
			end++
		}
		if step.Observation, err = c.observation(m.ToolCalls(), step.ToolCalls, messages[i:end]); err != nil {
			return fmt.Errorf("messages %d to %d: %w", i, end, err)
		}
		i = end
		c.list = append(c.list, step)
	}
	if len(c.list) == 0 {
		// A document has at least one step; a rollout that failed early has no message.
		c.list = []Step{{StepID: 1, Source: SourceSystem, Extra: json.RawMessage(`{"placeholder":true}`),
			Message: Content{Text: "The rollout ended before its first message."}}}
	}
	return nil
}

// generated adds to a step what is known of the model call behind it.
func (c *converter) generated(step *Step, turn int) {
	one := 1
	step.LLMCallCount = &one
	step.ModelName = c.rollout.Model
	if turn >= len(c.rollout.Timings.Turns) {
		return
	}
	t := c.rollout.Timings.Turns[turn]
	extra := chat.Object{}
	if t.FinishReason != "" {
		extra.Set("finish_reason", chat.AppendString(nil, t.FinishReason))
	}
	extra.Set("model_seconds", number(t.Model))
	extra.Set("tool_seconds", number(t.Tools))
	step.Metrics = &Metrics{PromptTokens: &t.PromptTokens, CompletionTokens: &t.CompletionTokens, Extra: extra.Append(nil)}
}

func number(f float64) json.RawMessage {
	return strconv.AppendFloat(nil, f, 'f', -1, 64)
}

// calls converts tool calls: ids become unique within the step, and arguments
// that are no JSON object are kept as text beside an empty one.
func (c *converter) calls(m chat.Message, step int) []ToolCall {
	var list []ToolCall
	taken := make(map[string]bool)
	for i, call := range m.ToolCalls() {
		t := ToolCall{ID: call.ID, FunctionName: call.Name}
		extra := chat.Object{}
		if t.ID == "" || taken[t.ID] {
			t.ID = fmt.Sprintf("call_%d_%d", step, i+1)
			for taken[t.ID] {
				t.ID += "_"
			}
			extra.Set("original_id", chat.AppendString(nil, call.ID))
		}
		taken[t.ID] = true
		if arguments := bytes.TrimSpace([]byte(call.Arguments)); json.Valid(arguments) && arguments[0] == '{' {
			t.Arguments = arguments
		} else {
			t.Arguments = json.RawMessage("{}")
			extra.Set("raw_arguments", chat.AppendString(nil, call.Arguments))
		}
		if len(extra) > 0 {
			t.Extra = extra.Append(nil)
		}
		list = append(list, t)
	}
	return list
}

// observation converts the tool messages that follow a message. An answer belongs
// to the call with its id; one without id to the call at its position.
func (c *converter) observation(original []chat.ToolCall, calls []ToolCall, answers []chat.Message) (*Observation, error) {
	if len(answers) == 0 {
		return nil, nil
	}
	o := &Observation{}
	used := make(map[int]bool)
	for i, m := range answers {
		content, err := c.content(m)
		if err != nil {
			return nil, err
		}
		result := ObservationResult{Content: &content}
		extra, err := extraFields(m)
		if err != nil {
			return nil, err
		}
		id := m.ToolCallID()
		at := slices.IndexFunc(original, func(call chat.ToolCall) bool { return id != "" && call.ID == id })
		for at >= 0 && used[at] {
			next := slices.IndexFunc(original[at+1:], func(call chat.ToolCall) bool { return call.ID == id })
			if next < 0 {
				break
			}
			at += 1 + next
		}
		if id == "" && i < len(calls) {
			at = i
		}
		if at >= 0 {
			used[at] = true
			result.SourceCallID = calls[at].ID
		} else if id != "" {
			extra.Set("tool_call_id", chat.AppendString(nil, id))
		}
		if len(extra) > 0 {
			result.Extra = extra.Append(nil)
		}
		o.Results = append(o.Results, result)
	}
	return o, nil
}

// messageExtra keeps what a step has no member for: a role other than the three
// sources stand for, and members of the message beyond the usual ones.
func messageExtra(m chat.Message) (json.RawMessage, error) {
	if m.Role() == chat.RoleTool {
		return nil, nil // its fields are with its answer
	}
	extra, err := extraFields(m)
	if err != nil {
		return nil, err
	}
	switch m.Role() {
	case chat.RoleSystem, chat.RoleUser, chat.RoleAssistant:
	default:
		extra.Set("role", chat.AppendString(nil, string(m.Role())))
	}
	if len(extra) == 0 {
		return nil, nil
	}
	return extra.Append(nil), nil
}

// extraFields returns the unusual members of a message as {"message": {…}}, or nothing.
func extraFields(m chat.Message) (chat.Object, error) {
	fields, err := chat.ParseObject(m.JSON())
	if err != nil {
		return nil, err
	}
	for _, usual := range []string{"role", "content", "tool_calls", "tool_call_id", "reasoning_content"} {
		fields.Delete(usual)
	}
	if m.NativeReasoning() != "" {
		fields.Delete("reasoning")
	}
	if len(fields) == 0 {
		return chat.Object{}, nil
	}
	return chat.Object{{Key: "message", Value: fields.Append(nil)}}, nil
}

// tools returns the definitions of the tools this rollout was offered.
func (c *converter) tools() json.RawMessage {
	var all []json.RawMessage
	if c.config.ToolDefinitions == nil || json.Unmarshal(c.config.ToolDefinitions, &all) != nil {
		return nil
	}
	var offered []json.RawMessage
	for _, raw := range all {
		var d struct {
			Function struct {
				Name string `json:"name"`
			} `json:"function"`
		}
		if json.Unmarshal(raw, &d) == nil && slices.Contains(c.rollout.Tools, d.Function.Name) {
			offered = append(offered, raw)
		}
	}
	if offered == nil {
		return nil
	}
	raw, err := chat.Marshal(offered)
	if err != nil {
		return nil
	}
	return raw
}

func (c *converter) finalMetrics() *FinalMetrics {
	u, steps := c.rollout.Usage, len(c.list)
	f := &FinalMetrics{TotalSteps: &steps, TotalCostUSD: c.config.CostUSD}
	if c.rollout.TurnsUsed > 0 {
		f.TotalPromptTokens, f.TotalCompletionTokens, f.TotalCachedTokens = &u.PromptTokens, &u.CompletionTokens, &u.CachedTokens
	}
	if u.ReasoningTokens > 0 {
		f.Extra = json.RawMessage(fmt.Sprintf(`{"total_reasoning_tokens":%d}`, u.ReasoningTokens))
	}
	return f
}

// rootExtra is the rollout without its conversation.
func (c *converter) rootExtra() (json.RawMessage, error) {
	r := *c.rollout
	r.Messages = nil
	line, err := trajectories.AppendRollout(nil, &r)
	if err != nil {
		return nil, err
	}
	fields, err := chat.ParseObject(line)
	if err != nil {
		return nil, err
	}
	for _, said := range []string{"messages", "model", "usage"} {
		fields.Delete(said) // the document says it elsewhere
	}
	return chat.Object{{Key: "rollout", Value: fields.Append(nil)}}.Append(nil), nil
}
