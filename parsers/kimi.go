package parsers

import "strings"

// The tokens of Kimi K2.
const (
	kimiSectionBegin = "<|tool_calls_section_begin|>"
	kimiSectionEnd   = "<|tool_calls_section_end|>"
	kimiCallBegin    = "<|tool_call_begin|>"
	kimiArgsBegin    = "<|tool_call_argument_begin|>"
	kimiCallEnd      = "<|tool_call_end|>"
)

// newKimiK2 reads the format of Kimi K2. Its ids are kept as they are, because
// the chat template matches tool results by them.
func newKimiK2() machine {
	return &tokenMachine{
		gates: []string{kimiSectionBegin, "<|tool_call_section_begin|>"},
		begin: kimiCallBegin, sep: kimiArgsBegin, end: kimiCallEnd,
		section: []string{kimiSectionEnd, "<|tool_call_section_end|>"},
		header:  kimiHeader,
	}
}

// kimiHeader reads "functions.NAME:3". The name may contain dots, which the
// tools decide: the whole of it if that is a tool, else its last component. A
// bare counter, seen from K2.5, stands for the one tool that fits the arguments.
func kimiHeader(p *pass, header, args string, final bool) (string, string, bool) {
	id := strings.TrimSpace(header)
	if strings.Contains(id, "<") {
		return "", "", false
	}
	if isDigits(id) {
		if !final {
			return "", "", false
		}
		name := onlyFit(p, args)
		return id, name, name != ""
	}
	colon := strings.LastIndexByte(id, ':')
	if colon < 0 || !isDigits(id[colon+1:]) {
		return "", "", false
	}
	name := strings.TrimSpace(strings.TrimPrefix(id[:colon], "functions."))
	if dot := strings.LastIndexByte(name, '.'); dot >= 0 && !p.hasTool(name) {
		name = name[dot+1:]
	}
	return id, name, name != ""
}

// onlyFit returns the name of the only tool, or of the only one that knows all
// the arguments; "" when there is no such tool or more than one.
func onlyFit(p *pass, args string) string {
	if len(p.tools) == 1 {
		return p.tools[0].Name
	}
	if strings.TrimSpace(args) == "" {
		args = "{}"
	}
	if !isJSONObject(args) {
		return ""
	}
	fit := ""
	for _, t := range p.tools {
		known := true
		p.argTypes(t.Name, "")
		eachMember(trimJSONSpace(args), func(key, _ string) bool {
			_, known = p.types[t.Name][key]
			return known
		})
		if !known {
			continue
		}
		if fit != "" {
			return ""
		}
		fit = t.Name
	}
	return fit
}

func isDigits(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}
