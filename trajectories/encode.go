package trajectories

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/tidwall/gjson"

	"github.com/hermes-env/hermes-env/agentloop/chat"
)

// timeLayout is RFC 3339 with milliseconds; times are always written in UTC.
const timeLayout = "2006-01-02T15:04:05.000Z07:00"

// AppendRollout appends the line of a rollout to dst, without a newline. It
// refuses records that would make a report untrue or a line unreadable: a score
// that is not a finite number, a score on an unscored outcome, a scored outcome
// without one, an unknown outcome, a missing id, metadata that is no JSON object.
func AppendRollout(dst []byte, r *Rollout) ([]byte, error) {
	if err := r.check(); err != nil {
		return dst, fmt.Errorf("encode rollout %q of item %q: %w", r.ID, r.ItemID, err)
	}
	start := len(dst)
	e := encoder{buf: dst}
	e.raw('{')
	e.text("rollout_id", r.ID)
	e.text("item_id", r.ItemID)
	e.text("item_digest", r.ItemDigest)
	e.integer("step", int64(r.Step))
	e.integer("group", int64(r.Group))
	e.integer("attempt", int64(r.Attempt))
	e.text("outcome", string(r.Outcome))
	e.key("score")
	if r.Score == nil {
		e.null()
	} else {
		e.buf = appendFloat(e.buf, *r.Score)
	}
	e.key("passed")
	if r.Passed == nil {
		e.null()
	} else {
		e.buf = strconv.AppendBool(e.buf, *r.Passed)
	}
	if len(r.ScoreParts) > 0 {
		e.key("score_parts")
		e.raw('{')
		for _, p := range r.ScoreParts {
			e.key(p.Name)
			e.buf = appendFloat(e.buf, p.Value)
		}
		e.raw('}')
	}
	if len(r.Tampering) > 0 {
		e.key("tampering")
		e.tampering(BoundTampering(r.Tampering))
	}
	e.text("stop_reason", r.StopReason)
	e.key("error")
	if r.Error == nil {
		e.null()
	} else {
		e.raw('{')
		e.text("class", r.Error.Class)
		e.text("message", r.Error.Message)
		e.raw('}')
	}
	e.text("model", r.Model)
	e.integer("turns_used", int64(r.TurnsUsed))
	e.boolean("finished_naturally", r.FinishedNaturally)
	e.texts("tools", r.Tools)
	e.texts("toolsets", r.Toolsets)
	e.toolErrors(r.ToolErrors)
	if r.Score == nil && r.ToolCalls > 0 {
		e.integer("tool_calls", int64(r.ToolCalls))
		e.integer("invalid_tool_calls", int64(r.InvalidToolCalls))
	}
	e.usage(r.Usage)
	if r.Spend != nil {
		e.spend(r.Spend)
	}
	e.timings(r.Timings)
	e.key("sandbox")
	if r.Sandbox == nil {
		e.null()
	} else {
		e.raw('{')
		e.text("backend", r.Sandbox.Backend)
		e.text("image", r.Sandbox.Image)
		e.text("digest", r.Sandbox.Digest)
		e.sandboxEvents(r.Sandbox.Events)
		e.raw('}')
	}
	e.integer("retries", int64(r.Retries))
	e.time("started_at", r.StartedAt)
	e.time("finished_at", r.FinishedAt)
	e.sequences(r)
	if r.Metadata != nil {
		e.key("metadata")
		var compact bytes.Buffer
		if err := json.Compact(&compact, r.Metadata); err != nil {
			return dst, fmt.Errorf("encode rollout %q of item %q: metadata: %w", r.ID, r.ItemID, err)
		}
		e.buf = append(e.buf, compact.Bytes()...)
		e.task(r, compact.Bytes())
	}
	e.key("messages")
	e.buf = chat.AppendMessages(e.buf, r.Messages)
	e.raw('}')
	if !utf8.Valid(e.buf[start:]) {
		// Only a string inside a message or the metadata can hold such bytes; strict
		// readers would refuse the whole file because of them.
		e.buf = appendValidUTF8(e.buf[:start:start], e.buf[start:])
	}
	return e.buf, nil
}

// task repeats what benchmarks of tasks say under the names that the records of the
// original framework have, where its readers look for them.
func (e *encoder) task(r *Rollout, metadata []byte) {
	name := gjson.GetBytes(metadata, "task_name")
	if name.Type != gjson.String {
		return
	}
	e.text("task_name", name.Str)
	e.text("category", gjson.GetBytes(metadata, "category").String())
	e.key("reward")
	if r.Score == nil {
		e.null()
	} else {
		e.buf = appendFloat(e.buf, *r.Score)
	}
}

func (r *Rollout) check() error {
	if r.ID == "" {
		return errors.New("the rollout has no id")
	}
	if r.ItemID == "" {
		return errors.New("the rollout has no item id")
	}
	if r.Step < 0 || r.Group < 0 || r.Attempt < 0 {
		return fmt.Errorf("step %d, group %d and attempt %d must not be negative", r.Step, r.Group, r.Attempt)
	}
	if _, err := ParseOutcome(string(r.Outcome)); err != nil {
		return err
	}
	switch {
	case r.Score != nil && !finite(*r.Score):
		return fmt.Errorf("the score is %v, not a finite number", *r.Score)
	case r.Score != nil && !r.Outcome.Scored():
		return fmt.Errorf("outcome %s can not carry a score", r.Outcome)
	case r.Passed != nil && !r.Outcome.Scored():
		return fmt.Errorf("outcome %s can neither pass nor fail", r.Outcome)
	case r.Score == nil && r.Outcome == OutcomeScored:
		return errors.New("outcome scored needs a score")
	}
	seen := make(map[string]bool, len(r.ScoreParts))
	for _, p := range r.ScoreParts {
		if !finite(p.Value) {
			return fmt.Errorf("score part %q is %v, not a finite number", p.Name, p.Value)
		}
		if seen[p.Name] {
			return fmt.Errorf("score part %q is given twice", p.Name)
		}
		seen[p.Name] = true
	}
	if err := r.Timings.check(); err != nil {
		return err
	}
	if r.Spend != nil {
		if err := r.Spend.check(); err != nil {
			return err
		}
	}
	for i, s := range r.Sequences {
		if err := s.check(); err != nil {
			return fmt.Errorf("token sequence %d: %w", i, err)
		}
	}
	if r.Metadata != nil {
		trimmed := bytes.TrimSpace(r.Metadata)
		if !json.Valid(trimmed) || trimmed[0] != '{' {
			return errors.New("metadata is not a JSON object")
		}
	}
	for i, m := range r.Messages {
		if m.IsZero() {
			return fmt.Errorf("message %d is empty", i)
		}
	}
	return nil
}

func (t *Timings) check() error {
	values := []float64{t.Total, t.Model, t.Held, t.Tools, t.Sandbox, t.Verify, t.Harness}
	for _, turn := range t.Turns {
		values = append(values, turn.Model, turn.Tools, turn.Total)
	}
	for _, v := range values {
		if !finite(v) {
			return fmt.Errorf("a timing is %v, not a finite number of seconds", v)
		}
	}
	return nil
}

func finite(f float64) bool { return !math.IsNaN(f) && !math.IsInf(f, 0) }

// encoder appends JSON members by hand: rollouts are recorded on the path of
// every rollout, and reflection would encode each message again.
type encoder struct{ buf []byte }

func (e *encoder) raw(c byte) { e.buf = append(e.buf, c) }
func (e *encoder) null()      { e.buf = append(e.buf, "null"...) }

func (e *encoder) key(name string) {
	if last := e.buf[len(e.buf)-1]; last != '{' && last != '[' {
		e.buf = append(e.buf, ',')
	}
	e.buf = chat.AppendString(e.buf, name)
	e.buf = append(e.buf, ':')
}

func (e *encoder) text(name, value string) {
	e.key(name)
	e.buf = chat.AppendString(e.buf, value)
}

func (e *encoder) integer(name string, value int64) {
	e.key(name)
	e.buf = strconv.AppendInt(e.buf, value, 10)
}

func (e *encoder) boolean(name string, value bool) {
	e.key(name)
	e.buf = strconv.AppendBool(e.buf, value)
}

func (e *encoder) seconds(name string, value float64) {
	e.key(name)
	e.buf = appendFloat(e.buf, microseconds(value))
}

// microseconds rounds seconds to the finest thing a reader can use.
func microseconds(seconds float64) float64 { return math.Round(seconds*1e6) / 1e6 }

func (e *encoder) time(name string, t time.Time) {
	e.key(name)
	e.raw('"')
	e.buf = t.UTC().AppendFormat(e.buf, timeLayout)
	e.raw('"')
}

func (e *encoder) texts(name string, values []string) {
	e.key(name)
	e.raw('[')
	for i, v := range values {
		if i > 0 {
			e.raw(',')
		}
		e.buf = chat.AppendString(e.buf, v)
	}
	e.raw(']')
}

func (e *encoder) toolErrors(list []ToolError) {
	e.key("tool_errors")
	e.raw('[')
	for i, t := range list {
		if i > 0 {
			e.raw(',')
		}
		e.raw('{')
		e.integer("turn", int64(t.Turn))
		e.text("tool_name", t.Tool)
		e.text("arguments", t.Arguments)
		e.text("error", t.Error)
		e.text("tool_result", t.Result)
		e.raw('}')
	}
	e.raw(']')
}

func (e *encoder) sandboxEvents(list []SandboxEvent) {
	if len(list) == 0 {
		return
	}
	e.key("events")
	e.raw('[')
	for i, event := range list {
		if i > 0 {
			e.raw(',')
		}
		e.raw('{')
		e.text("kind", event.Kind)
		e.text("text", event.Text)
		e.boolean("inside", event.Inside)
		e.boolean("lost", event.Lost)
		e.integer("try", int64(event.Try))
		e.time("time", event.Time)
		e.raw('}')
	}
	e.raw(']')
}

func (e *encoder) usage(u chat.Usage) {
	e.key("usage")
	e.raw('{')
	e.integer("prompt_tokens", u.PromptTokens)
	e.integer("completion_tokens", u.CompletionTokens)
	e.integer("total_tokens", u.TotalTokens)
	e.integer("cached_tokens", u.CachedTokens)
	e.integer("reasoning_tokens", u.ReasoningTokens)
	e.raw('}')
}

func (e *encoder) timings(t Timings) {
	e.key("timings")
	e.raw('{')
	e.seconds("total_seconds", t.Total)
	e.seconds("model_seconds", t.Model)
	if t.Held > 0 {
		e.seconds("rate_limited_seconds", t.Held)
	}
	e.seconds("tool_seconds", t.Tools)
	e.seconds("sandbox_seconds", t.Sandbox)
	e.seconds("verify_seconds", t.Verify)
	e.seconds("harness_seconds", t.Harness)
	e.key("turns")
	e.raw('[')
	for i, turn := range t.Turns {
		if i > 0 {
			e.raw(',')
		}
		e.raw('{')
		e.seconds("model_seconds", turn.Model)
		e.seconds("tool_seconds", turn.Tools)
		e.seconds("total_seconds", turn.Total)
		e.integer("prompt_tokens", turn.PromptTokens)
		e.integer("completion_tokens", turn.CompletionTokens)
		e.text("finish_reason", turn.FinishReason)
		e.raw('}')
	}
	e.raw(']')
	e.raw('}')
}

// appendFloat writes a finite number so that readers that infer types always see
// a floating-point number: with a decimal point or an exponent.
func appendFloat(dst []byte, f float64) []byte {
	format := byte('f')
	if abs := math.Abs(f); abs != 0 && (abs < 1e-6 || abs >= 1e21) {
		format = 'e'
	}
	start := len(dst)
	dst = strconv.AppendFloat(dst, f, format, -1, 64)
	if !bytes.ContainsAny(dst[start:], ".e") {
		dst = append(dst, ".0"...)
	}
	return dst
}
