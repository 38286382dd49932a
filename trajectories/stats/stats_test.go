package stats

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/agentloop/chat"
	"github.com/hermes-env/hermes-env/trajectories"
)

func pointer[T any](v T) *T { return &v }

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func rollout(item string, attempt int, score *float64) *trajectories.Rollout {
	r := &trajectories.Rollout{
		ID: fmt.Sprintf("%s-%d", item, attempt), ItemID: item, Attempt: attempt, Outcome: trajectories.OutcomeScored, Score: score, Model: "m", TurnsUsed: 2,
		Usage: chat.Usage{PromptTokens: 1000, CompletionTokens: 100, CachedTokens: 500}, Timings: trajectories.Timings{Total: float64(attempt + 1), Model: 1, Turns: []trajectories.TurnTiming{{FinishReason: "stop"}}},
		StartedAt: start, FinishedAt: start.Add(time.Duration(attempt) * time.Minute), Metadata: json.RawMessage(`{"category":"security","difficulty":"hard"}`),
		Messages: []chat.Message{chat.System("s"), chat.User("do " + item), chat.Assistant("", "hm", chat.ToolCall{ID: "1", Name: "terminal", Arguments: `{"command":"ls"}`}), chat.Tool("1", `{"error":"no"}`), chat.Assistant("done", "")},
	}
	if score == nil {
		r.Outcome, r.Error = trajectories.OutcomeSandboxError, &trajectories.Failure{Class: "image", Message: "x"}
	} else {
		r.Passed = pointer(*score >= 1)
	}
	return r
}

func TestRolloutsAreDescribed(t *testing.T) {
	c := New(Config{PromptPrice: 2, CompletionPrice: 10, CachedPrice: 1, KnownTools: []string{"read_file"}, Top: 2})
	c.Rollout(rollout("a", 0, pointer(1.0)))
	c.Rollout(rollout("a", 1, pointer(0.0)))
	c.Rollout(rollout("b", 0, pointer(1.0)))
	c.Rollout(rollout("b", 1, nil))
	r := c.Result()
	require.Equal(t, 4, r.Rows)
	require.Equal(t, 2, r.Items)
	require.Equal(t, []Count{{"scored", 3}, {"sandbox_error", 1}}, r.Outcomes)
	require.Equal(t, []Count{{"image", 1}}, r.Errors)
	require.Equal(t, 3, r.Score.N)
	require.InDelta(t, 2.0/3, r.Score.Mean, 1e-12)
	require.Equal(t, 2, r.Score.Passed)
	// Clustered by item, by hand: residual sums −1/3 and 1/3, so SE² = 2/1 · (2/9) / 9.
	require.InDelta(t, math.Sqrt(2*2.0/9/9), *r.Score.StdErr, 1e-12)
	require.Equal(t, []Tool{{Name: "terminal", Calls: 4, Failure: 4, Rows: 4, Unknown: true}}, r.Tools)
	require.Equal(t, Reasoning{Turns: 8, With: 4}, r.Reasoning)
	require.Equal(t, Duplicates{Conversations: 2}, r.Duplicates, "attempts of one item share a prompt, which is no duplicate")
	// 500 at 2 + 500 at 1 + 100 at 10 dollars per million.
	require.InDelta(t, 4*0.0025, r.Cost.TotalUSD, 1e-12)
	require.InDelta(t, 0.005, r.Cost.PerPassUSD, 1e-12)
	require.Len(t, r.Slowest, 2)
	require.Equal(t, 2.0, r.Slowest[0].Seconds)
	require.Equal(t, 61, len(r.Throughput.Bins))
	require.Equal(t, "security", r.Groups[0].Name)
	require.Equal(t, "difficulty", r.Groups[1].Kind)
	require.Equal(t, 3, r.Groups[0].Scored)
	raw, err := chat.Marshal(r)
	require.NoError(t, err)
	require.True(t, json.Valid(raw))
}

func TestSamePromptUnderAnotherItemIsADuplicate(t *testing.T) {
	c := New(Config{})
	one, two := rollout("a", 0, pointer(1.0)), rollout("a", 0, pointer(1.0))
	two.ItemID = "b"
	c.Rollout(one)
	c.Rollout(two)
	require.Equal(t, Duplicates{Conversations: 1, Prompts: 1}, c.Result().Duplicates)
}

func TestNothingGivesNoFigures(t *testing.T) {
	r := New(Config{}).Result()
	require.Nil(t, r.Score.StdErr)
	require.Nil(t, r.Cost)
	raw, err := chat.Marshal(r)
	require.NoError(t, err, "no NaN reaches the JSON")
	require.Contains(t, string(raw), `"rows":0`)
}

func TestShareGPTRowsAreDescribed(t *testing.T) {
	c := New(Config{})
	own := `{"prompt_index":3,"conversations":[{"from":"system","value":"x"},{"from":"human","value":"q"},{"from":"gpt","value":"<think>\nhm\n</think>\n<tool_call>\n{\"name\": \"terminal\", \"arguments\": {}}\n</tool_call>"},{"from":"tool","value":"r"},{"from":"gpt","value":"<think>\n</think>\nok"}],"completed":true,"api_calls":2,"timestamp":"2026-03-30T14:22:31.456000","model":"m"`
	require.NoError(t, c.Line([]byte(own+`}`)))
	require.NoError(t, c.Line([]byte(own+`,"tool_stats":{"terminal":{"count":5,"success":4,"failure":1},"patch":{"count":0,"success":0,"failure":0}},"score":0.5,"outcome":"limit","metadata":{"environment":"{\"category\":\"c\"}"}}`)))
	require.NoError(t, c.Line([]byte(`{"messages":[{"role":"user","content":"q"},{"role":"assistant","content":"a"}],"score":1.0,"passed":true}`)))
	r := c.Result()
	require.Equal(t, []Count{{"sharegpt", 2}, {"messages", 1}}, r.Formats)
	require.Equal(t, []Count{{"completed", 1}, {"limit", 1}}, r.Outcomes)
	require.Equal(t, []Tool{{Name: "terminal", Calls: 6, Success: 4, Failure: 1, Rows: 2}}, r.Tools)
	require.Equal(t, Reasoning{Turns: 5, With: 2, RowsWithout: 1}, r.Reasoning)
	require.Equal(t, "2026-03-30T14:22:31Z", r.Throughput.Start)
	require.Equal(t, 2, r.Score.N)
	require.Equal(t, 1, r.Groups[0].Rows)
}

func TestBrokenLinesAreCountedAndNamed(t *testing.T) {
	good := `{"messages":[{"role":"user","content":"q"}]}`
	text := "\xef\xbb\xbf" + good + "\r\n\n{\"a\":\n[1]\n{\"x\":1}\n{\"messages\":[1]}\n" + good + "\n{\"messages\":[{\"rol"
	dir := t.TempDir()
	for name, write := range map[string]func(io.Writer){
		"rows.jsonl": func(w io.Writer) { _, _ = io.WriteString(w, text) },
		"rows.jsonl.gz": func(w io.Writer) {
			z := gzip.NewWriter(w)
			_, _ = io.WriteString(z, text)
			_ = z.Close()
		},
	} {
		path := filepath.Join(dir, name)
		f, err := os.Create(path)
		require.NoError(t, err)
		write(f)
		require.NoError(t, f.Close())
		c := New(Config{})
		require.NoError(t, c.File(context.Background(), path))
		r := c.Result()
		require.Equal(t, 2, r.Rows)
		require.Equal(t, 5, r.Broken)
		require.Equal(t, []int{3, 4, 5, 6, 8}, []int{r.Problems[0].Line, r.Problems[1].Line, r.Problems[2].Line, r.Problems[3].Line, r.Problems[4].Line})
		require.Contains(t, r.Problems[4].Problem, "cut off")
		require.Equal(t, name, r.Problems[0].File)
	}
	require.ErrorIs(t, New(Config{}).File(context.Background(), filepath.Join(dir, "none")), os.ErrNotExist)
	cancelled, cancel := context.WithCancel(context.Background())
	cancel()
	require.ErrorIs(t, New(Config{}).File(cancelled, filepath.Join(dir, "rows.jsonl")), context.Canceled)
}

func TestALineOverTheLimitIsPassedOver(t *testing.T) {
	in := bufio.NewReaderSize(strings.NewReader(strings.Repeat("x", 100)+"\nshort\n"), 16)
	line, tooLong, err := nextLine(in, nil, 50)
	require.NoError(t, err)
	require.True(t, tooLong)
	require.LessOrEqual(t, len(line), 50)
	line, tooLong, err = nextLine(in, nil, 50)
	require.NoError(t, err)
	require.False(t, tooLong)
	require.Equal(t, "short\n", string(line))
}

func TestDistributionsKeepTheirExactFiguresWhenTheySample(t *testing.T) {
	var d numbers
	const n = 200_000
	for i := range n {
		d.add(float64(i))
	}
	d.add(math.NaN())
	r := d.distribution(10)
	require.True(t, r.Sampled)
	require.Equal(t, n, r.N)
	require.Equal(t, 0.0, r.Min)
	require.Equal(t, float64(n-1), r.Max)
	require.InDelta(t, float64(n-1)/2, r.Mean, 1e-6)
	require.InDelta(t, n/2, r.P50, n/50.0)
	require.LessOrEqual(t, len(d.kept), maxValues)
	sum := 0
	for _, b := range r.Histogram {
		sum += b.Count
	}
	require.InDelta(t, n, sum, 20)
}

func TestHistogramsHaveRoundBordersAndMissNothing(t *testing.T) {
	tests := []struct {
		values []float64
		want   []Bar
	}{
		{[]float64{5, 5}, []Bar{{5, 5, 2}}},
		{[]float64{0, 0.5, 1, 1}, []Bar{{0, 0.1, 1}, {0.1, 0.2, 0}, {0.2, 0.3, 0}, {0.3, 0.4, 0}, {0.4, 0.5, 0}, {0.5, 0.6, 1}, {0.6, 0.7, 0}, {0.7, 0.8, 0}, {0.8, 0.9, 0}, {0.9, 1, 2}}},
		{[]float64{-3, 17}, []Bar{{-4, -2, 1}, {-2, 0, 0}, {0, 2, 0}, {2, 4, 0}, {4, 6, 0}, {6, 8, 0}, {8, 10, 0}, {10, 12, 0}, {12, 14, 0}, {14, 16, 0}, {16, 18, 1}}},
	}
	for _, test := range tests {
		var d numbers
		for _, v := range test.values {
			d.add(v)
		}
		require.Equal(t, test.want, d.distribution(10).Histogram)
	}
}

func TestTheTimeLineGetsWiderInsteadOfLonger(t *testing.T) {
	var l timeline
	for i := range 100_000 {
		l.add(start.Add(time.Duration(i)*time.Second), 2)
	}
	l.add(start.Add(-time.Hour), 1) // out of order, as resumed runs are
	r := l.result()
	require.LessOrEqual(t, len(r.Bins), maxBins)
	rows, tokens := 0, int64(0)
	for _, b := range r.Bins {
		rows += b.Rows
		tokens += b.Tokens
	}
	require.Equal(t, 100_001, rows)
	require.Equal(t, int64(200_001), tokens)
}

func TestNamesThatAModelMadeUpDoNotFillMemory(t *testing.T) {
	c := New(Config{})
	for i := range 3 * maxNames {
		c.add(row{model: fmt.Sprint("m", i), assistants: 1, tools: map[string]trajectories.ToolStat{fmt.Sprint("t", i): {Count: 1}}})
	}
	r := c.Result()
	require.LessOrEqual(t, len(r.Models), maxNames+1)
	require.LessOrEqual(t, len(r.Tools), maxNames+1)
	require.Equal(t, otherName, r.Models[0].Name)
	require.Equal(t, otherName, r.Tools[0].Name)
}

func FuzzNoLineBreaksTheCollector(f *testing.F) {
	line, err := trajectories.AppendRollout(nil, rollout("a", 0, pointer(1.0)))
	require.NoError(f, err)
	f.Add(line)
	f.Add([]byte(`{"conversations":[{"from":"gpt","value":"<tool_call>{}"}],"tool_stats":{"a":1},"score":1e999}`))
	f.Add([]byte(`{"messages":[{"role":"assistant","content":[{"type":"text"}]}],"score":-1}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		c := New(Config{PromptPrice: 1})
		_ = c.Line(bytes.Clone(line))
		_, err := chat.Marshal(c.Result())
		require.NoError(t, err)
	})
}

func TestConvertedMessagesKeepTheirTokens(t *testing.T) {
	c := New(Config{})
	require.NoError(t, c.Line([]byte(`{"messages":[{"role":"user","content":"q","tool_calls":null,"tool_call_id":null},{"role":"assistant","content":"a","tool_calls":null}],"rollout_id":"r1","item_id":"i","step":0,"attempt":0,"outcome":"scored","score":1.0,"stop_reason":"natural","prompt_tokens":7,"completion_tokens":3,"metadata":"{}"}`)))
	result := c.Result()
	require.InDelta(t, 7, result.PromptTokens.Mean, 0)
	require.InDelta(t, 3, result.CompletionTokens.Mean, 0)
	require.Equal(t, 1, result.Rows)
}

func TestADamagedParquetFileIsNamed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rows.parquet")
	require.NoError(t, os.WriteFile(path, []byte("PAR1\n\n\nPAR1"), 0o600))
	require.ErrorContains(t, New(Config{}).File(t.Context(), path), "rows.parquet")
}
