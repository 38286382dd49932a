package terminaltest

import (
	"context"
	_ "embed"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/hermes-env/hermes-env/agentloop"
	"github.com/hermes-env/hermes-env/agentloop/chat"
	"github.com/hermes-env/hermes-env/env"
	"github.com/hermes-env/hermes-env/env/config"
	"github.com/hermes-env/hermes-env/internal/textutil"
	"github.com/hermes-env/hermes-env/toolcontext"
)

const name = "terminal-test"

//go:embed replay.yaml
var replayScript []byte

// Config is the environment's own part of the env section.
type Config struct {
	EvalItems string `yaml:"eval_items" default:"held_out" choices:"held_out,all" mode:"evaluate" help:"tasks that evaluate runs: the held-out one, or all four"`
}

// Definition describes terminal-test to the command line.
func Definition() env.Definition {
	d := env.Define(name, "inline tasks that write a small file: checks that model, loop, tools, sandbox and verifier work together",
		func(common *config.Env, _ *Config) {
			common.EnabledToolsets = []string{"terminal", "file"}
			common.MaxAgentTurns = 10
			common.MaxTokenLength = 16000
			common.GroupSize = 3
			common.TotalSteps = 3
		},
		func(_ config.Env, own Config) (env.Environment, error) {
			return &Environment{evalAll: own.EvalItems == "all"}, nil
		})
	d.Replay = replayScript
	d.Aliases = []string{"terminal_test_env", "terminal_test"}
	return d
}

// Environment hands out the inline tasks: three for training over and over, one held out.
type Environment struct {
	evalAll bool
	next    int
}

var (
	_ env.Evaluator  = (*Environment)(nil)
	_ env.Sizer      = (*Environment)(nil)
	_ env.Aggregator = (*Environment)(nil)
	_ env.Oracle     = (*Environment)(nil)
)

// Name returns terminal-test.
func (e *Environment) Name() string { return name }

// Setup has nothing to do: the tasks are built in.
func (e *Environment) Setup(context.Context) error { return nil }

// NextItem returns the training tasks in turn, without end.
func (e *Environment) NextItem(context.Context) (env.Item, error) {
	tasks := trainTasks()
	task := tasks[e.next%len(tasks)]
	e.next++
	return env.NewItem(task.ID, task)
}

// EvalItems yields the tasks of evaluate.
func (e *Environment) EvalItems(context.Context) iter.Seq2[env.Item, error] {
	return func(yield func(env.Item, error) bool) {
		for _, task := range e.evalTasks() {
			if !yield(env.NewItem(task.ID, task)) {
				return
			}
		}
	}
}

// EvalSize returns how many tasks evaluate runs.
func (e *Environment) EvalSize() int { return len(e.evalTasks()) }

func (e *Environment) evalTasks() []Task {
	if e.evalAll {
		return append(trainTasks(), evalTasks()...)
	}
	return evalTasks()
}

// FormatPrompt returns the task as the user's message.
func (e *Environment) FormatPrompt(item env.Item) ([]chat.Message, error) {
	return []chat.Message{chat.User(item.Value.(Task).Prompt)}, nil
}

// verifyLimit bounds the bytes of the file that are compared; every expected content is far shorter.
const verifyLimit = 65536

// Reward reads the file in the sandbox: 1 when its trimmed content is the
// expected one, 0.5 when it merely contains it, 0 otherwise or without a file.
func (e *Environment) Reward(ctx context.Context, item env.Item, _ *agentloop.Result, tc *toolcontext.Context) (env.Score, error) {
	task := item.Value.(Task)
	// A regular file only: reading a pipe the agent left there would wait for ever.
	read, err := tc.Terminal(ctx, fmt.Sprintf("[ -f %[1]s ] && head -c %[2]d %[1]s", task.Path, verifyLimit), time.Minute)
	if err != nil {
		return env.Score{}, err
	}
	if read.TimedOut || read.Error != nil {
		return env.Score{}, fmt.Errorf("read %s: exit code %d: %s", task.Path, read.ExitCode, read.Output)
	}
	if read.ExitCode != 0 {
		return env.Score{Value: 0}, nil
	}
	return env.Score{Value: grade(read.Output, task.Expected)}, nil
}

func grade(content, expected string) float64 {
	switch {
	case strings.TrimSpace(content) == strings.TrimSpace(expected):
		return 1
	case strings.Contains(content, expected):
		return 0.5
	}
	return 0
}

// Oracle writes the expected file.
func (e *Environment) Oracle(ctx context.Context, item env.Item, tc *toolcontext.Context) error {
	task := item.Value.(Task)
	result, err := tc.Terminal(ctx, fmt.Sprintf("printf '%%s\\n' %s > %s", textutil.ShellQuote(task.Expected), task.Path), time.Minute)
	if err != nil {
		return err
	}
	if result.ExitCode != 0 {
		return fmt.Errorf("write %s: exit code %d: %s", task.Path, result.ExitCode, result.Output)
	}
	return nil
}

// Aggregate adds the original's metrics: shares of exact and partial matches.
func (e *Environment) Aggregate(records iter.Seq[env.Record]) []env.Metric {
	all, scored, exact, partial, sum := 0, 0, 0, 0, 0.0
	for r := range records {
		all++
		if r.Score == nil {
			continue
		}
		scored++
		sum += *r.Score
		switch {
		case *r.Score == 1:
			exact++
		case *r.Score > 0:
			partial++
		}
	}
	metrics := []env.Metric{{Name: "eval/num_samples", Value: float64(scored)}}
	if scored > 0 {
		n := float64(scored)
		metrics = append(metrics,
			env.Metric{Name: "train/avg_reward", Value: sum / n},
			env.Metric{Name: "train/accuracy", Value: float64(exact) / n},
			env.Metric{Name: "train/partial_match_rate", Value: float64(partial) / n},
			env.Metric{Name: "train/total_rollouts", Value: float64(all)},
		)
	}
	return metrics
}
