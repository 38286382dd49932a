package convert

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/hermes-env/hermes-env/agentloop/chat"
	"github.com/hermes-env/hermes-env/trajectories"
	"github.com/hermes-env/hermes-env/trajectories/table"
)

// BenchmarkWritingAgainstDuckDB writes the same 6,000 rollouts (12 tool calls each, about
// 130 MB) with the store, as JSON Lines and as Parquet, and lets DuckDB write the same
// rows from a table in its memory, all in one run. Each file is synced. It needs
// HERMES_ENV_NODE_MODULES, a folder with the npm package @duckdb/node-api; without it
// DuckDB's figures are left out.
func BenchmarkWritingAgainstDuckDB(b *testing.B) {
	rollouts := longRollouts(6000)
	f := features{score: true, calls: true, answers: true, reasoning: true}.all()
	build := newBuilder(Messages, f, nil, nil, false)
	rows := make([]table.Row, len(rollouts))
	for i, r := range rollouts {
		row, _, err := build.messages(&Row{Rollout: r})
		require.NoError(b, err)
		rows[i] = row
	}
	for range b.N {
		dir := b.TempDir()
		measure(b, "store", len(rows), func() string {
			run, err := trajectories.Create(filepath.Join(dir, "run"), trajectories.Info{Command: "process", Environment: "bench", Config: json.RawMessage(`{}`)})
			require.NoError(b, err)
			var group errgroup.Group
			group.SetLimit(64)
			for _, r := range rollouts {
				group.Go(func() error { return run.Append(context.Background(), r) })
			}
			require.NoError(b, group.Wait())
			require.NoError(b, run.Close(trajectories.StatusDone))
			return filepath.Join(dir, "run", "rollouts.jsonl")
		})
		for _, encoding := range []table.Encoding{table.JSONLines, table.Parquet} {
			measure(b, string(encoding), len(rows), func() string {
				s, err := table.NewShards(table.Target{Dir: dir, Name: "rows", Encoding: encoding, Schema: build.schema, CreatedBy: "bench", Single: "rows." + string(encoding)})
				require.NoError(b, err)
				for _, row := range rows {
					require.NoError(b, s.Write(row))
				}
				_, err = s.Close()
				require.NoError(b, err)
				return filepath.Join(dir, "rows."+string(encoding))
			})
		}
		modules := os.Getenv("HERMES_ENV_NODE_MODULES")
		if modules == "" {
			continue
		}
		out, err := exec.Command("node", "testdata/check/write.mjs", modules, filepath.Join(dir, "rows.jsonl"), dir).CombinedOutput()
		require.NoError(b, err, string(out))
		var figures map[string]float64
		require.NoError(b, json.Unmarshal(out, &figures))
		for name, value := range figures {
			b.ReportMetric(value, name)
		}
	}
}

// measure runs what writes a file of so many rows, and reports its speed and size.
func measure(b *testing.B, name string, rows int, write func() (path string)) {
	b.Helper()
	used, started := processorTime(b), time.Now()
	path := write()
	wall, cpu := time.Since(started).Seconds(), processorTime(b)-used
	info, err := os.Stat(path)
	require.NoError(b, err)
	b.ReportMetric(float64(rows)/wall, name+"-rows/s")
	b.ReportMetric(cpu, name+"-cpu-s")
	b.ReportMetric(float64(info.Size())/1e6, name+"-MB")
}

func processorTime(b *testing.B) float64 {
	var usage syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return float64(usage.Utime.Nano()+usage.Stime.Nano()) / 1e9
}

// longRollouts have twelve tool calls each, in words that compress about as prose does.
func longRollouts(n int) []*trajectories.Rollout {
	random := rand.New(rand.NewPCG(1, 1))
	words := make([]string, 4000)
	for i := range words {
		word := make([]byte, 2+random.IntN(9))
		for k := range word {
			word[k] = byte('a' + random.IntN(26))
		}
		words[i] = string(word)
	}
	prose := func(n int) string {
		list := make([]string, n)
		for i := range list {
			list[i] = words[int(random.Float64()*random.Float64()*float64(len(words)))]
		}
		return strings.Join(list, " ")
	}
	at := time.Date(2026, 3, 30, 14, 22, 31, 0, time.UTC)
	rollouts := make([]*trajectories.Rollout, n)
	for i := range rollouts {
		score := float64(i%5) / 4
		r := &trajectories.Rollout{ID: fmt.Sprint("r", i), ItemID: fmt.Sprint("item-", i/4), ItemDigest: "sha256:1", Group: i / 4, Attempt: i % 4, Outcome: trajectories.OutcomeScored,
			Score: &score, StopReason: "natural", Model: "org/model", TurnsUsed: 13, FinishedNaturally: true, Tools: []string{"terminal"}, StartedAt: at, FinishedAt: at.Add(time.Minute)}
		r.Messages = append(r.Messages, chat.User(prose(80)))
		for turn := range 12 {
			id := fmt.Sprintf("call_%d_%d", i, turn)
			r.Messages = append(r.Messages, chat.Assistant(prose(10), prose(60), chat.ToolCall{ID: id, Name: "terminal", Arguments: `{"command":"` + prose(15) + `"}`}), chat.Tool(id, `{"output":"`+prose(150)+`","exit_code":0}`))
		}
		r.Messages = append(r.Messages, chat.Assistant(prose(40), ""))
		rollouts[i] = r
	}
	return rollouts
}
