package cli_test

import (
	"context"
	"os"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"github.com/hermes-env/hermes-env/benchmarks"
	"github.com/hermes-env/hermes-env/env/atropos"
	"github.com/hermes-env/hermes-env/env/atropos/client"
	"github.com/hermes-env/hermes-env/env/cli"
)

// written is a place to write to that others read from meanwhile.
type written struct {
	mu   sync.Mutex
	text strings.Builder
}

func (w *written) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.Write(b)
}

func (w *written) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.String()
}

// serveAPI runs `api` until stop is called, and returns where it listens.
func serveAPI(t *testing.T, p *program, args ...string) (url string, stop func() string) {
	t.Helper()
	var errs written
	ctx, cancel := context.WithCancel(context.Background())
	code := make(chan int, 1)
	go func() {
		app := cli.App{Environments: benchmarks.All(), Stdout: &errs, Stderr: &errs, Signals: p.signals,
			Getenv: func(name string) (string, bool) { v, ok := p.env[name]; return v, ok }}
		code <- app.Run(ctx, append([]string{"api", "--port", "0"}, args...))
	}()
	address := regexp.MustCompile(`listening on (http://127\.0\.0\.1:\d+)`)
	require.Eventually(t, func() bool { return address.MatchString(errs.String()) }, 20*time.Second, time.Millisecond, "the server says where it listens")
	t.Cleanup(cancel)
	return address.FindStringSubmatch(errs.String())[1], func() string {
		p.signals <- syscall.SIGTERM
		require.Equal(t, cli.ExitOK, <-code, errs.String())
		return errs.String()
	}
}

func TestTheAPIServerKeepsItsStateAndShowsIt(t *testing.T) {
	p := newProgram(t)
	p.env["TOKEN"] = "secret"
	url, stop := serveAPI(t, p, "--state-dir", "state", "--token-env", "TOKEN")
	api, err := client.New(client.Config{URL: url, Token: "secret"})
	require.NoError(t, err)
	ctx := context.Background()
	_, err = api.Register(ctx, atropos.Registration{BatchSize: 4, MaxTokenLen: 10, NumSteps: 7})
	require.NoError(t, err)
	_, err = api.Batch(ctx, client.BatchOptions{})
	require.NoError(t, err)
	_, err = api.RegisterEnv(ctx, atropos.EnvRegistration{DesiredName: "toy", GroupSize: 1, Weight: 1, MaxTokenLength: 5})
	require.NoError(t, err)
	_, err = api.Send(ctx, client.Post{Body: []byte(`{"tokens":[[1,2]],"masks":[[1,2]],"scores":[1],"env_id":0}`)})
	require.NoError(t, err)

	q := &program{t: t, env: p.env}
	code, _, errs := q.run("api", "status", "--url", url)
	require.Equal(t, cli.ExitUsage, code)
	require.Contains(t, errs, "--token-env")
	code, out, errs := q.run("api", "status", "--url", url, "--token-env", "TOKEN")
	require.Equal(t, cli.ExitOK, code, errs)
	require.Contains(t, out, "trainer     step 0 of 7 · batches of 4, at most 10 tokens\n")
	require.Regexp(t, `next batch  \[#####\.{15}\] 1 of 4 sequences · full in [\dms ]+ at this rate\n`, out)
	require.Regexp(t, `queue       1 group · 1 sequence · 2 tokens · \d+ bytes\n`, out)
	require.Regexp(t, `toy_0 +0 +alive +1 +1 +- +1 +0 +1\n`, out)
	code, _, errs = q.run("api", "--port", "0", "--state-dir", "state")
	require.Equal(t, cli.ExitStore, code)
	require.Contains(t, errs, "another process uses the state directory")
	require.Contains(t, stop(), "start it again with the same --state-dir to go on")

	url, stop = serveAPI(t, p, "--state-dir", "state")
	code, out, errs = q.run("api", "status", "--url", url, "--json")
	require.Equal(t, cli.ExitOK, code, errs)
	require.Equal(t, int64(1), gjson.Get(out, "queue.groups").Int())
	require.Contains(t, stop(), "step 0, 1 groups (1 sequences), 1 workers")
}

func TestAnAPIServerThatWouldBeOpenToOthersIsRefused(t *testing.T) {
	p := newProgram(t)
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--host", "0.0.0.0"}, "name a token with --token-env"},
		{[]string{"--token-env", "MISSING"}, "--token-env MISSING: the environment variable is not set"},
		{[]string{"--port", "70000"}, "ports are 0 to 65535"},
		{[]string{"--max-sequences", "0"}, "the limit must be positive"},
		{[]string{"--delivery", "random"}, "oldest"},
		{[]string{"--host", "no.such.host.invalid", "--allow-anonymous"}, "listen on no.such.host.invalid"},
		{[]string{"status", "--url", "http://127.0.0.1:1"}, "connection refused"},
		{[]string{"status", "--every", "0s"}, "--every"},
	} {
		code, _, errs := p.run(append([]string{"api"}, c.args...)...)
		require.Equal(t, cli.ExitUsage, code, c.args)
		require.Contains(t, errs, c.want)
	}
}

// A watch that is piped writes a line per look, and says once that nobody answers.
func TestAWatchOutlivesTheServer(t *testing.T) {
	dir := t.TempDir()
	server, url := apiProcess(t, dir, "0", "--state-dir=")
	binary, err := os.Executable()
	require.NoError(t, err)
	watch := start(t, dir, []string{asProgram + "=1"}, binary, "api", "status", "--watch", "--every", "10ms", "--url", url)
	looks := func() int { return strings.Count(watch.out.String(), " step 0 · queue 0 groups, 0 sequences · ") }
	require.Eventually(t, func() bool { return looks() > 2 }, time.Minute, time.Millisecond)
	server.kill()
	watch.says("no answer: ")
	before := looks()
	apiProcess(t, dir, portOf(url), "--state-dir=")
	watch.says("it answers again")
	require.Eventually(t, func() bool { return looks() > before }, time.Minute, time.Millisecond)
	require.NoError(t, watch.cmd.Process.Signal(os.Interrupt))
	require.Equal(t, 0, watch.wait())
	require.NotContains(t, watch.out.String(), "\x1b")
	require.LessOrEqual(t, strings.Count(watch.err.String(), "no answer"), 5, "what stays the same is not repeated")
}
