package cli_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"github.com/hermes-env/hermes-env/agentloop/model/modeltest"
	"github.com/hermes-env/hermes-env/env/atropos"
	"github.com/hermes-env/hermes-env/env/atropos/client"
	"github.com/hermes-env/hermes-env/env/atropos/server"
	"github.com/hermes-env/hermes-env/env/cli"
	"github.com/hermes-env/hermes-env/internal/slowtest"
)

const serveQuickstart = `
environment: terminal-test
env: {group_size: 4, max_num_workers: 2, max_agent_turns: 10, steps_per_eval: 2, enabled_toolsets: [terminal, file, todo], interrupt_grace: 2}
openai: {base_url: "replay:", model_name: replay, server_type: generate}
`

// freeAddress is one that nobody listens at.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return "http://" + l.Addr().String()
}

// train is a trainer that takes a number of batches, each acknowledged, and returns
// the groups in them. It waits for the server and survives its absence.
func train(t *testing.T, url string, batches int, change ...func(*atropos.Registration)) []string {
	t.Helper()
	return trainWith(t, client.Config{URL: url}, batches, change...)
}

// trainWith is train with a client of its own.
func trainWith(t *testing.T, config client.Config, batches int, change ...func(*atropos.Registration)) []string {
	t.Helper()
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	config.HTTP = &http.Client{Transport: transport}
	c, err := client.New(config)
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	r := atropos.Registration{WandbGroup: "g", WandbProject: "p", BatchSize: 8, MaxTokenLen: 4096, CheckpointDir: "c", SaveCheckpointInterval: 10, NumSteps: int64(batches)}
	for _, f := range change {
		f(&r)
	}
	pause := func() {
		require.NoError(t, ctx.Err(), "the trainer gets no more batches")
		time.Sleep(5 * time.Millisecond)
	}
	for {
		if _, err = c.Register(ctx, r); err == nil {
			break
		}
		pause()
	}
	var groups []string
	last := ""
	for taken := 0; taken < batches; {
		b, err := c.Batch(ctx, client.BatchOptions{Acknowledge: true, Last: last})
		if err != nil || b == nil {
			pause()
			continue
		}
		taken++
		last = b.ID
		for _, g := range b.Groups {
			groups = append(groups, string(g))
		}
	}
	for c.Ack(ctx, last) != nil {
		pause()
	}
	return groups
}

func TestAWorkerWithItsOwnServerTrainsATrainer(t *testing.T) {
	p := newProgram(t)
	p.write("serve.yaml", serveQuickstart)
	url := freeAddress(t)
	trained := make(chan []string, 1)
	go func() { trained <- train(t, url, 5) }()
	code, stdout, stderr := p.run("serve", "--config", "serve.yaml", "--embedded-api", "--env.rollout_server_url", url, "--run-dir", "run",
		"--env.data_path_to_save_groups", "groups.jsonl", "--env.include_messages")
	require.Equal(t, cli.ExitOK, code, stderr)
	require.Contains(t, stderr, "registered as terminal-test_0 with "+url+": step 0 of 5, batches of 8 sequences")
	require.Contains(t, stderr, "the trainer has all its steps")
	require.Contains(t, stdout, "terminal-test · serve · replay")
	groups := <-trained
	require.Len(t, groups, 10)
	for _, g := range groups {
		root := gjson.Parse(g)
		require.Len(t, root.Get("tokens").Array(), 4)
		for i, tokens := range root.Get("tokens").Array() {
			masks, logprobs := root.Get("masks."+strconv.Itoa(i)).Array(), root.Get("inference_logprobs."+strconv.Itoa(i)).Array()
			text, trained := []byte{}, 0
			for at, id := range tokens.Array() {
				if id.Int() < 256 {
					text = append(text, byte(id.Int()))
				}
				if masks[at].Int() == -100 {
					require.InDelta(t, 1, logprobs[at].Float(), 0)
					continue
				}
				trained++
				require.Equal(t, id.Int(), masks[at].Int())
				require.InDelta(t, 0, logprobs[at].Float(), 0, "a replay is certain")
			}
			require.Positive(t, trained)
			require.Contains(t, string(text), root.Get("messages."+strconv.Itoa(i)+".0.content").String(), "the tokens are the conversation")
		}
	}
	require.GreaterOrEqual(t, len(lines(t, "groups.jsonl")), 10)
	evaluations, err := filepath.Glob("run/evaluations/step-*/metrics.json")
	require.NoError(t, err)
	require.NotEmpty(t, evaluations, "it evaluates after two steps")
	figures := lines(t, "run/metrics.jsonl")
	require.Contains(t, strings.Join(figures, "\n"), `"terminal-test_0_train/items_sent_to_api"`)
	require.EqualValues(t, 10, gjson.Get(figures[len(figures)-1], "train/groups_kept").Int())
	run, err := os.ReadFile("run/run.json")
	require.NoError(t, err)
	require.Equal(t, "serve", gjson.GetBytes(run, "command").String())
	require.Equal(t, "done", gjson.GetBytes(run, "status").String())
}

// One command starts a worker and takes it up again.
func TestAWorkerThatWasStoppedGoesOnWithTheSameCommand(t *testing.T) {
	slowtest.Require(t)
	p := newProgram(t)
	p.write("serve.yaml", serveQuickstart)
	api := startServer(t)
	args := []string{"serve", "--config", "serve.yaml", "--env.rollout_server_url", api, "--run-dir", "run", "--resume", "--env.steps_per_eval=0"}
	trained := make(chan []string, 1)
	go func() {
		groups := train(t, api, 3, func(r *atropos.Registration) { r.NumSteps = 6 })
		p.signals <- os.Interrupt
		trained <- groups
	}()
	code, _, stderr := p.run(args...)
	require.Equal(t, cli.ExitInterrupted, code, stderr)
	require.Contains(t, stderr, "--run-dir run --resume")
	first := <-trained
	done := len(lines(t, "run/rollouts.jsonl"))

	go func() { trained <- train(t, api, 3, func(r *atropos.Registration) { r.NumSteps = 6 }) }()
	code, stdout, stderr := p.run(args...)
	require.Equal(t, cli.ExitOK, code, stderr)
	require.Contains(t, stderr, "registered as terminal-test_1", "it had said goodbye")
	require.Len(t, append(first, <-trained...), 12)
	require.Greater(t, len(lines(t, "run/rollouts.jsonl")), done-1)
	require.Contains(t, stdout, "groups")

	code, _, stderr = p.run(args[:len(args)-2]...)
	require.Equal(t, cli.ExitUsage, code)
	require.Contains(t, stderr, "add --resume to go on with it", "nothing is taken up silently")
}

func TestServe_ResumeTakesUpFlagsBesideTheConfiguration(t *testing.T) {
	p := newProgram(t)
	p.write("serve.yaml", serveQuickstart)
	p.env["TOKEN"] = "secret"
	url := freeAddress(t)
	steps := func(r *atropos.Registration) { r.NumSteps = 2 }
	trained := make(chan []string, 1)
	go func() {
		groups := trainWith(t, client.Config{URL: url, Token: "secret"}, 1, steps)
		p.signals <- os.Interrupt
		trained <- groups
	}()
	code, _, stderr := p.run("serve", "--config", "serve.yaml", "--env.rollout_server_url", url, "--run-dir", "run", "--env.steps_per_eval=0",
		"--embedded-api", "--api-state-dir", "state", "--token-env", "TOKEN")
	require.Equal(t, cli.ExitInterrupted, code, stderr)
	require.Contains(t, stderr, "--embedded-api --api-state-dir=state --token-env=TOKEN --run-dir run --resume")
	<-trained

	go func() { trained <- trainWith(t, client.Config{URL: url, Token: "secret"}, 1, steps) }()
	code, _, stderr = p.run("serve", "--resume", "run")
	require.Equal(t, cli.ExitOK, code, stderr)
	require.Contains(t, stderr, "the trainer has all its steps")
	<-trained
	require.NoDirExists(t, "run/api", "the state directory is the one of the first session")

	code, _, stderr = p.run("serve", "--resume", "run", "--embedded-api=false", "--api-state-dir", "state")
	require.Equal(t, cli.ExitUsage, code)
	require.Contains(t, stderr, "--api-state-dir is about the server of --embedded-api")
}

// startServer runs an API server for a test.
func startServer(t *testing.T) string {
	t.Helper()
	s, err := server.New(server.Config{Dir: t.TempDir(), NoSync: true, MinFree: -1})
	require.NoError(t, err)
	web := httptest.NewServer(s.Handler())
	t.Cleanup(func() {
		web.CloseClientConnections()
		web.Close()
		require.NoError(t, s.Close())
	})
	return web.URL
}

func TestADatasetBeginsAnewWhenItIsThrough(t *testing.T) {
	p := newProgram(t)
	folder := modelFolder(t)
	model := modeltest.NewTokenServer(t, modeltest.TokenConfig{API: modeltest.SGLang, Dir: folder, Script: func(r *modeltest.TokenRequest) modeltest.TokenReply {
		return modeltest.Sample(strconv.Itoa(r.Number % 2))
	}})
	p.write("questions.jsonl", `{"question":"1?","answer":"1"}`+"\n"+`{"question":"one?","answer":"1"}`+"\n")
	p.write("serve.yaml", `
environment: prompts
env:
  dataset_name: questions.jsonl
  prompt_template: "{{question}}"
  reward: {type: exact, reference_field: answer}
  group_size: 2
  max_num_workers: 1
  ensure_scores_are_not_same: false
  steps_per_eval: 0
  enabled_toolsets: []
  wandb_name: anew
`)
	api := startServer(t)
	trained := make(chan []string, 1)
	go func() { trained <- train(t, api, 3, func(r *atropos.Registration) { r.BatchSize = 4 }) }()
	code, _, stderr := p.run("serve", "--config", "serve.yaml", "--env.rollout_server_url", api, "--run-dir", "run",
		"--openai.base_url", model.URL, "--openai.model_name", "mock", "--openai.server_type", "sglang", "--openai.tokenizer_name", folder)
	require.Equal(t, cli.ExitOK, code, stderr)
	require.Contains(t, stderr, "registered as anew_0")
	require.Len(t, <-trained, 6, "three times the two rows")
	ids := map[string]bool{}
	for _, line := range lines(t, "run/rollouts.jsonl") {
		ids[gjson.Get(line, "item_id").String()] = true
	}
	require.GreaterOrEqual(t, len(ids), 6, "rows have ids of their own in each pass")
}

func TestAWorkerRefusesWhatCanNotWork(t *testing.T) {
	p := newProgram(t)
	p.write("serve.yaml", serveQuickstart)
	p.env["TOKEN"] = "secret"
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	guarded := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, `{"detail":"a token is needed"}`, http.StatusUnauthorized)
	}))
	defer guarded.Close()
	for name, c := range map[string]struct {
		args []string
		code int
		want string
	}{
		"a server without tokens":         {[]string{"--openai.server_type=openai"}, cli.ExitUsage, "servers of the type openai report none: use a server of the type vllm, sglang or generate (openai.server_type)"},
		"the replay without tokens":       {[]string{"--openai.server_type=vllm"}, cli.ExitUsage, "env.allow_placeholder_tokens"},
		"an agent without tokens":         {[]string{"--agent", "oracle"}, cli.ExitUsage, "agent oracle samples none"},
		"an address that is none":         {[]string{"--env.rollout_server_url", "localhost:8000"}, cli.ExitUsage, "want something like http://localhost:8000"},
		"a server here, elsewhere":        {[]string{"--embedded-api", "--env.rollout_server_url", "http://example.com:8000"}, cli.ExitUsage, "--embedded-api serves this machine only"},
		"a server here, by another way":   {[]string{"--embedded-api", "--env.rollout_server_url", "https://localhost:8000"}, cli.ExitUsage, "--embedded-api serves http without a path"},
		"a port that is taken":            {[]string{"--embedded-api", "--env.rollout_server_url", "http://" + taken.Addr().String()}, cli.ExitUsage, "leave --embedded-api out to use it"},
		"a state directory of no server":  {[]string{"--api-state-dir", "x"}, cli.ExitUsage, "--api-state-dir is about the server of --embedded-api"},
		"a token that is not there":       {[]string{"--token-env", "NOWHERE"}, cli.ExitUsage, "--token-env NOWHERE: the environment variable is not set"},
		"a token that is not asked for":   {[]string{"--env.rollout_server_url", guarded.URL}, cli.ExitUsage, "the API server refuses this worker"},
		"a token that is wrong":           {[]string{"--env.rollout_server_url", guarded.URL, "--token-env", "TOKEN"}, cli.ExitUsage, "the API server refuses this worker"},
		"groups that are all left out":    {[]string{"--env.group_size=1"}, cli.ExitUsage, "with group_size 1"},
		"no batch to be behind by":        {[]string{"--env.max_batches_offpolicy=0"}, cli.ExitUsage, "max_batches_offpolicy"},
		"a share that is none":            {[]string{"--env.min_batch_allocation=1.5"}, cli.ExitUsage, "min_batch_allocation"},
		"a word for evaluations":          {[]string{"--env.eval_handling=stop"}, cli.ExitUsage, "STOP_TRAIN"},
		"a resume of nothing named":       {[]string{"--resume"}, cli.ExitUsage, "--run-dir"},
		"outcomes without a resume":       {[]string{"--retry-outcome", "model_error"}, cli.ExitUsage, "add --resume and --run-dir"},
		"changes without a resume":        {[]string{"--allow-config-change"}, cli.ExitUsage, "add --resume and --run-dir"},
		"a tokenizer that is not there":   {[]string{"--openai.base_url=http://127.0.0.1:9/v1", "--openai.health_check=false", "--openai.tokenizer_name=./nowhere"}, cli.ExitUsage, "./nowhere is no folder"},
		"a replay without a conversation": {[]string{"--openai.base_url=replay:nowhere.yaml"}, cli.ExitUsage, "read the replay script"},
	} {
		t.Run(name, func(t *testing.T) {
			args := append([]string{"serve", "--config", "serve.yaml", "--env.rollout_server_url", "http://127.0.0.1:9"}, c.args...)
			code, _, stderr := p.run(args...)
			require.Equal(t, c.code, code, stderr)
			require.Contains(t, stderr, c.want)
		})
	}
}

func TestADryRunSaysWhatAWorkerWouldDo(t *testing.T) {
	p := newProgram(t)
	p.write("serve.yaml", serveQuickstart)
	code, stdout, stderr := p.run("serve", "--config", "serve.yaml", "--dry-run")
	require.Equal(t, cli.ExitOK, code, stderr)
	require.Contains(t, stdout, "would serve terminal-test")
	require.Contains(t, stdout, "groups of 4 rollouts for the trainer at http://localhost:8000")
	_, err := os.Stat("runs")
	require.True(t, errors.Is(err, os.ErrNotExist))
}

func TestAWorkerTellsMachinesHowItStands(t *testing.T) {
	p := newProgram(t)
	p.write("serve.yaml", serveQuickstart)
	api := startServer(t)
	go func() { train(t, api, 2) }()
	code, stdout, stderr := p.run("serve", "--config", "serve.yaml", "--env.rollout_server_url", api, "--run-dir", "run", "--json", "--env.steps_per_eval=0")
	require.Equal(t, cli.ExitOK, code, stderr)
	events := map[string]int{}
	for line := range strings.SplitSeq(strings.TrimSpace(stdout), "\n") {
		require.True(t, gjson.Valid(line), line)
		events[gjson.Get(line, "event").String()]++
	}
	require.GreaterOrEqual(t, events["group"], 4)
	require.GreaterOrEqual(t, events["rollout"], 16)
	require.Equal(t, 1, events["summary"])
}
