package convert

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"
)

// TestParquetOfOtherWritersIsReadAsItWasMeant reads files whose encodings the Parquet
// library decodes to other values, or not at all.
func TestParquetOfOtherWritersIsReadAsItWasMeant(t *testing.T) {
	for _, name := range []string{"duckdb-v2-zstd", "duckdb-v2-lz4", "duckdb-v1-brotli"} {
		t.Run(name, func(t *testing.T) {
			report, lines := run(t, Options{Inputs: []string{filepath.Join("testdata/foreign", name+".parquet")}, To: Messages})
			require.Len(t, lines, 500)
			require.Zero(t, report.Broken)
			for _, line := range lines {
				row := gjson.Parse(line)
				var i int
				_, err := fmt.Sscanf(row.Get("rollout_id").Str, "row %d", &i)
				require.NoError(t, err)
				require.Equal(t, fmt.Sprintf("Question %d%s", i, strings.Repeat(" more", 20)), row.Get("messages.0.content").Str)
				require.Equal(t, fmt.Sprintf("Answer %d", i), row.Get("messages.1.content").Str)
				metadata := gjson.Parse(row.Get("metadata").Str)
				require.Equal(t, []int64{-2147483648, 2147483647, int64(i)}[i%3], metadata.Get("seed").Int(), "row %d", i)
				require.Contains(t, metadata.Get("asked").Str, "2026-03-30T14:")
				require.Equal(t, fmt.Sprintf(`{"level":"l%d"}`, i%5), metadata.Get("labels").Raw)
				require.Equal(t, fmt.Sprintf("%.3f", float64(i)/8), metadata.Get("price").Raw)
				if i == 7 {
					require.Equal(t, gjson.Null, row.Get("score").Type)
				} else {
					require.InDelta(t, float64(i)/4, row.Get("score").Num, 0)
				}
			}
			require.Contains(t, report.Lost, Count{What: "numbers that JSON has not (NaN, infinities), read as null", Rows: 1})
		})
	}
}

func TestFilesIn_TakesOneFileOfEachRun(t *testing.T) {
	parent := t.TempDir()
	for _, name := range []string{"a/rollouts.jsonl", "a/trajectories.jsonl", "a/samples.jsonl", "a/superseded.jsonl", "a/metrics.jsonl", "b/samples.jsonl", "b/trajectories.jsonl", "c/train.jsonl", "d/metrics.jsonl"} {
		path := filepath.Join(parent, filepath.FromSlash(name))
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, nil, 0o644))
	}
	files, err := FilesIn(parent)
	require.NoError(t, err)
	for i, f := range files {
		rel, err := filepath.Rel(parent, f)
		require.NoError(t, err)
		files[i] = filepath.ToSlash(rel)
	}
	require.Equal(t, []string{"a/rollouts.jsonl", "b/trajectories.jsonl", "c/train.jsonl", "d/metrics.jsonl"}, files)
}

func TestConvert_ReadsMessagesThatAreOneText(t *testing.T) {
	file := filepath.Join(t.TempDir(), "rows.jsonl")
	require.NoError(t, os.WriteFile(file, []byte(`{"id":"a","messages":"[{\"role\":\"user\",\"content\":\"[hi]\"},{\"role\":\"assistant\",\"content\":\"ho\"}]"}`+"\n"), 0o644))
	report, lines := run(t, Options{Inputs: []string{file}, To: Messages})
	require.Zero(t, report.Broken)
	require.Len(t, lines, 1)
	require.Equal(t, "[hi]", gjson.Get(lines[0], "messages.0.content").Str)
	require.Equal(t, "ho", gjson.Get(lines[0], "messages.1.content").Str)
	for _, text := range []string{`"[not json"`, `"plain text"`, `"{}"`} {
		_, err := detect(membersOf([]byte(`{"messages":` + text + `}`)))
		require.ErrorContains(t, err, "no known format")
	}
}
