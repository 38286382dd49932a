package reward

import (
	"bytes"
	"encoding/json"
	"strconv"
	"time"

	"github.com/hermes-env/hermes-env/agentloop/chat"
)

// ProtocolVersion is the version of the protocol that reward programs speak; see docs/rewards.md. Unknown fields are to be
// ignored by both sides, so that new ones need no new version.
const ProtocolVersion = 1

// Types of lines.
const (
	lineHello  = "hello"
	lineScore  = "score"
	lineCancel = "cancel"
)

// maxAnswerLine is the longest line taken from a program, in bytes.
const maxAnswerLine = 8 << 20

func helloLine() []byte {
	return append(strconv.AppendInt([]byte(`{"type":"hello","protocol":`), ProtocolVersion, 10), `,"harness":"hermes-env"}`+"\n"...)
}

func cancelLine(id string) []byte {
	line := chat.AppendString([]byte(`{"type":"cancel","id":`), id)
	return append(line, "}\n"...)
}

// scoreLine asks for the score of a rollout.
func scoreLine(id string, in Input, deadline time.Duration) []byte {
	r := in.Result
	line := make([]byte, 0, 1024+len(in.Row))
	line = chat.AppendString(append(line, `{"type":"score","id":`...), id)
	line = chat.AppendString(append(line, `,"item":{"id":`...), in.ItemID)
	line = append(append(line, `,"row":`...), compactRow(in.Row)...)
	line = append(line, `},"answer":`...)
	line = chat.AppendString(line, r.FinalText())
	line = append(line, `,"messages":`...)
	line = chat.AppendMessages(line, r.Messages)
	line = append(line, `,"result":{"stop_reason":`...)
	line = chat.AppendString(line, string(r.StopReason))
	line = strconv.AppendInt(append(line, `,"turns_used":`...), int64(r.TurnsUsed), 10)
	line = strconv.AppendBool(append(line, `,"finished_naturally":`...), r.FinishedNaturally)
	line = strconv.AppendInt(append(line, `,"tool_calls":`...), int64(r.ToolCalls), 10)
	line = strconv.AppendInt(append(line, `,"invalid_tool_calls":`...), int64(r.InvalidToolCalls), 10)
	line = strconv.AppendInt(append(line, `,"tool_errors":`...), int64(len(r.ToolErrors)), 10)
	line = strconv.AppendInt(append(line, `,"prompt_tokens":`...), r.Usage.PromptTokens, 10)
	line = strconv.AppendInt(append(line, `,"completion_tokens":`...), r.Usage.CompletionTokens, 10)
	line = append(line, `},"deadline_seconds":`...)
	line = strconv.AppendFloat(line, deadline.Seconds(), 'g', -1, 64)
	return append(line, "}\n"...)
}

// compactRow keeps a row on one line.
func compactRow(row []byte) []byte {
	if bytes.IndexByte(row, '\n') < 0 && len(row) > 0 {
		return row
	}
	var out bytes.Buffer
	if err := json.Compact(&out, row); err != nil {
		return []byte("null")
	}
	return out.Bytes()
}
