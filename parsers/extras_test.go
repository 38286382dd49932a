package parsers

import (
	"strings"
	"testing"
)

// TestFurtherFormats has the cases of the formats that are not required; their
// golden files and the properties of rendering cover the rest.
func TestFurtherFormats(t *testing.T) {
	const bar = "\uff5cDSML\uff5c"
	dsmlCall := func(name, args string) string {
		return "<" + bar + `invoke name="` + name + `">` + args + "</" + bar + "invoke>"
	}
	dsmlArg := func(attrs, value string) string {
		return "<" + bar + "parameter name=" + attrs + ">" + value + "</" + bar + "parameter>"
	}
	open, end := "<"+bar+"function_calls>", "</"+bar+"function_calls>"
	typed := []Tool{tool("f", `"i": {"type": "integer"}, "s": {"type": "string"}, "b": {"type": "boolean"}, "u": {"type": ["string", "integer"]}, "o": {"type": "object"}, "z": {"type": "null"}`)}
	for format, cases := range map[string][]parseCase{
		"deepseek_v3_2": {
			{"a blank invoke", open + dsmlCall("f", "\n") + end, nil, []string{"null", "f {}"}},
			{"the attribute decides, not the look of the value", open + dsmlCall("f", dsmlArg(`"a" string="true"`, "42")+dsmlArg(`"b" string="false"`, "[1, 2.0]")) + end, nil, []string{"null", `f {"a": "42", "b": [1, 2.0]}`}},
			{"the attribute decides against the schema", open + dsmlCall("f", dsmlArg(`"i" string="true"`, "42")) + end, typed, []string{"null", `f {"i": "42"}`}},
			{"single quotes and blanks around the attribute", open + dsmlCall("f", dsmlArg(`'a'  string = 'false' `, "{'x': True}")) + end, nil, []string{"null", `f {"a": {"x": true}}`}},
			{"a value that is no JSON stays text", open + dsmlCall("f", dsmlArg(`"a" string="false"`, "x y")) + end, nil, []string{"null", `f {"a": "x y"}`}},
			{"without the attribute the schema decides", open + dsmlCall("f", dsmlArg(`"i"`, "42")+dsmlArg(`"s"`, "42")) + end, typed, []string{"null", `f {"i": 42, "s": "42"}`}},
			{"without both it is a string", open + dsmlCall("f", dsmlArg(`"i"`, "42")) + end, nil, []string{"null", `f {"i": "42"}`}},
			{"strings are taken to the byte", open + dsmlCall("f", dsmlArg(`"a" string="true"`, "\n  x\n\n")) + end, nil, []string{"null", `f {"a": "\n  x\n\n"}`}},
			{"a missing end of the section", open + dsmlCall("f", ""), nil, []string{"null", "f {}"}},
			{"several invokes and text after them", "Hi" + open + dsmlCall("f", "") + "\n" + dsmlCall("g", "") + end + " bye", nil, []string{"Hi\nbye", "f {}", "g {}"}},
			{"an invoke without content", open + "<" + bar + `invoke name="f"/><` + bar + `invoke name="g" />` + end, nil, []string{"null", "f {}", "g {}"}},
			{"JSON in place of parameters", open + dsmlCall("f", "\n{'i': 1}\n") + dsmlCall("f", ` {"i":1, "o": {"k": "</x>"}} `) + end, nil, []string{"null", "f {'i': 1} (invalid)", `f {"i": 1, "o": {"k": "</x>"}}`}},
			{"JSON behind parameters is ignored", open + dsmlCall("f", dsmlArg(`"a" string="true"`, "x")+"{}") + end, nil, []string{"null", `f {"a": "x"}`}},
			{"all arguments in one that the tool lacks", open + dsmlCall("f", dsmlArg(`"arguments" string="false"`, `{"i": 1, "s": "x"}`)) + dsmlCall("f", dsmlArg(`"input" string="true"`, `{"i":2}`)) + end, typed, []string{"null", `f {"i": 1, "s": "x"}`, `f {"i": 2}`}},
			{"one argument that holds others", open + dsmlCall("f", dsmlArg(`"arguments" string="false"`, `{"q": 1}`)) + dsmlCall("g", dsmlArg(`"arguments" string="false"`, `{"i": 1}`)) + end, typed, []string{"null", `f {"arguments": {"q": 1}}`, `g {"arguments": {"i": 1}}`}},
			{"one argument that the tool has", open + dsmlCall("h", dsmlArg(`"input" string="false"`, `{"input": 1}`)) + end, []Tool{tool("h", `"input": {"type": "object"}`)}, []string{"null", `h {"input": {"input": 1}}`}},
			plainText("an invoke that is cut is dropped", open+strings.TrimSuffix(dsmlCall("f", dsmlArg(`"a" string="true"`, "x")), "</"+bar+"invoke>")),
			plainText("an invoke without quotes around nothing", open+"<"+bar+"invoke name=></"+bar+"invoke>"+end),
			plainText("a name whose quote is not closed", open+"<"+bar+`invoke name="f></`+bar+"invoke>"+end),
			plainText("V4's section is not V3.2's", strings.ReplaceAll(open+dsmlCall("f", "")+end, "function_calls", "tool_calls")),
			plainText("bars in ASCII", strings.ReplaceAll(open+dsmlCall("f", "")+end, "\uff5c", "|")),
		},
		"minimax_m2": {
			{"names in single quotes or none", "<minimax:tool_call><invoke name='f'><parameter name=s>x</parameter></invoke></minimax:tool_call>", nil, []string{"null", `f {"s": "x"}`}},
			{"values are trimmed and typed", "<minimax:tool_call><invoke name=\"f\"><parameter name=\"i\">\n 3 \n</parameter><parameter name=\"s\"> 4 </parameter><parameter name=\"b\">False</parameter></invoke></minimax:tool_call>", typed, []string{"null", `f {"i": 3, "s": "4", "b": false}`}},
			{"an integer comes before a string", "<minimax:tool_call><invoke name=\"f\"><parameter name=\"u\">5</parameter></invoke></minimax:tool_call>", typed, []string{"null", `f {"u": 5}`}},
			{"a string is what no other type fits", "<minimax:tool_call><invoke name=\"f\"><parameter name=\"u\">five</parameter></invoke></minimax:tool_call>", typed, []string{"null", `f {"u": "five"}`}},
			{"nil is null but not for strings", "<minimax:tool_call><invoke name=\"f\"><parameter name=\"i\">nil</parameter><parameter name=\"s\">nil</parameter></invoke></minimax:tool_call>", typed, []string{"null", `f {"i": null, "s": "nil"}`}},
			{"an unknown parameter is a string", "<minimax:tool_call><invoke name=\"f\"><parameter name=\"q\">null</parameter></invoke></minimax:tool_call>", typed, []string{"null", `f {"q": "null"}`}},
			{"a cut value is marked", "<minimax:tool_call><invoke name=\"f\"><parameter name=\"s\">ab", nil, []string{"null", `f {"s": "ab"} (truncated)`}},
			plainText("an invoke outside of the block", "<invoke name=\"f\"></invoke>"),
		},
		"step3": {
			{"a separator between calls", "<\uff5ctool_calls_begin\uff5c><\uff5ctool_call_begin\uff5c><steptml:invoke name=\"f\"></steptml:invoke><\uff5ctool_call_end\uff5c><\uff5ctool_sep\uff5c><\uff5ctool_call_begin\uff5c>function<\uff5ctool_sep\uff5c><steptml:invoke name=\"g\"><steptml:parameter name=\"a\"> 1 </steptml:parameter></steptml:invoke><\uff5ctool_call_end\uff5c>", nil, []string{"null", "f {}", `g {"a": "1"}`}},
			plainText("an invoke outside of the section", "<steptml:invoke name=\"f\"></steptml:invoke>"),
		},
		"functiongemma": {
			{"quoted JSON is decoded where no string is asked for", "<start_function_call>call:f{i:<escape>3<escape>,s:<escape>3<escape>}<end_function_call>", typed, []string{"null", `f {"i": 3, "s": "3"}`}},
			{"nested text stays text", "<start_function_call>call:f{o:{k:<escape>3<escape>,l:[<escape>4<escape>]}}<end_function_call>", typed, []string{"null", `f {"o": {"k": "3", "l": ["4"]}}`}},
			plainText("braces that do not close", "<start_function_call>call:f{a:1<end_function_call>"),
			plainText("no call: in front", "<start_function_call>f{}<end_function_call>"),
			{"a bad block beside a good one", "<start_function_call>call:f{a}<end_function_call><start_function_call>call:g{}<end_function_call>", nil, []string{"<start_function_call>call:f{a}<end_function_call>", "g {}"}},
		},
		"gemma4": {
			{"text is never decoded", `<|tool_call>call:f{a:<|"|>3<|"|>,b:<|"|>{x}, "y": ]<|"|>}<tool_call|>`, nil, []string{"null", `f {"a": "3", "b": "{x}, \"y\": ]"}`}},
			{"bare values", `<|tool_call>call:f{a:-1.50, b : true,c:null,d:None,e:word,f:[]}<tool_call|>`, nil, []string{"null", `f {"a": -1.50, "b": true, "c": null, "d": null, "e": "word", "f": []}`}},
			{"quoted keys", `<|tool_call>call:f{<|"|>a b<|"|>:{<|"|>c<|"|>:1}}<tool_call|>`, nil, []string{"null", `f {"a b": {"c": 1}}`}},
			plainText("a missing value", `<|tool_call>call:f{a:,b:1}<tool_call|>`),
			plainText("a list without commas", `<|tool_call>call:f{a:[[1] [2]]}<tool_call|>`),
			plainText("a name with a bracket", `<|tool_call>call:<f>{}<tool_call|>`),
		},
		"llama4_pythonic": {
			{"all literals", "[f(a='x', b=\"y\", c=1, d=-2.50, e=True, f=false, g=None, h=null, i=[1, 'z'], j={'k': (1, 2)})]", nil, []string{"null", `f {"a": "x", "b": "y", "c": 1, "d": -2.50, "e": true, "f": false, "g": null, "h": null, "i": [1, "z"], "j": {"k": [1, 2]}}`}},
			{"several calls over several lines", "\n[\n  f(a=1),\n  g(),\n]\n", nil, []string{"null", `f {"a": 1}`, "g {}"}},
			{"inside the tokens", "<|python_start|>[a.b(c=1)]<|python_end|><|eot|>", nil, []string{"null", `a.b {"c": 1}`}},
			{"the tokens in text", "See [x] and <|python_start|>[f(a=1)]<|python_end|> or\n<|python_start|>[g()]<|python_end|> bye", nil, []string{"See [x] and or\nbye", `f {"a": 1}`, "g {}"}},
			{"the tokens behind a bracket", "[note] <|python_start|>[f(a=1)]", nil, []string{"[note]", `f {"a": 1}`}},
			plainText("malformed calls between the tokens", "Hi <|python_start|>[f(1)]<|python_end|>"),
			plainText("no list between the tokens", "<|python_start|>print(1)<|python_end|>"),
			plainText("positional arguments", "[f(1)]"),
			plainText("text before the list", "Hi [f(a=1)]"),
			plainText("text after the list", "[f(a=1)] bye"),
			plainText("a call without a list", "f(a=1)"),
			plainText("an expression as an argument", "[f(a=1+1)]"),
			plainText("a call as an argument", "[f(a=g())]"),
			plainText("a list of calls without commas", "[f() g()]"),
			plainText("a list of numbers", "[1, 2]"),
			plainText("an empty list", "[]"),
			plainText("a link", "[see](https://example.org)"),
			plainText("a list that is cut", "[f(a=1), g("),
		},
		"olmo3": {
			{"calls on lines", "Hi\n<function_calls>\nf(a=\"x\")\n\ng(b=null)\n</function_calls>\nbye", nil, []string{"Hi\nbye", `f {"a": "x"}`, `g {"b": null}`}},
			{"a missing end", "<function_calls>\nf(a=1)\n", nil, []string{"null", `f {"a": 1}`}},
			plainText("one bad call spoils the others", "<function_calls>\nf(a=1)\ng(b=)\n</function_calls>"),
			plainText("an empty block", "<function_calls>\n</function_calls>"),
		},
		"gpt_oss": {
			{"the recipient in the role", "<|start|>assistant to=functions.f<|channel|>commentary json<|message|>{\"a\": 1}<|call|>", nil, []string{"null", `f {"a": 1}`}},
			{"the recipient behind the channel", "<|channel|>commentary to=functions.f <|constrain|>json<|message|>{\"a\": 1}<|call|>", nil, []string{"null", `f {"a": 1}`}},
			{"the server has stopped at the end token", "<|channel|>commentary to=functions.f<|message|>{\"a\": 1}", nil, []string{"null", `f {"a": 1}`}},
			{"an end token that is cut", "<|channel|>commentary to=functions.f<|message|>{\"a\": 1} <|ca", nil, []string{"null", `f {"a": 1}`}},
			{"no arguments", "<|channel|>commentary to=functions.f<|message|><|call|>", nil, []string{"null", "f {}"}},
			{"a tool of its own keeps its namespace", "<|channel|>analysis to=browser.search<|message|>{\"q\": \"x\"}<|call|>", nil, []string{"null", `browser.search {"q": "x"}`}},
			{"arguments that are cut", "<|channel|>commentary to=functions.f<|message|>{\"a\": ", nil, []string{"null", `f {"a": (truncated) (invalid)`}},
			{"cut before the arguments", "<|channel|>commentary to=functions.f<|message|>", nil, []string{"null", "f {} (truncated)"}},
			{"malformed arguments", "<|channel|>commentary to=functions.f<|message|>{a}<|call|>", nil, []string{"null", "f {a} (invalid)"}},
			{"JSON with something behind it", "<|channel|>commentary to=functions.f<|message|>{} x<|call|>", nil, []string{"null", "f {} x (invalid)"}},
			{"tokens inside strings are data", "<|channel|>commentary to=functions.f<|message|>{\"a\": \"<|call|><|end|>\"}<|call|>", nil, []string{"null", `f {"a": "<|call|><|end|>"}`}},
			plainText("a message to the user", "<|channel|>commentary to=user<|message|>Hi<|end|>"),
			plainText("a final answer", "<|channel|>final<|message|>Hi<|return|>"),
			plainText("a header without a message", "<|channel|>commentary to=functions.f"),
		},
		"granite": {
			{"the token", `<|tool_call|>[{"name": "f", "arguments": {}}]`, nil, []string{"null", "f {}"}},
			{"the tag, and something behind the array", ` <tool_call> [{"name": "f"}, {"name": "g"}]<|end_of_text|>`, nil, []string{"null", "f {}", "g {}"}},
			plainText("an array that is cut", `<|tool_call|>[{"name": "f"}`),
			plainText("something else than JSON", `<tool_call> f()`),
			plainText("an object without its array", `<tool_call> {"name": "f"}`),
		},
		"granite_20b_fc": {
			{"calls that follow each other", `Hi <function_call> {"name": "f"} <function_call>{"name": "g", "arguments": {"a": 1}}`, nil, []string{"Hi", "f {}", `g {"a": 1}`}},
			plainText("one bad call spoils the others", `<function_call> {"name": "f"} <function_call> {"nam`),
			plainText("an array", `<function_call> [{"name": "f"}]`),
		},
		"phi4_mini": {
			{"nested objects", `functools[{"name": "f", "arguments": {"a": {"b": {"c": [1]}}}}]`, nil, []string{"null", `f {"a": {"b": {"c": [1]}}}`}},
			{"parameters in place of arguments", `Hi functools[{"name": "f", "parameters": {"a": 1}}] bye`, nil, []string{"Hi bye", `f {"a": 1}`}},
			plainText("the module of that name", "import functools\nfunctools.partial(f)"),
			plainText("an array that is cut", `functools[{"name": "f"`),
		},
		"xlam": {
			{"a bare array", ` [{"name": "f", "arguments": {"a": 1}}]`, nil, []string{"null", `f {"a": 1}`}},
			{"behind reasoning that is closed", `hm</think> [{"name": "f"}]`, nil, []string{"hm</think>", "f {}"}},
			{"in a code block without a language", "Hi\n```\n[{\"name\": \"f\"}]\n```", nil, []string{"Hi", "f {}"}},
			{"behind Mistral's marker", `Hi [TOOL_CALLS][{"name": "f"}]`, nil, []string{"Hi", "f {}"}},
			{"an array that holds no calls, then one that does", "[1]\n```json\n[{\"name\": \"f\"}]\n```", nil, []string{"[1]", "f {}"}},
			plainText("an array in prose", `See [{"name": "f"}].`),
			plainText("an array that is cut", `[{"name": "f", "argum`),
			plainText("a code block of something else", "```json\n{\"name\": \"f\"}\n```"),
		},
		"ernie45": {
			{"behind reasoning", "hm\n</think>\n\n\n<tool_call>\n{\"name\": \"f\"}\n</tool_call>\n", nil, []string{"hm\n</think>", "f {}"}},
		},
		"jamba": {
			{"text around", `Hi <tool_calls>[{"name": "f"}, {"name": "g", "arguments": {"a": []}}]</tool_calls> bye`, nil, []string{"Hi bye", "f {}", `g {"a": []}`}},
			plainText("an array that is cut", `<tool_calls>[{"name": "f"}, `),
		},
		"longcat_xml": {
			{"everything on one line", "<longcat_tool_call>f<longcat_arg_key>a</longcat_arg_key><longcat_arg_value>1</longcat_arg_value></longcat_tool_call>", nil, []string{"null", `f {"a": 1}`}},
		},
		"seed_oss": {
			{"no block", "<function=f><parameter=s>x</parameter></function>", nil, []string{"null", `f {"s": "x"}`}},
			{"another model's block is text", "<tool_call><function=f></function></tool_call>", nil, []string{"<tool_call>\n</tool_call>", "f {}"}},
		},
	} {
		runTable(t, format, cases)
	}
}
