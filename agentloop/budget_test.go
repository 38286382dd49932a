package agentloop_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/agentloop"
	"github.com/hermes-env/hermes-env/agentloop/model/modeltest"
)

func sized(big, small int) map[string]func(context.Context, string) (string, error) {
	line := strings.Repeat("é", 49) + "\n"
	return map[string]func(context.Context, string) (string, error){
		"big":   func(context.Context, string) (string, error) { return strings.Repeat(line, big/50), nil },
		"small": func(context.Context, string) (string, error) { return strings.Repeat("s", small), nil },
	}
}

func TestAResultOverItsLimitIsSpilledAndPreviewed(t *testing.T) {
	tools := newToolbox(t, sized(5000, 10))
	r, _, err := run(t, modeltest.Turns(modeltest.Calls(call("id1", "big", `{}`), call("id2", "small", `{}`)), modeltest.Text("ok")), tools,
		func(c *agentloop.Config) { c.Budget = agentloop.Budget{ResultChars: 1000, PreviewChars: 170} })
	require.NoError(t, err)
	shown := toolResults(r)[0]
	require.Contains(t, shown, "<persisted-output>")
	require.Contains(t, shown, "Full output saved to: /tmp/hermes-results/id1.txt\n")
	require.Contains(t, shown, "5000 characters")
	require.Contains(t, shown, "é\n...\n</persisted-output>", "the preview ends at a line")
	require.True(t, utf8.ValidString(shown))
	require.Equal(t, strings.Repeat("s", 10), toolResults(r)[1])
	require.Len(t, tools.spills, 1)
	require.Equal(t, 5000, utf8.RuneCountInString(tools.spills[0]), "the whole text is saved")
}

func TestLimitsComeFromTheToolThenOverrideThenDefault(t *testing.T) {
	tests := map[string]struct {
		own      int
		override map[string]int
		spilled  bool
	}{
		"default":                    {0, nil, false},
		"the tool's own":             {1000, nil, true},
		"an override":                {0, map[string]int{"big": 2000}, true},
		"an override beats the tool": {1000, map[string]int{"big": 9000}, false},
		"pinned beats an override":   {agentloop.Unlimited, map[string]int{"big": 10}, false},
		"own is capped by default":   {1 << 30, nil, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			tools := newToolbox(t, sized(5000, 1))
			tools.limits["big"] = test.own
			_, _, err := run(t, modeltest.Turns(modeltest.Calls(call("a", "big", `{}`)), modeltest.Text("ok")), tools,
				func(c *agentloop.Config) { c.Budget = agentloop.Budget{ResultChars: 6000, Overrides: test.override} })
			require.NoError(t, err)
			require.Equal(t, test.spilled, len(tools.spills) == 1)
		})
	}
}

func TestTheTurnBudgetSpillsTheLargestFirst(t *testing.T) {
	tools := newToolbox(t, sized(5000, 3000))
	r, _, err := run(t, modeltest.Turns(
		modeltest.Calls(call("a", "small", `{}`), call("b", "big", `{}`), call("c", "small", `{}`)),
		modeltest.Text("ok"),
	), tools, func(c *agentloop.Config) { c.Budget = agentloop.Budget{TurnChars: 8000, PreviewChars: 100} })
	require.NoError(t, err)
	require.Len(t, tools.spills, 1)
	require.Contains(t, toolResults(r)[1], "<persisted-output>")
	require.Len(t, toolResults(r)[0], 3000)
	require.Len(t, toolResults(r)[2], 3000)
}

func TestASpillThatFailsLeavesAPreview(t *testing.T) {
	tools := newToolbox(t, sized(5000, 1))
	tools.spillErr = errors.New("disk full")
	r, _, err := run(t, modeltest.Turns(modeltest.Calls(call("a", "big", `{}`)), modeltest.Text("ok")), tools,
		func(c *agentloop.Config) { c.Budget = agentloop.Budget{ResultChars: 1000, PreviewChars: 100} })
	require.NoError(t, err)
	require.Contains(t, toolResults(r)[0], "[Truncated: tool response was 5000 chars. Full output could not be saved to sandbox.]")
}
