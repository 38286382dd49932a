package trajectories

import (
	"sort"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/hermes-env/hermes-env/agentloop/chat"
)

// ToolStat counts the calls of one tool in a conversation. Success and Failure
// count the calls that were answered, so they may add up to less than Count.
type ToolStat struct {
	Count   int
	Success int
	Failure int
}

// ToolStats counts calls and their results by tool name. A result belongs to the
// call with its id, or, when no call of the turn has that id, to the call at its
// position.
func ToolStats(messages []chat.Message) map[string]ToolStat {
	stats := make(map[string]ToolStat)
	eachToolTurn(messages, func(calls []chat.ToolCall, results []chat.Message) {
		for _, c := range calls {
			s := stats[c.Name]
			s.Count++
			stats[c.Name] = s
		}
		for i, result := range results {
			call, ok := answered(calls, result, i)
			if !ok {
				continue
			}
			s := stats[call.Name]
			if ToolFailed(result.Text()) {
				s.Failure++
			} else {
				s.Success++
			}
			stats[call.Name] = s
		}
	})
	return stats
}

// eachToolTurn visits every assistant message with calls along with the tool
// messages that directly follow it.
func eachToolTurn(messages []chat.Message, visit func(calls []chat.ToolCall, results []chat.Message)) {
	for i, m := range messages {
		if m.Role() == chat.RoleAssistant && len(m.ToolCalls()) > 0 {
			visit(m.ToolCalls(), toolResults(messages[i+1:]))
		}
	}
}

// toolResults returns the tool messages at the head of messages.
func toolResults(messages []chat.Message) []chat.Message {
	n := 0
	for n < len(messages) && messages[n].Role() == chat.RoleTool {
		n++
	}
	return messages[:n]
}

// answered returns the call a tool message answers.
func answered(calls []chat.ToolCall, result chat.Message, position int) (chat.ToolCall, bool) {
	if id := result.ToolCallID(); id != "" {
		for _, c := range calls {
			if c.ID == id {
				return c, true
			}
		}
	}
	if position < len(calls) {
		return calls[position], true
	}
	return chat.ToolCall{}, false
}

// ToolFailed says whether a tool's answer reports a failure: a JSON object with a
// non-null "error", or whose "content" is an object with one, or with "success"
// false; or, where the answer is not JSON, nothing at all or a text that begins
// with "error:". A non-zero exit code is not a failure.
func ToolFailed(content string) bool {
	if raw := embeddedJSON(content); raw != nil {
		v := gjson.ParseBytes(raw)
		if !v.IsObject() {
			return false
		}
		inner := v.Get("content")
		return isSet(v.Get("error")) || v.Get("success").Type == gjson.False ||
			(inner.IsObject() && isSet(inner.Get("error")))
	}
	return content == "" || strings.HasPrefix(strings.ToLower(pythonStrip(content)), "error:")
}

func isSet(v gjson.Result) bool { return v.Exists() && v.Type != gjson.Null }

// unknownTools returns the called names that are not in the registry, sorted, and
// how often they were called.
func unknownTools(stats map[string]ToolStat, registry *chat.Toolset) (names []string, calls int) {
	for name, s := range stats {
		if !registry.Has(name) {
			names = append(names, name)
			calls += s.Count
		}
	}
	sort.Strings(names)
	return names, calls
}
