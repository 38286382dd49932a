package parsers

import (
	"strings"
	"testing"
)

// hermesCases are written with Hermes' tags.
func hermesCases() []parseCase {
	deep := strings.Repeat(`{"a": [`, 200) + "1" + strings.Repeat(`]}`, 200)
	return []parseCase{
		plainText("text without a call", "Just text."),
		plainText("no text at all", ""),
		plainText("white space alone", " \n\t"),
		plainText("an opening tag that is not complete", "a <tool_call"),
		plainText("a closing tag alone", "a </tool_call> b"),
		plainText("an opening tag alone", "a <tool_call>"),
		plainText("an empty block", "<tool_call>\n</tool_call>"),
		plainText("malformed JSON", `<tool_call>{"name": "f", "arguments": {a: 1}}</tool_call>`),
		plainText("JSON cut in the arguments", `Hi <tool_call>{"name": "f", "arguments": {"a": "b`),
		plainText("a missing name", `<tool_call>{"arguments": {"a": 1}}</tool_call>`),
		plainText("an empty name", `<tool_call>{"name": " ", "arguments": {}}</tool_call>`),
		plainText("a name that is no string", `<tool_call>{"name": 1, "arguments": {}}</tool_call>`),
		plainText("a body that is a number", `<tool_call>1</tool_call>`),
		plainText("a body that is a string", `<tool_call>"f"</tool_call>`),
		plainText("something behind the JSON", `<tool_call>{"name": "f"} x</tool_call>`),
		plainText("one bad block spoils the good ones", `<tool_call>{"name": "f"}</tool_call><tool_call>{bad}</tool_call>`),
		plainText("a second call that is cut spoils the first", `<tool_call>{"name": "f"}</tool_call>`+"\n"+`<tool_call>{"name": "g", "argum`),
		plainText("a raw newline inside a string", "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": \"b\nc\"}}</tool_call>"),
		plainText("NaN is no JSON", `<tool_call>{"name": "f", "arguments": {"a": NaN}}</tool_call>`),
		plainText("single quotes are no JSON", `<tool_call>{'name': 'f', 'arguments': {}}</tool_call>`),
		plainText("a trailing comma is no JSON", `<tool_call>{"name": "f", "arguments": {"a": 1,}}</tool_call>`),
		{"the template's layout", "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n</tool_call>", nil, []string{"null", `f {"a": 1}`}},
		{"everything on one line", `<tool_call>{"name":"f","arguments":{"a":1}}</tool_call>`, nil, []string{"null", `f {"a": 1}`}},
		{"text before the call", "  I look.\n\n" + `<tool_call>{"name": "f"}</tool_call>`, nil, []string{"I look.", "f {}"}},
		{"text between and after calls is content", `<tool_call>{"name": "f"}</tool_call> and <tool_call>{"name": "g"}</tool_call> done`, nil, []string{"and done", "f {}", "g {}"}},
		{"three calls, one function twice", `<tool_call>{"name": "f"}</tool_call>` + "\n" + `<tool_call>{"name": "g"}</tool_call><tool_call>{"name": "f"}</tool_call>`, nil, []string{"null", "f {}", "g {}", "f {}"}},
		{"a missing closing tag", `<tool_call>{"name": "f", "arguments": {"a": 1}}` + "\n", nil, []string{"null", `f {"a": 1}`}},
		{"a closing tag that is cut", `<tool_call>{"name": "f", "arguments": {"a": 1}}</tool_c`, nil, []string{"null", `f {"a": 1}`}},
		{"missing arguments", `<tool_call>{"name": "f"}</tool_call>`, nil, []string{"null", "f {}"}},
		{"empty arguments", `<tool_call>{"name": "f", "arguments": {}}</tool_call>`, nil, []string{"null", "f {}"}},
		{"arguments before the name, with a name inside", `<tool_call>{"arguments": {"name": "inner"}, "name": "f"}</tool_call>`, nil, []string{"null", `f {"name": "inner"}`}},
		{"other keys are ignored", `<tool_call>{"id": 7, "name": "f", "type": "function", "arguments": {}}</tool_call>`, nil, []string{"null", "f {}"}},
		{"white space around the name goes", `<tool_call>{"name": " f\n", "arguments": {}}</tool_call>`, nil, []string{"null", "f {}"}},
		{"an escaped key still counts", `<tool_call>{"n\u0061me": "f"}</tool_call>`, nil, []string{"null", "f {}"}},
		{"arguments encoded twice are unwrapped", `<tool_call>{"name": "f", "arguments": "{\"a\":1}"}</tool_call>`, nil, []string{"null", `f {"a": 1}`}},
		{"a string that is no JSON stays a string", `<tool_call>{"name": "f", "arguments": "x"}</tool_call>`, nil, []string{"null", `f "x" (invalid)`}},
		{"arguments that are a list are flagged", `<tool_call>{"name": "f", "arguments": [1]}</tool_call>`, nil, []string{"null", `f [1] (invalid)`}},
		{"arguments that are null are flagged", `<tool_call>{"name": "f", "arguments": null}</tool_call>`, nil, []string{"null", `f null (invalid)`}},
		{"all types of JSON", `<tool_call>{"name": "f", "arguments": {"s":"x","i":-1,"n":1.50e+10,"t":true,"f":false,"z":null,"a":[],"o":{}}}</tool_call>`, nil, []string{"null", `f {"s": "x", "i": -1, "n": 1.50e+10, "t": true, "f": false, "z": null, "a": [], "o": {}}`}},
		{"numbers keep their digits", `<tool_call>{"name": "f", "arguments": {"a": 9007199254740993, "b": 1.0, "c": 12345678901234567890.10}}</tool_call>`, nil, []string{"null", `f {"a": 9007199254740993, "b": 1.0, "c": 12345678901234567890.10}`}},
		{"key order stays and the last of a repeated key wins at its first place", `<tool_call>{"name": "f", "arguments": {"z": 1, "a": {"x": 1, "x": 2}, "z": 3}}</tool_call>`, nil, []string{"null", `f {"z": 3, "a": {"x": 2}}`}},
		{"escapes are resolved, HTML and non-ASCII stay", `<tool_call>{"name": "f", "arguments": {"a": "<b>&\u00e9\u2028 \ud83d\ude00 \/ \n \u0001 C:\\new"}}</tool_call>`, nil, []string{"null", "f {\"a\": \"<b>&é\u2028 😀 / \\n \\u0001 C:\\\\new\"}"}},
		{"a lone surrogate stays an escape", `<tool_call>{"name": "f", "arguments": {"a": "\uD83D x"}}</tool_call>`, nil, []string{"null", `f {"a": "\ud83d x"}`}},
		{"brackets and quotes inside strings", `<tool_call>{"name": "f", "arguments": {"a": "}]{[\"'"}}</tool_call>`, nil, []string{"null", `f {"a": "}]{[\"'"}`}},
		{"tags inside a string are data", `<tool_call>{"name": "f", "arguments": {"a": "</tool_call><tool_call>"}}</tool_call>`, nil, []string{"null", `f {"a": "</tool_call><tool_call>"}`}},
		{"deeply nested arguments", `<tool_call>{"name": "f", "arguments": ` + deep + `}</tool_call>`, nil, []string{"null", "f " + deep}},
		{"JSON over several lines", "<tool_call>\n{\n  \"name\": \"f\",\n  \"arguments\": {\n    \"a\": [\n      1,\n      2\n    ]\n  }\n}\n</tool_call>", nil, []string{"null", `f {"a": [1, 2]}`}},
		{"an empty block is passed over", `<tool_call></tool_call><tool_call>{"name": "f"}</tool_call><tool_call> `, nil, []string{"<tool_call>", "f {}"}},
		{"a list of calls in one block", `<tool_call>[{"name": "f"}, {"name": "g", "arguments": {"a": 1}}]</tool_call>`, nil, []string{"null", "f {}", `g {"a": 1}`}},
		{"reasoning stays in the content", "<think>\nhm\n</think>\n" + `<tool_call>{"name": "f"}</tool_call>`, nil, []string{"<think>\nhm\n</think>", "f {}"}},
		{"a call quoted in reasoning is parsed unless it was split off", `<think><tool_call>{"name": "f"}</tool_call></think>No.`, nil, []string{"<think>\n</think>No.", "f {}"}},
		{"wide spaces around the JSON", "\u00a0<tool_call>\u3000{\"name\": \"f\"}\u00a0</tool_call>", nil, []string{"null", "f {}"}},
		{"bytes that are no UTF-8 stay", "a\xff <tool_call>{\"name\": \"f\", \"arguments\": {\"a\": \"\xfe\"}}</tool_call>", nil, []string{"a\xff", "f {\"a\": \"\xfe\"}"}},
	}
}

func TestHermes(t *testing.T) { runCases(t, "hermes", hermesCases()) }

func TestQwenIsHermes(t *testing.T) { runCases(t, "qwen", hermesCases()) }

func TestLongcatIsHermesWithItsOwnTags(t *testing.T) {
	cases := hermesCases()
	for i, c := range cases {
		cases[i].text = strings.ReplaceAll(c.text, "tool_c", "longcat_tool_c")
		cases[i].want = append([]string(nil), c.want...)
		for j := range c.want {
			cases[i].want[j] = strings.ReplaceAll(c.want[j], "tool_c", "longcat_tool_c")
		}
	}
	cases = append(cases, plainText("Hermes' tags are not LongCat's", `<tool_call>{"name": "f"}</tool_call>`))
	runCases(t, "longcat", cases)
}
