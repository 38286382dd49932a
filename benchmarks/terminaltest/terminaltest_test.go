package terminaltest

import (
	"context"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/agentloop"
	"github.com/hermes-env/hermes-env/agentloop/model/replay"
	"github.com/hermes-env/hermes-env/env"
	"github.com/hermes-env/hermes-env/toolcontext"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox/local"
	"github.com/hermes-env/hermes-env/toolcontext/tools"
)

func TestTheTasksAreThreeForTrainingAndOneHeldOut(t *testing.T) {
	e := &Environment{}
	var ids []string
	for range 7 {
		item, err := e.NextItem(t.Context())
		require.NoError(t, err)
		ids = append(ids, item.ID)
	}
	require.Equal(t, []string{"greeting", "count", "sum", "greeting", "count", "sum", "greeting"}, ids)
	eval := func(e *Environment) (ids []string) {
		for item, err := range e.EvalItems(t.Context()) {
			require.NoError(t, err)
			ids = append(ids, item.ID)
		}
		require.Len(t, ids, e.EvalSize())
		return ids
	}
	require.Equal(t, []string{"product"}, eval(e))
	require.Equal(t, []string{"greeting", "count", "sum", "product"}, eval(&Environment{evalAll: true}))
}

// newContext makes the handle on a local sandbox as the runner does.
func newContext(t *testing.T) *toolcontext.Context {
	provider, err := local.New(local.Config{BaseDir: t.TempDir()})
	require.NoError(t, err)
	registry, err := tools.NewRegistry(tools.Builtin()...)
	require.NoError(t, err)
	tc, err := toolcontext.New(toolcontext.Config{Provider: provider, Registry: registry})
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, tc.Cleanup(context.Background()))
		require.NoError(t, provider.Close(context.Background()))
	})
	return tc
}

func countItem(t *testing.T) env.Item {
	item, err := env.NewItem("count", trainTasks()[1]) // 1 to 5, one per line
	require.NoError(t, err)
	return item
}

func TestRewardGivesPartialCreditForContentThatIsContained(t *testing.T) {
	tests := map[string]struct {
		agent string
		score float64
	}{
		"exact":                         {`printf '1\n2\n3\n4\n5\n' > ~/count.txt`, 1},
		"white space around it":         {`printf '\n 1\n2\n3\n4\n5 \n\n' > ~/count.txt`, 1},
		"more before it":                {`seq 0 5 > ~/count.txt`, 0.5},
		"more behind it":                {`seq 1 6 > ~/count.txt`, 0.5},
		"wrong":                         {`seq 5 -1 1 > ~/count.txt`, 0},
		"empty file":                    {`: > ~/count.txt`, 0},
		"no file":                       {`true`, 0},
		"a directory":                   {`mkdir ~/count.txt`, 0},
		"a pipe that would block":       {`mkfifo ~/count.txt`, 0},
		"in the working directory only": {`seq 1 5 > count.txt`, 0},
		"another PATH and home":         {`seq 1 5 > ~/count.txt; export PATH=/nowhere HOME=/nowhere; alias cat=false`, 1},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			tc := newContext(t)
			_, err := tc.Terminal(t.Context(), test.agent, 0)
			require.NoError(t, err)
			require.NoError(t, tc.Seal(t.Context()))
			score, err := (&Environment{}).Reward(t.Context(), countItem(t), &agentloop.Result{}, tc)
			require.NoError(t, err)
			require.Equal(t, test.score, score.Value)
		})
	}
}

func TestTheOracleSolvesEveryTask(t *testing.T) {
	for _, task := range append(trainTasks(), evalTasks()...) {
		tc := newContext(t)
		item, err := env.NewItem(task.ID, task)
		require.NoError(t, err)
		e := &Environment{}
		require.NoError(t, e.Oracle(t.Context(), item, tc))
		require.NoError(t, tc.Seal(t.Context()))
		score, err := e.Reward(t.Context(), item, &agentloop.Result{}, tc)
		require.NoError(t, err)
		require.Equal(t, 1.0, score.Value, task.ID)
	}
}

func TestAggregateGivesTheOriginalsMetrics(t *testing.T) {
	record := func(score float64) env.Record { return env.Record{Score: &score} }
	metrics := (&Environment{}).Aggregate(slices.Values([]env.Record{record(1), record(0.5), record(0), record(1), {}}))
	require.Equal(t, []env.Metric{
		{Name: "eval/num_samples", Value: 4}, {Name: "train/avg_reward", Value: 0.625}, {Name: "train/accuracy", Value: 0.5},
		{Name: "train/partial_match_rate", Value: 0.25}, {Name: "train/total_rollouts", Value: 5},
	}, metrics)
}

func TestTheReplayScriptKnowsEveryPrompt(t *testing.T) {
	script, err := replay.Parse("replay.yaml", Definition().Replay)
	require.NoError(t, err)
	require.Len(t, script.Conversations, 4)
	server, err := replay.New(script, replay.Options{})
	require.NoError(t, err)
	require.NoError(t, server.Close())
}
