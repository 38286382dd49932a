package terminalbench

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"github.com/hermes-env/hermes-env/env"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox/docker/dockertest"
	"github.com/hermes-env/hermes-env/trajectories"
)

// steps writes a task of two steps; top and first go into task.toml.
func steps(t *testing.T, root, name, top, first string) {
	t.Helper()
	writeTask(t, root, name, "", files{
		"task.toml":                   top + "[metadata]\ncategory = \"steps\"\n[environment]\n[[steps]]\nname = \"one\"\n" + first + "[[steps]]\nname = \"two\"\n",
		"instruction.md":              "",
		"solution/solve.sh":           "",
		"tests/test.sh":               "",
		"tests/shared.sh":             "echo $1 > /logs/verifier/reward.txt\n",
		"steps/one/instruction.md":    "First.\n",
		"steps/one/tests/test.sh":     "#!/bin/sh\n[ -e /tests/only-two ] && exit 1\n[ -f /work/one ] && . /tests/shared.sh 0.5\n",
		"steps/one/solution/solve.sh": "#!/bin/sh\ncp /work/given /work/one; (setsid sleep 500 > /dev/null 2>&1 &)\n",
		"steps/one/workdir/given":     "given to the first\n",
		"steps/one/workdir/setup.sh":  "echo setup >> given\n",
		"steps/two/instruction.md":    "Second.\n",
		"steps/two/tests/test.sh":     "#!/bin/sh\n[ -e /tests/only-two ] && [ \"$(cat /work/one)\" = \"given to the first\nsetup\" ] && ps | grep -q '[s]leep 500' && . /tests/shared.sh 1\n",
		"steps/two/tests/only-two":    "x",
		"steps/two/solution/solve.sh": "#!/bin/sh\n[ -z \"$(ls /tests /logs/verifier 2>/dev/null | grep -v :)\" ] || rm /work/one\n",
	})
}

func TestStepsShareAContainerAndAreScoredOneByOne(t *testing.T) {
	b := newBench(t)
	steps(t, b.root, "mean", "", "")
	steps(t, b.root, "final", "multi_step_reward_strategy = \"final\"\n", "")
	steps(t, b.root, "stopped", "", "min_reward = 0.6\n")
	steps(t, b.root, "stopped-final", "multi_step_reward_strategy = \"final\"\n", "min_reward = 0.6\n")
	records := b.run()
	for name, want := range map[string]string{"mean": "0.75", "final": "1", "stopped": "0.5", "stopped-final": "0.5"} {
		require.Equal(t, want, outcome(records[name]), "%s: %s", name, records[name].Metadata)
	}
	stages := gjson.GetBytes(records["mean"].Metadata, "stages")
	require.Equal(t, `["one","two"]`, stages.Get("#.name").Raw)
	require.Equal(t, `[0.5,1]`, stages.Get("#.score").Raw)
	require.Len(t, gjson.GetBytes(records["stopped"].Metadata, "stages").Array(), 1)
	var prompts []string
	for _, m := range records["mean"].Messages {
		prompts = append(prompts, m.Text())
	}
	require.Equal(t, []string{"First.\n", "Second.\n"}, prompts)
	require.Equal(t, []trajectories.ScorePart{{Name: "step:one", Value: 0.5}, {Name: "step:two", Value: 1}}, records["mean"].ScoreParts)
	b.agent = env.AgentNop
	require.Equal(t, classNoReward, outcome(b.run()["mean"]))
}

// A process killed while its containers run, and resumed: nothing is lost or run
// twice, and no container or image stays.
func TestAKilledRunGoesOnAndItsContainersAreSwept(t *testing.T) {
	b := newBench(t)
	for i := range 6 {
		writeTask(t, b.root, "task-"+strconv.Itoa(i), "#!/bin/sh\necho 42 > /work/answer; sleep 0.3\n", nil)
	}
	dir := t.TempDir()
	args := []string{"evaluate", "--environment", NameTasks, "--env.tasks", b.root, "--agent", "oracle", "--env.attempts", "3",
		"--env.max_concurrent_tasks", "3", "--env.verify_in", "fresh", "--run-dir", filepath.Join(dir, "run")}
	start := func(more ...string) *exec.Cmd {
		c := exec.Command(binary(t), append(append([]string(nil), args...), more...)...)
		c.Env = append(os.Environ(), "HOME="+dir)
		c.Dir = dir
		return c
	}
	finished := func() int {
		text, err := os.ReadFile(filepath.Join(dir, "run", "rollouts.jsonl"))
		if err != nil {
			return 0
		}
		return strings.Count(string(text), "\n")
	}
	var owners []string
	killed := start()
	require.NoError(t, killed.Start())
	owners = append(owners, strconv.Itoa(killed.Process.Pid))
	for deadline := time.Now().Add(2 * time.Minute); finished() < 3; time.Sleep(10 * time.Millisecond) {
		require.True(t, time.Now().Before(deadline), "nothing was finished")
	}
	require.NoError(t, killed.Process.Kill())
	require.Error(t, killed.Wait())
	before := finished()
	require.Less(t, before, 18)
	resumed := start("--resume")
	out, err := resumed.CombinedOutput()
	require.NoError(t, err, "%s", out)
	owners = append(owners, strconv.Itoa(resumed.Process.Pid))
	require.Contains(t, string(out), "18: 18 scored")
	keys := map[trajectories.Key]bool{}
	reader, err := trajectories.OpenReadOnly(filepath.Join(dir, "run"))
	require.NoError(t, err)
	require.NoError(t, reader.Each(func(r *trajectories.Rollout) error {
		require.False(t, keys[r.Key()], "%v is there twice", r.Key())
		keys[r.Key()] = true
		return nil
	}))
	require.Len(t, keys, 18)
	// What the engine was still making when the process was killed goes with the next sweep.
	for tries := 0; tries < 20; tries++ {
		sweep := exec.CommandContext(context.Background(), binary(t), "cleanup")
		sweep.Env = append(os.Environ(), "HOME="+dir)
		out, err := sweep.CombinedOutput()
		require.NoError(t, err, "%s", out)
		left := 0
		for _, pid := range owners {
			left += len(dockertest.Containers(t, "hermes-env.owner-pid="+pid))
			left += len(strings.Fields(dockertest.Command(t, "images", "-aq", "--filter", "label=hermes-env.snapshot", "--filter", "label=hermes-env.owner-pid="+pid)))
		}
		if left == 0 {
			break
		}
		require.Less(t, tries, 19, "%d containers and images are left", left)
		time.Sleep(100 * time.Millisecond)
	}
	var m trajectories.Manifest
	text, err := os.ReadFile(filepath.Join(dir, "run", "run.json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &m))
	require.EqualValues(t, 6, gjson.GetBytes(m.Dataset, "tasks").Int())
	require.NotEmpty(t, m.DatasetDigest)
}

func TestTestsThatMayReachMoreThanTheAgentGetAContainerOfTheirOwn(t *testing.T) {
	b := newBench(t)
	const networks = "#!/bin/sh\nls /sys/class/net | grep -v lo > /work/networks\n"
	writeTask(t, b.root, "networks", networks, files{
		"task.toml":     "[agent]\nnetwork_mode = \"no-network\"\n[verifier]\nnetwork_mode = \"public\"\n[environment]\n",
		"tests/test.sh": "#!/bin/sh\nif [ ! -s /work/networks ] && ls /sys/class/net | grep -q eth0; then echo 1 > /logs/verifier/reward.txt; fi\n",
	})
	r := b.run()["networks"]
	require.Equal(t, "1", outcome(r), "%s", r.Metadata)
	require.Equal(t, "fresh", verifierOf(r).Get("verified_in").String())
}
