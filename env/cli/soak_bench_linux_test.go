package cli_test

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/agentloop/model/modeltest"
	"github.com/hermes-env/hermes-env/env/atropos"
	"github.com/hermes-env/hermes-env/env/atropos/client"
)

var soakRollouts = flag.Int("soak", 20_000, "rollouts of BenchmarkSoak")

// BenchmarkSoak makes many short rollouts in one process and reports by how much its
// live memory grows: the slope, in bytes per rollout, of a line through what is in use
// after a garbage collection, over the last three quarters of the run. -soak sets how
// many rollouts there are.
func BenchmarkSoak(b *testing.B) {
	n := *soakRollouts
	for _, command := range []string{"process", "evaluate", "serve"} {
		b.Run(fmt.Sprintf("%s/rollouts=%d", command, n), func(b *testing.B) {
			for range b.N {
				soak(b, command, n)
			}
		})
	}
}

func soak(b *testing.B, command string, n int) {
	dir := b.TempDir()
	rows := max(1, n/64)
	var data strings.Builder
	for i := range rows {
		fmt.Fprintf(&data, "{\"question\":\"%d?\",\"answer\":\"%d\"}\n", i, i%10)
	}
	require.NoError(b, os.WriteFile(filepath.Join(dir, "rows.jsonl"), []byte(data.String()), 0o600))
	args := []string{command, "--environment", "prompts", "--env.dataset_name", "rows.jsonl", "--env.prompt_field", "question", "--env.reward.type", "numeric",
		"--env.reward.reference_field", "answer", "--env.group_size", "4", "--env.enabled_toolsets", "[]", "--env.ensure_scores_are_not_same", "false",
		"--openai.model_name", "mock", "--run-dir", "run", "--pprof-listen", "0", "--json"}
	var count func() int
	switch command {
	case "serve":
		folder := modelFolder(b)
		model, err := modeltest.StartTokens(modeltest.TokenConfig{API: modeltest.SGLang, Dir: folder, Script: func(r *modeltest.TokenRequest) modeltest.TokenReply {
			return modeltest.Sample(strconv.Itoa(r.Number % 10))
		}})
		require.NoError(b, err)
		defer model.Close()
		count = model.RequestCount
		api, url := apiProcess(b, dir, "0", "--state-dir", "api")
		defer api.kill()
		ctx, stop := context.WithCancel(b.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			consumeBatches(ctx, url)
		}()
		defer func() { stop(); <-ended }()
		args = append(args, "--env.epochs", "0", "--env.steps_per_eval", "0", "--env.rollout_server_url", url, "--env.wandb_name", "soak",
			"--openai.base_url", model.URL, "--openai.server_type", "sglang", "--openai.tokenizer_name", folder)
	default:
		model := modeltest.NewServerWith(b, modeltest.Config{Script: func(r *modeltest.Request) modeltest.Reply {
			return modeltest.Text(strconv.Itoa(r.Number%10)).WithUsage(10, 5)
		}})
		count = model.RequestCount
		args = append(args, "--openai.base_url", model.URL, "--env.epochs", "0", "--env.total_steps", fmt.Sprint(n/4), "--env.attempts", "64", "--env.max_eval_workers", "64", "--env.max_num_workers", "16")
	}
	binary, err := os.Executable()
	require.NoError(b, err)
	child := prepare(b, dir, []string{asProgram + "=1", "TMPDIR=" + dir}, binary, args...)
	child.cmd.Stdout = io.Discard
	child.start()
	defer child.kill()
	profiles := regexp.MustCompile(`http://127\.0\.0\.1:\d+/debug/pprof/`)
	require.Eventually(b, func() bool { return profiles.MatchString(child.err.String()) }, time.Minute, time.Millisecond, "%s", &child.err)
	url := profiles.FindString(child.err.String()) + "heap?gc=1&debug=1"
	var made, held []float64
	for at := n / 4; at <= n*31/32; at += max(1, n/24) {
		for count() < at {
			select {
			case <-child.ended:
				require.Fail(b, "the run ended early", child.err.String())
			case <-time.After(time.Millisecond):
			}
		}
		before := count()
		bytes := heapInUse(b, url)
		for range 4 { // what is being worked on comes on top, so the least is nearest
			bytes = min(bytes, heapInUse(b, url))
		}
		made, held = append(made, float64(before+count())/2), append(held, bytes)
		fmt.Fprintf(os.Stderr, "%s: %d rollouts: %.2f MB\n", command, before, bytes/1e6)
	}
	b.ReportMetric(slope(made, held), "B-held/rollout")
	b.ReportMetric(held[len(held)-1]/1e6, "MB-held-at-the-end")
}

// consumeBatches takes batches as a trainer does, until the context ends.
func consumeBatches(ctx context.Context, url string) {
	trainer, err := client.New(client.Config{URL: url})
	if err != nil {
		return
	}
	defer trainer.CloseIdle()
	_, _ = trainer.Register(ctx, atropos.Registration{BatchSize: 64, NumSteps: 1 << 30})
	for ctx.Err() == nil {
		if batch, err := trainer.Batch(ctx, client.BatchOptions{}); err != nil || batch == nil || len(batch.Groups) == 0 {
			time.Sleep(5 * time.Millisecond)
		}
	}
}

// heapInUse returns the bytes that a process holds after a garbage collection.
func heapInUse(b *testing.B, url string) float64 {
	b.Helper()
	response, err := http.Get(url)
	require.NoError(b, err)
	defer response.Body.Close()
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if text, ok := strings.CutPrefix(lines.Text(), "# HeapAlloc = "); ok {
			bytes, err := strconv.ParseFloat(text, 64)
			require.NoError(b, err)
			return bytes
		}
	}
	require.NoError(b, lines.Err())
	require.Fail(b, "the profile has no HeapAlloc")
	return 0
}

// slope returns that of the line with the least squares.
func slope(x, y []float64) float64 {
	var sx, sy, sxx, sxy float64
	n := float64(len(x))
	for i := range x {
		sx, sy = sx+x[i], sy+y[i]
		sxx, sxy = sxx+x[i]*x[i], sxy+x[i]*y[i]
	}
	return (n*sxy - sx*sy) / (n*sxx - sx*sx)
}
