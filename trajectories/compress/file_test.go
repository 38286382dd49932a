package compress

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"
	"go.uber.org/goleak"

	"github.com/hermes-env/hermes-env/agentloop/model"
	"github.com/hermes-env/hermes-env/agentloop/model/modeltest"
)

var update = flag.Bool("update", false, "write the golden files anew")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// words counts a token for every word.
type words struct{}

func (words) Count(text string) int { return len(strings.Fields(text)) }

// small are settings for conversations of some hundred words.
func small() Config {
	c := Defaults()
	c.Compression.TargetMaxTokens, c.Compression.SummaryTargetTokens = 120, 10
	c.Summarization.RetryDelay = 0
	c.Processing.MaxConcurrentRequests = 4
	return c
}

// conversation makes a row of n calls whose answers have size words each.
func conversation(id, n, size int) string {
	turns := []string{
		`{"from": "system", "value": "You are helpful."}`,
		fmt.Sprintf(`{"from": "human", "value": "Do task %d, größer."}`, id),
	}
	for i := range n {
		turns = append(turns,
			fmt.Sprintf(`{"from": "gpt", "value": "<think>\nstep %d\n</think>\n<tool_call>\n{\"name\": \"terminal\", \"arguments\": {}}\n</tool_call>"}`, i),
			fmt.Sprintf(`{"from": "tool", "value": "<tool_response> %s</tool_response>"}`, strings.Repeat("out ", size)))
	}
	turns = append(turns, `{"from": "gpt", "value": "done", "weight": 1.50}`)
	return fmt.Sprintf(`{"prompt_index": %d, "conversations": [%s], "completed": true, "score": 0.10}`, id, strings.Join(turns, ", "))
}

type fixture struct {
	*testing.T
	dir    string
	config Config
	server *modeltest.Server
	warned []string
	mu     sync.Mutex
}

func newFixture(t *testing.T, script modeltest.Script) *fixture {
	return &fixture{T: t, dir: t.TempDir(), config: small(), server: modeltest.NewServer(t, script)}
}

func (f *fixture) path(name string) string { return filepath.Join(f.dir, name) }

func (f *fixture) write(rows ...string) {
	f.Helper()
	require.NoError(f, os.WriteFile(f.path("in.jsonl"), []byte(strings.Join(rows, "\n")+"\n"), 0o644))
}

func (f *fixture) compressor() *Compressor {
	f.Helper()
	client, err := model.NewChat(model.Server{BaseURL: f.server.URL, Model: "mock"})
	require.NoError(f, err)
	f.Cleanup(client.CloseIdleConnections)
	c, err := New(f.config, words{}, model.Retry(client, model.RetryPolicy{MaxAttempts: f.config.Summarization.MaxRetries, BaseDelay: time.Microsecond}))
	require.NoError(f, err)
	c.now = func() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC) }
	return c
}

func (f *fixture) run(ctx context.Context) (*Metrics, error) {
	f.Helper()
	return f.compressor().File(ctx, FileOptions{In: f.path("in.jsonl"), Out: f.path("out.jsonl"), Warn: func(text string) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.warned = append(f.warned, text)
	}})
}

func (f *fixture) rows(name string) []string {
	f.Helper()
	text, err := os.ReadFile(f.path(name))
	require.NoError(f, err)
	return strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
}

func summary() modeltest.Script { return modeltest.Always(modeltest.Text("It ran three commands.")) }

func TestRowsAreCompressedAsTheGoldenFileSays(t *testing.T) {
	f := newFixture(t, summary())
	f.write(conversation(0, 6, 30), conversation(1, 2, 5), `{"id": 7, "note": "no conversation"}`, conversation(3, 2, 90))
	m, err := f.run(t.Context())
	require.NoError(t, err)
	m.Tokenizer, m.Estimated = "words", true
	var metrics strings.Builder
	for _, section := range m.Object() {
		fmt.Fprintf(&metrics, "%s %s\n", section.Key, section.Value)
	}
	got := strings.Join(f.rows("out.jsonl"), "\n") + "\n" + metrics.String()
	golden := filepath.Join("testdata", "golden.txt")
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(golden, []byte(got), 0o644))
	}
	want, err := os.ReadFile(golden)
	require.NoError(t, err)
	require.Equal(t, string(want), got)
	require.NoFileExists(t, f.path("out.jsonl.journal"))
	require.NoFileExists(t, f.path("out.jsonl.tmp"))
}

func TestWhatIsNotCompressedKeepsItsBytes(t *testing.T) {
	f := newFixture(t, summary())
	row := `{"conversations":[{"value":"hi  ","from":"human"}],   "n": 1.00}`
	f.write(row, "", "  ", "not json", `[1]`, `{"conversations": "none"}`)
	m, err := f.run(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{row, `{"conversations": "none"}`}, f.rows("out.jsonl"))
	require.Equal(t, []int{2, 1, 1, 2}, []int{m.Total, m.Skipped, m.WithoutConversation, m.BadLines})
	require.Len(t, f.warned, 2)
	require.Contains(t, strings.Join(f.warned, "\n"), "in.jsonl, line 4 is no JSON object")
	require.Zero(t, f.server.RequestCount())
}

func TestASummaryThatCanNotBeHadLeavesTheRowAsItWas(t *testing.T) {
	tests := map[string]struct {
		script modeltest.Script
		says   string
		calls  int
	}{
		"the server fails":           {modeltest.Always(modeltest.Status(http.StatusServiceUnavailable)), "overloaded", 3},
		"it is refused":              {modeltest.Always(modeltest.Status(http.StatusBadRequest)), "refused", 1},
		"it is cut off":              {modeltest.Always(modeltest.Text("It ran").WithFinish("length")), "cut off at 20 tokens", 3},
		"it is empty":                {modeltest.Always(modeltest.Text("  [CONTEXT SUMMARY]:  ")), "empty summary", 3},
		"it is longer than the rest": {modeltest.Always(modeltest.Text(strings.Repeat("very ", 400))), "no shorter", 3},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, test.script)
			rows := []string{conversation(0, 6, 30), conversation(1, 1, 1), conversation(2, 6, 31)}
			f.write(rows...)
			m, err := f.run(t.Context())
			require.NoError(t, err)
			require.Equal(t, rows, f.rows("out.jsonl"), "nothing is dropped and nothing replaced")
			require.Equal(t, []int{3, 0, 2, 2, 1}, []int{m.Total, m.Compressed, m.Failed, m.StillOver, m.Skipped})
			require.Equal(t, 2*test.calls, m.Calls)
			require.Equal(t, m.Calls, m.Errors)
			require.Contains(t, strings.Join(f.warned, "\n"), test.says)
		})
	}
}

func TestARowThatTakesTooLongStaysAsItWas(t *testing.T) {
	f := newFixture(t, func(r *modeltest.Request) modeltest.Reply {
		if strings.Contains(r.Prompt(), strings.Repeat("out ", 31)) {
			return modeltest.Hang()
		}
		return modeltest.Text("short")
	})
	f.config.Processing.PerTrajectoryTimeout = 1.5
	f.write(conversation(0, 6, 30), conversation(1, 6, 31), conversation(2, 6, 30))
	m, err := f.run(t.Context())
	require.NoError(t, err)
	got := f.rows("out.jsonl")
	require.Len(t, got, 3)
	require.Equal(t, conversation(1, 6, 31), got[1])
	require.Equal(t, []int{2, 1}, []int{m.Compressed, m.Failed})
	require.Contains(t, f.warned[0], "no summary within 1.5s (processing.per_trajectory_timeout)")
}

func TestAKeyThatIsNotAcceptedEndsTheRunAndKeepsTheOldOutput(t *testing.T) {
	f := newFixture(t, modeltest.Always(modeltest.Status(http.StatusUnauthorized)))
	f.write(conversation(0, 6, 30), conversation(1, 6, 31))
	require.NoError(t, os.WriteFile(f.path("out.jsonl"), []byte("old\n"), 0o644))
	_, err := f.run(t.Context())
	require.ErrorContains(t, err, "the key was not accepted")
	require.Equal(t, []string{"old"}, f.rows("out.jsonl"))
	require.NoFileExists(t, f.path("out.jsonl.tmp"))
}

func TestRowsComeOutInTheirOrderAndRequestsAreBounded(t *testing.T) {
	f := newFixture(t, modeltest.Delayed(summary(), func(r *modeltest.Request) time.Duration {
		return time.Duration(r.Number*7%13) * time.Millisecond
	}))
	var rows []string
	for i := range 60 {
		rows = append(rows, conversation(i, 1+5*(i%2), 30))
	}
	f.write(rows...)
	m, err := f.run(t.Context())
	require.NoError(t, err)
	for i, row := range f.rows("out.jsonl") {
		require.Equal(t, int64(i), gjson.Get(row, "prompt_index").Int())
		require.Equal(t, i%2 == 1, gjson.Get(row, "compression_metrics.was_compressed").Bool())
	}
	require.Equal(t, 30, m.Compressed)
	require.LessOrEqual(t, f.server.MaxInFlight(), 4)
}

func TestWhatWasPaidForIsNotPaidForAgain(t *testing.T) {
	f := newFixture(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	f.server = modeltest.NewServer(t, func(r *modeltest.Request) modeltest.Reply {
		if r.Number == 5 {
			cancel()
			return modeltest.Hang()
		}
		return modeltest.Text(fmt.Sprintf("Summary %d.", r.Number))
	})
	f.config.Processing.MaxConcurrentRequests = 1
	var rows []string
	for i := range 10 {
		rows = append(rows, conversation(i, 6, 30))
	}
	f.write(rows...)
	_, err := f.run(ctx)
	require.ErrorIs(t, err, context.Canceled)
	require.NoFileExists(t, f.path("out.jsonl"))
	journal := f.rows("out.jsonl.journal")
	require.Len(t, journal, 5)

	// A kill in the middle of a line, and an input that was reordered and added to.
	file, err := os.OpenFile(f.path("out.jsonl.journal"), os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = file.WriteString(journal[0][:40])
	require.NoError(t, err)
	require.NoError(t, file.Close())
	rows[0], rows[9] = rows[9], rows[0]
	f.write(append(rows, conversation(10, 6, 30))...)
	m, err := f.run(t.Context())
	require.NoError(t, err)
	require.Equal(t, 5, m.FromJournal)
	require.Equal(t, 6+6, f.server.RequestCount())
	got := f.rows("out.jsonl")
	require.Len(t, got, 11)
	seen := map[string]bool{}
	for i, row := range got {
		require.Equal(t, gjson.Get(append(rows, conversation(10, 6, 30))[i], "prompt_index").Raw, gjson.Get(row, "prompt_index").Raw)
		text := gjson.Get(row, "conversations.4.value").String()
		require.False(t, seen[text], "every row has a summary of its own: %s", text)
		seen[text] = true
	}
	require.NoFileExists(t, f.path("out.jsonl.journal"))
}

func TestFailedRowsAreTriedAgainAlone(t *testing.T) {
	f := newFixture(t, func(r *modeltest.Request) modeltest.Reply {
		if r.Number == 0 {
			return modeltest.Status(http.StatusBadRequest)
		}
		return modeltest.Text("fine")
	})
	f.config.Processing.MaxConcurrentRequests = 1
	f.write(conversation(0, 6, 30), conversation(1, 6, 30))
	m, err := f.run(t.Context())
	require.NoError(t, err)
	require.Equal(t, []int{1, 1}, []int{m.Failed, m.Compressed})
	m, err = f.run(t.Context())
	require.NoError(t, err)
	require.Equal(t, []int{0, 2, 1}, []int{m.Failed, m.Compressed, m.FromJournal})
	require.Equal(t, 3, f.server.RequestCount())
}

func TestADamagedJournalIsRefused(t *testing.T) {
	f := newFixture(t, summary())
	f.write(conversation(0, 6, 30))
	require.NoError(t, os.WriteFile(f.path("out.jsonl.journal"), []byte("{}\n"), 0o644))
	_, err := f.run(t.Context())
	require.ErrorContains(t, err, "line 1 of "+f.path("out.jsonl.journal")+" is damaged")
}

func TestSettingsThatDidNothingDoSomething(t *testing.T) {
	f := newFixture(t, summary())
	f.config.Processing.SkipUnderTarget = false
	f.config.Compression.TargetMaxTokens = 5000
	f.config.Output.AddSummaryNotice = false
	f.config.Metrics.PerTrajectory = false
	f.write(conversation(0, 6, 30))
	m, err := f.run(t.Context())
	require.NoError(t, err)
	require.Equal(t, 1, m.Compressed, "skip_under_target: false compresses short ones as well")
	row := f.rows("out.jsonl")[0]
	require.Equal(t, "You are helpful.", gjson.Get(row, "conversations.0.value").String())
	require.False(t, gjson.Get(row, "compression_metrics").Exists())

	f = newFixture(t, summary())
	f.config.Processing.SaveOverLimit = false
	f.config.Compression.TargetMaxTokens = 60
	f.write(conversation(0, 6, 30), conversation(1, 1, 1))
	m, err = f.run(t.Context())
	require.NoError(t, err)
	require.Equal(t, []int{1, 1}, []int{m.NotSaved, m.StillOver})
	require.Len(t, f.rows("out.jsonl"), 1)
}

func TestADryRunAsksNobodyAndWritesNothing(t *testing.T) {
	f := newFixture(t, summary())
	f.write(conversation(0, 6, 30), conversation(1, 1, 1))
	c, err := New(f.config, words{}, nil)
	require.NoError(t, err)
	m, err := c.File(t.Context(), FileOptions{In: f.path("in.jsonl"), Out: f.path("out.jsonl"), Warn: func(string) {}})
	require.NoError(t, err)
	require.Equal(t, []int{2, 1, 1}, []int{m.Total, m.Compressed, m.Skipped})
	require.Less(t, m.TokensAfter, m.TokensBefore)
	entries, err := os.ReadDir(f.dir)
	require.NoError(t, err)
	require.Len(t, entries, 1)
}

func TestTheOutputCanNotBeTheInput(t *testing.T) {
	f := newFixture(t, summary())
	f.write(conversation(0, 1, 1))
	_, err := f.compressor().File(t.Context(), FileOptions{In: f.path("in.jsonl"), Out: f.path("in.jsonl")})
	require.ErrorContains(t, err, "the output is the input itself")
}

func TestASampleHasItsSizeAndDependsOnTheSeedAlone(t *testing.T) {
	pick := func(n int, percent float64, seed int64) (rows []int) {
		keep := Sample(n, percent, seed)
		for i := range n {
			if keep(i) {
				rows = append(rows, i)
			}
		}
		return rows
	}
	require.Len(t, pick(1000, 12.5, 42), 125)
	require.Equal(t, pick(1000, 12.5, 42), pick(1000, 12.5, 42))
	require.NotEqual(t, pick(1000, 12.5, 42), pick(1000, 12.5, 43))
	require.Len(t, pick(3, 1, 1), 1, "at least one row")
	require.Len(t, pick(7, 100, 1), 7)
}

func TestThePrefixStandsOnce(t *testing.T) {
	for text, want := range map[string]string{
		"It ran.":                                 "[CONTEXT SUMMARY]: It ran.",
		"[CONTEXT SUMMARY]: It ran.":              "[CONTEXT SUMMARY]: It ran.",
		" [CONTEXT SUMMARY]:It ran.\n ":           "[CONTEXT SUMMARY]: It ran.",
		"[CONTEXT SUMMARY]: [CONTEXT SUMMARY]: x": "[CONTEXT SUMMARY]: x",
		"[CONTEXT SUMMARY]:":                      "",
		"":                                        "",
	} {
		require.Equal(t, want, withPrefix(text))
	}
}

func TestLongTurnsAreShownByTheirEnds(t *testing.T) {
	text := strings.Repeat("ä", 1500) + strings.Repeat("b", 2000) + strings.Repeat("c", 500)
	require.Equal(t, strings.Repeat("ä", 1500)+"\n...[2000 characters left out]...\n"+strings.Repeat("c", 500), shorten(text))
	require.Equal(t, text[:100], shorten(text[:100]))
}

func TestTheRequestIsWhatTheSettingsSay(t *testing.T) {
	f := newFixture(t, summary())
	f.write(conversation(0, 6, 30))
	_, err := f.run(t.Context())
	require.NoError(t, err)
	body := f.server.Requests()[0].Body
	require.Equal(t, 0.3, gjson.GetBytes(body, "temperature").Float())
	require.Equal(t, int64(20), gjson.GetBytes(body, "max_tokens").Int())
	prompt := gjson.GetBytes(body, "messages.0.content").String()
	require.Contains(t, prompt, "[Turn 4 - GPT]:\n<think>\nstep 1")
	require.NotContains(t, prompt, "step 0", "protected turns are not shown")
}

func FuzzRow(f *testing.F) {
	f.Add([]byte(conversation(0, 6, 30)))
	f.Add([]byte(`{"conversations": [{"from": "human"}, 5, null, {"value": {"a": 1}, "from": ["x"]}]}`))
	f.Add([]byte(`{"conversations": []}`))
	f.Add([]byte(`{"a": 1, "a": 2, "conversations": [{"from": "gpt", "value": "\ud800"}]}`))
	config := small()
	config.Compression.TargetMaxTokens, config.Compression.SummaryTargetTokens = 5, 1
	config.ProtectedTurns.LastNTurns = 1
	c, err := New(config, words{}, constant{})
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, row []byte) {
		if len(row) == 0 || row[0] != '{' || !json.Valid(row) {
			return
		}
		j, err := openJournal(filepath.Join(t.TempDir(), "j"))
		require.NoError(t, err)
		res, err := c.row(t.Context(), row, j)
		require.NoError(t, err)
		require.NoError(t, j.close())
		require.True(t, json.Valid(res.out), "%s", res.out)
		before, after := gjson.GetBytes(row, "conversations.#").Int(), gjson.GetBytes(res.out, "conversations.#").Int()
		require.LessOrEqual(t, after, before)
	})
}

// constant is a model that always says the same.
type constant struct{}

func (constant) Complete(context.Context, *model.Request) (*model.Response, error) {
	return &model.Response{Message: chatAssistant("x"), FinishReason: "stop", Attempts: 1}, nil
}
