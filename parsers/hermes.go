package parsers

// newHermes reads the format of Hermes and of Qwen up to Qwen3.
func newHermes() machine {
	return &taggedJSON{open: []string{"<tool_call>"}, close: []string{"</tool_call>"}}
}

// newLongcat reads the format of LongCat-Flash.
func newLongcat() machine {
	return &taggedJSON{open: []string{"<longcat_tool_call>"}, close: []string{"</longcat_tool_call>"}}
}
