package report

import (
	"bytes"
	"compress/flate"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/agentloop/chat"
	"github.com/hermes-env/hermes-env/trajectories"
	"github.com/hermes-env/hermes-env/trajectories/stats"
)

func pointer[T any](v T) *T { return &v }

// hostile is what a model, a dataset or a tool could write to break a page.
const hostile = "</script><script>alert(1)</script><img src=x onerror=alert(1)>\" onmouseover=\"alert(1) \u202egnp.exe \u2028\u2029\x00 \x1b[31mred\x1b[0m\x1b]0;title\x07 ]]> <!-- {{.Title}} \xff \U000e0041"

func rollout(item string, attempt int, score *float64, text string) *trajectories.Rollout {
	r := &trajectories.Rollout{
		ID: fmt.Sprintf("r%s%d", item, attempt), ItemID: item, ItemDigest: text, Group: len(item), Attempt: attempt, Outcome: trajectories.OutcomeScored, Score: score, StopReason: "natural", Model: text,
		TurnsUsed: 2, Usage: chat.Usage{PromptTokens: 10, CompletionTokens: 5, TotalTokens: 15}, StartedAt: time.Unix(1e9, 0), FinishedAt: time.Unix(1e9+60, 0),
		Timings: trajectories.Timings{Total: 60, Model: 50, Turns: []trajectories.TurnTiming{{Model: 20, PromptTokens: 4, CompletionTokens: 2, FinishReason: "tool_calls"}, {Model: 30, FinishReason: text}}},
		Messages: []chat.Message{chat.System(text), chat.User(text), chat.Assistant(text, text, chat.ToolCall{ID: "c", Name: text, Arguments: `{"command":"ls"}`}),
			chat.Tool("c", `{"output":"42 files","exit_code":3,"error":null}`), chat.Assistant(text, "")},
	}
	metadata, err := chat.Marshal(map[string]any{"category": text, "difficulty": text, "verifier": map[string]any{"test_stdout": "1 failed " + text, "exit_code": 1},
		"stages": []any{map[string]any{"name": text, "verifier": map[string]any{"test_stdout": "stage " + text}}}})
	if err != nil {
		panic(err)
	}
	r.Metadata = metadata
	if score == nil {
		r.Outcome, r.Error = trajectories.OutcomeVerifierError, &trajectories.Failure{Class: "x", Message: text}
	} else {
		r.Passed = pointer(*score >= 1)
	}
	return r
}

// build makes the page of some rollouts.
func build(t testing.TB, config Config, run Run, rollouts ...*trajectories.Rollout) string {
	t.Helper()
	config.Rollouts = len(rollouts)
	b, c := NewBuilder(config), stats.New(stats.Config{PromptPrice: 1})
	for _, r := range rollouts {
		require.NoError(t, b.Add(r))
		c.Rollout(r)
	}
	var out bytes.Buffer
	require.NoError(t, b.WriteRun(&out, run, c.Result()))
	return out.String()
}

var (
	data   = regexp.MustCompile(`<script type="text/plain" id="d(\d+)">([A-Za-z0-9+/=]*)</script>`)
	script = regexp.MustCompile(`(?s)<script>(.*)</script>`)
	tag    = regexp.MustCompile(`<(/?)([a-z][a-z0-9]*)((?:[^>"]|"[^"]*")*)>`)
)

func unpack(t testing.TB, page string) []transcript {
	t.Helper()
	var list []transcript
	for _, m := range data.FindAllStringSubmatch(page, -1) {
		raw, err := base64.StdEncoding.DecodeString(m[2])
		require.NoError(t, err)
		text, err := io.ReadAll(flate.NewReader(bytes.NewReader(raw)))
		require.NoError(t, err)
		var one transcript
		require.NoError(t, json.Unmarshal(text, &one))
		list = append(list, one)
	}
	return list
}

// requireWellFormed checks that tags are closed in order and that nothing is loaded.
func requireWellFormed(t testing.TB, page string) {
	t.Helper()
	page = script.ReplaceAllString(data.ReplaceAllString(page, ""), "")
	page = regexp.MustCompile(`(?s)<style>.*?</style>`).ReplaceAllString(page, "")
	var open []string
	for _, m := range tag.FindAllStringSubmatch(page, -1) {
		switch name := m[2]; {
		case name == "meta" || name == "input" || name == "br", strings.HasSuffix(m[3], "/"):
		case m[1] == "":
			open = append(open, name)
		default:
			require.NotEmpty(t, open, "</%s> closes nothing", name)
			require.Equal(t, open[len(open)-1], name, "open: %v", open)
			open = open[:len(open)-1]
		}
		names := regexp.MustCompile(`"[^"]*"`).ReplaceAllStringFunc(m[3], func(value string) string {
			if strings.HasPrefix(value, `"#`) {
				return value
			}
			return `""`
		})
		for _, attribute := range []string{" src=", " onclick=", " onerror=", " onmouseover=", " href=\"\""} {
			require.NotContains(t, names, attribute)
		}
	}
	require.Empty(t, open)
}

func TestHostileTextStaysText(t *testing.T) {
	run := Run{Title: hostile, Subtitle: hostile, Source: hostile, Warnings: []string{hostile}, Facts: []Fact{{"name", hostile}}, Config: hostile, Version: hostile, Threshold: hostile, Mean: pointer(0.5), StdErr: pointer(0.1), Scored: 2, Rollouts: 3}
	page := build(t, Config{}, run, rollout(hostile, 0, pointer(1.0), hostile), rollout("b", 0, pointer(0.5), hostile), rollout("c", 0, nil, hostile))
	requireSafe(t, page, 3)

	var out bytes.Buffer
	c := stats.New(stats.Config{})
	c.Rollout(rollout(hostile, 0, nil, hostile))
	c.Broken(hostile, 3, hostile)
	require.NoError(t, WriteStatistics(&out, hostile, hostile, hostile, time.Unix(0, 0), c.Result()))
	requireSafe(t, out.String(), 0)
}

// requireSafe checks that a page made of hostile text has no element of that text's making.
func requireSafe(t *testing.T, page string, transcripts int) {
	t.Helper()
	requireWellFormed(t, page)
	require.True(t, utf8.ValidString(page))
	require.Equal(t, transcripts+1, strings.Count(page, "<script"), "the transcripts and the page's own script")
	require.NotContains(t, page, "<img")
	for _, r := range "\u202e\u2028\u2029\x00\x1b\x07\U000e0041" {
		require.NotContains(t, page, string(r))
	}
	own := script.FindStringSubmatch(data.ReplaceAllString(page, ""))[1]
	sum := sha256.Sum256([]byte(own))
	require.Contains(t, strings.ReplaceAll(page, "&#43;", "+"), "script-src &#39;sha256-"+base64.StdEncoding.EncodeToString(sum[:])+"&#39;", "only the page's own script may run")
	require.NotContains(t, own, "innerHTML")
	for _, one := range unpack(t, page) {
		raw, err := json.Marshal(one)
		require.NoError(t, err)
		text := strings.ReplaceAll(string(raw), `\\`, "") // an escape sequence that is spelt out is text
		require.NotContains(t, text, `\u001b`)
		require.NotContains(t, text, "\u202e")
	}
}

func TestATranscriptTellsWhatHappened(t *testing.T) {
	page := build(t, Config{}, Run{Title: "x"}, rollout("a", 1, nil, "plain"))
	one := unpack(t, page)[0]
	require.Equal(t, "a", one.Item)
	require.Equal(t, "verifier_error", one.Class)
	require.Nil(t, one.Score)
	require.Equal(t, "x: plain", one.Error.Head)
	require.Len(t, one.Messages, 7)
	require.Equal(t, "plain", one.Messages[2].Reasoning.Head)
	require.Equal(t, "model 20.0 s · 4 → 2 tokens", one.Messages[2].Note)
	require.Equal(t, message{Role: "tool", Number: 4, CallID: "c", Tool: "plain", Text: &clip{Head: "42 files"}, Note: "exit code 3"}, one.Messages[3])
	require.Equal(t, "verifier", one.Messages[5].Role)
	require.Contains(t, one.Messages[5].Text.Head, "1 failed")
	require.Equal(t, "stage plain", one.Messages[6].Note)
	require.Contains(t, page, `href="#t0"`)
}

func TestTheMatrixShowsEveryAttemptInItsPlace(t *testing.T) {
	b := NewBuilder(Config{Rollouts: 4})
	half := rollout("bb", 1, pointer(0.5), "t")
	half.Outcome = trajectories.OutcomeLimit
	for _, r := range []*trajectories.Rollout{half, rollout("a", 1, nil, "t"), rollout("a", 0, pointer(1.0), "t"), rollout("bb", 0, pointer(0.0), "t")} {
		require.NoError(t, b.Add(r))
	}
	rows, columns, items := b.matrix(nil)
	require.Equal(t, 2, columns)
	require.Equal(t, 2, items)
	require.Equal(t, "a", rows[0].Item, "in the order of the dataset")
	require.Equal(t, "✓", rows[0].Cells[0].Text)
	require.Equal(t, "V", rows[0].Cells[1].Text)
	require.Equal(t, "1.00", rows[0].Mean)
	require.Equal(t, "all", rows[0].State)
	require.Equal(t, "fail", rows[1].Cells[0].Class)
	require.Equal(t, matrixCell{Class: "part", Text: "0.50°", Link: "#t0", Label: "bb, attempt 1: failed, score 0.5 (limit), 2 turns, 1m00s"}, rows[1].Cells[1])
	require.Equal(t, "none", rows[1].State)
}

func TestLongTextsAreCutAndThePageStaysBounded(t *testing.T) {
	seed := uint64(1)
	noise := func() string {
		text := make([]byte, 20_000)
		for i := range text {
			seed = seed*6364136223846793005 + 1442695040888963407
			text[i] = 'a' + byte(seed>>33%26)
		}
		return string(text)
	}
	big := rollout("a", 0, pointer(1.0), "x")
	for range 30 {
		big.Messages = append(big.Messages, chat.Tool("c", noise()))
	}
	const room = 8 << 10
	page := build(t, Config{Bytes: 2 * room}, Run{Title: "x"}, big, rollout("b", 0, pointer(1.0), "x"))
	list := unpack(t, page)
	require.Len(t, list, 2)
	require.Less(t, len(page), 2*room+48<<10)
	require.Positive(t, list[0].Left, "messages in the middle are left out, and counted")
	require.Len(t, list[0].Messages, len(big.Messages)-list[0].Left+2)
	require.Equal(t, "system", list[0].Messages[0].Role)
	last := list[0].Messages[len(list[0].Messages)-3]
	require.Equal(t, len(big.Messages), last.Number)
	require.Equal(t, 20_000, len(last.Text.Head)+last.Text.Left+len(last.Text.Tail))
	require.Zero(t, list[1].Left)
}

func TestMoreRolloutsThanTranscriptsAreSampledEvenly(t *testing.T) {
	var rollouts []*trajectories.Rollout
	for i := range 100 {
		rollouts = append(rollouts, rollout(fmt.Sprintf("item%03d", i), 0, pointer(1.0), "x"))
	}
	page := build(t, Config{Transcripts: 10, Items: 20}, Run{Title: "x", Rollouts: 100}, rollouts...)
	list := unpack(t, page)
	require.Len(t, list, 10)
	places := map[byte]bool{}
	for i, one := range list {
		require.Equal(t, byte('0'+i), one.Item[5], "one of every ten")
		places[one.Item[6]] = true
	}
	require.Greater(t, len(places), 2, "not always the same place, which could be always the same attempt")
	require.Equal(t, 10, strings.Count(page, `<tr data-order=`), "items with a transcript")
	require.Contains(t, page, "10 of 100 items are shown")
	requireWellFormed(t, page)
}

func TestAPageOfNothingIsAPage(t *testing.T) {
	requireWellFormed(t, build(t, Config{}, Run{Title: "empty"}))
	var out bytes.Buffer
	require.NoError(t, WriteStatistics(&out, "empty", "", "dev", time.Unix(0, 0), stats.New(stats.Config{}).Result()))
	requireWellFormed(t, out.String())
}

func TestVisibleShowsWhatHidesAndKeepsTheRest(t *testing.T) {
	for in, want := range map[string]string{
		"plain ünï 漢字 🎉\n\tx":   "plain ünï 漢字 🎉\n\tx",
		"\x1b[1;31mred\x1b[m":   "red",
		"a\x00b\x7f\r":          "a␀b␡␍",
		"x\u202ey\u200bz\ufeff": "x⟪U+202E⟫y⟪U+200B⟫z⟪U+FEFF⟫",
		"\xff":                  "\ufffd",
		"\x1b]0;t\x07":          "␛]0;t␇",
	} {
		require.Equal(t, want, Visible(in))
	}
	require.Equal(t, "a b…", OneLine(" a\n b  c d", 4))
}

func TestNumbersAreWrittenForPeople(t *testing.T) {
	require.Equal(t, []string{"0", "999", "1,000", "-1,234,567"}, []string{trajectories.Thousands(0), trajectories.Thousands(999), trajectories.Thousands(1000), trajectories.Thousands(-1234567)})
	require.Equal(t, []string{"0", "0.123", "12.3", "123", "3600", "12.3k", "1.5M"}, []string{Short(0), Short(0.1234), Short(12.34), Short(123.4), Short(3600), Short(12345), Short(1.5e6)})
	require.Equal(t, []string{"0 s", "12 ms", "3.4 s", "1m00s", "2h07m"}, []string{Seconds(0), Seconds(0.012), Seconds(3.4), Seconds(59.99), Seconds(7620)})
	require.Equal(t, []string{"–", "33.3 %"}, []string{Percent(1, 0), Percent(1, 3)})
}

func FuzzNoTextBreaksThePage(f *testing.F) {
	f.Add(hostile)
	f.Add("'\"`><svg/onload=alert(1)>")
	f.Add("<style>*{display:none}</style></title></textarea>")
	f.Fuzz(func(t *testing.T, text string) {
		if text == "" {
			return
		}
		page := build(t, Config{}, Run{Title: text, Warnings: []string{text}, Source: text}, rollout(text, 0, pointer(1.0), text))
		require.Equal(t, 2, strings.Count(page, "<script"))
		requireWellFormed(t, page)
	})
}

func TestRowsOfARunForTrainingAreItsGroups(t *testing.T) {
	var rollouts []*trajectories.Rollout
	for step, scores := range [][]float64{{1, 0}, {0.5, 0.5}, {1, 1}} {
		for attempt, score := range scores {
			r := rollout("same item", attempt, pointer(score), "x")
			r.Step, r.Group, r.ID = step, step, fmt.Sprintf("r%d%d", step, attempt)
			rollouts = append(rollouts, r)
		}
	}
	page := build(t, Config{Groups: true}, Run{Title: "x", Dropped: map[int]string{1: "equal_scores"}}, rollouts...)
	require.Contains(t, page, "of 3 groups</dd>")
	require.Contains(t, page, "<h2 id=\"matrix-title\">Groups and their rollouts</h2>")
	for _, want := range []string{
		`data-tags="differ" data-step="0" data-dropped=""`, `data-tags="same dropped" data-step="1" data-dropped="equal_scores"`, `data-tags="same" data-step="2" data-dropped=""`,
		`<a href="#g0,1" title="its rollouts beside each other">same item</a>`, `<a href="#g4,5"`, `<option value="dropped">not trained on</option>`,
	} {
		require.Contains(t, page, want)
	}
	require.NotContains(t, build(t, Config{}, Run{Title: "x"}, rollouts...), "beside each other\">")
}

func TestTranscriptsAreChosenByWholeGroups(t *testing.T) {
	const groups, size = 400, 4
	b := NewBuilder(Config{Groups: true, Rollouts: groups * size, Transcripts: 160})
	for step := range groups {
		for attempt := range size {
			r := rollout(fmt.Sprintf("item %d", step), attempt, pointer(1.0), "x")
			r.Step = step
			require.NoError(t, b.Add(r))
		}
	}
	with := map[int]int{}
	for _, c := range b.cells {
		if c.transcript >= 0 {
			with[c.step]++
		}
	}
	require.Greater(t, len(with), 10)
	whole := 0
	for _, n := range with {
		if n == size {
			whole++
		}
	}
	require.GreaterOrEqual(t, whole, len(with)-1, "only the last may be cut by the limit")
	require.LessOrEqual(t, len(b.packed), 160)
}
