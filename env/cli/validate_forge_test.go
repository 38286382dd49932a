package cli_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"github.com/hermes-env/hermes-env/env"
	"github.com/hermes-env/hermes-env/env/cli"
	"github.com/hermes-env/hermes-env/toolcontext"
)

// forgeableExam is an exam with forgeries. Its verifier believes all but those of the item
// "sound".
type forgeableExam struct{ heldOut }

func (e forgeableExam) Forgeries(item env.Item) []env.Forgery {
	list := []env.Forgery{{Name: "lie", Summary: "Says that all is well."}, {Name: "hope", Summary: "Does nothing."}, {Name: "control", Summary: "Tries nothing."}, {Name: "sabotage", Summary: "Needs a tool.", Control: "control"}}
	if item.ID == "sound" {
		return list[1:]
	}
	return list
}

func (e forgeableExam) Forge(ctx context.Context, item env.Item, _ int, f env.Forgery, tc *toolcontext.Context) error {
	switch f.Name {
	case "sabotage":
		return errors.New("it needs gdb, which the sandbox lacks")
	case "lie":
		_, err := tc.Terminal(ctx, "echo yes > ~/answer", 0)
		return err
	}
	return nil
}

func TestValidateAdversarial_NamesForgeriesThatPass(t *testing.T) {
	x := newExaminer(t, "sound", "believing", "unsolved", "trivial")
	x.wrap = func(e *exam) env.Environment { return forgeableExam{heldOut{e}} }
	args := []string{"validate", "--environment", "exam", "--adversarial", "--run-dir", "out"}
	code, stdout, stderr := x.run(args...)
	require.Equal(t, cli.ExitUnsound, code, stderr)
	require.Equal(t, map[string]string{"sound": "sound", "believing": "forgeable", "unsolved": "forgeable", "trivial": "trivial"}, verdicts(t, "out/validations.jsonl"))
	require.Contains(t, stdout, "believing is forgeable")
	require.Contains(t, stdout, "1 of 4 forgeries get a passing reward without a trace: lie")
	require.Contains(t, stdout, "1 sound, 1 trivial, 2 forgeable")
	require.Contains(t, stderr, "3 of 4 items are not sound")
	results := map[string]string{}
	for _, line := range lines(t, "out/validations.jsonl") {
		for _, f := range gjson.Get(line, "forgeries").Array() {
			results[gjson.Get(line, "item_id").String()+" "+f.Get("name").String()] = f.Get("result").String()
		}
	}
	require.Equal(t, "passed", results["believing lie"])
	require.Equal(t, "stopped", results["believing hope"])
	require.Equal(t, "not_tried", results["believing sabotage"])
	require.Equal(t, "not_tried", results["trivial lie"])
	require.NotContains(t, results, "sound lie")
	require.Len(t, lines(t, "out/forger/rollouts.jsonl"), 15, "each forgery once, as many as an item has")

	// What is finished is not done again.
	code, stdout, stderr = x.run(append(args, "--resume")...)
	require.Equal(t, cli.ExitUnsound, code, stderr)
	require.Contains(t, stdout, "2 forgeable")
	require.Len(t, lines(t, "out/forger/rollouts.jsonl"), 15)

	// evaluate knows of it.
	_, _, stderr = x.run("evaluate", "--environment", "exam", "--agent", "nop", "--env.skip_unsound", "--run-dir", "some")
	require.Contains(t, strings.ReplaceAll(stderr, "\n", " "), "2 forgeable")
}

func TestValidateAdversarial_NeedsForgeries(t *testing.T) {
	x := newExaminer(t, "sound")
	code, _, stderr := x.run("validate", "--environment", "exam", "--adversarial")
	require.Equal(t, cli.ExitUsage, code)
	require.Contains(t, stderr, "environment exam has no forgeries to try; leave the flag out")
}
