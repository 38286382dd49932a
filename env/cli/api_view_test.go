package cli

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/env/atropos"
)

func viewText(view []viewLine) string {
	var b strings.Builder
	for _, line := range view {
		b.WriteString(line.text + "\n")
	}
	return b.String()
}

func fullOverview() *atropos.Overview {
	quarter, silent := 0.25, 2.0
	return &atropos.Overview{
		Version: "v1", UptimeSeconds: 3725, Registered: true, Started: true, CurrentStep: 3, TrainerSilent: &silent,
		Trainer:     &atropos.Registration{BatchSize: 64, MaxTokenLen: 4096, NumSteps: 10},
		Queue:       atropos.Amount{Groups: 9, Sequences: 48, Tokens: 9600, Bytes: 26_915},
		Buffered:    atropos.Amount{Groups: 1, Sequences: 1, Tokens: 200, Bytes: 721},
		Unbatchable: atropos.Amount{Groups: 1, Sequences: 16, Tokens: 900, Bytes: 2000},
		Batches:     []atropos.BatchOverview{{ID: "ab-1", State: "unacknowledged", Sequences: 64}, {ID: "ab-2", State: "ready", Sequences: 1}},
		Rates:       atropos.Rates{GroupsPerSecond: 4.25, SequencesPerSecond: 8, TokensPerSecond: 4274.2, BatchesPerMinute: 1.5},
		Totals:      atropos.Totals{Groups: 1, Batches: 1, Redelivered: 2, Duplicates: 3, Rejected: 4, Refused: 5},
		Workers: []atropos.WorkerOverview{
			{EnvID: 0, Name: "gone_0", Connected: false, GroupSize: 4},
			{EnvID: 1, Name: "terminal-test_0", Connected: true, SilentSeconds: 75, Weight: 1, GroupSize: 4, Queued: atropos.Amount{Groups: 3}, Accepted: 4},
			{EnvID: 2, Name: "a-name-that-is-very-long-and-goes-on_0", Connected: true, Alive: true, Weight: 1.0 / 3, MinBatchAllocation: &quarter, GroupSize: 8},
			{EnvID: 3, Name: "数学_0", Connected: true, Alive: true, SilentSeconds: 6, Weight: 1, GroupSize: 4, Buffered: atropos.Amount{Groups: 1}},
			{EnvID: 4, Name: "old_0", Connected: true, SilentSeconds: 90_000, Weight: 1, GroupSize: 4},
		},
		Problem: "the disk is full",
		Stuck:   "no groups add up to 64 sequences: 8 of 5, 1 of 8",
	}
}

func TestTheViewOfAServer(t *testing.T) {
	require.Equal(t, `http://x · v1 · up 1h 2m
PROBLEM     the disk is full
trainer     step 3 of 10 · batches of 64, at most 4096 tokens
next batch  [##########..........] 32 of 64 sequences · full in 4s at this rate
stuck       no groups add up to 64 sequences: 8 of 5, 1 of 8
queue       9 groups · 48 sequences · 9600 tokens · 26.9 kB
buffered    1 group · 1 sequence · 200 tokens · 721 bytes · incomplete
too large   1 group · 16 sequences · 900 tokens · 2.0 kB of the queue: larger than a batch
batch       ab-1 · 64 sequences · unacknowledged
batch       ab-2 · 1 sequence · ready
rates       4.2 groups/s · 4274 tokens/s · 1.5 batches/min
in          1 group since the start · 3 duplicate, 4 rejected, 5 refused
out         1 batch since the start · 2 sent again

WORKER                                  ID  STATE          SIZE  WEIGHT   MIN  QUEUED  BUFFERED  TAKEN
a-name-that-is-very-long-and-goes-on_0   2  alive             8   0.333  25 %       0         0      0
数学_0                                   3  seen 6s ago       4       1     -       0         1      0
terminal-test_0                          1  silent 1m 15s     4       1     -       3         0      4
2 workers gone: 1 disconnected, 1 silent for more than an hour
`, viewText(apiView("http://x", fullOverview(), 0)))
}

func TestAServerThatWaitsSaysWhatFor(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*atropos.Overview)
		want   string
	}{
		"nobody registered":      {func(o *atropos.Overview) { o.Registered, o.Trainer = false, nil }, "trainer     none registered\n"},
		"no batch asked for":     {func(o *atropos.Overview) { o.Started = false }, "has not asked for a batch yet: workers wait\n"},
		"more than one batch":    {func(o *atropos.Overview) { o.Queue.Sequences = 112 }, "[####################] 96 of 64 sequences · 1.5 batches\n"},
		"all steps":              {func(o *atropos.Overview) { o.CurrentStep = 10 }, "trainer     step 10 of 10 · has all its steps · batches of 64, at most 4096 tokens\nqueue  "},
		"a trainer at work":      {func(o *atropos.Overview) { *o.TrainerSilent = 75 }, "at most 4096 tokens · asked 1m 15s ago\n"},
		"no trainer since":       {func(o *atropos.Overview) { o.TrainerSilent = nil }, "at most 4096 tokens · silent since the server started\n"},
		"nothing comes":          {func(o *atropos.Overview) { o.Rates = atropos.Rates{} }, "32 of 64 sequences\n"},
		"another kind of server": {func(o *atropos.Overview) { o.UptimeSeconds = 0 }, "queue       9 groups\n"},
		"many batches": {func(o *atropos.Overview) {
			for range 8 {
				o.Batches = append(o.Batches, o.Batches[0])
			}
		}, "            and 5 more\n"},
	} {
		o := fullOverview()
		c.change(o)
		require.Contains(t, viewText(apiView("http://x", o, 80)), c.want, name)
	}
}

func TestNamesOfOthersCannotMoveTheCursor(t *testing.T) {
	o := fullOverview()
	o.Workers[1].Name = "a\x1b[2Jb\u202e\r\n\xff_0"
	o.Version, o.Problem, o.Batches[0].ID = "v\x07", "p\x1b]0;x\x07", "i\x9b"
	text := viewText(apiView("http://x\x1b", o, 0))
	for _, r := range text {
		require.True(t, r == '\n' || r >= ' ' && (r < 0x7f || r > 0x9f) && r != '\u202e', "%U", r)
	}
	require.Contains(t, text, "a\uFFFD[2Jb\uFFFD\uFFFD\uFFFD\uFFFD_0")
}

func TestAViewFitsItsTerminal(t *testing.T) {
	for _, size := range [][2]int{{80, 24}, {120, 40}, {60, 12}, {20, 3}, {1, 1}} {
		view := fit(apiView("http://localhost:8000", fullOverview(), size[0]), size[0], size[1])
		require.LessOrEqual(t, len(view), size[1])
		for _, line := range view {
			require.LessOrEqual(t, textWidth(line.text), size[0], line.text)
		}
	}
	view := fit(apiView("http://x", fullOverview(), 80), 80, 10)
	require.Contains(t, view[9].text, "lines more: `api status` prints all")
	require.Len(t, fit(view, 80, 10), 10, "what fits is left as it is")
}

func TestTablesCountColumnsAndNotBytes(t *testing.T) {
	require.Equal(t, []string{
		"WORKER             ID  STATE         SIZE",
		"数学_0              3  alive            4",
		"a-name-that-i…_10   2  disconnected     8",
	}, layTable([]string{"WORKER", "ID", "STATE", "SIZE"}, [][]string{{"数学_0", "3", "alive", "4"}, {"a-name-that-is-long_10", "2", "disconnected", "8"}}, 41))
	for _, c := range []struct {
		text    string
		columns int
		want    string
	}{{"abc", 3, "abc"}, {"abcd", 3, "ab…"}, {"数学", 3, "数…"}, {"数学", 2, "…"}, {"e\u0301e\u0301", 2, "e\u0301e\u0301"}, {"abc", 0, ""}} {
		require.Equal(t, c.want, clip(c.text, c.columns), c.text)
	}
	require.Equal(t, "worker-…", clipName("worker-without-number", 8))
	require.Equal(t, "a_ver…_7", clipName("a_very_long_one_7", 8))
	require.Equal(t, "a_v…_one", clipName("a_very_long_one", 8))
}

func TestTimesAreShort(t *testing.T) {
	for seconds, want := range map[float64]string{-5: "0s", 59.9: "59s", 125: "2m 5s", 12_345: "3h 25m", 400_000: "4d 15h", 1e30: "24855d 3h"} {
		require.Equal(t, want, spanText(seconds))
	}
}

// screenOf is a watcher on a terminal of a size, with a clock to set.
func screenOf(out *bytes.Buffer, columns, rows *int, now *time.Time) *screenWatcher {
	return &screenWatcher{command: &apiStatusCommand{URL: "http://x", Every: time.Second}, session: &session{app: &App{Stdout: out}}, out: out,
		size: func() (int, int) { return *columns, *rows }, now: func() time.Time { return *now }}
}

func TestTheLiveViewKeepsWhatItSawWhileTheServerIsAway(t *testing.T) {
	var out bytes.Buffer
	columns, rows := 80, 24
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	w := screenOf(&out, &columns, &rows, &now)
	drawn := func() string {
		text := out.String()
		out.Reset()
		return text
	}
	require.NoError(t, w.show(nil, errors.New("connection refused")))
	first := drawn()
	require.True(t, strings.HasPrefix(first, enterScreen+homeCursor), "it draws on a screen of its own")
	require.Contains(t, first, "no answer for 0s, asking again every 1s: connection refused"+clearLine+clearBelow)
	require.NoError(t, w.show(fullOverview(), nil))
	require.NotContains(t, drawn(), "no answer")
	now = now.Add(time.Second)
	require.NoError(t, w.show(nil, errors.New("connection refused")))
	now = now.Add(9 * time.Second)
	require.NoError(t, w.show(nil, errors.New("connection refused")))
	text := drawn()
	require.Contains(t, text, "no answer for 9s")
	require.Contains(t, text, "as it was at 03:04:05:")
	require.Contains(t, text, "ab-1 · 64 sequences · unacknowledged")

	require.NoError(t, w.refresh())
	require.Empty(t, drawn(), "nothing is drawn while the size stays")
	columns = 40
	require.NoError(t, w.refresh())
	for line := range strings.SplitSeq(strings.TrimSuffix(strings.TrimPrefix(drawn(), homeCursor), clearBelow), "\r\n") {
		require.LessOrEqual(t, textWidth(strings.TrimSuffix(line, clearLine)), 40)
	}
	require.NoError(t, w.end())
	last := drawn()
	require.True(t, strings.HasPrefix(last, leaveScreen), "the terminal gets its own screen and cursor back")
	require.Contains(t, last, "as it was at 03:04:05:")
}

func TestColorsSayWhatIsWrong(t *testing.T) {
	lines := map[string]bool{}
	for _, line := range apiView("http://x", fullOverview(), 80) {
		lines[line.render(true)] = true
		require.NotContains(t, line.render(false), "\x1b")
	}
	require.True(t, lines["\x1b[31mPROBLEM     the disk is full\x1b[0m"], fmt.Sprint(lines))
}
