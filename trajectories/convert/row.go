package convert

import (
	"encoding/json"
	"slices"

	"github.com/tidwall/gjson"

	"github.com/hermes-env/hermes-env/agentloop/chat"
	"github.com/hermes-env/hermes-env/trajectories"
)

// Row is one conversation on its way from one format to another.
type Row struct {
	*trajectories.Rollout
	Tools    []json.RawMessage // definitions of the tools offered, as in a request; nil when unknown
	Tokens   []int64           // of the whole conversation, nil when unknown
	Masks    []int64           // as long as Tokens; -100 where nothing is trained
	Logprobs []float64         // as long as Tokens
	Turns    json.RawMessage   // where the answers stand in Tokens, as in the record
	Exact    bool              // Tokens, Masks and Logprobs are those of the record
	Branches int               // further token sequences of the record, which no column holds
	Side     Side              // of the pair that the row comes from
	MadeUp   []string          // members that the source lacks and the record needs
	Lost     []string          // what could not be read into the row
}

func (r *Row) madeUp(member string) bool { return slices.Contains(r.MadeUp, member) }

// names returns the names of the tools offered.
func (r *Row) names() []string {
	if len(r.Rollout.Tools) > 0 || r.Tools == nil {
		return r.Rollout.Tools
	}
	var names []string
	for _, d := range r.Tools {
		if name := definitionName(d); name != "" {
			names = append(names, name)
		}
	}
	return names
}

// takeSequences takes the tokens of a record: the first sequence fills the columns.
func (r *Row) takeSequences(list gjson.Result) {
	all := list.Array()
	if len(all) == 0 {
		return
	}
	tokens, tokensErr := integers(all[0].Get("tokens"))
	masks, masksErr := integers(all[0].Get("masks"))
	if tokensErr != nil || masksErr != nil {
		return
	}
	r.Tokens, r.Masks, r.Logprobs = tokens, masks, numbers(all[0].Get("inference_logprobs"))
	if turns := all[0].Get("turns"); turns.IsArray() {
		r.Turns = json.RawMessage(turns.Raw)
	}
	r.Exact, r.Branches = true, len(all)-1
}

// definitionName is the name of a tool from its definition, in either shape.
func definitionName(definition []byte) string {
	v := gjson.ParseBytes(definition)
	if f := v.Get("function"); f.IsObject() {
		v = f
	}
	return v.Get("name").String()
}

// toolset reads definitions in any shape for the system turn of ShareGPT rows; a
// tool that can't be read is left with its name.
func toolset(definitions []json.RawMessage, names []string) *chat.Toolset {
	var list []chat.ToolDefinition
	seen := map[string]bool{}
	for _, raw := range definitions {
		v := gjson.ParseBytes(raw)
		if f := v.Get("function"); f.IsObject() {
			v = f
		}
		d := chat.ToolDefinition{Name: v.Get("name").String(), Description: v.Get("description").String()}
		if p := v.Get("parameters"); p.IsObject() {
			d.Parameters = json.RawMessage(p.Raw)
		}
		if d.Name != "" && !seen[d.Name] {
			seen[d.Name] = true
			list = append(list, d)
		}
	}
	for _, name := range names {
		if name != "" && !seen[name] {
			seen[name] = true
			list = append(list, chat.ToolDefinition{Name: name})
		}
	}
	set, err := chat.NewToolset(list...)
	if err != nil {
		return nil // only an invalid schema is left as a reason; names are shown alone then
	}
	return set
}

// member is something a row may know and a format may carry.
type member struct {
	name string
	has  func(*Row) bool
}

// members lists what a row may know beside its conversation, in the order of the
// record.
func members() []member {
	return []member{
		{"rollout_id", func(r *Row) bool { return r.ID != "" }},
		{"item_id", func(r *Row) bool { return r.ItemID != "" }},
		{"item_digest", func(r *Row) bool { return r.ItemDigest != "" }},
		{"step", func(r *Row) bool { return r.Step != 0 }},
		{"group", func(r *Row) bool { return r.Group != 0 }},
		{"attempt", func(r *Row) bool { return r.Attempt != 0 }},
		{"outcome", func(r *Row) bool { return r.Outcome != "" }},
		{"score", func(r *Row) bool { return r.Score != nil }},
		{"passed", func(r *Row) bool { return r.Passed != nil }},
		{"score_parts", func(r *Row) bool { return len(r.ScoreParts) > 0 }},
		{"tampering", func(r *Row) bool { return len(r.Tampering) > 0 }},
		{"stop_reason", func(r *Row) bool { return r.StopReason != "" }},
		{"error", func(r *Row) bool { return r.Error != nil }},
		{"model", func(r *Row) bool { return r.Model != "" }},
		{"turns_used", func(r *Row) bool { return r.TurnsUsed != 0 }},
		{"finished_naturally", func(r *Row) bool { return true }},
		{"tools", func(r *Row) bool { return len(r.names()) > 0 }},
		{"tool_definitions", func(r *Row) bool { return len(r.Tools) > 0 }},
		{"toolsets", func(r *Row) bool { return len(r.Toolsets) > 0 }},
		{"tool_errors", func(r *Row) bool { return len(r.ToolErrors) > 0 }},
		{"usage", func(r *Row) bool { return r.Usage != chat.Usage{} }},
		{"timings", func(r *Row) bool { return r.Timings.Total != 0 || len(r.Timings.Turns) > 0 }},
		{"sandbox", func(r *Row) bool { return r.Sandbox != nil }},
		{"retries", func(r *Row) bool { return r.Retries != 0 }},
		{"started_at", func(r *Row) bool { return !r.StartedAt.IsZero() }},
		{"finished_at", func(r *Row) bool { return !r.FinishedAt.IsZero() }},
		{"metadata", func(r *Row) bool { return len(r.Metadata) > 2 }},
		{"tokens", func(r *Row) bool { return r.Tokens != nil }},
		{"masks", func(r *Row) bool { return r.Masks != nil }},
		{"logprobs", func(r *Row) bool { return r.Logprobs != nil }},
		{"token_turns", func(r *Row) bool { return len(r.Turns) > 2 }},
		{"token_branches", func(r *Row) bool { return r.Branches > 0 }},
	}
}
