package cli_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"github.com/hermes-env/hermes-env/agentloop/model/modeltest"
	"github.com/hermes-env/hermes-env/internal/slowtest"
)

// child runs this test binary as hermes-env in dir; kill says after which time it
// is killed, 0 for never. It reports whether the program came to its end.
func child(t *testing.T, dir string, kill time.Duration, args ...string) (ended bool, output string) {
	t.Helper()
	binary, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(binary, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), asProgram+"=1", "TMPDIR="+filepath.Join(dir, "tmp"))
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	require.NoError(t, cmd.Start())
	if kill > 0 {
		time.AfterFunc(kill, func() { _ = cmd.Process.Kill() })
	}
	err = cmd.Wait()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.Sys().(syscall.WaitStatus).Signaled() {
		return false, out.String()
	}
	require.NoError(t, err, out.String())
	return true, out.String()
}

// instants returns a function that draws when to kill a child: most often after its
// start, which takes long on a busy machine, and at most for so long afterwards.
func instants(t *testing.T, dir string, after time.Duration) func() time.Duration {
	before := time.Now()
	child(t, dir, 0, "version")
	start := time.Since(before)
	return func() time.Duration { return start/2 + rand.N(start/2+after) }
}

// allowance is how many requests a model server answers until it is given more. On a
// machine of any speed, no run is over before it was killed often enough.
type allowance struct{ atomic.Int64 }

// share allows one of so many sessions its part of the requests of a run. All parts
// together leave a tenth of the run.
func (a *allowance) share(requests, sessions int) { a.Store(int64(requests * 9 / 10 / sessions)) }

// delay returns how long the next answer takes: between shortest and longest, or longer
// than any test once nothing is left.
func (a *allowance) delay(shortest, longest time.Duration) time.Duration {
	if a.Add(-1) < 0 {
		return time.Hour
	}
	return shortest + rand.N(longest-shortest)
}

// wholeLines returns the rollout ids of the whole lines of a rollouts.jsonl.
func wholeLines(path string) map[string]string {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	ids := map[string]string{}
	all := strings.Split(string(raw), "\n")
	for _, l := range all[:len(all)-1] {
		ids[gjson.Get(l, "rollout_id").String()] = l
	}
	return ids
}

// A process killed at random instants and resumed until it is done: no finished
// rollout is lost or run twice, no line is torn, nothing is left on the machine.
func TestKilledAtRandomInstantsNothingIsLostOrDoneTwice(t *testing.T) {
	slowtest.Require(t)
	kills := slowtest.Times(6, 100)
	for _, command := range []string{"evaluate", "process"} {
		t.Run(command, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			require.NoError(t, os.Mkdir(filepath.Join(dir, "tmp"), 0o755))
			var left allowance
			server := modeltest.NewServerWith(t, modeltest.Config{Script: modeltest.Delayed(conversation(), func(*modeltest.Request) time.Duration {
				return left.delay(0, 20*time.Millisecond)
			})})
			args := []string{command, "--environment", "terminal-test", "--run-dir", "run", "--env.eval_items=all", "--env.attempts=60",
				"--env.group_size=4", "--env.total_steps=60", "--env.max_eval_workers=4", "--env.max_num_workers=1",
				"--openai.base_url", server.URL, "--openai.model_name", "mock"}
			if command == "process" {
				args = append(args, "--env.data_path_to_save_groups", "groups.jsonl")
			}
			instant := instants(t, dir, 350*time.Millisecond)
			next := func() []string {
				if _, err := os.Stat(filepath.Join(dir, "run", "run.json")); err != nil {
					return args
				}
				return append(append([]string(nil), args...), "--resume")
			}
			seen := map[string]string{}
			killed := 0
			for killed < kills {
				left.share(2*240, kills)
				ended, output := child(t, dir, instant(), next()...)
				for id, line := range wholeLines(filepath.Join(dir, "run", "rollouts.jsonl")) {
					if known, ok := seen[id]; ok {
						require.Equal(t, known, line, "a finished line never changes")
					}
					seen[id] = line
				}
				if ended {
					require.Contains(t, output, "240 scored")
					break
				}
				killed++
			}
			require.Equal(t, kills, killed, "the run was over too soon to tell anything")
			left.Store(1 << 40)
			_, output := child(t, dir, 0, next()...)
			require.Contains(t, output, "240: 240 scored", output)

			final := lines(t, filepath.Join(dir, "run", "rollouts.jsonl"))
			require.Len(t, final, 240)
			keys, ids := map[string]bool{}, map[string]bool{}
			for _, l := range final {
				require.True(t, gjson.Valid(l), l)
				key := fmt.Sprint(gjson.Get(l, "item_id"), gjson.Get(l, "step"), gjson.Get(l, "attempt"))
				require.False(t, keys[key], "%s is there twice", key)
				keys[key] = true
				ids[gjson.Get(l, "rollout_id").String()] = true
			}
			for id := range seen {
				require.True(t, ids[id], "rollout %s was finished and is gone", id)
			}
			trajectories := lines(t, filepath.Join(dir, "run", "trajectories.jsonl"))
			require.Len(t, trajectories, 240)
			for i, l := range trajectories {
				require.Equal(t, gjson.Get(final[i], "rollout_id").String(), gjson.Get(l, "rollout_id").String())
			}
			if command == "process" {
				require.Len(t, lines(t, filepath.Join(dir, "groups.jsonl")), 60)
			}
			sandboxes, err := filepath.Glob(filepath.Join(dir, "tmp", "hermes-env-*", "*"))
			require.NoError(t, err)
			require.Empty(t, sandboxes, "the sandboxes of killed processes are swept")
		})
	}
}
