package cli_test

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"github.com/hermes-env/hermes-env/agentloop/model/modeltest"
	"github.com/hermes-env/hermes-env/env/cli"
)

func TestProcessLogsItsFiguresUnderTheirOldNames(t *testing.T) {
	p := newProgram(t)
	p.write("quick.yaml", quickstart)
	code, stdout, stderr := p.run("process", "--config", "quick.yaml", "--run-dir", "out", "--env.data_path_to_save_groups", "groups.jsonl",
		"--env.min_items_sent_before_logging", "0", "--env.num_rollouts_per_group_for_logging", "-1")
	require.Equal(t, cli.ExitOK, code, stderr)
	logs := lines(t, "out/metrics.jsonl")
	last := gjson.Parse(logs[len(logs)-1])
	require.EqualValues(t, 3, last.Get("_step").Int())
	sent := 0.0
	for _, line := range logs {
		sent += gjson.Get(line, "train/items_sent_to_api").Float()
	}
	require.Equal(t, 3.0, sent)
	for _, name := range []string{"train/completion_lengths", "train/items_rejected", "train_perf/succeeded_task_duration_mean", "server/server_0_request_time_99p",
		"server/server_0_average_num_attempts", "train_window/score_mean", "train/total_rollouts"} {
		require.True(t, last.Get(name).Exists(), "%s in %s", name, last.Raw)
	}
	rows := 0
	for _, line := range lines(t, "out/tables.jsonl") {
		require.Equal(t, "train/rollouts", gjson.Get(line, "name").String())
		for _, row := range gjson.Get(line, "data").Array() {
			rows++
			require.Contains(t, row.Get("0").String(), "[assistant]\n")
			require.Equal(t, gjson.Number, row.Get("1").Type)
		}
	}
	require.Equal(t, 6, rows)
	require.NoDirExists(t, "out/wandb")
	require.NotContains(t, stdout+stderr, "wandb")
}

func TestAResumedRunGoesOnWithItsFiguresAndItsOfflineRun(t *testing.T) {
	p := newProgram(t)
	p.write("quick.yaml", quickstart)
	p.env["OPENAI_API_KEY"] = "sk-test-123"
	args := []string{"process", "--config", "quick.yaml", "--run-dir", "out", "--env.use_wandb", "true", "--env.wandb_name", "toy", "--env.wandb_project", "p"}
	code, _, stderr := p.run(args...)
	require.Equal(t, cli.ExitOK, code, stderr)
	require.Contains(t, stderr, "upload it with: wandb sync --append out/wandb/offline-run-*-")
	code, _, stderr = p.run(append(args, "--resume", "--env.total_steps", "5")...)
	require.Equal(t, cli.ExitOK, code, stderr)
	var steps []int64
	for _, line := range lines(t, "out/metrics.jsonl") {
		steps = append(steps, gjson.Get(line, "_step").Int())
	}
	require.IsNonDecreasing(t, steps)
	require.EqualValues(t, 5, steps[len(steps)-1])
	files, err := filepath.Glob("out/wandb/offline-run-*/run-*.wandb")
	require.NoError(t, err)
	require.Len(t, files, 2)
	require.Equal(t, filepath.Base(files[0]), filepath.Base(files[1]), "sessions share their id")
	tables, err := filepath.Glob("out/wandb/offline-run-*/files/media/table/train/rollouts_*.table.json")
	require.NoError(t, err)
	require.NotEmpty(t, tables)
	for _, file := range files {
		raw, err := os.ReadFile(file)
		require.NoError(t, err)
		require.Contains(t, string(raw), "toy-20")
		require.Contains(t, string(raw), "group_size")
		require.NotContains(t, string(raw), "sk-test-123")
	}
}

func TestEvaluateLogsItsFigures(t *testing.T) {
	p := newProgram(t)
	p.write("quick.yaml", quickstart)
	code, _, stderr := p.run("evaluate", "--config", "quick.yaml", "--run-dir", "out")
	require.Equal(t, cli.ExitOK, code, stderr)
	logs := lines(t, "out/metrics.jsonl")
	last := gjson.Parse(logs[len(logs)-1])
	require.EqualValues(t, 8, last.Get("_step").Int())
	require.InDelta(t, 0.875, last.Get("eval/score").Float(), 1e-9)
	require.True(t, last.Get("server/server_0_eval_request_time_avg").Exists(), last.Raw)
	require.False(t, last.Get("server/server_0_request_time_avg").Exists(), "requests of an evaluation are not those of training")
	require.NoFileExists(t, "out/tables.jsonl")
}

// fetchedWhileRunning runs process with a flag that serves something, and fetches a
// path of it during the first model call. The server must end with the command.
func fetchedWhileRunning(t *testing.T, flag, path string) (answer, stderr, url string) {
	t.Helper()
	p := newProgram(t)
	p.write("quick.yaml", quickstart)
	free, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := free.Addr().String()
	require.NoError(t, free.Close())
	var asked atomic.Int64
	var fetched atomic.Value
	server := modeltest.NewServer(t, func(*modeltest.Request) modeltest.Reply {
		if asked.Add(1) == 1 {
			resp, err := http.Get("http://" + address + path)
			if err == nil {
				body, _ := io.ReadAll(resp.Body)
				_ = resp.Body.Close()
				fetched.Store(resp.Status + string(body))
			}
		}
		return modeltest.Text("done")
	})
	code, _, stderr := p.run("process", "--config", "quick.yaml", "--run-dir", "out", "--openai.base_url", server.URL, "--openai.model_name", "mock", flag, address)
	require.Equal(t, cli.ExitOK, code, stderr)
	_, err = net.Dial("tcp", address)
	require.Error(t, err, "the server ends with the run")
	answer, _ = fetched.Load().(string)
	return answer, stderr, "http://" + address
}

func TestPrometheusFetchesTheFiguresWhileTheRunGoesOn(t *testing.T) {
	answer, stderr, url := fetchedWhileRunning(t, "--metrics-listen", "/metrics")
	require.Contains(t, stderr, url+"/metrics")
	require.Contains(t, answer, "200 OK")
	require.Contains(t, answer, "hermes_env_step 0\n")
}

func TestProfiles_AreServedWhileACommandRuns(t *testing.T) {
	answer, stderr, url := fetchedWhileRunning(t, "--pprof-listen", "/debug/pprof/goroutine?debug=1")
	require.Contains(t, stderr, url+"/debug/pprof/")
	require.Contains(t, answer, "200 OK")
	require.Contains(t, answer, "goroutine profile: total")
}

func TestProfiles_AreOfferedByEveryLongCommand(t *testing.T) {
	p := newProgram(t)
	for _, command := range []string{"evaluate", "process", "serve", "batch", "rescore run", "validate", "convert in --to messages", "compress", "api", "api run"} {
		code, _, stderr := p.run(append(strings.Fields(command), "--pprof-listen", "a:b:c")...)
		require.Equal(t, cli.ExitUsage, code, command)
		require.Contains(t, stderr, `--pprof-listen "a:b:c": want an address`, command)
	}
}

func TestSinksThatCanNotWriteEndNoRun(t *testing.T) {
	p := newProgram(t)
	p.write("quick.yaml", quickstart)
	code, _, stderr := p.run("process", "--config", "quick.yaml", "--run-dir", "out")
	require.Equal(t, cli.ExitOK, code, stderr)
	require.NoError(t, os.Remove("out/metrics.jsonl"))
	require.NoError(t, os.Mkdir("out/metrics.jsonl", 0o755))
	require.NoError(t, os.WriteFile("out/wandb", nil, 0o644))
	code, stdout, stderr := p.run("process", "--config", "quick.yaml", "--run-dir", "out", "--resume", "--env.total_steps", "4", "--env.use_wandb", "true")
	require.Equal(t, cli.ExitOK, code, stderr)
	require.Contains(t, stdout, "8: 8 scored")
	require.Contains(t, stderr, "no figures are written while the run goes on")
	require.Contains(t, stderr, "env.use_wandb: begin an offline run of Weights & Biases in out/wandb")
}

func TestBadAddressesForPrometheusAreNamedBeforeAnythingStarts(t *testing.T) {
	p := newProgram(t)
	p.write("quick.yaml", quickstart)
	for _, address := range []string{"a:b:c", "127.0.0.1:99999"} {
		code, _, stderr := p.run("process", "--config", "quick.yaml", "--run-dir", "out", "--metrics-listen", address)
		require.Equal(t, cli.ExitUsage, code, address)
		require.Contains(t, stderr, "--metrics-listen")
		require.NoDirExists(t, "out")
	}
}

func TestASmallRunGetsItsReportWithoutBeingAsked(t *testing.T) {
	for when, want := range map[string]bool{"auto": true, "always": true, "never": false} {
		t.Run(when, func(t *testing.T) {
			p := newProgram(t)
			p.write("quick.yaml", quickstart)
			code, _, stderr := p.run("process", "--config", "quick.yaml", "--run-dir", "out", "--env.report", when)
			require.Equal(t, cli.ExitOK, code, stderr)
			require.Equal(t, want, strings.Contains(stderr, "report: out/report.html\n"))
			if !want {
				require.NoFileExists(t, "out/report.html")
				return
			}
			page, err := os.ReadFile("out/report.html")
			require.NoError(t, err)
			require.Contains(t, string(page), "terminal-test")
		})
	}
}

func TestReasoningIsAskedForAsTheConfigurationSays(t *testing.T) {
	p := newProgram(t)
	p.write("quick.yaml", quickstart)
	script := conversation()
	var mu sync.Mutex
	var bodies [][]byte
	server := modeltest.NewServer(t, func(r *modeltest.Request) modeltest.Reply {
		mu.Lock()
		defer mu.Unlock()
		bodies = append(bodies, bytes.Clone(r.Body))
		return script(r)
	})
	code, _, stderr := p.run("evaluate", "--config", "quick.yaml", "--env.eval_items", "held_out", "--run-dir", "out", "--openai.base_url", server.URL, "--openai.model_name", "mock",
		"--env.reasoning_effort", "low", "--env.custom_thinking_prompt", "Think hard.", "--env.system_prompt", "You are brief.")
	require.Equal(t, cli.ExitOK, code, stderr)
	require.NotEmpty(t, bodies)
	for _, body := range bodies {
		require.JSONEq(t, `{"enabled":true,"effort":"low"}`, gjson.GetBytes(body, "reasoning").Raw)
		require.Equal(t, "Think hard.\n\nYou are brief.", gjson.GetBytes(body, "messages.0.content").String())
		require.Equal(t, "user", gjson.GetBytes(body, "messages.1.role").String())
	}
}

func TestTheTableOfRolloutsShowsExactTokensAsTheyAre(t *testing.T) {
	dir := modelFolder(t)
	p := newProgram(t)
	p.write("train.yaml", training)
	server := modeltest.NewTokenServer(t, modeltest.TokenConfig{API: modeltest.SGLang, Dir: dir, Script: acting})
	code, _, stderr := p.run("process", "--config", "train.yaml", "--run-dir", "out", "--openai.base_url", server.URL, "--openai.model_name", "mock",
		"--openai.server_type", "sglang", "--openai.tokenizer_name", dir)
	require.Equal(t, cli.ExitOK, code, stderr)
	text := gjson.Get(lines(t, "out/tables.jsonl")[0], "data.0.0").String()
	require.True(t, strings.HasPrefix(text, "<|im_start|>"), text)
	require.True(t, strings.HasSuffix(text, "<|im_end|>"), text)
}

func TestEvaluationsKeepToTheirOwnLimitOfRequests(t *testing.T) {
	p := newProgram(t)
	p.write("quick.yaml", quickstart)
	var now, most atomic.Int64
	server := modeltest.NewServer(t, func(*modeltest.Request) modeltest.Reply {
		n := now.Add(1)
		defer now.Add(-1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		time.Sleep(5 * time.Millisecond) // so that requests would meet
		return modeltest.Text("done")
	})
	code, _, stderr := p.run("evaluate", "--config", "quick.yaml", "--run-dir", "out", "--openai.base_url", server.URL, "--openai.model_name", "mock", "--openai.num_requests_for_eval", "1")
	require.Equal(t, cli.ExitOK, code, stderr)
	require.EqualValues(t, 1, most.Load())
}

func TestRolloutsThatTheirGroupsTimeEndedAreNamedInTheHintToGoOn(t *testing.T) {
	p := newProgram(t)
	p.write("quick.yaml", quickstart)
	server := modeltest.NewServer(t, modeltest.Always(modeltest.Hang()))
	code, stdout, stderr := p.run("process", "--config", "quick.yaml", "--run-dir", "out", "--openai.base_url", server.URL, "--openai.model_name", "mock",
		"--env.total_steps", "1", "--env.worker_timeout", "0.3")
	require.Equal(t, cli.ExitBelow, code, stderr)
	require.Contains(t, stdout, "2: 2 limit")
	require.Contains(t, stderr, "but for 2 that a limit such as env.worker_timeout cut off: --retry-outcome limit runs all of that outcome again")
}
