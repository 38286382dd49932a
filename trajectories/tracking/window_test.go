package tracking

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func byName(metrics []Metric) map[string]float64 {
	m := make(map[string]float64)
	for _, v := range metrics {
		m[v.Name] = v.Value
	}
	return m
}

func TestAWindowGivesTheNamesOfTheOriginalFramework(t *testing.T) {
	w := NewWindow(WindowConfig{Groups: 2, PerGroup: 1, MaxTokens: 100})
	for _, n := range []int{10, 20, 96, 95} {
		w.Completion(n)
	}
	w.Sent(2 * time.Second)
	w.Sent(4 * time.Second)
	w.Rejected("equal_scores", 6*time.Second)
	w.Sample("train_perf/mainloop_timings", 0.5)
	w.Count("train_window/prompt_tokens", 3)
	w.Count("train_window/prompt_tokens", 4)
	w.Request(0, false, 2*time.Second, 1)
	w.Request(0, false, 4*time.Second, 2)
	w.Request(1, true, time.Second, 1)
	w.Request(1, true, time.Second, 3)
	metrics, tables := w.Flush()
	require.Empty(t, tables)
	require.Equal(t, map[string]float64{
		"train/completion_lengths": 55.25, "train/completion_lengths_std": 40.40652793794587,
		"train/completion_lengths_max": 96, "train/completion_lengths_min": 10, "train/completion_lengths_p95": 96, "train/completion_lengths_near_limit": 0.25,
		"train/items_sent_to_api": 2, "train/items_rejected": 1, "train_window/prompt_tokens": 7, "train_window/rejected/equal_scores": 1,
		"train_perf/task_duration_mean": 4, "train_perf/task_duration_std": 1.632993161855452, "train_perf/task_duration_max": 6, "train_perf/task_duration_min": 2,
		"train_perf/succeeded_task_duration_mean": 3, "train_perf/succeeded_task_duration_std": 1, "train_perf/succeeded_task_duration_max": 4, "train_perf/succeeded_task_duration_min": 2,
		"train_perf/failed_task_duration_mean": 6, "train_perf/failed_task_duration_std": 0, "train_perf/failed_task_duration_max": 6, "train_perf/failed_task_duration_min": 6,
		"train_perf/mainloop_timings_mean": 0.5, "train_perf/mainloop_timings_std": 0, "train_perf/mainloop_timings_max": 0.5, "train_perf/mainloop_timings_min": 0.5,
		"server/server_0_request_time_avg": 3, "server/server_0_request_time_std": 1, "server/server_0_request_time_99p": 3.98, "server/server_0_average_num_attempts": 1.5,
		"server/server_1_eval_request_time_avg": 1, "server/server_1_eval_request_time_std": 0, "server/server_1_eval_request_time_99p": 1, "server/server_1_eval_retry_rate": 0.5,
	}, byName(metrics))

	w.Prepend("toy_0")
	metrics, _ = w.Flush()
	got := byName(metrics)
	require.Equal(t, 0.0, got["toy_0_train/items_sent_to_api"], "a window begins anew")
	require.Equal(t, 0.0, got["toy_0_train_window/rejected/equal_scores"], "a reason that was seen stays in the series")
	require.NotContains(t, got, "toy_0_train/completion_lengths", "nothing is made up where nothing was measured")
	require.Equal(t, 3.0, got["server/server_0_request_time_avg"], "servers are described by their latest requests")
}

func TestTheTableOfRolloutsKeepsTheLatestGroups(t *testing.T) {
	for _, tt := range []struct {
		name     string
		config   WindowConfig
		wantText []string
	}{
		{"one rollout of two groups", WindowConfig{Groups: 2, PerGroup: 1}, []string{"b0", "c0"}},
		{"all rollouts of one group", WindowConfig{Groups: 1, PerGroup: -1}, []string{"c0", "c1"}},
		{"more than a group has", WindowConfig{Groups: 3, PerGroup: 9}, []string{"a0", "a1", "b0", "b1", "c0", "c1"}},
		{"no groups", WindowConfig{Groups: 0, PerGroup: 1}, nil},
		{"no rollouts of a group", WindowConfig{Groups: 3, PerGroup: 0}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := NewWindow(tt.config)
			for _, group := range []string{"a", "b", "c"} {
				w.Group([]RolloutRow{{group + "0", 0}, {group + "1", 1}})
			}
			_, tables := w.Flush()
			var texts []string
			for _, table := range tables {
				require.Equal(t, "train/rollouts", table.Name)
				require.Equal(t, []string{"text", "score"}, table.Columns)
				for _, row := range table.Rows {
					texts = append(texts, row[0].Text)
					require.True(t, row[1].IsNumber)
				}
			}
			require.Equal(t, tt.wantText, texts)
			_, tables = w.Flush()
			require.Empty(t, tables, "each rollout is shown once")
		})
	}
}

func TestLongTextsLoseTheirMiddleAndStayValid(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringN(0, 300, -1).Draw(t, "text")
		size := rapid.IntRange(0, 200).Draw(t, "size")
		got := cut(text, size)
		require.True(t, utf8.ValidString(got))
		if len(text) <= size {
			require.Equal(t, text, got)
			return
		}
		head, rest, found := strings.Cut(got, "\n[… ")
		require.True(t, found)
		_, tail, _ := strings.Cut(rest, "bytes left out …]\n")
		require.LessOrEqual(t, len(head)+len(tail), size)
		require.True(t, strings.HasPrefix(text, head) && strings.HasSuffix(text, tail))
	})
}

func TestPercentilesAreThoseOfTheSortedValues(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := make(lengths)
		values := rapid.SliceOfN(rapid.IntRange(0, 50), 1, 200).Draw(t, "values")
		for _, v := range values {
			l[v]++
		}
		p := l.percentile(0.95)
		below := 0
		for _, v := range values {
			if float64(v) <= p {
				below++
			}
		}
		require.GreaterOrEqual(t, float64(below), 0.95*float64(len(values)))
		require.Contains(t, values, int(p))
	})
}

func TestARingForgetsTheOldest(t *testing.T) {
	w := NewWindow(WindowConfig{Requests: 3})
	for _, s := range []time.Duration{100, 1, 2, 3} {
		w.Request(0, false, s*time.Second, 1)
	}
	metrics, _ := w.Flush()
	require.Equal(t, 2.0, byName(metrics)["server/server_0_request_time_avg"])
	w.Request(-1, false, time.Second, 1) // of a server nobody knows
}
