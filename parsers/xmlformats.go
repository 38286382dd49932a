package parsers

import (
	"strconv"
	"strings"
)

// seedOSS is the format of ByteDance Seed-OSS.
func seedOSS() *xmlGrammar {
	g := qwen3Coder()
	g.blockOpen, g.blockClose = "<seed:tool_call>", "</seed:tool_call>"
	return g
}

// miniMaxM2 is the format of MiniMax-M2.
func miniMaxM2() *xmlGrammar {
	return &xmlGrammar{
		blockOpen: "<minimax:tool_call>", blockClose: "</minimax:tool_call>",
		callOpen: "<invoke name=", callClose: "</invoke>",
		argOpen: "<parameter name=", argClose: "</parameter>",
		header: attributeHeader, value: miniMaxValue, forgiving: true,
	}
}

// miniMaxValue trims and then takes the first type that fits, strings last.
func miniMaxValue(text, _ string, types typeSet) string {
	text = strings.TrimSpace(text)
	if types&^typeString == 0 {
		return jsonString(text)
	}
	switch strings.ToLower(text) {
	case "null", "none", "nil":
		return "null"
	}
	return textArgument(text, types&^typeString)
}

// barred is the markup of DeepSeek from V3.2 on and of GigaChat 3.5. The bars
// are U+FF5C.
func barred(language, block, space string) *xmlGrammar {
	bar := "\uff5c" + language + "\uff5c"
	return &xmlGrammar{
		blockOpen: "<" + bar + block + ">", blockClose: "</" + bar + block + ">",
		callOpen: "<" + bar + space + "invoke name=", callClose: "</" + bar + space + "invoke>",
		argOpen: "<" + bar + space + "parameter name=", argClose: "</" + bar + space + "parameter>",
		header: attributeHeader, value: dsmlValue, wrapped: true,
	}
}

func deepSeekV32() *xmlGrammar { return barred("DSML", "function_calls", "") }

func deepSeekV4() *xmlGrammar { return barred("DSML", "tool_calls", "") }

// dsmlValue goes by the attribute string="true|false"; the schema decides where
// the attribute is missing.
func dsmlValue(text, attrs string, types typeSet) string {
	switch dsmlAttribute(attrs) {
	case "true":
		return jsonString(text)
	case "false":
		if decoded, ok := decodeText(strings.TrimSpace(text)); ok {
			return decoded
		}
		return jsonString(text)
	}
	return textArgument(text, types)
}

// dsmlAttribute returns the value of the attribute string, "" without it.
func dsmlAttribute(attrs string) string {
	name, value, _ := strings.Cut(attrs, "=")
	if strings.TrimSpace(name) != "string" {
		return ""
	}
	return strings.ToLower(strings.Trim(value, " \t\n\"'"))
}

// The tokens around each call of Step-3.
const (
	step3CallBegin = "<\uff5ctool_call_begin\uff5c>"
	step3CallEnd   = "<\uff5ctool_call_end\uff5c>"
	step3Sep       = "<\uff5ctool_sep\uff5c>"
)

// step3 is the format of Step-3. The tokens have bars of U+FF5C but plain
// underscores; those around each call say nothing that the tags do not.
func step3() *xmlGrammar {
	return &xmlGrammar{
		blockOpen: "<\uff5ctool_calls_begin\uff5c>", blockClose: "<\uff5ctool_calls_end\uff5c>",
		callOpen: "<steptml:invoke name=", callClose: "</steptml:invoke>",
		argOpen: "<steptml:parameter name=", argClose: "</steptml:parameter>",
		header: attributeHeader,
		lead:   []string{step3CallBegin + "function" + step3Sep, step3CallBegin},
		trail:  []string{step3CallEnd, step3Sep},
		value: func(text, _ string, types typeSet) string {
			return textArgument(strings.TrimSpace(text), types)
		},
	}
}

// newXML returns a constructor of machines for a grammar.
func newXML(grammar func() *xmlGrammar) func() machine {
	return func() machine { return &xmlMachine{xmlGrammar: grammar()} }
}

// attributeLayout writes tags of the shape <invoke name="NAME">.
func attributeLayout(g *xmlGrammar) xmlLayout {
	return xmlLayout{
		one: true, between: "\n", text: jsonValueText,
		open: func(_ int, name string) string { return g.callOpen + `"` + name + `">` },
		key:  func(key, _ string) string { return g.argOpen + `"` + key + `">` },
	}
}

// miniMaxLayout follows the template of MiniMax-M2, which puts no newline
// behind an argument but the one before its neighbour.
func miniMaxLayout() xmlLayout {
	l := attributeLayout(miniMaxM2())
	l.before, l.argEnd = "\n", "\n"
	return l
}

// dsmlLayout writes the string attribute too.
func dsmlLayout(g *xmlGrammar) xmlLayout {
	l := attributeLayout(g)
	l.before, l.argEnd = "\n\n", "\n"
	l.key = func(key, value string) string {
		isString := "false"
		if value[0] == '"' {
			isString = "true"
		}
		return g.argOpen + `"` + key + `" string="` + isString + `">`
	}
	return l
}

// step3Layout puts the tokens around each call.
func step3Layout() xmlLayout {
	l := attributeLayout(step3())
	l.prefix = step3CallBegin + "function" + step3Sep
	l.suffix = step3CallEnd
	l.argEnd = "\n"
	return l
}

// seedLayout follows the template of Seed-OSS. One newline on either side of a
// value is dropped when it is read, so a value that has one gets another.
func seedLayout() xmlLayout {
	return xmlLayout{
		before: "\n\n", between: "\n", open: functionTag, argEnd: "\n",
		text: func(value string) string {
			text := pythonValueText(value)
			if strings.HasPrefix(text, "\n") || strings.HasSuffix(text, "\n") {
				text = "\n" + text + "\n"
			}
			return text
		},
		key: func(key, _ string) string { return "<parameter=" + key + ">" },
	}
}

// deepSeekV41 is the format of DeepSeek-V4.1, whose tags have a space inside.
func deepSeekV41() *xmlGrammar { return barred("DSML", " calls", " ") }

// gigaChat35 is the format of GigaChat 3.5.
func gigaChat35() *xmlGrammar { return barred("GCML", "tool_calls", "") }

// dots is the format of dots.llm. A block may hold a JSON call in place of elements.
func dots() *xmlGrammar {
	return &xmlGrammar{
		blockOpen: "<dots_function_call>", blockClose: "</dots_function_call>",
		callOpen: "<invoke name=", callClose: "</invoke>",
		argOpen: "<parameter name=", argClose: "</parameter>",
		header: attributeHeader, json: true,
		value: func(text, _ string, types typeSet) string {
			return fittingArgument(strings.TrimSpace(text), types)
		},
	}
}

// mimo is the format of MiMo: qwen3Coder with values to the byte.
func mimo() *xmlGrammar {
	g := qwen3Coder()
	g.value = func(text, _ string, types typeSet) string { return textArgument(text, types) }
	return g
}

// muse is the format of Muse Glimmer. What it says to the user or to itself
// holds no calls.
func muse() *xmlGrammar {
	return &xmlGrammar{
		blockOpen: museCalls, blockClose: "</atem:function_calls>",
		callOpen: "<atem:invoke name=", callClose: "</atem:invoke>",
		argOpen: "<atem:parameter name=", argClose: "</atem:parameter>",
		header: attributeHeader, trail: []string{museEnd, museTurnEnd},
		quiet: []string{"to=user" + museMessage, "to=self" + museMessage}, loud: []string{museEnd, museTurnEnd, harmonyStart},
		value: func(text, _ string, types typeSet) string { return guessedArgument(text, types) },
	}
}

// miniCPM5 is the format of MiniCPM5, which has no block around calls. Servers
// may lose the space in a tag or return it as the tokenizer writes it.
func miniCPM5() *xmlGrammar {
	return &xmlGrammar{
		callOpen: "<function name=", callClose: "</function>",
		argOpen: "<param name=", argClose: "</param>",
		callAlso: []string{"<functionname=", "<function\u0120name="}, argAlso: []string{"<paramname=", "<param\u0120name="},
		header: attributeHeader, cdata: true, strict: true, wrapped: true, value: entityValue,
	}
}

// entityValue reads CDATA sections as they are and resolves entities elsewhere.
func entityValue(text, _ string, types typeSet) string {
	text = strings.TrimSpace(text)
	if section, ok := strings.CutPrefix(text, cdataOpen); ok && strings.HasSuffix(section, cdataClose) {
		text = strings.TrimSuffix(section, cdataClose)
	} else if strings.Contains(text, "&") {
		text = strings.NewReplacer("&lt;", "<", "&gt;", ">", "&quot;", `"`, "&apos;", "'", "&amp;", "&").Replace(text)
	}
	return guessedArgument(text, types)
}

// miniCPM5Layout writes text that has markup or white space at its ends as CDATA.
func miniCPM5Layout() xmlLayout {
	l := attributeLayout(miniCPM5())
	l.text = func(value string) string {
		text := jsonValueText(value)
		if strings.ContainsAny(text, "<>&\n") || strings.TrimSpace(text) != text {
			return cdataOpen + text + cdataClose
		}
		return text
	}
	l.bare = true
	return l
}

// kimiK3 is the format of Kimi K3, whose tags are made of three tokens:
//
//	<|open|>call tool="f" index="1"<|sep|><|open|>argument key="a" type="number"<|sep|>1<|close|>argument<|sep|><|close|>call<|sep|>
func kimiK3() *xmlGrammar {
	return &xmlGrammar{
		blockOpen: "<|open|>tools<|sep|>", blockClose: "<|close|>tools<|sep|>",
		callOpen: "<|open|>call ", callClose: "<|close|>call<|sep|>",
		argOpen: "<|open|>argument ", argClose: "<|close|>argument<|sep|>",
		header: kimiK3Header, value: kimiK3Value, tagEnd: "<|sep|>", trail: []string{"<|close|>message<|sep|>"},
	}
}

// kimiK3Header reads attributes. The first of tool and key is the name.
func kimiK3Header(tag string) (string, string, bool) {
	name, kind, named := "", "string", false
	for rest := tag; ; {
		var key, value string
		var ok bool
		if key, rest, ok = strings.Cut(rest, `="`); !ok {
			break
		}
		if value, rest, ok = strings.Cut(rest, `"`); !ok {
			return "", "", false
		}
		value = strings.NewReplacer("&quot;", `"`, "&amp;", "&").Replace(value)
		switch strings.TrimSpace(key) {
		case "tool", "key":
			name, named = value, true
		case "type":
			kind = value
		}
	}
	return strings.TrimSpace(name), kind, named && !strings.Contains(tag, "<|")
}

// kimiK3Value goes by the type the model wrote.
func kimiK3Value(text, kind string, _ typeSet) string {
	if kind != "string" && validJSON(text) {
		return normalJSON(text)
	}
	return jsonString(text)
}

// kimiK3Layout writes the attributes and the answer's channel.
func kimiK3Layout() xmlLayout {
	escape := strings.NewReplacer("&", "&amp;", `"`, "&quot;").Replace
	return xmlLayout{
		one: true, tight: true, text: jsonValueText,
		open: func(index int, name string) string {
			return `<|open|>call tool="` + escape(name) + `" index="` + strconv.Itoa(index) + `"<|sep|>`
		},
		key: func(key, value string) string {
			kind := "number"
			switch typeOfJSON(value) {
			case typeString:
				kind = "string"
			case typeBoolean:
				kind = "boolean"
			case typeNull:
				kind = "null"
			case typeObject:
				kind = "object"
			case typeArray:
				kind = "array"
			}
			return `<|open|>argument key="` + escape(key) + `" type="` + kind + `"<|sep|>`
		},
	}
}

// withFrame writes the content inside a frame of the format.
func withFrame(f frame, render renderFunc) renderFunc {
	return func(b *strings.Builder, content string, calls []Call) {
		if content != "" {
			b.WriteString(f.Open + content + f.Close)
		}
		render(b, "", calls)
	}
}
