package convert

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"github.com/hermes-env/hermes-env/trajectories/table"
)

// The rules below are those of the consumers' loaders, as read in their source.

func requireToolsText(t *testing.T, row gjson.Result) {
	t.Helper()
	tools := row.Get("tools")
	require.Equal(t, gjson.String, tools.Type)
	require.True(t, gjson.Valid(tools.Str) && gjson.Parse(tools.Str).IsArray())
	for _, tool := range gjson.Parse(tools.Str).Array() {
		require.True(t, tool.Get("function.name").Exists())
	}
}

// TRL parses tools from text, hands messages to the chat template as they are, and takes
// a column prompt, completion or text for another kind of data set.
func trlRules(t *testing.T, row gjson.Result, out string) {
	require.Equal(t, []string{"messages", "tools"}, columns(row.Raw))
	requireToolsText(t, row)
	for _, m := range row.Get("messages").Array() {
		m.ForEach(func(_, v gjson.Result) bool { require.NotEqual(t, gjson.Null, v.Type, m.Raw); return true })
		require.Equal(t, gjson.String, m.Get("content").Type)
		for _, c := range m.Get("tool_calls").Array() {
			require.True(t, c.Get("function.arguments").IsObject(), "text would be encoded twice")
		}
	}
	card, err := os.ReadFile(filepath.Join(out, "README.md"))
	require.NoError(t, err)
	require.Contains(t, string(card), "- name: messages\n    list: json\n", "else the loader gives every call the arguments of all others")
}

// Axolotl decodes arguments and tools from text, and ends at text that is not JSON. Its
// loader infers types, so all messages have the same members.
func axolotlRules(t *testing.T, row gjson.Result, out string) {
	require.Equal(t, []string{"messages", "tools"}, columns(row.Raw))
	requireToolsText(t, row)
	members := columns(row.Get("messages.0").Raw)
	for _, m := range row.Get("messages").Array() {
		require.Equal(t, members, columns(m.Raw))
		require.Equal(t, gjson.String, m.Get("content").Type)
		for _, c := range m.Get("tool_calls").Array() {
			arguments := c.Get("function.arguments")
			require.Equal(t, gjson.String, arguments.Type)
			require.True(t, gjson.Valid(arguments.Str))
		}
	}
	config, err := os.ReadFile(filepath.Join(out, "axolotl.yaml"))
	require.NoError(t, err)
	require.Contains(t, string(config), "type: chat_template\n    field_messages: messages\n")
}

// LLaMA-Factory wants turns of others at even places and of the model at odd ones, an even
// number of them, and reads a function_call as a thought and a JSON list whose arguments
// it encodes itself.
func llamaFactoryRules(t *testing.T, row gjson.Result, out string) {
	var info map[string]struct {
		File    string            `json:"file_name"`
		Format  string            `json:"formatting"`
		Columns map[string]string `json:"columns"`
		Tags    map[string]string `json:"tags"`
	}
	raw, err := os.ReadFile(filepath.Join(out, "dataset_info.json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(raw, &info))
	set := info[filepath.Base(out)]
	require.Equal(t, "sharegpt", set.Format)
	require.DirExists(t, filepath.Join(out, set.File))
	requireToolsText(t, row)
	require.Equal(t, "tools", set.Columns["tools"])
	turns := row.Get(set.Columns["messages"]).Array()
	if turns[0].Get(set.Tags["role_tag"]).Str == set.Tags["system_tag"] {
		turns = turns[1:]
	}
	require.Zero(t, len(turns)%2)
	thought := regexp.MustCompile(`(?s)<think>\n(.*?)\n</think>\n\n`)
	for i, turn := range turns {
		role, value := turn.Get(set.Tags["role_tag"]).Str, turn.Get(set.Tags["content_tag"])
		require.Equal(t, gjson.String, value.Type)
		accepted := [][]string{{set.Tags["user_tag"], set.Tags["observation_tag"]}, {set.Tags["assistant_tag"], set.Tags["function_tag"]}}
		require.Contains(t, accepted[i%2], role)
		if role == set.Tags["function_tag"] {
			calls := thought.ReplaceAllString(value.Str, "")
			require.True(t, gjson.Valid(calls), calls)
			for _, c := range gjson.Parse(calls).Array() {
				require.Equal(t, gjson.String, c.Get("name").Type)
				require.True(t, c.Get("arguments").IsObject())
			}
		}
	}
}

// verl reads Parquet with pandas, which gives a list of structs the members of all of
// them, and hands tools to the template without decoding text.
func verlRules(t *testing.T, row gjson.Result, out string) {
	require.Equal(t, []string{"messages"}, columns(row.Raw))
	flatRules(t, row)
	files, err := filepath.Glob(filepath.Join(out, "data", "*.parquet"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
}

// OpenRLHF gives no tools to the template, and takes the last message for the answer.
func openRLHFRules(t *testing.T, row gjson.Result, _ string) {
	require.Equal(t, []string{"messages"}, columns(row.Raw))
	flatRules(t, row)
}

// Together takes texts of system, user and assistant, by turns, with an assistant's among them.
func togetherRules(t *testing.T, row gjson.Result, _ string) {
	require.Equal(t, []string{"messages"}, columns(row.Raw))
	flatRules(t, row)
}

func flatRules(t *testing.T, row gjson.Result) {
	t.Helper()
	messages, previous := row.Get("messages").Array(), ""
	for i, m := range messages {
		require.Equal(t, []string{"role", "content"}, columns(m.Raw))
		role := m.Get("role").Str
		require.Contains(t, []string{"system", "user", "assistant"}, role)
		require.NotEqual(t, previous, role, "roles alternate")
		require.True(t, role != "system" || i == 0)
		require.Equal(t, gjson.String, m.Get("content").Type)
		previous = role
	}
	require.Equal(t, "assistant", previous)
}

// OpenAI refuses members it does not know and, before the last message, calls without an
// answer. It wants arguments as text and ends with the assistant.
func openAIRules(t *testing.T, row gjson.Result, _ string) {
	for _, name := range columns(row.Raw) {
		require.Contains(t, []string{"messages", "tools", "parallel_tool_calls", "functions"}, name)
	}
	require.True(t, !row.Get("tools").Exists() || row.Get("tools").IsArray())
	messages := row.Get("messages").Array()
	for i, m := range messages {
		for _, name := range columns(m.Raw) {
			require.Contains(t, []string{"role", "content", "name", "tool_calls", "tool_call_id", "weight", "refusal"}, name)
		}
		require.True(t, m.Get("content").Type == gjson.String || len(m.Get("tool_calls").Array()) > 0)
		for _, c := range m.Get("tool_calls").Array() {
			require.Equal(t, gjson.String, c.Get("function.arguments").Type)
			require.True(t, i == len(messages)-1 || slices.ContainsFunc(messages, func(a gjson.Result) bool { return a.Get("tool_call_id").Str == c.Get("id").Str }))
		}
	}
	require.Equal(t, "assistant", messages[len(messages)-1].Get("role").Str)
}

func TestRun_WritesWhatItsConsumerReads(t *testing.T) {
	dir := makeRun(t)
	rules := map[Consumer]func(*testing.T, gjson.Result, string){
		TRL: trlRules, Axolotl: axolotlRules, LLaMAFactory: llamaFactoryRules, Verl: verlRules, OpenRLHF: openRLHFRules, OpenAITuning: openAIRules, Together: togetherRules,
	}
	for _, consumer := range Consumers() {
		t.Run(string(consumer), func(t *testing.T) {
			o := Options{Inputs: []string{dir}, For: consumer, Out: filepath.Join(t.TempDir(), "set")}
			if consumer == Verl {
				o.Encoding = table.Parquet // so that run reads it back
			}
			report, lines := run(t, o)
			require.NotEmpty(t, lines)
			require.Equal(t, consumer, report.For)
			for _, line := range lines {
				rules[consumer](t, gjson.Parse(line), o.Out)
			}
			golden(t, filepath.Join("golden", "for-"+string(consumer)+".jsonl"), []byte(strings.Join(lines, "\n")+"\n"))
		})
	}
}

func TestRun_LeavesOutRowsThatItsConsumerRefuses(t *testing.T) {
	const call = `{"role":"assistant","content":"","tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"{}"}}]}`
	path := writeLines(t, "in.jsonl",
		`{"messages":[{"role":"user","content":"q"},{"role":"assistant","content":"a"},{"role":"user","content":"more"}]}`,
		`{"messages":[{"role":"user","content":"q"}]}`,
		`{"messages":[{"role":"user","content":"q"},`+call+`,{"role":"user","content":"well?"},{"role":"assistant","content":"a"}]}`,
		`{"messages":[{"role":"user","content":"q"},{"role":"user","content":"r"},{"role":"assistant","content":"a"}]}`,
		`{"messages":[{"role":"assistant","content":"hello"},{"role":"user","content":"r"},{"role":"assistant","content":"a"}]}`)
	for consumer, left := range map[Consumer]int{TRL: 4, Axolotl: 4, LLaMAFactory: 2, OpenRLHF: 4, Together: 3, OpenAITuning: 3} {
		report, lines := run(t, Options{Inputs: []string{path}, For: consumer})
		require.Len(t, lines, left, consumer)
		require.EqualValues(t, 1, counts(report.Filtered)["no answer of the model to train on"])
		require.EqualValues(t, 1, counts(report.Lost)["messages after the last answer of the model"], consumer)
		require.NotContains(t, lines[0], "more")
	}
	for _, o := range []Options{{For: "me"}, {For: TRL, To: ShareGPT}, {For: TRL, Encoding: table.Parquet}, {For: Verl, Encoding: table.JSONLines}, {For: Verl, Text: TextConfig{Template: "x"}}} {
		o.Inputs, o.Out = []string{path}, filepath.Join(t.TempDir(), "x")
		_, err := Run(t.Context(), o)
		require.ErrorIs(t, err, ErrUsage)
	}
}
