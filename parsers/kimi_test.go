package parsers

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// kimiCall writes one call.
func kimiCall(id, args string) string {
	return kimiCallBegin + id + kimiArgsBegin + args + kimiCallEnd
}

func TestKimiK2(t *testing.T) {
	const begin, end = kimiSectionBegin, kimiSectionEnd
	deep := strings.Repeat(`{"a": [`, 100) + "1" + strings.Repeat(`]}`, 100)
	long := strings.Repeat("x", 20_000)
	runCases(t, "kimi_k2", []parseCase{
		plainText("text without a call", "Just text."),
		plainText("no text at all", ""),
		plainText("a section marker alone", "Hi "+begin),
		plainText("a section marker that is cut", "Hi "+begin[:12]),
		plainText("an empty section", begin+end),
		plainText("leaked end tokens", "Hi"+kimiCallEnd+end),
		plainText("a call outside of any section", kimiCall("functions.f:0", "{}")),
		plainText("a call without its end", begin+kimiCallBegin+"functions.f:0"+kimiArgsBegin+`{"a": 1}`),
		plainText("a call that is cut in its id", begin+kimiCallBegin+"functions.f"),
		plainText("an id without a counter", begin+kimiCall("functions.f", "{}")+end),
		plainText("an id with a counter that is no number", begin+kimiCall("functions.f:x", "{}")+end),
		plainText("an id with a token inside", begin+kimiCall("functions.<f>:0", "{}")+end),
		{"one call", begin + kimiCall("functions.f:0", `{"a": 1}`) + end, nil, []string{"null", `f {"a": 1}`}},
		{"an id without the prefix", begin + kimiCall("f:3", "{}") + end, nil, []string{"null", "f {}"}},
		{"white space around id and arguments", begin + kimiCall(" functions.f:0 ", "\n{\"a\": 1}\n") + end, nil, []string{"null", `f {"a": 1}`}},
		{"the section in the singular", "<|tool_call_section_begin|>" + kimiCall("functions.f:0", "{}"), nil, []string{"null", "f {}"}},
		{"text before and after", " Hi.\n" + begin + kimiCall("functions.f:0", "{}") + end + "bye", nil, []string{"Hi.\nbye", "f {}"}},
		{"two calls", begin + kimiCall("functions.f:4", "{}") + kimiCall("functions.g:5", `{"b":2}`) + end, nil, []string{"null", "f {}", `g {"b":2}`}},
		{"one function twice", begin + kimiCall("functions.f:0", "{}") + kimiCall("functions.f:1", "{}") + end, nil, []string{"null", "f {}", "f {}"}},
		{"a missing section end", begin + kimiCall("functions.f:0", "{}"), nil, []string{"null", "f {}"}},
		{"a second call that is cut is content", begin + kimiCall("functions.f:0", "{}") + kimiCallBegin + "functions.g:1" + kimiArgsBegin + `{"a`, nil, []string{kimiCallBegin + "functions.g:1" + kimiArgsBegin + `{"a`, "f {}"}},
		{"a first call without its end is content", begin + kimiCallBegin + "functions.f:0" + kimiArgsBegin + `{"a": 1` + kimiCall("functions.g:1", "{}"), nil, []string{begin + kimiCallBegin + "functions.f:0" + kimiArgsBegin + `{"a": 1`, "g {}"}},
		{"a bad id beside a good one", begin + kimiCall("functions.f", "{}") + kimiCall("functions.g:1", "{}") + end, nil, []string{begin + kimiCall("functions.f", "{}"), "g {}"}},
		{"malformed arguments are passed on, flagged", begin + kimiCall("functions.f:0", "{a: 1}") + end, nil, []string{"null", "f {a: 1} (invalid)"}},
		{"empty arguments", begin + kimiCall("functions.f:0", "") + end, nil, []string{"null", "f {}"}},
		{"arguments are passed on as written", begin + kimiCall("functions.f:0", `{"b":1,  "a":"\u00e9"}`) + end, nil, []string{"null", `f {"b":1,  "a":"\u00e9"}`}},
		{"tokens inside strings are data", begin + kimiCall("functions.f:0", `{"a": "`+kimiCallEnd+kimiCallBegin+end+`"}`) + end, nil, []string{"null", `f {"a": "` + kimiCallEnd + kimiCallBegin + end + `"}`}},
		{"arguments longer than any buffer", begin + kimiCall("functions.f:0", `{"a": "`+long+`"}`) + end, nil, []string{"null", `f {"a": "` + long + `"}`}},
		{"deeply nested arguments", begin + kimiCall("functions.f:0", deep) + end, nil, []string{"null", "f " + deep}},
		{"a dotted name without tools is its last part", begin + kimiCall("functions.a.b:0", "{}") + end, nil, []string{"null", "b {}"}},
		{"a dotted name that is a tool stays", begin + kimiCall("functions.a.b:0", "{}") + end, []Tool{tool("a.b", "")}, []string{"null", "a.b {}"}},
		{"hyphens and underscores are part of names", begin + kimiCall("functions.mcp__x__do-it:0", "{}") + end, nil, []string{"null", "mcp__x__do-it {}"}},
		{"a bare counter means the only tool", begin + kimiCall("0", `{"a": 1}`) + end, []Tool{tool("f", "")}, []string{"null", `f {"a": 1}`}},
		{"a bare counter means the tool that fits", begin + kimiCall("1", `{"b": 1}`) + end, []Tool{tool("f", `"a": {}`), tool("g", `"b": {}`)}, []string{"null", `g {"b": 1}`}},
		{name: "a bare counter that fits two tools", text: begin + kimiCall("1", `{}`), tools: []Tool{tool("f", `"a": {}`), tool("g", `"b": {}`)}, want: []string{begin + kimiCall("1", `{}`)}},
		plainText("a bare counter without tools", begin+kimiCall("1", `{}`)),
		{"an unclosed think block stays in the content", "<think>hm " + begin + kimiCall("functions.f:0", "{}") + end, nil, []string{"<think>hm", "f {}"}},
	})
}

func TestKimiKeepsTheModelsIDs(t *testing.T) {
	f, err := Lookup("kimi_k2")
	require.NoError(t, err)
	var got []string
	text := kimiSectionBegin
	for _, id := range []string{"functions.f:12", " f:13\n", "functions.f:12", "functions.f:1", "functions.f:12", "0"} {
		text += kimiCall(id, "{}")
	}
	for _, c := range f.Parse(text, []Tool{tool("f", "")}).Calls {
		got = append(got, c.ID)
	}
	require.Equal(t, []string{"functions.f:12", "f:13", "functions.f:1", "functions.f:2", "functions.f:3", "0"}, got, "a repeated id gets a free counter")
}
