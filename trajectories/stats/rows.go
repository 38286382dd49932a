package stats

import (
	"bytes"
	"errors"
	"hash/fnv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/tidwall/gjson"

	"github.com/hermes-env/hermes-env/agentloop/chat"
	"github.com/hermes-env/hermes-env/trajectories"
)

// Formats of rows.
const (
	formatRollout  = "rollout"
	formatShareGPT = "sharegpt"
	formatMessages = "messages"
)

// Line adds one line of a JSONL file, in whichever of the formats it is: a
// recorded rollout, a ShareGPT row, or any row with OpenAI messages.
func (c *Collector) Line(line []byte) error {
	if !chat.Valid(line) {
		return errors.New("not valid JSON")
	}
	v := gjson.ParseBytes(line)
	switch {
	case !v.IsObject():
		return errors.New("not a JSON object")
	case v.Get("conversations").IsArray():
		c.add(fromShareGPT(v))
	case v.Get("rollout_id").Exists() && v.Get("step").Exists() && !v.Get("prompt_tokens").Exists(): // convert's rows have tokens beside, not in usage
		r, err := trajectories.DecodeRollout(line)
		if err != nil {
			return err
		}
		c.add(fromRollout(r))
	case v.Get("messages").IsArray():
		r, err := fromMessages(v)
		if err != nil {
			return err
		}
		c.add(r)
	default:
		return errors.New("neither a rollout nor a row with conversations or messages")
	}
	return nil
}

func fromRollout(r *trajectories.Rollout) row {
	out := row{
		format: formatRollout, id: r.ID, item: r.ItemID, attempt: r.Attempt, outcome: string(r.Outcome), score: r.Score, passed: r.Passed,
		stop: r.StopReason, model: r.Model, turns: r.TurnsUsed, tokens: true,
		prompt: r.Usage.PromptTokens, cached: r.Usage.CachedTokens, completion: r.Usage.CompletionTokens,
		spend: r.Spend, tampering: r.Tampering, seconds: r.Timings.Total, finished: r.FinishedAt, metadata: gjson.ParseBytes(r.Metadata),
		time: Time{Model: r.Timings.Model, Tools: r.Timings.Tools, Sandbox: r.Timings.Sandbox, Verify: r.Timings.Verify, Harness: r.Timings.Harness},
	}
	if r.Error != nil {
		out.errorClass = r.Error.Class
	}
	for _, t := range r.Timings.Turns {
		if t.FinishReason != "" {
			out.finishes = append(out.finishes, t.FinishReason)
		}
	}
	out.conversation(r.Messages)
	return out
}

// conversation adds what the messages tell.
func (r *row) conversation(messages []chat.Message) {
	r.tools = trajectories.ToolStats(messages)
	whole := fnv.New64a()
	for _, m := range messages {
		text := m.Text()
		r.characters += utf8.RuneCountInString(text)
		switch m.Role() {
		case chat.RoleUser:
			if r.promptHash == 0 {
				r.promptHash = hash(strings.TrimSpace(text))
			}
		case chat.RoleAssistant:
			r.assistants++
			if strings.TrimSpace(m.NativeReasoning()) != "" || thinks(text) {
				r.reasoned++
			}
			r.characters += utf8.RuneCountInString(m.NativeReasoning())
			for _, call := range m.ToolCalls() {
				r.characters += utf8.RuneCountInString(call.Arguments)
				_, _ = whole.Write([]byte(call.Name + call.Arguments))
			}
		}
		if m.Role() != chat.RoleSystem {
			_, _ = whole.Write([]byte(string(m.Role()) + "\x00" + text + "\x00"))
		}
	}
	r.wholeHash = whole.Sum64()
}

// thinks says whether a text carries reasoning between tags.
func thinks(text string) bool {
	for _, tag := range []string{"think", "REASONING_SCRATCHPAD"} {
		_, rest, found := strings.Cut(text, "<"+tag+">")
		if !found {
			continue
		}
		inner, _, _ := strings.Cut(rest, "</"+tag+">")
		if strings.TrimSpace(inner) != "" {
			return true
		}
	}
	return false
}

func fromShareGPT(v gjson.Result) row {
	r := row{
		format: formatShareGPT, id: v.Get("rollout_id").String(), item: v.Get("item_id").String(), attempt: int(v.Get("metadata.attempt").Int()),
		outcome: v.Get("outcome").String(), model: v.Get("model").String(), stop: v.Get("metadata.stop_reason").String(), turns: int(v.Get("api_calls").Int()),
		metadata: v.Get("metadata"), tampering: tamperingIn(v),
	}
	switch own := v.Get("metadata.environment"); {
	case own.Type == gjson.String: // of earlier versions
		r.metadata = gjson.Parse(own.Str)
	case own.IsObject():
		r.metadata = own
	}
	if r.item == "" {
		r.item = v.Get("prompt_index").String()
	}
	if r.model == "" {
		r.model = v.Get("metadata.model").String()
	}
	if r.outcome == "" && v.Get("completed").IsBool() {
		r.outcome = "not completed"
		if v.Get("completed").Bool() {
			r.outcome = "completed"
		} else if v.Get("partial").Bool() {
			r.outcome = "partial"
		}
	}
	if s := v.Get("score"); s.Type == gjson.Number {
		r.score = &s.Num
	}
	stamp := v.Get("timestamp").String()
	if stamp == "" {
		stamp = v.Get("metadata.timestamp").String()
	}
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05.999999999"} {
		if at, err := time.Parse(layout, stamp); err == nil {
			r.finished = at
			break
		}
	}
	r.tools = make(map[string]trajectories.ToolStat)
	stats := v.Get("tool_stats")
	stats.ForEach(func(name, s gjson.Result) bool {
		r.tools[name.String()] = trajectories.ToolStat{Count: int(s.Get("count").Int()), Success: int(s.Get("success").Int()), Failure: int(s.Get("failure").Int())}
		return true
	})
	r.shareGPTTurns(v.Get("conversations"), !stats.IsObject())
	return r
}

// shareGPTTurns adds what the turns tell; calls are counted from their text where
// the row has no statistics of its own.
func (r *row) shareGPTTurns(turns gjson.Result, countCalls bool) {
	whole := fnv.New64a()
	turns.ForEach(func(_, turn gjson.Result) bool {
		from, value := turn.Get("from").String(), turn.Get("value").String()
		if from == "system" {
			return true
		}
		r.characters += utf8.RuneCountInString(value)
		_, _ = whole.Write([]byte(from + "\x00" + value + "\x00"))
		switch from {
		case "human", "user":
			if r.promptHash == 0 {
				r.promptHash = hash(strings.TrimSpace(value))
			}
		case "gpt", "assistant":
			r.assistants++
			if thinks(value) {
				r.reasoned++
			}
			if countCalls {
				r.countCalls(value)
			}
		}
		return true
	})
	r.wholeHash = whole.Sum64()
}

func (r *row) countCalls(value string) {
	for {
		_, rest, found := strings.Cut(value, "<tool_call>")
		if !found {
			return
		}
		block, after, _ := strings.Cut(rest, "</tool_call>")
		value = after
		name := gjson.Get(strings.TrimSpace(block), "name").String()
		if name == "" {
			name = "(unreadable call)"
		}
		s := r.tools[name]
		s.Count++
		r.tools[name] = s
	}
}

func fromMessages(v gjson.Result) (row, error) {
	r := row{
		format: formatMessages, id: v.Get("id").String(), item: v.Get("item_id").String(), attempt: int(v.Get("attempt").Int()),
		outcome: v.Get("outcome").String(), model: v.Get("model").String(), metadata: v.Get("metadata"), turns: int(v.Get("turns_used").Int()),
		tampering: tamperingIn(v),
	}
	if s := v.Get("score"); s.Type == gjson.Number {
		r.score = &s.Num
	}
	if p := v.Get("passed"); p.IsBool() {
		passed := p.Bool()
		r.passed = &passed
	}
	if r.id == "" {
		r.id = v.Get("rollout_id").String()
	}
	r.stop = v.Get("stop_reason").String()
	if prompt, completion := v.Get("prompt_tokens"), v.Get("completion_tokens"); prompt.Type == gjson.Number && completion.Type == gjson.Number {
		r.tokens, r.prompt, r.completion = true, prompt.Int(), completion.Int()
	}
	if own := r.metadata; own.Type == gjson.String {
		r.metadata = gjson.Parse(own.Str)
	}
	var messages []chat.Message
	var failure error
	v.Get("messages").ForEach(func(_, item gjson.Result) bool {
		m, err := chat.Decode(bytes.Clone([]byte(item.Raw)))
		if err != nil {
			failure = err
			return false
		}
		messages = append(messages, m)
		return true
	})
	r.conversation(messages)
	return r, failure
}
