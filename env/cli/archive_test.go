package cli_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"github.com/hermes-env/hermes-env/agentloop/model/modeltest"
	"github.com/hermes-env/hermes-env/env/atropos"
	"github.com/hermes-env/hermes-env/env/atropos/client"
	"github.com/hermes-env/hermes-env/env/cli"
	"github.com/hermes-env/hermes-env/trajectories"
)

func TestServe_MovesOlderRolloutsIntoSegmentsAndResumes(t *testing.T) {
	p := newProgram(t)
	folder := modelFolder(t)
	long := strings.Repeat("many words ", 6000)
	model := modeltest.NewTokenServer(t, modeltest.TokenConfig{API: modeltest.SGLang, Dir: folder, Script: func(*modeltest.TokenRequest) modeltest.TokenReply {
		return modeltest.Sample(long)
	}})
	p.write("worker.yaml", killedWorker)
	p.write("questions.jsonl", `{"question":"1?","answer":1}`+"\n"+`{"question":"2?","answer":2}`+"\n")
	api, url := apiProcess(t, p.dir, "0", "--state-dir", "api")
	defer api.kill()
	trainer, err := client.New(client.Config{URL: url})
	require.NoError(t, err)
	_, err = trainer.Register(context.Background(), atropos.Registration{BatchSize: 64, NumSteps: 100, MaxTokenLen: 1 << 20})
	require.NoError(t, err)
	_, err = trainer.Batch(context.Background(), client.BatchOptions{}) // has the workers begin
	require.NoError(t, err)
	binary, err := os.Executable()
	require.NoError(t, err)
	segments := 0
	for range 2 {
		worker := start(t, p.dir, []string{asProgram + "=1"}, binary, "serve", "--config", "worker.yaml", "--run-dir", "run", "--resume", "--env.rollout_server_url", url,
			"--env.record_segment_mb", "1", "--env.max_token_length", "100000", "--openai.base_url", model.URL, "--openai.model_name", "mock", "--openai.server_type", "sglang", "--openai.tokenizer_name", folder)
		segments += 2
		require.Eventually(t, func() bool {
			found, err := filepath.Glob(filepath.Join("run", "archive", "*.index"))
			return err == nil && len(found) >= segments
		}, time.Minute, time.Millisecond, "%s", &worker.err)
		require.NoError(t, worker.cmd.Process.Signal(syscall.SIGTERM))
		<-worker.ended
	}
	reader, err := trajectories.OpenReadOnly("run")
	require.NoError(t, err)
	keys := map[trajectories.Key]bool{}
	require.NoError(t, reader.Each(func(r *trajectories.Rollout) error {
		require.False(t, keys[r.Key()], "%v was made twice", r.Key())
		keys[r.Key()] = true
		return nil
	}))
	code, stdout, stderr := p.run("stats", "run", "--json")
	require.Equal(t, cli.ExitOK, code, stderr)
	require.EqualValues(t, len(keys), gjson.Get(stdout, "rows").Int(), stdout)
	require.Greater(t, len(keys), len(lines(t, filepath.Join("run", "rollouts.jsonl"))))
}
