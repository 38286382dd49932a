package parsers

import "strings"

// The tokens of DeepSeek V3 and V3.1. The bars are U+FF5C and the gaps U+2581;
// look-alikes in ASCII are other models' tokens.
const (
	deepseekCallsBegin = "<\uff5ctool\u2581calls\u2581begin\uff5c>"
	deepseekCallsEnd   = "<\uff5ctool\u2581calls\u2581end\uff5c>"
	deepseekCallBegin  = "<\uff5ctool\u2581call\u2581begin\uff5c>"
	deepseekCallEnd    = "<\uff5ctool\u2581call\u2581end\uff5c>"
	deepseekSep        = "<\uff5ctool\u2581sep\uff5c>"
)

// newDeepSeekV3 reads the format of DeepSeek-V3-0324 and R1-0528, where the
// type of the tool precedes the separator and the arguments are a code block.
func newDeepSeekV3() machine {
	return &tokenMachine{
		gates: []string{deepseekCallsBegin},
		begin: deepseekCallBegin, sep: deepseekSep, end: deepseekCallEnd,
		section:   []string{deepseekCallsEnd},
		fenceOpen: "```json", fenceClose: "```",
		header: trimmedHeader,
	}
}

// newDeepSeekV31 reads the format of DeepSeek-V3.1, where the name precedes the
// separator and the arguments are bare.
func newDeepSeekV31() machine {
	return &tokenMachine{
		gates: []string{deepseekCallsBegin},
		begin: deepseekCallBegin, sep: deepseekSep, end: deepseekCallEnd,
		section: []string{deepseekCallsEnd},
		header:  trimmedHeader,
	}
}

// trimmedHeader takes the whole header as the name.
func trimmedHeader(_ *pass, header, _ string, _ bool) (string, string, bool) {
	name := strings.TrimSpace(header)
	return "", name, name != ""
}
