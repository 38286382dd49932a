package parsers

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestReasoningFormat_Splits(t *testing.T) {
	const call = `<tool_call>{"name": "f", "arguments": {}}</tool_call>`
	for _, c := range []struct{ format, name, text, reasoning, rest string }{
		{"qwen3", "a block", "<think>hm</think>\n\nYes.", "hm", "Yes."},
		{"qwen3", "no tags", "Yes.", "", "Yes."},
		{"qwen3", "another model's tags", "[THINK]hm[/THINK]Yes.", "", "[THINK]hm[/THINK]Yes."},
		{"deepseek-r1", "no tags", "hm", "hm", ""},
		{"deepseek_r1", "a call ends what is not closed", "hm " + call, "hm", call},
		{"deepseek_r1", "the closing tag alone", "hm</think>Yes.", "hm", "Yes."},
		{"minimax-append-think", "the tag is added", "hm</think>Yes.", "", "<think>hm</think>Yes."},
		{"minimax_m2_append_think", "the tag is there", "<think>hm</think>Yes.", "", "<think>hm</think>Yes."},
		{"ernie45", "the answer has tags", "hm\n</think>\n\n<response>\nYes.\n</response>\n", "hm", "Yes."},
		{"hunyuan_a13b", "the answer has tags", "<think>\nhm\n</think>\n<answer>\nYes.\n</answer>", "hm", "Yes."},
		{"hunyuan_a13b", "a call inside the answer", "<think>hm</think><answer>Yes.\n<tool_calls>[]</tool_calls>\n</answer>", "hm", "Yes.\n<tool_calls>[]</tool_calls>"},
		{"hunyuan", "tags with a suffix", "<think:opensource>hm</think:opensource>Yes.", "hm", "Yes."},
		{"hy_v3", "tags without one", "hm</think>Yes.", "hm", "Yes."},
		{"hy_v4", "no tags", "Yes.", "", "Yes."},
		{"mistral", "a block", "[THINK]hm[/THINK]Yes.", "hm", "Yes."},
		{"seed_oss", "a block", "<seed:think>hm</seed:think>Yes.", "hm", "Yes."},
		{"gemma4", "a channel", "<|channel>thought\nhm<channel|>Yes.", "hm", "Yes."},
		{"minimax-m3", "a block", "<mm:think>hm</mm:think>Yes.", "hm", "Yes."},
		{"kimi", "a block", "\u25c1think\u25b7hm\u25c1/think\u25b7Yes.", "hm", "Yes."},
		{"kimi_k3", "channels", "hm<|close|>think<|sep|><|open|>response<|sep|>Yes.<|close|>response<|sep|><|open|>tools<|sep|>", "hm", "Yes.\n<|open|>tools<|sep|>"},
		{"kimi_k3", "the prompt opened the answer", "<|open|>think<|sep|><|close|>think<|sep|>Yes.<|close|>response<|sep|>", "", "Yes."},
		{"cohere_command3", "an answer", "<|START_THINKING|>hm<|END_THINKING|><|START_RESPONSE|>Yes.<|END_RESPONSE|>", "hm", "Yes."},
		{"cohere_command4", "the prompt opened the block", "hm<|END_THINKING|><|START_TEXT|>Yes.<|END_TEXT|>", "hm", "Yes."},
		{"cohere_command4", "no thinking", "<|START_TEXT|>Yes.", "", "Yes."},
		{"cohere_command4", "a call", "hm<|END_THINKING|><|START_ACTION|>[]<|END_ACTION|>", "hm", "<|START_ACTION|>[]<|END_ACTION|>"},
		{"apertus2509", "a block", "<|inner_prefix|>hm<|inner_suffix|>Yes.", "hm", "Yes."},
		{"k2_horizon", "the fast effort", "<ifm|think_fast>hm</ifm|think_fast>Yes.", "hm", "Yes."},
		{"k2_horizon", "calls end what is not closed", "hm<ifm|tool_calls>x", "hm", "<ifm|tool_calls>x"},
		{"plamo3", "a block", "hm<|plamo:end_think:plamo|>Yes.", "hm", "Yes."},
		{"solar_open2", "a block", "hm<|think:end|>Yes.", "hm", "Yes."},
		{"granite", "the words", "Here is my thought process:\nhm\nHere's my response: Yes.", "hm", "Yes."},
		{"granite", "no answer", "Here is my thought process: hm", "", "Here is my thought process: hm"},
		{"granite", "words before", "Well.\nHere's my thought process: hm Here is my response: Yes.", "hm", "Well.\nYes."},
		{"gpt-oss", "channels", "<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>final<|message|>Yes.<|return|>", "hm", "Yes."},
		{"inkling", "blocks", "<|message_model|><|content_thinking|>hm<|end_message|><|message_model|><|content_text|>Yes.<|end_message|>", "hm", "Yes."},
		{"inkling", "the prompt began the message", "<|content_thinking|>hm<|end_message|><|message_model|>f<|content_invoke_tool_json|>{}<|end_message|>", "hm", "<|message_model|>f<|content_invoke_tool_json|>{}<|end_message|>"},
		{"inkling", "thinking that is cut", "<|content_thinking|>hm", "hm", ""},
		{"inkling", "a header that is cut", "Hi<|message_model|>f", "", "Hi<|message_model|>f"},
		{"muse", "messages", " to=self<|message|>hm<|eom|><|start|>assistant to=user<|message|>Yes.<|eot|>", "hm", "Yes."},
		{"muse_glimmer", "a call", "to=self<|message|>hm<|eom|><|start|>assistant to=f.f<|message|><atem:function_calls>x</atem:function_calls><|eom|>", "hm", "<atem:function_calls>x</atem:function_calls>"},
		{"muse_glimmer", "calls quoted to the user", "to=user<|message|>As <atem:function_calls>x<|eom|>", "", "to=user<|message|>As <atem:function_calls>x<|eom|>"},
		{"muse_glimmer", "no recipient", "<|message|>Yes.", "", "Yes."},
	} {
		t.Run(c.format+"/"+c.name, func(t *testing.T) {
			r, err := LookupReasoning(c.format)
			require.NoError(t, err)
			reasoning, rest := SplitReasoning(c.text, ReasoningConfig{Format: r})
			require.Equal(t, c.reasoning, reasoning)
			require.Equal(t, c.rest, rest)
			hermes, err := Lookup("hermes")
			require.NoError(t, err)
			reasoning, rest = hermes.SplitReasoning(c.text, ReasoningConfig{Format: r})
			require.Equal(t, c.reasoning, reasoning, "a tool-call format says the same")
			require.Equal(t, c.rest, rest)
		})
	}
}

// TestFormat_SplitReasoningTakesFramesOff has the formats that put markup
// around the answer. What is left is read by Parse.
func TestFormat_SplitReasoningTakesFramesOff(t *testing.T) {
	for _, c := range []struct{ format, text, reasoning, want string }{
		{"ernie45", "hm\n</think>\n\n<response>\nYes.\n</response>\n", "hm", "Yes."},
		{"hunyuan_a13b", "<think>hm</think>\n<answer>Yes.\n<tool_calls>[{\"name\": \"f\"}]</tool_calls>\n</answer>", "hm", "Yes.\nf {}"},
		{"cohere_command4", "hm<|END_THINKING|><|START_TEXT|>Yes.<|END_TEXT|>", "hm", "Yes."},
		{"cohere_command4", `<|START_THINKING|>hm<|END_THINKING|><|START_ACTION|>[{"tool_name": "f"}]<|END_ACTION|>`, "hm", "null\nf {}"},
		{"kimi_k3", `hm<|close|>think<|sep|><|open|>response<|sep|>Yes.<|close|>response<|sep|><|open|>tools<|sep|><|open|>call tool="f"<|sep|><|close|>call<|sep|><|close|>tools<|sep|>`, "hm", "Yes.\nf {}"},
		{"inkling", `<|content_thinking|>hm<|end_message|><|message_model|><|content_text|>Yes.<|end_message|><|message_model|>f<|content_invoke_tool_json|>{"name": "f"}<|end_message|>`, "hm", "Yes.\nf {}"},
		{"muse_glimmer", ` to=self<|message|>hm<|eom|><|start|>assistant to=f<|message|><atem:function_calls><atem:invoke name="f"></atem:invoke></atem:function_calls><|eom|><|start|>assistant to=user<|message|>Yes.<|eot|>`, "hm", "Yes.\nf {}"},
	} {
		f, err := Lookup(c.format)
		require.NoError(t, err)
		reasoning, rest := f.SplitReasoning(c.text, ReasoningConfig{})
		require.Equal(t, c.reasoning, reasoning, c.format)
		require.Equal(t, c.want, describe(f.Parse(rest, nil)), c.format)
	}
}
