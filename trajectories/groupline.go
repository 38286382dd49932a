package trajectories

import (
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/tidwall/gjson"

	"github.com/hermes-env/hermes-env/agentloop/chat"
)

// AppendGroup appends the line of a group to dst, without a newline, with the
// separators of Python's json.dumps. It refuses what Group.Check refuses.
//
// Fields that nobody filled in are written as the original framework does: advantages,
// ref_logprobs, overrides and images are empty lists, group_overrides is an empty
// object, the distillation fields are null. Inference_logprobs, messages and
// generation_params are left out.
func AppendGroup(dst []byte, g Group, includeMessages bool) ([]byte, error) {
	if err := g.Check(); err != nil {
		return dst, fmt.Errorf("encode group of step %d: %w", g.Step, err)
	}
	first := &g.Sequences[0]
	tokens := make([][]int, len(g.Sequences))
	masks := make([][]int, len(g.Sequences))
	for i, s := range g.Sequences {
		tokens[i], masks[i] = s.Tokens, s.Masks
		if s.Tokens == nil && s.Masks == nil {
			tokens[i], masks[i] = PlaceholderTokens(s.Messages)
		}
	}
	w := groupLine{buf: append(dst, '{')}
	w.key("tokens")
	w.buf = appendTable(w.buf, tokens)
	w.key("masks")
	w.buf = appendTable(w.buf, masks)
	w.key("scores")
	w.list(g.Sequences, func(_ int, s *Sequence) { w.buf = appendFloat(w.buf, s.Score) })
	w.key("advantages")
	w.listIf(first.hasAdvantages(), g.Sequences, func(i int, s *Sequence) { w.buf = appendFloats(w.buf, s.AdvantagesOver(masks[i]), ", ") })
	w.key("ref_logprobs")
	w.listIf(first.RefLogprobs != nil, g.Sequences, func(_ int, s *Sequence) { w.buf = appendFloats(w.buf, s.RefLogprobs, ", ") })
	if first.Logprobs != nil {
		w.key("inference_logprobs")
		w.list(g.Sequences, func(_ int, s *Sequence) { w.buf = appendFloats(w.buf, s.Logprobs, ", ") })
	}
	if includeMessages {
		w.key("messages")
		w.list(g.Sequences, func(_ int, s *Sequence) { w.buf = appendPythonJSON(w.buf, chat.AppendMessages(nil, s.Messages)) })
	}
	w.key("group_overrides")
	w.buf = appendPythonJSON(w.buf, g.GroupOverrides())
	w.key("overrides")
	w.listIf(g.has(func(s *Sequence) bool { return s.Overrides != nil }), g.Sequences, func(_ int, s *Sequence) { w.raw(s.Overrides, "{}") })
	w.key("images")
	w.listIf(g.has(func(s *Sequence) bool { return s.Images != nil }), g.Sequences, func(_ int, s *Sequence) { w.raw(s.Images, "null") })
	if g.GenerationParams != nil {
		w.key("generation_params")
		w.raw(g.GenerationParams, "null")
	}
	w.distill(&g)
	return append(w.buf, '}'), nil
}

// GroupOverrides returns the group_overrides of a group, a JSON object: its own ones
// and the size.
func (g *Group) GroupOverrides() json.RawMessage {
	if g.Overrides == nil && g.Size == 0 {
		return json.RawMessage("{}")
	}
	object, err := chat.ParseObject(g.Overrides)
	if err != nil {
		object = nil // none are given; Check has refused what is no object
	}
	if g.Size > 0 {
		object.Set("group_size", strconv.AppendInt(nil, int64(g.Size), 10))
	}
	return object.Append(nil)
}

// OverriddenSize returns the group_size among the group's own overrides, 0 without one.
func (g *Group) OverriddenSize() int { return int(gjson.GetBytes(g.Overrides, "group_size").Int()) }

func (g *Group) has(what func(*Sequence) bool) bool {
	for i := range g.Sequences {
		if what(&g.Sequences[i]) {
			return true
		}
	}
	return false
}

// groupLine is a line under construction.
type groupLine struct{ buf []byte }

func (w *groupLine) key(name string) {
	if w.buf[len(w.buf)-1] != '{' {
		w.buf = append(w.buf, ", "...)
	}
	w.buf = append(w.buf, '"')
	w.buf = append(w.buf, name...)
	w.buf = append(w.buf, `": `...)
}

func (w *groupLine) list(sequences []Sequence, element func(int, *Sequence)) {
	w.buf = append(w.buf, '[')
	for i := range sequences {
		w.buf = separate(w.buf, i)
		element(i, &sequences[i])
	}
	w.buf = append(w.buf, ']')
}

// listIf writes the list, or an empty one where the group has nothing of the kind.
func (w *groupLine) listIf(has bool, sequences []Sequence, element func(int, *Sequence)) {
	if !has {
		sequences = nil
	}
	w.list(sequences, element)
}

func (w *groupLine) raw(value json.RawMessage, absent string) {
	if value == nil {
		w.buf = append(w.buf, absent...)
		return
	}
	w.buf = appendPythonJSON(w.buf, value)
}

func (w *groupLine) distill(g *Group) {
	if g.Sequences[0].DistillTokenIDs == nil {
		w.key("distill_token_ids")
		w.buf = append(w.buf, "null"...)
		w.key("distill_logprobs")
		w.buf = append(w.buf, "null"...)
		return
	}
	w.key("distill_token_ids")
	w.list(g.Sequences, func(_ int, s *Sequence) { w.buf = appendTable(w.buf, s.DistillTokenIDs) })
	w.key("distill_logprobs")
	w.list(g.Sequences, func(_ int, s *Sequence) {
		w.buf = append(w.buf, '[')
		for i, row := range s.DistillLogprobs {
			w.buf = appendFloats(separate(w.buf, i), row, ", ")
		}
		w.buf = append(w.buf, ']')
	})
}

func appendTable(dst []byte, rows [][]int) []byte {
	dst = append(dst, '[')
	for i, row := range rows {
		dst = separate(dst, i)
		dst = append(dst, '[')
		for j, n := range row {
			dst = separate(dst, j)
			dst = strconv.AppendInt(dst, int64(n), 10)
		}
		dst = append(dst, ']')
	}
	return append(dst, ']')
}

func separate(dst []byte, i int) []byte {
	if i > 0 {
		return append(dst, ", "...)
	}
	return dst
}
