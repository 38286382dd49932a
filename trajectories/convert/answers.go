package convert

import (
	"slices"
	"strings"

	"github.com/hermes-env/hermes-env/agentloop/chat"
)

const (
	reasonNoAnswer    = "no answer of the model to train on"
	keepUnanswered    = " (--include-unanswered keeps it)"
	reasonEmptyAnswer = "the last answer is empty" + keepUnanswered
	reasonOnlyRefusal = "the last answer is a refusal outside of its text" + keepUnanswered
)

// unansweredRow says why a row has no answer to train on, "" if it has one. Groups keep such
// rows: they have tokens and scores of their own.
func (o *Options) unansweredRow(r *Row) string {
	if o.To.records() || o.To == Groups {
		return ""
	}
	messages := upToAnswer(r.Messages)
	if len(messages) == 0 {
		switch {
		case o.For != "" || o.To == Preference || o.To == KTO:
			return reasonNoAnswer // no side of a pair is empty, no trainer takes such a row
		case o.Filter.IncludeUnanswered, !r.Outcome.Scored() && (o.Filter.IncludeUnscored || slices.Contains(o.Filter.Outcomes, string(r.Outcome))):
			return "" // rollouts that failed are asked for by name
		}
		return reasonNoAnswer + keepUnanswered
	}
	if o.Filter.IncludeUnanswered || !emptyAnswer(messages[len(messages)-1]) {
		return ""
	}
	if refusal(messages[len(messages)-1]) {
		return reasonOnlyRefusal
	}
	return reasonEmptyAnswer
}

// emptyAnswer reports whether a message has no text, no reasoning, no call and no image.
func emptyAnswer(m chat.Message) bool {
	if len(m.ToolCalls()) > 0 || strings.TrimSpace(m.Text()) != "" || strings.TrimSpace(m.NativeReasoning()) != "" {
		return false
	}
	content := m.Get("content")
	empty := true
	if isList(content) {
		chat.EachElement(content, func(part []byte) bool {
			switch kind := memberOf(part, "type"); chat.Unquote(kind) {
			case "text", "output_text", "thinking", "refusal":
			default:
				empty = false
			}
			return empty
		})
	}
	return empty
}

// refusal reports whether an answer refuses in the way of a protocol: by a member of its
// own, a part of its content, or the reason why it ended.
func refusal(m chat.Message) bool {
	if text := m.Get("refusal"); isText(text) && strings.TrimSpace(chat.Unquote(text)) != "" {
		return true
	}
	for _, name := range []string{"stop_reason", "finish_reason"} {
		if v := m.Get(name); isText(v) && chat.Unquote(v) == stopRefusal {
			return true
		}
	}
	found := false
	if content := m.Get("content"); isList(content) {
		chat.EachElement(content, func(part []byte) bool {
			kind := memberOf(part, "type")
			found = isText(kind) && chat.Unquote(kind) == "refusal"
			return !found
		})
	}
	return found
}

// stopRefusal is the reason why an answer ended that says that the model refused.
const stopRefusal = "refusal"

// refusesByProtocol reports whether an answer of a row refuses by its protocol.
func refusesByProtocol(r *Row) bool {
	if r.StopReason == stopRefusal {
		return true
	}
	for _, t := range r.Timings.Turns {
		if t.FinishReason == stopRefusal {
			return true
		}
	}
	for _, m := range r.Messages {
		if m.Role() == chat.RoleAssistant && refusal(m) {
			return true
		}
	}
	return false
}
