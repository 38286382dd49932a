package parsers

// formats builds the table of all formats. It is a function, not a variable,
// so that nobody can change it for others.
func formats() []*Format {
	return append(append(requiredFormats(), furtherFormats()...), recentFormats()...)
}

// requiredFormats are the ones every backend without parsers of its own needs.
func requiredFormats() []*Format {
	return []*Format{
		{
			name: "hermes", aliases: []string{"trinity"}, description: `<tool_call>{"name": …, "arguments": {…}}</tool_call>`,
			models:  "Hermes 2 Pro, Hermes 3 and 4, Qwen2.5, QwQ, Qwen3, many fine-tunes",
			machine: newHermes, render: renderTagged("<tool_call>\n", "\n</tool_call>", "\n", "\n"),
			results: joined("<tool_response>\n", "\n</tool_response>", "\n"),
		},
		{
			name: "qwen", aliases: []string{"qwen25"}, description: "the same as hermes",
			models:  "Qwen2.5, QwQ, Qwen3 (not Qwen3-Coder)",
			machine: newHermes, render: renderTagged("<tool_call>\n", "\n</tool_call>", "\n", "\n"),
			results: joined("<tool_response>\n", "\n</tool_response>", "\n"),
		},
		{
			name: "longcat", description: `<longcat_tool_call>{"name": …, "arguments": {…}}</longcat_tool_call>`,
			models:  "LongCat-Flash-Chat, LongCat-Flash-Thinking",
			machine: newLongcat, render: renderTagged("<longcat_tool_call>\n", "\n</longcat_tool_call>", "", ""),
			results: joined("<longcat_tool_response>\n", "\n</longcat_tool_response>", "\n"),
		},
		{
			name: "mistral", ids: idAlnum9,
			description: `[TOOL_CALLS][{"name": …, "arguments": {…}}] or [TOOL_CALLS]name[ARGS]{…}`,
			models:      "Mistral 7B v0.3, Nemo, Small, Large, Devstral, Magistral",
			machine:     newMistral, render: renderMistral,
			results: perTurn(mistralResult),
		},
		{
			name: "llama3_json", aliases: []string{"llama4_json", "llama3"},
			description: `<|python_tag|>{"name": …, "parameters": {…}}; {…}`,
			models:      "Llama 3.1, 3.2, 3.3, Llama 4 with JSON calls",
			machine:     newLlama3JSON, render: renderLlama, results: perTurn(llamaResult),
		},
		{
			name: "qwen3_coder", aliases: []string{"qwen3_xml", "step3p5", "nanbeige"}, ids: idHex24,
			description: `<tool_call><function=name><parameter=key>value</parameter></function></tool_call>`,
			models:      "Qwen3-Coder, Qwen3-Next, Qwen3.5, Nemotron 3",
			machine:     newQwen3Coder, valueText: pythonValueText,
			render: renderXML(qwen3Coder(), xmlLayout{
				before: "\n\n", between: "\n", text: pythonValueText, open: functionTag, key: parameterLine, valueEnd: "\n", argEnd: "\n",
			}),
			results: joined("<tool_response>\n", "\n</tool_response>\n", ""),
		},
		{
			name: "deepseek_v3", aliases: []string{"deepseekv3"},
			description: "tokens around: function, separator, name, JSON code block",
			models:      "DeepSeek-V3-0324, DeepSeek-R1-0528",
			machine:     newDeepSeekV3, render: renderDeepSeek(true), results: deepseekV3Results,
		},
		{
			name: "deepseek_v3_1", aliases: []string{"deepseek_v31", "deepseekv31"},
			description: "tokens around: name, separator, JSON",
			models:      "DeepSeek-V3.1, V3.1-Terminus",
			machine:     newDeepSeekV31, render: renderDeepSeek(false),
			results: joined("<\uff5ctool\u2581output\u2581begin\uff5c>", "<\uff5ctool\u2581output\u2581end\uff5c>", ""),
		},
		{
			name:        "kimi_k2",
			description: `<|tool_call_begin|>functions.name:0<|tool_call_argument_begin|>{…}<|tool_call_end|>`,
			models:      "Kimi K2, K2-0905, K2-Thinking, K2.5",
			machine:     newKimiK2, render: renderKimi, results: perTurn(kimiResult),
		},
		{
			name: "glm45", aliases: []string{"glm"},
			description: "<tool_call>name, newline, <arg_key>key</arg_key><arg_value>value</arg_value></tool_call>",
			models:      "GLM-4.5, GLM-4.5-Air, GLM-4.6",
			machine:     newGLM45, valueText: jsonValueText,
			render:  renderGLM(glm(""), evenGLM("\n", "\n", "\n")),
			results: joined("<tool_response>\n", "\n</tool_response>", "\n"),
		},
		{
			name: "glm47", aliases: []string{"ling3"},
			description: "<tool_call>name<arg_key>key</arg_key><arg_value>value</arg_value></tool_call>",
			models:      "GLM-4.7, GLM-5; reads glm45 as well",
			machine:     newGLM47, valueText: jsonValueText,
			render:  renderGLM(glm(""), evenGLM("", "", "")),
			results: joined("<tool_response>", "</tool_response>", ""),
		},
	}
}
