package atif

import (
	"encoding/json"
	"fmt"

	"github.com/tidwall/gjson"

	"github.com/hermes-env/hermes-env/agentloop/chat"
)

// Messages returns the conversation of the document in chat form. Answers that
// belong to no call become user messages, as agents without tool calls had them;
// images become image_url parts with the path as their URL. Subagents are named,
// not entered.
func (t *Trajectory) Messages() ([]chat.Message, error) {
	var list []chat.Message
	for i := range t.Steps {
		s := &t.Steps[i]
		messages, err := s.messages()
		if err != nil {
			return nil, fmt.Errorf("step %d: %w", s.StepID, err)
		}
		list = append(list, messages...)
	}
	return list, nil
}

func (s *Step) messages() ([]chat.Message, error) {
	var list []chat.Message
	extra := gjson.ParseBytes(s.Extra)
	if extra.Get("placeholder").Bool() {
		return nil, nil
	}
	observing := s.Source == SourceSystem && s.Observation != nil && s.Message.String() == ""
	if !observing {
		m, err := s.message(extra)
		if err != nil {
			return nil, err
		}
		list = append(list, m)
	}
	if s.Observation == nil {
		return list, nil
	}
	for i, result := range s.Observation.Results {
		m, err := s.answer(result, i)
		if err != nil {
			return nil, err
		}
		list = append(list, m)
	}
	return list, nil
}

// message is the step itself, without its answers.
func (s *Step) message(extra gjson.Result) (chat.Message, error) {
	role := chat.Role(s.Source)
	if s.Source == SourceAgent {
		role = chat.RoleAssistant
	}
	if original := extra.Get("role").String(); original != "" && s.Source == SourceSystem {
		role = chat.Role(original)
	}
	if role == chat.RoleAssistant && s.Message.Parts == nil {
		var calls []chat.ToolCall
		for _, call := range s.ToolCalls {
			calls = append(calls, call.chat())
		}
		return withFields(chat.Assistant(s.Message.Text, s.ReasoningContent, calls...), extra.Get("message"))
	}
	content, err := encodeContent(s.Message)
	if err != nil {
		return chat.Message{}, err
	}
	object := chat.Object{{Key: "role", Value: chat.AppendString(nil, string(role))}, {Key: "content", Value: content}}
	if s.ReasoningContent != "" {
		object.Set("reasoning_content", chat.AppendString(nil, s.ReasoningContent))
	}
	if len(s.ToolCalls) > 0 {
		var calls []chat.ToolCall
		for _, call := range s.ToolCalls {
			calls = append(calls, call.chat())
		}
		object.Set("tool_calls", chat.Assistant("", "", calls...).Get("tool_calls"))
	}
	m, err := chat.Decode(object.Append(nil))
	if err != nil {
		return m, err
	}
	return withFields(m, extra.Get("message"))
}

func (c *ToolCall) chat() chat.ToolCall {
	call := chat.ToolCall{ID: c.ID, Name: c.FunctionName, Arguments: string(c.Arguments)}
	extra := gjson.ParseBytes(c.Extra)
	if raw := extra.Get("raw_arguments"); raw.Type == gjson.String {
		call.Arguments = raw.Str
	}
	return call
}

// answer is one result of the step's observation.
func (s *Step) answer(result ObservationResult, position int) (chat.Message, error) {
	content := Content{}
	if result.Content != nil {
		content = *result.Content
	}
	if content.Parts == nil && content.Text == "" {
		for _, ref := range result.SubagentTrajectoryRef {
			content.Text += fmt.Sprintf("[subagent trajectory %s%s]", ref.TrajectoryID, ref.TrajectoryPath)
		}
	}
	id := result.SourceCallID
	extra := gjson.ParseBytes(result.Extra)
	if id == "" {
		id = extra.Get("tool_call_id").String()
	}
	if id == "" && len(s.ToolCalls) == len(s.Observation.Results) {
		id = s.ToolCalls[position].ID
	}
	encoded, err := encodeContent(content)
	if err != nil {
		return chat.Message{}, err
	}
	object := chat.Object{{Key: "role", Value: json.RawMessage(`"user"`)}}
	if id != "" {
		object = chat.Object{{Key: "role", Value: json.RawMessage(`"tool"`)}, {Key: "tool_call_id", Value: chat.AppendString(nil, id)}}
	}
	object.Set("content", encoded)
	m, err := chat.Decode(object.Append(nil))
	if err != nil {
		return m, err
	}
	return withFields(m, extra.Get("message"))
}

// encodeContent writes the content of a chat message.
func encodeContent(c Content) (json.RawMessage, error) {
	if c.Parts == nil {
		return chat.AppendString(nil, c.Text), nil
	}
	list := []byte{'['}
	for i, p := range c.Parts {
		if i > 0 {
			list = append(list, ',')
		}
		if p.Source != nil {
			list = append(list, `{"type":"image_url","image_url":{"url":`...)
			list = append(chat.AppendString(list, p.Source.Path), "}}"...)
			continue
		}
		list = append(list, `{"type":"text","text":`...)
		list = append(chat.AppendString(list, p.Text), '}')
	}
	return append(list, ']'), nil
}

// withFields gives a message back the members that were kept for it. What makes
// the message what it is can't be replaced that way.
func withFields(m chat.Message, fields gjson.Result) (chat.Message, error) {
	if !fields.IsObject() {
		return m, nil
	}
	kept, err := chat.ParseObject([]byte(fields.Raw))
	if err != nil {
		return m, err
	}
	for _, f := range kept {
		switch f.Key {
		case "role", "content", "tool_calls", "tool_call_id", "reasoning_content":
			continue
		}
		if m, err = m.With(f.Key, f.Value); err != nil {
			return m, err
		}
	}
	return m, nil
}
