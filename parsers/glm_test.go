package parsers

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// glmCases are shared by GLM-4.5 and GLM-4.7, which reads the older layout too.
func glmCases() []parseCase {
	call := func(name string, pairs ...string) string {
		var b strings.Builder
		b.WriteString("<tool_call>" + name + "\n")
		for i := 0; i < len(pairs); i += 2 {
			b.WriteString("<arg_key>" + pairs[i] + "</arg_key>\n<arg_value>" + pairs[i+1] + "</arg_value>\n")
		}
		return b.String() + "</tool_call>"
	}
	return []parseCase{
		plainText("text without a call", "Just text."),
		plainText("no text at all", ""),
		plainText("an opening tag alone", "Hi <tool_call>"),
		plainText("a tag that is cut", "Hi <tool_ca"),
		plainText("a block that is not closed", "<tool_call>f\n<arg_key>a</arg_key>\n<arg_value>1</arg_value>\n"),
		plainText("a block that is cut in a value", "<tool_call>f\n<arg_key>a</arg_key>\n<arg_value>1"),
		plainText("an empty block", "<tool_call></tool_call>"),
		plainText("a block of white space", "<tool_call>\n \n</tool_call>"),
		{"the template's layout", call("f", "a", "x y"), nil, []string{"null", `f {"a": "x y"}`}},
		{"no arguments", call("f"), nil, []string{"null", "f {}"}},
		{"text before, between and after", " Hi.\n" + call("f") + " and " + call("g") + " bye", nil, []string{"Hi.\nand bye", "f {}", "g {}"}},
		{"three calls, one function twice", call("f", "a", "1") + call("g") + "\n" + call("f", "a", "2"), nil, []string{"null", `f {"a": 1}`, "g {}", `f {"a": 2}`}},
		{"an unclosed block behind a good one", call("f") + "<tool_call>g\n<arg_key>", nil, []string{"<tool_call>g\n<arg_key>", "f {}"}},
		{"white space around the name goes", call(" f  ", "a", "1"), nil, []string{"null", `f {"a": 1}`}},
		{"white space around keys goes", call("f", " a\n", "1"), nil, []string{"null", `f {"a": 1}`}},
		{"order stays and the last of a repeated key wins", call("f", "z", "1", "a", "2", "z", "3"), nil, []string{"null", `f {"z": 3, "a": 2}`}},
		{"a key without a value is ignored", "<tool_call>f\n<arg_key>a</arg_key>\n<arg_key>b</arg_key>\n<arg_value>1</arg_value>\n</tool_call>", nil, []string{"null", `f {"b": 1}`}},
		{"a value without a key is ignored", "<tool_call>f\n<arg_key>a</arg_key><arg_value>1</arg_value><arg_value>0</arg_value><arg_key>b</arg_key><arg_value>2</arg_value>\n</tool_call>", nil, []string{"null", `f {"a": 1, "b": 2}`}},
		{"a value that is not closed is ignored", "<tool_call>f\n<arg_key>a</arg_key><arg_value>1</arg_value><arg_key>b</arg_key><arg_value>2\n</tool_call>", nil, []string{"null", `f {"a": 1}`}},
		{"text between key and value spoils the pair", "<tool_call>f\n<arg_key>a</arg_key> is <arg_value>1</arg_value><arg_key>b</arg_key><arg_value>2</arg_value>\n</tool_call>", nil, []string{"null", `f {"b": 2}`}},
		{"without a schema values are guessed", call("f", "i", "42", "n", "1.50", "t", "true", "p", "True", "z", "null", "a", "[1, {\"b\":2}]", "l", "('x', None)", "s", "plain", "q", `"quoted"`), nil, []string{"null", `f {"i": 42, "n": 1.50, "t": true, "p": true, "z": null, "a": [1, {"b": 2}], "l": ["x", null], "s": "plain", "q": "quoted"}`}},
		{"a string by its schema is taken to the byte", call("f", "s", "  12\n"), []Tool{tool("f", `"s": {"type": "string"}`)}, []string{"null", `f {"s": "  12\n"}`}},
		{"JSON meant as a string stays one", call("f", "s", `{"a": 1}`), []Tool{tool("f", `"s": {"type": "string"}`)}, []string{"null", `f {"s": "{\"a\": 1}"}`}},
		{"null meant as a string stays one", call("f", "s", "null"), []Tool{tool("f", `"s": {"type": "string"}`)}, []string{"null", `f {"s": "null"}`}},
		{"numbers keep their digits", call("f", "a", "9007199254740993", "b", "1.0"), nil, []string{"null", `f {"a": 9007199254740993, "b": 1.0}`}},
		{"entities are not decoded, emoji stay", call("f", "a", "&lt; 😀 <b>"), nil, []string{"null", `f {"a": "&lt; 😀 <b>"}`}},
		{"a value over several lines", call("f", "a", "def f():\n    return \"x\""), nil, []string{"null", `f {"a": "def f():\n    return \"x\""}`}},
		{"an empty value", call("f", "a", ""), nil, []string{"null", `f {"a": ""}`}},
		{"reasoning stays in the content", "<think>hm</think>\n" + call("f"), nil, []string{"<think>hm</think>", "f {}"}},
		{"an unclosed think block stays in the content", "<think>hm\n" + call("f"), nil, []string{"<think>hm", "f {}"}},
	}
}

func TestGLM45(t *testing.T) {
	runCases(t, "glm45", append(glmCases(),
		plainText("a name without its newline", "<tool_call>f</tool_call>"),
		parseCase{"newlines written as two characters", `<tool_call>f\n<arg_key>a</arg_key>\n<arg_value>1</arg_value>\n</tool_call>`, nil, []string{"null", `f {"a": 1}`}},
		plainText("GLM-4.7's layout is not read", "<tool_call>f<arg_key>a</arg_key><arg_value>x\ny</arg_value></tool_call>"),
		parseCase{"a bad block beside a good one", "<tool_call>f</tool_call><tool_call>g\n</tool_call>", nil, []string{"<tool_call>f</tool_call>", "g {}"}},
	))
}

func TestGLM47(t *testing.T) {
	runCases(t, "glm47", append(glmCases(),
		parseCase{"the template's layout on one line", "Hi<tool_call>f<arg_key>a</arg_key><arg_value>x</arg_value><arg_key>b</arg_key><arg_value>2</arg_value></tool_call>", nil, []string{"Hi", `f {"a": "x", "b": 2}`}},
		parseCase{"no arguments and no newline", "<tool_call>f</tool_call><tool_call>g<arg_key>a</arg_key><arg_value>1</arg_value></tool_call>", nil, []string{"null", "f {}", `g {"a": 1}`}},
		parseCase{"newlines written as two characters", `<tool_call>f\n<arg_key>a</arg_key>\n<arg_value>1</arg_value></tool_call>`, nil, []string{"null", `f {"a": 1}`}},
		parseCase{"an empty line before the name", "<tool_call>\nf\n<arg_key>a</arg_key><arg_value>1</arg_value></tool_call>", nil, []string{"null", `f {"a": 1}`}},
	))
}

func TestGuessedArgumentsFollowTheSchema(t *testing.T) {
	f, err := Lookup("glm45")
	require.NoError(t, err)
	for _, c := range []struct{ schema, text, want string }{
		{`{"type": "integer"}`, `42`, `42`},
		{`{"type": "integer"}`, ` 42 `, `42`},
		{`{"type": "integer"}`, `many`, `"many"`},
		{`{"type": "boolean"}`, `False`, `false`},
		{`{"type": "object"}`, `{'a': 1}`, `{"a": 1}`},
		{`{"type": "object"}`, `{\"a\": \"b\"}`, `{"a": "b"}`},
		{`{"type": "array"}`, `[{\"a\": 1}]`, `[{"a": 1}]`},
		{`{"type": "string"}`, `{\"a\": 1}`, `"{\\\"a\\\": 1}"`},
		{`{"type": ["string", "null"]}`, `null`, `null`},
		{`{"type": ["string", "null"]}`, `42`, `"42"`},
		{`{"anyOf": [{"type": "string"}, {"type": "integer"}]}`, `42`, `42`},
		{`{"anyOf": [{"type": "string"}, {"type": "number"}]}`, `42`, `42`},
		{`{"anyOf": [{"type": "string"}, {"type": "integer"}]}`, ` x `, `" x "`},
		{`{"anyOf": [{"type": "string"}, {"type": "array"}]}`, `["a"]`, `["a"]`},
		{`{"enum": ["1", "2"]}`, `1`, `"1"`},
		{`{}`, ` a `, `"a"`},
		{`{}`, `{"a": NaN}`, `"{\"a\": NaN}"`},
	} {
		t.Run(c.schema+" "+c.text, func(t *testing.T) {
			tools := []Tool{{Name: "f", Parameters: json.RawMessage(`{"properties": {"v": ` + c.schema + `}}`)}}
			p := f.Parse("<tool_call>f\n<arg_key>v</arg_key>\n<arg_value>"+c.text+"</arg_value>\n</tool_call>", tools)
			require.Equal(t, `{"v": `+c.want+`}`, p.Calls[0].Arguments)
		})
	}
}
