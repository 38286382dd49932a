package parsers

import (
	"strings"
	"testing"
)

func TestLlama3JSON(t *testing.T) {
	deep := strings.Repeat(`{"a": [`, 300) + "1" + strings.Repeat(`]}`, 300)
	runCases(t, "llama3_json", []parseCase{
		plainText("text without a call", "Just text."),
		{"a quote inside braces of prose", `{0"}{"name": "f", "parameters": {}}`, nil, []string{`{0"}`, "f {}"}},
		plainText("no text at all", ""),
		plainText("a brace in prose", "Use {x} or { y }."),
		plainText("code behind the tag", "<|python_tag|>print(1)"),
		plainText("an object that is cut", `{"name": "f", "parameters": {"a": 1`),
		plainText("an object that is malformed", `{"name": "f", parameters: {}}`),
		plainText("a name without parameters", `{"name": "f"}`),
		plainText("parameters without a name", `{"parameters": {"a": 1}}`),
		plainText("an empty name", `{"name": "", "parameters": {}}`),
		plainText("a name that is no string", `{"name": ["f"], "parameters": {}}`),
		plainText("parameters that are null", `{"name": "f", "parameters": null}`),
		plainText("a call nested in an object that is complete", `{"x": {"name": "f", "parameters": {}}}`),
		plainText("a tag that is cut", "a <|python_"),
		{"a bare call", `{"name": "f", "parameters": {"a": 1}}`, nil, []string{"null", `f {"a": 1}`}},
		{"a call behind the tag", `<|python_tag|>{"name": "f", "parameters": {"a":1}}`, nil, []string{"null", `f {"a": 1}`}},
		{"arguments in place of parameters", `{"name": "f", "arguments": {"a": 1}}`, nil, []string{"null", `f {"a": 1}`}},
		{"arguments that are null give way to parameters", `{"name": "f", "arguments": null, "parameters": {"a": 1}}`, nil, []string{"null", `f {"a": 1}`}},
		{"parameters before the name", `{"parameters": {"name": "x"}, "name": "f"}`, nil, []string{"null", `f {"name": "x"}`}},
		{"empty parameters", `{"name": "f", "parameters": {}}`, nil, []string{"null", "f {}"}},
		{"calls separated by semicolon and blank", `{"name": "f", "parameters": {}}; {"name": "g", "parameters": {}}`, nil, []string{"null", "f {}", "g {}"}},
		{"calls separated by a semicolon", `{"name": "f", "parameters": {}};{"name": "g", "parameters": {}}`, nil, []string{"null", "f {}", "g {}"}},
		{"calls separated by a newline", "{\"name\": \"f\", \"parameters\": {}}\n{\"name\": \"g\", \"parameters\": {}}", nil, []string{"null", "f {}", "g {}"}},
		{"calls that touch", `{"name": "f", "parameters": {}}{"name": "f", "parameters": {"a": 2}}`, nil, []string{"null", "f {}", `f {"a": 2}`}},
		{"three calls", `{"name": "f", "parameters": {}}; {"name": "g", "parameters": {}} ;{"name": "h", "parameters": {}}`, nil, []string{"null", "f {}", "g {}", "h {}"}},
		{"prose before a call", `I call it. {"name": "f", "parameters": {}}`, nil, []string{"I call it.", "f {}"}},
		{"a prose brace before a call", `I used {tool} here. {"name": "f", "parameters": {}}`, nil, []string{"I used {tool} here.", "f {}"}},
		{"prose before the tag", `I call it. <|python_tag|>{"name": "f", "parameters": {}}`, nil, []string{"I call it.", "f {}"}},
		{"a tag that prose follows is content", `A <|python_tag|> b {"name": "f", "parameters": {}}`, nil, []string{"A <|python_tag|> b", "f {}"}},
		{"an object that is no call, then a call", `{"query": "x"} {"name": "f", "parameters": {}}`, nil, []string{`{"query": "x"}`, "f {}"}},
		{"a call, then an object that is none", `{"name": "f", "parameters": {}} and {"query": "x"}`, nil, []string{`and {"query": "x"}`, "f {}"}},
		{"a bad object beside a good one", `{"name": "f", "parameters": {bad}} {"name": "g", "parameters": {}}`, nil, []string{`{"name": "f", "parameters": {bad}}`, "g {}"}},
		{"a second call that is cut", `{"name": "f", "parameters": {}}; {"name": "g", "parameters": {"a`, nil, []string{`{"name": "g", "parameters": {"a`, "f {}"}},
		plainText("a call inside an object that is cut", `{"x": {"name": "f", "parameters": {}}, "y": `),
		{"a call inside a broken list of objects", `[{"name": "f", "parameters": {}}, {"name": "g", "parameters": {}}`, nil, []string{"null", "f {}", "g {}"}},
		{"Llama 4's wrapping tokens go", `<|python_start|>{"name": "f", "parameters": {}}<|python_end|>`, nil, []string{"null", "f {}"}},
		{"nested names are data", `{"name": "f", "parameters": {"x": {"name": "g", "parameters": {}}}}`, nil, []string{"null", `f {"x": {"name": "g", "parameters": {}}}`}},
		{"braces and tags in strings", `{"name": "f", "parameters": {"a": "}{<|python_tag|>\"{"}}`, nil, []string{"null", `f {"a": "}{<|python_tag|>\"{"}`}},
		plainText("a call behind a brace that is not closed", `say "{" then {"name": "f", "parameters": {}}`),
		{"deeply nested parameters", `{"name": "f", "parameters": ` + deep + `}`, nil, []string{"null", "f " + deep}},
		{"numbers keep their digits", `{"name": "f", "parameters": {"a": 9007199254740993, "b": 1.0}}`, nil, []string{"null", `f {"a": 9007199254740993, "b": 1.0}`}},
		{"non-ASCII and escapes", `{"name": "f", "parameters": {"a": "\u00e9 😀 \n C:\\x"}}`, nil, []string{"null", `f {"a": "é 😀 \n C:\\x"}`}},
		{"parameters encoded twice", `{"name": "f", "parameters": "{\"a\": 1}"}`, nil, []string{"null", `f {"a": 1}`}},
		{"several lines", "{\n  \"name\": \"f\",\n  \"parameters\": {\n    \"a\": 1\n  }\n}", nil, []string{"null", `f {"a": 1}`}},
		{"reasoning stays in the content", `<think>hm</think>{"name": "f", "parameters": {}}`, nil, []string{"<think>hm</think>", "f {}"}},
	})
}
