package cli_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"github.com/hermes-env/hermes-env/agentloop"
	"github.com/hermes-env/hermes-env/env"
	"github.com/hermes-env/hermes-env/env/cli"
	"github.com/hermes-env/hermes-env/toolcontext"
	"github.com/hermes-env/hermes-env/trajectories"
)

// forgeable is an exam that finds tampering with the items forger and patcher, and
// something without effect with the item upgrader.
type forgeable struct{ heldOut }

func (e forgeable) Reward(ctx context.Context, item env.Item, r *agentloop.Result, tc *toolcontext.Context) (env.Score, error) {
	if item.ID == "honest" {
		return e.heldOut.Reward(ctx, item, r, tc)
	}
	score := env.Score{Value: 1}
	written := trajectories.Tampering{Kind: "reward_write", Target: "/logs/verifier/reward.txt", Detail: "written by pid 7", Active: true}
	switch item.ID {
	case "forger":
		score.Tampering = []trajectories.Tampering{written}
	case "patcher":
		score.Tampering = []trajectories.Tampering{written, {Kind: "patched", Target: "/usr/bin/pytest", Active: true}}
	case "upgrader":
		score.Tampering = []trajectories.Tampering{{Kind: "replaced", Target: "/usr/bin/curl", Detail: "by apt"}}
	}
	return score, nil
}

func newForgeable(t *testing.T, kinds ...string) *examiner {
	x := newExaminer(t, kinds...)
	x.wrap = func(e *exam) env.Environment { return forgeable{heldOut{e}} }
	return x
}

// metrics reads the figures of a run.
func metrics(t *testing.T, dir string) map[string]any {
	raw, err := os.ReadFile(filepath.Join(dir, "metrics.json"))
	require.NoError(t, err)
	var m struct{ Results map[string]map[string]any }
	require.NoError(t, json.Unmarshal(raw, &m))
	return m.Results["all"]
}

func TestEvaluate_SaysWhatAgentsDidToTheirVerification(t *testing.T) {
	x := newForgeable(t, "forger", "honest", "patcher", "upgrader")
	code, stdout, stderr := x.run("evaluate", "--agent", "oracle", "--env.attempts", "2", "--run-dir", "out", "--env.use_wandb")
	require.Equal(t, cli.ExitOK, code, stderr)
	require.Contains(t, stdout, "  tampering  4 rollouts in 2 items: reward_write ×4 (forger, patcher), patched ×2 (patcher)\n             → hermes-env stats out --tampered only\n")
	require.Contains(t, stdout, "             noted without effect in 2 more: replaced ×2 (upgrader)\n             → hermes-env stats out --tampered noted\n")
	require.Contains(t, stdout, "passed     pass@1 1.000", "evaluate keeps scores unless it is told otherwise")
	require.Contains(t, stderr, "tampered (patched, reward_write)")

	m := metrics(t, "out")
	for name, want := range map[string]float64{"eval/tampered": 4, "eval/tampered/reward_write": 4, "eval/tampered/patched": 2, "eval/tampering_noted": 2, "eval/tampering_noted/replaced": 2} {
		require.Equal(t, want, m[name], name)
	}
	logs := lines(t, "out/metrics.jsonl")
	last := gjson.Parse(logs[len(logs)-1])
	require.Equal(t, 4.0, last.Get(`eval/tampered`).Num, "the figures of the whole run")
	sum := 0.0
	for _, l := range logs {
		require.True(t, gjson.Get(l, "eval_window/tampering_noted").Exists())
		sum += gjson.Get(l, "eval_window/tampered/reward_write").Num
	}
	require.Equal(t, 4.0, sum)
	require.Equal(t, 2, strings.Count(strings.Join(lines(t, "out/samples.jsonl"), "\n"), `"kind":"patched"`))

	page, err := os.ReadFile("out/report.html")
	require.NoError(t, err)
	require.Contains(t, string(page), "The agent tampered with the verification in 4 rollouts of 2 items (reward_write ×4, patched ×2); their scores count as they are (env.on_tampering keep).")
	require.Contains(t, string(page), "<dt>tampered</dt>")

	code, stdout, stderr = x.run("evaluate", "--agent", "oracle", "--env.kinds", `["forger"]`, "--run-dir", "json", "--json")
	require.Equal(t, cli.ExitOK, code, stderr)
	require.Equal(t, `["reward_write"]`, event(t, stdout, "rollout").Get("tampered").Raw)
	require.JSONEq(t, `{"rollouts":1,"items":1,"kinds":[{"kind":"reward_write","rollouts":1,"items":["forger"]}],"noted_rollouts":0,"noted_kinds":[]}`, event(t, stdout, "summary").Get("tampering").Raw)

	code, stdout, _ = x.run("evaluate", "--agent", "oracle", "--env.kinds", `["honest"]`, "--run-dir", "clean")
	require.Equal(t, cli.ExitOK, code)
	require.NotContains(t, stdout, "tamper", "nothing was found")
	require.Equal(t, 0.0, metrics(t, "clean")["eval/tampered"])
	require.Equal(t, 0.0, metrics(t, "clean")["eval/tampering_noted"])
}

// event returns the last event of a kind.
func event(t *testing.T, stdout, kind string) gjson.Result {
	t.Helper()
	var found gjson.Result
	for _, line := range strings.Split(strings.TrimSpace(stdout), "\n") {
		if e := gjson.Parse(line); e.Get("event").String() == kind {
			found = e
		}
	}
	require.True(t, found.Exists(), "no event %s in %s", kind, stdout)
	return found
}

func TestCommands_AgreeOnTheDefaultOfOnTampering(t *testing.T) {
	x := newForgeable(t, "forger", "honest")
	code, _, stderr := x.run("process", "--agent", "oracle", "--env.group_size", "1", "--env.total_steps", "2", "--run-dir", "out", "--env.max_unscored", "1")
	require.Equal(t, cli.ExitOK, code, stderr)
	records := lines(t, "out/rollouts.jsonl")
	require.Len(t, records, 2)
	for _, l := range records {
		want := "scored"
		if gjson.Get(l, "item_id").String() == "forger" {
			want = "verifier_error"
			require.Equal(t, "tampered", gjson.Get(l, "error.class").String())
			require.Equal(t, 1.0, gjson.Get(l, "metadata.untrusted_score").Num)
		}
		require.Equal(t, want, gjson.Get(l, "outcome").String())
	}
	require.Equal(t, 1.0, metrics(t, "out")["train/tampered"])
	code, stdout, stderr := x.run("evaluate", "--agent", "oracle", "--env.on_tampering", "zero", "--run-dir", "zero")
	require.Equal(t, cli.ExitOK, code, stderr)
	require.Contains(t, stdout, "score      0.500")
	code, _, stderr = x.run("evaluate", "--agent", "oracle", "--env.on_tampering", "unscored", "--run-dir", "zero", "--resume")
	require.Equal(t, cli.ExitUsage, code, "it can affect results")
	require.Contains(t, stderr, `env.on_tampering: "zero" -> "unscored"`)
}

func TestRun_DoesNotAdviseToRetryTamperedRollouts(t *testing.T) {
	x := newForgeable(t, "forger", "honest")
	code, _, stderr := x.run("evaluate", "--agent", "oracle", "--env.on_tampering", "unscored", "--run-dir", "out")
	require.Equal(t, cli.ExitBelow, code, stderr)
	require.Contains(t, stderr, "don't trust the headline; in 1 of them the agent tampered with the verification (env.on_tampering zero scores such rollouts 0)")
	require.NotContains(t, stderr, "--retry-outcome")
	require.NotContains(t, stderr, "--resume")
}

func TestTamperedFlag_ChoosesRollouts(t *testing.T) {
	x := newForgeable(t, "forger", "honest", "patcher", "upgrader")
	code, _, stderr := x.run("evaluate", "--agent", "oracle", "--run-dir", "out", "--env.report", "never")
	require.Equal(t, cli.ExitOK, code, stderr)

	code, stdout, stderr := x.run("stats", "out")
	require.Equal(t, cli.ExitOK, code, stderr)
	require.Contains(t, stdout, "tampering    2 rows of 2 items: reward_write ×2, patched ×1; noted without effect in 1: replaced ×1\n")
	require.Contains(t, stdout, "    reward_write /logs/verifier/reward.txt (written by pid 7)\n    patched /usr/bin/pytest\n")
	require.Contains(t, stdout, "    noted: replaced /usr/bin/curl (by apt)\n")
	for filter, rows := range map[string]int64{"include": 4, "exclude": 2, "only": 2, "noted": 1} {
		for _, source := range []string{"out", "out/rollouts.jsonl"} {
			code, stdout, stderr = x.run("stats", source, "--json", "--tampered", filter)
			require.Equal(t, cli.ExitOK, code, stderr)
			require.Equal(t, rows, gjson.Get(stdout, "rows").Int(), filter)
			require.Equal(t, 4-rows, gjson.Get(stdout, "rows_skipped").Int(), filter)
		}
		code, _, stderr = x.run("report", "out", "--tampered", filter, "--out", "page.html")
		require.Equal(t, cli.ExitOK, code, stderr)
		page, err := os.ReadFile("page.html")
		require.NoError(t, err)
		require.EqualValues(t, rows, strings.Count(string(page), `<script type="text/plain"`), filter)
		require.Equal(t, filter != "include", strings.Contains(string(page), "(--tampered "+filter+")"))
	}
	for filter, want := range map[string]string{
		"only":    "Only the rollouts whose agent tampered with the verification are covered: 2 of 4 (--tampered only).",
		"exclude": "Only the rollouts whose agent did not tamper with the verification are covered: 2 of 4 (--tampered exclude).",
		"noted":   "Only the rollouts with tampering that was noted without effect are covered: 1 of 4 (--tampered noted).",
	} {
		code, _, stderr = x.run("report", "out", "--tampered", filter, "--out", "page.html")
		require.Equal(t, cli.ExitOK, code, stderr)
		require.Contains(t, stderr, "warning: "+want)
	}
	code, stdout, stderr = x.run("stats", "out", "--tampered", "exclude")
	require.Equal(t, cli.ExitOK, code, stderr)
	require.Contains(t, stdout, "rows         2 of 2 items; 2 left out (--tampered)\n")

	code, stdout, stderr = x.run("compare", "out", "out")
	require.Equal(t, cli.ExitOK, code, stderr)
	require.Contains(t, stdout, "the agent tampered with the verification in 2 rollouts of A and 2 of B, which count as they are scored; --tampered exclude leaves them out")
	code, stdout, stderr = x.run("compare", "out", "out", "--tampered", "exclude", "--json")
	require.Equal(t, cli.ExitOK, code, stderr)
	require.EqualValues(t, 2, gjson.Get(stdout, "paired.items").Int())
	require.JSONEq(t, `{"rollouts":2,"left_out":2}`, gjson.Get(stdout, "tampered_a").Raw)
	require.Contains(t, stdout, "only some rollouts are compared (--tampered exclude): 2 of A and 2 of B are left out")

	code, stdout, stderr = x.run("convert", "out", "--to", "messages", "--include-unanswered")
	require.Equal(t, cli.ExitOK, code, stderr)
	require.Contains(t, stdout, "out-messages: 2 rows of 4 rollouts")
	require.Contains(t, stdout, "2  tampered with the verification (--tampered include keeps them)")
	code, stdout, stderr = x.run("convert", "out", "--to", "messages", "--include-unanswered", "--tampered", "include", "--overwrite")
	require.Equal(t, cli.ExitOK, code, stderr)
	require.Contains(t, stdout, "out-messages: 4 rows of 4 rollouts")

	for _, args := range [][]string{{"stats", "out"}, {"report", "out"}, {"compare", "out", "out"}, {"convert", "out", "--to", "messages", "-o", "x"}} {
		code, _, stderr = x.run(append(args, "--tampered", "yes")...)
		require.Equal(t, cli.ExitUsage, code, args)
		require.Contains(t, stderr, `--tampered: "yes" is not a choice of rollouts: want include, exclude, only or noted`)
	}
	code, _, stderr = x.run("evaluate", "--agent", "oracle", "--env.kinds", `["honest"]`, "--run-dir", "clean")
	require.Equal(t, cli.ExitOK, code, stderr)
	code, _, stderr = x.run("stats", "clean", "--tampered", "only")
	require.Equal(t, cli.ExitUsage, code)
	require.Contains(t, stderr, "none of its 1 row is taken by --tampered only")
}

func TestValidate_TriesItemsWhoseSolutionTampers(t *testing.T) {
	x := newForgeable(t, "forger", "honest")
	code, _, stderr := x.run("validate", "--run-dir", "v")
	require.Equal(t, cli.ExitUnsound, code, stderr)
	require.Equal(t, map[string]string{"forger": "trivial", "honest": "sound"}, verdicts(t, "v/validations.jsonl"))
}
