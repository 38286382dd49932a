package convert

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"
)

const (
	answeredLine = `{"messages":[{"role":"user","content":"q"},{"role":"assistant","content":"a"}]}`
	emptyLine    = `{"messages":[{"role":"user","content":"q"},{"role":"assistant","content":"b"},{"role":"user","content":"r"},{"role":"assistant","content":" "}]}`
	refusedLine  = `{"messages":[{"role":"user","content":"q"},{"role":"assistant","content":null,"refusal":"I'm sorry, no."}]}`
	promptLine   = `{"messages":[{"role":"user","content":"q"}]}`
)

func TestRun_LeavesRowsWithoutAnAnswerOutOfTrainingData(t *testing.T) {
	path := writeLines(t, "x.jsonl", answeredLine, emptyLine, refusedLine, promptLine)
	targets := []Options{}
	for _, c := range Consumers() {
		targets = append(targets, Options{For: c})
	}
	for _, f := range []Format{Messages, ShareGPT, ShareGPTPublished, OpenAI, Text} {
		targets = append(targets, Options{To: f, Text: TextConfig{Parser: "hermes"}})
	}
	for _, o := range targets {
		t.Run(string(o.To+"/"+Format(o.For)), func(t *testing.T) {
			o.Inputs = []string{path}
			report, _ := run(t, o)
			require.EqualValues(t, 1, report.Written)
			why := counts(report.Filtered)
			require.EqualValues(t, 1, why[reasonEmptyAnswer])
			require.EqualValues(t, 1, why[reasonOnlyRefusal])
			o.Filter.IncludeUnanswered = true
			report, _ = run(t, o)
			if o.For != "" {
				require.EqualValues(t, 3, report.Written)
				require.EqualValues(t, 1, counts(report.Filtered)[reasonNoAnswer])
				return
			}
			require.EqualValues(t, 4, report.Written)
		})
	}
	report, _ := run(t, Options{Inputs: []string{path}, To: ATIFLines})
	require.EqualValues(t, 4, report.Kept, "a record of what happened is whole")
}

func TestRun_KeepsAnswersThatAreNotEmpty(t *testing.T) {
	path := writeLines(t, "x.jsonl",
		`{"messages":[{"role":"user","content":"q"},{"role":"assistant","content":"","reasoning_content":"hm"}]}`,
		`{"messages":[{"role":"user","content":"q"},{"role":"assistant","content":"","tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"{}"}}]}]}`)
	report, _ := run(t, Options{Inputs: []string{path}, To: Messages})
	require.EqualValues(t, 2, report.Kept)
}

func TestRun_WritesNoEmptySideOfAPair(t *testing.T) {
	empty := writeLines(t, "x.jsonl", `{"prompt":"q","chosen":"a","rejected":""}`, `{"prompt":"q","chosen":[],"rejected":[]}`)
	for _, consumer := range []Consumer{"", TRL} {
		_, err := Run(t.Context(), Options{Inputs: []string{empty}, To: Preference, For: consumer, Out: filepath.Join(t.TempDir(), "x")})
		require.ErrorIs(t, err, ErrUsage)
		require.ErrorContains(t, err, reasonOtherSide)
	}
	dir := makeScoredRun(t, 0.9, 0.1)
	_, lines := run(t, Options{Inputs: []string{dir}, To: Preference})
	require.Len(t, lines, 1)
}

func TestRun_DropsRefusalsOfProtocols(t *testing.T) {
	path := writeLines(t, "x.jsonl", answeredLine, refusedLine,
		`{"messages":[{"role":"user","content":"q"},{"role":"assistant","content":[{"type":"refusal","refusal":"No."}]}]}`,
		`{"messages":[{"role":"user","content":"q"},{"role":"assistant","content":"Well.","stop_reason":"refusal"}]}`,
		`{"stop_reason":"refusal","messages":[{"role":"user","content":"q"},{"role":"assistant","content":"Well."}]}`)
	report, lines := run(t, Options{Inputs: []string{path}, To: OpenAI, Filter: Filter{IncludeUnanswered: true, Text: TextFilter{DropRefusals: true}}})
	require.Len(t, lines, 1)
	require.EqualValues(t, 4, counts(report.Filtered)["the model refuses (--drop-refusals)"])
}

func TestRun_ForTRLWritesNoToolsAsNull(t *testing.T) {
	path := writeLines(t, "x.jsonl", answeredLine)
	for _, to := range []Format{Messages, KTO, Preference} {
		input := path
		if to != Messages {
			input = writeLines(t, "pairs.jsonl", `{"prompt":"q","chosen":"a","rejected":"b"}`)
		}
		_, lines := run(t, Options{Inputs: []string{input}, To: to, For: TRL})
		for _, l := range lines {
			require.Equal(t, "null", gjson.Get(l, "tools").Raw, l)
		}
	}
	_, lines := run(t, Options{Inputs: []string{writeLines(t, "pairs.jsonl", `{"prompt":"q","chosen":"a","rejected":"b"}`)}, To: Preference})
	require.False(t, gjson.Get(lines[0], "tools").Exists())
}

func TestRun_ForLLaMAFactoryLeavesOutThoughtsThatEndTwice(t *testing.T) {
	call := `"tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"{\"a\":\"ARG\"}"}}]`
	line := func(members string) string {
		return `{"messages":[{"role":"user","content":"q"},{"role":"assistant","content":"",` + members + `},{"role":"tool","tool_call_id":"1","content":"r"},{"role":"assistant","content":"a"}]}`
	}
	path := writeLines(t, "x.jsonl", line(call),
		line(`"reasoning_content":"plan\n</think>\n\nmore",`+call),
		line(`"tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"{\"a\":\"<think>x</think>\"}"}}]`))
	report, lines := run(t, Options{Inputs: []string{path}, For: LLaMAFactory})
	require.Len(t, lines, 1)
	require.EqualValues(t, 2, counts(report.Filtered)["reasoning or arguments hold a <think> mark, at which LLaMA-Factory splits the turn"])
}
