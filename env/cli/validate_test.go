package cli_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"github.com/hermes-env/hermes-env/agentloop"
	"github.com/hermes-env/hermes-env/agentloop/chat"
	"github.com/hermes-env/hermes-env/env"
	"github.com/hermes-env/hermes-env/env/cli"
	"github.com/hermes-env/hermes-env/env/config"
	"github.com/hermes-env/hermes-env/toolcontext"
)

// exam is an environment with one item of each kind, named after it.
type exam struct {
	kinds   []string
	next    int
	tosses  *atomic.Int64 // of the flaky item's verifier
	oracles *atomic.Int64 // solutions carried out
	reached func()        // called by every solution; may be nil
	version string        // part of every item's content
}

type examConfig struct {
	Kinds []string `yaml:"kinds" help:"items to have"`
}

func (e *exam) Name() string                { return "exam" }
func (e *exam) Setup(context.Context) error { return nil }

func (e *exam) item(kind string) (env.Item, error) { return env.NewItem(kind, kind+e.version) }

func (e *exam) NextItem(context.Context) (env.Item, error) {
	if e.next == len(e.kinds) {
		return env.Item{}, io.EOF
	}
	e.next++
	return e.item(e.kinds[e.next-1])
}

func (e *exam) FormatPrompt(item env.Item) ([]chat.Message, error) {
	return []chat.Message{chat.User("be " + item.ID)}, nil
}

func (e *exam) Oracle(ctx context.Context, item env.Item, tc *toolcontext.Context) error {
	e.oracles.Add(1)
	if e.reached != nil {
		e.reached()
	}
	if item.ID == "solution-fails" {
		return errors.New("exit code 3: no such tool")
	}
	_, err := tc.Terminal(ctx, "echo yes > ~/answer", 0)
	return err
}

func (e *exam) HasSolution(item env.Item) bool { return item.ID != "unsolved" }

func (e *exam) Reward(ctx context.Context, item env.Item, _ *agentloop.Result, tc *toolcontext.Context) (env.Score, error) {
	answer, err := tc.Terminal(ctx, "cat ~/answer 2>/dev/null", 0)
	if err != nil {
		return env.Score{}, err
	}
	done := strings.TrimSpace(answer.Output) == "yes"
	score := env.Score{Details: []byte(`{"test_stdout":"\u001b[31mred\u001b[0m\nlast line"}`)}
	if done {
		score.Value = 1
	}
	switch item.ID {
	case "broken":
		score.Value = 0
	case "trivial":
		score.Value = 1
	case "flaky":
		if done && e.tosses.Add(1)%2 == 0 {
			score.Value = 0
		}
	case "crashing":
		return score, &env.VerifierError{Class: "RewardFileNotFoundError", Err: errors.New("there is no reward")}
	}
	return score, nil
}

// heldOut is an exam with a held-out set.
type heldOut struct{ *exam }

func (e heldOut) EvalItems(context.Context) iter.Seq2[env.Item, error] {
	return func(yield func(env.Item, error) bool) {
		for _, kind := range e.kinds {
			if !yield(e.item(kind)) {
				return
			}
		}
	}
}

// withoutOracle is an exam without solutions.
type withoutOracle struct{ env.Environment }

// examiner runs commands on exams.
type examiner struct {
	*program
	exam exam
	wrap func(*exam) env.Environment
}

func newExaminer(t *testing.T, kinds ...string) *examiner {
	x := &examiner{program: newProgram(t), wrap: func(e *exam) env.Environment { return heldOut{e} }}
	x.exam = exam{kinds: kinds, tosses: new(atomic.Int64), oracles: new(atomic.Int64)}
	x.env["XDG_DATA_HOME"] = filepath.Join(x.dir, "data")
	return x
}

func (x *examiner) run(args ...string) (code int, stdout, stderr string) {
	x.t.Helper()
	definition := env.Define("exam", "items of every kind", nil, func(_ config.Env, own examConfig) (env.Environment, error) {
		e := x.exam
		if own.Kinds != nil {
			e.kinds = own.Kinds
		}
		return x.wrap(&e), nil
	})
	var out, errs bytes.Buffer
	app := cli.App{
		Environments: []env.Definition{definition}, Stdout: &out, Stderr: &errs, Signals: x.signals,
		Getenv: func(name string) (string, bool) { v, ok := x.env[name]; return v, ok },
	}
	code = app.Run(context.Background(), args)
	return code, out.String(), errs.String()
}

// verdicts returns the kinds found by item, from a file.
func verdicts(t *testing.T, path string) map[string]string {
	found := map[string]string{}
	for _, line := range lines(t, path) {
		found[gjson.Get(line, "item_id").String()] = gjson.Get(line, "verdict").String()
	}
	return found
}

func TestValidateTellsSoundItemsFromOthers(t *testing.T) {
	for name, wrap := range map[string]func(*exam) env.Environment{
		"with a held-out set":   func(e *exam) env.Environment { return heldOut{e} },
		"with items handed out": func(e *exam) env.Environment { return e },
	} {
		t.Run(name, func(t *testing.T) {
			x := newExaminer(t, "sound", "broken", "trivial", "flaky", "crashing", "unsolved", "solution-fails")
			x.wrap = wrap
			code, stdout, stderr := x.run("validate", "--environment", "exam", "--repeat", "4", "--run-dir", "out", "--env.max_eval_workers", "1")
			require.Equal(t, cli.ExitUnsound, code, stderr)
			want := map[string]string{"sound": "sound", "broken": "broken", "trivial": "trivial", "flaky": "flaky",
				"crashing": "error", "unsolved": "unverifiable", "solution-fails": "broken"}
			require.Equal(t, want, verdicts(t, "out/validations.jsonl"))
			require.Equal(t, want, verdicts(t, "data/hermes-env/validations.jsonl"))
			require.Equal(t, int64(4*6), x.exam.oracles.Load(), "an item without solution is not tried")
			require.Contains(t, stdout, "1 sound, 2 broken, 1 trivial, 1 flaky, 1 error, 1 unverifiable")
			require.Contains(t, stdout, "2 × not passed, 2 × passed")
			require.Contains(t, stdout, "exit code 3: no such tool")
			require.Contains(t, stdout, "| last line")
			require.NotContains(t, stdout, "\x1b", "what a sandbox printed does not steer the terminal")
			require.Contains(t, stderr, "5 of 7 items are not sound")
		})
	}
}

func TestValidatingSoundItemsSucceeds(t *testing.T) {
	x := newExaminer(t, "sound", "unsolved")
	code, stdout, stderr := x.run("validate", "--environment", "exam", "--json")
	require.Equal(t, cli.ExitOK, code, stderr)
	last := strings.TrimSpace(stdout)
	last = last[strings.LastIndexByte(last, '\n')+1:]
	require.Equal(t, "validation", gjson.Get(last, "event").String())
	require.Equal(t, int64(1), gjson.Get(last, "counts.sound").Int())
	require.Equal(t, "[]", gjson.Get(last, "verdicts.0.reasons").Raw)
	require.Equal(t, int64(1), gjson.Get(last, "counts.unverifiable").Int())
	require.Equal(t, int64(1), gjson.Get(last, "verdicts.0.oracle.passed").Int())
	require.Equal(t, gjson.Null, gjson.Get(last, "verdicts.1.oracle").Type)
	require.Regexp(t, `^runs/validate-exam-\d{8}-\d{6}$`, gjson.Get(last, "run_dir").String())

	code, _, stderr = x.run("validate", "--environment", "exam", "--strict")
	require.Equal(t, cli.ExitUnsound, code)
	require.Contains(t, stderr, "1 of 2 items are not sound")
}

func TestWithoutAnySolutionOnlyNobodyIsTried(t *testing.T) {
	x := newExaminer(t, "sound", "trivial")
	x.wrap = func(e *exam) env.Environment { return withoutOracle{e} }
	code, _, stderr := x.run("validate", "--environment", "exam", "--run-dir", "out")
	require.Equal(t, cli.ExitUnsound, code, stderr)
	require.Contains(t, stderr, "only doing nothing is tried")
	require.Equal(t, map[string]string{"sound": "unverifiable", "trivial": "trivial"}, verdicts(t, "out/validations.jsonl"))
}

func TestAnInterruptedValidationGoesOn(t *testing.T) {
	x := newExaminer(t, "sound", "broken", "trivial")
	x.exam.reached = func() {
		if x.exam.oracles.Load() == 2 {
			x.signals <- syscall.SIGINT
			time.Sleep(50 * time.Millisecond) // the signal arrives while this rollout runs
		}
	}
	args := []string{"validate", "--environment", "exam", "--run-dir", "out", "--env.max_eval_workers", "1"}
	code, stdout, stderr := x.run(args...)
	require.Equal(t, cli.ExitInterrupted, code, stderr)
	require.Contains(t, stdout, "not finished")
	require.Contains(t, stderr, "validate --environment exam --env.max_eval_workers=1 --repeat 1 --run-dir out --resume")
	begun := x.exam.oracles.Load()
	require.Less(t, begun, int64(3))
	require.NoFileExists(t, "out/validations.jsonl")

	code, _, stderr = x.run(args...)
	require.Equal(t, cli.ExitUsage, code)
	require.Contains(t, stderr, "add --resume")

	x.exam.reached = nil
	code, _, stderr = x.run(append(args, "--resume")...)
	require.Equal(t, cli.ExitUnsound, code, stderr)
	require.Equal(t, int64(3), x.exam.oracles.Load(), "what was finished is not done again")
	require.Equal(t, map[string]string{"sound": "sound", "broken": "broken", "trivial": "trivial"}, verdicts(t, "out/validations.jsonl"))

	code, _, stderr = x.run(append(args, "--resume", "--repeat", "3")...)
	require.Equal(t, cli.ExitUnsound, code, stderr)
	require.Equal(t, int64(9), x.exam.oracles.Load(), "more repeats add to those there are")
}

func TestValidateRefusesWhatItCanNotDo(t *testing.T) {
	x := newExaminer(t, "sound")
	require.NoError(t, os.MkdirAll("full", 0o755))
	require.NoError(t, os.WriteFile("full/notes.txt", nil, 0o644))
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"no attempts":               {[]string{"--repeat", "0"}, "at least one attempt"},
		"an agent":                  {[]string{"--agent", "nop"}, "leave the flag out"},
		"attempts by another name":  {[]string{"--env.attempts", "3"}, "--repeat"},
		"nothing to resume":         {[]string{"--resume"}, "--run-dir"},
		"a directory without a run": {[]string{"--resume", "--run-dir", "full"}, "holds no validation"},
		"a directory in use":        {[]string{"--run-dir", "full"}, "notes.txt"},
		"an unknown field":          {[]string{"--env.kind", "x"}, "kind"},
	} {
		t.Run(name, func(t *testing.T) {
			code, _, stderr := x.run(slices.Concat([]string{"validate", "--environment", "exam"}, test.args)...)
			require.Equal(t, cli.ExitUsage, code)
			require.Contains(t, stderr, test.want)
		})
	}
	require.Zero(t, x.exam.oracles.Load())
}

func TestEvaluateWarnsOfUnsoundItemsAndLeavesThemOutWhenAsked(t *testing.T) {
	x := newExaminer(t, "sound", "broken", "trivial")
	code, _, stderr := x.run("validate", "--environment", "exam", "--run-dir", "checked")
	require.Equal(t, cli.ExitUnsound, code, stderr)
	evaluate := []string{"evaluate", "--environment", "exam", "--agent", "nop"}

	code, stdout, stderr := x.run(append(evaluate, "--run-dir", "all")...)
	require.Equal(t, cli.ExitOK, code, stderr)
	require.Contains(t, stderr, "warning: validate found 2 items of this set unsound on "+time.Now().UTC().Format(time.DateOnly)+" (1 broken, 1 trivial): broken, trivial; env.skip_unsound leaves them out; see "+filepath.Join(x.dir, "data"))
	require.Contains(t, stdout, "3: 3 scored")
	require.NoFileExists(t, "all/skipped.jsonl")

	skip := append(evaluate, "--env.skip_unsound", "--run-dir", "some")
	code, stdout, stderr = x.run(skip...)
	require.Equal(t, cli.ExitOK, code, stderr)
	require.Contains(t, stdout, "1: 1 scored")
	require.Contains(t, stderr, "they are left out")
	require.Contains(t, stderr, "[1/1]")
	require.Len(t, lines(t, "some/skipped.jsonl"), 2)
	metrics, err := os.ReadFile("some/metrics.json")
	require.NoError(t, err)
	require.Equal(t, int64(2), gjson.GetBytes(metrics, "results.all.eval/skipped_unsound_items").Int())

	// A run goes on as it began, whatever became known since.
	require.NoError(t, os.RemoveAll("data"))
	code, stdout, stderr = x.run(append(skip, "--resume")...)
	require.Equal(t, cli.ExitOK, code, stderr)
	require.Contains(t, stdout, "1: 1 scored")

	// An item that changed is another item.
	code, _, stderr = x.run("validate", "--environment", "exam", "--run-dir", "again")
	require.Equal(t, cli.ExitUnsound, code, stderr)
	x.exam.version = "2"
	code, _, stderr = x.run(append(evaluate, "--run-dir", "changed")...)
	require.Equal(t, cli.ExitOK, code, stderr)
	require.NotContains(t, stderr, "unsound")
}

func TestNoItemsLeftToEvaluateIsAnError(t *testing.T) {
	x := newExaminer(t, "broken")
	code, _, stderr := x.run("validate", "--environment", "exam", "--run-dir", "checked")
	require.Equal(t, cli.ExitUnsound, code, stderr)
	code, _, stderr = x.run("evaluate", "--environment", "exam", "--agent", "nop", "--env.skip_unsound", "--run-dir", "none")
	require.Equal(t, cli.ExitUsage, code)
	require.Contains(t, stderr, "no item is left to run")
	require.NoDirExists(t, "none")
}

func TestADamagedFileOfVerdictsKeepsNobodyFromEvaluating(t *testing.T) {
	x := newExaminer(t, "sound")
	require.NoError(t, os.MkdirAll("data/hermes-env", 0o755))
	require.NoError(t, os.WriteFile("data/hermes-env/validations.jsonl", []byte("{]\n"), 0o644))
	code, _, stderr := x.run("evaluate", "--environment", "exam", "--agent", "nop", "--run-dir", "out")
	require.Equal(t, cli.ExitOK, code, stderr)
	require.Contains(t, stderr, "1 lines of "+fmt.Sprint(filepath.Join(x.dir, "data", "hermes-env", "validations.jsonl"))+" are no verdicts")
}
