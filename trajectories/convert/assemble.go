package convert

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"github.com/hermes-env/hermes-env/agentloop/chat"
	"github.com/hermes-env/hermes-env/trajectories"
)

// shape is the JSON type that a member of a record has.
type shape int

const (
	shapeText shape = iota + 1
	shapeCount
	shapeNumber
	shapeBool
	shapeTexts
	shapeObject
	shapeList
	shapeTime
)

// knownMember is a member of a record and its shape.
type knownMember struct {
	name  string
	shape shape
}

// known returns the members of a record with their shapes.
func known() [28]knownMember {
	return [...]knownMember{
		{"rollout_id", shapeText}, {"item_id", shapeText}, {"item_digest", shapeText}, {"step", shapeCount}, {"group", shapeCount}, {"attempt", shapeCount},
		{"outcome", shapeText}, {"score", shapeNumber}, {"passed", shapeBool}, {"score_parts", shapeObject}, {"tampering", shapeList}, {"stop_reason", shapeText}, {"error", shapeObject},
		{"model", shapeText}, {"turns_used", shapeCount}, {"finished_naturally", shapeBool}, {"tools", shapeTexts}, {"toolsets", shapeTexts},
		{"tool_errors", shapeList}, {"usage", shapeObject}, {"timings", shapeObject}, {"sandbox", shapeObject}, {"retries", shapeCount},
		{"started_at", shapeTime}, {"finished_at", shapeTime}, {"metadata", shapeObject}, {"token_sequences", shapeList}, {"not_trainable", shapeText},
	}
}

// shapeOf returns the shape of a member of a record, 0 when a record has no such member.
func shapeOf(name string) shape {
	list := known()
	for i := range list {
		if list[i].name == name {
			return list[i].shape
		}
	}
	return 0
}

// otherName is the record's name for a member of another format.
func otherName(name string) string {
	switch name {
	case "prompt_index":
		return "group"
	case "completed":
		return "finished_naturally"
	case "api_calls":
		return "turns_used"
	case "toolsets_used":
		return "toolsets"
	case "timestamp":
		return "finished_at"
	case "id":
		return "rollout_id"
	case "reward":
		return "score"
	}
	return name
}

func (s shape) fits(v gjson.Result) bool {
	switch s {
	case shapeText:
		return v.Type == gjson.String && v.Str != ""
	case shapeCount:
		return v.Type == gjson.Number && v.Num >= 0 && v.Num == float64(v.Int())
	case shapeNumber:
		return v.Type == gjson.Number
	case shapeBool:
		return v.IsBool()
	case shapeTexts:
		ok := v.IsArray()
		v.ForEach(func(_, item gjson.Result) bool { ok = ok && item.Type == gjson.String; return ok })
		return ok
	case shapeObject:
		return v.IsObject()
	case shapeList:
		return v.IsArray()
	}
	return v.Type == gjson.String && !parseTime(v.Str).IsZero()
}

func parseTime(text string) time.Time {
	for _, form := range timeForms() {
		if t, err := time.Parse(form, text); err == nil {
			return t.UTC()
		}
	}
	return time.Time{}
}

// assembly gathers what a row of another format knows.
type assembly struct {
	record   map[string]json.RawMessage
	metadata chat.Object // members that no record has
	row      *Row
}

// assemble makes a row of the members of a foreign record; conversation names the
// member that holds the messages. What the record has no place for goes into the
// metadata, and what a rollout needs and the record lacks is made up and named.
func assemble(record chat.Object, conversation string, messages []chat.Message, place string) (*Row, error) {
	a := assembly{record: map[string]json.RawMessage{}, row: &Row{}}
	detailed := false
	if d := record.Get("details"); isText(d) {
		if text := []byte(chat.Unquote(d)); chat.Valid(text) {
			detailed = true
			a.members(membersOf(text), "", false)
		}
	}
	a.members(record, conversation, detailed)
	return a.finish(messages, place)
}

// members takes those of a JSON object. With detailed set, those in its details have been
// taken already.
func (a *assembly) members(object chat.Object, conversation string, detailed bool) {
	partial := false
	for _, member := range object {
		name, raw := member.Key, member.Value
		switch name {
		case conversation, "tool_stats", "tool_error_counts":
			continue // counted anew from the conversation
		}
		// A copy: what is kept of it must not hold the whole record.
		value := gjson.ParseBytes(raw)
		name = strings.Clone(name)
		switch name {
		case "details":
			if detailed || value.Type == gjson.String && gjson.Valid(value.Str) {
				continue
			}
		case "partial":
			partial = value.Bool()
			continue
		case "tampered":
			if value.IsBool() && view(object.Get("metadata")).Get("tampering").Type == gjson.String {
				continue // of a row whose metadata has the entries
			}
		case "task_name", "category", "reward":
			if object.Get("rollout_id") != nil && view(object.Get("metadata")).Get("task_name").Exists() {
				continue // of a record, which repeats them from elsewhere
			}
		case "token_turns":
			if value.IsArray() {
				a.row.Turns = json.RawMessage(value.Raw)
				continue
			}
		case "metadata":
			a.ownMetadata(value)
			continue
		case "tokens", "masks", "logprobs":
			if a.sequence(name, value) {
				continue
			}
		case "prompt_tokens", "completion_tokens":
			if shapeCount.fits(value) {
				a.tokens(name, value)
				continue
			}
		case "functions": // of messages with function_call
			if functions := definitions(value); functions != nil && a.row.Tools == nil {
				for i, f := range functions {
					if !gjson.GetBytes(f, "function").Exists() {
						functions[i] = append(append([]byte(`{"type":"function","function":`), f...), '}')
					}
				}
				a.row.Tools = functions
				continue
			}
		case "tools":
			if tools := definitions(value); tools != nil {
				a.row.Tools = tools
				continue
			}
		}
		record := otherName(name)
		s := shapeOf(record)
		if value.Type == gjson.Null || (s == shapeText || s == shapeTime) && value.Type == gjson.String && value.Str == "" {
			continue
		}
		if s != 0 && s.fits(value) && (record == name || a.record[record] == nil) {
			raw := json.RawMessage(value.Raw)
			if s == shapeTime {
				raw = chat.AppendString(nil, parseTime(value.Str).Format(time.RFC3339Nano))
			}
			if record == "outcome" {
				if _, err := trajectories.ParseOutcome(value.Str); err != nil {
					a.metadata.Set(name, raw)
					continue
				}
			}
			a.record[record] = raw
			continue
		}
		a.metadata.Set(name, json.RawMessage(value.Raw))
	}
	if partial && a.record["outcome"] == nil {
		a.record["outcome"] = json.RawMessage(`"agent_error"`)
		a.row.MadeUp = append(a.row.MadeUp, "outcome")
	}
}

// ownMetadata takes the metadata of a row: of a rollout as text, of a ShareGPT
// row with the places it has, or somebody else's as it is.
func (a *assembly) ownMetadata(v gjson.Result) {
	if v.Type == gjson.String && gjson.Valid(v.Str) && gjson.Parse(v.Str).IsObject() {
		v = gjson.Parse(v.Str)
		a.addMetadata(v)
		return
	}
	if v.Get("batch_num").Exists() || v.Get("environment").Type == gjson.String {
		// Published rows: where the record is in the run.
		v.ForEach(func(key, value gjson.Result) bool {
			name := key.String()
			switch name {
			case "batch_num":
				name = "step"
			case "timestamp":
				name = "finished_at"
			case "invalid_arguments", "unknown_tool_calls", "unknown_tools":
				return true // counted anew
			case "tampering":
				if value.Type == gjson.String && gjson.Valid(value.Str) && gjson.Parse(value.Str).IsArray() {
					if value.Str != "[]" {
						a.record[name] = json.RawMessage(value.Str)
					}
					return true
				}
			case "environment", "verification": // text in all files of earlier versions
				if value.Type == gjson.String && gjson.Valid(value.Str) {
					value = gjson.Parse(value.Str)
				} else if value.IsObject() {
					value = gjson.Parse(withoutNulls(value))
				}
				if value.IsObject() {
					a.addMetadata(value)
					return true
				}
			}
			s := shapeOf(name)
			if s != 0 && s.fits(value) {
				if a.record[name] == nil {
					a.record[name] = json.RawMessage(value.Raw)
					if s == shapeTime {
						a.record[name] = chat.AppendString(nil, parseTime(value.Str).Format(time.RFC3339Nano))
					}
				}
				return true
			}
			if known := s == shapeText || s == shapeTime; value.Type != gjson.Null && (!known || value.String() != "") {
				a.metadata.Set(name, json.RawMessage(value.Raw))
			}
			return true
		})
		return
	}
	if v.IsObject() {
		a.addMetadata(v)
	} else if v.Type != gjson.Null {
		a.metadata.Set("metadata", json.RawMessage(v.Raw))
	}
}

func (a *assembly) addMetadata(v gjson.Result) {
	v.ForEach(func(key, value gjson.Result) bool {
		a.metadata.Set(key.String(), json.RawMessage(value.Raw))
		return true
	})
}

// sequence takes a list of tokens, masks or logprobs.
func (a *assembly) sequence(name string, v gjson.Result) bool {
	if v.Type == gjson.Null {
		return true
	}
	if !v.IsArray() {
		return false
	}
	list, err := integers(v)
	switch {
	case name == "logprobs":
		a.row.Logprobs = numbers(v)
	case err != nil:
		return false
	case name == "tokens":
		a.row.Tokens = list
	default:
		a.row.Masks = list
	}
	return true
}

// tokens adds a count to the usage, unless the record has the usage itself.
func (a *assembly) tokens(name string, v gjson.Result) {
	usage := gjson.ParseBytes(a.record["usage"])
	if usage.Get(name).Exists() {
		return
	}
	o := chat.Object{}
	usage.ForEach(func(key, value gjson.Result) bool {
		o.Set(key.String(), json.RawMessage(value.Raw))
		return true
	})
	o.Set(name, json.RawMessage(v.Raw))
	total := gjson.ParseBytes(o.Get("prompt_tokens")).Int() + gjson.ParseBytes(o.Get("completion_tokens")).Int()
	o.Set("total_tokens", json.RawMessage(fmt.Sprint(total)))
	a.record["usage"] = o.Append(nil)
}

// sequences brings the token columns and the record's token sequences together.
func (a *assembly) sequences() {
	r := a.row
	if list := a.record["token_sequences"]; list != nil {
		r.takeSequences(gjson.ParseBytes(list))
		return
	}
	if r.Tokens == nil || len(r.Masks) != len(r.Tokens) || len(r.Logprobs) != len(r.Tokens) {
		return
	}
	s := append([]byte(`[{"tokens":`), appendNumbers(nil, r.Tokens)...)
	s = append(append(s, `,"masks":`...), appendNumbers(nil, r.Masks)...)
	s = append(s, `,"inference_logprobs":[`...)
	for i, p := range r.Logprobs {
		if i > 0 {
			s = append(s, ',')
		}
		s = strconv.AppendFloat(s, p, 'g', -1, 64)
	}
	turns := r.Turns
	if turns == nil {
		turns = json.RawMessage("[]")
	}
	s = append(append(append(s, `],"turns":`...), turns...), "}]"...)
	a.record["token_sequences"], r.Exact = s, true
}

func appendNumbers(dst []byte, list []int64) []byte {
	dst = append(dst, '[')
	for i, n := range list {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = strconv.AppendInt(dst, n, 10)
	}
	return append(dst, ']')
}

// definitions reads tool definitions: a list of objects, or such a list as text.
func definitions(v gjson.Result) []json.RawMessage {
	if v.Type == gjson.String && gjson.Valid(v.Str) {
		v = gjson.Parse(v.Str)
	}
	if !v.IsArray() {
		return nil
	}
	list := []json.RawMessage{}
	v.ForEach(func(_, item gjson.Result) bool {
		switch {
		case item.Type == gjson.String && gjson.Parse(item.Str).IsObject():
			list = append(list, json.RawMessage(strings.Clone(item.Str)))
		case item.IsObject():
			list = append(list, json.RawMessage(compact(item.Raw)))
		default:
			list = nil
			return false
		}
		return true
	})
	return list
}

// finish makes the rollout. The line is decoded as any recorded one, so that the
// same rules hold.
func (a *assembly) finish(messages []chat.Message, place string) (*Row, error) {
	makeUp := func(name string, value []byte) {
		if a.record[name] == nil {
			a.record[name] = value
			a.row.MadeUp = append(a.row.MadeUp, name)
		}
	}
	makeUp("rollout_id", chat.AppendString(nil, place))
	if a.record["item_id"] == nil {
		makeUp("item_id", chat.AppendString(nil, promptKey(messages)))
	}
	makeUp("step", []byte("0"))
	makeUp("group", []byte("0"))
	makeUp("attempt", []byte("0"))
	if a.record["outcome"] == nil {
		switch {
		case a.record["score"] != nil:
			makeUp("outcome", []byte(`"scored"`))
		case string(a.record["finished_naturally"]) == "false":
			makeUp("outcome", []byte(`"limit"`))
		default:
			makeUp("outcome", []byte(`"verifier_error"`))
			if a.record["error"] == nil {
				a.record["error"] = json.RawMessage(`{"class":"not_scored","message":"the data set has no score"}`)
				a.row.MadeUp = append(a.row.MadeUp, "error")
			}
		}
	}
	makeUp("finished_naturally", []byte("true"))
	if len(a.metadata) > 0 {
		a.record["metadata"] = a.metadata.Append(nil)
	}
	a.sequences()
	o := make(chat.Object, 0, len(a.record)+1)
	for _, m := range known() {
		if raw := a.record[m.name]; raw != nil {
			o = append(o, chat.Field{Key: m.name, Value: raw})
		}
	}
	line := append(o, chat.Field{Key: "messages", Value: json.RawMessage("[]")}).Append(nil)
	r, err := trajectories.DecodeRollout(line)
	if err != nil {
		return nil, err
	}
	r.Messages = messages
	if a.record["turns_used"] == nil {
		for _, m := range messages {
			if m.Role() == chat.RoleAssistant {
				r.TurnsUsed++
			}
		}
		a.row.MadeUp = append(a.row.MadeUp, "turns_used")
	}
	a.row.Rollout = r
	if a.row.Tools != nil {
		a.row.setTools(a.row.Tools)
	}
	return a.row, nil
}
