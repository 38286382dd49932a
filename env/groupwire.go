package env

import (
	"encoding/json"
	"fmt"

	"github.com/hermes-env/hermes-env/agentloop/chat"
	"github.com/hermes-env/hermes-env/env/atropos"
	"github.com/hermes-env/hermes-env/trajectories"
)

// WireGroup is a group in the form in which workers send it to a trainer's API server,
// without a sender. What nobody filled in is null there; overrides and images have one
// element per sequence or are null. Where tokens are not known, the placeholders of
// trajectories.PlaceholderTokens stand for them, which must not be trained on:
// Options.ExactTokens keeps such rollouts out. It refuses what Group.Check refuses.
func WireGroup(g *trajectories.Group, includeMessages bool) (*atropos.Group, error) {
	if err := g.Check(); err != nil {
		return nil, fmt.Errorf("group of step %d: %w", g.Step, err)
	}
	out := &atropos.Group{GenerationParams: g.GenerationParams}
	if g.Overrides != nil || g.Size > 0 {
		out.GroupOverrides = g.GroupOverrides()
	}
	var overridden, images bool
	for i := range g.Sequences {
		overridden = overridden || g.Sequences[i].Overrides != nil
		images = images || g.Sequences[i].Images != nil
	}
	var pictures []json.RawMessage
	for i := range g.Sequences {
		s := &g.Sequences[i]
		tokens, masks := s.Tokens, s.Masks
		if tokens == nil && masks == nil {
			tokens, masks = trajectories.PlaceholderTokens(s.Messages)
		}
		out.Tokens, out.Masks = append(out.Tokens, wide(tokens)), append(out.Masks, wide(masks))
		out.Scores = append(out.Scores, s.Score)
		if list := s.AdvantagesOver(masks); list != nil {
			out.Advantages = append(out.Advantages, list)
		}
		if s.RefLogprobs != nil {
			out.RefLogprobs = append(out.RefLogprobs, s.RefLogprobs)
		}
		if s.Logprobs != nil {
			out.InferenceLogprobs = append(out.InferenceLogprobs, s.Logprobs)
		}
		if s.DistillTokenIDs != nil {
			ids, logprobs := make([][]int64, len(s.DistillTokenIDs)), make([][]float64, len(s.DistillTokenIDs))
			for at, row := range s.DistillTokenIDs {
				ids[at], logprobs[at] = wide(row), append([]float64{}, s.DistillLogprobs[at]...) // empty, not null
			}
			out.DistillTokenIDs, out.DistillLogprobs = append(out.DistillTokenIDs, ids), append(out.DistillLogprobs, logprobs)
		}
		if overridden {
			out.Overrides = append(out.Overrides, orElse(s.Overrides, "{}"))
		}
		if images {
			pictures = append(pictures, orElse(s.Images, "null"))
		}
		if includeMessages {
			out.Messages = append(out.Messages, wireMessages(s.Messages))
		}
	}
	if images {
		list, err := chat.Marshal(pictures)
		if err != nil {
			return nil, fmt.Errorf("group of step %d: images: %w", g.Step, err)
		}
		out.Images = list
	}
	return out, nil
}

// wireMessages are the messages as the protocol takes them: every one has a role and
// content, which is null for one that only calls tools.
func wireMessages(messages []chat.Message) []json.RawMessage {
	list := make([]json.RawMessage, len(messages))
	for i, m := range messages {
		list[i] = m.JSON()
		object, err := chat.ParseObject(list[i])
		if err != nil || object.Get("content") != nil && object.Get("role") != nil {
			continue // Check has refused what is no message
		}
		if object.Get("role") == nil {
			object.Set("role", json.RawMessage(`""`))
		}
		if object.Get("content") == nil {
			object.Set("content", json.RawMessage("null"))
		}
		list[i] = object.Append(nil)
	}
	return list
}

func wide(list []int) []int64 {
	out := make([]int64, len(list))
	for i, n := range list {
		out[i] = int64(n)
	}
	return out
}

func orElse(raw json.RawMessage, absent string) json.RawMessage {
	if raw == nil {
		return json.RawMessage(absent)
	}
	return raw
}
