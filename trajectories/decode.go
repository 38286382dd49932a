package trajectories

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"github.com/hermes-env/hermes-env/agentloop/chat"
)

// DecodeRollout reads a line of rollouts.jsonl. Messages and metadata keep their
// bytes; members this version does not know are ignored. The result shares no
// memory with line.
func DecodeRollout(line []byte) (*Rollout, error) {
	if _, err := parseEntry(line); err != nil {
		return nil, err
	}
	r := &Rollout{}
	var failure error
	keep := func(err error) {
		if failure == nil {
			failure = err
		}
	}
	chat.EachMember(line, func(key string, raw []byte) bool {
		if key == "messages" {
			failure = r.decodeMessages(raw)
			return failure == nil
		}
		v := gjson.ParseBytes(raw)
		switch key {
		case "rollout_id":
			r.ID = v.Str
		case "item_id":
			r.ItemID = v.Str
		case "item_digest":
			r.ItemDigest = v.String()
		case "step":
			r.Step = int(v.Int())
		case "group":
			r.Group = int(v.Int())
		case "attempt":
			r.Attempt = int(v.Int())
		case "outcome":
			r.Outcome = Outcome(v.Str)
		case "score":
			r.Score = optionalNumber(v)
		case "passed":
			r.Passed = optionalBool(v)
		case "score_parts":
			v.ForEach(func(name, value gjson.Result) bool {
				r.ScoreParts = append(r.ScoreParts, ScorePart{name.String(), value.Float()})
				return true
			})
		case "tampering":
			r.Tampering = DecodeTampering(raw)
		case "stop_reason":
			r.StopReason = v.String()
		case "error":
			if v.IsObject() {
				r.Error = &Failure{Class: v.Get("class").String(), Message: v.Get("message").String()}
			}
		case "model":
			r.Model = v.String()
		case "turns_used":
			r.TurnsUsed = int(v.Int())
		case "finished_naturally":
			r.FinishedNaturally = v.Bool()
		case "tools":
			r.Tools = textList(v)
		case "toolsets":
			r.Toolsets = textList(v)
		case "tool_errors":
			r.ToolErrors = decodeToolErrors(v)
		case "tool_calls":
			r.ToolCalls = int(v.Int())
		case "invalid_tool_calls":
			r.InvalidToolCalls = int(v.Int())
		case "usage":
			r.Usage = decodeUsage(v)
		case "spend":
			r.Spend = decodeSpend(v)
		case "timings":
			r.Timings = decodeTimings(v)
		case "sandbox":
			if v.IsObject() {
				r.Sandbox = &Sandbox{Backend: v.Get("backend").String(), Image: v.Get("image").String(), Digest: v.Get("digest").String()}
				keep(decodeSandboxEvents(r.Sandbox, v.Get("events")))
			}
		case "retries":
			r.Retries = int(v.Int())
		case "started_at":
			keep(decodeTime(&r.StartedAt, "started_at", v))
		case "finished_at":
			keep(decodeTime(&r.FinishedAt, "finished_at", v))
		case "token_sequences":
			keep(decodeSequences(r, v))
		case "not_trainable":
			r.NotTrainable = v.String()
		case "metadata":
			if v.IsObject() {
				r.Metadata = json.RawMessage(v.Raw)
			}
		}
		return failure == nil
	})
	if failure != nil {
		return nil, fmt.Errorf("rollout %q: %w", r.ID, failure)
	}
	return r, nil
}

// decodeMessages reads the conversation, which is known to be valid JSON.
func (r *Rollout) decodeMessages(list []byte) (failure error) {
	chat.EachElement(list, func(raw []byte) bool {
		m, err := chat.DecodeValid(raw)
		if err != nil {
			failure = fmt.Errorf("message %d: %w", len(r.Messages), err)
			return false
		}
		r.Messages = append(r.Messages, m)
		return true
	})
	return failure
}

func optionalNumber(v gjson.Result) *float64 {
	if v.Type != gjson.Number {
		return nil
	}
	f := v.Float()
	return &f
}

func optionalBool(v gjson.Result) *bool {
	if !v.IsBool() {
		return nil
	}
	b := v.Bool()
	return &b
}

func textList(v gjson.Result) []string {
	var list []string
	v.ForEach(func(_, item gjson.Result) bool {
		list = append(list, item.String())
		return true
	})
	return list
}

func decodeToolErrors(v gjson.Result) []ToolError {
	var list []ToolError
	v.ForEach(func(_, item gjson.Result) bool {
		list = append(list, ToolError{
			Turn:      int(item.Get("turn").Int()),
			Tool:      item.Get("tool_name").String(),
			Arguments: item.Get("arguments").String(),
			Error:     item.Get("error").String(),
			Result:    item.Get("tool_result").String(),
		})
		return true
	})
	return list
}

func decodeUsage(v gjson.Result) chat.Usage {
	return chat.Usage{
		PromptTokens:     v.Get("prompt_tokens").Int(),
		CompletionTokens: v.Get("completion_tokens").Int(),
		TotalTokens:      v.Get("total_tokens").Int(),
		CachedTokens:     v.Get("cached_tokens").Int(),
		ReasoningTokens:  v.Get("reasoning_tokens").Int(),
	}
}

func decodeTimings(v gjson.Result) Timings {
	t := Timings{
		Total:   v.Get("total_seconds").Float(),
		Model:   v.Get("model_seconds").Float(),
		Held:    v.Get("rate_limited_seconds").Float(),
		Tools:   v.Get("tool_seconds").Float(),
		Sandbox: v.Get("sandbox_seconds").Float(),
		Verify:  v.Get("verify_seconds").Float(),
		Harness: v.Get("harness_seconds").Float(),
	}
	v.Get("turns").ForEach(func(_, turn gjson.Result) bool {
		t.Turns = append(t.Turns, TurnTiming{
			Model:            turn.Get("model_seconds").Float(),
			Tools:            turn.Get("tool_seconds").Float(),
			Total:            turn.Get("total_seconds").Float(),
			PromptTokens:     turn.Get("prompt_tokens").Int(),
			CompletionTokens: turn.Get("completion_tokens").Int(),
			FinishReason:     turn.Get("finish_reason").String(),
		})
		return true
	})
	return t
}

func decodeTime(into *time.Time, name string, v gjson.Result) error {
	t, err := time.Parse(time.RFC3339Nano, v.String())
	if err != nil {
		return fmt.Errorf("%s: %q is not a time in RFC 3339 form", name, v.String())
	}
	*into = t.UTC()
	return nil
}

// Entry is what the index keeps of a recorded rollout: enough to resume and to
// report without reading the conversation again.
type Entry struct {
	Key
	ID         string
	ItemDigest string
	Group      int
	Outcome    Outcome
	Score      *float64
	Passed     *bool
	Tampering  *TamperingKinds // nil when nothing was found
	TestLimits TestLimits
	TurnsUsed  int
	Usage      EntryUsage
	Spend      EntrySpend
	Timings    EntryTimings
	// SandboxEnds is how often its sandboxes ended before it did.
	SandboxEnds int

	finished  int64 // milliseconds since 1970, 0 when unknown
	modelTurn bool  // a message of the role assistant exists
	offset    int64 // of the line in rollouts.jsonl
	length    int64 // of the line without its newline
	segment   int   // of the archive that has the line; 0: it is in rollouts.jsonl
}

// Archived says that the rollout is in a segment of the archive, where it stays.
func (e *Entry) Archived() bool { return e.segment != 0 }

// EntryUsage counts the tokens of a rollout.
type EntryUsage struct{ PromptTokens, CompletionTokens int64 }

// EntryTimings says where the time of a rollout went, in seconds.
type EntryTimings struct{ Total, Model, Held, Tools, Sandbox, Verify, Harness float64 }

// Trained says whether the rollout has a line in trajectories.jsonl.
func (e *Entry) Trained() bool { return e.Outcome.Trained() && e.modelTurn }

// messagesKey begins the last member of a line as this package writes it. The
// bytes can not be part of a string, whose quotes are escaped.
const messagesKey = `,"messages":[`

// parseEntry reads the index fields of a line. It fails when the line is not
// valid JSON or lacks what identifies a rollout.
func parseEntry(line []byte) (Entry, error) {
	// Nearly all of a line is its messages, of which only the roles matter here.
	if i := bytes.Index(line, []byte(messagesKey)); i >= 0 && line[len(line)-1] == '}' {
		head, list := append(line[:i:i], '}'), line[i+len(messagesKey)-1:len(line)-1]
		if validJSON(head) && validJSON(list) {
			return parseMembers(head, list)
		}
	}
	if !validJSON(line) {
		return Entry{}, errors.New("not valid JSON")
	}
	return parseMembers(line, nil)
}

// parseMembers reads the members of head, and the messages apart when they are given.
func parseMembers(head, list []byte) (Entry, error) {
	root := gjson.ParseBytes(head)
	if !root.IsObject() {
		return Entry{}, errors.New("not a JSON object")
	}
	e := Entry{Key: Key{Step: -1, Attempt: -1}}
	messages := false
	var failure error
	var spend *Spend
	var cached int64
	if list != nil {
		messages = true
		e.modelTurn = hasAssistant(list)
	}
	root.ForEach(func(key, v gjson.Result) bool {
		switch key.Str {
		case "rollout_id":
			e.ID = entryText(v)
		case "item_id":
			e.ItemID = entryText(v)
		case "item_digest":
			e.ItemDigest = entryText(v)
		case "step":
			e.Step, failure = entryNumber("step", v)
		case "group":
			e.Group, failure = entryNumber("group", v)
		case "attempt":
			e.Attempt, failure = entryNumber("attempt", v)
		case "outcome":
			e.Outcome, failure = ParseOutcome(v.String())
		case "score":
			e.Score = optionalNumber(v)
		case "passed":
			e.Passed = optionalBool(v)
		case "tampering":
			e.Tampering = KindsOfTampering(DecodeTampering([]byte(v.Raw)))
		case "metadata":
			e.TestLimits = TestLimitsOf([]byte(v.Raw))
		case "turns_used":
			e.TurnsUsed = int(v.Int())
		case "usage":
			u := decodeUsage(v)
			e.Usage, cached = EntryUsage{u.PromptTokens, u.CompletionTokens}, u.CachedTokens
		case "spend":
			spend = decodeSpend(v)
		case "timings":
			e.Timings = decodeEntryTimings(v)
		case "sandbox":
			for _, event := range v.Get("events").Array() {
				if (SandboxEvent{Kind: event.Get("kind").String()}).ends() {
					e.SandboxEnds++
				}
			}
		case "finished_at":
			if t, err := time.Parse(time.RFC3339Nano, v.Str); err == nil {
				e.finished = t.UnixMilli()
			}
		case "messages":
			if messages = v.IsArray(); messages {
				e.modelTurn = hasAssistant([]byte(v.Raw))
			}
		}
		return failure == nil
	})
	e.Spend = entrySpend(spend, e.Usage, cached, e.TurnsUsed)
	switch {
	case failure != nil:
		return Entry{}, failure
	case e.ID == "", e.ItemID == "", e.Step < 0, e.Attempt < 0, e.Outcome == "", !messages:
		return Entry{}, errors.New("not the record of a rollout: rollout_id, item_id, step, attempt, outcome or messages is missing")
	case e.Score != nil && !e.Outcome.Scored():
		return Entry{}, fmt.Errorf("outcome %s can not carry a score", e.Outcome)
	case e.Score != nil && !finite(*e.Score):
		return Entry{}, errors.New("the score is not a finite number")
	case e.Score == nil && e.Outcome == OutcomeScored:
		return Entry{}, errors.New("outcome scored needs a score")
	}
	return e, nil
}

func decodeSandboxEvents(s *Sandbox, list gjson.Result) error {
	for _, v := range list.Array() {
		e := SandboxEvent{
			Kind: v.Get("kind").String(), Text: v.Get("text").String(), Inside: v.Get("inside").Bool(), Lost: v.Get("lost").Bool(), Try: int(v.Get("try").Int()),
		}
		if err := decodeTime(&e.Time, "sandbox.events.time", v.Get("time")); err != nil {
			return err
		}
		s.Events = append(s.Events, e)
	}
	return nil
}

func hasAssistant(list []byte) bool {
	found := false
	chat.EachElement(list, func(message []byte) bool {
		chat.EachMember(message, func(key string, value []byte) bool {
			if key != "role" {
				return true
			}
			found = string(value) == `"assistant"` || value[0] == '"' && chat.Unquote(value) == string(chat.RoleAssistant)
			return false
		})
		return !found
	})
	return found
}

func decodeEntryTimings(v gjson.Result) EntryTimings {
	var t EntryTimings
	v.ForEach(func(key, value gjson.Result) bool {
		switch key.Str {
		case "total_seconds":
			t.Total = value.Num
		case "model_seconds":
			t.Model = value.Num
		case "rate_limited_seconds":
			t.Held = value.Num
		case "tool_seconds":
			t.Tools = value.Num
		case "sandbox_seconds":
			t.Sandbox = value.Num
		case "verify_seconds":
			t.Verify = value.Num
		case "harness_seconds":
			t.Harness = value.Num
		case "turns":
			return false // the last member, and the only long one
		}
		return true
	})
	return t
}

// entryText copies the string out of the line, which would otherwise be kept
// whole in memory for as long as the index lives.
func entryText(v gjson.Result) string {
	if v.Type != gjson.String {
		return ""
	}
	return strings.Clone(v.Str)
}

func entryNumber(name string, v gjson.Result) (int, error) {
	n := v.Int()
	if v.Type != gjson.Number || n < 0 || float64(n) != v.Num {
		return 0, fmt.Errorf("%s is %s, not a number from 0", name, v.Raw)
	}
	return int(n), nil
}
