package compress

import (
	"encoding/json"
	"unicode/utf8"

	"github.com/tidwall/gjson"

	"github.com/hermes-env/hermes-env/agentloop/chat"
	"github.com/hermes-env/hermes-env/trajectories"
)

// Counter counts the tokens of a text. Count is called from many goroutines at once.
type Counter interface {
	Count(text string) int
}

// Estimate counts a token for every four characters, as the original does where it has no
// tokenizer.
type Estimate struct{}

// Count returns a quarter of the number of characters, rounded down.
func (Estimate) Count(text string) int { return utf8.RuneCountInString(text) / 4 }

// turn is one entry of a conversation.
type turn struct {
	role   string
	value  string
	raw    string // its JSON, as it stands in the row
	tokens int
}

// parseTurns reads the conversation of a row; ok is false where there is none.
func parseTurns(row []byte, counter Counter) (turns []turn, total int, ok bool) {
	list := gjson.GetBytes(row, "conversations")
	if !list.IsArray() {
		return nil, 0, false
	}
	list.ForEach(func(_, entry gjson.Result) bool {
		value := entry.Get("value")
		t := turn{role: entry.Get("from").String(), value: value.String(), raw: entry.Raw}
		if value.Type == gjson.Null {
			t.value = ""
		}
		t.tokens = counter.Count(t.value)
		total += t.tokens
		turns = append(turns, t)
		return true
	})
	return turns, total, true
}

// withValue returns the JSON of a turn with another value; all else stays.
func (t *turn) withValue(value string) string {
	object, err := chat.ParseObject([]byte(t.raw))
	if err != nil {
		return t.raw
	}
	object.Set("value", trajectories.AppendPythonString(nil, value))
	return string(appendObject(nil, object))
}

// appendObject writes the members with Python's separators; values stay as they are.
func appendObject(dst []byte, object chat.Object) []byte {
	dst = append(dst, '{')
	for i, f := range object {
		if i > 0 {
			dst = append(dst, ", "...)
		}
		dst = trajectories.AppendPythonString(dst, f.Key)
		dst = append(dst, ": "...)
		dst = append(dst, f.Value...)
	}
	return append(dst, '}')
}

// replaceTurns writes a row again with a summary in the place of a region. metrics, when
// not nil, becomes its compression_metrics.
func replaceTurns(row []byte, turns []turn, r region, summary, notice string, metrics json.RawMessage) ([]byte, error) {
	object, err := chat.ParseObject(row)
	if err != nil {
		return nil, err
	}
	list := []byte{'['}
	add := func(raw string) {
		if len(list) > 1 {
			list = append(list, ", "...)
		}
		list = append(list, raw...)
	}
	for i := range turns[:r.start] {
		t := &turns[i]
		if t.role == "system" && notice != "" {
			add(t.withValue(t.value + notice))
		} else {
			add(t.raw)
		}
	}
	add(string(trajectories.AppendPythonString([]byte(`{"from": "human", "value": `), summary)) + "}")
	for _, t := range turns[r.end:] {
		add(t.raw)
	}
	object.Set("conversations", append(list, ']'))
	if metrics != nil {
		object.Set("compression_metrics", metrics)
	}
	return appendObject(make([]byte, 0, len(row)), object), nil
}
