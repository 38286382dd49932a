package cli_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// BenchmarkMemoryOverAttempts runs whole evaluations with the replay model and local
// sandboxes, each in a process of its own, and reports the peak memory of that
// process: it must not grow with the number of attempts. The sandboxes' processes
// are not in it.
func BenchmarkMemoryOverAttempts(b *testing.B) {
	binary, err := os.Executable()
	require.NoError(b, err)
	for _, attempts := range []int{25, 250, 1000} {
		rollouts := 4 * attempts // terminal-test has four tasks
		b.Run(fmt.Sprintf("rollouts=%d", rollouts), func(b *testing.B) {
			for range b.N {
				dir := b.TempDir()
				cmd := exec.Command(binary, "evaluate", "--environment", "terminal-test", "--openai.base_url", "replay:", "--openai.model_name", "replay",
					"--env.eval_items", "all", "--env.attempts", fmt.Sprint(attempts), "--run-dir", "out")
				cmd.Dir = dir
				cmd.Env = append(os.Environ(), asProgram+"=1", "TMPDIR="+dir)
				started := time.Now()
				out, err := cmd.CombinedOutput()
				require.NoError(b, err, string(out))
				wall := time.Since(started)
				recorded, err := os.ReadFile(filepath.Join(dir, "out", "rollouts.jsonl"))
				require.NoError(b, err)
				require.Equal(b, rollouts, countLines(recorded))
				peak := cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss
				b.ReportMetric(float64(peak)/1024, "peak-MB")
				b.ReportMetric(float64(rollouts)/wall.Seconds(), "rollouts/s")
				b.ReportMetric(float64(len(recorded))/1e6, "recorded-MB")
			}
		})
	}
}

func countLines(text []byte) int {
	n := 0
	for _, c := range text {
		if c == '\n' {
			n++
		}
	}
	return n
}
