package prompts_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"github.com/hermes-env/hermes-env/agentloop/model/modeltest"
	"github.com/hermes-env/hermes-env/internal/slowtest"
)

// child runs this test binary as hermes-env in dir. It is killed once kill says so; nil lets it end.
func child(t *testing.T, dir string, kill func() bool, args ...string) (ended bool, output string) {
	t.Helper()
	cmd := exec.Command(os.Args[0], args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), asProgram+"=1", "TMPDIR="+filepath.Join(dir, "tmp"))
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	require.NoError(t, cmd.Start())
	over := make(chan struct{})
	var watch sync.WaitGroup
	watch.Go(func() {
		for kill != nil {
			select {
			case <-over:
				return
			case <-time.After(time.Millisecond):
			}
			if kill() {
				_ = cmd.Process.Kill()
				return
			}
		}
	})
	err := cmd.Wait()
	close(over)
	watch.Wait()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.Sys().(syscall.WaitStatus).Signaled() {
		return false, out.String()
	}
	require.NoError(t, err, out.String())
	return true, out.String()
}

// records returns the whole lines of a run by rollout id.
func records(path string) map[string]string {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	found := map[string]string{}
	all := strings.Split(string(raw), "\n")
	for _, l := range all[:len(all)-1] {
		found[gjson.Get(l, "rollout_id").String()] = l
	}
	return found
}

// Runs are killed at random instants, and before each resumption the dataset is reordered, appended to and edited. What was
// finished for a row that is still there is never lost, changed or done again.
func TestKilledRunsGoOnAfterTheirDatasetChanged(t *testing.T) {
	slowtest.Require(t)
	for _, command := range []string{"evaluate", "process"} {
		t.Run(command, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			require.NoError(t, os.Mkdir(filepath.Join(dir, "tmp"), 0o755))
			server := modeltest.NewServerWith(t, modeltest.Config{Script: modeltest.Delayed(echo, func(*modeltest.Request) time.Duration {
				return time.Duration(rand.IntN(40)) * time.Millisecond
			})})
			var rows []string
			add := func(n int) {
				for range n {
					rows = append(rows, fmt.Sprintf(`{"prompt":"say %d","answer":"%[1]d"}`, len(rows)))
				}
			}
			add(60)
			rows = append(rows, rows[0], rows[0]) // duplicates stay distinct
			save := func() {
				require.NoError(t, os.WriteFile(filepath.Join(dir, "rows.jsonl"), []byte(strings.Join(rows, "\n")+"\n"), 0o600))
			}
			save()
			require.NoError(t, os.WriteFile(filepath.Join(dir, "c.yaml"), []byte(config(server.URL, "  dataset_name: rows.jsonl\n  attempts: 2\n"+exact)), 0o600))
			args := []string{command, "--config", "c.yaml", "--run-dir", "run", "--env.group_size", "2", "--env.max_eval_workers=4", "--env.max_num_workers=2"}
			seen := map[string]string{}
			killed := 0
			for range slowtest.Times(4, 30) {
				resume := args
				if _, err := os.Stat(filepath.Join(dir, "run", "run.json")); err == nil {
					resume = append(slices.Clone(args), "--resume")
				}
				enough := server.RequestCount() + 8 + rand.IntN(40)
				ended, output := child(t, dir, func() bool { return server.RequestCount() >= enough }, resume...)
				for id, line := range records(filepath.Join(dir, "run", "rollouts.jsonl")) {
					if known, ok := seen[id]; ok {
						require.Equal(t, known, line, "a finished line never changes")
					}
					seen[id] = line
				}
				if ended {
					require.Contains(t, output, "scored")
				} else {
					killed++
				}
				rand.Shuffle(len(rows), func(i, j int) { rows[i], rows[j] = rows[j], rows[i] })
				add(3)
				save()
			}
			require.Positive(t, killed, "the runs were over too soon to tell anything")
			_, output := child(t, dir, nil, append(slices.Clone(args), "--resume")...)
			want := 2 * len(rows)
			require.Contains(t, output, fmt.Sprintf("%d scored", want), output)
			final := records(filepath.Join(dir, "run", "rollouts.jsonl"))
			require.Len(t, final, want)
			for id := range seen {
				require.Contains(t, final, id, "a finished rollout is gone")
			}
			keys := map[string]bool{}
			for _, l := range final {
				require.Equal(t, int64(1), gjson.Get(l, "score").Int(), l)
				key := gjson.Get(l, "item_id").String() + "/" + gjson.Get(l, "attempt").String()
				require.False(t, keys[key], "%s is there twice", key)
				keys[key] = true
			}
		})
	}
}

func TestResume_TakesADatasetInAnotherFormat(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "tmp"), 0o755))
	server := modeltest.NewServerWith(t, modeltest.Config{Script: echo})
	var rows []string
	for i := range 5 {
		rows = append(rows, fmt.Sprintf(`{"prompt":"say %d","answer":"%[1]d"}`, i))
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "rows.jsonl"), []byte(strings.Join(rows, "\n")+"\n"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "c.yaml"), []byte(config(server.URL, "  dataset_name: rows.jsonl\n  dataset_format: jsonl\n"+exact)), 0o600))
	args := []string{"evaluate", "--config", "c.yaml", "--run-dir", "run"}
	_, output := child(t, dir, nil, args...)
	require.Contains(t, output, "5 scored")
	sent := server.RequestCount()

	csv := "prompt,answer\n"
	for i := range 6 {
		csv += fmt.Sprintf("say %d,%[1]d\n", i)
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "rows.csv"), []byte(csv), 0o600))
	_, output = child(t, dir, nil, append(args, "--resume", "--env.dataset_name=rows.csv", "--env.dataset_format=csv")...)
	require.Contains(t, output, "6 scored")
	require.Equal(t, sent+1, server.RequestCount(), "only the new row is run")
	raw, err := os.ReadFile(filepath.Join(dir, "run", "run.json"))
	require.NoError(t, err)
	require.Contains(t, gjson.GetBytes(raw, "sessions.1.config_changes").Raw, "dataset_name", "the change is on record")
}
