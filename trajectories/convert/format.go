package convert

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hermes-env/hermes-env/trajectories/table"
)

// Format is what the rows of a file are.
type Format string

// The formats.
const (
	Rollouts          Format = "rollouts"           // rollouts.jsonl of a run
	ShareGPT          Format = "sharegpt"           // trajectories.jsonl of a run
	ShareGPTPublished Format = "sharegpt-published" // the columns of the original batch runner, and no more
	Messages          Format = "messages"           // chat messages of one shape in every row, for loaders and trainers
	OpenAI            Format = "openai"             // chat messages as they were exchanged, for fine-tuning services
	Text              Format = "text"               // the text of a model's own format
	Preference        Format = "preference"         // pairs of a better and a worse answer
	KTO               Format = "kto"                // prompts, answers and whether they are right
	Groups            Format = "groups"             // groups as Atropos trainers read them
	ATIF              Format = "atif"               // one ATIF document per rollout
	ATIFLines         Format = "atif-jsonl"         // the same, one document per line
)

// Description is a format for people.
type Description struct {
	Format   Format
	Text     string
	Read     bool
	Parquet  bool     // can be written as Parquet
	Carries  []string // members of the record that come back when it is read
	everyone bool     // carries all of them
}

// Formats lists the formats in the order help shows them.
func Formats() []Description {
	return []Description{
		{Format: Rollouts, Text: "the record of a run, one line per rollout", Read: true, everyone: true, Carries: []string{"!tool_definitions"}},
		{Format: Messages, Text: "chat messages of one shape in every row, tools as JSON text; nothing but odd members of messages is lost", Read: true, Parquet: true, everyone: true},
		{Format: ShareGPT, Text: "ShareGPT rows as process writes them, with score and outcome", Read: true, Parquet: true, Carries: []string{
			"rollout_id", "item_id", "item_digest", "step", "group", "attempt", "outcome", "score", "tampering", "stop_reason", "model", "turns_used", "finished_naturally",
			"tools", "tool_definitions", "toolsets", "finished_at", "metadata"}},
		{Format: ShareGPTPublished, Text: "ShareGPT rows with the columns of the original batch runner", Read: true, Parquet: true, Carries: []string{
			"step", "group", "model", "turns_used", "finished_naturally", "tools", "tool_definitions", "toolsets", "finished_at", "metadata"}},
		{Format: OpenAI, Text: "chat messages byte for byte as exchanged, and tools, for fine-tuning services", Read: true, Carries: []string{"tools", "tool_definitions"}},
		{Format: Text, Text: "the text of a model's own format (--parser or --chat-template)", Parquet: true, Carries: []string{
			"rollout_id", "item_id", "outcome", "score", "model"}},
		{Format: Preference, Text: "pairs of the best and the worst rollout of each prompt, as TRL reads them", Read: true, Parquet: true, Carries: []string{
			"rollout_id", "item_id", "score", "tools", "tool_definitions"}},
		{Format: KTO, Text: "prompts, answers and whether they are right, as TRL reads them for KTO", Carries: []string{"tools", "tool_definitions"}},
		{Format: Groups, Text: "groups of rollouts as Atropos trainers read them", Read: true, Carries: []string{"score", "tokens", "masks", "logprobs"}},
		{Format: ATIF, Text: "ATIF 1.7, a JSON document per rollout", Read: true, everyone: true},
		{Format: ATIFLines, Text: "ATIF 1.7, a document per line", Read: true, everyone: true},
	}
}

// ParseFormat reads the name of a format.
func ParseFormat(name string) (Format, error) {
	var names []string
	for _, d := range Formats() {
		if string(d.Format) == name {
			return d.Format, nil
		}
		names = append(names, string(d.Format))
	}
	return "", fmt.Errorf("unknown format %q; there are: %s", name, strings.Join(names, ", "))
}

func describe(f Format) Description {
	for _, d := range Formats() {
		if d.Format == f {
			return d
		}
	}
	return Description{Format: f}
}

func (d *Description) carries(member string) bool {
	if d.everyone {
		return !slices.Contains(d.Carries, "!"+member)
	}
	return slices.Contains(d.Carries, member)
}

// records says whether the rows are records of what happened, rather than data to train
// on.
func (f Format) records() bool { return f == Rollouts || f == ATIF || f == ATIFLines }

// tabular says whether the format has one schema for all rows.
func (f Format) tabular() bool {
	switch f {
	case Messages, ShareGPT, ShareGPTPublished, Text, Preference:
		return true
	}
	return false
}

// features are what the rows of a conversion have anywhere, which decides upon
// columns that would otherwise have no type in JSON.
type features struct {
	score, passed, toolsets, tokens, masks, logprobs bool
	calls, answers, reasoning, tools                 bool
	toolNames                                        []string   // of the registry, sorted
	own                                              *valueType // of what environments say of their items; nil: nothing
}

func messageType(f *features) table.Type {
	fields := []table.Field{
		{Name: "role", Type: table.Of(table.String), Repeats: true},
		{Name: "content", Type: table.Of(table.String)},
	}
	if f.reasoning {
		fields = append(fields, table.Field{Name: "reasoning_content", Type: table.Of(table.String)})
	}
	if f.calls {
		function := table.StructOf(table.Field{Name: "name", Type: table.Of(table.String), Repeats: true}, table.Field{Name: "arguments", Type: table.Of(table.String)})
		call := table.StructOf(table.Field{Name: "id", Type: table.Of(table.String)}, table.Field{Name: "type", Type: table.Of(table.String), Repeats: true}, table.Field{Name: "function", Type: function})
		fields = append(fields, table.Field{Name: "tool_calls", Type: table.ListOf(call)})
	}
	if f.answers {
		fields = append(fields, table.Field{Name: "tool_call_id", Type: table.Of(table.String)})
	}
	return table.StructOf(fields...)
}

func (f *features) messagesSchema() table.Schema {
	s := table.Schema{
		{Name: "messages", Type: table.ListOf(messageType(f))},
		{Name: "tools", Type: table.Of(table.String), Repeats: true},
		{Name: "rollout_id", Type: table.Of(table.String)},
		{Name: "item_id", Type: table.Of(table.String)},
		{Name: "step", Type: table.Of(table.Int64)},
		{Name: "group", Type: table.Of(table.Int64)},
		{Name: "attempt", Type: table.Of(table.Int64)},
		{Name: "outcome", Type: table.Of(table.String), Repeats: true},
	}
	if f.score {
		s = append(s, table.Field{Name: "score", Type: table.Of(table.Float64)})
	}
	if f.passed {
		s = append(s, table.Field{Name: "passed", Type: table.Of(table.Bool)})
	}
	s = append(s, table.Schema{
		{Name: "stop_reason", Type: table.Of(table.String), Repeats: true},
		{Name: "model", Type: table.Of(table.String), Repeats: true},
		{Name: "turns_used", Type: table.Of(table.Int64)},
		{Name: "finished_naturally", Type: table.Of(table.Bool)},
		{Name: "prompt_tokens", Type: table.Of(table.Int64)},
		{Name: "completion_tokens", Type: table.Of(table.Int64)},
		{Name: "finished_at", Type: table.Of(table.String)},
		{Name: "metadata", Type: table.Of(table.String)},
		{Name: "details", Type: table.Of(table.String)},
	}...)
	return append(s, f.sequenceColumns()...)
}

func (f *features) sequenceColumns() (s table.Schema) {
	if f.tokens {
		s = append(s, table.Field{Name: "tokens", Type: table.ListOf(table.Of(table.Int32))})
	}
	if f.masks {
		s = append(s, table.Field{Name: "masks", Type: table.ListOf(table.Of(table.Int32))})
	}
	if f.logprobs {
		s = append(s, table.Field{Name: "logprobs", Type: table.ListOf(table.Of(table.Float64))})
	}
	return s
}

func conversationsColumn() table.Field {
	turn := table.StructOf(table.Field{Name: "from", Type: table.Of(table.String), Repeats: true}, table.Field{Name: "value", Type: table.Of(table.String)})
	return table.Field{Name: "conversations", Type: table.ListOf(turn)}
}

// toolColumns are the statistics by tool: the same in every row and file.
func (f *features) toolColumns() table.Schema {
	if len(f.toolNames) == 0 {
		return nil
	}
	var stats, failures []table.Field
	count := table.Of(table.Int64)
	for _, name := range f.toolNames {
		stats = append(stats, table.Field{Name: name, Type: table.StructOf(table.Field{Name: "count", Type: count}, table.Field{Name: "success", Type: count}, table.Field{Name: "failure", Type: count})})
		failures = append(failures, table.Field{Name: name, Type: count})
	}
	return table.Schema{{Name: "tool_stats", Type: table.StructOf(stats...)}, {Name: "tool_error_counts", Type: table.StructOf(failures...)}}
}

func (f *features) shareGPTSchema() table.Schema {
	text := table.Of(table.String)
	number := table.Of(table.Int64)
	s := table.Schema{
		{Name: "rollout_id", Type: text}, {Name: "tampered", Type: table.Of(table.Bool)}, {Name: "item_id", Type: text}, {Name: "prompt_index", Type: number}, conversationsColumn(),
		{Name: "timestamp", Type: text}, {Name: "model", Type: text, Repeats: true}, {Name: "completed", Type: table.Of(table.Bool)}, {Name: "partial", Type: table.Of(table.Bool)},
		{Name: "api_calls", Type: number},
	}
	s = append(s, table.Field{Name: "toolsets_used", Type: table.ListOf(text), Repeats: true})
	s = append(s, f.toolColumns()...)
	s = append(s, table.Field{Name: "outcome", Type: text, Repeats: true}, table.Field{Name: "score", Type: table.Of(table.Float64)})
	s = append(s, table.Field{Name: "metadata", Type: table.StructOf(table.Schema{
		{Name: "batch_num", Type: number}, {Name: "timestamp", Type: text}, {Name: "model", Type: text, Repeats: true}, {Name: "step", Type: number}, {Name: "attempt", Type: number},
		{Name: "item_digest", Type: text}, {Name: "stop_reason", Type: text, Repeats: true}, {Name: "invalid_arguments", Type: number}, {Name: "unknown_tool_calls", Type: number},
		{Name: "unknown_tools", Type: text, Repeats: true}, {Name: "tampering", Type: text, Repeats: true}, {Name: "environment", Type: f.own.column()},
		{Name: "verification", Type: text, Repeats: true},
	}...)})
	return append(s, f.sequenceColumns()...)
}

func (f *features) publishedSchema() table.Schema {
	text := table.Of(table.String)
	metadata := table.Schema{{Name: "batch_num", Type: table.Of(table.Int64)}, {Name: "timestamp", Type: text}, {Name: "model", Type: text, Repeats: true}}
	if f.own != nil { // else exactly the columns of the original
		metadata = append(metadata, table.Field{Name: "environment", Type: f.own.column()})
	}
	s := table.Schema{
		{Name: "prompt_index", Type: table.Of(table.Int64)}, conversationsColumn(),
		{Name: "metadata", Type: table.StructOf(metadata...)},
		{Name: "completed", Type: table.Of(table.Bool)}, {Name: "partial", Type: table.Of(table.Bool)}, {Name: "api_calls", Type: table.Of(table.Int64)},
	}
	s = append(s, table.Field{Name: "toolsets_used", Type: table.ListOf(text), Repeats: true})
	return append(s, f.toolColumns()...)
}

func (f *features) preferenceSchema() table.Schema {
	text := table.Of(table.String)
	list := table.ListOf(messageType(f))
	s := table.Schema{
		// Before the first answer there is nothing but roles and texts.
		{Name: "prompt", Type: table.ListOf(messageType(&features{}))}, {Name: "chosen", Type: list}, {Name: "rejected", Type: list},
	}
	if f.score {
		s = append(s, table.Field{Name: "score_chosen", Type: table.Of(table.Float64)}, table.Field{Name: "score_rejected", Type: table.Of(table.Float64)}, table.Field{Name: "margin", Type: table.Of(table.Float64)})
	}
	if f.tools {
		s = append(s, table.Field{Name: "tools", Type: text, Repeats: true})
	}
	return append(s, table.Field{Name: "item_id", Type: text}, table.Field{Name: "rollout_id_chosen", Type: text}, table.Field{Name: "rollout_id_rejected", Type: text})
}

func (f *features) textSchema() table.Schema {
	text := table.Of(table.String)
	s := table.Schema{{Name: "text", Type: text}, {Name: "rollout_id", Type: text}, {Name: "item_id", Type: text}, {Name: "outcome", Type: text, Repeats: true}}
	if f.score {
		s = append(s, table.Field{Name: "score", Type: table.Of(table.Float64)})
	}
	return append(s, table.Field{Name: "model", Type: text, Repeats: true})
}

func (f *features) schema(format Format) table.Schema {
	switch format {
	case Messages:
		return f.messagesSchema()
	case ShareGPT:
		return f.shareGPTSchema()
	case ShareGPTPublished:
		return f.publishedSchema()
	case Preference:
		return f.preferenceSchema()
	case Text:
		return f.textSchema()
	}
	return nil
}

// all are the features when every column is wanted, as in Parquet, whose columns
// have types without values.
func (f features) all() features {
	f.score, f.passed, f.toolsets, f.calls, f.answers, f.reasoning, f.tools = true, true, true, true, true, true, true
	return f
}
