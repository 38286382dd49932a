package agentloop_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"github.com/hermes-env/hermes-env/agentloop"
	"github.com/hermes-env/hermes-env/agentloop/chat"
	"github.com/hermes-env/hermes-env/agentloop/model/modeltest"
	"github.com/hermes-env/hermes-env/parsers"
)

func TestCallsInTheTextOfAnAnswerAreExecuted(t *testing.T) {
	const quoted = "<think>I could write <tool_call>{\"name\": \"echo\", \"arguments\": {\"n\": 9}}</tool_call></think>\n"
	tests := map[string]struct {
		parser    string
		when      agentloop.TextCalls
		text      string
		called    []string
		content   string
		reasoning string
	}{
		"raw hermes": {"hermes", agentloop.TextCallsAlways,
			"Let me see.\n<tool_call>\n{\"name\": \"echo\", \"arguments\": {\"n\": 1}}\n</tool_call>", []string{`echo{"n": 1}`}, "Let me see.", ""},
		"an endpoint that left it unparsed": {"hermes", agentloop.TextCallsAuto,
			"<tool_call>\n{\"name\": \"echo\", \"arguments\": {\"n\": 1}}\n</tool_call>", []string{`echo{"n": 1}`}, "", ""},
		"reasoning comes off first, quoted calls are not executed": {"hermes", agentloop.TextCallsAlways,
			quoted + "<tool_call>\n{\"name\": \"echo\", \"arguments\": {\"n\": 1}}\n</tool_call>", []string{`echo{"n": 1}`}, "", "I could write"},
		"only a quoted call": {"hermes", agentloop.TextCallsAlways, quoted + "No call.", nil, quoted + "No call.", "I could write"},
		"another format": {"qwen3_coder", agentloop.TextCallsAlways,
			"<tool_call>\n<function=echo>\n<parameter=n>\n1\n</parameter>\n</function>\n</tool_call>", []string{`echo{"n": "1"}`}, "", ""},
		"a JSON example that names no tool stays text": {"llama3_json", agentloop.TextCallsAuto,
			`Write {"name": "x", "parameters": {}} to the file.`, nil, `Write {"name": "x", "parameters": {}} to the file.`, ""},
		"an unknown tool in raw text is answered": {"hermes", agentloop.TextCallsAlways,
			"<tool_call>\n{\"name\": \"nope\", \"arguments\": {}}\n</tool_call>", nil, "", ""},
		"never": {"hermes", agentloop.TextCallsNever,
			"<tool_call>{\"name\": \"echo\", \"arguments\": {}}</tool_call>", nil, "<tool_call>{\"name\": \"echo\", \"arguments\": {}}</tool_call>", ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			parser, err := parsers.Lookup(test.parser)
			require.NoError(t, err)
			tools := echoTools(t)
			r, server, err := run(t, modeltest.Turns(modeltest.Text(test.text).With("vendor", `{"kept":1}`), modeltest.Text("done")), tools, func(c *agentloop.Config) {
				c.Parser, c.TextCalls = parser, test.when
			})
			require.NoError(t, err)
			require.Equal(t, test.called, tools.called)
			answer := r.Messages[1]
			require.Equal(t, test.content, answer.Text())
			require.Contains(t, r.ReasoningPerTurn[0], test.reasoning)
			require.Equal(t, `{"kept":1}`, string(answer.Get("vendor")))
			if test.called != nil {
				sent := gjson.GetBytes(server.Requests()[1].Body, "messages.1")
				require.Len(t, sent.Get("tool_calls").Array(), 1, "the history has the call in its own field")
			}
		})
	}
}

func TestTheServersOwnCallsWinOverText(t *testing.T) {
	parser, err := parsers.Lookup("hermes")
	require.NoError(t, err)
	tools := echoTools(t)
	_, _, err = run(t, modeltest.Turns(
		modeltest.TextAndCalls("<tool_call>{\"name\": \"echo\", \"arguments\": {\"n\": 9}}</tool_call>", chat.ToolCall{ID: "a", Name: "echo", Arguments: `{"n":1}`}),
		modeltest.Text("done"),
	), tools, func(c *agentloop.Config) { c.Parser, c.TextCalls = parser, agentloop.TextCallsAlways })
	require.NoError(t, err)
	require.Equal(t, []string{`echo{"n":1}`}, tools.called)
}

func TestARawCallThatWasCutIsNotExecuted(t *testing.T) {
	parser, err := parsers.Lookup("qwen3_coder")
	require.NoError(t, err)
	tools := echoTools(t)
	r, _, err := run(t, modeltest.Turns(
		modeltest.Text("<tool_call>\n<function=echo>\n<parameter=text>\nrm -rf /tmp/some").WithFinish("length"),
		modeltest.Text("done"),
	), tools, func(c *agentloop.Config) { c.Parser, c.TextCalls = parser, agentloop.TextCallsAlways })
	require.NoError(t, err)
	require.Empty(t, tools.called)
	require.Contains(t, toolResults(r)[0], "cut off at the token limit")
}
