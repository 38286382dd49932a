package parsers

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/hermes-env/hermes-env/internal/textutil"
)

// ReasoningFormat is how a family of models marks its reasoning. It comes from
// [LookupReasoning] or [AllReasoning] and is immutable.
type ReasoningFormat struct {
	name        string
	aliases     []string
	description string
	tags        []TagPair
	// opened says that the prompt opens the reasoning, so that a response
	// without tags is reasoning that was cut.
	opened bool
	frames []frame
	// split takes a response apart where the format has no tags.
	split func(text string) (reasoning, rest string)
}

// Name returns the name of the format.
func (r *ReasoningFormat) Name() string { return r.name }

// Aliases returns the other names that [LookupReasoning] accepts for the format.
func (r *ReasoningFormat) Aliases() []string { return slices.Clone(r.aliases) }

// Description says in one line how the reasoning is marked.
func (r *ReasoningFormat) Description() string { return r.description }

// apply splits a response; byTags does it where the format has tags.
func (r *ReasoningFormat) apply(text string, c ReasoningConfig, byTags func(string, ReasoningConfig) (string, string)) (reasoning, rest string) {
	if r.split != nil {
		return r.split(text)
	}
	c.Format, c.Tags, c.Opened = nil, r.tags, c.Opened || r.opened
	if len(c.Markers) == 0 && len(r.frames) > 0 {
		c.Markers = ToolMarkers()
		for _, f := range r.frames {
			c.Markers = append(c.Markers, f.Open)
		}
	}
	reasoning, rest = byTags(text, c)
	return reasoning, unframe(rest, r.frames)
}

// reasoningFormats builds the table of all ways to mark reasoning.
func reasoningFormats() []*ReasoningFormat {
	return []*ReasoningFormat{
		{
			name: "think", description: "<think>…</think>; a response without tags is the answer",
			aliases: []string{
				"qwen3", "deepseek_v3", "deepseek-v3", "deepseek_v4", "deepseek-v4", "deepseek_v41", "deepseek-v41", "glm45", "glm47", "holo2", "kimi_k2",
				"mimo", "poolside_v1", "ling3", "dots", "nanbeige", "interns1", "nemotron_v3", "nemotron_3", "granite_thinking_parser",
			},
			tags: tagsOf("<think>"),
		},
		{
			name: "deepseek_r1", description: "<think>…</think>, opened by the prompt; a response without tags is reasoning that was cut",
			aliases: []string{"deepseek-r1", "qwen3-thinking", "minimax_m2", "minimax", "step3", "step3p5", "olmo3", "gigachat35"},
			tags:    tagsOf("<think>"), opened: true,
		},
		{
			name: "minimax_m2_append_think", aliases: []string{"minimax-append-think"},
			description: "the reasoning stays in the answer, behind <think>",
			split:       appendThink,
		},
		{
			name: "ernie45", description: "<think>…</think>, the answer in <response>…</response>",
			tags: tagsOf("<think>"), opened: true, frames: ernieFrames(),
		},
		{
			name: "hunyuan_a13b", description: "<think>…</think>, the answer in <answer>…</answer>",
			tags: tagsOf("<think>"), frames: hunyuanFrames(),
		},
		{
			name: "hy_v3", aliases: []string{"hy_v4", "hunyuan"},
			description: "<think>…</think>, both tags perhaps with a suffix as in <think:NAME>",
			split:       hunyuanSplit,
		},
		{name: "mistral", description: "[THINK]…[/THINK]", tags: tagsOf("[THINK]")},
		{name: "longcat", description: "<longcat_think>…</longcat_think>", tags: tagsOf("<longcat_think>")},
		{name: "seed_oss", description: "<seed:think>…</seed:think>", tags: tagsOf("<seed:think>"), opened: true},
		{name: "gemma4", description: "the channel thought", tags: tagsOf("<|channel>thought\n")},
		{name: "minimax_m3", aliases: []string{"minimax-m3"}, description: "<mm:think>…</mm:think>", tags: tagsOf("<mm:think>")},
		{name: "kimi", description: "◁think▷…◁/think▷", tags: tagsOf("\u25c1think\u25b7")},
		{
			name: "kimi_k3", description: "the channel think, the answer in the channel response",
			tags: tagsOf("<|open|>think<|sep|>"), opened: true, frames: kimiK3Frames(),
		},
		{
			name: "cohere_command4", aliases: []string{"cohere_command3"},
			description: "<|START_THINKING|>…<|END_THINKING|>, the answer in tags of its own",
			tags:        tagsOf("<|START_THINKING|>"), opened: true, frames: cohereFrames(),
		},
		{name: "apertus2509", aliases: []string{"apertus"}, description: "<|inner_prefix|>…<|inner_suffix|>", tags: tagsOf("<|inner_prefix|>")},
		{
			name: "k2_horizon", description: "<ifm|think>…</ifm|think>, or think_fast or think_faster",
			tags: tagsOf("<ifm|think>", "<ifm|think_fast>", "<ifm|think_faster>"), opened: true,
		},
		{name: "plamo3", description: "<|plamo:begin_think:plamo|>…<|plamo:end_think:plamo|>", tags: tagsOf("<|plamo:begin_think:plamo|>"), opened: true},
		{name: "solar_open2", description: "<|think:start|>…<|think:end|>", tags: tagsOf("<|think:start|>"), opened: true},
		{
			name: "granite", description: "behind the words Here is my thought process: and before Here is my response:",
			split: graniteSplit,
		},
		{
			name: "openai_gptoss", aliases: []string{"gpt-oss", "gpt_oss", "harmony"},
			description: "the channel analysis", split: harmonySplit,
		},
		{name: "inkling", description: "blocks of thinking", split: inklingSplit},
		{name: "muse_glimmer", aliases: []string{"muse"}, description: "messages to=self", split: museSplit},
	}
}

// tagsOf returns the pairs of [ReasoningTags] that open with the words.
func tagsOf(opening ...string) []TagPair {
	var pairs []TagPair
	for _, pair := range ReasoningTags() {
		if slices.Contains(opening, pair.Open) {
			pairs = append(pairs, pair)
		}
	}
	return pairs
}

func ernieFrames() []frame { return []frame{{TagPair: TagPair{"<response>", "</response>"}}} }

func hunyuanFrames() []frame { return []frame{{TagPair: TagPair{"<answer>", "</answer>"}}} }

// AllReasoning returns every way to mark reasoning, the most frequent first.
func AllReasoning() []*ReasoningFormat { return reasoningFormats() }

// ReasoningNames returns the names and aliases that [LookupReasoning] accepts.
func ReasoningNames() []string {
	var names []string
	for _, r := range reasoningFormats() {
		names = append(append(names, r.name), r.aliases...)
	}
	return names
}

// LookupReasoning returns the way to mark reasoning that has the name or alias,
// which are those of the reasoning parsers of vLLM and SGLang. The error for an
// unknown name lists all names and proposes the nearest.
func LookupReasoning(name string) (*ReasoningFormat, error) {
	for _, r := range reasoningFormats() {
		if r.name == name || slices.Contains(r.aliases, name) {
			return r, nil
		}
	}
	return nil, unknownName("reasoning parser", name, ReasoningNames(), absentReasoning())
}

// absentReasoning are names other servers have and what to do about them.
func absentReasoning() map[string]string {
	return map[string]string{
		"hf":        "it reads the model's response template from its tokenizer; name the way the model marks its reasoning instead",
		"iquest_q1": "the tags it reads are not established; use the tool-call parser iquest_q1 on the text, whose markers end reasoning that is not closed",
		"identity":  "leave the reasoning parser out: the text is then taken as it is",
	}
}

// unknownName is the error for a name that no format has. Absent holds names
// that other servers know, and why they are missing here.
func unknownName(what, name string, names []string, absent map[string]string) *UnknownError {
	if why := absent[name]; why != "" {
		return &UnknownError{Name: name, message: fmt.Sprintf("there is no %s %q: %s", what, name, why)}
	}
	hint := ""
	if near := textutil.Nearest(name, names); near != "" {
		hint = fmt.Sprintf(", did you mean %q?", near)
	}
	return &UnknownError{Name: name, message: fmt.Sprintf("unknown %s %q%s (available: %s)", what, name, hint, strings.Join(names, ", "))}
}

// appendThink leaves reasoning that the prompt opened in the answer.
func appendThink(text string) (reasoning, rest string) {
	if strings.HasPrefix(strings.TrimSpace(text), "<think>") {
		return "", text
	}
	return "", "<think>" + text
}

var graniteMarks = regexp.MustCompile(`(?:Here's|Here is) my (thought process|response):`)

// graniteSplit reads the words with which Granite 3.2 opens its reasoning and
// its answer.
func graniteSplit(text string) (reasoning, rest string) {
	marks := graniteMarks.FindAllStringSubmatchIndex(text, -1)
	for i, m := range marks {
		if text[m[2]:m[3]] != "thought process" {
			continue
		}
		for _, end := range marks[i+1:] {
			if text[end[2]:end[3]] == "response" {
				reasoning = strings.TrimSpace(text[m[1]:end[0]])
				return reasoning, besides(text[:m[0]], text[end[1]:])
			}
		}
		break
	}
	return "", text
}

var hunyuanThink = regexp.MustCompile(`</?think(:[^\s>]+)?>`)

// hunyuanSplit finds out the suffix of the tags and cuts at them.
func hunyuanSplit(text string) (reasoning, rest string) {
	m := hunyuanThink.FindStringSubmatch(text)
	if m == nil {
		return "", text
	}
	return SplitReasoning(text, ReasoningConfig{Tags: []TagPair{{"<think" + m[1] + ">", "</think" + m[1] + ">"}}})
}
