package parsers

// furtherFormats are those of models that mostly run behind servers which parse
// by themselves.
func furtherFormats() []*Format {
	return append(xmlFormats(), jsonFormats()...)
}

// xmlFormats give each argument an element of its own, or nearly so.
func xmlFormats() []*Format {
	return []*Format{
		{
			name: "deepseek_v3_2", aliases: []string{"deepseek_v32", "deepseekv32"},
			description: `<｜DSML｜function_calls><｜DSML｜invoke name="…"><｜DSML｜parameter name="…" string="true">`,
			models:      "DeepSeek-V3.2",
			machine:     newXML(deepSeekV32), valueText: jsonValueText,
			render: renderXML(deepSeekV32(), dsmlLayout(deepSeekV32())), results: dsmlResults,
		},
		{
			name: "deepseek_v4", aliases: []string{"deepseekv4"},
			description: "the same as deepseek_v3_2 inside <｜DSML｜tool_calls>",
			models:      "DeepSeek-V4",
			machine:     newXML(deepSeekV4), valueText: jsonValueText,
			render: renderXML(deepSeekV4(), dsmlLayout(deepSeekV4())),
		},
		{
			name: "minimax_m2", aliases: []string{"minimax-m2"}, description: `<minimax:tool_call><invoke name="…"><parameter name="…">value</parameter></invoke></minimax:tool_call>`,
			models:  "MiniMax-M2, M2.1",
			machine: newXML(miniMaxM2), valueText: jsonValueText,
			render: renderXML(miniMaxM2(), miniMaxLayout()), results: joined("<response>", "</response>", "\n"),
		},
		{
			name: "seed_oss", ids: idHex24,
			description: "<seed:tool_call><function=name><parameter=key>value</parameter></function></seed:tool_call>",
			models:      "ByteDance Seed-OSS",
			machine:     newXML(seedOSS), valueText: pythonValueText,
			render: renderXML(seedOSS(), seedLayout()), results: perTurn(bareResult),
		},
		{
			name: "step3", description: `<steptml:invoke name="…"><steptml:parameter name="…">value</steptml:parameter></steptml:invoke>`,
			models:  "Step-3",
			machine: newXML(step3), valueText: jsonValueText,
			render: renderXML(step3(), step3Layout()),
		},
		{
			name: "longcat_xml", description: "glm45 with tags that begin with longcat_",
			models:  "LongCat-Flash-Lite, LongCat 2.0",
			machine: newLongcatXML, valueText: jsonValueText,
			render:  renderGLM(glm("longcat_"), evenGLM("\n", "\n", "\n")),
			results: joined("<longcat_tool_response>\n", "\n</longcat_tool_response>", "\n"),
		},
		{
			name: "functiongemma", description: "<start_function_call>call:name{key:<escape>text<escape>}<end_function_call>",
			models:  "FunctionGemma",
			machine: newFunctionGemma, render: renderGemma(newFunctionGemma().(*gemmaMachine)),
			results: gemmaResults("<start_function_response>", "<end_function_response>", "<escape>"),
		},
		{
			name: "gemma4", description: `<|tool_call>call:name{key:<|"|>text<|"|>,n:3}<tool_call|>`,
			models:  "Gemma 4",
			machine: newGemma4, render: renderGemma(newGemma4().(*gemmaMachine)),
			results: gemmaResults("<|tool_response>", "<tool_response|>", `<|"|>`),
		},
		{
			name: "llama4_pythonic", aliases: []string{"pythonic"},
			description: "[name(key='text', n=1), …] and nothing else",
			models:      "Llama 4, Llama 3.2 small, ToolACE",
			machine:     newPythonic, render: renderPythonic("[", ", ", "]", pythonText),
			results: perTurn(func(r Result) string { return jsonString(r.Content) }),
		},
		{
			name: "olmo3", description: "<function_calls>, one name(key='text') per line, </function_calls>",
			models:  "Olmo 3",
			machine: newOlmo3, render: renderPythonic(olmoOpen+"\n", "\n", "\n"+olmoClose, jsonLiteral),
			results: perTurn(bareResult),
		},
	}
}

// jsonFormats hold the arguments as JSON.
func jsonFormats() []*Format {
	return []*Format{
		{
			name: "gpt_oss", aliases: []string{"harmony", "openai", "gpt-oss"},
			description: "<|channel|>commentary to=functions.name <|constrain|>json<|message|>{…}<|call|>",
			models:      "gpt-oss-20b, gpt-oss-120b",
			machine:     newHarmony, render: renderHarmony, results: perTurn(harmonyResult),
			split: harmonySplit, framed: true,
		},
		{
			name: "granite", description: `<|tool_call|>[{"name": …, "arguments": {…}}] or the same behind <tool_call>`,
			models:  "Granite 3.0, 3.1, 3.2, 3.3",
			machine: newGranite, render: renderArray("<|tool_call|>", "", ""), results: perTurn(bareResult),
		},
		{
			name: "granite4", description: "the same as hermes; arguments may be encoded twice",
			models:  "Granite 4",
			machine: newHermes, render: renderTagged("<tool_call>\n", "\n</tool_call>", "\n", "\n"),
			results: joined("<tool_response>\n", "\n</tool_response>", "\n"),
		},
		{
			name: "granite_20b_fc", aliases: []string{"granite-20b-fc"}, description: `<function_call> {"name": …, "arguments": {…}}, repeated`,
			models:  "Granite-20B-FunctionCalling",
			machine: newGranite20b, render: renderTagged("<function_call> ", "", "", " "),
		},
		{
			name:        "hunyuan_a13b",
			description: `<tool_calls>[{"name": …, "arguments": {…}}]</tool_calls>`,
			models:      "Hunyuan-A13B",
			machine:     newTagged("<tool_calls>", "</tool_calls>"), render: renderArray("<tool_calls>", "</tool_calls>", ""),
			frames: hunyuanFrames(), results: joined("<tool_response>", "</tool_response>", ""),
		},
		{
			name: "jamba", description: "the same as hunyuan_a13b",
			models:  "Jamba 1.5, 1.6, 1.7",
			machine: newTagged("<tool_calls>", "</tool_calls>"), render: renderArray("<tool_calls>", "</tool_calls>", ""),
		},
		{
			name: "phi4_mini", aliases: []string{"phi4", "phi4_mini_json"},
			description: `functools[{"name": …, "arguments": {…}}]`,
			models:      "Phi-4-mini",
			machine:     newPhi4, render: renderArray("functools", "", ""), results: perTurn(bareResult),
		},
		{
			name: "xlam", description: `[{"name": …, "arguments": {…}}], bare, fenced or tagged`,
			models:  "xLAM 1 and 2",
			machine: newXLAM, render: renderXLAM, results: perTurn(bareResult),
		},
		{
			name: "ernie45", description: "the same as hermes, behind </think>",
			models:  "ERNIE 4.5 Thinking",
			machine: newHermes, render: renderTagged("<tool_call>\n", "\n</tool_call>\n", "\n\n\n", ""),
			frames: ernieFrames(),
		},
	}
}
