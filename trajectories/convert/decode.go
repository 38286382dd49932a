package convert

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"github.com/hermes-env/hermes-env/agentloop/chat"
	"github.com/hermes-env/hermes-env/trajectories"
	"github.com/hermes-env/hermes-env/trajectories/atif"
)

// decoder reads records of any format into rows. It is safe for concurrent use.
type decoder struct {
	from  Format            // "" means: tell by the record
	tools []json.RawMessage // definitions of the run the records are of
}

// decode reads one record. A record of preference pairs or of a trainer's group
// holds several rows.
func (d *decoder) decode(file string, r record) (Format, []*Row, error) {
	if r.err != nil {
		return "", nil, r.err
	}
	if r.tooLong {
		return "", nil, fmt.Errorf("longer than %d MiB", maxLine>>20)
	}
	if !chat.Valid(r.text) {
		if r.torn {
			return "", nil, errors.New("not valid JSON (the last line, without its newline: still being written, or cut off)")
		}
		return "", nil, errors.New("not valid JSON")
	}
	if !isObject(r.text) {
		return "", nil, errors.New("not a JSON object")
	}
	format, members := d.from, membersOf(r.text)
	if format == "" {
		var err error
		if format, err = detect(members); err != nil {
			return "", nil, err
		}
	}
	place := fmt.Sprintf("%s:%d", filepath.Base(file), r.number)
	rows, err := d.rows(format, r.text, members, place)
	if err == nil && r.remark != nil && len(rows) > 0 {
		rows[0].Lost = append(rows[0].Lost, "numbers that JSON has not (NaN, infinities), read as null")
	}
	if err == nil && len(rows) > 0 && loneSurrogates(r.text) {
		rows[0].Lost = append(rows[0].Lost, lossSurrogates)
	}
	return format, rows, err
}

// lossSurrogates is what becomes of text that has no UTF-8 form, unless the target keeps
// the bytes of messages.
const lossSurrogates = "halves of surrogate pairs in texts, written as U+FFFD"

// loneSurrogates reports whether a JSON text has an escape of half a surrogate pair without
// its other half.
func loneSurrogates(text []byte) bool {
	for i := 0; ; {
		next := bytes.IndexByte(text[i:], '\\')
		if next < 0 {
			return false
		}
		i += next
		high, ok := escapedUnit(text[i:])
		switch {
		case !ok:
			i += 2 // another escape
			continue
		case high < 0xd800 || high > 0xdfff:
			i += 6
			continue
		}
		low, ok := escapedUnit(text[i+6:])
		if !ok || high > 0xdbff || low < 0xdc00 || low > 0xdfff {
			return true
		}
		i += 12
	}
}

// escapedUnit reads an escape such as \u00e4 at the beginning of a text.
func escapedUnit(text []byte) (rune, bool) {
	if len(text) < 6 || text[0] != '\\' || text[1] != 'u' {
		return 0, false
	}
	n, err := strconv.ParseUint(string(text[2:6]), 16, 16)
	return rune(n), err == nil
}

// detect tells the format of a record by its members.
func detect(record chat.Object) (Format, error) {
	version := ""
	if v := record.Get("schema_version"); isText(v) {
		version = chat.Unquote(v)
	}
	exists := func(name string) bool { return record.Get(name) != nil }
	list := func(name string) bool {
		v := record.Get(name)
		return isList(v) || isObject(v) || name == "messages" && isList(listText(v))
	}
	switch {
	case strings.HasPrefix(version, "ATIF"):
		return ATIF, nil
	case list("conversations"):
		return ShareGPT, nil
	case exists("chosen") && exists("rejected"):
		return Preference, nil
	case list("scores") && list("masks"):
		return Groups, nil
	case exists("rollout_id") && exists("item_digest") && exists("timings"):
		return Rollouts, nil
	case list("messages"):
		return Messages, nil
	case exists("text"):
		return "", errors.New("a row with a text alone can't be taken apart: who speaks where is no longer marked in a way that can be relied on")
	}
	return "", errors.New("no known format: it has no conversations, messages, chosen and rejected, scores and masks, or ATIF schema_version")
}

// rows takes a record apart; members are those of its text.
func (d *decoder) rows(format Format, text []byte, members chat.Object, place string) ([]*Row, error) {
	switch format {
	case Rollouts:
		r, err := trajectories.DecodeRollout(text)
		if err != nil {
			return nil, err
		}
		row := &Row{Rollout: r, Tools: d.offered(r.Tools)}
		if bytes.Contains(text, []byte(`"token_sequences":[`)) {
			row.takeSequences(view(memberOf(text, "token_sequences")))
		}
		return []*Row{row}, nil
	case ShareGPT, ShareGPTPublished:
		row, err := d.shareGPT(members, place)
		return []*Row{row}, err
	case Messages, OpenAI:
		list := listText(members.Get("messages"))
		if !isList(list) {
			return nil, errors.New("it has no messages")
		}
		messages, err := readMessages(list)
		if err != nil {
			return nil, err
		}
		row, err := assemble(members, "messages", messages, place)
		return []*Row{row}, err
	case Preference:
		return d.preference(view(text), place)
	case Groups:
		return d.group(view(text), place)
	case ATIF, ATIFLines:
		row, err := d.atif(text, place)
		return []*Row{row}, err
	}
	return nil, fmt.Errorf("rows of the format %s can't be read", format)
}

// offered returns the definitions of the named tools of the run.
func (d *decoder) offered(names []string) []json.RawMessage {
	if d.tools == nil {
		return nil
	}
	list := []json.RawMessage{}
	for _, name := range names {
		for _, t := range d.tools {
			if definitionName(t) == name {
				list = append(list, t)
				break
			}
		}
	}
	return list
}

func (d *decoder) shareGPT(record chat.Object, place string) (*Row, error) {
	var turns []trajectories.Turn
	list := record.Get("conversations")
	if !isList(list) {
		return nil, errors.New("it has no conversations")
	}
	if speaksInRoles(list) {
		messages, err := readMessages(list)
		if err != nil {
			return nil, err
		}
		row, err := assemble(record, "conversations", messages, place)
		return row, err
	}
	var failure error
	chat.EachElement(list, func(t []byte) bool {
		from, value := memberOf(t, "from"), memberOf(t, "value")
		if !isText(from) || !isText(value) {
			failure = fmt.Errorf("turn %d of the conversation has no from and value", len(turns))
			return false
		}
		turns = append(turns, trajectories.Turn{From: chat.Unquote(from), Value: chat.Unquote(value)})
		return true
	})
	if failure != nil {
		return nil, failure
	}
	c := readConversation(turns)
	row, err := assemble(record, "conversations", c.messages, place)
	if err != nil {
		return nil, err
	}
	row.Lost = append(row.Lost, c.lost...)
	if c.tools != nil {
		row.setTools(c.tools)
	}
	return row, nil
}

// readMessages reads messages in OpenAI's shape. Members that are null, as tables
// have them where a message lacks one, are left out.
func readMessages(list []byte) ([]chat.Message, error) {
	var messages []chat.Message
	var failure error
	var o chat.Object
	var called string
	chat.EachElement(list, func(item []byte) bool {
		if !isObject(item) {
			failure = fmt.Errorf("message %d: want a JSON object, got %.80q", len(messages), item)
			return false
		}
		o = o[:0]
		chat.EachMember(item, func(key string, value []byte) bool {
			o.Set(key, value) // of a member that is there twice the last value counts
			return true
		})
		o = slices.DeleteFunc(o, func(f chat.Field) bool {
			return isNull(f.Value) && f.Key != "content" || f.Key == "tool_calls" && string(f.Value) == "[]"
		})
		if err := plainFunctions(&o, len(messages), &called); err != nil {
			failure = fmt.Errorf("message %d: %w", len(messages), err)
			return false
		}
		if err := plainCalls(&o); err != nil {
			failure = fmt.Errorf("message %d: %w", len(messages), err)
			return false
		}
		plainRole(&o)
		m, err := chat.DecodeMembers(o)
		if err != nil {
			failure = fmt.Errorf("message %d: %w", len(messages), err)
			return false
		}
		messages = append(messages, m)
		return true
	})
	return messages, failure
}

// preference reads a pair as two rows with one prompt.
func (d *decoder) preference(v gjson.Result, place string) ([]*Row, error) {
	var prompt []chat.Message
	var err error
	if p := v.Get("prompt"); p.IsArray() {
		if prompt, err = readMessages(bytesOf(p.Raw)); err != nil {
			return nil, fmt.Errorf("prompt: %w", err)
		}
	} else if p.Type == gjson.String {
		prompt = []chat.Message{chat.User(p.Str)}
	}
	var rows []*Row
	for i, name := range []Side{Chosen, Rejected} {
		side := string(name)
		var answer []chat.Message
		if s := v.Get(side); s.IsArray() {
			if answer, err = readMessages(bytesOf(s.Raw)); err != nil {
				return nil, fmt.Errorf("%s: %w", side, err)
			}
		} else {
			answer = []chat.Message{chat.Assistant(s.String(), "")}
		}
		o := chat.Object{}
		for _, f := range []string{"item_id", "tools", "model"} {
			if m := v.Get(f); m.Exists() {
				o.Set(f, json.RawMessage(m.Raw))
			}
		}
		if id := v.Get("rollout_id_" + side); id.Exists() {
			o.Set("rollout_id", json.RawMessage(id.Raw))
		}
		if s := v.Get("score_" + side); s.Type == gjson.Number {
			o.Set("score", json.RawMessage(s.Raw))
		}
		row, err := assemble(o, "", withPrompt(prompt, answer), place+":"+side)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", side, err)
		}
		row.Attempt, row.Side = i, name
		rows = append(rows, row)
	}
	return rows, nil
}

// group reads a trainer's group: parallel arrays, one element per rollout.
func (d *decoder) group(v gjson.Result, place string) ([]*Row, error) {
	scores, tokens, masks := v.Get("scores").Array(), v.Get("tokens").Array(), v.Get("masks").Array()
	conversations := v.Get("messages").Array()
	logprobs := v.Get("inference_logprobs").Array()
	if len(tokens) != len(scores) || len(masks) != len(scores) || len(conversations) > 0 && len(conversations) != len(scores) || len(logprobs) > 0 && len(logprobs) != len(scores) {
		return nil, fmt.Errorf("the lists of a group differ in length: %d scores, %d tokens, %d masks, %d messages, %d logprobs", len(scores), len(tokens), len(masks), len(conversations), len(logprobs))
	}
	var rows []*Row
	for i, s := range scores {
		if s.Type != gjson.Number {
			return nil, fmt.Errorf("score %d is not a number: %.40s", i, s.Raw)
		}
		var messages []chat.Message
		if len(conversations) > 0 && conversations[i].IsArray() {
			var err error
			if messages, err = readMessages(bytesOf(conversations[i].Raw)); err != nil {
				return nil, fmt.Errorf("rollout %d: %w", i, err)
			}
		}
		if _, err := integers(tokens[i]); err != nil {
			return nil, fmt.Errorf("tokens of rollout %d: %w", i, err)
		}
		if _, err := integers(masks[i]); err != nil {
			return nil, fmt.Errorf("masks of rollout %d: %w", i, err)
		}
		o := chat.Object{{Key: "score", Value: json.RawMessage(s.Raw)}, {Key: "tokens", Value: json.RawMessage(tokens[i].Raw)}, {Key: "masks", Value: json.RawMessage(masks[i].Raw)}}
		if len(logprobs) > 0 {
			o.Set("logprobs", json.RawMessage(logprobs[i].Raw))
		}
		row, err := assemble(o, "", messages, fmt.Sprintf("%s:%d", place, i))
		if err != nil {
			return nil, fmt.Errorf("rollout %d: %w", i, err)
		}
		row.Attempt = i
		if len(v.Get("ref_logprobs").Array()) > 0 {
			row.Lost = append(row.Lost, "log-probabilities of a reference model")
		}
		if messages == nil {
			row.Lost = append(row.Lost, "conversations that the group file does not have")
			// Without messages nothing tells that the rollouts share a prompt but the line.
			row.ItemID = "group-" + place
		}
		rows = append(rows, row)
	}
	return rows, nil
}

func integers(list gjson.Result) ([]int64, error) {
	out := []int64{}
	if !list.IsArray() {
		return nil, fmt.Errorf("%.40s is not a list", list.Raw)
	}
	var failure error
	list.ForEach(func(_, n gjson.Result) bool {
		if n.Type != gjson.Number || n.Num != float64(n.Int()) {
			failure = fmt.Errorf("%.40s is not an integer", n.Raw)
		}
		out = append(out, n.Int())
		return failure == nil
	})
	return out, failure
}

func numbers(list gjson.Result) []float64 {
	out := []float64{}
	list.ForEach(func(_, n gjson.Result) bool {
		out = append(out, n.Float())
		return true
	})
	return out
}

// atif reads a document; what this project put into its extra members comes back.
func (d *decoder) atif(text []byte, place string) (*Row, error) {
	t, err := atif.Decode([]byte(compact(string(text)))) // what is inside is kept as text and compared
	if err != nil {
		return nil, err
	}
	messages, err := t.Messages()
	if err != nil {
		return nil, err
	}
	o, err := chat.ParseObject([]byte("{}"))
	if err != nil {
		return nil, err
	}
	if extra := gjson.GetBytes(t.Extra, "rollout"); extra.IsObject() {
		if o, err = chat.ParseObject([]byte(extra.Raw)); err != nil {
			return nil, err
		}
	}
	if o.Get("rollout_id") == nil {
		if id := t.TrajectoryID + t.SessionID; id != "" {
			o.Set("rollout_id", chat.AppendString(nil, cmp.Or(t.TrajectoryID, t.SessionID)))
		}
	}
	if t.Agent.ModelName != "" {
		o.Set("model", chat.AppendString(nil, t.Agent.ModelName))
	}
	if f := t.FinalMetrics; f != nil && f.TotalPromptTokens != nil && f.TotalCompletionTokens != nil {
		u := chat.Usage{PromptTokens: *f.TotalPromptTokens, CompletionTokens: *f.TotalCompletionTokens}
		u.TotalTokens = u.PromptTokens + u.CompletionTokens
		if f.TotalCachedTokens != nil {
			u.CachedTokens = *f.TotalCachedTokens
		}
		u.ReasoningTokens = gjson.GetBytes(f.Extra, "total_reasoning_tokens").Int()
		usage, err := chat.Marshal(u)
		if err != nil {
			return nil, err
		}
		o.Set("usage", usage)
	}
	row, err := assemble(o, "", messages, place)
	if err != nil {
		return nil, err
	}
	if t.Agent.ToolDefinitions != nil {
		var tools []json.RawMessage
		if err := json.Unmarshal(t.Agent.ToolDefinitions, &tools); err == nil {
			row.setTools(tools)
		}
	}
	return row, nil
}

// setTools notes the definitions, and the names where nothing else said them.
func (r *Row) setTools(tools []json.RawMessage) {
	r.Tools = tools
	if len(r.Rollout.Tools) == 0 {
		for _, t := range tools {
			if name := definitionName(t); name != "" {
				r.Rollout.Tools = append(r.Rollout.Tools, name)
			}
		}
	}
}

// promptKey names the prompt of a conversation: what stands before the first
// answer, so that rollouts of one prompt find each other.
func promptKey(messages []chat.Message) string {
	hash := sha256.New()
	for _, m := range messages {
		if m.Role() == chat.RoleAssistant {
			break
		}
		if m.Role() != chat.RoleSystem {
			hash.Write([]byte(string(m.Role()) + "\x00" + m.Text() + "\x00"))
		}
	}
	return "prompt-" + hex.EncodeToString(hash.Sum(nil)[:8])
}

// timeForms are the forms of a moment that are read; published rows have no zone
// and mean UTC.
func timeForms() []string {
	return []string{time.RFC3339Nano, "2006-01-02T15:04:05.999999999", "2006-01-02 15:04:05.999999999"}
}
