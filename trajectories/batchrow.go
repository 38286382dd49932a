package trajectories

import (
	"sort"
	"strconv"
	"strings"

	"github.com/hermes-env/hermes-env/agentloop/chat"
)

// BatchRow is where a rollout belongs in the files of the original batch runner.
type BatchRow struct {
	PromptIndex int // position of the prompt in the dataset
	BatchNum    int // number of the batch, and of its file
}

// AppendBatchRow appends a rollout as the original batch runner writes it into
// batch_<n>.jsonl and trajectories.jsonl, with its keys in its order and Python's
// separators, without a newline. tool_stats has every tool of the registry, called
// or not, and after them the names that the model made up.
func (s *ShareGPT) AppendBatchRow(dst []byte, r *Rollout, b BatchRow) []byte {
	turns, _, stats := s.convert(r.Messages, r.Tools)
	dst = appendBatchHead(dst, b, turns)
	dst = appendBatchMetadata(dst, r, b)
	dst = append(dst, `, "completed": `...)
	dst = strconv.AppendBool(dst, r.FinishedNaturally)
	dst = append(dst, `, "partial": `...)
	dst = strconv.AppendBool(dst, r.Outcome == OutcomeAgentError)
	dst = append(dst, `, "api_calls": `...)
	dst = strconv.AppendInt(dst, int64(r.TurnsUsed), 10)
	dst = append(dst, `, "toolsets_used": [`...)
	for i, name := range r.Toolsets {
		if i > 0 {
			dst = append(dst, ", "...)
		}
		dst = appendPythonString(dst, name)
	}
	names := append([]string(nil), s.names...)
	for name := range stats {
		if !s.config.Tools.Has(name) {
			names = append(names, name)
		}
	}
	sort.Strings(names[len(s.names):])
	dst = append(dst, `], "tool_stats": {`...)
	for i, name := range names {
		if i > 0 {
			dst = append(dst, ", "...)
		}
		dst = appendPythonString(dst, name)
		dst = append(dst, ": "...)
		dst = AppendToolStat(dst, stats[name])
	}
	dst = append(dst, `}, "tool_error_counts": {`...)
	for i, name := range names {
		if i > 0 {
			dst = append(dst, ", "...)
		}
		dst = appendPythonString(dst, name)
		dst = append(dst, ": "...)
		dst = strconv.AppendInt(dst, int64(stats[name].Failure), 10)
	}
	return append(dst, "}}"...)
}

// AppendToolStat appends the counts of one tool as rows of the batch runner have them.
func AppendToolStat(dst []byte, t ToolStat) []byte {
	dst = append(dst, `{"count": `...)
	dst = strconv.AppendInt(dst, int64(t.Count), 10)
	dst = append(dst, `, "success": `...)
	dst = strconv.AppendInt(dst, int64(t.Success), 10)
	dst = append(dst, `, "failure": `...)
	dst = strconv.AppendInt(dst, int64(t.Failure), 10)
	return append(dst, '}')
}

// AppendBatchTombstone appends the row that stands for a discarded rollout in
// batch_<n>.jsonl: it names the prompt, so that nothing that resumes by content runs
// it again, and is left out of trajectories.jsonl.
func AppendBatchTombstone(dst []byte, r *Rollout, b BatchRow, reason string) []byte {
	var turns []Turn
	for _, m := range r.Messages {
		if m.Role() == chat.RoleUser {
			turns = []Turn{{"human", m.Text()}}
			break
		}
	}
	dst = appendBatchHead(dst, b, turns)
	dst = appendBatchMetadata(dst, r, b)
	dst = append(dst, `, "discarded": `...)
	dst = appendPythonString(dst, reason)
	return append(dst, '}')
}

// BatchTimestamp is the time of a rollout in its row: with the prompt's index it
// tells rows apart.
func BatchTimestamp(r *Rollout) string {
	return r.FinishedAt.UTC().Truncate(1e6).Format(publishedTime)
}

func appendBatchHead(dst []byte, b BatchRow, turns []Turn) []byte {
	dst = append(dst, `{"prompt_index": `...)
	dst = strconv.AppendInt(dst, int64(b.PromptIndex), 10)
	dst = append(dst, `, "conversations": [`...)
	for i, t := range turns {
		if i > 0 {
			dst = append(dst, ", "...)
		}
		dst = append(dst, `{"from": `...)
		dst = appendPythonString(dst, t.From)
		dst = append(dst, `, "value": `...)
		dst = appendPythonString(dst, t.Value)
		dst = append(dst, '}')
	}
	return append(dst, ']')
}

func appendBatchMetadata(dst []byte, r *Rollout, b BatchRow) []byte {
	dst = append(dst, `, "metadata": {"batch_num": `...)
	dst = strconv.AppendInt(dst, int64(b.BatchNum), 10)
	dst = append(dst, `, "timestamp": `...)
	dst = appendPythonString(dst, BatchTimestamp(r))
	dst = append(dst, `, "model": `...)
	dst = appendPythonString(dst, r.Model)
	return append(dst, '}')
}

// AppendPythonString appends s as a JSON string as Python writes it with ensure_ascii
// off; invalid UTF-8 becomes U+FFFD.
func AppendPythonString(dst []byte, s string) []byte { return appendPythonString(dst, s) }

// HasReasoning says whether the value of a gpt turn has a think block with something in it.
func HasReasoning(value string) bool {
	for {
		_, rest, found := strings.Cut(value, "<think>")
		if !found {
			return false
		}
		inside, after, _ := strings.Cut(rest, "</think>")
		if !isBlank(inside) {
			return true
		}
		value = after
	}
}
