package convert

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/hermes-env/hermes-env/agentloop/chat"
	"github.com/hermes-env/hermes-env/trajectories"
	"github.com/hermes-env/hermes-env/trajectories/parquetrows"
	"github.com/hermes-env/hermes-env/trajectories/table"
)

var update = flag.Bool("update", false, "write the golden files anew")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// golden compares with a file in testdata, or writes it with -update.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, got, 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), string(got), "differs from %s; run with -update when the change is meant", path)
}

func pointer[T any](v T) *T { return &v }

var fixedTime = time.Date(2026, 3, 30, 14, 22, 31, 456_000_000, time.UTC)

func testTools(t testing.TB) *chat.Toolset {
	t.Helper()
	tools, err := chat.NewToolset(
		chat.ToolDefinition{Name: "terminal", Description: "Execute <shell> commands", Parameters: json.RawMessage(`{"type":"object","properties":{"command":{"type":"string"}}}`)},
		chat.ToolDefinition{Name: "read_file", Description: "Read a file — ünïcode", Parameters: json.RawMessage(`{"type":"object","properties":{"limit":{"type":"integer","default":1.50}}}`)},
		chat.ToolDefinition{Name: "todo", Description: "Keep a list"},
	)
	require.NoError(t, err)
	return tools
}

// rollout is one of two items with two attempts each. The first rows lack what
// later ones have.
func rollout(t testing.TB, item, attempt int) *trajectories.Rollout {
	t.Helper()
	r := &trajectories.Rollout{
		ID: fmt.Sprintf("r-%d-%d", item, attempt), ItemID: fmt.Sprintf("item-%d", item), ItemDigest: "sha256:1", Group: item, Attempt: attempt,
		Outcome: trajectories.OutcomeVerifierError, Error: &trajectories.Failure{Class: "timeout", Message: "too slow"},
		StopReason: "natural", Model: "org/m", TurnsUsed: 1, FinishedNaturally: true, StartedAt: fixedTime, FinishedAt: fixedTime.Add(time.Second),
		Messages: []chat.Message{chat.User(fmt.Sprintf("do <item> %d", item)), chat.Assistant("done — \U0001F600", "")},
	}
	if attempt == 0 && item == 0 {
		return r
	}
	r.Outcome, r.Error, r.Score, r.Passed = trajectories.OutcomeScored, nil, pointer(float64(attempt)/4), pointer(attempt > 1)
	r.Tools, r.Toolsets = []string{"terminal", "read_file"}, []string{"terminal", "file"}
	r.Usage = chat.Usage{PromptTokens: 120, CompletionTokens: 30, TotalTokens: 150, ReasoningTokens: 5}
	r.ScoreParts = []trajectories.ScorePart{{Name: "tests", Value: 0.5}}
	if attempt == 1 {
		r.Tampering = []trajectories.Tampering{{Kind: "replaced", Target: "/usr/bin/\"curl\"", Detail: "by apt <2>"}}
	}
	r.Timings = trajectories.Timings{Total: 1.5, Turns: []trajectories.TurnTiming{{Model: 1, Total: 1, PromptTokens: 100, CompletionTokens: 30, FinishReason: "stop"}}}
	r.Sandbox, r.Retries = &trajectories.Sandbox{Backend: "docker", Image: "i"}, 2
	r.Metadata = json.RawMessage(`{"task_name":"t","n":1.50}`)
	r.TurnsUsed = 2
	r.Messages = []chat.Message{
		chat.User(fmt.Sprintf("do <item> %d", item)),
		chat.Assistant("", fmt.Sprintf("I think %d.", attempt), chat.ToolCall{ID: "c1", Name: "terminal", Arguments: `{"command":"ls","n":1.0}`}, chat.ToolCall{ID: "c2", Name: "read_file", Arguments: `{}`}),
		chat.Tool("c1", `{"output":"a & b","exit_code":0}`),
		chat.Tool("c2", "Error: no such file"),
		chat.Assistant(fmt.Sprintf("answer %d", attempt), ""),
	}
	if attempt == 3 {
		r.FinishedNaturally, r.Outcome, r.StopReason = false, trajectories.OutcomeLimit, "max_turns"
		r.Timings.Turns[0].FinishReason = "length"
		r.Messages = append(r.Messages, chat.User("more"), chat.Assistant("", "", chat.ToolCall{ID: "c3", Name: "made_up", Arguments: `{"x":1}`}), chat.Tool("c3", `{"error":"unknown tool"}`))
	}
	return r
}

// makeRun records a run of two items with four attempts each.
func makeRun(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "run")
	run, err := trajectories.Create(dir, trajectories.Info{Command: "process", Environment: "test", Config: json.RawMessage(`{"a":1}`), Version: "1", Tools: testTools(t)})
	require.NoError(t, err)
	for item := range 2 {
		for attempt := range 4 {
			require.NoError(t, run.Append(t.Context(), rollout(t, item, attempt)))
		}
	}
	require.NoError(t, run.Close(trajectories.StatusDone))
	return dir
}

func writeLines(t testing.TB, name string, lines ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o644))
	return path
}

// run converts into a new folder and returns the report and the lines written.
func run(t testing.TB, o Options) (*Report, []string) {
	t.Helper()
	if o.Out == "" {
		o.Out = filepath.Join(t.TempDir(), "out")
	}
	o.Version = "1.2.3"
	report, err := Run(t.Context(), o)
	require.NoError(t, err)
	if o.Encoding == table.Parquet {
		var lines []string
		for _, f := range report.Files {
			require.NoError(t, parquetrows.Each(t.Context(), filepath.Join(o.Out, f.Name), parquetrows.Config{}, func(row parquetrows.Row) error {
				lines = append(lines, string(row.JSON))
				return row.Err
			}))
		}
		return report, lines
	}
	var all []byte
	for _, f := range report.Files {
		path := filepath.Join(o.Out, f.Name)
		if o.single() {
			path = o.Out
		}
		content, err := os.ReadFile(path)
		require.NoError(t, err)
		all = append(all, content...)
	}
	if len(bytes.TrimSpace(all)) == 0 {
		return report, nil
	}
	return report, strings.Split(strings.TrimSuffix(string(all), "\n"), "\n")
}

func counts(list []Count) map[string]int64 {
	m := map[string]int64{}
	for _, c := range list {
		m[c.What] = c.Rows
	}
	return m
}
