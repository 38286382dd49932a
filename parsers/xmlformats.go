package parsers

import "strings"

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

// dsml is the markup of DeepSeek from V3.2 on. The bars are U+FF5C.
func dsml(block string) *xmlGrammar {
	const bar = "\uff5cDSML\uff5c"
	return &xmlGrammar{
		blockOpen: "<" + bar + block + ">", blockClose: "</" + bar + block + ">",
		callOpen: "<" + bar + "invoke name=", callClose: "</" + bar + "invoke>",
		argOpen: "<" + bar + "parameter name=", argClose: "</" + bar + "parameter>",
		header: attributeHeader, value: dsmlValue,
	}
}

func deepSeekV32() *xmlGrammar { return dsml("function_calls") }

func deepSeekV4() *xmlGrammar { return dsml("tool_calls") }

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
		open: func(name string) string { return g.callOpen + `"` + name + `">` },
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
