package atif

import (
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"github.com/hermes-env/hermes-env/agentloop/chat"
	"github.com/hermes-env/hermes-env/trajectories"
)

var update = flag.Bool("update", false, "write the golden files again")

func pointer[T any](v T) *T { return &v }

func message(t testing.TB, raw string) chat.Message {
	t.Helper()
	m, err := chat.Decode([]byte(raw))
	require.NoError(t, err)
	return m
}

// rich is a rollout with everything the format has a place for, and more.
func rich(t testing.TB) *trajectories.Rollout {
	start := time.Date(2026, 3, 30, 14, 22, 31, 456_000_000, time.UTC)
	return &trajectories.Rollout{
		ID: "r-1", ItemID: "fix <b>", ItemDigest: "sha256:abc", Group: 2, Attempt: 1,
		Outcome: trajectories.OutcomeLimit, Score: pointer(0.5), Passed: pointer(false), StopReason: "max_turns", Model: "org/model-x", TurnsUsed: 3,
		Tools: []string{"terminal"}, Usage: chat.Usage{PromptTokens: 300, CompletionTokens: 60, TotalTokens: 360, CachedTokens: 64, ReasoningTokens: 7},
		Timings: trajectories.Timings{Total: 12.5, Turns: []trajectories.TurnTiming{
			{Model: 2.5, Tools: 0.125, PromptTokens: 50, CompletionTokens: 10, FinishReason: "tool_calls"}, {Model: 1, PromptTokens: 100, CompletionTokens: 20, FinishReason: "tool_calls"}, {Model: 3, PromptTokens: 150, CompletionTokens: 30, FinishReason: "stop"}}},
		StartedAt: start, FinishedAt: start.Add(12 * time.Second), Metadata: json.RawMessage(`{"category":"security","n":1.50}`),
		Messages: []chat.Message{
			message(t, `{"role":"developer","content":"be <good> & brief"}`),
			chat.User("an example"),
			chat.Assistant("an answer", "", chat.ToolCall{ID: "ex", Name: "terminal", Arguments: `{"command":"true"}`}),
			chat.Tool("ex", "ok"),
			message(t, `{"role":"user","name":"ann","content":[{"type":"text","text":"see"},{"type":"image_url","image_url":{"url":"https://x.test/a.png?v=1"}}]}`),
			message(t, `{"role":"assistant","content":"Let me look.","reasoning_content":"hm\u2028","x_big":12345678901234567890,"tool_calls":[{"id":"c1","type":"function","function":{"name":"terminal","arguments":"{\"n\":1.0,\"z\":1,\"a\":2}"}},{"id":"c1","type":"function","function":{"name":"fly","arguments":"{\"path\": "}}]}`),
			chat.Tool("c1", "one"),
			chat.Tool("c1", "two"),
			chat.Tool("c9", "an answer to nothing"),
			message(t, `{"role":"assistant","content":null,"tool_calls":[{"id":"c2","type":"function","function":{"name":"terminal","arguments":"[1]"}}]}`),
			message(t, `{"role":"tool","tool_call_id":"c2","content":[{"type":"text","text":"shot"},{"type":"image_url","image_url":{"url":"data:image/png;base64,aGk="}}]}`),
			chat.Assistant("done", ""),
		},
	}
}

func config(t testing.TB) Config {
	return Config{
		AgentVersion: "1.2.3", CostUSD: pointer(0.25),
		ToolDefinitions: json.RawMessage(`[{"type":"function","function":{"name":"terminal","parameters":{"type":"object"}}},{"type":"function","function":{"name":"other"}}]`),
		SaveImage: func(name, mediaType string, data []byte) (string, error) {
			require.Equal(t, "image/png", mediaType)
			require.Equal(t, "hi", string(data))
			return "images/" + name, nil
		},
	}
}

func TestARolloutBecomesTheGoldenDocument(t *testing.T) {
	doc, losses, err := FromRollout(rich(t), config(t))
	require.NoError(t, err)
	require.Empty(t, losses)
	got, err := doc.JSON()
	require.NoError(t, err)
	require.Empty(t, Validate(got, Options{Strict: true}))
	path := filepath.Join("testdata", "rich.json")
	if *update {
		require.NoError(t, os.WriteFile(path, got, 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), string(got), "run with -update when the change is meant")
	require.Contains(t, string(got), `"z": 1`, "arguments keep their digits and their order")
	require.Equal(t, "1.0", gjson.GetBytes(got, "steps.4.tool_calls.0.arguments.n").Raw)
	require.True(t, gjson.GetBytes(got, "steps.2.is_copied_context").Bool(), "an example the model did not write is copied context")
	require.False(t, gjson.GetBytes(got, "steps.4.is_copied_context").Exists())
	require.Equal(t, int64(3), gjson.GetBytes(got, `steps.#(metrics)#|#`).Int(), "one per model call")
}

func TestReadingADocumentBackGivesTheConversation(t *testing.T) {
	r := rich(t)
	doc, _, err := FromRollout(r, config(t))
	require.NoError(t, err)
	raw, err := doc.JSON()
	require.NoError(t, err)
	read, err := Decode(raw)
	require.NoError(t, err)
	messages, err := read.Messages()
	require.NoError(t, err)
	require.Len(t, messages, len(r.Messages))
	for i, m := range r.Messages {
		require.Equal(t, m.Role(), messages[i].Role(), "message %d", i)
		require.Equal(t, m.Text(), messages[i].Text(), "message %d", i)
		require.Equal(t, m.NativeReasoning(), messages[i].NativeReasoning(), "message %d", i)
		for j, call := range m.ToolCalls() {
			require.Equal(t, call.Name, messages[i].ToolCalls()[j].Name)
			if json.Valid([]byte(call.Arguments)) {
				require.JSONEq(t, call.Arguments, messages[i].ToolCalls()[j].Arguments)
			} else {
				require.Equal(t, call.Arguments, messages[i].ToolCalls()[j].Arguments)
			}
		}
	}
	require.Equal(t, "12345678901234567890", string(messages[5].Get("x_big")))
	require.Equal(t, `"ann"`, string(messages[4].Get("name")))
	require.Equal(t, "c9", messages[8].ToolCallID())
}

func TestARolloutWithoutMessagesIsStillAValidDocument(t *testing.T) {
	doc, _, err := FromRollout(&trajectories.Rollout{ID: "x", ItemID: "i", Outcome: trajectories.OutcomeSandboxError,
		Error: &trajectories.Failure{Class: "sandbox", Message: "no image"}}, Config{})
	require.NoError(t, err)
	raw, err := doc.JSON()
	require.NoError(t, err)
	require.Empty(t, Validate(raw, Options{Strict: true}))
	require.Equal(t, "no image", gjson.GetBytes(raw, "extra.rollout.error.message").String())
	read, err := Decode(raw)
	require.NoError(t, err)
	messages, err := read.Messages()
	require.NoError(t, err)
	require.Empty(t, messages)
}

func TestWhatCannotBeCarriedIsCounted(t *testing.T) {
	r := &trajectories.Rollout{ID: "x", ItemID: "i", Outcome: trajectories.OutcomeCancelled, Messages: []chat.Message{
		message(t, `{"role":"user","content":[{"type":"input_audio","input_audio":{}},{"type":"image_url","image_url":{"url":"data:image/png;base64,aGk="}},{"type":"image_url","image_url":{"url":"data:image/tiff;base64,aGk="}},{"type":"image_url","image_url":{"url":"https://x.test/a"}}]}`),
		chat.Tool("lost", "nobody asked"),
	}}
	doc, losses, err := FromRollout(r, Config{})
	require.NoError(t, err)
	require.Equal(t, []Loss{{"content parts of type input_audio", 1}, {"images", 1}, {"images of unknown type", 1}, {"image URLs that do not say their type", 1}}, losses)
	require.Contains(t, doc.Steps[0].Message.Text, "image/png left out")
	require.Len(t, doc.Steps[0].Observation.Results, 1)
	raw, err := doc.JSON()
	require.NoError(t, err)
	require.Empty(t, Validate(raw, Options{Strict: true}))
	_, _, err = FromRollout(r, Config{SaveImage: func(string, string, []byte) (string, error) { return "", errors.New("disk full") }})
	require.ErrorContains(t, err, "disk full")
}

func document(version, steps string) string {
	return `{"schema_version":"` + version + `","session_id":"s","agent":{"name":"a","version":"1"},"steps":[` + steps + `]}`
}

func TestOldVersionsAreReadAndUnknownMembersIgnored(t *testing.T) {
	for _, version := range []string{"ATIF-v1.0", "ATIF-v1.4", "ATIF-v1.5", "ATIF-v1.6", "ATIF-v1.7", "ATIF-v1.12"} {
		raw := strings.Replace(document(version, `{"step_id":1,"source":"user","message":"hi","new":1},{"step_id":2,"source":"agent","message":"","observation":{"results":[{"content":"seen"},{"source_call_id":null,"content":null}]}}`), `"agent":{`, `"later":[],"notes":null,"agent":{"new":true,`, 1)
		require.NotEmpty(t, Validate([]byte(raw), Options{Strict: true}))
		doc, err := Decode([]byte("\xef\xbb\xbf" + raw))
		require.NoError(t, err, version)
		messages, err := doc.Messages()
		require.NoError(t, err)
		require.Len(t, messages, 4)
		require.Equal(t, chat.RoleUser, messages[2].Role(), "what the environment says to no call is the user's")
		require.Equal(t, "seen", messages[2].Text())
	}
}

func TestProblemsOfADocumentAreNamedByTheirPlace(t *testing.T) {
	user := `{"step_id":1,"source":"user","message":"hi"}`
	tests := []struct{ name, raw, want string }{
		{"no JSON", `{`, "not valid JSON"},
		{"no object", `[]`, "want an object"},
		{"a version 2", document("ATIF-v2.0", user), `schema_version: "ATIF-v2.0" is not a version`},
		{"no agent", `{"schema_version":"ATIF-v1.7","steps":[` + user + `]}`, "agent: missing"},
		{"no session before 1.7", `{"schema_version":"ATIF-v1.6","agent":{"name":"a","version":"1"},"steps":[` + user + `]}`, "session_id: missing"},
		{"no steps", document("ATIF-v1.7", ""), "steps: want at least one"},
		{"a gap in the numbers", document("ATIF-v1.7", user+`,{"step_id":3,"source":"agent","message":""}`), "steps[1].step_id: is 3, want 2"},
		{"a fraction as a number", document("ATIF-v1.7", `{"step_id":1.0,"source":"user","message":"hi"}`), "steps[0].step_id: want an integer"},
		{"a strange source", document("ATIF-v1.7", `{"step_id":1,"source":"tool","message":""}`), `"tool" is none of`},
		{"tool calls of a user", document("ATIF-v1.7", `{"step_id":1,"source":"user","message":"","tool_calls":[]}`), "belongs to agent steps only"},
		{"arguments as text", document("ATIF-v1.7", `{"step_id":1,"source":"agent","message":"","tool_calls":[{"tool_call_id":"a","function_name":"f","arguments":"{}"}]}`), "steps[0].tool_calls[0].arguments: want an object"},
		{"an answer to no call", document("ATIF-v1.7", `{"step_id":1,"source":"agent","message":"","observation":{"results":[{"source_call_id":"x"}]}}`), `results[0].source_call_id: "x" is no call`},
		{"the same call id twice", document("ATIF-v1.7", `{"step_id":1,"source":"agent","message":"","tool_calls":[{"tool_call_id":"a","function_name":"f","arguments":{}},{"tool_call_id":"a","function_name":"f","arguments":{}}]}`), "not unique in the step"},
		{"parts in an old version", document("ATIF-v1.5", `{"step_id":1,"source":"user","message":[{"type":"text","text":"x"}]}`), "since version 1.6"},
		{"an image without a source", document("ATIF-v1.7", `{"step_id":1,"source":"user","message":[{"type":"image"}]}`), "an image part has a source"},
		{"an image type", document("ATIF-v1.7", `{"step_id":1,"source":"user","message":[{"type":"image","source":{"media_type":"image/tiff","path":"a"}}]}`), "no image type"},
		{"a time", document("ATIF-v1.7", `{"step_id":1,"source":"user","message":"","timestamp":"yesterday"}`), "not an ISO 8601 time"},
		{"metrics without a model", document("ATIF-v1.7", `{"step_id":1,"source":"agent","message":"","llm_call_count":0,"metrics":{}}`), "llm_call_count is 0"},
		{"token ids", document("ATIF-v1.7", `{"step_id":1,"source":"agent","message":"","metrics":{"prompt_token_ids":[1,"2"]}}`), "an array of integers"},
		{"a reference to nowhere", document("ATIF-v1.7", `{"step_id":1,"source":"agent","message":"","observation":{"results":[{"subagent_trajectory_ref":[{"session_id":"s"}]}]}}`), "neither trajectory_id"},
		{"a member twice", document("ATIF-v1.7", `{"step_id":1,"source":"user","message":"a","message":"b"}`), "given twice"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := Decode([]byte(test.raw))
			require.ErrorContains(t, err, test.want)
		})
	}
	nested := document("ATIF-v1.7", user)
	for range maxNesting + 2 {
		nested = strings.TrimSuffix(document("ATIF-v1.7", user), "}") + `,"trajectory_id":"t","subagent_trajectories":[` + strings.Replace(nested, `"session_id":"s"`, `"session_id":"s","trajectory_id":"t"`, 1) + `]}`
	}
	_, err := Decode([]byte(strings.Replace(nested, `,"trajectory_id":"t","subagent`, `,"subagent`, 1)))
	require.Error(t, err)
	var invalid *Error
	require.ErrorAs(t, err, &invalid)
}

func FuzzADocumentThatIsValidCanBeRead(f *testing.F) {
	golden, err := os.ReadFile(filepath.Join("testdata", "rich.json"))
	require.NoError(f, err)
	f.Add(golden)
	f.Add([]byte(document("ATIF-v1.7", `{"step_id":1,"source":"user","message":"hi"}`)))
	f.Add([]byte(document("ATIF-v1.6", `{"step_id":1,"source":"agent","message":[{"type":"text","text":"x"}],"tool_calls":[{"tool_call_id":"","function_name":"","arguments":{}}],"observation":{"results":[{"content":null}]}}`)))
	f.Fuzz(func(t *testing.T, raw []byte) {
		doc, err := Decode(raw)
		if err != nil {
			var invalid *Error
			require.ErrorAs(t, err, &invalid, "all that keeps a document from being read is a problem of it")
			return
		}
		messages, err := doc.Messages()
		require.NoError(t, err)
		again, err := doc.JSON()
		require.NoError(t, err)
		read, err := Decode(again)
		require.NoError(t, err)
		same, err := read.Messages()
		require.NoError(t, err)
		require.Len(t, same, len(messages))
	})
}
