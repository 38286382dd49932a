package parsers

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestRecentFormats has the edge cases of the formats of recent models; golden
// files and the properties of rendering and of content cover the rest.
func TestRecentFormats(t *testing.T) {
	typed := []Tool{tool("f", `"i": {"type": "integer"}, "s": {"type": "string"}, "b": {"type": "boolean"}, "u": {"type": ["string", "integer"]}, "o": {"type": "object"}, "a": {"type": "array"}, "z": {"type": ["string", "null"]}`)}
	pair := func(key, value string) string {
		return "<arg_key>" + key + "</arg_key><arg_value>" + value + "</arg_value>"
	}
	ns := func(tags ...string) string { return miniMaxM3Mark + strings.Join(tags, miniMaxM3Mark) }
	plamo := func(name, args string) string {
		return plamoCall + plamoName + name + plamoNameEnd + plamoArgs + args + plamoArgsEnd + plamoCallEnd
	}
	solar := func(key, value string) string {
		return "<|tool_arg:start|>" + key + "<|tool_arg:value|>" + value + "<|tool_arg:end|>\n"
	}
	k3 := func(name, args string) string {
		return `<|open|>call tool="` + name + `" index="1"<|sep|>` + args + `<|close|>call<|sep|>`
	}
	k3arg := func(key, kind, value string) string {
		return `<|open|>argument key="` + key + `" type="` + kind + `"<|sep|>` + value + `<|close|>argument<|sep|>`
	}
	const k3open, k3close = "<|open|>tools<|sep|>", "<|close|>tools<|sep|>"
	for format, cases := range map[string][]parseCase{
		"deepseek_v4_1": {
			{"a call", "Hi\n\n<\uff5cDSML\uff5c calls>\n<\uff5cDSML\uff5c invoke name=\"f\">\n<\uff5cDSML\uff5c parameter name=\"i\" string=\"false\">3</\uff5cDSML\uff5c parameter>\n</\uff5cDSML\uff5c invoke>\n</\uff5cDSML\uff5c calls>", nil, []string{"Hi", `f {"i": 3}`}},
			plainText("the tags of V4", "<\uff5cDSML\uff5ctool_calls><\uff5cDSML\uff5cinvoke name=\"f\"></\uff5cDSML\uff5cinvoke></\uff5cDSML\uff5ctool_calls>"),
		},
		"gigachat35": {
			{"the end of the message goes", "<\uff5cGCML\uff5ctool_calls><\uff5cGCML\uff5cinvoke name=\"f\"></\uff5cGCML\uff5cinvoke></\uff5cGCML\uff5ctool_calls><|message_sep|></s>", nil, []string{"null", "f {}"}},
			plainText("a call that is cut", "<\uff5cGCML\uff5ctool_calls><\uff5cGCML\uff5cinvoke name=\"f\"><\uff5cGCML\uff5cparameter name=\"a\" string=\"true\">x"),
		},
		"dots": {
			{"JSON in place of elements", `Hi <dots_function_call>{"name": "f", "arguments": {"a": "}"}}</dots_function_call> bye`, nil, []string{"Hi bye", `f {"a": "}"}`}},
			{"a list of JSON calls", `<dots_function_call> [{"name": "f"}, {"name": "g", "parameters": {"a": 1}}] </dots_function_call>`, nil, []string{"null", "f {}", `g {"a": 1}`}},
			{"JSON whose end tag is cut", `<dots_function_call>{"name": "f"}</dots_fun`, nil, []string{"null", "f {}"}},
			{"values are trimmed and typed", `<dots_function_call><invoke name="f"><parameter name="i"> 3 </parameter><parameter name="u">4</parameter><parameter name="s"> 5 </parameter></invoke></dots_function_call>`, typed, []string{"null", `f {"i": 3, "u": 4, "s": "5"}`}},
			plainText("malformed JSON", `<dots_function_call>{"name": "f", "arguments": {</dots_function_call>`),
			plainText("JSON that is no call", `<dots_function_call>{"a": 1}</dots_function_call>`),
			plainText("a call that is cut", `<dots_function_call><invoke name="f"><parameter name="a">x</parameter>`),
		},
		"muse_glimmer": {
			{"what is said to the user holds no calls", "to=user<|message|>Write <atem:function_calls><atem:invoke name=\"f\"></atem:invoke></atem:function_calls><|eom|><|start|>assistant to=g<|message|><atem:function_calls><atem:invoke name=\"g\"></atem:invoke></atem:function_calls><|eom|>", nil, []string{"to=user<|message|>Write <atem:function_calls><atem:invoke name=\"f\"></atem:invoke></atem:function_calls><|eom|><|start|>assistant to=g<|message|>", "g {}"}},
			{"values are JSON where the schema asks for no string", "<atem:function_calls><atem:invoke name=\"f\"><atem:parameter name=\"q\">[1]</atem:parameter><atem:parameter name=\"s\">[1]</atem:parameter></atem:invoke></atem:function_calls>", typed, []string{"null", `f {"q": [1], "s": "[1]"}`}},
			plainText("a call that is cut", "<atem:function_calls><atem:invoke name=\"f\"><atem:parameter name=\"a\">x"),
		},
		"minicpm5": {
			{"calls that follow each other", `Hi <function name="f"><param name="s">x</param></function><function name='g'></function> bye`, typed, []string{"Hi bye", `f {"s": "x"}`, "g {}"}},
			{"sections are taken to the byte", "<function name=\"f\"><param name=\"s\"><![CDATA[ </param> &lt; <b>\n]]></param></function>", typed, []string{"null", `f {"s": " </param> &lt; <b>\n"}`}},
			{"entities elsewhere are resolved", `<function name="f"><param name="s"> a &lt; b &amp;amp; c </param></function>`, typed, []string{"null", `f {"s": "a < b &amp; c"}`}},
			{"values are guessed without a schema", `<function name="g"><param name="a">3</param><param name="b">[1, "x"]</param><param name="c">{'k': True}</param><param name="d">x y</param></function>`, nil, []string{"null", `g {"a": 3, "b": [1, "x"], "c": {"k": true}, "d": "x y"}`}},
			{"tags without their space", `<functionname="f"><paramname="s">x</param></function> <function` + "\u0120" + `name="f"><param` + "\u0120" + `name="i">2</param></function>`, typed, []string{"null", `f {"s": "x"}`, `f {"i": 2}`}},
			{"all arguments in one that the tool lacks", `<function name="f"><param name="properties">{'i': 1}</param></function><function name="f"><param name="properties">{'q': 1}</param></function>`, typed, []string{"null", `f {"i": 1}`, `f {"properties": {"q": 1}}`}},
			{"a bad call beside a good one", `<function name="f"><param name="s">x<function name="g"></function>`, nil, []string{`<function name="f"><param name="s">x`, "g {}"}},
			{"something else than arguments", `<function name="f"><param>x</param></function><function name="f">say <b></function><function name="g"></function>`, nil, []string{`<function name="f"><param>x</param></function><function name="f">say <b></function>`, "g {}"}},
			plainText("a call that is cut", `<function name="f"><param name="s">x</param>`),
			plainText("a section that is cut", `<function name="f"><param name="s"><![CDATA[x</param></function>`),
			plainText("a function without a name", "<function><param name=\"s\">x</param></function>"),
		},
		"mimo": {
			{"newlines are data", "<tool_call>\n<function=f>\n<parameter=s>\nx\n</parameter>\n</function>\n</tool_call>", typed, []string{"null", `f {"s": "\nx\n"}`}},
			{"types come from the schema", "<tool_call><function=f><parameter=i>3</parameter><parameter=q>3</parameter></function></tool_call>", typed, []string{"null", `f {"i": 3, "q": "3"}`}},
			{"a cut value is marked", "<tool_call><function=f><parameter=s>x", nil, []string{"null", `f {"s": "x"} (truncated)`}},
		},
		"minimax_m3": {
			{"nested elements", ns("<tool_call>", `<invoke name="f">`, "<o>", "<k>1", "</k>", "<l>", "<item>a", "</item>", "<item>b", "</item>", "</l>", "</o>", "<i>7", "</i>", "</invoke>", "</tool_call>"), typed, []string{"null", `f {"o": {"k": "1", "l": ["a", "b"]}, "i": 7}`}},
			{"children of one name are a list", ns("<tool_call>", `<invoke name="f">`, "<o>", "<t>a", "</t>", "<t>b", "</t>", "</o>", "</invoke>", "</tool_call>"), nil, []string{"null", `f {"o": {"t": ["a", "b"]}}`}},
			{"empty containers", ns("<tool_call>", `<invoke name="f">`, "<o>", "</o>", "<a>", "</a>", "<s>", "</s>", "</invoke>", "</tool_call>"), typed, []string{"null", `f {"o": {}, "a": [], "s": ""}`}},
			{"null where the schema admits it", ns("<tool_call>", `<invoke name="f">`, "<z>null", "</z>", "<s>null", "</s>", "</invoke>", "</tool_call>"), typed, []string{"null", `f {"z": null, "s": "null"}`}},
			{"tags without the mark are text", ns("<tool_call>", `<invoke name="f">`, "<s><b>x</b> </s>", "</s>", "</invoke>", "</tool_call>"), typed, []string{"null", `f {"s": "<b>x</b> </s>"}`}},
			{"two calls and two blocks", "Hi" + ns("<tool_call>", `<invoke name="f">`, "</invoke>\n", `<invoke name="g">`, "</invoke>", "</tool_call>\n", "<tool_call>", `<invoke name="h">`, "</invoke>", "</tool_call>") + "bye", nil, []string{"Hi\nbye", "f {}", "g {}", "h {}"}},
			{"a bad call beside a good one", ns("<tool_call>", `<invoke name="f">`, "<a>", "</b>", "</invoke>", `<invoke name="g">`, "</invoke>", "</tool_call>"), nil, []string{ns("<tool_call>", `<invoke name="f">`, "<a>", "</b>", "</invoke>"), "g {}"}},
			plainText("a call that is cut", ns("<tool_call>", `<invoke name="f">`, "<s>x")),
			plainText("an element that is not closed", ns("<tool_call>", `<invoke name="f">`, "<s>x", "</invoke>", "</tool_call>")),
			plainText("text between elements", ns("<tool_call>", `<invoke name="f">x`, "</invoke>", "</tool_call>")),
			plainText("tags without the mark", `<tool_call><invoke name="f"></invoke></tool_call>`),
		},
		"kimi_k3": {
			{"the type the model wrote decides", k3open + k3("f", k3arg("a", "string", "12")+k3arg("b", "number", "12")+k3arg("c", "object", `{"k": ["<x>"]}`)+k3arg("d", "boolean", "true")+k3arg("e", "null", "null")) + k3close, nil, []string{"null", `f {"a": "12", "b": 12, "c": {"k": ["<x>"]}, "d": true, "e": null}`}},
			{"JSON that is malformed is text", k3open + k3("f", k3arg("a", "object", "{a}")) + k3close, nil, []string{"null", `f {"a": "{a}"}`}},
			{"attributes are escaped", k3open + k3("f", k3arg("a &amp; &quot;b&quot;", "string", "&amp;")) + k3close, nil, []string{"null", `f {"a & \"b\"": "&amp;"}`}},
			{"strings are taken to the byte", k3open + k3("f", k3arg("a", "string", "\n <|open|>x ")) + k3close, nil, []string{"null", `f {"a": "\n <|open|>x "}`}},
			{"the end of the message goes", "Hi" + k3open + k3("f", "") + k3close + "<|close|>message<|sep|>", nil, []string{"Hi", "f {}"}},
			{"a bad call beside a good one", k3open + `<|open|>call index="1"<|sep|><|close|>call<|sep|>` + k3("g", "") + k3close, nil, []string{k3open + `<|open|>call index="1"<|sep|><|close|>call<|sep|>`, "g {}"}},
			plainText("a call that is cut", k3open+strings.TrimSuffix(k3("f", k3arg("a", "string", "x")), "<|close|>call<|sep|>")),
			plainText("a call outside of the channel", k3("f", "")),
		},
		"hy_v3": {
			{"everything on one line", "Hi <tool_calls><tool_call>f<tool_sep>" + pair("s", "x") + pair("i", "3") + "</tool_call><tool_call>g<tool_sep></tool_call></tool_calls> bye", typed, []string{"Hi bye", `f {"s": "x", "i": 3}`, "g {}"}},
			{"without the separator", "<tool_calls><tool_call>f" + pair("u", "3") + "</tool_call></tool_calls>", typed, []string{"null", `f {"u": 3}`}},
			{"tags with a suffix", strings.NewReplacer("_calls", "_calls:x1", "call>", "call:x1>", "sep>", "sep:x1>", "key>", "key:x1>", "value>", "value:x1>").Replace("<tool_calls><tool_call>f<tool_sep>" + pair("s", "<x>") + "</tool_call></tool_calls>"), nil, []string{"null", `f {"s": "<x>"}`}},
			{"values are strings without a schema", "<tool_calls><tool_call>g<tool_sep>" + pair("a", "3") + pair("b", "\n x \n") + "</tool_call></tool_calls>", nil, []string{"null", `g {"a": "3", "b": "\n x \n"}`}},
			{"the array of A13B", `Hi <tool_calls>[{"name": "f", "arguments": {"a": 1}}]</tool_calls> bye`, nil, []string{"Hi bye", `f {"a": 1}`}},
			{"a bad call beside a good one", "<tool_calls><tool_call><tool_sep></tool_call><tool_call>g<tool_sep></tool_call></tool_calls>", nil, []string{"<tool_calls><tool_call><tool_sep></tool_call>", "g {}"}},
			{"words that begin like the tag", "<tool_callsign> <tool_calls: <tool_calls:> <tool_calls><tool_call>f<tool_sep></tool_call></tool_calls>", nil, []string{"<tool_callsign> <tool_calls: <tool_calls:>", "f {}"}},
			plainText("a call that is cut", "<tool_calls><tool_call>f<tool_sep>"+pair("s", "x")),
			plainText("a call outside of the section", "<tool_call>f<tool_sep></tool_call>"),
			plainText("an array that is malformed", `<tool_calls>[{{"name": "f"}}]</tool_calls>`),
			plainText("an opening tag at the end", "<tool_calls"),
			plainText("an opening tag and blanks at the end", "<tool_calls> "),
		},
		"hy_v4": {
			{"a call", "<tool_calls><tool_call>f" + pair("s", "3") + pair("o", `{"k": [1]}`) + "</tool_call></tool_calls>", typed, []string{"null", `f {"s": "3", "o": {"k": [1]}}`}},
		},
		"k2_horizon": {
			{"types the model wrote", "<ifm|tool_calls><ifm|tool_call>f\n<ifm|arg_key>a</ifm|arg_key><ifm|arg_type>string</ifm|arg_type><ifm|arg_value>3</ifm|arg_value><ifm|arg_key>b</ifm|arg_key><ifm|arg_type>integer</ifm|arg_type><ifm|arg_value>3</ifm|arg_value></ifm|tool_call></ifm|tool_calls>", nil, []string{"null", `f {"a": "3", "b": 3}`}},
			{"the schema comes before them", "<ifm|tool_calls><ifm|tool_call>f<ifm|arg_key>s</ifm|arg_key><ifm|arg_type>integer</ifm|arg_type><ifm|arg_value>3</ifm|arg_value></ifm|tool_call></ifm|tool_calls>", typed, []string{"null", `f {"s": "3"}`}},
			{"JSON in place of elements", `Hi <ifm|tool_call>{"name": "f", "arguments": "{\"a\": 1}"}</ifm|tool_call><ifm|tool_call>[{"function": {"name": "g"}}]</ifm|tool_call> bye`, nil, []string{"Hi bye", `f {"a": 1}`, "g {}"}},
			{"a bad call beside a good one", "<ifm|tool_call>{{}}</ifm|tool_call><ifm|tool_call>g</ifm|tool_call>", nil, []string{"<ifm|tool_call>{{}}</ifm|tool_call>", "g {}"}},
			plainText("a call that is cut", "<ifm|tool_calls><ifm|tool_call>f<ifm|arg_key>a</ifm|arg_key>"),
		},
		"poolside_v1": {
			{"a newline behind the name", "<tool_call>f\n" + pair("s", " 3 ") + "\n</tool_call>", typed, []string{"null", `f {"s": " 3 "}`}},
			{"no newline behind the name", "<tool_call>f" + pair("i", "3") + "</tool_call>", typed, []string{"null", `f {"i": 3}`}},
			{"keys without a value", "<tool_call>f\n<arg_key>x</arg_key>" + pair("i", "3") + "</tool_call>", typed, []string{"null", `f {"i": 3}`}},
		},
		"spark25": {
			{"values are strings without a schema", "<tool_call>g\n" + pair("a", "3") + "\n</tool_call>", nil, []string{"null", `g {"a": "3"}`}},
			{"types come from the schema", "<tool_call>f\n" + pair("i", "3") + pair("b", "true") + pair("o", `{"k": "</b>"}`) + "\n</tool_call>", typed, []string{"null", `f {"i": 3, "b": true, "o": {"k": "</b>"}}`}},
			plainText("a call that is cut", "<tool_call>f\n"+pair("i", "3")),
		},
		"iquest_q1": {
			{"text around", "Hi <iquest_tool_call>f" + pair("s", "3") + "</iquest_tool_call> bye", typed, []string{"Hi bye", `f {"s": "3"}`}},
			plainText("another model's tag", "<tool_call>f"+pair("s", "3")+"</tool_call>"),
		},
		"solar_open2": {
			{"typed values", "Hi\n<|tool_call:start|>f\n" + solar("i", "3") + solar("s", "\n3 ") + solar("u", "4") + "<|tool_call:end|>\nbye", typed, []string{"Hi\nbye", `f {"i": 3, "s": "\n3 ", "u": 4}`}},
			{"values are strings without a schema", "<|tool_call:start|>g\n" + solar("a", "{}") + "<|tool_call:end|>", nil, []string{"null", `g {"a": "{}"}`}},
			{"no arguments", "<|tool_call:start|>g\n<|tool_call:end|>", nil, []string{"null", "g {}"}},
			plainText("a name without its newline", "<|tool_call:start|>g<|tool_call:end|>"),
			plainText("a call that is cut", "<|tool_call:start|>g\n"+solar("a", "x")),
		},
		"cohere_command4": {
			{"ids are the model's", `Hi<|START_ACTION|>[{"tool_call_id": "4", "tool_name": "f", "parameters": {"a": "}]"}}, {"tool_name": "g"}]<|END_ACTION|><|END_OF_TURN_TOKEN|>`, nil, []string{"Hi", `f {"a": "}]"}`, "g {}"}},
			{"one object", `<|START_ACTION|>{"tool_name": "f", "parameters": {}}<|END_ACTION|>`, nil, []string{"null", "f {}"}},
			{"the end is missing", `<|START_ACTION|>[{"tool_name": "f", "parameters": {}}]`, nil, []string{"null", "f {}"}},
			{"a bad block beside a good one", "Hi<|START_ACTION|>[{{}}]<|END_ACTION|><|START_ACTION|>[{\"tool_name\": \"g\"}]<|END_ACTION|>", nil, []string{"Hi<|START_ACTION|>[{{}}]<|END_ACTION|>", "g {}"}},
			plainText("an array that is cut", `<|START_ACTION|>[{"tool_call_id": "0", "tool_name": "f"}, {"to`),
			plainText("doubled braces", `<|START_ACTION|>[{{"tool_name": "f", "parameters": {}}}]<|END_ACTION|>`),
			plainText("the keys of other formats", `<|START_ACTION|>[{"name": "f", "arguments": {}}]<|END_ACTION|>`),
		},
		"apertus": {
			{"several calls", `Hi <|tools_prefix|>[{"f": {"a": "[{"}}, {"g": {}}, {"h": null}]<|tools_suffix|> bye`, nil, []string{"Hi bye", `f {"a": "[{"}`, "g {}", "h {}"}},
			{"the end is missing", `<|tools_prefix|>[{"f": {}}]`, nil, []string{"null", "f {}"}},
			{"arguments that are no object", `<|tools_prefix|>[{"f": [1]}]<|tools_suffix|>`, nil, []string{"null", "f [1] (invalid)"}},
			{"a bad block beside a good one", "Hi<|tools_prefix|>[{{}}]<|tools_suffix|><|tools_prefix|>[{\"g\": {}}]<|tools_suffix|>", nil, []string{"Hi<|tools_prefix|>[{{}}]<|tools_suffix|>", "g {}"}},
			plainText("an object of two members", `<|tools_prefix|>[{"name": "f", "arguments": {}}]<|tools_suffix|>`),
			plainText("an array that is cut", `<|tools_prefix|>[{"f": {"a": `),
			plainText("doubled braces", `<|tools_prefix|>[{{"f": {}}}]<|tools_suffix|>`),
		},
		"gigachat3": {
			{"the token", `Hi<|function_call|>{"name": "f", "arguments": {"a": 1}}</s>`, nil, []string{"Hi", `f {"a": 1}`}},
			{"a message of its own", "Hi<|message_sep|>\n\nfunction call<|role_sep|>\n{\"name\": \"f\", \"arguments\": {}}<|message_sep|>", nil, []string{"Hi", "f {}"}},
			{"a bad block beside a good one", "Hi<|function_call|>[1]\n<|function_call|>{\"name\": \"g\"}", nil, []string{"Hi<|function_call|>[1]", "g {}"}},
			plainText("the words without the token", "a function call\n{\"name\": \"f\"}"),
			plainText("a call that is cut", `<|function_call|>{"name": "f", "arguments": {"a`),
			plainText("doubled braces", `<|function_call|>{{"name": "f", "arguments": {}}}`),
		},
		"internlm": {
			{"a blank between the tokens", "Hi<|action_start|> <|plugin|>\n{\"name\": \"f\", \"parameters\": {\"a\": 1}}<|action_end|> bye", nil, []string{"Hi\nbye", `f {"a": 1}`}},
			{"arguments in place of parameters", "<|action_start|><|plugin|>{\"name\": \"f\", \"arguments\": {\"a\": 1}}<|action_end|>", nil, []string{"null", `f {"a": 1}`}},
			{"two calls", "<|action_start|><|plugin|>{\"name\": \"f\"}<|action_end|>\n<|action_start|><|plugin|>{\"name\": \"g\"}<|action_end|>", nil, []string{"null", "f {}", "g {}"}},
			{"a bad block beside a good one", "Hi<|action_start|><|plugin|>\n{{}}<|action_end|>\n<|action_start|><|plugin|>\n{\"name\": \"g\"}<|action_end|>", nil, []string{"Hi<|action_start|><|plugin|>\n{{}}<|action_end|>", "g {}"}},
			plainText("another action", "<|action_start|><|interpreter|>\nprint(1)<|action_end|>"),
			plainText("a call that is cut", "<|action_start|><|plugin|>{\"name\": \"f\", \"par"),
		},
		"inkling": {
			{"a header with the name", `Hi<|message_model|>f<|content_invoke_tool_json|>{"name": "f", "args": {"a": "<|end_message|>"}}<|end_message|>`, nil, []string{"Hi", `f {"a": "<|end_message|>"}`}},
			{"no header", `<|content_invoke_tool_json|>{"name": "f", "args": {}}<|content_model_end_sampling|>`, nil, []string{"null", "f {}"}},
			{"a header of something else", `<|message_model|><|content_text|>Hi<|end_message|><|message_model|>f<|content_invoke_tool_json|>{"name": "f"}<|end_message|>`, nil, []string{"<|message_model|><|content_text|>Hi<|end_message|>", "f {}"}},
			{"a bad block beside a good one", "Hi<|content_invoke_tool_json|>{{}}<|end_message|><|content_invoke_tool_json|>{\"name\": \"g\"}<|end_message|>", nil, []string{"Hi<|content_invoke_tool_json|>{{}}<|end_message|>", "g {}"}},
			plainText("a header that words follow", "<|message_model|>some words<|content_invoke_tool"),
			plainText("a call that is cut", `<|message_model|>f<|content_invoke_tool_json|>{"name": "f", "args": {"a`),
		},
		"plamo3": {
			{"several calls", "Hi" + plamoCalls + plamo("f", `{"a": "`+plamoArgsEnd+`"}`) + plamo("g", "") + plamoEnd + "bye", nil, []string{"Hi\nbye", `f {"a": "` + plamoArgsEnd + `"}`, "g {}"}},
			{"malformed arguments", plamoCalls + plamo("f", "{a") + plamoEnd, nil, []string{"null", "f {a (invalid)"}},
			{"a bad call beside a good one", plamoCalls + plamo("", "{}") + plamo("g", "{}") + plamoEnd, nil, []string{plamoCalls + plamo("", "{}"), "g {}"}},
			plainText("a call that is cut", plamoCalls+plamoCall+plamoName+"f"+plamoNameEnd+plamoArgs+`{"a": 1`),
			plainText("a call outside of the section", plamo("f", "{}")),
		},
		"lfm2": {
			{"text around", "Hi <|tool_call_start|>[f(a='x]', b=[1, {'c': None}]), g()]<|tool_call_end|>bye", nil, []string{"Hi bye", `f {"a": "x]", "b": [1, {"c": null}]}`, "g {}"}},
			{"JSON calls", `<|tool_call_start|>[{"name": "f", "arguments": {"a": 1}}]<|tool_call_end|>`, nil, []string{"null", `f {"a": 1}`}},
			{"the end is missing", "<|tool_call_start|>[f(a=1)]", nil, []string{"null", `f {"a": 1}`}},
			plainText("no list", "<|tool_call_start|>f(a=1)<|tool_call_end|>"),
			plainText("a list that is cut", "<|tool_call_start|>[f(a=1), g("),
			plainText("doubled braces", `<|tool_call_start|>[{{"name": "f", "arguments": {}}}]<|tool_call_end|>`),
			plainText("an empty list", "<|tool_call_start|>[]<|tool_call_end|>"),
		},
	} {
		runTable(t, format, cases)
	}
	for _, f := range recentFormats() {
		require.NotEmpty(t, f.Models(), f.Name())
	}
}

func TestCohere_KeepsTheModelsIDs(t *testing.T) {
	f, err := Lookup("cohere_command4")
	require.NoError(t, err)
	got := f.Parse(`<|START_ACTION|>[{"tool_call_id": "7", "tool_name": "f"}, {"tool_call_id": "7", "tool_name": "g"}]<|END_ACTION|>`, nil)
	require.Equal(t, "7", got.Calls[0].ID)
	require.NotEqual(t, "7", got.Calls[1].ID, "ids are unique")
	text, err := f.Render("", []Call{{ID: "7", Name: "f", Arguments: "{}"}, {ID: "call_1", Name: "g", Arguments: "{}"}}, nil)
	require.NoError(t, err)
	require.Equal(t, "7", f.Parse(text, nil).Calls[0].ID)
}
