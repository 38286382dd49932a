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
	stats := make(toolStats)
	for i, m := range messages {
		if m.Role() != chat.RoleAssistant || len(m.ToolCalls()) == 0 {
			continue
		}
		stats.called(m.ToolCalls())
		for _, a := range answers(m.ToolCalls(), toolResults(messages[i+1:])) {
			stats.answered(a)
		}
	}
	return stats
}

type toolStats map[string]ToolStat

func (t toolStats) called(calls []chat.ToolCall) {
	for _, c := range calls {
		s := t[c.Name]
		s.Count++
		t[c.Name] = s
	}
}

func (t toolStats) answered(a toolAnswer) {
	if !a.matched {
		return
	}
	s := t[a.name]
	if a.failed() {
		s.Failure++
	} else {
		s.Success++
	}
	t[a.name] = s
}

// toolAnswer is a tool message, read once for all that is made of it.
type toolAnswer struct {
	id      string
	name    string // of the tool, "unknown" when no call matches
	matched bool
	text    string
	json    []byte // the text, when it is a JSON object or array
}

// answers reads the tool messages that follow an assistant message with calls.
func answers(calls []chat.ToolCall, results []chat.Message) []toolAnswer {
	list := make([]toolAnswer, len(results))
	for i, m := range results {
		a := toolAnswer{id: m.ToolCallID(), name: "unknown", text: m.Text()}
		a.json = embeddedJSON(a.text)
		if call, ok := answeredCall(calls, a.id, i); ok {
			a.name, a.matched = call.Name, true
		}
		list[i] = a
	}
	return list
}

// toolResults returns the tool messages at the head of messages.
func toolResults(messages []chat.Message) []chat.Message {
	n := 0
	for n < len(messages) && messages[n].Role() == chat.RoleTool {
		n++
	}
	return messages[:n]
}

// answeredCall returns the call a tool message answers.
func answeredCall(calls []chat.ToolCall, id string, position int) (chat.ToolCall, bool) {
	if id != "" {
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
	return toolAnswer{text: content, json: embeddedJSON(content)}.failed()
}

func (a toolAnswer) failed() bool {
	if a.json == nil {
		return a.text == "" || startsWithError(a.text)
	}
	v := gjson.ParseBytes(a.json)
	if !v.IsObject() {
		return false
	}
	inner := v.Get("content")
	return isSet(v.Get("error")) || v.Get("success").Type == gjson.False ||
		(inner.IsObject() && isSet(inner.Get("error")))
}

func startsWithError(text string) bool {
	const word = "error:"
	text = strings.TrimLeftFunc(text, isPythonSpace)
	return len(text) >= len(word) && strings.EqualFold(text[:len(word)], word)
}

func isSet(v gjson.Result) bool { return v.Exists() && v.Type != gjson.Null }

// unknownTools returns the called names that are not in the registry, sorted, and
// how often they were called.
func unknownTools(stats toolStats, registry *chat.Toolset) (names []string, calls int) {
	for name, s := range stats {
		if !registry.Has(name) {
			names = append(names, name)
			calls += s.Count
		}
	}
	sort.Strings(names)
	return names, calls
}
