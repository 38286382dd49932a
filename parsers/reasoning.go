package parsers

import "strings"

// TagPair are the tags around a block of reasoning.
type TagPair struct{ Open, Close string }

// ReasoningTags returns the tags of all known models, <think> first. Models
// that mark their reasoning in other ways are not among them, see
// [LookupReasoning].
func ReasoningTags() []TagPair {
	return []TagPair{
		{"<think>", "</think>"},
		{"[THINK]", "[/THINK]"},
		{"<longcat_think>", "</longcat_think>"},
		{"<seed:think>", "</seed:think>"},
		{"<|channel>thought\n", "<channel|>"},
		{"<mm:think>", "</mm:think>"},
		{"\u25c1think\u25b7", "\u25c1/think\u25b7"},
		{"<|open|>think<|sep|>", "<|close|>think<|sep|>"},
		{"<|START_THINKING|>", "<|END_THINKING|>"},
		{"<|inner_prefix|>", "<|inner_suffix|>"},
		{"<ifm|think>", "</ifm|think>"},
		{"<ifm|think_fast>", "</ifm|think_fast>"},
		{"<ifm|think_faster>", "</ifm|think_faster>"},
		{"<|plamo:begin_think:plamo|>", "<|plamo:end_think:plamo|>"},
		{"<|think:start|>", "<|think:end|>"},
	}
}

// ToolMarkers returns the markers with which calls begin, of all formats that
// have one no prose contains by chance.
func ToolMarkers() []string {
	return []string{
		"<tool_call>", "<longcat_tool_call>", mistralCalls, "<|python_tag|>", "<function=", deepseekCallsBegin,
		kimiSectionBegin, "<|tool_call_section_begin|>", "<seed:tool_call>", "<minimax:tool_call>",
		deepSeekV32().blockOpen, deepSeekV4().blockOpen, step3().blockOpen, olmoOpen,
		"<start_function_call>", "<|tool_call>", "<|tool_call|>", "<tool_calls>", "<function_call>",
		deepSeekV41().blockOpen, gigaChat35().blockOpen, dots().blockOpen, kimiK3().blockOpen, museCalls, miniMaxM3Block,
		lfm2Open, "<|action_start|>", gigaChat3Call, cohereOpen, apertusOpen, inklingCall, plamoCalls,
		solarOpen, "<iquest_tool_call>", "<ifm|tool_calls>", "<ifm|tool_call>", "<tool_calls:",
	}
}

// ReasoningConfig says how reasoning is told from the rest of a response.
type ReasoningConfig struct {
	// Format is how the model marks its reasoning. Nil means that Tags decide, or
	// the tool-call format if it marks reasoning in a way of its own.
	Format *ReasoningFormat
	// Tags are the tags that may be used; the first that occurs decides. None
	// means [ReasoningTags].
	Tags []TagPair
	// Markers end a block that is not closed. None means [ToolMarkers].
	Markers []string
	// Opened says that the prompt ended inside a block already, so that a
	// response without any tag is reasoning up to the first marker.
	Opened bool
}

// SplitReasoning takes the reasoning off a response, so that the rest can be
// parsed: a call that is only quoted in the reasoning must not be executed.
// Everything up to the last closing tag is reasoning, but for text before an
// opening tag. A block that is not closed ends at the first tool marker. Both
// results are trimmed where they were cut apart; without reasoning the rest is
// the text unchanged.
func SplitReasoning(text string, c ReasoningConfig) (reasoning, rest string) {
	if c.Format != nil {
		return c.Format.apply(text, c, SplitReasoning)
	}
	s, ok := newReasoningSplit(text, c)
	if !ok {
		return "", text
	}
	if s.close < 0 {
		return s.at(s.marker(s.inner, c), 0)
	}
	return s.at(s.close, len(s.tags.Close))
}

// SplitReasoning is the package's SplitReasoning with what is known of the
// format: a closing tag that stands in the arguments of a call is data, some
// formats mark reasoning by channels or blocks, and some put tags around the
// answer, which are taken off too.
func (f *Format) SplitReasoning(text string, c ReasoningConfig) (reasoning, rest string) {
	switch {
	case c.Format != nil:
		return c.Format.apply(text, c, f.splitTags)
	case f.split != nil:
		return f.split(text)
	}
	reasoning, rest = f.splitTags(text, c)
	return reasoning, unframe(rest, f.frames)
}

// splitTags cuts at the tags, but for those in the arguments of calls.
func (f *Format) splitTags(text string, c ReasoningConfig) (reasoning, rest string) {
	s, ok := newReasoningSplit(text, c)
	if !ok || s.close < 0 {
		return SplitReasoning(text, c)
	}
	// The first closing tag before any marker is where the reasoning ends, if
	// every later one turns out to belong to the arguments of a call.
	first := s.inner + strings.Index(text[s.inner:], s.tags.Close)
	if later := text[first+len(s.tags.Close):]; strings.Contains(later, s.tags.Close) {
		inside := 0
		for _, call := range f.Parse(later, nil).Calls {
			inside += strings.Count(call.Arguments, s.tags.Close)
		}
		if inside > 0 && inside == strings.Count(later, s.tags.Close) {
			return s.at(first, len(s.tags.Close))
		}
	}
	return SplitReasoning(text, c)
}

// reasoningSplit is a response with the tags found in it.
type reasoningSplit struct {
	text   string
	tags   TagPair
	before int // where the text before the block ends
	inner  int // where the block begins, behind its opening tag
	close  int // the last closing tag, -1 when there is none
}

// newReasoningSplit finds the tags; false means that there is no reasoning.
func newReasoningSplit(text string, c ReasoningConfig) (reasoningSplit, bool) {
	tags := c.Tags
	if len(tags) == 0 {
		tags = ReasoningTags()
	}
	words := make([]string, 0, 2*len(tags))
	for _, t := range tags {
		words = append(words, t.Open, t.Close)
	}
	first, which := firstOf(text, 0, words)
	switch {
	case which < 0 && c.Opened:
		return reasoningSplit{text: text, tags: tags[0], close: -1}, true
	case which < 0:
		return reasoningSplit{}, false
	}
	s := reasoningSplit{text: text, tags: tags[which/2]}
	if which%2 == 0 {
		s.inner = first + len(s.tags.Open)
		if !c.Opened {
			s.before = first
		}
	}
	if s.close = strings.LastIndex(text[s.inner:], s.tags.Close); s.close >= 0 {
		s.close += s.inner
	}
	return s, true
}

// at cuts the text apart at a position, of which skip bytes belong to a tag.
func (s reasoningSplit) at(end, skip int) (reasoning, rest string) {
	inner := s.inner
	if inner > end {
		inner = s.before
	}
	reasoning = strings.TrimSpace(s.text[inner:end])
	rest = strings.TrimSpace(s.text[end+skip:])
	if before := strings.TrimSpace(s.text[:s.before]); before != "" {
		rest = strings.TrimSpace(before + "\n\n" + rest)
	}
	return reasoning, rest
}

// marker returns the first tool marker at or after from, the end of the text
// when there is none.
func (s reasoningSplit) marker(from int, c ReasoningConfig) int {
	markers := c.Markers
	if len(markers) == 0 {
		markers = ToolMarkers()
	}
	if at, which := firstOf(s.text, from, markers); which >= 0 {
		return at
	}
	return len(s.text)
}

// firstOf returns the position of the first of the words at or after from and
// which one it is, -1 when there is none.
func firstOf(text string, from int, words []string) (int, int) {
	var begins [256]bool
	for _, w := range words {
		begins[w[0]] = true
	}
	for ; from < len(text); from++ {
		if !begins[text[from]] {
			continue
		}
		for which, w := range words {
			if strings.HasPrefix(text[from:], w) {
				return from, which
			}
		}
	}
	return -1, -1
}
