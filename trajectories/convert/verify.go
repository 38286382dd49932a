package convert

import (
	"github.com/hermes-env/hermes-env/agentloop/chat"
	"github.com/hermes-env/hermes-env/trajectories"
)

// conversation counts what ShareGPT turns can't carry of the messages they were
// made of. Beside what is known to be left out it reads the turns back and
// compares: whatever differs is counted, also what nobody thought of.
func (l *losses) conversation(r *Row, turns []trajectories.Turn, invalid int) {
	var kept []chat.Message
	answered := map[string]bool{}
	open := false // tool messages here answer an assistant message with calls
	for _, m := range r.Messages {
		l.oddMembers(m)
		switch m.Role() {
		case chat.RoleSystem, "developer":
			l.add("system messages (the system turn is generated)", 1)
			open = false
			continue
		case chat.RoleUser, chat.RoleAssistant:
			open = len(m.ToolCalls()) > 0
		case chat.RoleTool:
			if !open {
				l.add("tool messages that answer no call", 1)
				continue
			}
			answered[m.ToolCallID()] = true
		default:
			l.add("messages of other roles than system, user, assistant and tool", 1)
			open = false
			continue
		}
		kept = append(kept, m)
	}
	l.add("arguments of tool calls that are no JSON object", invalid)
	unanswered := 0
	for _, m := range kept {
		for _, c := range m.ToolCalls() {
			if c.ID != "" && !answered[c.ID] {
				unanswered++
			}
		}
	}
	l.add("ids of tool calls that were not answered", unanswered)
	back := readConversation(turns).messages
	l.add("messages that read differently afterwards (think tags, white space, ids)", differences(kept, back, answered))
}

// differences counts the messages of b that do not say what those of a say. JSON
// in arguments and answers counts as the same in any layout; ids count where they
// were answered.
func differences(a, b []chat.Message, answered map[string]bool) int {
	n := max(len(a), len(b)) - min(len(a), len(b))
	for i := range min(len(a), len(b)) {
		if !sameMessage(a[i], b[i], answered) {
			n++
		}
	}
	return n
}

func sameMessage(a, b chat.Message, answered map[string]bool) bool {
	if a.Role() != b.Role() || !sameText(a, b) || a.NativeReasoning() != b.NativeReasoning() || len(a.ToolCalls()) != len(b.ToolCalls()) {
		return false
	}
	for k, c := range a.ToolCalls() {
		d := b.ToolCalls()[k]
		if c.Name != d.Name || !sameJSON(c.Arguments, d.Arguments) || c.ID != d.ID && answered[c.ID] {
			return false
		}
	}
	return a.Role() != chat.RoleTool || a.ToolCallID() == b.ToolCallID()
}

func sameText(a, b chat.Message) bool {
	if a.Role() == chat.RoleTool {
		return sameJSON(a.Text(), b.Text())
	}
	return a.Text() == b.Text()
}

func sameJSON(a, b string) bool {
	return a == b || chat.Valid(bytesOf(a)) && chat.Valid(bytesOf(b)) && compact(a) == compact(b)
}
