package convert

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"github.com/hermes-env/hermes-env/agentloop/chat"
)

func callRow(name, arguments string) string {
	return fmt.Sprintf(`{"messages":[{"role":"user","content":"%s"},{"role":"assistant","content":null,"tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":%s}}]},{"role":"tool","tool_call_id":"1","content":"r"},{"role":"assistant","content":"a"}]}`,
		name, chat.AppendString(nil, arguments))
}

func TestRun_LeavesRowsWithBrokenArgumentsOut(t *testing.T) {
	path := writeLines(t, "in.jsonl", callRow("good", `{"a":1}`), callRow("broken", `{"a":`), callRow("list", `[1]`), callRow("empty", ``))
	for _, to := range []Format{Messages, OpenAI, ShareGPT, ShareGPTPublished, Text} {
		o := Options{Inputs: []string{path}, To: to, Text: TextConfig{Parser: "hermes"}}
		report, lines := run(t, o)
		require.Len(t, lines, 2, to)
		require.Contains(t, lines[0], "good")
		require.Contains(t, lines[1], "empty", "no arguments are an empty object")
		require.EqualValues(t, 2, counts(report.Filtered)["arguments of a tool call are not a JSON object (--invalid-arguments keeps or repairs them)"])
		o.InvalidArguments = KeepInvalid
		_, lines = run(t, o)
		require.Len(t, lines, 4, to)
	}
	_, lines := run(t, Options{Inputs: []string{path}, To: Rollouts})
	require.Len(t, lines, 4, "a record of what happened is whole")
}

func TestRun_RepairsBrokenArgumentsOnRequest(t *testing.T) {
	path := writeLines(t, "in.jsonl", callRow("good", `{"a":1}`), callRow("broken", `{"a":`), callRow("twice", `"{\"a\":2}"`), callRow("empty", ` `))
	report, lines := run(t, Options{Inputs: []string{path}, To: Messages, InvalidArguments: RepairInvalid})
	var got []string
	for _, l := range lines {
		got = append(got, gjson.Get(l, "messages.1.tool_calls.0.function.arguments").String())
	}
	require.Equal(t, []string{`{"a":1}`, `{"invalid_arguments":"{\"a\":"}`, `{"a":2}`, `{}`}, got)
	require.EqualValues(t, 2, counts(report.MadeUp)["arguments of tool calls that were not a JSON object"])
}

func TestRun_WritesBrokenArgumentsApartOnRequest(t *testing.T) {
	path := writeLines(t, "in.jsonl", callRow("good", `{"a":1}`), callRow("broken", `{"a":`))
	report, _ := run(t, Options{Inputs: []string{path}, To: Messages, InvalidArguments: ApartInvalid})
	require.Len(t, report.Splits, 2)
	require.Equal(t, "invalid_arguments", report.Splits[1].Name)
	require.EqualValues(t, 1, report.Splits[0].Rows)
	require.EqualValues(t, 1, report.Splits[1].Rows)
	for _, o := range []Options{
		{To: Messages, InvalidArguments: "perhaps"}, {To: Preference, InvalidArguments: ApartInvalid}, {To: Messages, InvalidArguments: ApartInvalid, SplitCompleted: true},
	} {
		o.Inputs, o.Out = []string{path}, filepath.Join(t.TempDir(), "x")
		_, err := Run(t.Context(), o)
		require.ErrorIs(t, err, ErrUsage)
	}
}
