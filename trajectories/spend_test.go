package trajectories

import (
	"bytes"
	"context"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/agentloop/chat"
)

// paid is a small rollout that cost something.
func paid(step int, usd float64) *Rollout {
	r := simple("item", step, 0)
	r.Timings.Total = 2
	r.Usage = chat.Usage{PromptTokens: 100, CompletionTokens: 10, TotalTokens: 110, CachedTokens: 40}
	r.Spend = &Spend{
		Agent:       Bill{Calls: 1, PromptTokens: 100, CachedTokens: 40, CompletionTokens: 10, USD: &usd},
		Judge:       Bill{Calls: 2, PromptTokens: 30, CompletionTokens: 3, USD: pointer(0.25)},
		FailedTries: Bill{Calls: 3, PromptTokens: 7, USD: pointer(0.125)},
	}
	return r
}

func TestARecordSaysWhatItsRolloutCost(t *testing.T) {
	for name, c := range map[string]struct {
		spend *Spend
		want  string // the members after usage
	}{
		"all known": {paid(0, 0.5).Spend, `"cost_usd":0.875,"spend":{"agent":{"calls":1,"prompt_tokens":100,"cached_tokens":40,"completion_tokens":10,"usd":0.5},` +
			`"judge":{"calls":2,"prompt_tokens":30,"cached_tokens":0,"completion_tokens":3,"usd":0.25},"failed_tries":{"calls":3,"prompt_tokens":7,"cached_tokens":0,"completion_tokens":0,"usd":0.125}}`},
		"a part unknown": {&Spend{Agent: Bill{Calls: 2, Unreported: 2}, Judge: Bill{Calls: 1, PromptTokens: 1, USD: pointer(1.0)}},
			`"spend":{"agent":{"calls":2,"unreported_calls":2,"prompt_tokens":0,"cached_tokens":0,"completion_tokens":0},"judge":{"calls":1,"prompt_tokens":1,"cached_tokens":0,"completion_tokens":0,"usd":1.0}}`},
		"free":                    {&Spend{Agent: Bill{Calls: 1, PromptTokens: 5, USD: pointer(0.0)}}, `"cost_usd":0.0,"spend":{"agent":{"calls":1,"prompt_tokens":5,"cached_tokens":0,"completion_tokens":0,"usd":0.0}}`},
		"no model asked":          {&Spend{}, `"spend":{}`},
		"before calls were kept":  {nil, ``},
		"a billionth of a dollar": {&Spend{Agent: Bill{Calls: 1, USD: pointer(0.1 + 0.2)}}, `"cost_usd":0.3,"spend":{"agent":{"calls":1,"prompt_tokens":0,"cached_tokens":0,"completion_tokens":0,"usd":0.3}}`},
	} {
		t.Run(name, func(t *testing.T) {
			r := simple("item", 0, 0)
			r.Spend = c.spend
			line, err := AppendRollout(nil, r)
			require.NoError(t, err)
			require.True(t, json.Valid(line))
			_, rest, ok := strings.Cut(string(line), `"usage":{`)
			require.True(t, ok)
			_, rest, _ = strings.Cut(rest, "},")
			members, _, _ := strings.Cut(rest, `"timings"`)
			require.Equal(t, c.want, strings.TrimSuffix(members, ","))

			back, err := DecodeRollout(line)
			require.NoError(t, err)
			again, err := AppendRollout(nil, back)
			require.NoError(t, err)
			require.Equal(t, string(line), string(again))
			entry, err := parseEntry(line)
			require.NoError(t, err)
			require.Equal(t, r.Entry().Spend, entry.Spend, "what is read is what was counted when it was written")
		})
	}
}

func TestImpossibleSpendsAreRefused(t *testing.T) {
	for name, b := range map[string]Bill{
		"negative tokens": {Calls: 1, PromptTokens: -1}, "negative calls": {Calls: -1}, "a negative cost": {Calls: 1, USD: pointer(-0.1)},
		"no number": {Calls: 1, USD: pointer(math.NaN())}, "infinite": {Calls: 1, USD: pointer(math.Inf(1))},
	} {
		t.Run(name, func(t *testing.T) {
			r := simple("item", 0, 0)
			r.Spend = &Spend{Judge: b}
			_, err := AppendRollout(nil, r)
			require.ErrorContains(t, err, "judge")
		})
	}
}

func TestForeignSpendsAreReadAsFarAsTheyMakeSense(t *testing.T) {
	line, err := AppendRollout(nil, simple("item", 0, 0))
	require.NoError(t, err)
	for text, want := range map[string]*Spend{
		`null`:     nil,
		`"much"`:   nil,
		`{"x":{}}`: {},
		`{"agent":{"calls":-5,"prompt_tokens":-1,"usd":-3,"more":[]},"judge":7}`: {},
		`{"agent":{"calls":1,"usd":"2"}}`:                                        {Agent: Bill{Calls: 1}},
	} {
		r, err := DecodeRollout(bytes.Replace(line, []byte(`"timings"`), []byte(`"spend":`+text+`,"timings"`), 1))
		require.NoError(t, err)
		require.Equal(t, want, r.Spend, text)
	}
}

func TestARunKnowsWhatItHasSpentInAllSessions(t *testing.T) {
	dir := t.TempDir()
	run := mustCreate(t, dir)
	require.Zero(t, run.Spent())
	for i := range 4 {
		require.NoError(t, run.Append(context.Background(), paid(i, 0.5)))
	}
	old := simple("item", 4, 0) // of a version that did not count calls
	old.Usage = chat.Usage{PromptTokens: 1000, CompletionTokens: 100, TotalTokens: 1100, CachedTokens: 500}
	old.TurnsUsed = 3
	require.NoError(t, run.Append(context.Background(), old))
	silent := simple("item", 5, 0)
	require.NoError(t, run.Append(context.Background(), silent)) // of such a version, from a server that told nothing
	oracle := simple("item", 6, 0)
	oracle.TurnsUsed = 0
	oracle.Spend = &Spend{}
	require.NoError(t, run.Append(context.Background(), oracle))
	want := Spent{
		Tally:    Tally{Rollouts: 6, Calls: 4*6 + 3 + 1, Unreported: 1, PromptTokens: 4*137 + 1000, CachedTokens: 4*40 + 500, CompletionTokens: 4*13 + 100},
		Unpriced: Tally{Rollouts: 2, Calls: 4, Unreported: 1, PromptTokens: 1000, CachedTokens: 500, CompletionTokens: 100},
		USD:      4 * 0.875, JudgeUSD: 1, FailedTriesUSD: 0.5, Recorded: 7, Seconds: 8,
	}
	require.Equal(t, want, run.Spent())
	require.False(t, want.Priced())

	// Taken out of the run, they were paid for all the same; so in the next session,
	// with the index file and without.
	n, err := run.Supersede(func(e Entry) bool { return e.Step < 2 || e.Step == 4 })
	require.NoError(t, err)
	require.Equal(t, 3, n)
	require.Equal(t, want, run.Spent())
	require.NoError(t, run.Close(StatusInterrupted))
	for _, way := range []string{"with the index file", "without"} {
		run = mustResume(t, dir)
		require.Equal(t, want, run.Spent(), way)
		require.NoError(t, run.Close(StatusInterrupted))
		require.NoError(t, os.Remove(filepath.Join(dir, indexFile)))
	}

	// Somebody's notes among the lines put away are no reason to fail.
	f, err := os.OpenFile(filepath.Join(dir, supersededFile), os.O_WRONLY|os.O_APPEND, 0)
	require.NoError(t, err)
	_, err = f.WriteString("a note\n")
	require.NoError(t, err)
	require.NoError(t, f.Close())
	run = mustResume(t, dir)
	require.NoError(t, run.Append(context.Background(), paid(0, 0.5)))
	require.Equal(t, 5*0.875, run.Spent().USD)
	require.NoError(t, run.Close(StatusDone))
}

func TestARolloutThatWasBeingTakenOutWhenTheProcessEndedCountsOnce(t *testing.T) {
	dir := t.TempDir()
	run := mustCreate(t, dir)
	require.NoError(t, run.Append(context.Background(), paid(0, 0.5)))
	require.NoError(t, run.Append(context.Background(), paid(1, 0.5)))
	want := run.Spent()
	require.NoError(t, run.Close(StatusInterrupted))
	lines, err := os.ReadFile(filepath.Join(dir, rolloutsFile))
	require.NoError(t, err)
	first, _, _ := bytes.Cut(lines, []byte{'\n'})
	require.NoError(t, os.WriteFile(filepath.Join(dir, supersededFile), append(first, '\n'), 0o644))
	run = mustResume(t, dir)
	require.Equal(t, want, run.Spent())
	require.NoError(t, run.Close(StatusDone))
}

func TestActiveTimeAddsUpTheSessions(t *testing.T) {
	at := func(minutes int) string {
		return fixedTime.Add(time.Duration(minutes) * time.Minute).Format(time.RFC3339Nano)
	}
	now := fixedTime.Add(600 * time.Minute)
	for name, c := range map[string]struct {
		sessions []Session
		minutes  int
	}{
		"none":                   {nil, 0},
		"ended ones":             {[]Session{{StartedAt: at(0), EndedAt: at(10), Status: StatusDone}, {StartedAt: at(100), EndedAt: at(105), Status: StatusBudget}}, 15},
		"one under way":          {[]Session{{StartedAt: at(0), EndedAt: at(10), Status: StatusInterrupted}, {StartedAt: at(590), Status: StatusRunning}}, 20},
		"one that was killed":    {[]Session{{StartedAt: at(0), LastRecordAt: at(30), Status: statusKilled}, {StartedAt: at(590), EndedAt: at(595), Status: StatusDone}}, 35},
		"killed before a record": {[]Session{{StartedAt: at(50), LastRecordAt: at(30), Status: statusKilled}, {StartedAt: at(590), Status: StatusRunning}}, 10},
		"killed without a word":  {[]Session{{StartedAt: at(50), Status: statusKilled}, {StartedAt: at(590), Status: StatusRunning}}, 10},
		"no times at all":        {[]Session{{StartedAt: "yesterday", EndedAt: at(5)}, {StartedAt: at(0), EndedAt: "today"}}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			m := Manifest{Sessions: c.sessions}
			require.Equal(t, time.Duration(c.minutes)*time.Minute, m.Active(now))
		})
	}
}

func TestMoneyIsWrittenWithTheDigitsItNeeds(t *testing.T) {
	for usd, want := range map[float64]string{0: "$0.00", 12.3: "$12.30", 0.5: "$0.50", 0.031: "$0.031", 0.0012: "$0.0012", 0.000027: "$0.000027"} {
		require.Equal(t, want, Dollars(usd))
	}
}
