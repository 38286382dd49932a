package trajectories

import (
	"encoding/json"
	"fmt"
	"sort"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"github.com/hermes-env/hermes-env/agentloop/chat"
)

func TestConversationsFollowThePublishedRules(t *testing.T) {
	call := func(id, name, arguments string) chat.ToolCall {
		return chat.ToolCall{ID: id, Name: name, Arguments: arguments}
	}
	user := chat.User("go")
	human := Turn{"human", "go"}
	gpt := func(value string) Turn { return Turn{"gpt", value} }
	for name, c := range map[string]struct {
		messages []chat.Message
		omit     bool
		want     []Turn // without the system turn
		invalid  int
	}{
		"system messages are left out": {
			messages: []chat.Message{chat.System("be good"), user, message(t, `{"role":"developer","content":"x"}`), chat.Assistant("hi", ""), chat.System("late")},
			want:     []Turn{human, gpt("<think>\n</think>\nhi")},
		},
		"reasoning of the server becomes a think block": {
			messages: []chat.Message{user, chat.Assistant(" hi \n", "hm\n")},
			want:     []Turn{human, gpt("<think>\nhm\n\n</think>\n hi")},
		},
		"reasoning is found in every shape": {
			messages: []chat.Message{user, message(t, `{"role":"assistant","content":"hi","reasoning_details":[{"type":"reasoning.text","text":"one"},{"summary":"two"}]}`)},
			want:     []Turn{human, gpt("<think>\none\ntwo\n</think>\nhi")},
		},
		"blank reasoning is none": {
			messages: []chat.Message{user, chat.Assistant("hi", " \n\u001f ")},
			want:     []Turn{human, gpt("<think>\n</think>\nhi")},
		},
		"the empty think block can be left out": {
			omit:     true,
			messages: []chat.Message{user, chat.Assistant("hi", ""), user, chat.Assistant("ho", "hm")},
			want:     []Turn{human, gpt("hi"), human, gpt("<think>\nhm\n</think>\nho")},
		},
		"inline think tags stay as they are": {
			messages: []chat.Message{user, chat.Assistant("<think>a</think>\nhi", "")},
			want:     []Turn{human, gpt("<think>a</think>\nhi")},
		},
		"the same reasoning is not told twice": {
			messages: []chat.Message{user, chat.Assistant("<think>\na\n</think>\nhi", "a")},
			want:     []Turn{human, gpt("<think>\na\n</think>\nhi")},
		},
		"two different reasonings are both kept": {
			messages: []chat.Message{user, chat.Assistant("<think>b</think>hi", "a")},
			want:     []Turn{human, gpt("<think>\na\n</think>\n<think>b</think>hi")},
		},
		"scratchpad tags are renamed": {
			messages: []chat.Message{user, chat.Assistant("<REASONING_SCRATCHPAD>\na\n</REASONING_SCRATCHPAD>\nhi", "")},
			want:     []Turn{human, gpt("<think>\na\n</think>\nhi")},
		},
		"calls follow the content, one block each": {
			messages: []chat.Message{user, chat.Assistant("first", "why", call("1", "terminal", `{"b":1.0,"a":[1,2],"s":"é \u00e9 \ud83d\ude00 / \/ \u007f"}`), call("2", "todo", ` { } `)), chat.Tool("1", "out"), chat.Tool("2", "[1,\n {\"a\":null}]")},
			want: []Turn{
				human,
				gpt("<think>\nwhy\n</think>\nfirst\n<tool_call>\n{\"name\": \"terminal\", \"arguments\": {\"b\": 1.0, \"a\": [1, 2], \"s\": \"é é 😀 / / \x7f\"}}\n</tool_call>\n<tool_call>\n{\"name\": \"todo\", \"arguments\": {}}\n</tool_call>"),
				{"tool", "<tool_response>\n{\"tool_call_id\": \"1\", \"name\": \"terminal\", \"content\": \"out\"}\n</tool_response>\n<tool_response>\n{\"tool_call_id\": \"2\", \"name\": \"todo\", \"content\": [1, {\"a\": null}]}\n</tool_response>"},
			},
		},
		"a turn of calls alone gets an empty think block": {
			messages: []chat.Message{user, chat.Assistant("", "", call("1", "terminal", `{}`))},
			want:     []Turn{human, gpt("<think>\n</think>\n<tool_call>\n{\"name\": \"terminal\", \"arguments\": {}}\n</tool_call>")},
		},
		"arguments that are no JSON object become {} and are counted": {
			messages: []chat.Message{user, chat.Assistant("", "r", call("1", "a", `{"x":`), call("2", "b", `[1]`), call("3", "c", `"s"`))},
			want:     []Turn{human, gpt("<think>\nr\n</think>\n<tool_call>\n{\"name\": \"a\", \"arguments\": {}}\n</tool_call>\n<tool_call>\n{\"name\": \"b\", \"arguments\": {}}\n</tool_call>\n<tool_call>\n{\"name\": \"c\", \"arguments\": {}}\n</tool_call>")},
			invalid:  3,
		},
		"results are named by id, else by position, else unknown": {
			messages: []chat.Message{user, chat.Assistant("", "r", call("1", "a", `{}`), call("2", "b", `{}`)), chat.Tool("2", "B"), chat.Tool("x", "by place"), chat.Tool("y", "beyond"), chat.Assistant("end", "r")},
			want: []Turn{
				human,
				gpt("<think>\nr\n</think>\n<tool_call>\n{\"name\": \"a\", \"arguments\": {}}\n</tool_call>\n<tool_call>\n{\"name\": \"b\", \"arguments\": {}}\n</tool_call>"),
				{"tool", "<tool_response>\n{\"tool_call_id\": \"2\", \"name\": \"b\", \"content\": \"B\"}\n</tool_response>\n<tool_response>\n{\"tool_call_id\": \"x\", \"name\": \"b\", \"content\": \"by place\"}\n</tool_response>\n<tool_response>\n{\"tool_call_id\": \"y\", \"name\": \"unknown\", \"content\": \"beyond\"}\n</tool_response>"},
				gpt("<think>\nr\n</think>\nend"),
			},
		},
		"text that only looks like JSON stays a string": {
			messages: []chat.Message{user, chat.Assistant("", "r", call("1", "a", `{}`)), chat.Tool("1", `{"a": nope} "q"`)},
			want:     []Turn{human, gpt("<think>\nr\n</think>\n<tool_call>\n{\"name\": \"a\", \"arguments\": {}}\n</tool_call>"), {"tool", "<tool_response>\n{\"tool_call_id\": \"1\", \"name\": \"a\", \"content\": \"{\\\"a\\\": nope} \\\"q\\\"\"}\n</tool_response>"}},
		},
		"images are replaced by the text beside them": {
			messages: []chat.Message{user, chat.Assistant("", "r", call("1", "a", `{}`)), message(t, `{"role":"tool","tool_call_id":"1","content":[{"type":"text","text":"a cat"},{"type":"image_url","image_url":{"url":"data:..."}}]}`)},
			want:     []Turn{human, gpt("<think>\nr\n</think>\n<tool_call>\n{\"name\": \"a\", \"arguments\": {}}\n</tool_call>"), {"tool", "<tool_response>\n{\"tool_call_id\": \"1\", \"name\": \"a\", \"content\": \"a cat\"}\n</tool_response>"}},
		},
		"stray tool messages are left out": {
			messages: []chat.Message{user, chat.Tool("1", "stray"), chat.Assistant("hi", "r"), chat.Tool("2", "stray"), user},
			want:     []Turn{human, gpt("<think>\nr\n</think>\nhi"), human},
		},
		"an answer of nothing is an empty think block": {
			messages: []chat.Message{user, message(t, `{"role":"assistant","content":null}`)},
			want:     []Turn{human, gpt("<think>\n</think>")},
		},
	} {
		t.Run(name, func(t *testing.T) {
			converter := NewShareGPT(ShareGPTConfig{Tools: testTools(t), OmitEmptyThink: c.omit})
			turns, invalid := converter.Conversations(c.messages, []string{"todo"})
			require.Equal(t, "system", turns[0].From)
			require.Equal(t, c.want, turns[1:])
			require.Equal(t, c.invalid, invalid)
		})
	}
}

// publishedSystemTurn is the system turn of the published example, byte for byte.
const publishedSystemTurn = "You are a function calling AI model. You are provided with function signatures within <tools> </tools> XML tags. You may call one or more functions to assist with the user query. If available tools are not relevant in assisting with user query, just respond in natural conversational language. Don't make assumptions about what values to plug into functions. After calling & executing the functions, you will be provided with function results within <tool_response> </tool_response> XML tags. Here are the available tools:\n<tools>\n[{\"name\": \"terminal\", \"description\": \"Execute shell commands\", \"parameters\": {\"type\": \"object\", \"properties\": {\"command\": {\"type\": \"string\"}}}, \"required\": null}]\n</tools>\nFor each function call return a JSON object, with the following pydantic model json schema for each:\n{'title': 'FunctionCall', 'type': 'object', 'properties': {'name': {'title': 'Name', 'type': 'string'}, 'arguments': {'title': 'Arguments', 'type': 'object'}}, 'required': ['name', 'arguments']}\nEach function call should be enclosed within <tool_call> </tool_call> XML tags.\nExample:\n<tool_call>\n{'name': <function-name>,'arguments': <args-dict>}\n</tool_call>"

func TestThePublishedExampleIsReproduced(t *testing.T) {
	converter := NewShareGPT(ShareGPTConfig{Tools: testTools(t)})
	turns, invalid := converter.Conversations([]chat.Message{
		chat.User("What Python version is installed?"),
		chat.Assistant("", "The user wants to know the Python version. I should run python3 --version.", chat.ToolCall{ID: "call_abc123", Name: "terminal", Arguments: `{"command":"python3 --version"}`}),
		chat.Tool("call_abc123", "Python 3.11.6"),
		chat.Assistant("Python 3.11.6 is installed on this system.", "Got the version. I can now answer the user."),
	}, []string{"terminal"})
	require.Zero(t, invalid)
	require.Equal(t, []Turn{
		{"system", publishedSystemTurn},
		{"human", "What Python version is installed?"},
		{"gpt", "<think>\nThe user wants to know the Python version. I should run python3 --version.\n</think>\n<tool_call>\n{\"name\": \"terminal\", \"arguments\": {\"command\": \"python3 --version\"}}\n</tool_call>"},
		{"tool", "<tool_response>\n{\"tool_call_id\": \"call_abc123\", \"name\": \"terminal\", \"content\": \"Python 3.11.6\"}\n</tool_response>"},
		{"gpt", "<think>\nGot the version. I can now answer the user.\n</think>\nPython 3.11.6 is installed on this system."},
	}, turns)
}

func TestTheSystemTurnShowsTheToolsThatWereOffered(t *testing.T) {
	converter := NewShareGPT(ShareGPTConfig{Tools: testTools(t)})
	require.Contains(t, converter.SystemPrompt(nil), "<tools>\n[]\n</tools>")
	require.Contains(t, converter.SystemPrompt([]string{"todo", "elsewhere"}),
		`[{"name": "todo", "description": "Keep a list", "parameters": {"type": "object", "properties": {}}, "required": null}, {"name": "elsewhere", "description": "", "parameters": {"type": "object", "properties": {}}, "required": null}]`)
	require.Contains(t, NewShareGPT(ShareGPTConfig{}).SystemPrompt(nil), "[]")
}

func TestToolFailuresAreRecognised(t *testing.T) {
	for content, failed := range map[string]bool{
		`{"error":"x"}`:                     true,
		`{"error":null,"exit_code":1}`:      false,
		`{"error":""}`:                      true,
		`{"success":false}`:                 true,
		`{"success":"false"}`:               false,
		`{"content":{"error":"x"}}`:         true,
		`{"content":{"error":null}}`:        false,
		`{"content":"error: x"}`:            false,
		` {"exit_code": 2, "output": "" } `: false,
		`[{"error":"x"}]`:                   false,
		``:                                  true,
		"\n  ErRoR: no":                     true,
		"no error: here":                    false,
		`{"error": "cut`:                    false,
		`42`:                                false,
	} {
		require.Equal(t, failed, ToolFailed(content), "%q", content)
	}
}

func TestToolStatsCountCallsAndAnswers(t *testing.T) {
	stats := ToolStats([]chat.Message{
		chat.User("x"),
		chat.Assistant("", "", chat.ToolCall{ID: "1", Name: "a", Arguments: "{}"}, chat.ToolCall{ID: "2", Name: "b", Arguments: "{}"}, chat.ToolCall{ID: "3", Name: "a", Arguments: "{}"}),
		chat.Tool("2", "fine"), chat.Tool("1", "error: no"),
		chat.Assistant("", "", chat.ToolCall{ID: "9", Name: "b", Arguments: "{}"}),
		chat.Tool("9", `{"success": false}`), chat.Tool("?", "too many"),
	})
	require.Equal(t, map[string]ToolStat{"a": {2, 0, 1}, "b": {2, 1, 1}}, stats)
}

// shape describes the types of a JSON value as a reader that infers columns sees
// them; null and number count as one where a score may be missing.
func shape(path string, v gjson.Result, into map[string]string) {
	switch {
	case v.IsObject():
		into[path] = "object"
		v.ForEach(func(key, value gjson.Result) bool {
			shape(path+"."+key.String(), value, into)
			return true
		})
	case v.IsArray():
		into[path] = "array"
		v.ForEach(func(_, value gjson.Result) bool {
			shape(path+"[]", value, into)
			return true
		})
	case v.Type == gjson.Number && !strings.ContainsAny(v.Raw, ".e"):
		into[path] = "integer"
	case v.Type == gjson.Number:
		into[path] = "float"
	case v.IsBool():
		into[path] = "bool"
	default:
		into[path] = v.Type.String()
	}
}

func TestEveryLineHasTheSameKeysAndTypes(t *testing.T) {
	converter := NewShareGPT(ShareGPTConfig{Tools: testTools(t)})
	hallucinating := simple("h", 0, 0)
	hallucinating.Messages = append(hallucinating.Messages, chat.Assistant("", "", chat.ToolCall{ID: "1", Name: `fly "high"`, Arguments: "{"}), chat.Tool("1", "no"))
	unscored := simple("u", 0, 0)
	unscored.Outcome, unscored.Score, unscored.Passed = OutcomeVerifierError, nil, nil
	bare := &Rollout{ID: "x", ItemID: "y", Outcome: OutcomeLimit, Messages: []chat.Message{chat.Assistant("a", "")}}
	whole := simple("w", 0, 0)
	whole.Score = pointer(3.0)
	var reference map[string]string
	for i, r := range []*Rollout{rich(t), hallucinating, unscored, bare, whole} {
		line := converter.Append(nil, r)
		require.True(t, json.Valid(line))
		require.NotContains(t, string(line), "\n")
		got := map[string]string{}
		shape("", gjson.ParseBytes(line), got)
		if got[".score"] == "Null" {
			got[".score"] = "float"
		}
		got[".toolsets_used[]"] = "String"          // may be empty
		if got[".metadata.environment"] == "Null" { // an item of which nothing is said
			require.NotContains(t, got, ".metadata.environment.n")
			got[".metadata.environment"], got[".metadata.environment.n"], got[".metadata.environment.difficulty"] = "object", "float", "String"
		}
		if i == 0 {
			reference = got
			continue
		}
		require.Equal(t, reference, got)
	}
	require.Equal(t, "float", reference[".score"])
	keys := []string{}
	gjson.ParseBytes(converter.Append(nil, hallucinating)).Get("tool_stats").ForEach(func(key, _ gjson.Result) bool {
		keys = append(keys, key.String())
		return true
	})
	require.Equal(t, []string{"read_file", "terminal", "todo"}, keys)
	require.True(t, sort.StringsAreSorted(keys))
	line := converter.Append(nil, hallucinating)
	require.Equal(t, `["fly \"high\""]`, gjson.GetBytes(line, "metadata.unknown_tools").Str)
	require.EqualValues(t, 1, gjson.GetBytes(line, "metadata.unknown_tool_calls").Int())
	require.EqualValues(t, 1, gjson.GetBytes(line, "metadata.invalid_arguments").Int())
}

func FuzzShareGPT(f *testing.F) {
	for _, seed := range []string{
		`{"role":"assistant","content":"hi"}`,
		`{"role":"assistant","content":null,"tool_calls":[{"id":"1","function":{"name":"terminal","arguments":"{\"a\":1}"}}]}`,
		`{"role":"tool","tool_call_id":"1","content":"{\"error\":1}"}`,
		`{"role":"assistant","content":[{"type":"text","text":"\ud800"}],"reasoning":"x"}`,
		`{"role":"tool","tool_call_id":7,"content":{"a":[]}}`,
		"{\"role\":\"user\",\"content\":\"\xff\x00\"}",
	} {
		f.Add([]byte(seed), "{\"a\": [1.50, \"\\u00e9\"]}")
	}
	tools, err := newTestTools()
	require.NoError(f, err)
	converter := NewShareGPT(ShareGPTConfig{Tools: tools})
	f.Fuzz(func(t *testing.T, raw []byte, text string) {
		m, err := chat.Decode(raw)
		if err != nil {
			return
		}
		r := simple("fuzz", 0, 0)
		r.Messages = append(r.Messages, m, chat.Assistant(text, text, chat.ToolCall{ID: "1", Name: text, Arguments: text}), chat.Tool("1", text), m)
		line := converter.Append(nil, r)
		require.True(t, json.Valid(line), "%s", line)
		require.NotContains(t, string(line), "\n")
		for i, turn := range gjson.GetBytes(line, "conversations").Array() {
			checkBlocks(t, turn.Get("value").Str, turn.Get("from").Str, i)
		}
	})
}

// checkBlocks checks that what stands in a tool turn reads as JSON.
func checkBlocks(t *testing.T, value, from string, i int) {
	if from != "tool" {
		return
	}
	for _, block := range strings.Split(value, "\n<tool_response>\n") {
		block = strings.TrimPrefix(block, "<tool_response>\n")
		block, _, _ = strings.Cut(block, "\n</tool_response>")
		require.True(t, json.Valid([]byte(block)), fmt.Sprintf("turn %d: %q", i, block))
	}
}

func FuzzPythonJSON(f *testing.F) {
	for _, seed := range []string{`{"a":[1,2.50,-0,1E400],"b":{"c":"\u00e9\ud83d\ude00\ud800\\\"/\/"},"d":[],"e":{}}`, ` [ "x" , null ] `, `"` + "\x7f\u2028" + `"`, "[\"\xff\xfe\"]"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if !json.Valid([]byte(text)) {
			return
		}
		once := appendPythonJSON(nil, []byte(text))
		require.True(t, json.Valid(once), "%q", once)
		require.Equal(t, string(once), string(appendPythonJSON(nil, once)), "writing again changes nothing")
		var before, after any
		decode(t, text, &before)
		decode(t, string(once), &after)
		require.Equal(t, before, after)
	})
}

func decode(t *testing.T, text string, into *any) {
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	require.NoError(t, d.Decode(into))
}
