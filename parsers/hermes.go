package parsers

// newHermes reads the format of Hermes and of Qwen up to Qwen3.
func newHermes() machine {
	return &taggedJSON{open: []string{"<tool_call>"}, close: []string{"</tool_call>"}}
}

// newLongcat reads the format of LongCat-Flash.
func newLongcat() machine {
	return &taggedJSON{open: []string{"<longcat_tool_call>"}, close: []string{"</longcat_tool_call>"}}
}

// newTagged reads JSON between an opening and a closing tag.
func newTagged(open, close string) func() machine {
	return func() machine {
		return &taggedJSON{open: []string{open}, close: []string{close}}
	}
}

// newGranite reads the array of Granite 3.0 and 3.1, which has no end marker.
func newGranite() machine {
	return &taggedJSON{open: []string{"<|tool_call|>", "<tool_call>"}, only: '['}
}

// newGranite20b reads the repeated objects of Granite 20B function calling.
func newGranite20b() machine {
	return &taggedJSON{open: []string{"<function_call>"}, repeat: true, only: '{'}
}

// newPhi4 reads the array of Phi-4-mini, which follows the word functools.
func newPhi4() machine {
	return &taggedJSON{open: []string{"functools["}, overlap: 1, keys: callKeys{parameters: true}}
}
