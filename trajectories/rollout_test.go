package trajectories

import (
	"encoding/json"
	"math"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"github.com/hermes-env/hermes-env/agentloop/chat"
)

func TestARolloutSurvivesItsLine(t *testing.T) {
	for name, r := range map[string]*Rollout{
		"rich":   rich(t),
		"simple": simple("a", 1, 2),
		"bare":   {ID: "x", ItemID: "y", Outcome: OutcomeCancelled},
	} {
		t.Run(name, func(t *testing.T) {
			line := encoded(t, r)
			require.NotContains(t, line, "\n")
			require.True(t, json.Valid([]byte(line)))
			decoded, err := DecodeRollout([]byte(line))
			require.NoError(t, err)
			require.Equal(t, line, encoded(t, decoded))
			require.Equal(t, r.Key(), decoded.Key())
			require.Equal(t, r.Trained(), decoded.Trained())
			require.Len(t, decoded.Messages, len(r.Messages))
			for i, m := range r.Messages {
				require.Equal(t, string(m.JSON()), string(decoded.Messages[i].JSON()))
				require.Equal(t, m.ToolCalls(), decoded.Messages[i].ToolCalls())
			}
		})
	}
}

func TestTheEncoderWritesWhatEncodingJSONReads(t *testing.T) {
	r := rich(t)
	var got struct {
		ID     string  `json:"rollout_id"`
		Score  float64 `json:"score"`
		Usage  chat.Usage
		Error  struct{ Class, Message string }
		Times  struct{ Turns []map[string]any } `json:"timings"`
		Start  time.Time                        `json:"started_at"`
		Parts  map[string]float64               `json:"score_parts"`
		Called []chat.Message                   `json:"messages"`
	}
	require.NoError(t, json.Unmarshal([]byte(encoded(t, r)), &got))
	require.Equal(t, r.ID, got.ID)
	require.Equal(t, *r.Score, got.Score)
	require.Equal(t, r.Usage, got.Usage)
	require.Equal(t, r.Error.Message, got.Error.Message)
	require.Len(t, got.Times.Turns, 2)
	require.Equal(t, fixedTime.Truncate(time.Millisecond), got.Start)
	require.Equal(t, map[string]float64{"tests": 0.75, "a style": 1e-9}, got.Parts)
	require.Len(t, got.Called, len(r.Messages))
}

func TestTimesAreWrittenInUTC(t *testing.T) {
	r := simple("a", 0, 0)
	r.StartedAt = fixedTime.In(time.FixedZone("x", 7200))
	require.Equal(t, "2026-03-30T14:22:31.456Z", gjson.Get(encoded(t, r), "started_at").Str)
}

func TestInvalidUTF8IsReplaced(t *testing.T) {
	r := simple("a\xffb", 0, 0)
	r.Messages = append(r.Messages, message(t, "{\"role\":\"user\",\"content\":\"x\xfe\xffy\"}"))
	line := encoded(t, r)
	require.Equal(t, "a\uFFFDb", gjson.Get(line, "item_id").Str)
	require.Equal(t, "x\uFFFD\uFFFDy", gjson.Get(line, "messages.2.content").Str)
}

func TestARecordThatWouldBeUntrueIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Rollout)
		want   string
	}{
		"score not a number":     {func(r *Rollout) { r.Score = pointer(math.NaN()) }, "not a finite number"},
		"score infinite":         {func(r *Rollout) { r.Score = pointer(math.Inf(-1)) }, "not a finite number"},
		"score on a failure":     {func(r *Rollout) { r.Outcome = OutcomeSandboxError }, "can not carry a score"},
		"passed on a failure":    {func(r *Rollout) { r.Outcome, r.Score = OutcomeVerifierError, nil }, "neither pass nor fail"},
		"scored without score":   {func(r *Rollout) { r.Score = nil }, "needs a score"},
		"unknown outcome":        {func(r *Rollout) { r.Outcome = "" }, `unknown outcome ""`},
		"no id":                  {func(r *Rollout) { r.ID = "" }, "no id"},
		"no item":                {func(r *Rollout) { r.ItemID = "" }, "no item id"},
		"negative attempt":       {func(r *Rollout) { r.Attempt = -1 }, "must not be negative"},
		"score part infinite":    {func(r *Rollout) { r.ScoreParts = []ScorePart{{"x", math.Inf(1)}} }, `score part "x"`},
		"score part twice":       {func(r *Rollout) { r.ScoreParts = []ScorePart{{"x", 1}, {"x", 2}} }, "given twice"},
		"timing not a number":    {func(r *Rollout) { r.Timings.Turns = []TurnTiming{{Tools: math.NaN()}} }, "a timing is NaN"},
		"metadata no object":     {func(r *Rollout) { r.Metadata = json.RawMessage(`[]`) }, "not a JSON object"},
		"metadata empty":         {func(r *Rollout) { r.Metadata = json.RawMessage{} }, "not a JSON object"},
		"metadata broken":        {func(r *Rollout) { r.Metadata = json.RawMessage(`{"a"`) }, "not a JSON object"},
		"a message that is none": {func(r *Rollout) { r.Messages = append(r.Messages, chat.Message{}) }, "message 2 is empty"},
	} {
		t.Run(name, func(t *testing.T) {
			r := simple("a", 0, 0)
			c.change(r)
			dst, err := AppendRollout([]byte("kept"), r)
			require.ErrorContains(t, err, c.want)
			require.Equal(t, "kept", string(dst))
		})
	}
}

func TestDecodeSaysWhatIsWrong(t *testing.T) {
	good := encoded(t, simple("a", 0, 0))
	for old, c := range map[string]struct{ replacement, want string }{
		`"started_at":"2026-03-30T14:22:31.456Z"`: {`"started_at":"yesterday"`, `started_at: "yesterday" is not a time`},
		`{"role":"user"`: {`{"rule":"user"`, "message 0:"},
	} {
		broken := strings.Replace(good, old, c.replacement, 1)
		require.NotEqual(t, good, broken)
		_, err := DecodeRollout([]byte(broken))
		require.ErrorContains(t, err, c.want)
	}
	r, err := DecodeRollout([]byte(strings.Replace(good, `"retries":0`, `"from_the_future":[1],"retries":4`, 1)))
	require.NoError(t, err)
	require.Equal(t, 4, r.Retries)
}

func TestOutcomesSayWhatMayHappenToThem(t *testing.T) {
	for outcome, want := range map[Outcome][3]bool{ // scored, retryable, trained
		OutcomeScored:        {true, false, true},
		OutcomeLimit:         {true, false, true},
		OutcomeAgentError:    {true, false, true},
		OutcomeModelError:    {false, true, false},
		OutcomeSandboxError:  {false, true, false},
		OutcomeVerifierError: {false, false, true},
		OutcomeCancelled:     {false, true, false},

		OutcomeEnvironmentError: {false, false, false},
	} {
		require.Equal(t, want, [3]bool{outcome.Scored(), outcome.Retryable(), outcome.Trained()}, outcome)
		parsed, err := ParseOutcome(string(outcome))
		require.NoError(t, err)
		require.Equal(t, outcome, parsed)
		require.Contains(t, Outcomes(), outcome)
	}
	require.Len(t, Outcomes(), 8)
}

func TestNumbersAlwaysReadAsFloatingPoint(t *testing.T) {
	for f, want := range map[float64]string{0: "0.0", 1: "1.0", -2: "-2.0", 0.1: "0.1", 1e21: "1e+21", 1e-7: "1e-07", 123456789: "123456789.0", math.MaxFloat64: "1.7976931348623157e+308"} {
		require.Equal(t, want, string(appendFloat(nil, f)))
	}
}

func TestConfigsAreComparedSettingBySetting(t *testing.T) {
	for name, c := range map[string]struct {
		before, after string
		want          []string
	}{
		"equal but for white space": {`{"a": 1}`, `{"a":1}`, nil},
		"order does not count":      {`{"a":1,"b":2}`, `{"b":2,"a":1}`, nil},
		"nested":                    {`{"env":{"a":1,"b":{"c":"x"}}}`, `{"env":{"a":2,"b":{"c":"y","d":null}}}`, []string{"env.a: 1 -> 2", `env.b.c: "x" -> "y"`, "env.b.d: (not set) -> null"}},
		"removed":                   {`{"a":1,"b":2}`, `{"a":1}`, []string{"b: 2 -> (not set)"}},
		"lists of values":           {`{"a":[1,2]}`, `{"a":[1, 3]}`, []string{"a: [1,2] -> [1,3]"}},
		"lists of objects":          {`{"s":[{"u":1},{"u":2}]}`, `{"s":[{"u":1}]}`, []string{`s.1: {"u":2} -> (not set)`}},
		"other types":               {`{"a":[1]}`, `{"a":{"b":1}}`, []string{`a: [1] -> {"b":1}`}},
		"long values are cut":       {`{"a":1}`, `{"a":"` + strings.Repeat("é", 100) + `"}`, []string{`a: 1 -> "` + strings.Repeat("é", 79) + "…"}},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.want, DiffConfigs(json.RawMessage(c.before), json.RawMessage(c.after)))
		})
	}
	require.Equal(t, ConfigDigest(json.RawMessage(`{"a": 1}`)), ConfigDigest(json.RawMessage(`{"a":1}`)))
	require.NotEqual(t, ConfigDigest(json.RawMessage(`{"a":1}`)), ConfigDigest(json.RawMessage(`{"a":1.0}`)))
}

func FuzzDecodeRollout(f *testing.F) {
	f.Add([]byte(encoded(f, rich(f))))
	f.Add([]byte(encoded(f, simple("a", 0, 1))))
	f.Add([]byte(`{"rollout_id":"a","item_id":"b","step":0,"attempt":0,"outcome":"limit","messages":[]}`))
	f.Add([]byte(`{"rollout_id":"a","item_id":"b","step":0,"attempt":0,"outcome":"limit","messages":[],"started_at":"2026-01-01T00:00:00Z","score":1e999}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		entry, entryErr := parseEntry(line)
		r, err := DecodeRollout(line)
		if err != nil {
			return
		}
		require.NoError(t, entryErr)
		require.Equal(t, entry.Key, r.Key())
		require.Equal(t, entry.Trained(), r.Trained())
		again, err := AppendRollout(nil, r)
		if err != nil {
			return // a record of foreign origin may say what ours may not
		}
		second, err := DecodeRollout(again)
		require.NoError(t, err, "%s", again)
		require.Equal(t, string(again), encoded(t, second))
	})
}

func TestATasksRecordHasTheOriginalsNames(t *testing.T) {
	score := 0.5
	r := Rollout{ID: "r", ItemID: "demo", Outcome: OutcomeScored, Score: &score, Metadata: json.RawMessage(`{"task_name":"demo","category":"games"}`)}
	line, err := AppendRollout(nil, &r)
	require.NoError(t, err)
	require.Contains(t, string(line), `"metadata":{"task_name":"demo","category":"games"},"task_name":"demo","category":"games","reward":0.5,"messages":`)
	again, err := DecodeRollout(line)
	require.NoError(t, err)
	require.JSONEq(t, string(r.Metadata), string(again.Metadata))
	r.Outcome, r.Score = OutcomeSandboxError, nil
	line, err = AppendRollout(nil, &r)
	require.NoError(t, err)
	require.Contains(t, string(line), `"reward":null`)
	r.Metadata = json.RawMessage(`{"task":1}`)
	line, err = AppendRollout(nil, &r)
	require.NoError(t, err)
	require.NotContains(t, string(line), "reward")
}

func TestARunThatDeviatedOnceHasDeviated(t *testing.T) {
	yes, dir := true, filepath.Join(t.TempDir(), "run")
	info := Info{Command: "evaluate", Environment: "e", Config: json.RawMessage(`{}`), Comparable: &yes, Dataset: json.RawMessage(`{"name":"d"}`)}
	run, err := Create(dir, info)
	require.NoError(t, err)
	require.True(t, *run.Manifest().Comparable)
	require.NoError(t, run.Close(StatusDone))
	info.Deviations = []string{"env.cpus is 4"}
	run, err = Resume(dir, info)
	require.NoError(t, err)
	require.NoError(t, run.Close(StatusDone))
	info.Deviations = nil
	run, err = Resume(dir, info)
	require.NoError(t, err)
	defer func() { require.NoError(t, run.Close(StatusDone)) }()
	require.False(t, *run.Manifest().Comparable)
	require.Equal(t, []string{"env.cpus is 4"}, run.Manifest().Deviations)
	require.JSONEq(t, `{"name":"d"}`, string(run.Manifest().Dataset))
}
