package convert

import (
	"encoding/json"
	"fmt"
	"slices"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/tidwall/gjson"

	"github.com/hermes-env/hermes-env/agentloop/chat"
	"github.com/hermes-env/hermes-env/trajectories"
	"github.com/hermes-env/hermes-env/trajectories/table"
)

// loss is something of one row that the target can't carry.
type loss struct {
	what  string
	count int64
}

// losses collects those of a row.
type losses []loss

func (l *losses) add(what string, count int) {
	if count <= 0 {
		return
	}
	for i := range *l {
		if (*l)[i].what == what {
			(*l)[i].count += int64(count)
			return
		}
	}
	*l = append(*l, loss{what, int64(count)})
}

// builder makes rows of a tabular format. It is safe for concurrent use.
type builder struct {
	format   Format
	schema   table.Schema
	features features
	registry *chat.Toolset // every tool of the conversion
	text     *textWriter   // of the format text
	omit     bool          // leave out empty think blocks

	mu         sync.Mutex
	converters map[string]*trajectories.ShareGPT // by tool definitions
}

func newBuilder(format Format, f features, registry *chat.Toolset, text *textWriter, omitEmptyThink bool) *builder {
	return &builder{format: format, schema: f.schema(format), features: f, registry: registry, text: text, omit: omitEmptyThink, converters: map[string]*trajectories.ShareGPT{}}
}

// row makes the table row of a rollout.
func (b *builder) row(r *Row) (table.Row, losses, error) {
	switch b.format {
	case Messages:
		return b.messages(r)
	case ShareGPT, ShareGPTPublished:
		row, l := b.shareGPT(r)
		return row, l, nil
	case Text:
		text, l, err := b.text.render(r)
		if err != nil {
			return nil, nil, err
		}
		return b.fill(map[string]table.Value{
			"text": table.Text(text), "rollout_id": table.Text(r.ID), "item_id": table.Text(r.ItemID), "outcome": table.Text(string(r.Outcome)),
			"score": optionalFloat(r.Score), "model": table.Text(r.Model),
		}), l, nil
	}
	return nil, nil, fmt.Errorf("the format %s has no rows of its own", b.format)
}

// fill puts named values into the order of the schema; what the schema lacks is left out.
func (b *builder) fill(values map[string]table.Value) table.Row {
	row := make(table.Row, len(b.schema))
	for i, f := range b.schema {
		row[i] = values[f.Name]
	}
	return row
}

func optionalFloat(f *float64) table.Value {
	if f == nil {
		return table.Value{}
	}
	return table.Float(*f)
}

func optionalInts(list []int64) table.Value {
	if list == nil {
		return table.Value{}
	}
	return table.Integers(list)
}

func (b *builder) messages(r *Row) (table.Row, losses, error) {
	var l losses
	list, more := messageValues(r.Messages, &b.features)
	l = append(l, more...)
	passed := table.Value{}
	if r.Passed != nil {
		passed = table.Boolean(*r.Passed)
	}
	details, err := details(r)
	if err != nil {
		return nil, nil, err
	}
	metadata := "{}"
	if r.Metadata != nil {
		metadata = compact(string(r.Metadata))
	}
	values := map[string]table.Value{
		"messages": list, "tools": table.Text(toolsText(r)), "rollout_id": table.Text(r.ID), "item_id": table.Text(r.ItemID),
		"step": table.Int(int64(r.Step)), "group": table.Int(int64(r.Group)), "attempt": table.Int(int64(r.Attempt)),
		"outcome": table.Text(string(r.Outcome)), "score": optionalFloat(r.Score), "passed": passed,
		"stop_reason": table.Text(r.StopReason), "model": table.Text(r.Model), "turns_used": table.Int(int64(r.TurnsUsed)),
		"finished_naturally": table.Boolean(r.FinishedNaturally),
		"prompt_tokens":      table.Int(r.Usage.PromptTokens), "completion_tokens": table.Int(r.Usage.CompletionTokens),
		"finished_at": table.Text(stamp(r.FinishedAt)), "metadata": table.Text(metadata), "details": table.Text(details),
		"tokens": optionalInts(r.Tokens), "masks": optionalInts(r.Masks),
	}
	if r.Logprobs != nil {
		values["logprobs"] = table.Numbers(r.Logprobs)
	}
	return b.fill(values), l, nil
}

// stamp writes a moment with its fraction, so that no reader takes it for a date.
func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02T15:04:05.000Z07:00")
}

// details is what the record knows beside the columns, as the text of a JSON object.
func details(r *Row) (string, error) {
	bare := *r.Rollout
	bare.Messages = nil
	line, err := trajectories.AppendRollout(nil, &bare)
	if err != nil {
		return "", err
	}
	o, err := chat.ParseObject(line)
	if err != nil {
		return "", err
	}
	kept := o[:0:0]
	for _, f := range o {
		switch f.Key {
		case "item_digest", "score_parts", "tampering", "error", "tools", "toolsets", "tool_errors", "usage", "timings", "sandbox", "retries", "started_at", "not_trainable":
		case "token_sequences":
			if r.Branches == 0 {
				continue // the columns hold them
			}
		default:
			continue
		}
		switch value := string(f.Value); value {
		case `""`, "[]", "null", "0":
			continue
		default:
			if f.Key == "started_at" && strings.HasPrefix(value, `"0001-`) {
				continue
			}
		}
		if !r.madeUp(f.Key) {
			kept = append(kept, f)
		}
	}
	if r.Branches == 0 && len(r.Turns) > 2 {
		kept = append(kept, chat.Field{Key: "token_turns", Value: r.Turns})
	}
	return string(kept.Append(nil)), nil
}

// toolsText is the JSON text of the tool definitions; names alone become
// definitions without parameters.
func toolsText(r *Row) string {
	if r.Tools == nil {
		return string(toolset(nil, r.Rollout.Tools).JSON())
	}
	return string(joinJSON(r.Tools))
}

func joinJSON(list []json.RawMessage) []byte {
	out := []byte{'['}
	for i, item := range list {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, item...)
	}
	return append(out, ']')
}

// messageValues writes messages in the one shape that all of them have.
func messageValues(messages []chat.Message, f *features) (table.Value, losses) {
	var l losses
	list := make([]table.Value, 0, len(messages))
	for _, m := range messages {
		l.oddMembers(m)
		content := table.Text(m.Text())
		if content.Text == "" {
			if raw := m.Get("content"); raw == nil || string(raw) == "null" {
				content = table.Value{}
			}
		}
		values := []table.Value{table.Text(string(m.Role())), content}
		if f.reasoning {
			values = append(values, optionalText(m.NativeReasoning()))
		}
		if f.calls {
			values = append(values, callValues(m.ToolCalls()))
		}
		if f.answers {
			id := table.Value{}
			if m.Role() == chat.RoleTool {
				id = table.Text(m.ToolCallID())
			}
			values = append(values, id)
		}
		list = append(list, table.Values(values...))
	}
	return table.Value{Set: true, List: list}, l
}

func optionalText(s string) table.Value {
	if s == "" {
		return table.Value{}
	}
	return table.Text(s)
}

func callValues(calls []chat.ToolCall) table.Value {
	if len(calls) == 0 {
		return table.Value{}
	}
	list := make([]table.Value, len(calls))
	for i, c := range calls {
		list[i] = table.Values(table.Text(c.ID), table.Text("function"), table.Values(table.Text(c.Name), table.Text(c.Arguments)))
	}
	return table.Value{Set: true, List: list}
}

// oddMembers counts the members of a message that no uniform shape has, and parts
// of its content that are no text. Members with a name in kept are not lost.
func (l *losses) oddMembers(m chat.Message, kept ...string) {
	chat.EachMember(m.JSON(), func(name string, value []byte) bool {
		empty := isNull(value) || string(value) == `""` || string(value) == "[]"
		switch name {
		case "role", "reasoning_content":
		case "content":
			if isList(value) {
				l.add("parts of messages that are no text", otherParts(value))
			} else if !isText(value) && !isNull(value) {
				l.add("content of messages that is no text", 1)
			}
		case "tool_calls":
			if m.Role() != chat.RoleAssistant && len(m.ToolCalls()) > 0 {
				l.add("tool calls of messages that are not the assistant's", len(m.ToolCalls()))
			}
		case "tool_call_id":
			if m.Role() != chat.RoleTool {
				l.add("tool_call_id of messages that are no answers", 1)
			}
		case "reasoning", "reasoning_details":
			if m.NativeReasoning() == "" && !empty {
				l.add("member "+name+" of messages", 1)
			}
		default:
			if !isNull(value) && !slices.Contains(kept, name) {
				l.add(fmt.Sprintf("member %.60s of messages", name), 1)
			}
		}
		return true
	})
}

func otherParts(content []byte) (n int) {
	var parts []json.RawMessage
	if json.Unmarshal(content, &parts) != nil {
		return 1
	}
	for _, p := range parts {
		var head struct {
			Type string `json:"type"`
		}
		if len(p) > 0 && p[0] == '"' {
			continue
		}
		if json.Unmarshal(p, &head) != nil || head.Type != "text" && head.Type != "output_text" && head.Type != "thinking" {
			n++
		}
	}
	return n
}

// publishedTime is the form of timestamps in published trajectories, in UTC.
const publishedTime = "2006-01-02T15:04:05.000000"

func (b *builder) shareGPT(r *Row) (table.Row, losses) {
	var l losses
	converter := b.converter(r)
	turns, invalid := converter.Conversations(r.Messages, r.names())
	l.conversation(r, turns, invalid)
	values := make([]table.Value, len(turns))
	for i, t := range turns {
		values[i] = table.Values(table.Text(t.From), table.Text(t.Value))
	}
	at := ""
	if !r.FinishedAt.IsZero() {
		at = r.FinishedAt.UTC().Truncate(time.Millisecond).Format(publishedTime)
	}
	toolsets := table.Value{Set: true, List: make([]table.Value, len(r.Toolsets))}
	for i, name := range r.Toolsets {
		toolsets.List[i] = table.Text(name)
	}
	stats := trajectories.ToolStats(r.Messages)
	perTool, failures := table.Values(), table.Values()
	for _, name := range b.features.toolNames {
		s := stats[name]
		perTool.List = append(perTool.List, table.Values(table.Int(int64(s.Count)), table.Int(int64(s.Success)), table.Int(int64(s.Failure))))
		failures.List = append(failures.List, table.Int(int64(s.Failure)))
	}
	named := map[string]table.Value{
		"rollout_id": table.Text(r.ID), "tampered": table.Boolean(r.Tampered()), "item_id": table.Text(r.ItemID), "prompt_index": table.Int(int64(r.Group)), "conversations": table.Value{Set: true, List: values},
		"timestamp": table.Text(at), "model": table.Text(r.Model), "completed": table.Boolean(r.FinishedNaturally),
		"partial": table.Boolean(r.Outcome == trajectories.OutcomeAgentError), "api_calls": table.Int(int64(r.TurnsUsed)), "toolsets_used": toolsets,
		"tool_stats": perTool, "tool_error_counts": failures, "outcome": table.Text(string(r.Outcome)), "score": optionalFloat(r.Score),
		"tokens": optionalInts(r.Tokens), "masks": optionalInts(r.Masks),
	}
	if r.Logprobs != nil {
		named["logprobs"] = table.Numbers(r.Logprobs)
	}
	item, verification := trajectories.SplitMetadata(r.Metadata)
	own := b.features.own.value(gjson.ParseBytes(item))
	l.ownMetadata(item, b.features.own)
	if b.format == ShareGPTPublished {
		l.verification(verification)
		metadata := table.Values(table.Int(int64(r.Step)), table.Text(at), table.Text(r.Model))
		if b.features.own != nil {
			metadata.List = append(metadata.List, own)
		}
		named["metadata"] = metadata
		return b.fill(named), l
	}
	unknown, calls := unknownTools(stats, b.registry)
	if verification == nil {
		verification = json.RawMessage("{}")
	}
	named["metadata"] = table.Values(
		table.Int(int64(r.Step)), table.Text(at), table.Text(r.Model), table.Int(int64(r.Step)), table.Int(int64(r.Attempt)),
		table.Text(r.ItemDigest), table.Text(r.StopReason), table.Int(int64(invalid)), table.Int(int64(calls)), table.Text(unknown),
		table.Text(trajectories.TamperingText(r.Tampering)), own, table.Text(string(verification)))
	return b.fill(named), l
}

// ownMetadata adds what columns don't keep of what an environment says of its item.
func (l *losses) ownMetadata(item json.RawMessage, t *valueType) {
	if item == nil {
		return
	}
	if v := gjson.ParseBytes(item); len(withoutNulls(v)) < len(item) {
		l.add("null members of metadata", 1)
	}
	if t.mixed() {
		l.add("types of metadata members that differ from row to row", 1)
	}
}

// verification adds what a format leaves out of a rollout's metadata.
func (l *losses) verification(left json.RawMessage) {
	if left != nil {
		l.add("metadata of the verification", 1)
	}
}

// unknownTools lists the called tools outside the registry as JSON text.
func unknownTools(stats map[string]trajectories.ToolStat, registry *chat.Toolset) (list string, calls int) {
	var names []string
	for name, s := range stats {
		if !registry.Has(name) {
			names = append(names, name)
			calls += s.Count
		}
	}
	sort.Strings(names)
	out := []byte{'['}
	for i, name := range names {
		if i > 0 {
			out = append(out, ',')
		}
		out = chat.AppendString(out, name)
	}
	return string(append(out, ']')), calls
}

// converter returns the converter whose system turn shows the tools of a row.
func (b *builder) converter(r *Row) *trajectories.ShareGPT {
	key := ""
	if r.Tools != nil {
		key = string(joinJSON(r.Tools))
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if c := b.converters[key]; c != nil {
		return c
	}
	set := b.registry
	if r.Tools != nil {
		set = toolset(r.Tools, r.Rollout.Tools)
	}
	c := trajectories.NewShareGPT(trajectories.ShareGPTConfig{Tools: set, OmitEmptyThink: b.omit})
	if len(b.converters) > 1000 {
		clear(b.converters) // a data set in which every row has tools of its own
	}
	b.converters[key] = c
	return c
}
