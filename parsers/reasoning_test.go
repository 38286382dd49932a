package parsers

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSplitReasoning(t *testing.T) {
	const call = `<tool_call>{"name": "f", "arguments": {}}</tool_call>`
	for _, c := range []struct {
		name, text, reasoning, rest string
		config                      ReasoningConfig
	}{
		{name: "text without tags is left alone", text: "  plain <b>text</b>\n", rest: "  plain <b>text</b>\n"},
		{name: "an empty text stays empty"},
		{name: "a block before the answer is cut off", text: "<think>\nhm\n</think>\n\nYes.", reasoning: "hm", rest: "Yes."},
		{name: "an empty block gives no reasoning", text: "<think>\n\n</think>\n\nYes.", rest: "Yes."},
		{name: "a bare closing tag ends reasoning that the prompt opened", text: "hm\n</think>Yes.", reasoning: "hm", rest: "Yes."},
		{name: "a call quoted in closed reasoning is not in the rest", text: "<think>I could " + call + "</think>No.", reasoning: "I could " + call, rest: "No."},
		{name: "the last closing tag counts", text: "a</think>b</think>c", reasoning: "a</think>b", rest: "c"},
		{name: "a second block is reasoning too", text: "<think>a</think>b<think>c</think>d", reasoning: "a</think>b<think>c", rest: "d"},
		{name: "a call ends a block that is not closed", text: "<think>hm\n" + call, reasoning: "hm", rest: call},
		{name: "a Kimi section ends a block that is not closed", text: "<think>hm" + kimiSectionBegin + "x", reasoning: "hm", rest: kimiSectionBegin + "x"},
		{name: "a DeepSeek section ends a block that is not closed", text: "<think>hm" + deepseekCallsBegin + "x", reasoning: "hm", rest: deepseekCallsBegin + "x"},
		{name: "a block that is never closed is all reasoning", text: "<think>hm", reasoning: "hm"},
		{name: "text before the block stays in the rest", text: "First.\n<think>hm</think>Then.", reasoning: "hm", rest: "First.\n\nThen."},
		{name: "text before an unclosed block stays in the rest", text: "First.<think>hm" + call, reasoning: "hm", rest: "First.\n\n" + call},
		{name: "Mistral's tags are known", text: "[THINK]hm[/THINK]Yes.", reasoning: "hm", rest: "Yes."},
		{name: "Mistral's calls end an unclosed block", text: "[THINK]hm[TOOL_CALLS]f{}", reasoning: "hm", rest: "[TOOL_CALLS]f{}"},
		{name: "LongCat's tags are known", text: "<longcat_think>hm</longcat_think>Yes.", reasoning: "hm", rest: "Yes."},
		{name: "Seed's tags are known", text: "<seed:think>hm</seed:think>Yes.", reasoning: "hm", rest: "Yes."},
		{name: "Gemma's thought channel is known", text: "<|channel>thought\nhm<channel|>Yes.", reasoning: "hm", rest: "Yes."},
		{name: "the first pair of tags decides", text: "<think>a [THINK] b</think>c [/THINK] d", reasoning: "a [THINK] b", rest: "c [/THINK] d"},
		{name: "a block that the prompt opened may lack all tags", text: "hm " + call, reasoning: "hm", rest: call, config: ReasoningConfig{Opened: true}},
		{name: "an opening tag may be repeated after the prompt", text: "<think>hm</think>Yes.", reasoning: "hm", rest: "Yes.", config: ReasoningConfig{Opened: true}},
		{name: "only the tags asked for count", text: "<think>hm</think>Yes.", rest: "<think>hm</think>Yes.", config: ReasoningConfig{Tags: []TagPair{{"[THINK]", "[/THINK]"}}}},
		{name: "only the markers asked for count", text: "<think>a <tool_call> b CALL c", reasoning: "a <tool_call> b CALL c", config: ReasoningConfig{Markers: []string{"[CALL]"}}},
		{name: "an opening tag behind the last closing one is left alone", text: "a</think>b <think>c", reasoning: "a", rest: "b <think>c"},
	} {
		t.Run(c.name, func(t *testing.T) {
			reasoning, rest := SplitReasoning(c.text, c.config)
			require.Equal(t, c.reasoning, reasoning)
			require.Equal(t, c.rest, rest)
		})
	}
}

func TestFormatsKnowClosingTagsInArguments(t *testing.T) {
	hermes, err := Lookup("hermes")
	require.NoError(t, err)
	call := `<tool_call>{"name": "write", "arguments": {"content": "<think>x</think>"}}</tool_call>`
	reasoning, rest := hermes.SplitReasoning("<think>hm</think>"+call, ReasoningConfig{})
	require.Equal(t, "hm", reasoning)
	require.Equal(t, call, rest)

	reasoning, rest = hermes.SplitReasoning("<think>they write </think> and "+call+" there</think>No.", ReasoningConfig{})
	require.Equal(t, "No.", rest, "a quoted call is not executed")
	require.True(t, strings.HasPrefix(reasoning, "they write"))
}

func TestHarmonyReasoningIsTheAnalysisChannel(t *testing.T) {
	f, err := Lookup("gpt_oss")
	require.NoError(t, err)
	for _, c := range []struct{ name, text, reasoning, rest string }{
		{"a final answer loses its markup", "<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>final<|message|>Yes.<|return|>", "hm", "Yes."},
		{"calls keep theirs", "<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>commentary to=functions.f<|message|>{}<|call|>", "hm", "<|start|>assistant<|channel|>commentary to=functions.f<|message|>{}<|call|>"},
		{"a cut analysis is reasoning", "<|channel|>analysis<|message|>hm", "hm", ""},
		{"plain text stays", "Yes.", "", "Yes."},
		{"a header without message stays", "<|channel|>final", "", "<|channel|>final"},
		{"stray ends stay", "<|channel|>a<|end|>b", "", "<|channel|>a<|end|>b"},
	} {
		t.Run(c.name, func(t *testing.T) {
			reasoning, rest := f.SplitReasoning(c.text, ReasoningConfig{})
			require.Equal(t, c.reasoning, reasoning)
			require.Equal(t, c.rest, rest)
		})
	}
}

func FuzzSplitReasoning(f *testing.F) {
	for _, text := range []string{"", "<think>a</think>b", "a</think>b", "[THINK]", "<think><tool_call>", "<|channel|>analysis<|message|>a<|end|>b",
		"<mm:think>a</mm:think>b", "a<|close|>response<|sep|>b", "<think:x>a</think:x>b", "to=self<|message|>a<|eom|>b", "<|content_thinking|>a<|end_message|>b", "Here is my thought process:a Here's my response:b"} {
		f.Add(text, true)
		f.Add(text, false)
	}
	hermes, err := Lookup("hermes")
	require.NoError(f, err)
	harmony, err := Lookup("gpt_oss")
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, text string, opened bool) {
		c := ReasoningConfig{Opened: opened}
		splits := map[string]func(string, ReasoningConfig) (string, string){
			"tags": SplitReasoning, "hermes": hermes.SplitReasoning, "openai_gptoss": harmony.SplitReasoning,
		}
		for _, r := range AllReasoning() {
			splits[r.Name()] = func(text string, c ReasoningConfig) (string, string) {
				c.Format = r
				return SplitReasoning(text, c)
			}
		}
		for name, split := range splits {
			reasoning, rest := split(text, c)
			if len(reasoning)+len(rest) > len(text)+2 && name != "minimax_m2_append_think" {
				t.Fatalf("%s makes %q and %q of %q", name, reasoning, rest, text)
			}
			for _, part := range []string{reasoning, rest} {
				for _, word := range strings.Fields(part) {
					joins := name == "openai_gptoss" || name == "inkling" || name == "muse_glimmer" || name == "minimax_m2_append_think"
					if !joins && !strings.Contains(text, word) {
						t.Fatalf("%s invents %q for %q", name, word, text)
					}
				}
			}
		}
	})
}
