package parsers

import (
	"math/rand/v2"
	"strings"
	"testing"
)

// TestMarkerSoupKeepsTheInvariants mixes the markers of all formats at random,
// a few of them more often than the others, so that blocks get half built in
// every way. Fuzzing finds such texts slowly.
func TestMarkerSoupKeepsTheInvariants(t *testing.T) {
	words := append(ToolMarkers(),
		"</tool_call>", "f>", "</function>", "<parameter=", "a>", "</parameter>", "<invoke name=\"f\">", "</invoke>", "<parameter name=\"a\">",
		deepseekCallBegin, deepseekSep, deepseekCallEnd, "```json\n", "\n```", kimiCallBegin, kimiArgsBegin, kimiCallEnd, "functions.f:0", "0",
		"<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>", "[ARGS]", "[CALL_ID]", "<|channel|>", "<|start|>", "to=f", "<|message|>", "<|call|>", "<|end|>",
		"functools[", "call:f{", "a:1", "[f(", "a=1", ")", "</think>", "</longcat_tool_call>", "</tool_calls>", "<end_function_call>", "<tool_call|>",
		"<|close|>call<|sep|>", "<|open|>call tool=\"f\"<|sep|>", "<|open|>argument key=\"a\" type=\"number\"<|sep|>", "<|close|>argument<|sep|>", "<tool_sep>", "<tool_call:x>",
		miniMaxM3Mark, miniMaxM3Invoke+`"f">`, miniMaxM3End, miniMaxM3Mark+"<a>", miniMaxM3Mark+"</a>", "<function name=\"f\">", "<param name=\"a\">", "</param>", cdataOpen, cdataClose,
		"<|tool_arg:start|>", "<|tool_arg:value|>", "<|tool_arg:end|>", "<|tool_call:end|>", cohereClose, apertusClose, gigaChat3Role, messageSep, "<|action_end|>", inklingMessage, inklingEnd,
		plamoCall, plamoName, plamoNameEnd, plamoArgs, plamoArgsEnd, lfm2Close, "<ifm|arg_key>", "</ifm|arg_key>", "<ifm|arg_value>", "</ifm|arg_value>", "</ifm|tool_call>", "to=user<|message|>", "<|eom|>",
		`{"f": {}}`, `{"tool_name": "f"}`, "<|im_end|>", ";",
		`{"name": "f", "arguments": {"a": 1, "a": [1]}}`, `"name"`, `"arguments"`, "{", "}", "[", "]", `"`, `"f"`, ":", ",", "{}", `\`,
		"\n", " ", "\u3000", "x", "é", "\xff", "1.5", "null", "True", "'a'",
	)
	random := rand.New(rand.NewPCG(1, 2))
	draw := func(from []string) string { return from[random.IntN(len(from))] }
	for range 120 {
		often := make([]string, 8)
		for i := range often {
			often[i] = draw(words)
		}
		var b strings.Builder
		for range 1 + random.IntN(30) {
			if random.IntN(5) > 0 {
				b.WriteString(draw(often))
			} else {
				b.WriteString(draw(words))
			}
		}
		for _, f := range All() {
			checkInvariants(t, f, b.String(), fuzzTools())
		}
	}
}
