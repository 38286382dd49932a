package cli

import (
	"context"
	"strings"
	"time"

	"github.com/hermes-env/hermes-env/agentloop/chat"
	"github.com/hermes-env/hermes-env/agentloop/model"
	"github.com/hermes-env/hermes-env/trajectories"
)

// decodeTimeout bounds turning one rollout's tokens into text for the table of rollouts.
const decodeTimeout = 10 * time.Second

// completionLengths are the trained tokens of each sequence of a rollout, or the
// completion tokens the server reported where the tokens themselves are not known.
func completionLengths(rec *trajectories.Rollout) []int {
	var lengths []int
	for _, s := range rec.Sequences {
		n := 0
		for _, mask := range s.Masks {
			if mask != model.Masked {
				n++
			}
		}
		lengths = append(lengths, n)
	}
	if len(lengths) == 0 && rec.Usage.CompletionTokens > 0 {
		lengths = append(lengths, int(rec.Usage.CompletionTokens))
	}
	return lengths
}

// text is a rollout as the table of rollouts shows it: its last sequence decoded, so
// that every special token is seen, or else its conversation.
func (m *runMetrics) text(rec *trajectories.Rollout) string {
	if n := len(rec.Sequences); n > 0 && m.decode != nil {
		ctx, cancel := context.WithTimeout(context.Background(), decodeTimeout)
		defer cancel()
		if text, err := m.decode(ctx, rec.Sequences[n-1].Tokens); err == nil {
			return text
		}
	}
	return conversationText(rec.Messages)
}

// conversationText writes a conversation for people: roles, texts and tool calls.
func conversationText(messages []chat.Message) string {
	var b strings.Builder
	for i, msg := range messages {
		if i > 0 {
			b.WriteString("\n\n")
		}
		b.WriteString("[" + string(msg.Role()) + "]")
		if text := msg.NativeReasoning(); text != "" {
			b.WriteString("\n<think>\n" + text + "\n</think>")
		}
		if text := msg.Text(); text != "" {
			b.WriteString("\n" + text)
		}
		for _, call := range msg.ToolCalls() {
			b.WriteString("\n→ " + call.Name + " " + call.Arguments)
		}
	}
	return b.String()
}
