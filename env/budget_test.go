package env_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/agentloop"
	"github.com/hermes-env/hermes-env/agentloop/chat"
	"github.com/hermes-env/hermes-env/agentloop/model"
	"github.com/hermes-env/hermes-env/agentloop/model/modeltest"
	"github.com/hermes-env/hermes-env/env"
	"github.com/hermes-env/hermes-env/env/config"
	"github.com/hermes-env/hermes-env/toolcontext"
	"github.com/hermes-env/hermes-env/trajectories"
)

// seller is a model whose answers cost something. It counts what it was asked for.
type seller struct {
	price  *model.Price
	answer func(ctx context.Context, call int) (chat.Usage, error) // nil: 80 + 20 tokens

	calls     atomic.Int64
	mu        sync.Mutex
	now, peak int
	sold      chat.Usage
}

func (s *seller) Complete(ctx context.Context, _ *model.Request) (*model.Response, error) {
	n := int(s.calls.Add(1))
	s.mu.Lock()
	s.now++
	s.peak = max(s.peak, s.now)
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		s.now--
		s.mu.Unlock()
	}()
	usage := chat.Usage{PromptTokens: 80, CompletionTokens: 20, TotalTokens: 100}
	if s.answer != nil {
		var err error
		if usage, err = s.answer(ctx, n); err != nil {
			return nil, err
		}
	}
	s.mu.Lock()
	s.sold = s.sold.Add(usage)
	s.mu.Unlock()
	return &model.Response{Message: chat.Assistant("done", ""), FinishReason: "stop", Usage: usage, Attempts: 1}, nil
}

// client returns the way to the model that books what it costs.
func (s *seller) client(t *testing.T) model.Client {
	t.Helper()
	pool, err := model.ForClients([]model.Server{{BaseURL: "http://seller.test/v1", Model: "mock", Price: s.price}}, model.PoolConfig{},
		func(model.Server) (model.Client, error) { return s, nil })
	require.NoError(t, err)
	return pool
}

// perToken charges a millionth of a dollar and its tenfold for tokens in and out: 80 + 20
// tokens cost 0.00028 USD.
var perToken = model.Price{Input: 1, CachedInput: 0.1, Output: 10}

// shop is a harness whose model is a seller.
func shop(t *testing.T, s *seller, change func(*env.Options)) *harness {
	h := newHarness(t, nil)
	h.server = &modeltest.Server{URL: "http://unused.test/v1"} // nothing listens: time must be able to stand still
	h.change = func(o *env.Options) {
		o.Model = s.client(t)
		o.Prices = []*model.Price{s.price}
		if change != nil {
			change(o)
		}
	}
	return h
}

func TestARunStartsNoMoreRolloutsThanItsBudgetPays(t *testing.T) {
	for name, c := range map[string]struct {
		mode   config.Mode
		budget func(*config.Env)
		field  string
		enough string // for the twelve rollouts that are left
	}{
		"evaluate by tokens": {config.Evaluate, func(e *config.Env) { e.BudgetTokens = 800 }, "env.budget_tokens", "2200"},
		"evaluate by money":  {config.Evaluate, func(e *config.Env) { e.BudgetUSD = 0.00225 }, "env.budget_usd", "0.0060"},
		"process by tokens":  {config.Process, func(e *config.Env) { e.BudgetTokens = 899 }, "env.budget_tokens", "2200"},
		"process by money":   {config.Process, func(e *config.Env) { e.BudgetUSD = 0.00225 }, "env.budget_usd", "0.0060"},
	} {
		t.Run(name, func(t *testing.T) {
			s := &seller{price: &perToken}
			e := &counting{items: 20}
			budget := c.budget
			h := shop(t, s, func(o *env.Options) { budget(&o.Config) })
			if c.mode == config.Process {
				e.items = 10 // in groups of two
			}
			summary, recs, err := h.run(t.Context(), c.mode, e)
			var used *env.BudgetError
			require.ErrorAs(t, err, &used)
			require.ErrorIs(t, err, env.ErrBudget)
			require.Equal(t, c.field, used.Field)
			require.Equal(t, c.enough, used.Enough(12))
			require.Len(t, recs, 8, "the last rollout that fits is run, and none beyond")
			require.EqualValues(t, 8, s.calls.Load())
			for _, r := range recs {
				require.Equal(t, trajectories.OutcomeScored, r.Outcome)
				usd, known := r.Spend.USD()
				require.True(t, known)
				require.InDelta(t, 0.00028, usd, 1e-12)
			}
			require.EqualValues(t, 800, summary.Spent.Tokens())
			require.InDelta(t, 0.00224, summary.Spent.USD, 1e-12)

			// Again with the same budget: nothing is bought.
			h.resume = true
			e.next = 0
			_, recs, err = h.run(t.Context(), c.mode, e)
			require.ErrorIs(t, err, env.ErrBudget)
			require.Len(t, recs, 8)
			require.EqualValues(t, 8, s.calls.Load())

			// With more it goes on, and loses and repeats nothing.
			budget = func(e *config.Env) {
				c.budget(e)
				e.BudgetTokens, e.BudgetUSD = 2*e.BudgetTokens, 2*e.BudgetUSD
			}
			e.next = 0
			_, recs, err = h.run(t.Context(), c.mode, e)
			require.ErrorIs(t, err, env.ErrBudget)
			require.Len(t, recs, 16)
			budget = func(*config.Env) {}
			e.next = 0
			_, recs, err = h.run(t.Context(), c.mode, e)
			require.NoError(t, err)
			require.Len(t, recs, 20)
			require.EqualValues(t, 20, s.calls.Load())

			// A run that has nothing left to do is done, whatever its budget.
			budget = c.budget
			e.next = 0
			_, _, err = h.run(t.Context(), c.mode, e)
			require.NoError(t, err)
		})
	}
}

func TestWithoutAnyCostToGoByFewRolloutsStart(t *testing.T) {
	for name, c := range map[string]struct {
		mode config.Mode
		size int
		peak int
	}{
		"rollouts of many items":           {config.Evaluate, 1, 4},
		"small groups fill the same space": {config.Process, 2, 4},
		"a larger group is one":            {config.Process, 7, 7},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &seller{}
				s.answer = func(_ context.Context, call int) (chat.Usage, error) {
					time.Sleep(time.Second)
					return chat.Usage{PromptTokens: 1000}, nil
				}
				h := shop(t, s, func(o *env.Options) {
					o.Config.BudgetTokens, o.Config.MaxEvalWorkers, o.Config.GroupSize, o.GroupsInFlight = 2000, 16, c.size, 16
				})
				_, recs, err := h.run(t.Context(), c.mode, &counting{items: 50})
				require.ErrorIs(t, err, env.ErrBudget)
				require.Equal(t, c.peak, s.peak)
				require.Len(t, recs, c.peak, "what costs more than the budget is not begun again")
			})
		})
	}
}

func TestABudgetIsOverspentByNoMoreThanRolloutsUnderWayExceedTheMean(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		random := rand.New(rand.NewPCG(1, 2))
		var mu sync.Mutex
		s := &seller{}
		s.answer = func(_ context.Context, call int) (chat.Usage, error) {
			mu.Lock()
			tokens := 100 + random.Int64N(900) // expensive ones take longer
			mu.Unlock()
			time.Sleep(time.Duration(tokens) * time.Millisecond)
			return chat.Usage{PromptTokens: tokens}, nil
		}
		const limit, workers = 50_000, 8
		h := shop(t, s, func(o *env.Options) { o.Config.BudgetTokens, o.Config.MaxEvalWorkers = limit, workers })
		summary, _, err := h.run(t.Context(), config.Evaluate, &counting{items: 500})
		require.ErrorIs(t, err, env.ErrBudget)
		spent := summary.Spent.Tokens()
		require.Less(t, spent, int64(limit+workers*900))
		require.Greater(t, spent, int64(limit-1000-workers*900), "and is used as far as it goes")
		require.Equal(t, workers, s.peak, "all workers have something to do once the cost is known")
		require.Equal(t, s.sold.PromptTokens, spent)
	})
}

func TestWhatJudgesAndFailedTriesCostCountsToo(t *testing.T) {
	judge := &seller{price: &model.Price{Input: 100}}
	agent := &seller{price: &perToken}
	failing := &model.Error{Kind: model.KindServerError, Message: "down"}
	agent.answer = func(_ context.Context, call int) (chat.Usage, error) {
		if call%2 == 1 {
			failing := *failing
			failing.Usage = chat.Usage{PromptTokens: 7} // an answer of no use, paid for
			return chat.Usage{}, &failing
		}
		return chat.Usage{PromptTokens: 10, CompletionTokens: 1, CachedTokens: 5}, nil
	}
	e := &counting{items: 6}
	var asking model.Client
	e.reward = func(ctx context.Context, _ env.Item, _ *agentloop.Result, _ *toolcontext.Context) (env.Score, error) {
		_, err := asking.Complete(ctx, &model.Request{})
		return env.Score{Value: 1}, err
	}
	synctest.Test(t, func(t *testing.T) {
		asking = judge.client(t)
		h := shop(t, agent, func(o *env.Options) {
			// A rollout uses 7 tokens in the try that fails, 11 in the other and 100 when it is judged.
			o.Config.Retries, o.Config.MaxEvalWorkers, o.Config.BudgetTokens = 1, 1, 3*118
		})
		summary, recs, err := h.run(t.Context(), config.Evaluate, e)
		require.ErrorIs(t, err, env.ErrBudget)
		require.Len(t, recs, 3)
		for _, r := range recs {
			require.Equal(t, 1, r.Retries)
			require.EqualValues(t, 11, r.Usage.PromptTokens+r.Usage.CompletionTokens, "the usage stays that of the conversation")
			agent, judge, failed := 15.5e-6, 8000e-6, 7e-6
			require.Equal(t, &trajectories.Spend{
				Agent:       trajectories.Bill{Calls: 1, PromptTokens: 10, CachedTokens: 5, CompletionTokens: 1, USD: &agent},
				Judge:       trajectories.Bill{Calls: 1, PromptTokens: 80, CompletionTokens: 20, USD: &judge},
				FailedTries: trajectories.Bill{Calls: 1, PromptTokens: 7, USD: &failed},
			}, r.Spend)
		}
		require.EqualValues(t, 3*118, summary.Spent.Tokens())
		require.InDelta(t, 3*8000e-6, summary.Spent.JudgeUSD, 1e-12)
		require.InDelta(t, 3*7e-6, summary.Spent.FailedTriesUSD, 1e-12)
		require.InDelta(t, 3*8022.5e-6, summary.Spent.USD, 1e-12)
	})
}

func TestNoOtherTryIsMadeOnceTheBudgetIsUsedUp(t *testing.T) {
	s := &seller{}
	s.answer = func(context.Context, int) (chat.Usage, error) {
		return chat.Usage{}, &model.Error{Kind: model.KindServerError, Usage: chat.Usage{PromptTokens: 100}}
	}
	h := shop(t, s, func(o *env.Options) { o.Config.Retries, o.Config.MaxEvalWorkers, o.Config.BudgetTokens = 9, 1, 100 })
	_, recs, err := h.run(t.Context(), config.Evaluate, &counting{items: 3})
	require.ErrorIs(t, err, env.ErrBudget)
	require.Len(t, recs, 1)
	require.Equal(t, trajectories.OutcomeModelError, recs[0].Outcome)
	require.EqualValues(t, 1, s.calls.Load())

	// What failed stays on record until there is money to run it again.
	h.resume = true
	_, recs, err = h.run(t.Context(), config.Evaluate, &counting{items: 3})
	require.ErrorIs(t, err, env.ErrBudget)
	require.Len(t, recs, 1)
	require.EqualValues(t, 1, s.calls.Load())
}

func TestRolloutsThatAreRunAgainArePaidForTwice(t *testing.T) {
	s := &seller{price: &perToken}
	broken := true
	e := &counting{items: 4}
	e.reward = func(context.Context, env.Item, *agentloop.Result, *toolcontext.Context) (env.Score, error) {
		if broken {
			return env.Score{}, errors.New("broken")
		}
		return env.Score{Value: 1}, nil
	}
	h := shop(t, s, func(o *env.Options) {
		o.Config.BudgetTokens = 600
		o.RetryOutcomes = []trajectories.Outcome{trajectories.OutcomeVerifierError}
	})
	_, recs, err := h.run(t.Context(), config.Evaluate, e)
	require.NoError(t, err)
	require.Len(t, recs, 4)
	broken, h.resume, e.data = false, true, "changed" // else they would only be scored
	summary, recs, err := h.run(t.Context(), config.Evaluate, e)
	require.ErrorIs(t, err, env.ErrBudget)
	require.Len(t, recs, 2, "200 of the 600 tokens were left")
	require.EqualValues(t, 600, summary.Spent.Tokens())
	require.InDelta(t, 4*0.00028, summary.AgainUSD, 1e-12)
	require.InDelta(t, 6*0.00028, summary.Spent.USD, 1e-12)
	require.EqualValues(t, 200, summary.PromptTokens+summary.CompletionTokens, "the rollouts of the run themselves")
}

func TestABudgetThatCanNotBeKeptEndsTheRun(t *testing.T) {
	silent := func(context.Context, int) (chat.Usage, error) { return chat.Usage{}, nil }
	for name, c := range map[string]struct {
		price  *model.Price
		budget func(*config.Env)
		text   string
	}{
		"tokens that nobody counts": {&perToken, func(e *config.Env) { e.BudgetTokens = 1e9 }, "came without token counts, so env.budget_tokens means nothing"},
		"money for them":            {&perToken, func(e *config.Env) { e.BudgetUSD = 1000 }, "the cost of"},
	} {
		t.Run(name, func(t *testing.T) {
			s := &seller{price: c.price, answer: silent}
			h := shop(t, s, func(o *env.Options) { c.budget(&o.Config) })
			_, recs, err := h.run(t.Context(), config.Evaluate, &counting{items: 100})
			require.ErrorIs(t, err, env.ErrBudgetUnkept)
			require.ErrorContains(t, err, c.text)
			require.LessOrEqual(t, len(recs), 4)
			require.NotEmpty(t, recs)
			require.Len(t, h.observer.warnings, 1, "%q", h.observer.warnings)
			require.Contains(t, h.observer.warnings[0], "without token counts")

			before := s.calls.Load()
			h.resume = true
			_, _, err = h.run(t.Context(), config.Evaluate, &counting{items: 100})
			require.ErrorIs(t, err, env.ErrBudgetUnkept)
			require.Equal(t, before, s.calls.Load())
		})
	}
	t.Run("what costs nothing costs nothing however many tokens it has", func(t *testing.T) {
		s := &seller{price: &model.Price{}, answer: silent}
		h := shop(t, s, func(o *env.Options) { o.Config.BudgetUSD = 1 })
		_, recs, err := h.run(t.Context(), config.Evaluate, &counting{items: 10})
		require.NoError(t, err)
		require.Len(t, recs, 10)
	})
	t.Run("without a budget it is said once", func(t *testing.T) {
		s := &seller{answer: silent}
		h := shop(t, s, nil)
		_, recs, err := h.run(t.Context(), config.Evaluate, &counting{items: 10})
		require.NoError(t, err)
		require.Len(t, recs, 10)
		require.Len(t, h.observer.warnings, 1)
		require.Contains(t, h.observer.warnings[0], "without token counts")
	})
}

func TestRolloutsRecordedWithoutTheirCostCountAtTheHighestPrice(t *testing.T) {
	s := &seller{}
	e := &counting{items: 5}
	h := shop(t, s, nil)
	_, _, err := h.run(t.Context(), config.Evaluate, e)
	require.NoError(t, err)
	e.items = 10
	s.price = &perToken
	h.resume = true
	change := h.change
	h.change = func(o *env.Options) {
		change(o)
		o.Prices = append(o.Prices, &model.Price{Input: 2, CachedInput: 2, Output: 2})
		// Five at 80 · 2 + 20 · 10 = 360 millionths, and three at 280.
		o.Config.BudgetUSD = 0.00264 + 0.0003
		o.Config.MaxEvalWorkers = 1
	}
	_, recs, err := h.run(t.Context(), config.Evaluate, e)
	require.ErrorIs(t, err, env.ErrBudget)
	require.Len(t, recs, 8)
	require.Contains(t, h.observer.warnings[0], "5 rollouts on record without a cost")
}

func TestATimeBudgetEndsWithTheLastRolloutThatFits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &seller{}
		s.answer = func(context.Context, int) (chat.Usage, error) {
			time.Sleep(10 * time.Minute)
			return chat.Usage{PromptTokens: 1}, nil
		}
		limit := config.Seconds(3600 + 60)
		h := shop(t, s, func(o *env.Options) { o.Config.MaxEvalWorkers, o.Config.BudgetTime = 2, limit })
		began := time.Now()
		_, recs, err := h.run(t.Context(), config.Evaluate, &counting{items: 100})
		var used *env.BudgetError
		require.ErrorAs(t, err, &used)
		require.Equal(t, "env.budget_time", used.Field)
		require.Equal(t, "7400", used.Enough(88))
		require.Len(t, recs, 12)
		require.Equal(t, time.Hour, time.Since(began).Round(time.Second))

		// The time between sessions is nobody's; what is left is too little for a rollout.
		time.Sleep(24 * time.Hour)
		h.resume = true
		_, recs, err = h.run(t.Context(), config.Evaluate, &counting{items: 100})
		require.ErrorIs(t, err, env.ErrBudget)
		require.Len(t, recs, 12)

		limit = 2*3600 + 60
		summary, recs, err := h.run(t.Context(), config.Evaluate, &counting{items: 100})
		require.ErrorIs(t, err, env.ErrBudget)
		require.Len(t, recs, 24)
		require.Equal(t, 2*time.Hour, summary.Active.Round(time.Second))
	})
}

func TestASessionThatWasKilledCountsUntilItsLastRollout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &seller{}
		s.answer = func(context.Context, int) (chat.Usage, error) {
			time.Sleep(10 * time.Minute)
			return chat.Usage{PromptTokens: 5}, nil
		}
		h := shop(t, s, func(o *env.Options) { o.Config.MaxEvalWorkers, o.Config.BudgetTime = 1, 3600 })
		_, recs, err := h.run(t.Context(), config.Evaluate, &counting{items: 3})
		require.NoError(t, err)
		require.Len(t, recs, 3)
		// The files of a run that had no time to say that it ended.
		killed := filepath.Join(t.TempDir(), "killed")
		require.NoError(t, os.CopyFS(killed, os.DirFS(h.dir)))
		manifest, err := os.ReadFile(filepath.Join(killed, "run.json"))
		require.NoError(t, err)
		text := strings.ReplaceAll(withoutMember(string(manifest), `"ended_at"`), `"status": "done"`, `"status": "running"`)
		require.NoError(t, os.WriteFile(filepath.Join(killed, "run.json"), []byte(text), 0o644))
		time.Sleep(time.Hour)
		h.dir, h.resume = killed, true
		summary, recs, err := h.run(t.Context(), config.Evaluate, &counting{items: 50})
		require.ErrorIs(t, err, env.ErrBudget)
		require.Len(t, recs, 6, "half an hour was used before, half an hour is left")
		require.Equal(t, time.Hour, summary.Active.Round(time.Second))
		require.EqualValues(t, 30, summary.Spent.Tokens())
	})
}

func TestARunThatWaitsForItsBudgetCanBeInterrupted(t *testing.T) {
	for name, stop := range map[string]func(drain chan struct{}, cancel context.CancelCauseFunc){
		"by Ctrl-C":     func(drain chan struct{}, _ context.CancelCauseFunc) { close(drain) },
		"by the second": func(_ chan struct{}, cancel context.CancelCauseFunc) { cancel(env.ErrInterrupted) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				drain := make(chan struct{})
				s := &seller{}
				s.answer = func(ctx context.Context, call int) (chat.Usage, error) {
					select {
					case <-time.After(time.Minute):
					case <-ctx.Done():
						return chat.Usage{}, &model.Error{Kind: model.KindCancelled, Err: ctx.Err()}
					}
					return chat.Usage{PromptTokens: 100}, nil
				}
				h := shop(t, s, func(o *env.Options) {
					o.Config.BudgetTokens, o.Config.MaxEvalWorkers, o.Drain = 550, 4, drain
				})
				// Four take a minute; the fifth is admitted then, and the sixth waits when the signal comes.
				time.AfterFunc(90*time.Second, func() { stop(drain, cancel) })
				_, recs, err := h.run(ctx, config.Evaluate, &counting{items: 20})
				require.ErrorIs(t, err, env.ErrInterrupted)
				require.Len(t, recs, 5)
				require.Len(t, h.observer.warnings, 1, "%q", h.observer.warnings)
				require.Contains(t, h.observer.warnings[0], "still under way")
			})
		})
	}
}

// withoutMember removes the lines of indented JSON that begin with a key.
func withoutMember(text, key string) string {
	var kept []string
	for _, line := range strings.Split(text, "\n") {
		if !strings.HasPrefix(strings.TrimSpace(line), key) {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, "\n")
}
