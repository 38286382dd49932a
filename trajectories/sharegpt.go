package trajectories

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hermes-env/hermes-env/agentloop/chat"
)

// ShareGPTConfig says how conversations are written.
type ShareGPTConfig struct {
	// Tools defines every tool of the run's registry: the columns of tool_stats and
	// what the system turn says about the tools a rollout was offered.
	Tools *chat.Toolset
	// OmitEmptyThink leaves out the empty think block of turns without reasoning.
	OmitEmptyThink bool
}

// ShareGPT converts rollouts into lines of trajectories.jsonl. It is immutable.
type ShareGPT struct {
	config  ShareGPTConfig
	names   []string          // of the registry, sorted
	encoded map[string][]byte // definition by name, as the system turn shows it
}

// Turn is one entry of a ShareGPT conversation.
type Turn struct {
	From  string // system, human, gpt or tool
	Value string
}

// NewShareGPT returns a converter.
func NewShareGPT(config ShareGPTConfig) *ShareGPT {
	s := &ShareGPT{config: config, names: config.Tools.Names(), encoded: make(map[string][]byte)}
	for _, d := range config.Tools.Definitions() {
		s.encoded[d.Name] = appendDefinition(nil, d)
	}
	return s
}

func appendDefinition(dst []byte, d chat.ToolDefinition) []byte {
	dst = append(dst, `{"name": `...)
	dst = appendPythonString(dst, d.Name)
	dst = append(dst, `, "description": `...)
	dst = appendPythonString(dst, d.Description)
	dst = append(dst, `, "parameters": `...)
	if len(d.Parameters) == 0 {
		dst = append(dst, `{"type": "object", "properties": {}}`...)
	} else {
		dst = appendPythonJSON(dst, d.Parameters)
	}
	return append(dst, `, "required": null}`...)
}

// SystemPrompt returns the system turn for a rollout that was offered the named
// tools: the public Hermes function-calling prompt. A name outside the registry is
// shown without description and parameters.
func (s *ShareGPT) SystemPrompt(tools []string) string {
	list := []byte{'['}
	for i, name := range tools {
		if i > 0 {
			list = append(list, ", "...)
		}
		if definition, ok := s.encoded[name]; ok {
			list = append(list, definition...)
		} else {
			list = appendDefinition(list, chat.ToolDefinition{Name: name})
		}
	}
	return hermesPromptHead + string(append(list, ']')) + hermesPromptTail
}

// Conversations converts a conversation in which the named tools were offered.
// The system turn is generated; system messages of the conversation itself and
// tool messages that answer nothing are left out. invalidArguments counts calls
// whose arguments are not a JSON object and stand as {} in the result.
func (s *ShareGPT) Conversations(messages []chat.Message, tools []string) (turns []Turn, invalidArguments int) {
	turns, invalidArguments, _ = s.convert(messages, tools)
	return turns, invalidArguments
}

// convert also counts the calls, so that every message is read once.
func (s *ShareGPT) convert(messages []chat.Message, tools []string) (turns []Turn, invalidArguments int, stats toolStats) {
	stats = make(toolStats)
	turns = append(turns, Turn{"system", s.SystemPrompt(tools)})
	for i := 0; i < len(messages); i++ {
		m := messages[i]
		switch m.Role() {
		case chat.RoleUser:
			turns = append(turns, Turn{"human", m.Text()})
		case chat.RoleAssistant:
			calls := m.ToolCalls()
			if len(calls) == 0 {
				turns = append(turns, Turn{"gpt", s.answer(m)})
				continue
			}
			value, invalid := s.callTurn(m)
			invalidArguments += invalid
			turns = append(turns, Turn{"gpt", value})
			stats.called(calls)
			if results := answers(calls, toolResults(messages[i+1:])); len(results) > 0 {
				for _, a := range results {
					stats.answered(a)
				}
				turns = append(turns, Turn{"tool", toolTurn(results)})
				i += len(results)
			}
		}
	}
	return turns, invalidArguments, stats
}

// answer is the value of an assistant message without calls.
func (s *ShareGPT) answer(m chat.Message) string {
	var b strings.Builder
	content := thinkTags(m.Text())
	writeReasoning(&b, m, content)
	b.WriteString(content)
	return pythonStrip(s.withThink(b.String()))
}

// callTurn is the value of an assistant message with calls.
func (s *ShareGPT) callTurn(m chat.Message) (value string, invalid int) {
	var b strings.Builder
	content := thinkTags(m.Text())
	writeReasoning(&b, m, content)
	if !isBlank(content) {
		b.WriteString(content)
		b.WriteByte('\n')
	}
	for _, c := range m.ToolCalls() {
		block := appendPythonString([]byte(`{"name": `), c.Name)
		block = append(block, `, "arguments": `...)
		if arguments := embeddedJSON(c.Arguments); arguments != nil && arguments[0] == '{' {
			block = appendPythonJSON(block, arguments)
		} else {
			invalid++
			block = append(block, "{}"...)
		}
		b.WriteString("<tool_call>\n")
		b.Write(append(block, '}'))
		b.WriteString("\n</tool_call>\n")
	}
	return strings.TrimRightFunc(s.withThink(b.String()), isPythonSpace), invalid
}

// withThink puts an empty think block before a text that has none.
func (s *ShareGPT) withThink(text string) string {
	if s.config.OmitEmptyThink || strings.Contains(text, "<think>") {
		return text
	}
	return "<think>\n</think>\n" + text
}

// writeReasoning writes the reasoning the server sent apart from the content,
// unless the content opens with the same reasoning.
func writeReasoning(b *strings.Builder, m chat.Message, content string) {
	reasoning := m.NativeReasoning()
	if isBlank(reasoning) {
		return
	}
	if inline, ok := strings.CutPrefix(strings.TrimLeftFunc(content, isPythonSpace), "<think>"); ok {
		inline, _, _ = strings.Cut(inline, "</think>")
		if pythonStrip(inline) == pythonStrip(reasoning) {
			return
		}
	}
	b.WriteString("<think>\n")
	b.WriteString(reasoning)
	b.WriteString("\n</think>\n")
}

// thinkTags renames the tags of reasoning that a system prompt asked for.
func thinkTags(content string) string {
	content = strings.ReplaceAll(content, "<REASONING_SCRATCHPAD>", "<think>")
	return strings.ReplaceAll(content, "</REASONING_SCRATCHPAD>", "</think>")
}

// toolTurn is the value of the tool messages that follow one assistant message.
func toolTurn(results []toolAnswer) string {
	size := 0
	for _, a := range results {
		size += len(a.text) + len(a.text)/8 + len(a.id) + len(a.name) + 96
	}
	block := make([]byte, 0, size)
	for i, a := range results {
		if i > 0 {
			block = append(block, '\n')
		}
		block = append(block, "<tool_response>\n{\"tool_call_id\": "...)
		block = appendPythonString(block, a.id)
		block = append(block, `, "name": `...)
		block = appendPythonString(block, a.name)
		block = append(block, `, "content": `...)
		if a.json != nil {
			block = appendPythonJSON(block, a.json)
		} else {
			block = appendPythonString(block, a.text)
		}
		block = append(block, "}\n</tool_response>"...)
	}
	return string(block)
}

// publishedTime is the form of timestamps in published trajectories, in UTC.
const publishedTime = "2006-01-02T15:04:05.000000"

// Append appends the line of a rollout to dst, without a newline. Every line has
// the same keys with the same types, whatever happened in the rollout.
func (s *ShareGPT) Append(dst []byte, r *Rollout) []byte {
	turns, invalid, stats := s.convert(r.Messages, r.Tools)
	size := 2048 + 128*len(s.names)
	for _, t := range turns {
		size += len(t.Value) + len(t.Value)/8 + 32
	}
	e := encoder{buf: appendViewPrefix(slices.Grow(dst, size), r.ID, r.Tampered())}
	e.text("item_id", r.ItemID)
	e.integer("prompt_index", int64(r.Group))
	e.key("conversations")
	e.raw('[')
	for i, t := range turns {
		if i > 0 {
			e.raw(',')
		}
		e.raw('{')
		e.text("from", t.From)
		e.text("value", t.Value)
		e.raw('}')
	}
	e.raw(']')
	// No finer than rollouts.jsonl has it, so that a line made from there is the same.
	timestamp := r.FinishedAt.UTC().Truncate(time.Millisecond).Format(publishedTime)
	e.text("timestamp", timestamp)
	e.text("model", r.Model)
	e.boolean("completed", r.FinishedNaturally)
	e.boolean("partial", r.Outcome == OutcomeAgentError)
	e.integer("api_calls", int64(r.TurnsUsed))
	e.texts("toolsets_used", r.Toolsets)
	s.appendStats(&e, stats)
	e.text("outcome", string(r.Outcome))
	e.key("score")
	if r.Score == nil {
		e.null()
	} else {
		e.buf = appendFloat(e.buf, *r.Score)
	}
	s.appendMetadata(&e, r, timestamp, stats, invalid)
	e.raw('}')
	return e.buf
}

func (s *ShareGPT) appendStats(e *encoder, stats toolStats) {
	e.key("tool_stats")
	e.raw('{')
	for _, name := range s.names {
		e.key(name)
		e.raw('{')
		e.integer("count", int64(stats[name].Count))
		e.integer("success", int64(stats[name].Success))
		e.integer("failure", int64(stats[name].Failure))
		e.raw('}')
	}
	e.raw('}')
	e.key("tool_error_counts")
	e.raw('{')
	for _, name := range s.names {
		e.integer(name, int64(stats[name].Failure))
	}
	e.raw('}')
}

// appendMetadata writes the members that published rows have under metadata,
// where the record is in the run, and what the columns above can not say.
func (s *ShareGPT) appendMetadata(e *encoder, r *Rollout, timestamp string, stats toolStats, invalid int) {
	e.key("metadata")
	e.raw('{')
	e.integer("batch_num", int64(r.Step))
	e.text("timestamp", timestamp)
	e.text("model", r.Model)
	e.integer("step", int64(r.Step))
	e.integer("attempt", int64(r.Attempt))
	e.text("item_digest", r.ItemDigest)
	e.text("stop_reason", r.StopReason)
	e.integer("invalid_arguments", int64(invalid))
	names, calls := unknownTools(stats, s.config.Tools)
	e.integer("unknown_tool_calls", int64(calls))
	// A text and not a list: a list that is empty in all the first rows has no type
	// that a reader could infer.
	e.text("unknown_tools", listText(names))
	e.text("tampering", TamperingText(BoundTampering(r.Tampering)))
	item, verification := SplitMetadata(r.Metadata)
	if verification == nil {
		verification = json.RawMessage("{}")
	}
	e.key("environment")
	if item == nil {
		e.null()
	} else {
		e.buf = append(e.buf, item...)
	}
	e.text("verification", string(verification))
	e.raw('}')
}

func listText(names []string) string {
	e := encoder{}
	e.raw('[')
	for i, name := range names {
		if i > 0 {
			e.raw(',')
		}
		e.buf = chat.AppendString(e.buf, name)
	}
	e.raw(']')
	return string(e.buf)
}

// appendViewPrefix writes what every line of trajectories.jsonl begins with; the
// id comes first so that the file can be compared with rollouts.jsonl without
// reading the conversations. Lines of versions that did not write tampered differ.
func appendViewPrefix(dst []byte, id string, tampered bool) []byte {
	dst = append(dst, `{"rollout_id":`...)
	dst = chat.AppendString(dst, id)
	dst = append(dst, `,"tampered":`...)
	return strconv.AppendBool(dst, tampered)
}
