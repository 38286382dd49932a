package parsers

import (
	"strings"
	"testing"
)

// v3 writes one call in the format of V3, v31 in that of V3.1.
func v3(name, args string) string {
	return deepseekCallBegin + "function" + deepseekSep + name + "\n```json\n" + args + "\n```" + deepseekCallEnd
}

func v31(name, args string) string {
	return deepseekCallBegin + name + deepseekSep + args + deepseekCallEnd
}

// deepSeekCases are shared: call writes one call.
func deepSeekCases(call func(name, args string) string) []parseCase {
	const begin, end = deepseekCallsBegin, deepseekCallsEnd
	deep := strings.Repeat(`{"a": [`, 100) + "1" + strings.Repeat(`]}`, 100)
	cut := func(text string, n int) string { return text[:len(text)-n] }
	return []parseCase{
		plainText("text without a call", "Just text."),
		plainText("no text at all", ""),
		plainText("a section marker alone", "Hi "+begin),
		plainText("a section marker that is cut", "Hi "+begin[:10]),
		plainText("an empty section", begin+end),
		plainText("a call outside of any section", call("f", "{}")),
		plainText("look-alike tokens in ASCII", strings.NewReplacer("\uff5c", "|", "\u2581", "_").Replace(begin+call("f", "{}")+end)),
		plainText("one call without its end", begin+cut(call("f", `{"a": 1}`), len(deepseekCallEnd))),
		plainText("one call that is cut in its arguments", begin+call("f", `{"a": 1}`)[:len(call("f", ""))-len(deepseekCallEnd)]),
		plainText("a call without a separator", begin+deepseekCallBegin+"f {}"+deepseekCallEnd+end),
		plainText("a call without a name", begin+call("", "{}")+end),
		{"one call", begin + call("f", `{"a": 1}`) + end, nil, []string{"null", `f {"a": 1}`}},
		{"text before and after", " Hi.\n" + begin + call("f", "{}") + end + " bye", nil, []string{"Hi.\nbye", "f {}"}},
		{"an end of sentence", begin + call("f", "{}") + end + "<\uff5cend\u2581of\u2581sentence\uff5c>", nil, []string{"null", "f {}"}},
		{"two calls that touch", begin + call("f", "{}") + call("g", `{"b": []}`) + end, nil, []string{"null", "f {}", `g {"b": []}`}},
		{"three calls on lines, one function twice", begin + call("f", "{}") + "\n" + call("g", "{}") + "\n" + call("f", "{}") + end, nil, []string{"null", "f {}", "g {}", "f {}"}},
		{"a missing section end", begin + call("f", "{}"), nil, []string{"null", "f {}"}},
		{"a section end that is cut", begin + call("f", "{}") + end[:9], nil, []string{"null", "f {}"}},
		{"a second call without its end is content", begin + call("f", "{}") + cut(call("g", "{}"), 5), nil, []string{cut(call("g", "{}"), 5), "f {}"}},
		{"a first call without its end is content", begin + cut(call("f", "{}"), len(deepseekCallEnd)) + call("g", "{}") + end, nil, []string{begin + cut(call("f", "{}"), len(deepseekCallEnd)), "g {}"}},
		{"arguments are passed on as written", begin + call("f", `{"b":1,  "a":"\u00e9", "b":2}`) + end, nil, []string{"null", `f {"b":1,  "a":"\u00e9", "b":2}`}},
		{"arguments over several lines", begin + call("f", "{\n  \"a\": [\n    1\n  ]\n}") + end, nil, []string{"null", "f {\n  \"a\": [\n    1\n  ]\n}"}},
		{"malformed arguments are passed on, flagged", begin + call("f", "{'a': 1}") + call("g", "{}") + end, nil, []string{"null", "f {'a': 1} (invalid)", "g {}"}},
		{"arguments that are a list are flagged", begin + call("f", "[1]") + end, nil, []string{"null", "f [1] (invalid)"}},
		{"empty arguments", begin + call("f", "") + end, nil, []string{"null", "f {}"}},
		{"white space around name and arguments goes", begin + call(" f ", " {\"a\": 1} \n") + end, nil, []string{"null", `f {"a": 1}`}},
		{"an unclosed string does not reach into the next call", begin + call("f", `{"a": "b}`) + call("g", `{"c": 1}`) + end, nil, []string{"null", `f {"a": "b} (invalid)`, `g {"c": 1}`}},
		{"tokens inside strings are data", begin + call("f", `{"a": "`+end+deepseekCallEnd+deepseekCallBegin+`"}`) + end, nil, []string{"null", `f {"a": "` + end + deepseekCallEnd + deepseekCallBegin + `"}`}},
		{"fences inside strings are data", begin + call("f", "{\"a\": \"```json\\n```\"}") + end, nil, []string{"null", "f {\"a\": \"```json\\n```\"}"}},
		{"emoji and HTML", begin + call("f", `{"a": "😀 <b>&"}`) + end, nil, []string{"null", `f {"a": "😀 <b>&"}`}},
		{"deeply nested arguments", begin + call("f", deep) + end, nil, []string{"null", "f " + deep}},
		{"names with dots and signs", begin + call("a.b-c__d", "{}") + end, nil, []string{"null", "a.b-c__d {}"}},
		{"reasoning stays in the content", "hm</think>" + begin + call("f", "{}") + end, nil, []string{"hm</think>", "f {}"}},
	}
}

func TestDeepSeekV3(t *testing.T) {
	begin := deepseekCallsBegin
	runCases(t, "deepseek_v3", append(deepSeekCases(v3),
		plainText("V3.1's calls are not read", begin+v31("f", `{"a": 1}`)),
		plainText("a fence that is not closed", begin+deepseekCallBegin+"function"+deepseekSep+"f\n```json\n{}"+deepseekCallEnd),
		parseCase{"the type does not matter", begin + strings.Replace(v3("f", "{}"), "function", "tool", 1), nil, []string{"null", "f {}"}},
		parseCase{"a fence that touches the arguments", begin + deepseekCallBegin + "function" + deepseekSep + "f\n```json{}```" + deepseekCallEnd, nil, []string{"null", "f {}"}},
	))
}

func TestDeepSeekV31(t *testing.T) {
	begin := deepseekCallsBegin
	runCases(t, "deepseek_v3_1", append(deepSeekCases(v31),
		parseCase{"V3's calls are misread, which is why the two are apart", begin + v3("f", "{}"), nil, []string{"null", "function f\n```json\n{}\n``` (invalid)"}},
		parseCase{"text behind the JSON makes it malformed", begin + v31("f", "{} x"), nil, []string{"null", "f {} x (invalid)"}},
	))
}
