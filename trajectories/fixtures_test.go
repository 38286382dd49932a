package trajectories

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/hermes-env/hermes-env/agentloop/chat"
)

var update = flag.Bool("update", false, "write the golden files again")

func TestMain(m *testing.M) {
	if dir := os.Getenv(childVariable); dir != "" {
		os.Exit(runChild(dir))
	}
	goleak.VerifyTestMain(m)
}

// golden compares with a file in testdata, or writes it with -update.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(path, got, 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), string(got), "differs from %s; run with -update when the change is meant", path)
}

func pointer[T any](v T) *T { return &v }

var fixedTime = time.Date(2026, 3, 30, 14, 22, 31, 456_789_000, time.UTC)

func testTools(t testing.TB) *chat.Toolset {
	t.Helper()
	tools, err := newTestTools()
	require.NoError(t, err)
	return tools
}

func newTestTools() (*chat.Toolset, error) {
	return chat.NewToolset(
		chat.ToolDefinition{Name: "terminal", Description: "Execute shell commands", Parameters: json.RawMessage(`{"type":"object","properties":{"command":{"type":"string"}}}`)},
		chat.ToolDefinition{Name: "read_file", Description: "Read a file <b> & more — ünïcode", Parameters: json.RawMessage(`{"type":"object","properties":{"path":{"type":"string"},"limit":{"type":"integer","default":1.50}},"required":["path"]}`)},
		chat.ToolDefinition{Name: "todo", Description: "Keep a list"},
	)
}

func testInfo(t testing.TB) Info {
	t.Helper()
	return newTestInfo(testTools(t))
}

func newTestInfo(tools *chat.Toolset) Info {
	return Info{
		Command:       "evaluate",
		Environment:   "terminal-test",
		Config:        json.RawMessage(`{"environment":"terminal-test","env":{"max_agent_turns":30,"agent_temperature":1.0,"system_prompt":"<be> & good"},"openai":[{"model_name":"m"}]}`),
		Version:       "1.2.3",
		DatasetDigest: "sha256:da7a",
		Seeds:         map[string]int64{"distribution": 42, "a": 1},
		Tools:         tools,
	}
}

func testSettings() settings {
	s := defaults()
	s.now = func() time.Time { return fixedTime }
	s.who = identity{pid: 4711, host: "host-a"}
	return s
}

// message decodes a chat message from JSON.
func message(t testing.TB, raw string) chat.Message {
	t.Helper()
	m, err := chat.Decode([]byte(raw))
	require.NoError(t, err)
	return m
}

// simple is a small scored rollout with the given place in the run.
func simple(item string, step, attempt int) *Rollout {
	return &Rollout{
		ID:                fmt.Sprintf("%s-%d-%d", item, step, attempt),
		ItemID:            item,
		ItemDigest:        "sha256:1",
		Step:              step,
		Group:             step,
		Attempt:           attempt,
		Outcome:           OutcomeScored,
		Score:             pointer(float64(attempt%2) / 2),
		Passed:            pointer(attempt%2 == 1),
		Model:             "m",
		TurnsUsed:         1,
		FinishedNaturally: true,
		Tools:             []string{"terminal"},
		StartedAt:         fixedTime,
		FinishedAt:        fixedTime,
		Messages: []chat.Message{
			chat.User("do " + item),
			chat.Assistant("done", ""),
		},
	}
}

// rich has something in every field.
func rich(t testing.TB) *Rollout {
	return &Rollout{
		ID:         "r-1",
		ItemID:     "greeting \"file\" <1>",
		ItemDigest: "sha256:abc",
		Step:       3, Group: 2, Attempt: 1,
		Outcome:    OutcomeLimit,
		Score:      pointer(1.0),
		Passed:     pointer(true),
		ScoreParts: []ScorePart{{"tests", 0.75}, {"a style", 1e-9}},
		Tampering: []Tampering{
			{Kind: "reward_write", Target: "/logs/verifier/reward.txt", Detail: "written by \"pid 7\"", Active: true},
			{Kind: "replaced", Target: "/usr/bin/curl"},
		},
		StopReason:        "max_turns",
		Error:             &Failure{Class: "turn_limit", Message: "30 turns\nused"},
		Model:             "org/model-x",
		TurnsUsed:         4,
		FinishedNaturally: false,
		Tools:             []string{"terminal", "read_file"},
		Toolsets:          []string{"terminal", "file"},
		ToolErrors:        []ToolError{{Turn: 2, Tool: "terminal", Arguments: `{"command":`, Error: "invalid JSON", Result: `{"error":"x"}`}},
		Usage:             chat.Usage{PromptTokens: 100, CompletionTokens: 20, TotalTokens: 120, CachedTokens: 64, ReasoningTokens: 7},
		Spend: &Spend{
			Agent:       Bill{Calls: 5, Unreported: 1, PromptTokens: 110, CachedTokens: 64, CompletionTokens: 21},
			Judge:       Bill{Calls: 2, PromptTokens: 900, CompletionTokens: 30, USD: pointer(0.0123)},
			FailedTries: Bill{Calls: 1, PromptTokens: 9, CompletionTokens: 1, USD: pointer(1.5e-6)},
		},
		Timings: Timings{Total: 12.5, Model: 10, Held: 4, Tools: 1.25, Sandbox: 0.5, Verify: 0.25, Harness: 0.0123456789,
			Turns: []TurnTiming{{Model: 2.5, Tools: 0.125, Total: 2.75, PromptTokens: 50, CompletionTokens: 10, FinishReason: "tool_calls"}, {Model: 7.5, Total: 7.5, FinishReason: "stop"}}},
		Sandbox: &Sandbox{Backend: "docker", Image: "debian:12", Digest: "sha256:feed", Events: []SandboxEvent{
			{Kind: "ended", Text: "its container was killed", Lost: true, Try: 1, Time: fixedTime},
			{Kind: "restarted", Text: "it ran out of memory", Inside: true, Lost: true, Try: 2, Time: fixedTime.Add(time.Second)},
		}},
		Retries:    2,
		StartedAt:  fixedTime,
		FinishedAt: fixedTime.Add(12500 * time.Millisecond),
		Metadata:   json.RawMessage(`{"difficulty": "hard", "n": 1.50}`),
		Messages: []chat.Message{
			chat.System("You are <b>good</b>."),
			chat.User("What Python version is installed?"),
			message(t, `{"role":"assistant","content":"Let me look.","reasoning_content":"I should run python3 --version.","x_big":12345678901234567890,"tool_calls":[{"id":"call_1","type":"function","function":{"name":"terminal","arguments":"{\"command\":\"python3 --version\",\"n\":1.0}"}},{"id":"call_2","type":"function","function":{"name":"read_file","arguments":"{\"path\": "}}]}`),
			chat.Tool("call_1", "Python 3.11.6"),
			chat.Tool("call_2", `{"error": "no such file", "path":"é", "sizes":[1,2.50]}`),
			message(t, `{"role":"assistant","content":"<REASONING_SCRATCHPAD>hm</REASONING_SCRATCHPAD>","tool_calls":[{"id":"call_3","type":"function","function":{"name":"fly","arguments":"{}"}}]}`),
			chat.Tool("call_3", "Error: unknown tool"),
			chat.Tool("call_9", "one too many"),
			chat.User("And?"),
			chat.Assistant("Python 3.11.6 is installed.", ""),
		},
	}
}

// lines splits a file of lines.
func readLines(t testing.TB, path string) []string {
	t.Helper()
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	if len(content) == 0 {
		return nil
	}
	require.True(t, bytes.HasSuffix(content, []byte{'\n'}), "%s does not end in a newline", path)
	var lines []string
	for _, line := range bytes.Split(bytes.TrimSuffix(content, []byte{'\n'}), []byte{'\n'}) {
		lines = append(lines, string(line))
	}
	return lines
}
