package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"

	"github.com/hermes-env/hermes-env/env/atropos"
	"github.com/hermes-env/hermes-env/env/atropos/client"
	"github.com/hermes-env/hermes-env/internal/slowtest"
)

// running is a program that was started and may be killed.
type running struct {
	t        testing.TB
	cmd      *exec.Cmd
	out, err written
	ended    chan struct{}
	failed   error
}

func start(t testing.TB, dir string, env []string, name string, args ...string) *running {
	t.Helper()
	r := prepare(t, dir, env, name, args...)
	r.start()
	return r
}

// prepare returns a program that is not started yet.
func prepare(t testing.TB, dir string, env []string, name string, args ...string) *running {
	r := &running{t: t, cmd: exec.Command(name, args...), ended: make(chan struct{})}
	r.cmd.Dir, r.cmd.Env = dir, append(os.Environ(), env...)
	r.cmd.Stdout, r.cmd.Stderr = &r.out, &r.err
	return r
}

func (r *running) start() {
	r.t.Helper()
	require.NoError(r.t, r.cmd.Start())
	go func() {
		defer close(r.ended)
		r.failed = r.cmd.Wait()
	}()
	r.t.Cleanup(r.kill)
}

// kill ends the program as SIGKILL does; one that has ended stays as it is.
func (r *running) kill() {
	_ = r.cmd.Process.Kill() // it may have ended
	<-r.ended
}

// wait returns the exit status.
func (r *running) wait() int {
	r.t.Helper()
	select {
	case <-r.ended:
	case <-time.After(2 * time.Minute):
		r.kill()
		require.Fail(r.t, "it did not end", "%s\n%s", r.out.String(), r.err.String())
	}
	var exit *exec.ExitError
	if errors.As(r.failed, &exit) {
		return exit.ExitCode()
	}
	require.NoError(r.t, r.failed)
	return 0
}

// says waits until the program has written something to its standard error.
func (r *running) says(text string) {
	r.t.Helper()
	require.Eventually(r.t, func() bool { return strings.Contains(r.err.String(), text) }, time.Minute, 5*time.Millisecond, "it says %q", text)
}

// toyTrainer starts the example trainer.
func toyTrainer(t *testing.T, dir, url string, args ...string) *running {
	t.Helper()
	return start(t, dir, nil, python(t), append([]string{toyTrainerPath(t), "--server", url, "--poll", "0.05"}, args...)...)
}

// toyTrainerPath must be called in the directory of the package.
func toyTrainerPath(t *testing.T) string {
	t.Helper()
	path, err := filepath.Abs("../../docs/examples/toytrainer/toy_trainer.py")
	require.NoError(t, err)
	return path
}

func python(t *testing.T) string {
	t.Helper()
	slowtest.Require(t)
	path, err := exec.LookPath("python3")
	if err != nil && os.Getenv("HERMES_ENV_REQUIRE_PYTHON") == "" {
		t.Skip("python3 is not installed")
	}
	require.NoError(t, err, "HERMES_ENV_REQUIRE_PYTHON is set")
	return path
}

// apiProcess starts `api` as a process, on a port, 0 for a free one.
func apiProcess(t testing.TB, dir, port string, args ...string) (r *running, url string) {
	t.Helper()
	binary, err := os.Executable()
	require.NoError(t, err)
	r = start(t, dir, []string{asProgram + "=1"}, binary, append([]string{"api", "--port", port}, args...)...)
	address := regexp.MustCompile(`listening on (http://127\.0\.0\.1:\d+)`)
	require.Eventually(t, func() bool {
		select {
		case <-r.ended:
			return true
		default:
			return address.MatchString(r.err.String())
		}
	}, time.Minute, time.Millisecond)
	found := address.FindStringSubmatch(r.err.String())
	require.NotNil(t, found, "the server says where it listens: %s", r.err.String())
	return r, found[1]
}

func portOf(url string) string { return url[strings.LastIndexByte(url, ':')+1:] }

// toyGroup is a group of two sequences as a worker sends it; the tag is its first token.
func toyGroup(t *testing.T, tag int64) []byte {
	t.Helper()
	body, err := atropos.AppendGroup(nil, &atropos.Group{
		Tokens: [][]int64{{tag, 5, 6, 7}, {tag, 5, 9}}, Masks: [][]int64{{-100, -100, 6, 7}, {-100, -100, 9}}, Scores: []float64{1, 0},
		InferenceLogprobs: [][]float64{{1, 1, -0.25, -0.5}, {1, 1, 0}},
		Messages:          [][]json.RawMessage{{json.RawMessage(`{"role":"user","content":"é"}`)}, {json.RawMessage(`{"role":"user","content":null}`)}},
		GroupOverrides:    json.RawMessage(`{}`), Overrides: []json.RawMessage{}, Images: json.RawMessage(`[]`), Advantages: [][]float64{},
	})
	require.NoError(t, err)
	return body
}

func postToy(t *testing.T, url string, tags ...int64) {
	t.Helper()
	api, err := client.New(client.Config{URL: url})
	require.NoError(t, err)
	defer api.CloseIdle()
	for _, tag := range tags {
		_, err := api.Send(context.Background(), client.Post{Body: toyGroup(t, tag), Key: fmt.Sprint("toy-", tag)})
		require.NoError(t, err)
	}
}

// recordedTags lists the first tokens of the groups in a file that the trainer wrote.
func recordedTags(t *testing.T, path string) []int64 {
	t.Helper()
	var tags []int64
	for _, line := range lines(t, path) {
		require.True(t, gjson.Valid(line), line)
		tags = append(tags, gjson.Get(line, "tokens.0.0").Int())
	}
	return tags
}

func TestTheToyTrainerUsesWhatIsPostedAndSaysWhatItDid(t *testing.T) {
	dir := t.TempDir()
	_, url := apiProcess(t, dir, "0")
	trainer := toyTrainer(t, dir, url, "--batch-size", "4", "--steps", "2", "--vocab-size", "100", "--record", "used.jsonl")
	trainer.says("registered at " + url + ": batches of 4 sequences, at most 4096 tokens each")
	trainer.says("no batch yet: 0 of 4 sequences are there, 0 workers")
	postToy(t, url, 11, 12, 13, 14)
	require.Equal(t, 0, trainer.wait(), trainer.err.String())
	require.Regexp(t, `(?m)^ +1 +[0-9a-f]{12}-1 +2 +4 +14 +6 +0\.500 +0\.2500 +\d+\.\d{3}$`, trainer.out.String())
	require.Regexp(t, `(?m)^2 steps, the last after \S+ s: 8 sequences, 28 tokens, 12 of them trained on\nids, masks, `, trainer.out.String())
	var want bytes.Buffer
	for tag := range int64(4) {
		want.Write(append(toyGroup(t, 11+tag), '\n'))
	}
	recorded, err := os.ReadFile(filepath.Join(dir, "used.jsonl"))
	require.NoError(t, err)
	require.Equal(t, want.String(), string(recorded), "the groups come as they were posted")

	again := toyTrainer(t, dir, url, "--record", "used.jsonl")
	require.Equal(t, 2, again.wait())
	require.Contains(t, again.err.String(), "name another file with --record")
}

func TestTheToyTrainerOutlivesServersAndItself(t *testing.T) {
	dir := t.TempDir()
	free := httptest.NewServer(http.NotFoundHandler())
	url := strings.Replace(free.URL, "localhost", "127.0.0.1", 1)
	free.Close() // its port is free now, and nobody listens
	args := []string{"--batch-size", "2", "--steps", "6", "--state", "trainer.json", "--record", "used.jsonl", "--json"}
	trainer := toyTrainer(t, dir, url, args...)
	trainer.says("does not answer (Connection refused): waiting for it")
	server, _ := apiProcess(t, dir, portOf(url), "--state-dir", "state")
	trainer.says("the server is back after")
	postToy(t, url, 1)
	steps := func(r *running, n int) {
		t.Helper()
		require.Eventually(t, func() bool { return strings.Count(r.out.String(), `{"step"`) == n }, time.Minute, time.Millisecond, "%d steps are done", n)
	}
	steps(trainer, 1)
	server.kill()
	server, _ = apiProcess(t, dir, portOf(url), "--state-dir", "state")
	postToy(t, url, 2)
	steps(trainer, 2)

	trainer.kill()
	postToy(t, url, 3)
	trainer = toyTrainer(t, dir, url, args...)
	trainer.says("going on after step 2, from trainer.json")
	steps(trainer, 1)
	require.Equal(t, int64(3), gjson.Get(trainer.out.String(), "step").Int())
	api, err := client.New(client.Config{URL: url})
	require.NoError(t, err)
	status, err := api.Status(context.Background())
	require.NoError(t, err)
	require.Equal(t, int64(3), status.CurrentStep, "the trainer that came back changed nothing")

	server.kill()
	server, _ = apiProcess(t, dir, portOf(url), "--state-dir", "another")
	trainer.says("the server has forgotten this trainer: registering again")
	postToy(t, url, 4, 5, 6)
	require.Equal(t, 0, trainer.wait(), trainer.err.String())
	require.Equal(t, []int64{1, 2, 3, 4, 5, 6}, recordedTags(t, filepath.Join(dir, "used.jsonl")))
	status, err = api.Status(context.Background())
	require.NoError(t, err)
	require.Equal(t, int64(6), status.CurrentStep, "a server that knew nothing begins where the trainer is")
	overview, err := api.Overview(context.Background())
	require.NoError(t, err)
	require.Zero(t, overview.Undelivered.Groups, "the last batch was acknowledged, too")
	server.kill()

	gone := toyTrainer(t, dir, url, "--give-up", "0.2")
	require.Equal(t, 3, gone.wait())
	require.Contains(t, gone.err.String(), "gave up: "+url+" was away for")
}

func TestTheToyTrainerIsToldWhatItDidWrong(t *testing.T) {
	path := toyTrainerPath(t)
	p := newProgram(t)
	p.env["TOKEN"] = "secret"
	dir := p.dir
	url, stop := serveAPI(t, p, "--state-dir=", "--token-env", "TOKEN")
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"--server", url}, 2, "--token-env"},
		{[]string{"--server", url, "--token-env", "NOT_SET_ANYWHERE"}, 2, "the environment variable is not set"},
		{[]string{"--server", "localhost:8000"}, 2, "want something like http://localhost:8000"},
		{[]string{"--steps", "0"}, 2, "must be positive"},
		{[]string{"--server", url + "/nowhere", "--token-env", "TOKEN"}, 2, "is " + url + "/nowhere a trajectory API server?"},
	} {
		r := start(t, dir, []string{"TOKEN=secret"}, python(t), append([]string{path}, c.args...)...)
		require.Equal(t, c.code, r.wait(), c.args)
		require.Contains(t, r.err.String(), c.want)
		require.NotContains(t, r.err.String(), "Traceback")
	}
	stop()
}

// TestTheToyTrainerFindsEveryFault delivers batches with one thing wrong in each.
func TestTheToyTrainerFindsEveryFault(t *testing.T) {
	sound := `{"batch":[` + string(toyGroup(t, 1)) + `]}`
	set := func(path, value string) string {
		changed, err := sjson.SetRaw(sound, "batch.0."+path, value)
		require.NoError(t, err)
		return changed
	}
	for name, c := range map[string]struct{ body, want string }{
		"a mask of another token":       {set("masks.0.2", "7"), "group 1 of 1 (env_id None): sequence 0: masks[2] is 7, neither -100 nor the token 6"},
		"a mask of ones":                {set("masks.1.2", "1"), "sequence 1: masks[2] is 1, neither -100 nor the token 9"},
		"a mask too short":              {set("masks.1", "[-100,-100]"), "sequence 1: masks has 2 values for 3 tokens"},
		"a fraction as token":           {set("tokens.0.1", "5.0"), "sequence 0: tokens[1] is 5.0, which is no token id"},
		"a negative token":              {set("tokens.0.1", "-1"), "tokens[1] is -1, which is no token id"},
		"a token beyond the vocabulary": {set("tokens.0.1", "100"), "tokens[1] is 100, and the vocabulary has 100"},
		"no tokens":                     {set("tokens.1", "[]"), "sequence 1 has no tokens"},
		"too many tokens":               {set("tokens.1", "[1,2,3,4,5]"), "sequence 1 has 5 tokens, and this trainer registered for 4 at most"},
		"a placeholder where sampled":   {set("inference_logprobs.0.2", "1.0"), "inference_logprobs[2] is 1.0, which is no log-probability of the token 6"},
		"a log-probability in a prompt": {set("inference_logprobs.0.1", "-0.5"), "inference_logprobs[1] is -0.5 where the mask is -100: want 1.0"},
		"log-probabilities shifted":     {set("inference_logprobs.0", "[1,-0.25,-0.5,1]"), "inference_logprobs[1] is -0.25 where the mask is -100"},
		"log-probabilities too short":   {set("inference_logprobs.1", "[1,1]"), "inference_logprobs has 2 values for 3 tokens"},
		"no log-probabilities":          {set("inference_logprobs", "null"), "it has no inference_logprobs"},
		"a missing score":               {set("scores", "[1]"), "it has not one score per sequence"},
		"a score that is no number":     {set("scores.0", `"1"`), "the score of sequence 0 is '1'"},
		"NaN":                           {set("scores.0", "NaN"), "it holds the word NaN"},
		"advantages too short":          {set("advantages", "[[1],[1,1,1]]"), "sequence 0: advantages has 1 values for 4 tokens"},
		"half a distillation":           {set("distill_token_ids", "[[[],[],[],[]],[[],[],[]]]"), "only one of distill_token_ids and distill_logprobs"},
		"a message without content":     {set("messages.0.0", `{"role":"user"}`), "sequence 0: message 0 has no role or content"},
		"an override too few":           {set("overrides", `[{}]`), "it has not one element of overrides per sequence"},
		"another group size":            {set("group_overrides", `{"group_size":3}`), "group_overrides.group_size is 3 and it has 2 sequences"},
		"placeholders":                  {set("group_overrides", `{"placeholder_tokens":true}`), "its tokens are counting numbers"},
		"a missing key":                 {strings.Replace(sound, `"images":[],`, "", 1), "its keys are tokens, masks"},
		"more than a batch":             {`{"batch":[` + string(toyGroup(t, 1)) + `,` + string(toyGroup(t, 2)) + `]}`, "the batch has 4 sequences, and this trainer registered for 2"},
		"an empty batch":                {`{"batch":[]}`, "the batch is []"},
		"no batch":                      {`{"groups":[]}`, "the reply to /batch has no batch"},
		"half a batch":                  {sound[:len(sound)-5], "the reply to /batch is no JSON"},
		"another step":                  {sound, "the server is at step 0, and this trainer has used 1 batches"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				replies := map[string]string{"/info": `{"batch_size":2,"max_token_len":4}`, "/register": `{"uuid":1}`, "/status": `{"current_step":0,"queue_size":0}`, "/batch": c.body}
				w.Header().Set("X-Batch-Id", "x-1")
				_, _ = w.Write([]byte(replies[r.URL.Path]))
			}))
			defer web.Close()
			r := toyTrainer(t, t.TempDir(), web.URL, "--batch-size", "2", "--max-token-len", "4", "--vocab-size", "100", "--state", "state.json")
			require.Equal(t, 1, r.wait(), r.err.String())
			require.Contains(t, r.err.String(), "WRONG DATA: ")
			require.Contains(t, r.err.String(), c.want)
			require.NotContains(t, r.err.String(), "Traceback")
		})
	}
}

func TestTheBenchmarkOfServersMeasures(t *testing.T) {
	path, err := filepath.Abs("../../docs/examples/apibench/api_bench.py")
	require.NoError(t, err)
	dir := t.TempDir()
	_, url := apiProcess(t, dir, "0", "--state-dir", "state")
	r := start(t, dir, nil, python(t), path, url, "--tokens", "50", "--rounds", "1")
	require.Equal(t, 0, r.wait(), r.err.String())
	require.Regexp(t, `a post \S+ s · a batch of 256, packed, \S+ s · the longest /status beside it \S+ s\n`, r.out.String())
	require.Regexp(t, `a batch of 256, not packed, `, r.out.String())
	none := start(t, dir, nil, python(t), path)
	require.Equal(t, 2, none.wait())
}
