package parsers

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// onlyFirstBlock are the formats that have no end marker: behind the first
// block of calls everything is content.
var onlyFirstBlock = map[string]bool{"granite": true, "phi4_mini": true, "xlam": true}

// TestFormat_KeepsTextAroundCalls puts words before, between and after rendered
// calls. Every format must give all of them back as content, in their order.
func TestFormat_KeepsTextAroundCalls(t *testing.T) {
	words := []string{"Hi.", "Zürich", "😀", "and", "done!", "a < b", "\u3000x", "10%", "«y»"}
	gaps := []string{"", " ", "\n", "\n\n", "\t"}
	for _, f := range All() {
		t.Run(f.Name(), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				draw := func(label string) string {
					prose := strings.Join(rapid.SliceOfN(rapid.SampledFrom(words), 0, 3).Draw(t, label), " ")
					return rapid.SampledFrom(gaps).Draw(t, "gap") + prose + rapid.SampledFrom(gaps).Draw(t, "gap")
				}
				block := func(arguments string) string {
					text, err := f.Render("", []Call{{Name: "f", Arguments: arguments}}, roundTripTools())
					require.NoError(t, err)
					return text
				}
				before, between, after := draw("before"), draw("between"), draw("after")
				first, second := block(`{"s": "1"}`), block(`{"s": "2"}`)
				if onlyFirstBlock[f.Name()] {
					second = " "
				}
				text := before + first + between + second + after
				if f.Name() == "xlam" && strings.TrimSpace(before) != "" {
					text = before + "\n```json\n" + first + "\n```" + between + second + after
				}
				got := f.Parse(text, roundTripTools())
				checkInvariants(t, f, text, roundTripTools())
				if f.Name() == "llama4_pythonic" && (second != " " || strings.TrimSpace(before+between+after) != "") {
					require.Equal(t, text, *got.Content, "calls are the whole response or none")
					return
				}
				require.Len(t, got.Calls, 1+min(1, len(second)-1))
				content := ""
				if got.Content != nil {
					content = *got.Content
				}
				require.Equal(t, strings.Fields(before+" "+between+" "+after), strings.Fields(content), "of %q", text)
			})
		})
	}
}

// TestParse_JoinsPiecesOfContent pins the text between pieces.
func TestParse_JoinsPiecesOfContent(t *testing.T) {
	const call = `<tool_call>{"name": "f"}</tool_call>`
	f, err := Lookup("hermes")
	require.NoError(t, err)
	for _, c := range []struct{ name, text, content string }{
		{"nothing around", call, ""},
		{"white space around", " \n" + call + "\n\n", ""},
		{"only after", call + "\nbye", "bye"},
		{"words are not run together", "Hi" + call + "bye", "Hi\nbye"},
		{"white space before a call stays", "Hi \n\n" + call + "bye", "Hi \n\nbye"},
		{"white space behind a call goes", "Hi" + call + "\n\n bye\n", "Hi\nbye"},
		{"white space between calls goes", "Hi" + call + "\n" + call + "\nbye", "Hi\nbye"},
		{"pieces between calls", "a " + call + " b " + call + " c " + call + " d", "a b c d"},
		{"tokens that end the turn go", "Hi" + call + "\n<|im_end|>\n<|endoftext|>", "Hi"},
		{"tokens that end the turn stay behind text", "Hi" + call + " bye<|im_end|>", "Hi\nbye<|im_end|>"},
		{"a tag that the end of the text cuts stays", "Hi" + call + " <tool_ca", "Hi\n<tool_ca"},
		{"a closing tag without a call stays", "Hi</tool_call>" + call, "Hi</tool_call>"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := f.Parse(c.text, nil)
			if c.content == "" {
				require.Nil(t, got.Content)
			} else {
				require.Equal(t, c.content, *got.Content)
			}
			checkInvariants(t, f, c.text, nil)
		})
	}
}

// TestFormat_MalformedJSONIsNoCall doubles braces, nests calls in broken
// objects and the like, in every format that holds calls as JSON objects.
func TestFormat_MalformedJSONIsNoCall(t *testing.T) {
	wrap := map[string][2]string{
		"hermes": {"<tool_call>", "</tool_call>"}, "qwen": {"<tool_call>\n", "\n</tool_call>"}, "longcat": {"<longcat_tool_call>", "</longcat_tool_call>"},
		"granite4": {"<tool_call>", "</tool_call>"}, "ernie45": {"<tool_call>\n", "\n</tool_call>\n"}, "granite_20b_fc": {"<function_call> ", ""},
		"llama3_json": {"", ""}, "mistral": {"[TOOL_CALLS][", "]"}, "granite": {"<|tool_call|>[", "]"}, "hunyuan_a13b": {"<tool_calls>[", "]</tool_calls>"},
		"jamba": {"<tool_calls>[", "]</tool_calls>"}, "phi4_mini": {"functools[", "]"}, "xlam": {"[", "]"},
		"internlm": {"<|action_start|><|plugin|>", "<|action_end|>"}, "gigachat3": {"<|function_call|>", ""}, "lfm2": {"<|tool_call_start|>[", "]<|tool_call_end|>"},
		"dots": {"<dots_function_call>", "</dots_function_call>"}, "k2_horizon": {"<ifm|tool_call>", "</ifm|tool_call>"}, "hy_v3": {"<tool_calls>[", "]</tool_calls>"},
	}
	objects := map[string]string{
		"doubled braces":                `{{"name": "f", "arguments": {"a": 1}}}`,
		"doubled braces on lines":       "{\n  {\"name\": \"f\", \"arguments\": {\"a\": 1}}\n}",
		"a doubled opening brace":       `{{"name": "f", "arguments": {"a": 1}}`,
		"a tripled opening brace":       `{{{"name": "f", "arguments": {"a": 1}}}}`,
		"a call inside a broken object": `{"x": {"name": "f", "arguments": {"a": 1}}, y}`,
		"a call behind a broken member": `{"name": "g", "arguments": {bad, "x": {"name": "f", "arguments": {}}}}`,
		"a call in a string's place":    `{"name": {"name": "f", "arguments": {}}, "arguments": }`,
		"a bare key":                    `{call: {"name": "f", "arguments": {}}}`,
		"a bare word before the call":   `{call {"name": "f", "arguments": {}}}`,
		"a newline inside a string":     "{\"name\": \"f\", \"arguments\": {\"a\": \"x\ny { {\\\"\"}}",
		"single quotes":                 `{'name': 'f', 'arguments': {"name": "f", "arguments": {}}}`,
		"a comma too many":              `{"name": "f", "arguments": {"a": {"name": "f", "arguments": {}},}}`,
		"a missing comma":               `{"name": "f" "arguments": {"name": "f", "arguments": {}}}`,
		"a number that is none":         `{"name": "f", "arguments": {"a": 01, "b": {"name": "f", "arguments": {}}}}`,
	}
	for format, ends := range wrap {
		f, err := Lookup(format)
		require.NoError(t, err)
		good := ends[0] + `{"name": "f", "arguments": {"a": 1}}` + ends[1]
		require.Len(t, f.Parse(good, nil).Calls, 1, "%s reads %q", format, good)
		for name, object := range objects {
			t.Run(format+"/"+name, func(t *testing.T) {
				text := ends[0] + object + ends[1]
				require.Equal(t, parsed(text, nil), f.Parse(text, nil))
				checkInvariants(t, f, text, nil)
			})
		}
	}
}

// TestLlama3JSON_CallsBehindBracesOfProse shows that braces that are closed
// don't stand in the way of a call.
func TestLlama3JSON_CallsBehindBracesOfProse(t *testing.T) {
	const call = `{"name": "f", "parameters": {}}`
	f, err := Lookup("llama3_json")
	require.NoError(t, err)
	for _, before := range []string{
		"I used {tool}.", "if (x) { y(); } else { z(); }", `\frac{a}{b}`, `{"query": "x"}`, `{"a": "}{", b} and`, `{"a": "\"{", b: 1}`, "}", "a } b", "[1, 2]", "[", "{{x}}",
		`{"name": "g", "parameters": {bad}}`,
	} {
		got := f.Parse(before+"\n"+call, nil)
		require.Len(t, got.Calls, 1, "behind %q", before)
		checkInvariants(t, f, before+"\n"+call, nil)
	}
	got := f.Parse(`say "{" and <|python_tag|>`+call, nil)
	require.Len(t, got.Calls, 1, "the tag makes it a call")
}
