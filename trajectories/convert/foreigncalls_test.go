package convert

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/agentloop/chat"
)

func TestToolCallsOfForeignRowsAreReadOrTheLineIsBroken(t *testing.T) {
	const call = `{"id":"1","type":"function","function":{"name":"f","arguments":"{\"x\":1}"}}`
	const packed = `"{\"id\":\"1\",\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":{\"x\":1}}}"`
	tests := map[string]struct{ calls, wrong string }{
		"as OpenAI writes them":   {"[" + call + "]", ""},
		"arguments as an object":  {`[{"id":"1","type":"function","function":{"name":"f","arguments":{"x":1}}}]`, ""},
		"each in a text":          {"[" + packed + "]", ""},
		"the list in a text":      {`"[` + packed[1:len(packed)-1] + `]"`, ""},
		"without function":        {`[{"id":"1","name":"f","arguments":{"x":1}}]`, ""},
		"a function's name alone": {`[{"id":"1","function":"f"}]`, "tool call 0: it names no function"},
		"no name":                 {`[{"id":"1"}]`, "tool call 0: it names no function"},
		"a text that is no JSON":  {`"f(1)"`, "tool_calls: the text is no JSON"},
		"no list":                 {`{"name":"f"}`, "tool_calls: want a list"},
		"numbers":                 {`[1]`, "tool call 0: want an object"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			messages, err := readMessages([]byte(`[{"role":"user","content":"q"},{"role":"assistant","content":null,"tool_calls":` + test.calls + `}]`))
			if test.wrong != "" {
				require.ErrorContains(t, err, "message 1: "+test.wrong)
				return
			}
			require.NoError(t, err)
			calls := messages[1].ToolCalls()
			require.Len(t, calls, 1)
			require.Equal(t, "1", calls[0].ID)
			require.Equal(t, "f", calls[0].Name)
			require.Equal(t, `{"x":1}`, calls[0].Arguments)
		})
	}
	for _, none := range []string{`""`, `"[]"`, `[]`, `null`} {
		messages, err := readMessages([]byte(`[{"role":"assistant","content":"a","tool_calls":` + none + `}]`))
		require.NoError(t, err, none)
		require.Empty(t, messages[0].ToolCalls(), none)
	}
}

func TestConversationsOfRolesAndForeignRolesAreRead(t *testing.T) {
	d := &decoder{}
	for name, text := range map[string]string{
		"roles and contents in conversations": `{"conversations":[{"role":"user","content":"q"},{"role":"assistant","content":"a"}]}`,
		"roles of ShareGPT":                   `{"conversations":[{"role":"human","content":"q"},{"role":"gpt","content":"a"}]}`,
		"pairs of from and value":             `{"conversations":[{"from":"human","value":"q"},{"from":"gpt","value":"a"}]}`,
	} {
		t.Run(name, func(t *testing.T) {
			row, err := d.shareGPT(membersOf([]byte(text)), "f:1")
			require.NoError(t, err)
			require.Len(t, row.Rollout.Messages, 2)
			require.Equal(t, "user", string(row.Rollout.Messages[0].Role()))
			require.Equal(t, "assistant", string(row.Rollout.Messages[1].Role()))
			require.Equal(t, "a", row.Rollout.Messages[1].Text())
		})
	}
}

func TestFunctionCallsOfOldMessagesBecomeToolCalls(t *testing.T) {
	messages, err := readMessages([]byte(`[{"role":"user","content":"q"},{"role":"assistant","content":null,"function_call":{"name":"f","arguments":"{\"x\":1}"}},` +
		`{"role":"function","name":"f","content":"7"},{"role":"assistant","content":"7","function_call":null}]`))
	require.NoError(t, err)
	require.Equal(t, `[{"role":"assistant","content":null,"tool_calls":[{"id":"call_1","type":"function","function":{"name":"f","arguments":"{\"x\":1}"}}]}]`,
		string(chat.AppendMessages(nil, messages[1:2])))
	require.Equal(t, chat.RoleTool, messages[2].Role())
	require.Equal(t, "call_1", messages[2].ToolCallID())
	require.Empty(t, messages[3].ToolCalls())
	for _, wrong := range []string{`"f(1)"`, `{"arguments":"{}"}`, `5`} {
		_, err := readMessages([]byte(`[{"role":"assistant","content":null,"function_call":` + wrong + `}]`))
		require.ErrorContains(t, err, "message 0: function_call")
	}
	d := &decoder{}
	const text = `{"messages":[{"role":"user","content":"q"},{"role":"assistant","content":"a"}],"functions":[{"name":"f","parameters":{"type":"object"}}]}`
	rows, err := d.rows(OpenAI, []byte(text), membersOf([]byte(text)), "f:1")
	require.NoError(t, err)
	require.JSONEq(t, `{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}`, string(rows[0].Tools[0]))
}
