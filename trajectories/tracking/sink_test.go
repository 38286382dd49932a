package tracking

import (
	"encoding/json"
	"errors"
	"io"
	"math"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func lines(t *testing.T, path string) []string {
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	return strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
}

func TestJSONLWritesAnObjectPerLogAndPerTable(t *testing.T) {
	dir := t.TempDir()
	j, err := NewJSONL(dir, steadyClock())
	require.NoError(t, err)
	require.NoError(t, j.Log(3, []Metric{{"train/a", 1}, {"train/b", 0.1}, {"c", 1e21}}, nil))
	require.NoError(t, j.Log(4, []Metric{{"train/a", -2}}, []Table{rollouts(RolloutRow{"<x>", 1}, RolloutRow{"y", math.NaN()})}))
	require.NoError(t, j.Close())
	require.Equal(t, []string{
		`{"_step":3,"_timestamp":1795240800.000000,"train/a":1,"train/b":0.1,"c":1e+21}`,
		`{"_step":4,"_timestamp":1795240800.250000,"train/a":-2}`,
	}, lines(t, filepath.Join(dir, MetricsFile)))
	require.Equal(t, []string{
		`{"_step":4,"_timestamp":1795240800.500000,"name":"train/rollouts","columns":["text","score"],"data":[["<x>",1],["y",null]]}`,
	}, lines(t, filepath.Join(dir, TablesFile)))
}

func TestJSONLGoesOnAfterATornLine(t *testing.T) {
	for name, content := range map[string]string{
		"half of a first line": `{"_step":1`,
		"half of a later line": "{\"_step\":1}\n{\"_st",
		"a long torn line":     "{\"_step\":1}\n" + strings.Repeat("x", 200_000),
		"nothing torn":         "{\"_step\":1}\n",
		"an empty file":        "",
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), MetricsFile)
			require.NoError(t, os.WriteFile(path, []byte(content), 0o644))
			j, err := NewJSONL(filepath.Dir(path), nil)
			require.NoError(t, err)
			require.Equal(t, strings.Count(content, "\n"), j.LastStep())
			require.NoError(t, j.Log(2, []Metric{{"a", 1}}, nil))
			require.NoError(t, j.Close())
			got := lines(t, path)
			require.Len(t, got, strings.Count(content, "\n")+1)
			for _, line := range got {
				require.True(t, json.Valid([]byte(line)), line)
			}
			require.NoFileExists(t, filepath.Join(filepath.Dir(path), TablesFile))
		})
	}
}

func TestPrometheusTextHasTheLastValueOfEveryFigure(t *testing.T) {
	p := NewPrometheus("hermes_env")
	require.NoError(t, p.Log(1, []Metric{{"train/pass@1", 0.5}, {"server/server_0_request_time_99p", 2}}, nil))
	require.NoError(t, p.Log(2, []Metric{{"train/pass@1", 0.75}, {"a-b", 1}, {"a/b", 2}, {"step", 9}}, []Table{rollouts()}))
	answer := httptest.NewRecorder()
	p.ServeHTTP(answer, httptest.NewRequest("GET", "/metrics", nil))
	require.Equal(t, ExpositionType, answer.Header().Get("Content-Type"))
	body, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	require.Equal(t, `# HELP hermes_env_step Step of the figures below.
# TYPE hermes_env_step gauge
hermes_env_step 2
# HELP hermes_env_logs_total How often figures were logged.
# TYPE hermes_env_logs_total counter
hermes_env_logs_total 2
# HELP hermes_env_train_pass_1 train/pass@1 of the last log that had it.
# TYPE hermes_env_train_pass_1 gauge
hermes_env_train_pass_1 0.75
# HELP hermes_env_server_server_0_request_time_99p server/server_0_request_time_99p of the last log that had it.
# TYPE hermes_env_server_server_0_request_time_99p gauge
hermes_env_server_server_0_request_time_99p 2
# HELP hermes_env_a_b a-b of the last log that had it.
# TYPE hermes_env_a_b gauge
hermes_env_a_b{name="a-b"} 1
hermes_env_a_b{name="a/b"} 2
# HELP hermes_env_step_ step of the last log that had it.
# TYPE hermes_env_step_ gauge
hermes_env_step_ 9
`, string(body))
}

func TestLabelsAndHelpAreEscaped(t *testing.T) {
	var e Exposition
	e.Family("n", "gauge", "a\\b\nc")
	e.Sample("n", Label("l", "q\"\\\n\xff"), 1)
	require.Equal(t, "# HELP n a\\\\b\\nc\n# TYPE n gauge\nn{l=\"q\\\"\\\\\\n\uFFFD\"} 1\n", e.String())
}

// scripted is a sink that fails, panics or notes what it gets.
type scripted struct {
	fail  error
	panic bool
	got   []Metric
	ended bool
}

func (s *scripted) Log(_ int, metrics []Metric, _ []Table) error {
	if s.panic {
		panic("broken")
	}
	s.got = append(s.got, metrics...)
	return s.fail
}

func (s *scripted) Close() error { s.ended = true; return s.fail }

func TestAFailingSinkIsToldOnceAndKeepsNobodyBack(t *testing.T) {
	var warnings []string
	f := NewFanout(func(text string) { warnings = append(warnings, text) })
	full, broken, good := &scripted{fail: errors.New("no space left")}, &scripted{panic: true}, &scripted{}
	f.Add("metrics.jsonl", full)
	f.Add("wandb", broken)
	f.Add("prometheus", good)
	for range 3 {
		require.NoError(t, f.Log(1, []Metric{{"a", 1}, {"b", math.NaN()}, {"c", math.Inf(1)}}, nil))
	}
	require.NoError(t, f.Close())
	require.Equal(t, []Metric{{"a", 1}, {"a", 1}, {"a", 1}}, good.got, "figures that are no numbers are left out")
	require.True(t, good.ended && full.ended)
	require.Len(t, full.got, 3, "a sink that failed is asked again")
	require.Len(t, warnings, 2)
	require.Contains(t, warnings[0], "metrics.jsonl: no space left")
	require.Contains(t, warnings[1], "wandb: panic: broken")
}
