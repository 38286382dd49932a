package chat

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDecodeKeepsUnknownFieldsKeyOrderAndDigits(t *testing.T) {
	raw := `{"z":1.0,"role":"user","content":[{"type":"text","text":"a<b>&c"},{"type":"image_url","image_url":{"url":"x"}}],"n":12345678901234567890,"a":{"y":1e3,"b":null}}`
	m, err := Decode([]byte(" " + strings.ReplaceAll(raw, ",", " , ")))
	require.NoError(t, err)
	again, err := Marshal(m)
	require.NoError(t, err)
	require.Equal(t, raw, string(again))
	require.Equal(t, "a<b>&c", m.Text())
	require.Equal(t, "12345678901234567890", string(m.Get("n")))
}

func TestConstructorsWriteWhatDecodeReads(t *testing.T) {
	text := "quotes \" back\\slash \x00\x1f\n\t <html> & \u2028 日本 \U0001F600"
	calls := []ToolCall{{ID: "call_1", Name: "terminal", Arguments: `{"command": "echo \"hi\""}`}}
	for name, m := range map[string]Message{
		"system":            System(text),
		"user":              User(text),
		"tool":              Tool("call_1", text),
		"assistant":         Assistant(text, text),
		"assistant calling": Assistant("", "", calls...),
	} {
		t.Run(name, func(t *testing.T) {
			require.True(t, json.Valid(m.JSON()), string(m.JSON()))
			back, err := Decode(m.JSON())
			require.NoError(t, err)
			require.Equal(t, m, back)
			if len(m.ToolCalls()) == 0 {
				require.Equal(t, text, back.Text())
			}
		})
	}
	require.Equal(t, "null", string(Assistant("", "", calls...).Get("content")))
	require.Equal(t, "call_1", Tool("call_1", "x").ToolCallID())
}

func TestInvalidUTF8BecomesReplacementCharacters(t *testing.T) {
	m := User("a\xffb\xc3")
	require.True(t, json.Valid(m.JSON()))
	require.Equal(t, "a\uFFFDb\uFFFD", m.Text())
}

func TestDecodeRefusesWhatIsNotAMessage(t *testing.T) {
	for _, raw := range []string{``, `null`, `[]`, `"x"`, `{`, `{"content":"x"}`, `{"role":1}`, `{"role":""}`, `{"role":"user"} x`} {
		_, err := Decode([]byte(raw))
		require.Error(t, err, raw)
	}
}

func TestNormalizeRepairsToolCalls(t *testing.T) {
	n := 0
	mint := func() string { n++; return "minted_" + string(rune('0'+n)) }
	taken := func(id string) bool { return id == "old" }
	tests := map[string]struct {
		raw  string
		want []ToolCall
	}{
		"arguments as a string are kept byte for byte": {
			`{"tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{\"x\": 1.0}"}}]}`,
			[]ToolCall{{"a", "f", `{"x": 1.0}`}}},
		"arguments as an object are encoded": {
			`{"tool_calls":[{"id":"a","function":{"name":"f","arguments":{"x": 10.50, "a":[1]}}}]}`,
			[]ToolCall{{"a", "f", `{"x":10.50,"a":[1]}`}}},
		"null, absent and blank arguments are no arguments": {
			`{"tool_calls":[{"id":"a","function":{"name":"f","arguments":null}},{"id":"b","function":{"name":"f"}},{"id":"c","function":{"name":"f","arguments":" "}}]}`,
			[]ToolCall{{"a", "f", "{}"}, {"b", "f", "{}"}, {"c", "f", "{}"}}},
		"broken arguments stay as written": {
			`{"tool_calls":[{"id":"a","function":{"name":"f","arguments":"{\"x\": "}}]}`,
			[]ToolCall{{"a", "f", `{"x": `}}},
		"missing, repeated and taken ids are minted": {
			`{"tool_calls":[{"function":{"name":"f","arguments":"{}"}},{"id":"a","function":{"name":"f","arguments":"{}"}},{"id":"a","function":{"name":"f","arguments":"{}"}},{"id":"old","function":{"name":"f","arguments":"{}"}},{"id":null,"function":{"name":"f","arguments":"{}"}}]}`,
			[]ToolCall{{"minted_1", "f", "{}"}, {"a", "f", "{}"}, {"minted_2", "f", "{}"}, {"minted_3", "f", "{}"}, {"minted_4", "f", "{}"}}},
		"an empty list is no call": {`{"content":"x","tool_calls":[]}`, nil},
		"null is no call":          {`{"content":"x","tool_calls":null}`, nil},
		"a call without function is a call without name": {
			`{"tool_calls":[{"id":"a","type":"function"}]}`, []ToolCall{{"a", "", "{}"}}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			n = 0
			m, err := Normalize([]byte(test.raw), taken, mint)
			require.NoError(t, err)
			require.Equal(t, test.want, m.ToolCalls())
			back, err := Decode(m.JSON())
			require.NoError(t, err)
			require.Equal(t, test.want, back.ToolCalls(), "what is sent back says the same")
			require.Equal(t, RoleAssistant, m.Role())
		})
	}
	_, err := Normalize([]byte(`{"tool_calls":{}}`), nil, mint)
	require.ErrorContains(t, err, "tool_calls")
}

func TestNormalizeContentAndUnknownFields(t *testing.T) {
	tests := map[string]struct{ raw, want string }{
		"null content without calls becomes empty text": {
			`{"role":"assistant","content":null}`, `{"role":"assistant","content":""}`},
		"absent content without calls becomes empty text": {
			`{"role":"assistant"}`, `{"role":"assistant","content":""}`},
		"nulls are dropped, unknown fields and order stay": {
			`{"content":"hi","refusal":null,"annotations":[],"vendor":{"b":1,"a":2},"role":"assistant","audio":null}`,
			`{"content":"hi","annotations":[],"vendor":{"b":1,"a":2},"role":"assistant"}`},
		"a wrong role is corrected": {`{"role":"model","content":"x"}`, `{"role":"assistant","content":"x"}`},
		"parts stay parts": {
			`{"role":"assistant","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}`,
			`{"role":"assistant","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			m, err := Normalize([]byte(test.raw), nil, nil)
			require.NoError(t, err)
			require.Equal(t, test.want, string(m.JSON()))
		})
	}
}

func TestReasoningIsFoundInEveryProviderShape(t *testing.T) {
	tests := map[string]struct{ raw, want string }{
		"reasoning_content":         {`{"content":"x","reasoning_content":"why"}`, "why"},
		"reasoning":                 {`{"content":"x","reasoning":"why"}`, "why"},
		"reasoning_content first":   {`{"content":"x","reasoning":"no","reasoning_content":"why"}`, "why"},
		"blank one is passed over":  {`{"content":"x","reasoning_content":"","reasoning":"why"}`, "why"},
		"reasoning object":          {`{"content":"x","reasoning":{"text":"why"}}`, "why"},
		"reasoning_details":         {`{"content":"x","reasoning_details":[{"type":"reasoning.encrypted","data":"=="},{"type":"reasoning.text","text":"why"},{"type":"reasoning.text","text":"not"}]}`, "why\nnot"},
		"reasoning_details summary": {`{"content":"x","reasoning_details":[{"type":"reasoning.summary","summary":"why"}]}`, "why"},
		"thinking part":             {`{"content":[{"type":"thinking","thinking":[{"type":"text","text":"why"}]},{"type":"text","text":"x"}]}`, "why"},
		"thinking part as string":   {`{"content":[{"type":"thinking","thinking":"why"},{"type":"text","text":"x"}]}`, "why"},
		"none":                      {`{"content":"x"}`, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			m, err := Normalize([]byte(test.raw), nil, nil)
			require.NoError(t, err)
			require.Equal(t, test.want, m.NativeReasoning())
			require.Equal(t, "x", m.Text())
			if test.want != "" {
				var back struct {
					Reasoning string `json:"reasoning_content"`
				}
				require.NoError(t, json.Unmarshal(m.JSON(), &back))
				require.Equal(t, test.want, back.Reasoning, "sent back under the name templates read")
			}
		})
	}
}

func TestWithReplacesInPlace(t *testing.T) {
	m, err := User("a").With("content", json.RawMessage(`"b"`))
	require.NoError(t, err)
	require.Equal(t, `{"role":"user","content":"b"}`, string(m.JSON()))
	m, err = m.With("name", json.RawMessage(`"n"`))
	require.NoError(t, err)
	require.Equal(t, `{"role":"user","content":"b","name":"n"}`, string(m.JSON()))
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"role":"assistant","content":null,"tool_calls":[{"id":"a","function":{"name":"f","arguments":{"x":1}}}]}`))
	f.Add([]byte(`{"role":"user","content":[{"type":"text"}]}`))
	f.Add([]byte(`{"role":"assistant","content":"x","reasoning_content":"y","tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}}]}`))
	f.Add([]byte(`{"role":"tool","tool_call_id":7,"content":{"a":"\ud83d"}}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		m, err := Decode(raw)
		if err != nil {
			return
		}
		again, err := Decode(m.JSON())
		require.NoError(t, err)
		require.Equal(t, m, again)
		_ = m.Text()
		if quick, ok := alreadyNormal(raw, nil); ok {
			slow, err := repair(raw, nil, func() string { return "minted" })
			require.NoError(t, err)
			require.Equal(t, slow.calls, quick.calls, "both ways to read a message agree")
			require.Equal(t, slow.reasoning, quick.reasoning)
			require.Equal(t, slow.Text(), quick.Text())
		}
		n, err := Normalize(raw, nil, func() string { return "minted" })
		if err != nil {
			return
		}
		require.True(t, json.Valid(n.JSON()), string(n.JSON()))
		_, err = Decode(n.JSON())
		require.NoError(t, err)
	})
}
