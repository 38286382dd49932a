package cli_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"github.com/hermes-env/hermes-env/agentloop/model/modeltest"
	"github.com/hermes-env/hermes-env/env/atropos"
	"github.com/hermes-env/hermes-env/env/atropos/client"
)

const judgedConfig = `
environment: prompts
env:
  dataset_name: questions.jsonl
  prompt_template: "{{question}}"
  reward: {type: judge, rubric: Be kind.}
  judge: {base_url: %q, model_name: j, api_key: ""}
  epochs: 1
  group_size: 2
  total_steps: 6
  max_num_workers: 3
  max_eval_workers: 4
  attempts: 2
  ensure_scores_are_not_same: false
  steps_per_eval: 0
  enabled_toolsets: []
  wandb_name: judged
`

// A process that is killed while a judge is being asked has paid for each conversation
// once: the sessions after it ask the judge only.
func TestJob_NeverPaysTwiceForConversationsThatWaitForAJudge(t *testing.T) {
	const rollouts = 12
	for _, command := range []string{"evaluate", "process", "serve"} {
		t.Run(command, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			require.NoError(t, os.Mkdir(filepath.Join(dir, "tmp"), 0o755))
			var answers, verdicts atomic.Int64 // how many verdicts the judge gives before it hangs
			verdicts.Store(2)
			answer := func() string { return fmt.Sprintf("answer %d", answers.Add(1)) }
			judge := modeltest.NewServer(t, func(*modeltest.Request) modeltest.Reply {
				if verdicts.Add(-1) < 0 {
					return modeltest.Hang()
				}
				return modeltest.Text(`{"reason":"fine","score":1}`).WithUsage(500, 50)
			})
			rows := ""
			for i := range rollouts / 2 {
				rows += fmt.Sprintf("{\"question\":\"%d?\"}\n", i)
			}
			require.NoError(t, os.WriteFile(filepath.Join(dir, "questions.jsonl"), []byte(rows), 0o600))
			require.NoError(t, os.WriteFile(filepath.Join(dir, "judged.yaml"), fmt.Appendf(nil, judgedConfig, judge.URL), 0o600))
			args := []string{command, "--config", "judged.yaml", "--run-dir", "run", "--openai.model_name", "mock"}
			if command == "serve" {
				folder := modelFolder(t)
				model := modeltest.NewTokenServer(t, modeltest.TokenConfig{API: modeltest.SGLang, Dir: folder, Script: func(*modeltest.TokenRequest) modeltest.TokenReply {
					return modeltest.Sample(answer())
				}})
				api, url := apiProcess(t, dir, "0", "--state-dir", "api")
				t.Cleanup(api.kill)
				trainer, err := client.New(client.Config{URL: url})
				require.NoError(t, err)
				_, err = trainer.Register(context.Background(), atropos.Registration{BatchSize: 64, NumSteps: 100})
				require.NoError(t, err)
				_, err = trainer.Batch(context.Background(), client.BatchOptions{}) // has the workers begin
				require.NoError(t, err)
				args = append(args, "--env.rollout_server_url", url, "--openai.base_url", model.URL, "--openai.server_type", "sglang", "--openai.tokenizer_name", folder)
			} else {
				model := modeltest.NewServer(t, func(*modeltest.Request) modeltest.Reply { return modeltest.Text(answer()).WithUsage(10, 5) })
				args = append(args, "--openai.base_url", model.URL)
			}
			binary, err := os.Executable()
			require.NoError(t, err)
			for session := range 3 {
				asked := judge.RequestCount()
				given := append([]string(nil), args...)
				if session > 0 {
					given = append(given, "--resume")
					verdicts.Store(2)
				}
				child := start(t, dir, []string{asProgram + "=1", "TMPDIR=" + filepath.Join(dir, "tmp")}, binary, given...)
				require.Eventually(t, func() bool { return judge.RequestCount() >= asked+4 }, time.Minute, time.Millisecond, "%s", &child.err)
				child.kill()
			}
			verdicts.Store(1 << 40)
			child := start(t, dir, []string{asProgram + "=1", "TMPDIR=" + filepath.Join(dir, "tmp")}, binary, append(args, "--resume")...)
			if command == "serve" { // until it is told to stop
				require.Eventually(t, func() bool { return len(wholeLines(filepath.Join(dir, "run", "rollouts.jsonl"))) >= rollouts }, time.Minute, time.Millisecond, "%s", &child.err)
				require.NoError(t, child.cmd.Process.Signal(syscall.SIGTERM))
			}
			select {
			case <-child.ended:
			case <-time.After(time.Minute):
				require.Fail(t, "the run does not end", child.err.String())
			}
			records := lines(t, filepath.Join(dir, "run", "rollouts.jsonl"))
			texts := map[string]bool{}
			for _, line := range records {
				texts[gjson.Get(line, "messages.@reverse.0.content").String()] = true
			}
			if command != "serve" {
				require.Len(t, records, rollouts)
				require.Len(t, texts, rollouts)
				require.LessOrEqual(t, answers.Load(), int64(rollouts+3*4), "only what was asked when a kill came is asked again")
			}
			for n := range judgedBefore(t, judge) {
				require.True(t, texts[n], "%q was paid for and is gone", n)
			}
			require.NoDirExists(t, filepath.Join(dir, "run", "waiting"))
		})
	}
}

// judgedBefore returns the answers that the judge was ever asked about.
func judgedBefore(t *testing.T, judge *modeltest.Server) map[string]bool {
	t.Helper()
	asked := map[string]bool{}
	for _, r := range judge.Requests() {
		text := string(r.Body)
		from := strings.Index(text, "answer ")
		if i := strings.Index(text, "<<<ANSWER"); i >= 0 {
			from = i + strings.Index(text[i:], "answer ")
		}
		rest := text[from:]
		end := strings.IndexFunc(rest[len("answer "):], func(c rune) bool { return c < '0' || c > '9' })
		asked[rest[:len("answer ")+end]] = true
	}
	return asked
}
