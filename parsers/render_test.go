package parsers

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// roundTripTools give every argument the generator may write a type.
func roundTripTools() []Tool {
	properties := `"s": {"type": "string"}, "text": {"type": "string"}, "i": {"type": "integer"}, "n": {"type": "number"},
		"b": {"type": "boolean"}, "list": {"type": "array"}, "o": {"type": "object"}, "z": {"type": "null"}`
	return []Tool{tool("get_weather", properties), tool("f", properties), tool("mcp__x__do_it", properties)}
}

// drawText draws text with everything that has tripped parsers, but for the
// markers of the formats themselves.
func drawText(t *rapid.T, label string) string {
	words := []string{
		"a", "Zürich", "😀", " ", "  ", "\n", "\t", "\\", `"`, "'", "{", "}", "[", "]", "<b>", "</b>", "&amp;", "a < b", "%s", "\\n", "\u00a0", "\u2028", "0", "true", "null", ", ", ": ", "=", "(", ")", "`", "\r\n", "\x01", "\U00010437",
	}
	return strings.Join(rapid.SliceOfN(rapid.SampledFrom(words), 0, 12).Draw(t, label), "")
}

// drawJSON draws a JSON value in Python's style.
func drawJSON(t *rapid.T, depth int) string {
	kinds := 6
	if depth > 2 {
		kinds = 4
	}
	switch rapid.IntRange(0, kinds-1).Draw(t, "kind") {
	case 0:
		return jsonString(drawText(t, "string"))
	case 1:
		return rapid.SampledFrom([]string{"0", "-7", "9007199254740993", "12345678901234567890"}).Draw(t, "integer")
	case 2:
		return rapid.SampledFrom([]string{"1.0", "-2.50", "1e10", "0.001"}).Draw(t, "number")
	case 3:
		return rapid.SampledFrom([]string{"true", "false", "null"}).Draw(t, "word")
	case 4:
		var items []string
		for range rapid.IntRange(0, 3).Draw(t, "items") {
			items = append(items, drawJSON(t, depth+1))
		}
		return "[" + strings.Join(items, ", ") + "]"
	default:
		var o jsonObject
		for range rapid.IntRange(0, 3).Draw(t, "members") {
			o.set(rapid.SampledFrom([]string{"a", "b_c", "name", "arguments", "key2"}).Draw(t, "key"), drawJSON(t, depth+1))
		}
		return o.text()
	}
}

// drawArguments draws an object that fits roundTripTools.
func drawArguments(t *rapid.T) string {
	var o jsonObject
	for range rapid.IntRange(0, 4).Draw(t, "arguments") {
		switch key := rapid.SampledFrom([]string{"s", "text", "i", "n", "b", "list", "o", "z"}).Draw(t, "argument"); key {
		case "s", "text":
			o.set(key, jsonString(drawText(t, key)))
		case "i":
			o.set(key, rapid.SampledFrom([]string{"0", "-7", "9007199254740993"}).Draw(t, key))
		case "n":
			o.set(key, rapid.SampledFrom([]string{"1.0", "-2.50", "3", "1e10"}).Draw(t, key))
		case "b":
			o.set(key, rapid.SampledFrom([]string{"true", "false"}).Draw(t, key))
		case "list":
			o.set(key, "["+drawJSON(t, 1)+"]")
		case "o":
			o.set(key, `{"k": `+drawJSON(t, 1)+"}")
		default:
			o.set(key, "null")
		}
	}
	return o.text()
}

// inexpressible says which turns a format has no way to write.
func inexpressible(format string, calls []Call, content string) bool {
	for _, c := range calls {
		lost := false
		eachMember(c.Arguments, func(key, value string) bool {
			switch {
			case value[0] != '"':
			case format == "minimax_m2", format == "step3", format == "dots": // values are trimmed
				text := unquote(value)
				lost = lost || strings.TrimSpace(text) != text
			}
			return true
		})
		if lost {
			return true
		}
	}
	return format == "llama4_pythonic" && content != "" // calls are the whole response
}

func TestRenderedCallsParseBack(t *testing.T) {
	tools := roundTripTools()
	for _, f := range All() {
		t.Run(f.Name(), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				content := strings.TrimSpace(rapid.SampledFrom([]string{"", "", "I look.", "Zürich 😀\n\nand {x} [y] <b>"}).Draw(t, "content"))
				var calls []Call
				for range rapid.IntRange(1, 3).Draw(t, "calls") {
					name := rapid.SampledFrom([]string{"get_weather", "f", "mcp__x__do_it"}).Draw(t, "name")
					calls = append(calls, Call{Name: name, Arguments: drawArguments(t)})
				}
				text, err := f.Render(content, calls, tools)
				if inexpressible(f.Name(), calls, content) {
					require.ErrorIs(t, err, ErrNotRepresentable)
					return
				}
				require.NoError(t, err)
				if f.framed {
					_, text = f.SplitReasoning(text, ReasoningConfig{})
				}
				got := f.Parse(text, tools)
				require.Equal(t, parsed(content, calls).Content, got.Content)
				require.Len(t, got.Calls, len(calls))
				for i, c := range got.Calls {
					require.Equal(t, calls[i].Name, c.Name)
					if f.Name() == "minimax_m3" { // values without a schema are text, nested ones too
						require.True(t, f.sameArguments(calls[i].Arguments, c.Arguments), "%s in %q", c.Arguments, text)
						continue
					}
					require.Equal(t, calls[i].Arguments, c.Arguments, "in %q", text)
				}
				checkInvariants(t, f, text, tools)
			})
		})
	}
}

func TestRenderedTurnsLookLikeTheTemplates(t *testing.T) {
	calls := []Call{
		{ID: "functions.get_weather:3", Name: "get_weather", Arguments: `{"city":"Zürich","days":3}`},
		{ID: "abcDEF123", Name: "f", Arguments: `{"b":true,"o":{"k":[null]}}`},
	}
	var b strings.Builder
	for _, f := range All() {
		content := "I look."
		if f.Name() == "llama4_pythonic" {
			content = ""
		}
		text, err := f.Render(content, calls, roundTripToolsWith(`"city": {"type": "string"}, "days": {"type": "integer"}`))
		require.NoError(t, err, f.Name())
		results, err := f.RenderResults([]Result{{CallID: "id0", Name: "get_weather", Content: "rain\n12 °C"}, {CallID: "id1", Name: "f", Content: "ok"}})
		if f.results == nil {
			require.ErrorIs(t, err, ErrNotRepresentable)
			results = []string{err.Error()}
		} else {
			require.NoError(t, err)
		}
		b.WriteString("=== " + f.Name() + "\n" + text + "\n--- results\n" + strings.Join(results, "\n--- next turn\n") + "\n\n")
	}
	compareGolden(t, "testdata/rendered.txt", b.String())
}

func roundTripToolsWith(properties string) []Tool {
	return []Tool{tool("get_weather", properties), tool("f", `"b": {"type": "boolean"}, "o": {"type": "object"}`)}
}

func TestRenderRefusesWhatItCannotWrite(t *testing.T) {
	for _, c := range []struct{ name, format, content, call, arguments, message string }{
		{"arguments that are no object", "hermes", "", "f", "[1]", "not a JSON object"},
		{"arguments that are no JSON", "hermes", "", "f", "{a", "not a JSON object"},
		{"an empty name", "hermes", "", "", "{}", "empty"},
		{"a name with white space", "hermes", "", " f", "{}", "white space"},
		{"content with a marker", "hermes", "a <tool_call> b", "f", "{}", "cannot express"},
		{"a value with a closing tag", "qwen3_coder", "", "f", `{"a": "</parameter>"}`, "cannot express"},
		{"a value with a closing tag of GLM", "glm45", "", "f", `{"a": "</arg_value>"}`, "cannot express"},
		{"a name with a newline", "glm45", "", "f\ng", `{}`, "cannot express"},
		{"a name with a bracket", "mistral", "", "f{", `{}`, "cannot express"},
		{"a string that looks like a number, without schema", "glm45", "", "f", `{"a": " 1"}`, "cannot express"},
		{"a key that is no name", "llama4_pythonic", "", "f", `{"a b": 1}`, "cannot express"},
		{"a quote token inside text", "gemma4", "", "f", `{"a": "<|\"|>"}`, "cannot express"},
		{"an id token inside a name", "kimi_k2", "", "a.b", `{}`, "cannot express"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, err := Lookup(c.format)
			require.NoError(t, err)
			_, err = f.Render(c.content, []Call{{Name: c.call, Arguments: c.arguments}}, nil)
			require.ErrorContains(t, err, c.message)
			require.ErrorContains(t, err, c.format)
		})
	}
}

func TestRenderWithoutCallsIsTheContent(t *testing.T) {
	for _, f := range All() {
		text, err := f.Render(" Just text.\n", nil, nil)
		require.NoError(t, err)
		require.Equal(t, " Just text.\n", text)
		if f.results != nil {
			turns, err := f.RenderResults(nil)
			require.NoError(t, err)
			require.Empty(t, turns)
		}
	}
	f, err := Lookup("hermes")
	require.NoError(t, err)
	_, err = f.Render(`<tool_call>{"name": "f"}</tool_call>`, nil, nil)
	require.ErrorIs(t, err, ErrNotRepresentable)
}

func TestRenderKeepsIDsWhereTheFormatHasThem(t *testing.T) {
	for format, id := range map[string]string{"mistral": "abcDEF123", "kimi_k2": "functions.f:17"} {
		f, err := Lookup(format)
		require.NoError(t, err)
		text, err := f.Render("", []Call{{ID: id, Name: "f", Arguments: "{}"}}, nil)
		require.NoError(t, err)
		require.Equal(t, id, f.Parse(text, nil).Calls[0].ID)
	}
}

func TestParsedMarshalsToTheDocumentedObject(t *testing.T) {
	f, err := Lookup("hermes")
	require.NoError(t, err)
	b, err := json.Marshal(f.Parse("Hi", nil))
	require.NoError(t, err)
	require.JSONEq(t, `{"content": "Hi", "calls": []}`, string(b))
	b, err = json.Marshal(fixedRandom(f).Parse(`<tool_call>{"name": "f", "arguments": 1}</tool_call>`, nil))
	require.NoError(t, err)
	require.JSONEq(t, `{"content": null, "calls": [{"id": "call_7deb69cb", "name": "f", "arguments": "1", "invalid_arguments": true}]}`, string(b))
}
