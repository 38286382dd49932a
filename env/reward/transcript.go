package reward

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/hermes-env/hermes-env/agentloop/chat"
)

// transcript writes a conversation for a judge to read. System messages are left out: they are the task's, not the agent's.
func transcript(messages []chat.Message) string {
	var b strings.Builder
	for _, m := range messages {
		if m.Role() == chat.RoleSystem {
			continue
		}
		fmt.Fprintf(&b, "[%s]\n", m.Role())
		if text := m.Text(); text != "" {
			b.WriteString(text)
			b.WriteByte('\n')
		}
		for _, call := range m.ToolCalls() {
			fmt.Fprintf(&b, "(calls %s with %s)\n", call.Name, call.Arguments)
		}
		b.WriteByte('\n')
	}
	return strings.TrimRight(b.String(), "\n")
}

// promptOf returns the last message of the user, which is the prompt: agents work on it without being spoken to again.
func promptOf(messages []chat.Message) string {
	for i := len(messages) - 1; i >= 0; i-- {
		if messages[i].Role() == chat.RoleUser {
			return messages[i].Text()
		}
	}
	return ""
}

// shortenMiddle cuts a text to a number of characters: the first 40 % and the last 60 %.
func shortenMiddle(text string, limit int) string {
	r := []rune(text)
	if len(r) <= limit {
		return text
	}
	head := limit * 2 / 5
	return fmt.Sprintf("%s\n[… %d characters left out …]\n%s", string(r[:head]), len(r)-limit, string(r[len(r)-(limit-head):]))
}

// fence puts a text that nobody vouches for between marks that it can't contain: they are made from a digest of the texts
// themselves, so that writing them would need a text that holds its own digest. The same rollout gets the same marks.
type fence struct{ mark string }

func newFence(texts ...string) fence {
	sum := sha256.New()
	for _, t := range texts {
		fmt.Fprintf(sum, "%d:%s", len(t), t)
	}
	return fence{hex.EncodeToString(sum.Sum(nil)[:8])}
}

func (f fence) around(what, text string) string {
	return fmt.Sprintf("<<<%s %s>>>\n%s\n<<<END %s %s>>>", what, f.mark, text, what, f.mark)
}
