package agentloop

import (
	"errors"

	"github.com/hermes-env/hermes-env/agentloop/chat"
	"github.com/hermes-env/hermes-env/agentloop/model"
)

// quoteBrokenArguments is called when a server refused the conversation. Some
// servers parse the arguments of earlier calls for their chat template and refuse
// a history in which the model once wrote broken JSON, although the model was
// told so and went on. Those arguments are then quoted: they become a JSON string
// that holds what the model wrote. It reports whether there was any.
func (l *loop) quoteBrokenArguments(err error) bool {
	var refused *model.Error
	if !errors.As(err, &refused) || refused.Kind != model.KindBadRequest {
		return false
	}
	changed := false
	for i, m := range l.result.Messages {
		broken := false
		for _, c := range m.ToolCalls() {
			broken = broken || !chat.Valid([]byte(c.Arguments))
		}
		if !broken {
			continue
		}
		repaired, err := m.WithArguments(func(c chat.ToolCall) string {
			if chat.Valid([]byte(c.Arguments)) {
				return c.Arguments
			}
			return string(chat.AppendString(nil, c.Arguments))
		})
		if err != nil {
			return false
		}
		l.result.Messages[i] = repaired
		changed = true
	}
	return changed
}
