package parsers

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

// oneParameter writes a call of f with one parameter v.
func oneParameter(value string) string {
	return "<tool_call>\n<function=f>\n<parameter=v>\n" + value + "\n</parameter>\n</function>\n</tool_call>"
}

func TestQwen3Coder(t *testing.T) {
	runCases(t, "qwen3_coder", []parseCase{
		plainText("text without a call", "Just text."),
		plainText("no text at all", ""),
		plainText("a block without a function", "<tool_call>\nhm\n</tool_call>"),
		plainText("JSON in the block", `<tool_call>{"name": "f"}</tool_call>`),
		plainText("a function tag without its end", "<tool_call>\n<function=f"),
		plainText("a function tag without its bracket", "<tool_call>\n<function=f\n<parameter=a>\n1\n</parameter>\n</function>\n</tool_call>"),
		plainText("a function without a name", "<tool_call><function=></function></tool_call>"),
		plainText("markers that are cut", "a <tool_call> <functio"),
		{"the template's layout", oneParameter("x"), nil, []string{"null", `f {"v": "x"}`}},
		{"everything on one line", "<tool_call><function=f><parameter=a>1</parameter><parameter=b>x y</parameter></function></tool_call>", nil, []string{"null", `f {"a": "1", "b": "x y"}`}},
		{"no parameters", "<tool_call>\n<function=f>\n</function>\n</tool_call>", nil, []string{"null", "f {}"}},
		{"text before, between and after", "Hi.\n" + oneParameter("1") + " and\n" + oneParameter("2") + " bye", nil, []string{"Hi.\nand\nbye", `f {"v": "1"}`, `f {"v": "2"}`}},
		{"two functions in one block", "<tool_call><function=f></function><function=g></function></tool_call>", nil, []string{"null", "f {}", "g {}"}},
		{"only one newline on either side is markup", oneParameter("\n  if x:\n      y\n\n"), nil, []string{"null", `f {"v": "\n  if x:\n      y\n\n"}`}},
		{"blanks and tabs are data", "<tool_call><function=f><parameter=v>  \tx </parameter></function></tool_call>", nil, []string{"null", `f {"v": "  \tx "}`}},
		{"an empty value", "<tool_call><function=f><parameter=v></parameter></function></tool_call>", nil, []string{"null", `f {"v": ""}`}},
		{"entities and escapes are not decoded", oneParameter(`&lt;a&gt; \n "q" <b>`), nil, []string{"null", `f {"v": "&lt;a&gt; \\n \"q\" <b>"}`}},
		{"a missing </parameter> before the next one", "<tool_call><function=f><parameter=a>\n1\n<parameter=b>\n2\n</parameter></function></tool_call>", nil, []string{"null", `f {"a": "1", "b": "2"}`}},
		{"a missing </parameter> before </function>", "<tool_call><function=f><parameter=a>\n1\n</function></tool_call>", nil, []string{"null", `f {"a": "1"}`}},
		{"a missing </function>", "<tool_call><function=f><parameter=a>1</parameter></tool_call>", nil, []string{"null", `f {"a": "1"}`}},
		{"a missing </function> before the next function", "<tool_call><function=f><parameter=a>1</parameter><function=g></function></tool_call>", nil, []string{"null", `f {"a": "1"}`, "g {}"}},
		{"a missing </tool_call>", "<tool_call><function=f><parameter=a>1</parameter></function>", nil, []string{"null", `f {"a": "1"}`}},
		{"a missing </tool_call> before the next block", "<tool_call><function=f></function><tool_call><function=g></function></tool_call>", nil, []string{"null", "f {}", "g {}"}},
		{"a missing <tool_call>", "Hi.\n<function=f>\n<parameter=a>\n1\n</parameter>\n</function>\n</tool_call>", nil, []string{"Hi.", `f {"a": "1"}`}},
		{"several functions without any block", "<function=f></function>\n</tool_call>\n<function=g></function>", nil, []string{"null", "f {}", "g {}"}},
		{"a function outside of blocks does not count beside a block", "See <function=x></function>.\n<tool_call><function=f></function></tool_call><function=y></function>", nil, []string{"See <function=x></function>.\n<function=y></function>", "f {}"}},
		{"cut inside a value", "<tool_call><function=f><parameter=a>1</parameter><parameter=b>\nhalf", nil, []string{"null", `f {"a": "1", "b": "half"} (truncated)`}},
		{"cut between parameters", "<tool_call><function=f><parameter=a>1</parameter>\n", nil, []string{"null", `f {"a": "1"} (truncated)`}},
		{"cut inside a parameter tag", "<tool_call><function=f><parameter=a>1</parameter><parameter=b", nil, []string{"null", `f {"a": "1"} (truncated)`}},
		{"a bad function tag beside a good one", "<tool_call><function=bad\n</function><function=f></function></tool_call>", nil, []string{"<tool_call><function=bad\n</function>", "f {}"}},
		{"a parameter tag without its bracket is ignored", "<tool_call><function=f><parameter=a\n1\n</parameter><parameter=b>2</parameter></function></tool_call>", nil, []string{"null", `f {"b": "2"}`}},
		{"the last of a repeated parameter wins", "<tool_call><function=f><parameter=a>1</parameter><parameter=b>2</parameter><parameter=a>3</parameter></function></tool_call>", nil, []string{"null", `f {"a": "3", "b": "2"}`}},
		{"white space around names goes", "<tool_call><function= f ><parameter= a >1</parameter></function></tool_call>", nil, []string{"null", `f {"a": "1"}`}},
		{"without tools everything is a string", oneParameter("12345"), nil, []string{"null", `f {"v": "12345"}`}},
		{"an unknown tool has strings", oneParameter("true"), []Tool{tool("other", `"v": {"type": "boolean"}`)}, []string{"null", `f {"v": "true"}`}},
		{"an unknown parameter is a string", oneParameter("true"), []Tool{tool("f", `"w": {"type": "boolean"}`)}, []string{"null", `f {"v": "true"}`}},
		{"a value may hold angle brackets", oneParameter("a < b && c > d <div></div>"), nil, []string{"null", `f {"v": "a < b && c > d <div></div>"}`}},
		{"a value over many lines with quotes", oneParameter("print(\"a\")\n\tb = 'c'"), nil, []string{"null", `f {"v": "print(\"a\")\n\tb = 'c'"}`}},
	})
}

func TestTextArgumentsFollowTheSchema(t *testing.T) {
	f, err := Lookup("qwen3_coder")
	require.NoError(t, err)
	for _, c := range []struct{ schema, text, want string }{
		{`{"type": "string"}`, `12345`, `"12345"`},
		{`{"type": "string"}`, `{"a": 1}`, `"{\"a\": 1}"`},
		{`{"type": "string"}`, `null`, `"null"`},
		{`{"type": "STR"}`, `true`, `"true"`},
		{`{"type": "enum"}`, `1`, `"1"`},
		{`{}`, `1`, `"1"`},
		{`{"description": "x"}`, `1`, `"1"`},
		{`{"type": "integer"}`, `42`, `42`},
		{`{"type": "integer"}`, ` -7 `, `-7`},
		{`{"type": "integer"}`, `+5`, `5`},
		{`{"type": "integer"}`, `007`, `7`},
		{`{"type": "integer"}`, `9007199254740993`, `9007199254740993`},
		{`{"type": "integer"}`, `4.5`, `"4.5"`},
		{`{"type": "integer"}`, `1_000`, `"1_000"`},
		{`{"type": "integer"}`, `many`, `"many"`},
		{`{"type": "int32"}`, `3`, `3`},
		{`{"type": "unsigned long"}`, `3`, `3`},
		{`{"type": "integer"}`, `null`, `null`},
		{`{"type": "integer"}`, `NULL`, `null`},
		{`{"type": "integer"}`, `None`, `null`},
		{`{"type": "number"}`, `5`, `5`},
		{`{"type": "number"}`, `5.0`, `5.0`},
		{`{"type": "number"}`, `1e3`, `1e3`},
		{`{"type": "number"}`, `.5`, `0.5`},
		{`{"type": "number"}`, `5.`, `5.0`},
		{`{"type": "number"}`, `inf`, `"inf"`},
		{`{"type": "number"}`, `NaN`, `"NaN"`},
		{`{"type": "number"}`, `1e999`, `"1e999"`},
		{`{"type": "float"}`, `-0.25`, `-0.25`},
		{`{"type": "boolean"}`, `true`, `true`},
		{`{"type": "boolean"}`, `FALSE`, `false`},
		{`{"type": "bool"}`, `True`, `true`},
		{`{"type": "boolean"}`, `yes`, `"yes"`},
		{`{"type": "boolean"}`, `1`, `"1"`},
		{`{"type": "object"}`, `{"b":1,"a":[1.0]}`, `{"b": 1, "a": [1.0]}`},
		{`{"type": "object"}`, `{'a': True, "b": None}`, `{"a": true, "b": null}`},
		{`{"type": "object"}`, `{broken`, `"{broken"`},
		{`{"type": "array"}`, `[1, "a"]`, `[1, "a"]`},
		{`{"type": "array"}`, `('a', 'b')`, `["a", "b"]`},
		{`{"type": "list"}`, `a, b`, `"a, b"`},
		{`{"type": "dict[str, int]"}`, `{"a": 1}`, `{"a": 1}`},
		{`{"type": "any"}`, `3`, `3`},
		{`{"type": "any"}`, `'x'`, `"x"`},
		{`{"type": "any"}`, `x`, `"x"`},
		{`{"type": ["string", "null"]}`, `null`, `null`},
		{`{"type": ["string", "null"]}`, `42`, `"42"`},
		{`{"type": ["integer", "null"]}`, `42`, `42`},
		{`{"anyOf": [{"type": "integer"}, {"type": "null"}]}`, `42`, `42`},
		{`{"anyOf": [{"type": "integer"}, {"type": "null"}]}`, `null`, `null`},
		{`{"anyOf": [{"type": "string"}, {"type": "integer"}]}`, `42`, `"42"`},
		{`{"oneOf": [{"type": "array"}, {"type": "object"}]}`, `{"a": 1}`, `{"a": 1}`},
		{`{"type": "string", "nullable": true}`, `null`, `null`},
		{`{"allOf": [{"type": "boolean"}]}`, `true`, `true`},
		{`{"enum": ["a", "b"]}`, `1`, `"1"`},
		{`{"enum": [1, 2]}`, `1`, `1`},
		{`{"const": true}`, `true`, `true`},
		{`{"$ref": "#/$defs/n"}`, `3`, `3`},
		{`{"$ref": "https://example.org/x"}`, `3`, `"3"`},
		{`{"$ref": "#/properties/v"}`, `3`, `"3"`},
	} {
		t.Run(c.schema+" "+c.text, func(t *testing.T) {
			parameters := `{"type": "object", "$defs": {"n": {"type": "integer"}}, "properties": {"v": ` + c.schema + `}}`
			p := f.Parse(oneParameter(c.text), []Tool{{Name: "f", Parameters: json.RawMessage(parameters)}})
			require.Equal(t, `{"v": `+c.want+`}`, p.Calls[0].Arguments)
		})
	}
}

func TestBrokenSchemasCountAsNone(t *testing.T) {
	f, err := Lookup("qwen3_coder")
	require.NoError(t, err)
	for _, schema := range []string{"", "null", "[]", "{", `{"properties": []}`, `{"properties": {"v": 1}}`, `{"properties": {"v": {"type": 1}}}`, `{"properties": {"v": {"anyOf": {}}}}`} {
		p := f.Parse(oneParameter("1"), []Tool{{Name: "f", Parameters: json.RawMessage(schema)}})
		require.Equal(t, `{"v": "1"}`, p.Calls[0].Arguments, schema)
	}
}
