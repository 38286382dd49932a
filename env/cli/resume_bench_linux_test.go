package cli_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// BenchmarkResumeOfRows resumes a run over 50,000 rows of which all but the last are
// done, and reports the processor time (user and system) and the wall time until its
// first new rollout.
func BenchmarkResumeOfRows(b *testing.B) {
	for _, command := range []string{"process", "evaluate"} {
		b.Run(command, func(b *testing.B) {
			const rows = 50_000
			dir := b.TempDir()
			words := prose(1)
			var data bytes.Buffer
			row := func(i int) {
				fmt.Fprintf(&data, "{\"question\":\"Question %d: %s?\",\"answer\":\"%d\"}\n", i, words(40), i%4)
			}
			for i := range rows - 1 {
				row(i)
			}
			require.NoError(b, os.WriteFile(filepath.Join(dir, "rows.jsonl"), data.Bytes(), 0o644))
			script := "conversations:\n- match: {contains: Question}\n  variants:\n"
			for i := range 16 {
				script += fmt.Sprintf("  - turns:\n    - reasoning: %s\n      content: %s %d\n", words(150), words(60), i%4)
			}
			require.NoError(b, os.WriteFile(filepath.Join(dir, "script.yaml"), []byte(script), 0o644))
			args := []string{command, "--environment", "prompts", "--env.dataset_name", "rows.jsonl", "--env.prompt_field", "question", "--env.reward.type", "numeric",
				"--env.reward.reference_field", "answer", "--env.group_size", "1", "--env.enabled_toolsets", "[]", "--openai.base_url", "replay:script.yaml",
				"--openai.model_name", "replay", "--run-dir", "run"}
			timed(b, dir, args)
			for i := range b.N {
				row(rows + i)
				require.NoError(b, os.WriteFile(filepath.Join(dir, "rows.jsonl"), data.Bytes(), 0o644))
				used, wall := untilFirst(b, dir, append(args, "--resume"))
				b.ReportMetric(used.Seconds(), "cpu-s-to-first")
				b.ReportMetric(wall.Seconds(), "wall-s-to-first")
			}
		})
	}
}

// untilFirst runs the program and returns the processor time and the wall time it took
// until it told of its first rollout.
func untilFirst(b *testing.B, dir string, args []string) (used, wall time.Duration) {
	b.Helper()
	_, _, wall = watched(b, dir, args, func(pid int) { used = processorTimeOf(b, pid) })
	require.NotZero(b, used)
	return used, wall
}

// processorTimeOf returns the user and system time of a process that is running.
func processorTimeOf(b *testing.B, pid int) time.Duration {
	b.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	require.NoError(b, err)
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	ticks := 0
	for _, f := range fields[11:13] {
		n, err := strconv.Atoi(f)
		require.NoError(b, err)
		ticks += n
	}
	return time.Duration(ticks) * (time.Second / 100)
}
