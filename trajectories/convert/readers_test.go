package convert

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/internal/slowtest"
	"github.com/hermes-env/hermes-env/trajectories/table"
)

// seen is what a reader sees in a file.
type seen struct {
	Columns [][2]string `json:"columns"`
	Rows    []string    `json:"rows"`
}

type readers struct {
	DuckDB seen  `json:"duckdb"`
	Arrow  *seen `json:"arrow"`
}

// foreignReaders runs DuckDB and Arrow over files. They are npm packages; if
// they are missing the test is skipped, unless HERMES_ENV_REQUIRE_READERS is set.
func foreignReaders(t *testing.T, files ...string) map[string]readers {
	t.Helper()
	slowtest.Require(t)
	script, err := filepath.Abs(filepath.Join("testdata", "check", "check.mjs"))
	require.NoError(t, err)
	modules := os.Getenv("HERMES_ENV_NODE_MODULES")
	if modules == "" {
		modules = filepath.Join(filepath.Dir(script), "node_modules")
	}
	_, nodeErr := exec.LookPath("node")
	_, packageErr := os.Stat(filepath.Join(modules, "@duckdb"))
	if nodeErr != nil || packageErr != nil {
		if os.Getenv("HERMES_ENV_REQUIRE_READERS") != "" {
			t.Fatalf("node or its packages are missing in %s: npm install --prefix trajectories/convert/testdata/check", modules)
		}
		t.Skip("node, @duckdb/node-api, apache-arrow and parquet-wasm are not installed")
	}
	command := exec.CommandContext(t.Context(), "node", append([]string{script}, files...)...)
	command.Env = append(os.Environ(), "HERMES_ENV_NODE_MODULES="+modules)
	var stderr strings.Builder
	command.Stderr = &stderr
	out, err := command.Output()
	require.NoError(t, err, stderr.String())
	var result map[string]readers
	require.NoError(t, json.Unmarshal(out, &result))
	return result
}

func TestDuckDBAndArrowSeeTheTypesAndValuesThatWereWritten(t *testing.T) {
	dir := makeRun(t)
	var files []string
	for _, format := range []Format{Messages, ShareGPT, ShareGPTPublished, Preference, Text} {
		for _, encoding := range []table.Encoding{table.JSONLines, table.Parquet} {
			out := filepath.Join(t.TempDir(), string(format))
			report, err := Run(t.Context(), Options{Inputs: []string{dir}, To: format, Encoding: encoding, Out: out, Text: TextConfig{Parser: "hermes"}})
			require.NoError(t, err)
			require.Len(t, report.Files, 1)
			files = append(files, filepath.Join(out, report.Files[0].Name))
		}
	}
	results := foreignReaders(t, files...)
	for i := 0; i < len(files); i += 2 {
		text, parquet := results[files[i]], results[files[i+1]]
		require.Equal(t, text.DuckDB.Columns, parquet.DuckDB.Columns, "DuckDB infers from JSON what Parquet says: %s", files[i])
		require.Equal(t, text.DuckDB.Rows, parquet.DuckDB.Rows)
		content, err := os.ReadFile(files[i])
		require.NoError(t, err)
		lines := strings.Split(strings.TrimSpace(string(content)), "\n")
		require.Len(t, parquet.Arrow.Rows, len(lines))
		for k, line := range lines {
			require.JSONEq(t, line, parquet.Arrow.Rows[k], "row %d of %s", k, files[i+1])
			require.JSONEq(t, line, parquet.DuckDB.Rows[k], "row %d of %s", k, files[i+1])
		}
		for k, column := range parquet.Arrow.Columns {
			require.Equal(t, column[0], parquet.DuckDB.Columns[k][0])
			require.NotContains(t, column[1], "Null")
			require.NotContains(t, column[1], "Binary")
		}
	}
	messages := results[files[1]].Arrow
	require.Equal(t, [2]string{"messages", "List<Struct<{role:Utf8, content:Utf8, reasoning_content:Utf8, tool_calls:List<Struct<{id:Utf8, type:Utf8, function:Struct<{name:Utf8, arguments:Utf8}>}>>, tool_call_id:Utf8}>>"}, messages.Columns[0])
}

func TestShardsHaveOneSchemaThoughTheFirstRowsLackColumns(t *testing.T) {
	dir := makeRun(t)
	for _, encoding := range []table.Encoding{table.JSONLines, table.Parquet} {
		out := filepath.Join(t.TempDir(), "out")
		report, err := Run(t.Context(), Options{Inputs: []string{dir}, To: ShareGPTPublished, Encoding: encoding, Out: out, ShardBytes: 1, Filter: Filter{IncludeUnscored: true}})
		require.NoError(t, err)
		require.Len(t, report.Files, 8)
		var files []string
		for _, f := range report.Files {
			files = append(files, filepath.Join(out, f.Name))
		}
		results := foreignReaders(t, files...)
		for _, f := range files[1:] {
			if encoding == table.Parquet {
				require.Equal(t, results[files[1]].DuckDB.Columns, results[f].DuckDB.Columns)
				require.Equal(t, results[files[1]].Arrow.Columns, results[f].Arrow.Columns)
			}
			require.Len(t, results[f].DuckDB.Rows, 1)
		}
	}
}
