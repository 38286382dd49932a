package cli_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"github.com/hermes-env/hermes-env/agentloop/model/modeltest"
	"github.com/hermes-env/hermes-env/env/atropos"
	"github.com/hermes-env/hermes-env/env/atropos/client"
	"github.com/hermes-env/hermes-env/internal/slowtest"
)

const killedWorker = `
environment: prompts
env:
  dataset_name: questions.jsonl
  prompt_template: "{{question}}"
  reward: {type: numeric, reference_field: answer}
  epochs: 0
  group_size: 2
  ensure_scores_are_not_same: false
  steps_per_eval: 0
  enabled_toolsets: []
  wandb_name: killed
`

// TestEveryGroupReachesTheTrainerOnceWhateverIsKilled kills the API server, the
// worker and the trainer again and again, each a process of its own, and starts them
// again. Every group whose rollouts the worker finished must reach the trainer once:
// the trainer uses the names of batches, the worker those of its groups.
func TestEveryGroupReachesTheTrainerOnceWhateverIsKilled(t *testing.T) {
	slowtest.Require(t)
	t.Parallel()
	const batch = 4
	kills, trainerKills := slowtest.Times(6, 60), slowtest.Times(1, 9)
	python(t)
	dir := t.TempDir()
	folder := modelFolder(t)
	// Every answer is another one, so that every group is known by its tokens.
	model := modeltest.NewTokenServer(t, modeltest.TokenConfig{API: modeltest.SGLang, Dir: folder, Script: func(r *modeltest.TokenRequest) modeltest.TokenReply {
		return modeltest.Sample(fmt.Sprintf("answer %d", r.Number)).After(time.Duration(rand.IntN(10)) * time.Millisecond)
	}})
	require.NoError(t, os.WriteFile(filepath.Join(dir, "worker.yaml"), []byte(killedWorker), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "questions.jsonl"), []byte(`{"question":"1?","answer":1}`+"\n"+`{"question":"2?","answer":2}`+"\n"), 0o600))

	server, url := apiProcess(t, dir, "0", "--state-dir", "api")
	binary, err := os.Executable()
	require.NoError(t, err)
	startWorker := func() *running {
		return start(t, dir, []string{asProgram + "=1"}, binary, "serve", "--config", "worker.yaml", "--run-dir", "run", "--resume", "--env.rollout_server_url", url,
			"--openai.base_url", model.URL, "--openai.model_name", "mock", "--openai.server_type", "sglang", "--openai.tokenizer_name", folder)
	}
	startTrainer := func() *running {
		return toyTrainer(t, dir, url, "--batch-size", fmt.Sprint(batch), "--steps", "1000000", "--state", "trainer.json", "--record", "used.jsonl")
	}
	worker, trainer := startWorker(), startTrainer()
	all := func() string { // for messages
		return fmt.Sprintf("server: %s\nworker: %s\ntrainer: %s", server.err.String(), worker.err.String(), trainer.err.String())
	}
	used := func() int {
		content, err := os.ReadFile(filepath.Join(dir, "used.jsonl"))
		if err != nil {
			return 0
		}
		return strings.Count(string(content), "\n")
	}
	progress := func(groups int) {
		t.Helper()
		from := used()
		if !assert.Eventually(t, func() bool { return used() >= from+groups }, time.Minute, 5*time.Millisecond) {
			require.Fail(t, "the trainer does not get on", all())
		}
	}

	// On a machine of any speed: the next kill comes when the last one is got over.
	random := rand.New(rand.NewPCG(7, 8))
	victims := append(slices.Repeat([]string{"server", "worker"}, kills/2), slices.Repeat([]string{"trainer"}, trainerKills)...)
	random.Shuffle(len(victims), func(i, j int) { victims[i], victims[j] = victims[j], victims[i] })
	for _, victim := range victims {
		progress(1)
		time.Sleep(rand.N(30 * time.Millisecond))
		switch victim {
		case "server":
			server.kill()
			server, _ = apiProcess(t, dir, portOf(url), "--state-dir", "api")
		case "worker":
			worker.kill()
			worker = startWorker()
		case "trainer":
			trainer.kill()
			trainer = startTrainer()
		}
	}
	progress(batch)
	require.NoError(t, worker.cmd.Process.Signal(syscall.SIGTERM))
	worker.wait()
	api, err := client.New(client.Config{URL: url})
	require.NoError(t, err)
	var overview *atropos.Overview
	if !assert.Eventually(t, func() bool {
		overview, err = api.Overview(context.Background())
		return err == nil && overview.Undelivered.Groups == 0 && overview.Queue.Sequences < batch
	}, time.Minute, 10*time.Millisecond) {
		require.Fail(t, "the trainer does not take what makes a batch", all())
	}
	require.Zero(t, overview.Buffered.Groups)
	trainer.kill()

	reached := map[string]int{}
	for _, line := range lines(t, filepath.Join(dir, "used.jsonl")) {
		reached[tokensOf(t, line)]++
	}
	for name, times := range reached {
		require.Equal(t, 1, times, "the group with the tokens %s was used once", name)
	}
	delivered := len(reached)
	for left := overview.Queue.Groups; left > 0; left-- { // less than a batch
		_, err := api.Register(context.Background(), atropos.Registration{BatchSize: 2})
		require.NoError(t, err)
		b, err := api.Batch(context.Background(), client.BatchOptions{})
		require.NoError(t, err)
		reached[tokensOf(t, string(b.Groups[0]))]++
	}
	finished := finishedGroups(t, filepath.Join(dir, "run"))
	for name, step := range finished {
		require.Equal(t, 1, reached[name], "the group of step %d reached the trainer; %s", step, all())
	}
	require.Len(t, reached, len(finished), "and nothing else did")
	t.Logf("%d groups over %d kills, %d of them used, %d left in the queue", len(finished), len(victims), delivered, len(finished)-delivered)
}

func tokensOf(t *testing.T, group string) string {
	t.Helper()
	var tokens [][]int
	require.NoError(t, json.Unmarshal([]byte(gjson.Get(group, "tokens").Raw), &tokens))
	return fmt.Sprint(tokens)
}

// finishedGroups returns the steps of the groups in a run directory all of whose
// rollouts are finished, by their tokens.
func finishedGroups(t *testing.T, dir string) map[string]int {
	t.Helper()
	members := map[int][]string{}
	for _, line := range lines(t, filepath.Join(dir, "rollouts.jsonl")) {
		if gjson.Get(line, "outcome").String() != "scored" {
			continue
		}
		step := int(gjson.Get(line, "step").Int())
		members[step] = append(members[step], line)
	}
	groups := map[string]int{}
	for step, list := range members {
		if len(list) < 2 {
			continue
		}
		slices.SortFunc(list, func(a, b string) int { return int(gjson.Get(a, "attempt").Int() - gjson.Get(b, "attempt").Int()) })
		var tokens [][]int
		for _, line := range list {
			var one []int
			require.NoError(t, json.Unmarshal([]byte(gjson.Get(line, "token_sequences.0.tokens").Raw), &one))
			tokens = append(tokens, one)
		}
		groups[fmt.Sprint(tokens)] = step
	}
	return groups
}
