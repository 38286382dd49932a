package parsers

// formats builds the table of all formats. It is a function, not a variable,
// so that nobody can change it for others.
func formats() []*Format {
	return []*Format{
		{
			name: "hermes", description: `<tool_call>{"name": …, "arguments": {…}}</tool_call>`,
			models:  "Hermes 2 Pro, Hermes 3 and 4, Qwen2.5, QwQ, Qwen3, many fine-tunes",
			machine: newHermes,
		},
		{
			name: "qwen", description: `the same as hermes`,
			models:  "Qwen2.5, QwQ, Qwen3 (not Qwen3-Coder)",
			machine: newHermes,
		},
		{
			name: "longcat", description: `<longcat_tool_call>{"name": …, "arguments": {…}}</longcat_tool_call>`,
			models:  "LongCat-Flash-Chat, LongCat-Flash-Thinking",
			machine: newLongcat,
		},
		{
			name: "mistral", ids: idAlnum9,
			description: `[TOOL_CALLS][{"name": …, "arguments": {…}}] or [TOOL_CALLS]name[ARGS]{…}`,
			models:      "Mistral 7B v0.3, Nemo, Small, Large, Devstral, Magistral",
			machine:     newMistral,
		},
		{
			name: "llama3_json", aliases: []string{"llama4_json"},
			description: `<|python_tag|>{"name": …, "parameters": {…}}; {…}`,
			models:      "Llama 3.1, 3.2, 3.3, Llama 4 with JSON calls",
			machine:     newLlama3JSON,
		},
		{
			name: "qwen3_coder", ids: idHex24,
			description: `<tool_call><function=name><parameter=key>value</parameter></function></tool_call>`,
			models:      "Qwen3-Coder, Qwen3-Next, Qwen3.5, Nemotron 3",
			machine:     newQwen3Coder,
		},
		{
			name:        "deepseek_v3",
			description: "tokens around: function, separator, name, JSON code block",
			models:      "DeepSeek-V3-0324, DeepSeek-R1-0528",
			machine:     newDeepSeekV3,
		},
		{
			name: "deepseek_v3_1", aliases: []string{"deepseek_v31"},
			description: "tokens around: name, separator, JSON",
			models:      "DeepSeek-V3.1, V3.1-Terminus",
			machine:     newDeepSeekV31,
		},
		{
			name:        "kimi_k2",
			description: `<|tool_call_begin|>functions.name:0<|tool_call_argument_begin|>{…}<|tool_call_end|>`,
			models:      "Kimi K2, K2-0905, K2-Thinking, K2.5",
			machine:     newKimiK2,
		},
		{
			name:        "glm45",
			description: `<tool_call>name, newline, <arg_key>key</arg_key><arg_value>value</arg_value></tool_call>`,
			models:      "GLM-4.5, GLM-4.5-Air, GLM-4.6",
			machine:     newGLM45,
		},
		{
			name:        "glm47",
			description: `<tool_call>name<arg_key>key</arg_key><arg_value>value</arg_value></tool_call>`,
			models:      "GLM-4.7, GLM-5; reads glm45 as well",
			machine:     newGLM47,
		},
	}
}
