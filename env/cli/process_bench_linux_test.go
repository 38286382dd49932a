package cli_test

import (
	"bufio"
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// BenchmarkProcess makes training data as users do: a JSON Lines file of 12,500 (50,000)
// prompts, four rollouts each, a replay model that answers with reasoning, groups
// written. Everything, the model's server included, is in one process, whose peak memory
// must not grow with the rollouts. Then a row is added and the run resumed: resume-s is
// the time from the start of the program to the first new rollout.
func BenchmarkProcess(b *testing.B) {
	for _, rows := range []int{12_500, 50_000} {
		b.Run(fmt.Sprintf("rollouts=%d", 4*rows), func(b *testing.B) {
			for range b.N {
				dir := b.TempDir()
				words := prose(1)
				var data bytes.Buffer
				for i := range rows {
					fmt.Fprintf(&data, "{\"question\":\"Question %d: %s?\",\"answer\":\"%d\"}\n", i, words(120), i%4)
				}
				require.NoError(b, os.WriteFile(filepath.Join(dir, "rows.jsonl"), data.Bytes(), 0o644))
				script := "conversations:\n- match: {contains: Question}\n  variants:\n"
				for i := range 16 {
					script += fmt.Sprintf("  - turns:\n    - reasoning: %s\n      content: %s %d\n", words(250), words(60), i%4)
				}
				require.NoError(b, os.WriteFile(filepath.Join(dir, "script.yaml"), []byte(script), 0o644))
				args := []string{"process", "--environment", "prompts", "--env.dataset_name", "rows.jsonl", "--env.prompt_field", "question", "--env.reward.type", "numeric",
					"--env.reward.reference_field", "answer", "--env.group_size", "4", "--env.enabled_toolsets", "[terminal]", "--openai.base_url", "replay:script.yaml",
					"--openai.model_name", "replay", "--env.data_path_to_save_groups", "groups.jsonl", "--run-dir", "run"}
				usage, wall, _ := timed(b, dir, args)
				b.ReportMetric(float64(4*rows)/wall.Seconds(), "rollouts/s")
				b.ReportMetric(float64(usage.Utime.Nano()+usage.Stime.Nano())/1e3/float64(4*rows), "cpu-µs/rollout")
				b.ReportMetric(float64(usage.Maxrss)/1024, "peak-MB")
				for _, name := range []string{"run/rollouts.jsonl", "run/trajectories.jsonl", "run/samples.jsonl", "run/rollouts.index", "groups.jsonl"} {
					info, err := os.Stat(filepath.Join(dir, name))
					require.NoError(b, err)
					b.ReportMetric(float64(info.Size())/1e6, filepath.Base(name)+"-MB")
				}
				fmt.Fprintf(&data, "{\"question\":\"Question: one more?\",\"answer\":\"1\"}\n")
				require.NoError(b, os.WriteFile(filepath.Join(dir, "rows.jsonl"), data.Bytes(), 0o644))
				usage, _, first := timed(b, dir, append(args, "--resume"))
				b.ReportMetric(first.Seconds(), "resume-s")
				b.ReportMetric(float64(usage.Maxrss)/1024, "resume-peak-MB")
			}
		})
	}
}

// timed runs the program and says what it used, how long it took, and how long it was
// until it told of its first rollout.
func timed(b *testing.B, dir string, args []string) (usage *syscall.Rusage, wall, first time.Duration) {
	b.Helper()
	return watched(b, dir, args, func(int) {})
}

// watched is timed, with a function that is called at the first rollout.
func watched(b *testing.B, dir string, args []string, atFirst func(pid int)) (usage *syscall.Rusage, wall, first time.Duration) {
	b.Helper()
	binary, err := os.Executable()
	require.NoError(b, err)
	cmd := exec.Command(binary, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), asProgram+"=1", "TMPDIR="+dir)
	out, err := cmd.StdoutPipe()
	require.NoError(b, err)
	cmd.Stderr = cmd.Stdout
	started := time.Now()
	require.NoError(b, cmd.Start())
	lines := bufio.NewScanner(out)
	var last string
	for lines.Scan() {
		if last = lines.Text(); first == 0 && strings.HasPrefix(last, "[") {
			first = time.Since(started)
			atFirst(cmd.Process.Pid)
		}
	}
	require.NoError(b, lines.Err())
	require.NoError(b, cmd.Wait(), last)
	return cmd.ProcessState.SysUsage().(*syscall.Rusage), time.Since(started), first
}

// prose returns a maker of texts that compress about as prose does.
func prose(seed uint64) func(words int) string {
	random := rand.New(rand.NewPCG(seed, seed))
	list := make([]string, 4000)
	for i := range list {
		word := make([]byte, 2+random.IntN(9))
		for k := range word {
			word[k] = byte('a' + random.IntN(26))
		}
		list[i] = string(word)
	}
	return func(words int) string {
		text := []byte("text " + strconv.Itoa(words))
		for range words {
			text = append(append(text, ' '), list[int(random.Float64()*random.Float64()*float64(len(list)))]...)
		}
		return string(text)
	}
}
