package parsers

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMistral(t *testing.T) {
	runCases(t, "mistral", []parseCase{
		plainText("text without a call", "Just [text]."),
		plainText("no text at all", ""),
		plainText("a marker alone", "Hi [TOOL_CALLS]"),
		plainText("a marker that is cut", "Hi [TOOL_CAL"),
		plainText("an empty array", "[TOOL_CALLS][]"),
		plainText("an array that is cut", `[TOOL_CALLS][{"name": "f", "arguments": {"a": "b`),
		plainText("an array that is malformed", `[TOOL_CALLS][{"name": "f", arguments: {}}]`),
		plainText("an element without a name", `[TOOL_CALLS][{"arguments": {}}]`),
		plainText("an element that is no object", `[TOOL_CALLS]["f"]`),
		plainText("a name without arguments", "Hi [TOOL_CALLS]get_weather"),
		plainText("arguments without a name", `[TOOL_CALLS] [ARGS]{"a": 1}`),
		{"one call in an array", `[TOOL_CALLS][{"name": "f", "arguments": {"a": 1}}]`, nil, []string{"null", `f {"a": 1}`}},
		{"white space behind the marker", "[TOOL_CALLS] \n[{\"name\":\"f\",\"arguments\":{\"a\":1}}]", nil, []string{"null", `f {"a": 1}`}},
		{"two calls in an array", `[TOOL_CALLS][{"name": "f", "arguments": {}}, {"name": "f", "arguments": {"a": []}}]`, nil, []string{"null", "f {}", `f {"a": []}`}},
		{"a bare object is one call", `[TOOL_CALLS]{"name": "f", "arguments": {"a": 1}}`, nil, []string{"null", `f {"a": 1}`}},
		{"text before the marker, braces included", `Use {x} and [City].[TOOL_CALLS][{"name": "f"}]`, nil, []string{"Use {x} and [City].", "f {}"}},
		{"text behind the array, nested arguments", `[TOOL_CALLS][{"name": "f", "arguments": {"a": {"b": {}}}}]</s> and {more}`, nil, []string{"and {more}", `f {"a": {"b": {}}}`}},
		{"several markers with arrays", `[TOOL_CALLS][{"name": "f"}][TOOL_CALLS] [{"name": "g"}]`, nil, []string{"null", "f {}", "g {}"}},
		{"a bad array beside a good one", `[TOOL_CALLS][{bad}][TOOL_CALLS][{"name": "g"}]`, nil, []string{"[TOOL_CALLS][{bad}]", "g {}"}},
		{"brackets in a string do not end the array", `[TOOL_CALLS][{"name": "f", "arguments": {"a": "[City]}]"}}]`, nil, []string{"null", `f {"a": "[City]}]"}`}},
		{"a marker in a string is data", `[TOOL_CALLS][{"name": "f", "arguments": {"a": "[TOOL_CALLS]"}}]`, nil, []string{"null", `f {"a": "[TOOL_CALLS]"}`}},
		{"arguments before the name", `[TOOL_CALLS][{"arguments": {"name": "x"}, "name": "f"}]`, nil, []string{"null", `f {"name": "x"}`}},
		{"arguments that are encoded already", `[TOOL_CALLS][{"name": "f", "arguments": "{\"a\":1}"}]`, nil, []string{"null", `f {"a":1}`}},
		{"encoded arguments that are no JSON", `[TOOL_CALLS][{"name": "f", "arguments": "a b"}]`, nil, []string{"null", "f a b (invalid)"}},
		{"encoded arguments that are empty", `[TOOL_CALLS][{"name": "f", "arguments": ""}]`, nil, []string{"null", "f {}"}},
		{"array arguments are re-serialised", `[TOOL_CALLS][{"name":"f","arguments":{"b":1.0,"a":"\u00e9","b":9007199254740993}}]`, nil, []string{"null", `f {"b": 9007199254740993, "a": "é"}`}},
		{"the name form with [ARGS]", `[TOOL_CALLS]f[ARGS]{"a": 1}`, nil, []string{"null", `f {"a": 1}`}},
		{"the name form without any marker", `[TOOL_CALLS]f{"a": 1}`, nil, []string{"null", `f {"a": 1}`}},
		{"the name form is passed on as written", `[TOOL_CALLS]f[ARGS] {"b":1,  "a":"\u00e9"} `, nil, []string{"null", `f {"b":1,  "a":"\u00e9"}`}},
		{"the name form with an id", `[TOOL_CALLS]f[CALL_ID]abcdefghi[ARGS]{"a": 1}`, nil, []string{"null", `f {"a": 1}`}},
		{"an id without [ARGS]", `[TOOL_CALLS]f[CALL_ID]abcdefghi{"a": 1}`, nil, []string{"null", `f {"a": 1}`}},
		{"white space around everything", "[TOOL_CALLS] f \n[ARGS] \n{\"a\": 1}\n", nil, []string{"null", `f {"a": 1}`}},
		{"several calls in the name form", `Hi[TOOL_CALLS]f{"a": 1}[TOOL_CALLS]g[ARGS]{}[TOOL_CALLS]f{}`, nil, []string{"Hi", `f {"a": 1}`, "g {}", "f {}"}},
		{"an end token behind the arguments", `[TOOL_CALLS]f{"a": {"b": 1}}</s>`, nil, []string{"null", `f {"a": {"b": 1}}`}},
		{"a marker in a string of the name form", `[TOOL_CALLS]f{"a": "x[TOOL_CALLS]g{}"}`, nil, []string{"null", `f {"a": "x[TOOL_CALLS]g{}"}`}},
		{"arguments that are cut", `[TOOL_CALLS]f{"a": 1}[TOOL_CALLS]g[ARGS]{"b": "c`, nil, []string{"null", `f {"a": 1}`, `g {"b": "c (truncated) (invalid)`}},
		{"malformed arguments with a balanced end", `[TOOL_CALLS]f{a: 1} rest[TOOL_CALLS]g{}`, nil, []string{"rest", "f {a: 1} (invalid)", "g {}"}},
		{"malformed arguments without an end", `[TOOL_CALLS]f{"a": "b}[TOOL_CALLS]g{"c": 1}`, nil, []string{"null", `f {"a": "b} (truncated) (invalid)`, `g {"c": 1}`}},
		{"a segment without arguments among others", `[TOOL_CALLS]f[TOOL_CALLS]g{}`, nil, []string{"[TOOL_CALLS]f", "g {}"}},
		{"words before the array", `[TOOL_CALLS] Sure: [{"name": "f", "arguments": {}}]`, nil, []string{"[TOOL_CALLS] Sure:", "f {}"}},
		{"both forms after each other", `[TOOL_CALLS]f{}[TOOL_CALLS] [{"name": "g"}][TOOL_CALLS]h[ARGS]{}`, nil, []string{"null", "f {}", "g {}", "h {}"}},
		{"reasoning stays in the content", `[THINK]hm[/THINK]Hi[TOOL_CALLS]f{}`, nil, []string{"[THINK]hm[/THINK]Hi", "f {}"}},
		{"names with signs", `[TOOL_CALLS]mcp__x.y-z{}`, nil, []string{"null", "mcp__x.y-z {}"}},
	})
}

func TestMistralTakesTheIDsOfTheText(t *testing.T) {
	f, err := Lookup("mistral")
	require.NoError(t, err)
	for _, text := range []string{
		`[TOOL_CALLS]f[CALL_ID]abcDEF123[ARGS]{}`,
		`[TOOL_CALLS]f [CALL_ID] abcDEF123 {}`,
		`[TOOL_CALLS][{"name": "f", "arguments": {}, "id": "abcDEF123"}]`,
	} {
		require.Equal(t, "abcDEF123", f.Parse(text, nil).Calls[0].ID)
	}
	twice := f.Parse(`[TOOL_CALLS]f[CALL_ID]abcDEF123{}[TOOL_CALLS]f[CALL_ID]abcDEF123{}`, nil)
	require.Equal(t, "abcDEF123", twice.Calls[0].ID)
	require.Regexp(t, `^[A-Za-z0-9]{9}$`, twice.Calls[1].ID)
	require.NotEqual(t, twice.Calls[0].ID, twice.Calls[1].ID)
}
