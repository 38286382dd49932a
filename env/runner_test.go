package env_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/hermes-env/hermes-env/agentloop"
	"github.com/hermes-env/hermes-env/agentloop/chat"
	"github.com/hermes-env/hermes-env/agentloop/model"
	"github.com/hermes-env/hermes-env/agentloop/model/modeltest"
	"github.com/hermes-env/hermes-env/env"
	"github.com/hermes-env/hermes-env/env/config"
	"github.com/hermes-env/hermes-env/toolcontext"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox/local"
	"github.com/hermes-env/hermes-env/toolcontext/tools"
	"github.com/hermes-env/hermes-env/trajectories"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// counting is an environment whose items are numbers; its parts can be replaced.
type counting struct {
	items  int
	next   int
	reward func(ctx context.Context, item env.Item, r *agentloop.Result, tc *toolcontext.Context) (env.Score, error)
	prompt func(item env.Item) ([]chat.Message, error)
	oracle func(ctx context.Context, tc *toolcontext.Context) error
	spec   func(item env.Item) (sandbox.Spec, error)
	data   string // part of every item's value
	calls  atomic.Int64
}

func (e *counting) Name() string                { return "counting" }
func (e *counting) Setup(context.Context) error { return nil }

func (e *counting) item(n int) (env.Item, error) {
	return env.NewItem(fmt.Sprintf("item-%d", n), fmt.Sprint(n, e.data))
}

func (e *counting) NextItem(context.Context) (env.Item, error) {
	if e.next == e.items {
		return env.Item{}, io.EOF
	}
	e.next++
	return e.item(e.next - 1)
}

func (e *counting) EvalItems(context.Context) iter.Seq2[env.Item, error] {
	return func(yield func(env.Item, error) bool) {
		for n := range e.items {
			if !yield(e.item(n)) {
				return
			}
		}
	}
}

func (e *counting) FormatPrompt(item env.Item) ([]chat.Message, error) {
	if e.prompt != nil {
		return e.prompt(item)
	}
	return []chat.Message{chat.User(item.ID)}, nil
}

func (e *counting) Reward(ctx context.Context, item env.Item, r *agentloop.Result, tc *toolcontext.Context) (env.Score, error) {
	e.calls.Add(1)
	if e.reward != nil {
		return e.reward(ctx, item, r, tc)
	}
	return env.Score{Value: 1, Parts: map[string]float64{"b": 2, "a": 1}}, nil
}

func (e *counting) Oracle(ctx context.Context, _ env.Item, tc *toolcontext.Context) error {
	return e.oracle(ctx, tc)
}

func (e *counting) Sandbox(item env.Item) (sandbox.Spec, error) {
	if e.spec != nil {
		return e.spec(item)
	}
	return sandbox.Spec{}, nil
}

func (e *counting) Tools() []tools.Tool {
	return []tools.Tool{{Name: "noop", Toolset: "noop", Description: "does nothing",
		Handler: func(context.Context, *tools.Call) (string, error) { return `{"ok":true}`, nil }}}
}

// harness runs environments against a mock model in a fresh run directory.
type harness struct {
	t        *testing.T
	dir      string
	script   modeltest.Script
	change   func(*env.Options)
	policy   model.RetryPolicy
	timeout  time.Duration
	observer *observer
	resume   bool
	server   *modeltest.Server
}

type observer struct {
	mu       sync.Mutex
	warnings []string
	skipped  int
	finished int
}

func (o *observer) Planned(int) {}
func (o *observer) Finished(*trajectories.Rollout) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.finished++
}
func (o *observer) Retrying(*trajectories.Rollout, int) {}
func (o *observer) Skipped(n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.skipped += n
}
func (o *observer) Warn(text string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.warnings = append(o.warnings, text)
}

func newHarness(t *testing.T, script modeltest.Script) *harness {
	return &harness{t: t, dir: filepath.Join(t.TempDir(), "run"), script: script,
		policy: model.RetryPolicy{MaxElapsed: 3 * time.Second, BaseDelay: time.Millisecond, MaxDelay: 5 * time.Millisecond}}
}

// run executes one session and returns what it recorded.
func (h *harness) run(ctx context.Context, mode config.Mode, e *counting) (*env.Summary, []*trajectories.Rollout, error) {
	t := h.t
	t.Helper()
	if h.server == nil {
		h.server = modeltest.NewServer(t, h.script)
	}
	timeout := h.timeout
	if timeout == 0 {
		timeout = 5 * time.Second
	}
	client, err := model.NewChat(model.Server{BaseURL: h.server.URL, Model: "mock", Timeout: timeout, StallTimeout: 100 * time.Millisecond})
	require.NoError(t, err)
	defer client.CloseIdleConnections()
	provider, err := local.New(local.Config{BaseDir: filepath.Join(t.TempDir(), "sandboxes")})
	require.NoError(t, err)
	defer func() { require.NoError(t, provider.Close(context.Background())) }()
	registry, err := tools.NewRegistry(append(tools.Builtin(), e.Tools()...)...)
	require.NoError(t, err)
	info := trajectories.Info{Command: string(mode), Environment: "counting", Config: []byte(`{}`)}
	open := trajectories.Create
	if h.resume {
		open = trajectories.Resume
	}
	store, err := open(h.dir, info)
	require.NoError(t, err)
	h.observer = &observer{}
	opts := env.Options{
		Mode: mode, Environment: e, Agent: env.AgentModel, Model: model.Retry(client, h.policy), ModelName: "mock",
		Config: config.Env{GroupSize: 2, TotalSteps: e.items, Attempts: 1, MaxEvalWorkers: 4, MaxAgentTurns: 5,
			MaxTokenLength: 100, PassThreshold: 1, VerifyTimeout: 5, TerminalTimeout: 10, ToolPoolSize: 16, Retries: 0},
		GroupsInFlight: 2, Provider: provider, Registry: registry, Store: store, Observer: h.observer,
	}
	if h.change != nil {
		h.change(&opts)
	}
	runner, err := env.New(opts)
	require.NoError(t, err)
	summary, runErr := runner.Run(ctx)
	require.NoError(t, store.Close(trajectories.StatusDone))
	var rollouts []*trajectories.Rollout
	done, err := trajectories.OpenReadOnly(h.dir)
	require.NoError(t, err)
	require.NoError(t, done.Each(func(r *trajectories.Rollout) error {
		rollouts = append(rollouts, r)
		return nil
	}))
	return summary, rollouts, runErr
}

func noop() modeltest.Reply {
	return modeltest.Calls(chat.ToolCall{ID: "c", Name: "noop", Arguments: "{}"})
}

func TestEvaluateRecordsEveryRolloutWithItsScoreAndTimings(t *testing.T) {
	h := newHarness(t, modeltest.Turns(noop().WithUsage(10, 5), modeltest.Text("done").WithUsage(20, 5)))
	h.change = func(o *env.Options) { o.Config.Attempts = 3 }
	summary, rollouts, err := h.run(t.Context(), config.Evaluate, &counting{items: 4})
	require.NoError(t, err)
	require.Len(t, rollouts, 12)
	require.Equal(t, 12, summary.Score.N)
	require.Equal(t, 4, summary.Score.Clusters)
	require.Equal(t, 1.0, summary.Score.Mean)
	require.Equal(t, []env.PassRate{{K: 1, Value: 1}, {K: 2, Value: 1}, {K: 3, Value: 1}}, summary.PassAtK)
	require.Equal(t, 24, summary.Turns)
	require.EqualValues(t, 30*12, summary.PromptTokens)
	keys := map[trajectories.Key]bool{}
	for _, r := range rollouts {
		require.False(t, keys[r.Key()], "a rollout is recorded once")
		keys[r.Key()] = true
		require.Equal(t, trajectories.OutcomeScored, r.Outcome)
		require.Equal(t, []trajectories.ScorePart{{Name: "a", Value: 1}, {Name: "b", Value: 2}}, r.ScoreParts)
		require.Len(t, r.Timings.Turns, 2)
		require.Positive(t, r.Timings.Model)
		sum := r.Timings.Model + r.Timings.Tools + r.Timings.Sandbox + r.Timings.Verify + r.Timings.Harness
		require.InDelta(t, r.Timings.Total, sum, 0.01, "the parts make up the whole")
		require.Len(t, r.Messages, 4)
	}
	require.Equal(t, "item-0", summary.Items[0].ID)
}

func TestProcessRunsTheStepsInGroupsAndStopsWhenTheItemsEnd(t *testing.T) {
	h := newHarness(t, modeltest.Always(modeltest.Text("x")))
	h.change = func(o *env.Options) { o.Config.TotalSteps = 100 }
	_, rollouts, err := h.run(t.Context(), config.Process, &counting{items: 3})
	require.NoError(t, err)
	require.Len(t, rollouts, 6)
	perStep := map[int]int{}
	for _, r := range rollouts {
		perStep[r.Step]++
		require.Equal(t, fmt.Sprintf("item-%d", r.Step), r.ItemID)
	}
	require.Equal(t, map[int]int{0: 2, 1: 2, 2: 2}, perStep)
}

// Every fault a real endpoint shows, injected into one conversation among
// healthy ones: the rollout heals and is scored, or ends with the right outcome,
// and never takes another one with it.
func TestEveryFaultEndsScoredOrWithTheRightOutcome(t *testing.T) {
	ok := modeltest.Text("fine")
	heals := map[string]modeltest.Reply{
		"429 with Retry-After":      modeltest.RateLimited(0),
		"500":                       modeltest.Status(500),
		"502":                       modeltest.Status(502),
		"503":                       modeltest.Status(503),
		"529":                       modeltest.Status(529),
		"reset before headers":      modeltest.Reset(),
		"closed before headers":     modeltest.CloseConnection(),
		"reset in the body":         ok.ResetMidBody(),
		"connection cut":            ok.CutOff(),
		"stalled body":              ok.Stalled(),
		"truncated JSON":            ok.Truncated(),
		"invalid JSON":              modeltest.InvalidJSON(),
		"HTML instead of JSON":      modeltest.HTML("Login"),
		"empty choices":             modeltest.EmptyChoices(),
		"null message":              modeltest.NullMessage(),
		"hanging":                   modeltest.Hang(),
		"wrong content type and OK": ok.WithContentType("text/plain"),
	}
	final := map[string]struct {
		reply   modeltest.Reply
		outcome trajectories.Outcome
		class   string
	}{
		"400":              {modeltest.Status(400, "bad tools"), trajectories.OutcomeModelError, "bad_request"},
		"context overflow": {modeltest.ErrorCode(400, "context_length_exceeded", "maximum context length is 10 tokens"), trajectories.OutcomeLimit, ""},
		"answer cut":       {ok.WithFinish("length"), trajectories.OutcomeLimit, ""},
		"refusal":          {modeltest.Refusal("no"), trajectories.OutcomeScored, ""},
		"empty answer":     {modeltest.Text(""), trajectories.OutcomeScored, ""},
		"invalid calls until the end": {modeltest.Calls(chat.ToolCall{ID: "x", Name: "no_such_tool", Arguments: "{}"}),
			trajectories.OutcomeAgentError, "invalid_tool_calls"},
	}
	for name, fault := range heals {
		t.Run(name+" heals", func(t *testing.T) {
			t.Parallel()
			var failed atomic.Bool
			h := newHarness(t, func(r *modeltest.Request) modeltest.Reply {
				if r.Prompt() == "item-1" && failed.CompareAndSwap(false, true) {
					return fault
				}
				return ok
			})
			if name == "hanging" {
				h.timeout = 200 * time.Millisecond
			}
			_, rollouts, err := h.run(t.Context(), config.Evaluate, &counting{items: 3})
			require.NoError(t, err)
			require.Len(t, rollouts, 3)
			for _, r := range rollouts {
				require.Equal(t, trajectories.OutcomeScored, r.Outcome, "%s: %+v", r.ItemID, r.Error)
			}
		})
	}
	for name, test := range final {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t, func(r *modeltest.Request) modeltest.Reply {
				if r.Prompt() == "item-1" {
					return test.reply
				}
				return ok
			})
			summary, rollouts, err := h.run(t.Context(), config.Evaluate, &counting{items: 3})
			require.NoError(t, err)
			require.Len(t, rollouts, 3)
			for _, r := range rollouts {
				want := trajectories.OutcomeScored
				if r.ItemID == "item-1" {
					want = test.outcome
				}
				require.Equal(t, want, r.Outcome, r.ItemID)
				require.Equal(t, want.Scored(), r.Score != nil, "a failure is never a score")
				if r.ItemID == "item-1" && test.class != "" {
					require.Equal(t, test.class, r.Error.Class)
				}
			}
			require.Equal(t, 1.0, summary.Score.Mean)
		})
	}
}

func TestAnEndpointThatRefusesEverythingEndsTheRunAtOnce(t *testing.T) {
	for name, reply := range map[string]modeltest.Reply{
		"wrong key":   modeltest.Status(401, "bad key"),
		"forbidden":   modeltest.Status(403),
		"not valid":   modeltest.Status(422, "unknown field"),
		"bad request": modeltest.Status(400, "temperature is not supported"),
		"wrong model": modeltest.ErrorCode(404, "model_not_found", "The model `mock` does not exist"),
	} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t, modeltest.Always(reply))
			_, rollouts, err := h.run(t.Context(), config.Evaluate, &counting{items: 500})
			require.ErrorIs(t, err, env.ErrEndpoint)
			require.Less(t, len(rollouts), 20, "the rest is not tried")
			for _, r := range rollouts {
				require.False(t, r.Outcome.Scored())
			}
		})
	}
}

func TestRunner_StopsWhenRequestsAreRefusedInARow(t *testing.T) {
	refuse := func(refused func(prompt string) bool, status int, text string) *harness {
		return newHarness(t, func(r *modeltest.Request) modeltest.Reply {
			if refused(r.Prompt()) {
				return modeltest.Status(status, text)
			}
			return modeltest.Text("ok")
		})
	}
	number := func(prompt string) (n int) {
		_, err := fmt.Sscanf(prompt, "item-%d", &n)
		require.NoError(t, err)
		return n
	}
	// Some conversations are refused, others are not: their own trouble.
	h := refuse(func(p string) bool { return number(p) >= 10 && number(p)%3 != 0 }, 422, "bad")
	_, rollouts, err := h.run(t.Context(), config.Evaluate, &counting{items: 60})
	require.NoError(t, err)
	require.Len(t, rollouts, 60)
	// All are, after some answers.
	h = refuse(func(p string) bool { return number(p) >= 10 }, 422, "bad")
	_, rollouts, err = h.run(t.Context(), config.Evaluate, &counting{items: 400})
	require.ErrorIs(t, err, env.ErrEndpoint)
	require.ErrorContains(t, err, "in a row were refused")
	require.Less(t, len(rollouts), 200)
	// Prompts that are too long for the model are not the server's trouble.
	h = refuse(func(p string) bool { return number(p) >= 10 }, 400, "maximum context length is 10 tokens")
	_, rollouts, err = h.run(t.Context(), config.Evaluate, &counting{items: 100})
	require.NoError(t, err)
	require.Len(t, rollouts, 100)
}

func TestAnEndpointThatStaysDownEndsTheRunAndResumeFinishesIt(t *testing.T) {
	var healthy atomic.Bool
	h := newHarness(t, func(*modeltest.Request) modeltest.Reply {
		if healthy.Load() {
			return modeltest.Text("ok")
		}
		return modeltest.Status(503)
	})
	h.policy.MaxAttempts = 1
	_, rollouts, err := h.run(t.Context(), config.Evaluate, &counting{items: 60})
	require.ErrorIs(t, err, env.ErrEndpoint)
	require.Less(t, len(rollouts), 60)

	healthy.Store(true)
	h.resume = true
	summary, rollouts, err := h.run(t.Context(), config.Evaluate, &counting{items: 60})
	require.NoError(t, err)
	require.Len(t, rollouts, 60)
	require.Equal(t, 60, summary.Score.N)
}

func TestAFailureIsTriedAgainWithinTheRun(t *testing.T) {
	var requests atomic.Int64
	h := newHarness(t, func(*modeltest.Request) modeltest.Reply {
		if requests.Add(1) == 1 {
			return modeltest.Status(500)
		}
		return modeltest.Text("ok")
	})
	h.policy.MaxAttempts = 1
	h.change = func(o *env.Options) { o.Config.Retries = 1 }
	_, rollouts, err := h.run(t.Context(), config.Evaluate, &counting{items: 1})
	require.NoError(t, err)
	require.Equal(t, trajectories.OutcomeScored, rollouts[0].Outcome)
	require.Equal(t, 1, rollouts[0].Retries)
}

func TestTheEnvironmentsOwnFailuresStayWithTheirRollout(t *testing.T) {
	reward := func(do func(context.Context, *toolcontext.Context) (env.Score, error)) func(context.Context, env.Item, *agentloop.Result, *toolcontext.Context) (env.Score, error) {
		return func(ctx context.Context, item env.Item, _ *agentloop.Result, tc *toolcontext.Context) (env.Score, error) {
			if item.ID != "item-1" {
				return env.Score{Value: 1}, nil
			}
			return do(ctx, tc)
		}
	}
	zero := 0.0
	tests := map[string]struct {
		e       *counting
		outcome trajectories.Outcome
		class   string
	}{
		"reward fails": {&counting{reward: reward(func(context.Context, *toolcontext.Context) (env.Score, error) {
			return env.Score{}, errors.New("no reference")
		})}, trajectories.OutcomeVerifierError, "verifier"},
		"reward panics": {&counting{reward: reward(func(context.Context, *toolcontext.Context) (env.Score, error) { panic("index out of range") })},
			trajectories.OutcomeVerifierError, "panic"},
		"reward is not a number": {&counting{reward: reward(func(context.Context, *toolcontext.Context) (env.Score, error) {
			return env.Score{Value: zero / zero}, nil
		})}, trajectories.OutcomeVerifierError, "verifier"},
		"reward hangs": {&counting{reward: reward(func(ctx context.Context, _ *toolcontext.Context) (env.Score, error) {
			<-ctx.Done()
			return env.Score{}, ctx.Err()
		})}, trajectories.OutcomeVerifierError, "timeout"},
		"prompt fails": {&counting{prompt: func(item env.Item) ([]chat.Message, error) {
			if item.ID == "item-1" {
				return nil, errors.New("no field named prompt")
			}
			return []chat.Message{chat.User("x")}, nil
		}}, trajectories.OutcomeEnvironmentError, "environment"},
		"prompt panics": {&counting{prompt: func(item env.Item) ([]chat.Message, error) {
			if item.ID == "item-1" {
				panic("nil map")
			}
			return []chat.Message{chat.User("x")}, nil
		}}, trajectories.OutcomeEnvironmentError, "panic"},
		"sandbox can't be made": {&counting{
			spec: func(item env.Item) (sandbox.Spec, error) {
				if item.ID == "item-1" {
					return sandbox.Spec{Image: "python:3"}, nil // the local backend has no images
				}
				return sandbox.Spec{}, nil
			},
			reward: func(ctx context.Context, _ env.Item, _ *agentloop.Result, tc *toolcontext.Context) (env.Score, error) {
				_, err := tc.Terminal(ctx, "true", time.Second)
				return env.Score{Value: 1}, err
			}}, trajectories.OutcomeSandboxError, "sandbox"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t, modeltest.Always(modeltest.Text("x")))
			h.change = func(o *env.Options) {
				o.Config.GroupSize = 3
				if name == "reward hangs" {
					o.Config.VerifyTimeout = 0.3
				}
			}
			test.e.items = 3
			_, rollouts, err := h.run(t.Context(), config.Process, test.e)
			require.NoError(t, err)
			require.Len(t, rollouts, 9, "every other rollout of the run is there")
			for _, r := range rollouts {
				if r.ItemID != "item-1" {
					require.Equal(t, trajectories.OutcomeScored, r.Outcome)
					continue
				}
				require.Equal(t, test.outcome, r.Outcome)
				require.Equal(t, test.class, r.Error.Class)
				require.Nil(t, r.Score)
			}
		})
	}
}

func TestOracleAndNopTakeTheModelsPlace(t *testing.T) {
	e := func() *counting {
		return &counting{
			items: 2,
			oracle: func(ctx context.Context, tc *toolcontext.Context) error {
				return tc.WriteFile(ctx, "~/answer", []byte("42"))
			},
			reward: func(ctx context.Context, _ env.Item, _ *agentloop.Result, tc *toolcontext.Context) (env.Score, error) {
				if _, err := tc.ReadFile(ctx, "~/answer"); err != nil {
					return env.Score{Value: 0}, nil
				}
				return env.Score{Value: 1}, nil
			},
		}
	}
	for agent, want := range map[env.Agent]float64{env.AgentOracle: 1, env.AgentNop: 0} {
		h := newHarness(t, modeltest.Always(modeltest.Status(500)))
		h.change = func(o *env.Options) { o.Agent = agent; o.Model = nil }
		summary, _, err := h.run(t.Context(), config.Evaluate, e())
		require.NoError(t, err)
		require.Equal(t, want, summary.Score.Mean, agent)
		require.Zero(t, h.server.RequestCount())
	}
	h := newHarness(t, modeltest.Always(modeltest.Text("x")))
	h.change = func(o *env.Options) { o.Agent = env.AgentOracle }
	failing := &counting{items: 1, oracle: func(context.Context, *toolcontext.Context) error { return errors.New("no solution file") }}
	_, rollouts, err := h.run(t.Context(), config.Evaluate, failing)
	require.NoError(t, err)
	require.Equal(t, trajectories.OutcomeVerifierError, rollouts[0].Outcome, "a broken solution is the environment's fault, not a 0")
}

func TestInterruptedRunsKeepWhatIsFinishedAndResumeTheRest(t *testing.T) {
	release := make(chan struct{})
	var requests atomic.Int64
	h := newHarness(t, func(r *modeltest.Request) modeltest.Reply {
		if requests.Add(1) > 5 {
			select {
			case <-release:
			default:
				return modeltest.Hang()
			}
		}
		return modeltest.Text("x")
	})
	drain := make(chan struct{})
	ctx, cancel := context.WithCancelCause(t.Context())
	h.change = func(o *env.Options) { o.Drain = drain }
	go func() {
		for requests.Load() < 9 {
			time.Sleep(time.Millisecond)
		}
		close(drain)
		cancel(env.ErrInterrupted)
	}()
	_, rollouts, err := h.run(ctx, config.Evaluate, &counting{items: 20})
	require.ErrorIs(t, err, env.ErrInterrupted)
	count := map[trajectories.Outcome]int{}
	for _, r := range rollouts {
		count[r.Outcome]++
	}
	require.Equal(t, map[trajectories.Outcome]int{trajectories.OutcomeScored: 5, trajectories.OutcomeCancelled: 4}, count)

	close(release)
	h.resume = true
	h.change = nil
	before := requests.Load()
	e := &counting{items: 20}
	summary, rollouts, err := h.run(t.Context(), config.Evaluate, e)
	require.NoError(t, err)
	require.Len(t, rollouts, 20)
	require.Equal(t, 20, summary.Score.N)
	require.EqualValues(t, 15, requests.Load()-before, "what was finished is not run again")
	require.Equal(t, 5, h.observer.skipped)
}

func TestAnItemThatChangedIsRunAgain(t *testing.T) {
	h := newHarness(t, modeltest.Always(modeltest.Text("x")))
	_, _, err := h.run(t.Context(), config.Evaluate, &counting{items: 3})
	require.NoError(t, err)
	h.resume = true
	e := &counting{items: 3, data: "new version"}
	_, rollouts, err := h.run(t.Context(), config.Evaluate, e)
	require.NoError(t, err)
	require.Len(t, rollouts, 3)
	require.EqualValues(t, 3, e.calls.Load())
	require.NotEmpty(t, h.observer.warnings)
}

func TestResumingWithItemsInAnotherOrderIsRefused(t *testing.T) {
	h := newHarness(t, modeltest.Always(modeltest.Text("x")))
	_, _, err := h.run(t.Context(), config.Process, &counting{items: 3})
	require.NoError(t, err)
	h.resume = true
	_, rollouts, err := h.run(t.Context(), config.Process, &counting{items: 3, next: 1})
	require.ErrorIs(t, err, env.ErrItemsChanged)
	require.ErrorContains(t, err, `step 0 of the run was item "item-0"`)
	require.Len(t, rollouts, 6, "nothing was changed")
}

func TestConcurrencyStaysWithinItsLimits(t *testing.T) {
	h := newHarness(t, modeltest.Delayed(modeltest.Always(modeltest.Text("x")), func(*modeltest.Request) time.Duration { return 5 * time.Millisecond }))
	h.change = func(o *env.Options) { o.Config.MaxEvalWorkers = 7 }
	_, _, err := h.run(t.Context(), config.Evaluate, &counting{items: 60})
	require.NoError(t, err)
	require.LessOrEqual(t, h.server.MaxInFlight(), 7)
	require.GreaterOrEqual(t, h.server.MaxInFlight(), 4)
}

func TestRepeatedItemIDsAreRefused(t *testing.T) {
	h := newHarness(t, modeltest.Always(modeltest.Text("x")))
	e := &duplicated{}
	store, err := trajectories.Create(h.dir, trajectories.Info{Command: "evaluate", Environment: "counting", Config: []byte(`{}`)})
	require.NoError(t, err)
	defer func() { require.NoError(t, store.Close(trajectories.StatusFailed)) }()
	registry, err := tools.NewRegistry(tools.Builtin()...)
	require.NoError(t, err)
	provider, err := local.New(local.Config{BaseDir: t.TempDir()})
	require.NoError(t, err)
	defer func() { require.NoError(t, provider.Close(context.Background())) }()
	runner, err := env.New(env.Options{Mode: config.Evaluate, Environment: e, Agent: env.AgentNop, Registry: registry, Provider: provider, Store: store,
		Config: config.Env{Attempts: 1, MaxEvalWorkers: 1, VerifyTimeout: 1}})
	require.NoError(t, err)
	_, err = runner.Run(t.Context())
	require.ErrorContains(t, err, `"same" occurs twice`)
}

type duplicated struct{ counting }

func (e *duplicated) EvalItems(context.Context) iter.Seq2[env.Item, error] {
	return func(yield func(env.Item, error) bool) {
		for range 2 {
			if !yield(env.NewItem("same", 1)) {
				return
			}
		}
	}
}
