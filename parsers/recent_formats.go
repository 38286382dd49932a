package parsers

import (
	"strconv"
	"strings"
)

// The markers of formats that hold JSON.
const (
	gigaChat3Call = "<|function_call|>"
	gigaChat3Role = "function call<|role_sep|>\n"
	messageSep    = "<|message_sep|>"
	cohereOpen    = "<|START_ACTION|>"
	cohereClose   = "<|END_ACTION|>"
	apertusOpen   = "<|tools_prefix|>"
	apertusClose  = "<|tools_suffix|>"
	solarOpen     = "<|tool_call:start|>"
	plamoCalls    = "<|plamo:begin_tool_requests:plamo|>"
	plamoEnd      = "<|plamo:end_tool_requests:plamo|>"
	plamoCall     = "<|plamo:begin_tool_request:plamo|>"
	plamoCallEnd  = "<|plamo:end_tool_request:plamo|>"
	plamoName     = "<|plamo:begin_tool_name:plamo|>"
	plamoNameEnd  = "<|plamo:end_tool_name:plamo|>"
	plamoArgs     = "<|plamo:begin_tool_arguments:plamo|><|plamo:constrain|>json<|plamo:msg|>"
	plamoArgsEnd  = "<|plamo:end_tool_arguments:plamo|>"
)

// recentFormats are those of models of 2026 and of rarer ones.
func recentFormats() []*Format {
	return append(recentXMLFormats(), recentJSONFormats()...)
}

// recentXMLFormats give each argument an element of its own.
func recentXMLFormats() []*Format {
	return []*Format{
		{
			name: "deepseek_v4_1", aliases: []string{"deepseek_v41", "deepseekv41"},
			description: "deepseek_v4 with a space in every tag: <｜DSML｜ calls><｜DSML｜ invoke name=\"…\">",
			models:      "DeepSeek-V4.1",
			machine:     newXML(deepSeekV41), valueText: jsonValueText,
			render: renderXML(deepSeekV41(), dsmlLayout(deepSeekV41())),
		},
		{
			name: "gigachat35", description: "deepseek_v4 with GCML in place of DSML",
			models:  "GigaChat 3.5",
			machine: newXML(gigaChat35), valueText: jsonValueText,
			render: renderXML(gigaChat35(), dsmlLayout(gigaChat35())),
		},
		{
			name: "dots", description: `<dots_function_call><invoke name="…"><parameter name="…">value</parameter></invoke></dots_function_call>, or JSON`,
			models:  "dots.llm",
			machine: newXML(dots), valueText: jsonValueText,
			render: renderXML(dots(), lineLayout(dots())),
		},
		{
			name: "muse_glimmer", aliases: []string{"muse"},
			description: `<atem:function_calls><atem:invoke name="…"><atem:parameter name="…">value</atem:parameter></atem:invoke></atem:function_calls>`,
			models:      "Muse Glimmer",
			machine:     newXML(muse), valueText: jsonValueText,
			render: renderXML(muse(), lineLayout(muse())),
			split:  museSplit,
		},
		{
			name: "minicpm5", description: `<function name="…"><param name="…">value</param></function>`,
			models:  "MiniCPM5",
			machine: newXML(miniCPM5), valueText: jsonValueText,
			render: renderXML(miniCPM5(), miniCPM5Layout()),
		},
		{
			name: "mimo", ids: idHex24, description: "qwen3_coder with values that stand between the tags to the byte",
			models:  "MiMo",
			machine: newXML(mimo), valueText: jsonValueText,
			render: renderXML(mimo(), xmlLayout{
				before: "\n", between: "\n", text: jsonValueText, open: functionTag, argEnd: "\n",
				key: func(key, _ string) string { return "<parameter=" + key + ">" },
			}),
		},
		{
			name: "minimax_m3", aliases: []string{"minimax-m3"},
			description: `<tool_call><invoke name="…"><key>value</key></invoke></tool_call> with nested elements, ]<]minimax[>[ before every tag`,
			models:      "MiniMax-M3",
			machine:     newMiniMaxM3, valueText: miniMaxM3Value, render: renderMiniMaxM3,
		},
		{
			name: "kimi_k3", description: `<|open|>tools<|sep|><|open|>call tool="…"<|sep|><|open|>argument key="…" type="…"<|sep|>value`,
			models:  "Kimi K3",
			machine: newXML(kimiK3), framed: true, frames: kimiK3Frames(),
			render: withFrame(kimiK3Frames()[0], renderXML(kimiK3(), kimiK3Layout())),
		},
		{
			name: "hy_v3", aliases: []string{"hunyuan"},
			description: "<tool_calls><tool_call>name<tool_sep><arg_key>key</arg_key><arg_value>value</arg_value></tool_call></tool_calls>",
			models:      "Hunyuan Hy3; reads hy_v4 and hunyuan_a13b as well",
			machine:     newHunyuan, valueText: jsonValueText,
			render: renderGLM(hunyuan(""), evenGLM("\n", "\n", "\n")),
		},
		{
			name: "hy_v4", description: "hy_v3 without <tool_sep>",
			models:  "Hunyuan Hy4; reads hy_v3 and hunyuan_a13b as well",
			machine: newHunyuan, valueText: jsonValueText, render: renderGLM(hunyuanV4(), evenGLM("", "", "")),
		},
		{
			name: "k2_horizon", description: "<ifm|tool_calls><ifm|tool_call>name<ifm|arg_key>key</ifm|arg_key><ifm|arg_value>value</ifm|arg_value></ifm|tool_call></ifm|tool_calls>, or JSON",
			models:  "K2 Horizon",
			machine: func() machine { return k2Horizon() }, valueText: jsonValueText,
			render: renderGLM(k2Horizon(), evenGLM("\n", "\n", "\n")),
		},
		{
			name: "poolside_v1", description: "the same as glm45; the newline behind the name may be missing",
			models:  "Poolside Laguna",
			machine: newGLM47, valueText: jsonValueText, render: renderGLM(glm(""), evenGLM("\n", "\n", "\n")),
		},
		{
			name: "spark25", description: "glm47 with values that are strings unless the schema says otherwise",
			models:  "iFlytek Spark 2.5",
			machine: func() machine { return spark25() }, valueText: jsonValueText,
			render: renderGLM(spark25(), glmLayout{before: "\n", between: "\n", name: "\n", value: "\n"}),
		},
		{
			name: "iquest_q1", description: "glm47 inside <iquest_tool_call>",
			models:  "IQuest Q1",
			machine: func() machine { return iquestQ1() }, valueText: jsonValueText,
			render: renderGLM(iquestQ1(), evenGLM("", "", "")),
		},
		{
			name: "solar_open2", description: "<|tool_call:start|>name, newline, <|tool_arg:start|>key<|tool_arg:value|>value<|tool_arg:end|><|tool_call:end|>",
			models:  "Solar Open 2",
			machine: func() machine { return solarOpen2() }, valueText: jsonValueText,
			render: renderGLM(solarOpen2(), glmLayout{before: "\n", between: "\n", name: "\n", value: "\n"}),
		},
	}
}

// recentJSONFormats hold the arguments as JSON or as Python.
func recentJSONFormats() []*Format {
	return []*Format{
		{
			name: "cohere_command4", aliases: []string{"cohere_command3"},
			description: `<|START_ACTION|>[{"tool_call_id": …, "tool_name": …, "parameters": {…}}]<|END_ACTION|>`,
			models:      "Cohere Command A, A Reasoning, A+",
			machine:     newCohere, frames: cohereFrames(), framed: true,
			render: withFrame(cohereFrames()[1], renderCohere),
		},
		{
			name: "apertus", aliases: []string{"apertus2509"},
			description: `<|tools_prefix|>[{"name": {…}}]<|tools_suffix|>`,
			models:      "Apertus",
			machine:     newApertus, render: renderApertus,
		},
		{
			name: "gigachat3", description: `function call<|role_sep|>, newline, {"name": …, "arguments": {…}}`,
			models:  "GigaChat 3",
			machine: newGigaChat3, render: renderTagged(messageSep+"\n\n"+gigaChat3Role, "", "", ""),
		},
		{
			name: "internlm", aliases: []string{"interns1"},
			description: `<|action_start|><|plugin|>{"name": …, "parameters": {…}}<|action_end|>`,
			models:      "InternLM2, 2.5, 3, Intern-S1",
			machine:     newInternLM, render: renderInternLM,
		},
		{
			name: "inkling", description: `<|message_model|>name<|content_invoke_tool_json|>{"name": …, "args": {…}}<|end_message|>`,
			models:  "Inkling",
			machine: newInkling, split: inklingSplit, framed: true, render: renderInkling,
		},
		{
			name: "plamo3", description: "tokens around the name and around the JSON of each call",
			models:  "PLaMo 3",
			machine: newPlamo3, render: renderPlamo3,
		},
		{
			name: "lfm2", description: "<|tool_call_start|>[name(key='text', n=1), …]<|tool_call_end|>, or a list of JSON calls",
			models:  "LFM2, LFM2.5",
			machine: newLFM2, render: renderPythonic(lfm2Open+"[", ", ", "]"+lfm2Close, pythonText),
		},
	}
}

// lineLayout writes every tag on a line of its own.
func lineLayout(g *xmlGrammar) xmlLayout {
	l := attributeLayout(g)
	l.before, l.argEnd = "\n", "\n"
	return l
}

// hunyuanV4 is hunyuan for writing Hy4, which has no separator.
func hunyuanV4() *glmMachine {
	g := hunyuan("")
	g.sep = ""
	return g
}

// k2Horizon reads the format of K2 Horizon, where the model may write the type
// of an argument too.
func k2Horizon() *glmMachine {
	tag := func(name string) (string, string) { return "<ifm|" + name + ">", "</ifm|" + name + ">" }
	g := &glmMachine{value: guessedArgument, json: true}
	open, closing := tag("tool_calls")
	g.sections = []string{open, closing}
	g.open, g.close = tag("tool_call")
	g.keyOpen, g.keyClose = tag("arg_key")
	g.typeOpen, g.typeClose = tag("arg_type")
	g.valueOpen, g.valueClose = tag("arg_value")
	return g
}

// spark25 reads the format of Spark 2.5.
func spark25() *glmMachine {
	g := glm("")
	g.value = fittingArgument
	return g
}

// iquestQ1 reads the format of IQuest Q1.
func iquestQ1() *glmMachine {
	g := glm("")
	g.open, g.close = "<iquest_tool_call>", "</iquest_tool_call>"
	return g
}

// solarOpen2 reads the format of Solar Open 2, where one token stands between
// key and value.
func solarOpen2() *glmMachine {
	return &glmMachine{
		open: solarOpen, close: "<|tool_call:end|>", line: true,
		keyOpen: "<|tool_arg:start|>", keyClose: "<|tool_arg:value|>", valueClose: "<|tool_arg:end|>",
		value: fittingArgument,
	}
}

func newCohere() machine {
	return &taggedJSON{open: []string{cohereOpen}, close: []string{cohereClose}, keys: callKeys{cohere: true}, lenient: true}
}

func newApertus() machine {
	return &taggedJSON{open: []string{apertusOpen}, close: []string{apertusClose}, keys: callKeys{single: true}, lenient: true}
}

func newGigaChat3() machine {
	return &taggedJSON{open: []string{gigaChat3Call, gigaChat3Role}, lead: []string{messageSep}, repeat: true, lenient: true, only: '{'}
}

func newInternLM() machine {
	return &taggedJSON{
		open:  []string{"<|action_start|><|plugin|>", "<|action_start|> <|plugin|>"},
		close: []string{"<|action_end|>"}, keys: callKeys{parameters: true}, lenient: true,
	}
}

func newInkling() machine {
	return &taggedJSON{
		open: []string{inklingCall}, close: []string{inklingEnd, inklingStop}, keys: callKeys{args: true},
		lead: []string{inklingMessage}, named: true, lenient: true,
	}
}

func newPlamo3() machine {
	return &tokenMachine{
		gates: []string{plamoCalls}, begin: plamoCall, sep: plamoArgs, end: plamoArgsEnd,
		section: []string{plamoCallEnd, plamoEnd, "<|plamo:tag|>"},
		header: func(_ *pass, header, _ string, _ bool) (string, string, bool) {
			name, ok := strings.CutPrefix(strings.TrimSpace(header), plamoName)
			name, _, _ = strings.Cut(name, plamoNameEnd)
			name = strings.TrimSpace(name)
			return "", name, ok && name != ""
		},
	}
}

func renderPlamo3(b *strings.Builder, content string, calls []Call) {
	b.WriteString(content + plamoCalls)
	for _, c := range calls {
		b.WriteString(plamoCall + plamoName + c.Name + plamoNameEnd)
		b.WriteString(plamoArgs + strings.TrimSpace(c.Arguments) + plamoArgsEnd + plamoCallEnd)
	}
	b.WriteString(plamoEnd)
}

// renderInkling writes each call as a message.
func renderInkling(b *strings.Builder, content string, calls []Call) {
	if content != "" {
		b.WriteString(inklingMessage + inklingText + content + inklingEnd)
	}
	for _, c := range calls {
		b.WriteString(inklingMessage + c.Name + inklingCall)
		callJSON(b, c, "args")
		b.WriteString(inklingEnd)
	}
}

func renderInternLM(b *strings.Builder, content string, calls []Call) {
	separate(b, content, "")
	for _, c := range calls {
		b.WriteString("<|action_start|><|plugin|>\n")
		callJSON(b, c, "parameters")
		b.WriteString("<|action_end|>\n")
	}
}

// renderCohere numbers calls that have no number of the model.
func renderCohere(b *strings.Builder, _ string, calls []Call) {
	b.WriteString(cohereOpen + "[")
	used := make(map[string]bool)
	for i, c := range calls {
		if i > 0 {
			b.WriteByte(',')
		}
		id := c.ID
		for next := i; !isDigits(id) || used[id]; next++ {
			id = strconv.Itoa(next)
		}
		used[id] = true
		b.WriteString("\n    " + `{"tool_call_id": ` + jsonString(id) + `, "tool_name": ` + jsonString(c.Name))
		b.WriteString(`, "parameters": ` + normalJSON(c.Arguments) + "}")
	}
	b.WriteString("\n]" + cohereClose)
}

// renderApertus writes an object of one member for each call.
func renderApertus(b *strings.Builder, content string, calls []Call) {
	separate(b, content, "")
	b.WriteString(apertusOpen + "[")
	for i, c := range calls {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString("{" + jsonString(c.Name) + ": " + normalJSON(c.Arguments) + "}")
	}
	b.WriteString("]" + apertusClose)
}
