package agentloop_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/agentloop"
	"github.com/hermes-env/hermes-env/agentloop/chat"
	"github.com/hermes-env/hermes-env/agentloop/model"
	"github.com/hermes-env/hermes-env/agentloop/model/modeltest"
	"github.com/hermes-env/hermes-env/env"
	"github.com/hermes-env/hermes-env/env/config"
	"github.com/hermes-env/hermes-env/internal/gcpace"
	"github.com/hermes-env/hermes-env/toolcontext"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox/local"
	"github.com/hermes-env/hermes-env/toolcontext/tools"
	"github.com/hermes-env/hermes-env/trajectories"
)

// The benchmarks of this file measure whole rollouts (loop, client, runner and
// durable recording) against a mock model in a process of its own, so that what
// is measured is the harness alone. docs/performance.md shows how to run them.

const (
	turnsPerRollout = 10
	mockVariable    = "HERMES_ENV_BENCH_MOCK" // set: be the mock, with this latency
)

// serveMock turns the test binary into the mock model when it was started as one.
func serveMock() bool {
	latency, ok := os.LookupEnv(mockVariable)
	if !ok {
		return false
	}
	delay, err := time.ParseDuration(latency)
	if err != nil {
		panic(err)
	}
	replies := make([]modeltest.Reply, turnsPerRollout)
	for i := range replies {
		replies[i] = modeltest.Calls(chat.ToolCall{ID: fmt.Sprintf("call_%d", i), Name: "noop", Arguments: `{"path":"/tmp/x"}`})
	}
	replies[turnsPerRollout-1] = modeltest.Text("done")
	script := modeltest.Turns(replies...)
	if delay > 0 {
		script = modeltest.Delayed(script, func(*modeltest.Request) time.Duration { return delay })
	}
	server, err := modeltest.Start(modeltest.Config{Script: script})
	if err != nil {
		panic(err)
	}
	fmt.Println(server.URL)
	_, _ = io.Copy(io.Discard, os.Stdin) // until the parent closes it or dies
	server.Close()
	return true
}

func startMock(tb testing.TB, latency time.Duration) string {
	tb.Helper()
	binary, err := os.Executable()
	require.NoError(tb, err)
	cmd := exec.Command(binary)
	cmd.Env = append(os.Environ(), mockVariable+"="+latency.String())
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	require.NoError(tb, err)
	stdout, err := cmd.StdoutPipe()
	require.NoError(tb, err)
	require.NoError(tb, cmd.Start())
	tb.Cleanup(func() {
		_ = stdin.Close()
		_ = cmd.Wait()
	})
	url, err := bufio.NewReader(stdout).ReadString('\n')
	require.NoError(tb, err)
	return strings.TrimSpace(url)
}

func BenchmarkAgainstBareLoop(b *testing.B) { againstBareLoop(b, true) }

// BenchmarkAgainstBareLoopStoredFirst is the same for an environment whose verifier takes
// its time: each conversation is made durable before it is scored, and its record once more.
func BenchmarkAgainstBareLoopStoredFirst(b *testing.B) { againstBareLoop(b, false) }

func againstBareLoop(b *testing.B, instant bool) {
	url := startMock(b, 0)
	for _, concurrent := range []int{16, 256, 2048} {
		b.Run(fmt.Sprintf("rollouts=%d", concurrent), func(b *testing.B) {
			n := max(2*concurrent, 1000)
			var bare, ours, bareCPU, oursCPU time.Duration
			for b.Loop() {
				before := cpuTime()
				bare += bareRollouts(b, url, n, concurrent)
				between := cpuTime()
				ours += recordedRolloutsOf(b, url, &noopEnvironment{n: n, instant: instant}, concurrent)
				bareCPU += between - before
				oursCPU += cpuTime() - between
			}
			turns := float64(n * turnsPerRollout * b.N)
			b.ReportMetric(float64(bareCPU.Microseconds())/turns, "bare-cpu-µs/turn")
			b.ReportMetric(float64(oursCPU.Microseconds())/turns, "cpu-µs/turn")
			b.ReportMetric(turns/bare.Seconds(), "bare-turns/s")
			b.ReportMetric(turns/ours.Seconds(), "turns/s")
			b.ReportMetric(bare.Seconds()/ours.Seconds(), "ratio")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// bareRollouts is what somebody writes who needs no harness: a struct, Marshal,
// Post, Unmarshal, append. Nothing is recorded.
func bareRollouts(b *testing.B, url string, n, concurrent int) time.Duration {
	type function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	}
	type toolCall struct {
		ID       string   `json:"id"`
		Type     string   `json:"type"`
		Function function `json:"function"`
	}
	type message struct {
		Role       string     `json:"role"`
		Content    *string    `json:"content"`
		ToolCalls  []toolCall `json:"tool_calls,omitempty"`
		ToolCallID string     `json:"tool_call_id,omitempty"`
	}
	type request struct {
		Model    string          `json:"model"`
		Messages []message       `json:"messages"`
		Tools    json.RawMessage `json:"tools"`
	}
	type response struct {
		Choices []struct {
			Message message `json:"message"`
		} `json:"choices"`
	}
	transport := &http.Transport{MaxIdleConnsPerHost: concurrent, MaxConnsPerHost: concurrent}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	definitions := json.RawMessage(`[{"type":"function","function":{"name":"noop","description":"does nothing","parameters":{"type":"object","properties":{}}}}]`)
	one := func() error {
		prompt, result := "item", `{"ok":true}`
		messages := []message{{Role: "user", Content: &prompt}}
		for {
			body, err := json.Marshal(request{"mock", messages, definitions})
			if err != nil {
				return err
			}
			resp, err := client.Post(url+"/chat/completions", "application/json", bytes.NewReader(body))
			if err != nil {
				return err
			}
			answer, err := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			if err != nil {
				return err
			}
			var r response
			if err := json.Unmarshal(answer, &r); err != nil {
				return err
			}
			m := r.Choices[0].Message
			messages = append(messages, m)
			if len(m.ToolCalls) == 0 {
				return nil
			}
			for _, c := range m.ToolCalls {
				messages = append(messages, message{Role: "tool", Content: &result, ToolCallID: c.ID})
			}
		}
	}
	return inParallel(b, n, concurrent, one)
}

func inParallel(b testing.TB, n, concurrent int, do func() error) time.Duration {
	work := make(chan struct{})
	var wg sync.WaitGroup
	var failed sync.Once
	var failure error
	started := time.Now()
	for range concurrent {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for range work {
				if err := do(); err != nil {
					failed.Do(func() { failure = err })
				}
			}
		}()
	}
	for range n {
		work <- struct{}{}
	}
	close(work)
	wg.Wait()
	require.NoError(b, failure)
	return time.Since(started)
}

// noopEnvironment has n items and a tool that does nothing.
type noopEnvironment struct {
	n, next int
	instant bool // scores need no time
}

func (e *noopEnvironment) Name() string                { return "noop" }
func (e *noopEnvironment) Setup(context.Context) error { return nil }

func (e *noopEnvironment) NextItem(context.Context) (env.Item, error) {
	if e.next == e.n {
		return env.Item{}, io.EOF
	}
	e.next++
	return env.Item{ID: fmt.Sprintf("item-%d", e.next), Digest: "sha256:0"}, nil
}

func (e *noopEnvironment) FormatPrompt(env.Item) ([]chat.Message, error) {
	return []chat.Message{chat.User("item")}, nil
}

func (e *noopEnvironment) Reward(context.Context, env.Item, *agentloop.Result, *toolcontext.Context) (env.Score, error) {
	return env.Score{Value: 1}, nil
}

// ScoresInstantly says whether Reward asks nothing and starts nothing.
func (e *noopEnvironment) ScoresInstantly() bool { return e.instant }

func noopTool() tools.Tool {
	return tools.Tool{Name: "noop", Toolset: "noop", Description: "does nothing",
		Handler: func(context.Context, *tools.Call) (string, error) { return `{"ok":true}`, nil }}
}

// recordedRollouts runs n rollouts with everything on: the runner, durable
// recording, the ShareGPT view and metrics, and the program's pace of garbage collection.
func recordedRollouts(tb testing.TB, url string, n, concurrent int) time.Duration {
	tb.Helper()
	return recordedRolloutsOf(tb, url, &noopEnvironment{n: n, instant: true}, concurrent)
}

func recordedRolloutsOf(tb testing.TB, url string, environment *noopEnvironment, concurrent int) time.Duration {
	tb.Helper()
	defer gcpace.Relax()()
	n := environment.n
	server := model.Server{BaseURL: url, Model: "mock", MaxConcurrent: concurrent, Timeout: 5 * time.Minute}
	summary, spent := recordedRun(tb, server, environment, concurrent)
	require.Equal(tb, n, summary.Outcomes[trajectories.OutcomeScored], "%v", summary.Outcomes)
	require.Equal(tb, n*turnsPerRollout, summary.Turns)
	return spent
}

func recordedRun(tb testing.TB, server model.Server, environment env.Environment, concurrent int) (*env.Summary, time.Duration) {
	tb.Helper()
	registry, err := tools.NewRegistry(noopTool())
	require.NoError(tb, err)
	provider, err := local.New(local.Config{BaseDir: filepath.Join(tb.TempDir(), "sandboxes")})
	require.NoError(tb, err)
	defer func() { require.NoError(tb, provider.Close(context.Background())) }()
	pool, err := model.ForServers([]model.Server{server}, model.PoolConfig{})
	require.NoError(tb, err)
	defer pool.CloseIdleConnections()
	definitions, err := registry.Definitions("noop")
	require.NoError(tb, err)
	store, err := trajectories.Create(filepath.Join(tb.TempDir(), "run"), trajectories.Info{
		Command: "evaluate", Environment: "noop", Config: json.RawMessage("{}"), Tools: definitions})
	require.NoError(tb, err)
	runner, err := env.New(env.Options{
		Mode: config.Evaluate, Environment: environment, Agent: env.AgentModel,
		Config: config.Env{Attempts: 1, MaxEvalWorkers: concurrent, MaxAgentTurns: 2 * turnsPerRollout, MaxTokenLength: 100,
			VerifyTimeout: 60, PassThreshold: 1, ToolPoolSize: 128},
		Model: model.Retry(pool, model.RetryPolicy{}), ModelName: "mock", Provider: provider, Registry: registry, Store: store,
	})
	require.NoError(tb, err)
	started := time.Now()
	summary, err := runner.Run(tb.Context())
	spent := time.Since(started)
	require.NoError(tb, err)
	require.NoError(tb, store.Close(trajectories.StatusDone))
	return summary, spent
}

// BenchmarkPeakMemory reports the process's peak memory with 2,048 rollouts in
// flight. It counts from the start of the process: run it alone.
func BenchmarkPeakMemory(b *testing.B) {
	url := startMock(b, 100*time.Millisecond)
	for b.Loop() {
		recordedRollouts(b, url, 4096, 2048)
	}
	b.ReportMetric(peakMemory(), "peak-MB")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkTenThousand holds 10,000 rollouts in flight against a model that
// takes a second to answer.
func BenchmarkTenThousand(b *testing.B) {
	url := startMock(b, time.Second)
	for b.Loop() {
		recordedRollouts(b, url, 10_000, 10_000)
	}
	b.ReportMetric(peakMemory(), "peak-MB")
	b.ReportMetric(float64(10_000*turnsPerRollout*b.N)/b.Elapsed().Seconds(), "turns/s")
	b.ReportMetric(0, "ns/op")
}

func usage() (u syscall.Rusage) {
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err) // can only be a wrong argument
	}
	return u
}

// cpuTime returns the processor time this process has used, without the mock's.
func cpuTime() time.Duration {
	u := usage()
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func peakMemory() float64 {
	usage := usage()
	if runtime.GOOS == "darwin" {
		return float64(usage.Maxrss) / (1 << 20)
	}
	return float64(usage.Maxrss) / (1 << 10)
}

// BenchmarkTurnCost shows what one turn costs the harness at the 10th, 100th and
// 400th turn of a conversation: everything but the bytes written stays the same.
func BenchmarkTurnCost(b *testing.B) {
	for _, length := range []int{10, 100, 400} {
		b.Run(fmt.Sprintf("turn=%d", length), func(b *testing.B) {
			history := []chat.Message{chat.User("start")}
			for i := range length - 1 {
				id := fmt.Sprintf("call_%d", i)
				history = append(history, chat.Assistant("", "", chat.ToolCall{ID: id, Name: "noop", Arguments: `{"path":"/tmp/x"}`}), chat.Tool(id, `{"ok":true}`))
			}
			registry, err := tools.NewRegistry(noopTool())
			require.NoError(b, err)
			set, err := registry.Definitions("noop")
			require.NoError(b, err)
			provider, err := local.New(local.Config{BaseDir: b.TempDir()})
			require.NoError(b, err)
			defer func() { require.NoError(b, provider.Close(context.Background())) }()
			tc, err := toolcontext.New(toolcontext.Config{Provider: provider, Registry: registry, Toolset: set})
			require.NoError(b, err)
			// A transport that reads the request and answers from memory: no sockets,
			// no server, so that only the harness is on the clock.
			client, err := model.NewChat(model.Server{BaseURL: "http://mock/v1", Model: "mock", Transport: &cannedTransport{}})
			require.NoError(b, err)
			const turns = 10 // per loop, so that starting one does not count
			for b.Loop() {
				r, err := agentloop.Run(b.Context(), agentloop.Config{Model: client, Tools: tc, Stop: []agentloop.StopCondition{agentloop.MaxTurns(turns)}}, history)
				if err != nil || r.ToolCalls != turns {
					b.Fatal(err, r.ToolCalls)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*turns), "ns/turn")
			b.ReportMetric(0, "ns/op")
		})
	}
}

type cannedTransport struct{}

const cannedAnswer = `{"id":"x","choices":[{"index":0,"finish_reason":"tool_calls","message":{"role":"assistant","content":null,"tool_calls":[{"id":"call_next","type":"function","function":{"name":"noop","arguments":"{\"path\":\"/tmp/x\"}"}}]}}],"usage":{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15}}`

func (cannedTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		return nil, err
	}
	return &http.Response{StatusCode: 200, Status: "200 OK", Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/json"}}, ContentLength: int64(len(cannedAnswer)),
		Body: io.NopCloser(strings.NewReader(cannedAnswer)), Request: r}, nil
}
