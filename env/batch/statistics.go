package batch

import (
	"cmp"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"github.com/hermes-env/hermes-env/agentloop/chat"
	"github.com/hermes-env/hermes-env/trajectories"
)

// ToolCount is how one tool was used in a run.
type ToolCount struct {
	Name string
	trajectories.ToolStat
}

// Statistics is what statistics.json says: of every row there is, those of earlier
// sessions and of the original included.
type Statistics struct {
	RunName      string
	Distribution string
	Prompts      int // usable rows of the dataset
	Batches      int
	BatchSize    int
	Model        string
	CompletedAt  time.Time
	Seconds      float64     // of all sessions that came to their end
	Tools        []ToolCount // those that were called, the most called first
	Turns        int         // assistant turns
	Reasoning    int         // of them with reasoning
	Discarded    int         // samples without reasoning in any turn
}

// add counts a row.
func (s *Statistics) add(row gjson.Result) {
	row.Get("tool_stats").ForEach(func(name, stat gjson.Result) bool {
		count := int(stat.Get("count").Int())
		if count == 0 {
			return true
		}
		i := slices.IndexFunc(s.Tools, func(t ToolCount) bool { return t.Name == name.String() })
		if i < 0 {
			i = len(s.Tools)
			s.Tools = append(s.Tools, ToolCount{Name: name.String()})
		}
		t := &s.Tools[i]
		t.Count += count
		t.Success += int(stat.Get("success").Int())
		t.Failure += int(stat.Get("failure").Int())
		return true
	})
	row.Get("conversations").ForEach(func(_, turn gjson.Result) bool {
		if turn.Get("from").Str == "gpt" {
			s.Turns++
			if trajectories.HasReasoning(turn.Get("value").String()) {
				s.Reasoning++
			}
		}
		return true
	})
}

// fill adds what the rows don't say.
func (s *Statistics) fill(r *Run, elapsed time.Duration) {
	o := r.opts
	s.RunName, s.Distribution, s.Model, s.BatchSize = o.RunName, o.Distribution, o.Model, o.BatchSize
	s.Prompts = o.Prompts.Len()
	s.Batches = (s.Prompts + o.BatchSize - 1) / o.BatchSize
	s.CompletedAt = o.Now()
	s.Seconds = elapsed.Seconds()
	// What an earlier session wrote adds up; a damaged file adds nothing.
	if raw, err := os.ReadFile(filepath.Join(o.Dir, statisticsFile)); err == nil && gjson.ValidBytes(raw) && gjson.GetBytes(raw, "run_name").Str == o.RunName {
		if before := gjson.GetBytes(raw, "duration_seconds").Num; before > 0 && before < math.MaxInt32 {
			s.Seconds += before
		}
	}
	slices.SortFunc(s.Tools, func(a, b ToolCount) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Name, b.Name))
	})
}

// Rates returns the shares of answered calls that succeeded and failed, in percent with
// two decimals; 0 when none was answered.
func (t ToolCount) Rates() (success, failure float64) {
	answered := t.Success + t.Failure
	if answered == 0 {
		return 0, 0
	}
	percent := func(n int) float64 { return math.Round(1e4*float64(n)/float64(answered)) / 100 }
	return percent(t.Success), percent(t.Failure)
}

func (s *Statistics) write(dir string) error {
	integer := func(n int) []byte { return strconv.AppendInt(nil, int64(n), 10) }
	var used chat.Object
	for _, t := range s.Tools {
		success, failure := t.Rates()
		used.Set(t.Name, chat.Object{
			{Key: "count", Value: integer(t.Count)},
			{Key: "success", Value: integer(t.Success)},
			{Key: "failure", Value: integer(t.Failure)},
			{Key: "success_rate", Value: float(success)},
			{Key: "failure_rate", Value: float(failure)},
		}.Append(nil))
	}
	content := chat.Object{
		{Key: "run_name", Value: chat.AppendString(nil, s.RunName)},
		{Key: "distribution", Value: chat.AppendString(nil, s.Distribution)},
		{Key: "total_prompts", Value: integer(s.Prompts)},
		{Key: "total_batches", Value: integer(s.Batches)},
		{Key: "batch_size", Value: integer(s.BatchSize)},
		{Key: "model", Value: chat.AppendString(nil, s.Model)},
		{Key: "completed_at", Value: chat.AppendString(nil, s.CompletedAt.UTC().Format(pythonTime))},
		{Key: "duration_seconds", Value: float(math.Round(s.Seconds*100) / 100)},
		{Key: "tool_statistics", Value: used.Append(nil)},
		{Key: "reasoning_statistics", Value: chat.Object{
			{Key: "total_assistant_turns", Value: integer(s.Turns)},
			{Key: "turns_with_reasoning", Value: integer(s.Reasoning)},
			{Key: "turns_without_reasoning", Value: integer(s.Turns - s.Reasoning)},
		}.Append(nil)},
		{Key: "discarded_no_reasoning", Value: integer(s.Discarded)},
	}
	return writeIndented(filepath.Join(dir, statisticsFile), content)
}

// float writes a number as Python writes a float.
func float(f float64) []byte {
	text := strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(text, ".") {
		text += ".0"
	}
	return []byte(text)
}
