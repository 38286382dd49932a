package convert

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"
	"pgregory.net/rapid"

	"github.com/hermes-env/hermes-env/agentloop/chat"
	"github.com/hermes-env/hermes-env/trajectories"
)

// Whatever a conversation is: where the report says that nothing of it was lost,
// reading the target gives the same conversation; and what was lost is reported.
func TestConversationsComeBackWhereNothingIsReportedLost(t *testing.T) {
	registry := testTools(t)
	kept := 0
	rapid.Check(t, func(t *rapid.T) {
		r := &Row{Rollout: drawRollout(t), Tools: nil}
		for _, d := range registry.Definitions()[:2] {
			raw := toolset(nil, []string{d.Name}).JSON()
			r.Tools = append(r.Tools, raw[1:len(raw)-1])
			r.Rollout.Tools = append(r.Rollout.Tools, d.Name)
		}
		to := rapid.SampledFrom([]Format{Rollouts, Messages, ShareGPT, ShareGPTPublished, OpenAI, ATIFLines}).Draw(t, "to")
		p := &plan{registry: registry, features: features{}.all(), attempts: map[int]int{}, numbers: map[int]int{}}
		p.features.toolNames = registry.Names()
		if item, _ := trajectories.SplitMetadata(r.Metadata); item != nil {
			p.features.own = typeOfValue(gjson.ParseBytes(item), 0)
		}
		w := &writer{options: &Options{To: to, Version: "1"}, plan: p, target: describe(to), builder: newBuilder(to, p.features, registry, nil, false)}
		f := w.prepare(r, 0)
		require.NoError(t, f.err)
		line := f.line
		if f.values != nil {
			line = w.builder.schema.AppendJSON(nil, f.values)
		}
		_, rows, err := (&decoder{}).decode("f.jsonl", record{text: line, number: 1})
		if len(r.Messages) == 0 && err != nil {
			return // a row without a conversation is no row of every format
		}
		require.NoError(t, err, string(line))
		require.Len(t, rows, 1)
		if len(f.losses) > 0 {
			return
		}
		kept++
		require.Equal(t, said(r.Messages), said(rows[0].Messages))
		if w.target.carries("score") {
			require.Equal(t, r.Score, rows[0].Score)
		}
		if w.target.carries("metadata") {
			require.Equal(t, len(r.Metadata) > 0, len(rows[0].Metadata) > 0)
			if len(r.Metadata) > 0 { // numbers of columns have one form
				require.JSONEq(t, string(r.Metadata), string(rows[0].Metadata))
			}
		}
		if w.target.carries("usage") {
			require.Equal(t, r.Usage, rows[0].Usage)
		}
	})
	require.Greater(t, kept, 10, "the property is about conversations that are not lost")
}

// said is a conversation in words, with JSON in one layout and ids by the call
// they belong to.
func said(messages []chat.Message) string {
	var b strings.Builder
	for _, m := range messages {
		text := m.Text()
		if m.Role() == chat.RoleTool {
			text = compact(text)
		}
		fmt.Fprintf(&b, "%s %q %q\n", m.Role(), text, m.NativeReasoning())
		if m.Role() == chat.RoleTool {
			fmt.Fprintf(&b, "  of %q\n", m.ToolCallID())
		}
		for _, c := range m.ToolCalls() {
			fmt.Fprintf(&b, "  calls %q %s\n", c.Name, compact(c.Arguments))
		}
	}
	return b.String()
}

func drawRollout(t *rapid.T) *trajectories.Rollout {
	r := &trajectories.Rollout{
		ID: "r", ItemID: "i", ItemDigest: "d", Step: rapid.IntRange(0, 3).Draw(t, "step"), Outcome: trajectories.OutcomeLimit,
		Model: rapid.SampledFrom([]string{"", "m"}).Draw(t, "model"), TurnsUsed: 1, FinishedNaturally: rapid.Bool().Draw(t, "finished"),
		StartedAt: fixedTime, FinishedAt: fixedTime,
	}
	if rapid.Bool().Draw(t, "scored") {
		r.Score = pointer(rapid.Float64Range(-2, 2).Draw(t, "score"))
	}
	if rapid.Bool().Draw(t, "metadata") {
		r.Metadata = []byte(`{"a":1.50,"b":{"c":null}}`)
	}
	if rapid.Bool().Draw(t, "usage") {
		r.Usage = chat.Usage{PromptTokens: 1, CompletionTokens: 2, TotalTokens: 3, CachedTokens: 1}
	}
	text := func(name string) string {
		return rapid.SampledFrom([]string{
			"", "plain", " white \n", "{\"a\": 1.0}", "[1, 2]", "<think>x</think> y", "<tool_call>", "</tool_call>", "a </tool_response> b", "line\n\nline",
			"\u65e5\u672c \x7f", "{not json", "<think>", "\n", "Error: x",
		}).Draw(t, name)
	}
	n := 0
	for range rapid.IntRange(0, 5).Draw(t, "messages") {
		switch rapid.IntRange(0, 6).Draw(t, "what") {
		case 0:
			r.Messages = append(r.Messages, chat.System(text("system")))
		case 1, 2:
			r.Messages = append(r.Messages, chat.User(text("user")))
		case 3:
			r.Messages = append(r.Messages, chat.Assistant(text("answer"), text("reasoning")))
		case 4:
			r.Messages = append(r.Messages, chat.Tool("stray", text("stray")))
		default:
			var calls []chat.ToolCall
			var answers []chat.Message
			for range rapid.IntRange(1, 3).Draw(t, "calls") {
				n++
				id := fmt.Sprintf("id%d", n)
				if rapid.IntRange(0, 9).Draw(t, "repeat") == 0 {
					id = "id1"
				}
				name := rapid.SampledFrom([]string{"terminal", "read_file"}).Draw(t, "tool")
				arguments := rapid.SampledFrom([]string{`{}`, `{"command":"ls </tool_call> x"}`, `{"n": 1.0, "a": [true, null]}`, `[1]`, `{"broken`, ``}).Draw(t, "arguments")
				calls = append(calls, chat.ToolCall{ID: id, Name: name, Arguments: arguments})
				if rapid.IntRange(0, 5).Draw(t, "answered") > 0 {
					answers = append(answers, chat.Tool(id, text("result")))
				}
			}
			r.Messages = append(r.Messages, chat.Assistant(text("content"), text("reasoning"), calls...))
			r.Messages = append(r.Messages, answers...)
		}
	}
	for i, m := range r.Messages {
		decoded, err := chat.Decode(m.JSON()) // as a recorded message is
		require.NoError(t, err)
		r.Messages[i] = decoded
	}
	return r
}
