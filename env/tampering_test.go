package env_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"github.com/hermes-env/hermes-env/agentloop"
	"github.com/hermes-env/hermes-env/agentloop/model/modeltest"
	"github.com/hermes-env/hermes-env/env"
	"github.com/hermes-env/hermes-env/env/config"
	"github.com/hermes-env/hermes-env/toolcontext"
	"github.com/hermes-env/hermes-env/trajectories"
)

var (
	acted = trajectories.Tampering{Kind: "reward_write", Target: "/logs/verifier/reward.txt", Detail: "written by pid 7", Active: true}
	noted = trajectories.Tampering{Kind: "replaced", Target: "/usr/bin/curl"}
)

// verified runs one rollout whose verification gives a score or an error.
func verified(t *testing.T, policy string, score env.Score, failure error) (*env.Summary, *trajectories.Rollout) {
	t.Helper()
	h := newHarness(t, modeltest.Always(modeltest.Text("done")))
	h.change = func(o *env.Options) { o.Config.OnTampering = policy }
	e := &counting{items: 1}
	e.reward = func(context.Context, env.Item, *agentloop.Result, *toolcontext.Context) (env.Score, error) {
		return score, failure
	}
	summary, rollouts, err := h.run(t.Context(), config.Evaluate, e)
	require.NoError(t, err)
	require.Len(t, rollouts, 1)
	return summary, rollouts[0]
}

func TestRunner_AppliesOnTamperingToScores(t *testing.T) {
	score := env.Score{Value: 1, Parts: map[string]float64{"tests": 1}, Tampering: []trajectories.Tampering{noted, acted}, Details: []byte(`{"exit_code":0}`)}
	for _, policy := range []string{"", config.TamperingKeep} {
		_, r := verified(t, policy, score, nil)
		require.Equal(t, trajectories.OutcomeScored, r.Outcome)
		require.Equal(t, 1.0, *r.Score)
		require.True(t, *r.Passed)
		require.Nil(t, r.Error)
		require.Equal(t, []trajectories.Tampering{noted, acted}, r.Tampering)
		require.False(t, gjson.GetBytes(r.Metadata, "untrusted_score").Exists())
	}

	_, r := verified(t, config.TamperingZero, score, nil)
	require.Equal(t, trajectories.OutcomeScored, r.Outcome)
	require.Zero(t, *r.Score)
	require.False(t, *r.Passed)
	require.Empty(t, r.ScoreParts)
	require.JSONEq(t, `{"verifier":{"exit_code":0},"untrusted_score":1,"untrusted_score_parts":{"tests":1}}`, string(r.Metadata))
	require.Equal(t, env.ClassTampered, r.Error.Class)
	require.Equal(t, "the score 1 counts as 0 (env.on_tampering zero), because the agent tampered with the verification: reward_write /logs/verifier/reward.txt (written by pid 7)", r.Error.Message)
	require.Equal(t, []trajectories.Tampering{noted, acted}, r.Tampering)

	_, r = verified(t, config.TamperingUnscored, score, nil)
	require.Equal(t, trajectories.OutcomeVerifierError, r.Outcome)
	require.Nil(t, r.Score)
	require.Nil(t, r.Passed)
	require.Equal(t, env.ClassTampered, r.Error.Class)
	require.Contains(t, r.Error.Message, "the score 1 does not count (env.on_tampering unscored)")
	require.Equal(t, 1.0, gjson.GetBytes(r.Metadata, "untrusted_score").Num)
	require.Equal(t, []trajectories.Tampering{noted, acted}, r.Tampering)
}

func TestRunner_KeepsAScoreOfZeroOfATamperedRollout(t *testing.T) {
	for _, policy := range []string{config.TamperingKeep, config.TamperingZero, config.TamperingUnscored} {
		for _, value := range []float64{0, -1} {
			_, r := verified(t, policy, env.Score{Value: value, Tampering: []trajectories.Tampering{acted}}, nil)
			require.Equal(t, trajectories.OutcomeScored, r.Outcome, policy)
			require.Equal(t, value, *r.Score, policy)
			require.False(t, *r.Passed, policy)
			require.Equal(t, []trajectories.Tampering{acted}, r.Tampering)
		}
	}
}

func TestRunner_LeavesScoresAloneWhereTamperingIsOnlyNoted(t *testing.T) {
	for _, policy := range []string{config.TamperingKeep, config.TamperingZero, config.TamperingUnscored} {
		_, r := verified(t, policy, env.Score{Value: 1, Tampering: []trajectories.Tampering{noted}}, nil)
		require.Equal(t, trajectories.OutcomeScored, r.Outcome)
		require.Equal(t, 1.0, *r.Score, policy)
		require.Equal(t, []trajectories.Tampering{noted}, r.Tampering)
		require.Empty(t, r.Metadata)
	}
}

func TestRunner_PassesNoTamperedRolloutWhoseZeroWouldPass(t *testing.T) {
	yes := true
	h := newHarness(t, modeltest.Always(modeltest.Text("done")))
	h.change = func(o *env.Options) { o.Config.OnTampering, o.Config.PassThreshold = config.TamperingZero, 0 }
	e := &counting{items: 1}
	e.reward = func(context.Context, env.Item, *agentloop.Result, *toolcontext.Context) (env.Score, error) {
		return env.Score{Value: 1, Passed: &yes, Tampering: []trajectories.Tampering{acted}}, nil
	}
	_, rollouts, err := h.run(t.Context(), config.Evaluate, e)
	require.NoError(t, err)
	require.False(t, *rollouts[0].Passed)
}

func TestRunner_NeverScoresAFailureOfTheVerifierAboveZero(t *testing.T) {
	fail := func(class string, infrastructure bool, found ...trajectories.Tampering) error {
		return &env.VerifierError{Class: class, Infrastructure: infrastructure, Err: errors.New("no reward that can be trusted"), Tampering: found}
	}
	for name, c := range map[string]struct {
		err      error
		outcomes [3]trajectories.Outcome // of keep, zero and unscored
	}{
		"tampered":                      {fail(env.ClassTampered, false, acted), [3]trajectories.Outcome{"verifier_error", "scored", "verifier_error"}},
		"tampered, noted only":          {fail(env.ClassTampered, false, noted), [3]trajectories.Outcome{"verifier_error", "scored", "verifier_error"}},
		"tampered without entries":      {fail(env.ClassTampered, false), [3]trajectories.Outcome{"verifier_error", "verifier_error", "verifier_error"}},
		"another class with an entry":   {fail("VerifierTimeoutError", false, acted), [3]trajectories.Outcome{"verifier_error", "scored", "verifier_error"}},
		"another class with a note":     {fail("VerifierTimeoutError", false, noted), [3]trajectories.Outcome{"verifier_error", "verifier_error", "verifier_error"}},
		"trouble of the infrastructure": {fail("verifier_setup", true, acted), [3]trajectories.Outcome{"sandbox_error", "sandbox_error", "sandbox_error"}},
	} {
		for i, policy := range []string{config.TamperingKeep, config.TamperingZero, config.TamperingUnscored} {
			t.Run(name+" "+policy, func(t *testing.T) {
				t.Parallel()
				_, r := verified(t, policy, env.Score{Value: 1}, c.err)
				require.Equal(t, c.outcomes[i], r.Outcome)
				if r.Outcome == trajectories.OutcomeScored {
					require.Zero(t, *r.Score)
					require.False(t, *r.Passed)
					require.Equal(t, env.ClassTampered, r.Error.Class)
					require.Contains(t, r.Error.Message, "the failure to score counts as 0: no reward that can be trusted (env.on_tampering zero)")
				} else {
					require.Nil(t, r.Score)
				}
				var failure *env.VerifierError
				require.ErrorAs(t, c.err, &failure)
				require.Equal(t, failure.Tampering, r.Tampering)
			})
		}
	}
}

func TestRunner_RecordsTheTamperingOfAllStages(t *testing.T) {
	for policy, want := range map[string]trajectories.Outcome{config.TamperingKeep: "verifier_error", config.TamperingZero: "scored"} {
		h := newHarness(t, modeltest.Always(modeltest.Text("done")))
		e := &staged{counting: counting{items: 1}}
		e.reward2 = func(_ context.Context, stage int, _ *agentloop.Result, _ *toolcontext.Context) (env.Score, error) {
			if stage == 1 {
				return env.Score{}, errors.New("crashed")
			}
			return env.Score{Value: 1, Tampering: []trajectories.Tampering{acted}}, nil
		}
		h.change = func(o *env.Options) { o.Environment, o.Config.OnTampering = e, policy }
		_, rollouts, err := h.run(t.Context(), config.Evaluate, &e.counting)
		require.NoError(t, err)
		require.Equal(t, want, rollouts[0].Outcome, policy)
		require.Equal(t, []trajectories.Tampering{acted}, rollouts[0].Tampering)
	}

	h := newHarness(t, modeltest.Always(modeltest.Text("done")))
	e := &staged{counting: counting{items: 1}}
	e.reward2 = func(_ context.Context, stage int, _ *agentloop.Result, _ *toolcontext.Context) (env.Score, error) {
		if stage == 0 {
			return env.Score{Value: 1, Tampering: []trajectories.Tampering{acted}}, nil
		}
		var many []trajectories.Tampering
		for i := range 60 {
			many = append(many, trajectories.Tampering{Kind: "shadows", Target: fmt.Sprint(i)})
		}
		return env.Score{Value: 0.5, Tampering: many}, nil
	}
	h.change = func(o *env.Options) { o.Environment, o.Config.OnTampering = e, config.TamperingUnscored }
	_, rollouts, err := h.run(t.Context(), config.Evaluate, &e.counting)
	require.NoError(t, err)
	r := rollouts[0]
	require.Equal(t, trajectories.OutcomeVerifierError, r.Outcome, "one stage is enough")
	require.Len(t, r.Tampering, trajectories.MaxTampering)
	require.Equal(t, acted, r.Tampering[0])
	require.Equal(t, "12 more entries: shadows ×12", r.Tampering[trajectories.MaxTampering-1].Detail)
	require.Equal(t, 0.75, gjson.GetBytes(r.Metadata, "untrusted_score").Num)
	require.Equal(t, 1.0, gjson.GetBytes(r.Metadata, "stages.0.score").Num)
}

func TestSummary_CountsTampering(t *testing.T) {
	metric := func(s *env.Summary) map[string]float64 {
		m := map[string]float64{}
		for _, one := range s.Metrics {
			if strings.Contains(one.Name, "tamper") {
				m[one.Name] = one.Value
			}
		}
		return m
	}
	h := newHarness(t, modeltest.Always(modeltest.Text("done")))
	h.change = func(o *env.Options) { o.Config.Attempts = 2 }
	e := &counting{items: 4}
	patched := trajectories.Tampering{Kind: "patched", Target: "/usr/bin/pytest", Active: true}
	found := map[string][]trajectories.Tampering{"item-0": {acted, patched, noted}, "item-1": {acted, acted}, "item-2": {noted}}
	e.reward = func(_ context.Context, item env.Item, _ *agentloop.Result, _ *toolcontext.Context) (env.Score, error) {
		return env.Score{Value: 1, Tampering: found[item.ID]}, nil
	}
	summary, _, err := h.run(t.Context(), config.Evaluate, e)
	require.NoError(t, err)
	got := summary.Tampering
	require.Equal(t, 4, got.Rollouts)
	require.Equal(t, 2, got.Items)
	require.Equal(t, 2, got.Noted)
	require.Len(t, got.Kinds, 2)
	require.Equal(t, "reward_write", got.Kinds[0].Kind)
	require.Equal(t, 4, got.Kinds[0].Rollouts)
	require.Equal(t, []string{"item-0", "item-1"}, got.Kinds[0].Items)
	require.Equal(t, env.TamperingKind{Kind: "patched", Rollouts: 2, Items: []string{"item-0"}}, got.Kinds[1])
	require.Equal(t, []env.TamperingKind{{Kind: "replaced", Rollouts: 2, Items: []string{"item-2"}}}, got.Notes, "rollouts that also acted are not counted twice")
	want := map[string]float64{"eval/tampered": 4, "eval/tampered/reward_write": 4, "eval/tampered/patched": 2, "eval/tampering_noted": 2, "eval/tampering_noted/replaced": 2}
	require.Equal(t, want, metric(summary))

	h.resume = true
	summary, _, err = h.run(t.Context(), config.Evaluate, &counting{items: 4})
	require.NoError(t, err)
	require.Equal(t, want, metric(summary), "of the whole run, earlier sessions included")
	require.Equal(t, got.Rollouts, summary.Tampering.Rollouts)

	h = newHarness(t, modeltest.Always(modeltest.Text("done")))
	summary, _, err = h.run(t.Context(), config.Evaluate, &counting{items: 1})
	require.NoError(t, err)
	require.Equal(t, map[string]float64{"eval/tampered": 0, "eval/tampering_noted": 0}, metric(summary))
	require.Zero(t, summary.Tampering.Items)
}

func TestRunner_KeepsTamperedRolloutsOutOfGroups(t *testing.T) {
	for policy, want := range map[string]int{config.TamperingUnscored: 0, config.TamperingZero: 1} {
		h := newHarness(t, modeltest.Always(modeltest.Text("done")))
		sink := &memorySink{groups: map[int]trajectories.Group{}}
		h.change = func(o *env.Options) { o.Config.OnTampering, o.Groups = policy, sink }
		e, first := &counting{items: 1}, atomic.Bool{}
		e.reward = func(context.Context, env.Item, *agentloop.Result, *toolcontext.Context) (env.Score, error) {
			if first.CompareAndSwap(false, true) {
				return env.Score{Value: 1, Tampering: []trajectories.Tampering{acted}}, nil
			}
			return env.Score{Value: 0.5}, nil
		}
		_, _, err := h.run(t.Context(), config.Process, e)
		require.NoError(t, err)
		require.Len(t, sink.groups, want, policy)
		for _, g := range sink.groups {
			for _, s := range g.Sequences {
				require.Less(t, s.Score, 1.0)
			}
		}
	}
}
