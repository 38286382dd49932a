package parsers

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// benchTools type the arguments that benchResponse writes.
func benchTools() []Tool {
	properties := `"path": {"type": "string"}, "content": {"type": "string"}, "count": {"type": "integer"}, "flags": {"type": "array"}`
	return []Tool{tool("write_file", properties), tool("read_file", properties)}
}

// benchResponse is a response of about size bytes with two calls, most of it in
// the arguments: a file of code, as agents write them.
func benchResponse(tb testing.TB, f *Format, size int) string {
	tb.Helper()
	line := "    if value[\"key\"] != 'x' and a < b: return [1, 2]  # Zürich\n"
	code := strings.Repeat(line, max(1, size/2/len(line)*9/10))
	args := `{"path": "src/main.py", "content": ` + jsonString(code+"end") + `, "count": 3, "flags": [1.5, true]}`
	calls := []Call{{Name: "write_file", Arguments: args}, {Name: "read_file", Arguments: args}}
	content := "I write the file first."
	if f.name == "llama4_pythonic" {
		content = ""
	}
	if f.name == "minimax_m2" || f.name == "step3" || f.name == "dots" {
		for i := range calls {
			calls[i].Arguments = strings.ReplaceAll(calls[i].Arguments, `": "    if`, `": "if`)
		}
	}
	text, err := f.Render(content, calls, benchTools())
	require.NoError(tb, err)
	return text
}

func BenchmarkParse(b *testing.B) {
	prose := strings.Repeat("The quick brown fox {jumps} over [the] lazy dog, and a < b.\n", 1<<20/60)
	for _, f := range All() {
		for _, c := range []struct {
			name, text string
		}{
			{"4KB", benchResponse(b, f, 4<<10)},
			{"1MB", benchResponse(b, f, 1<<20)},
			{"1MB-content", prose},
		} {
			tools := benchTools()
			b.Run(f.name+"/"+c.name, func(b *testing.B) {
				b.SetBytes(int64(len(c.text)))
				b.ReportAllocs()
				for b.Loop() {
					f.Parse(c.text, tools)
				}
			})
		}
	}
}

// BenchmarkStream feeds pieces of the size of a token.
func BenchmarkStream(b *testing.B) {
	for _, f := range All() {
		text := benchResponse(b, f, 1<<20)
		tools := benchTools()
		b.Run(f.name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				s := f.Stream(tools)
				for rest := text; rest != ""; rest = rest[min(4, len(rest)):] {
					s.Feed(rest[:min(4, len(rest))])
				}
				s.Finish()
			}
		})
	}
}

// hostile builds texts of a given length that make careless parsers quadratic.
func hostile(f *Format) map[string]func(size int) string {
	opening := map[string]string{}
	for _, m := range append(ToolMarkers(), "<|channel|>", "functools[", "```json\n[", "</think>[") {
		opening["markers "+m] = m
	}
	patterns := map[string]string{
		"braces": "{", "brackets": "[", "objects": `{"a":`, "arrays in objects": `{"a":[`, "quotes": `"`, "angle brackets": "<", "backslashes": `\`,
		"calls without end":     `<tool_call>{"name":"f","arguments":{"a":"`,
		"functions without end": "<tool_call><function=f><parameter=a>",
		"function tags":         "<function=", "parameter tags": "<tool_call><function=f><parameter=",
		"keys without values": "<tool_call>f\n<arg_key>a</arg_key>",
		"keys without ends":   "<tool_call>f\n<arg_key>",
		"name forms":          `[TOOL_CALLS]f{"a":"`, "name forms in strings": `[TOOL_CALLS]f{"a":"[TOOL_CALLS]"`,
		"arrays in strings": `[TOOL_CALLS]["[TOOL_CALLS]["`,
		"both parities":     `","`, "both parities of objects": `{"a":[":{",`,
		"headers":                deepseekCallsBegin + deepseekCallBegin + "f" + deepseekSep,
		"cut arguments":          deepseekCallsBegin + deepseekCallBegin + "f" + deepseekSep + `{"a":"`,
		"fences":                 deepseekCallsBegin + deepseekCallBegin + "f" + deepseekSep + "f```json```",
		"Kimi headers":           kimiSectionBegin + kimiCallBegin + "functions.f:0" + kimiArgsBegin,
		"Kimi calls with one id": kimiSectionBegin + kimiCall("functions.f:0", "{}"),
		"harmony headers":        "<|start|>assistant<|channel|>", "harmony calls": "<|channel|>commentary to=f<|message|>{",
		"blanks": " ", "blanks in a name": "[TOOL_CALLS]f[", "blanks after a call": `<tool_call>{"name":"f"} `, "pythonic": "[f(a=[", "strings side by side": "[f(a='x' ", "gemma": "<|tool_call>call:f{a:[{", "gemma quotes": `<|tool_call>call:f{a:<|"|>`,
		"invokes": "<minimax:tool_call><invoke name=\"f\"><parameter name=\"a\">",
	}
	for name, marker := range opening {
		patterns[name] = marker
	}
	texts := map[string]func(int) string{
		"a regular response": nil,
		"one call, then blanks": func(size int) string {
			return benchCall(f) + strings.Repeat(" ", size)
		},
		"a call with a repeated key at every level": func(size int) string {
			depth := min(size/20, 5000)
			return `<tool_call>{"name":"f","arguments":` + strings.Repeat(`{"a":1,"a":`, depth) + `"` + strings.Repeat("x", size-16*depth) + `"` + strings.Repeat("}", depth) + "}</tool_call>"
		},
	}
	delete(texts, "a regular response")
	for name, p := range patterns {
		texts[name] = func(size int) string { return strings.Repeat(p, size/len(p)+1) }
		texts["a call, then "+name] = func(size int) string { return benchCall(f) + strings.Repeat(p, size/len(p)+1) }
	}
	return texts
}

// benchCall is one short call.
func benchCall(f *Format) string {
	var b strings.Builder
	f.render(&b, "", []Call{{Name: "f", Arguments: `{"a": "x"}`}})
	return b.String()
}

// TestWorkGrowsLinearly counts the bytes that are looked at, for texts that
// would be read over and over by a parser without memory, whole and in pieces.
func TestWorkGrowsLinearly(t *testing.T) {
	const size, bound = 6 << 10, 6
	for _, f := range All() {
		t.Run(f.name, func(t *testing.T) {
			for name, build := range hostile(f) {
				text := build(size)
				m := f.machine()
				whole := f.pass(m, benchTools())
				whole.text, whole.final = text, true
				m.scan(&whole)
				whole.close()
				require.Less(t, whole.work, bound*len(text)+1000, "%s as a whole", name)

				s := f.Stream(benchTools()).(*textStream)
				for rest := text; rest != ""; rest = rest[min(7, len(rest)):] {
					s.Feed(rest[:min(7, len(rest))])
				}
				s.Finish()
				require.Less(t, s.pass.work, bound*len(text)+1000, "%s in pieces", name)
			}
		})
	}
}

// BenchmarkGrowth shows the time per byte at four lengths, for a regular
// response and for the most hostile of texts: MB/s must not fall.
func BenchmarkGrowth(b *testing.B) {
	for _, f := range All() {
		texts := map[string]func(int) string{"response": func(size int) string { return benchResponse(b, f, size) }}
		for _, name := range []string{"braces", "objects", "both parities of objects", "calls without end", "cut arguments", "name forms in strings"} {
			texts[name] = hostile(f)[name]
		}
		for name, build := range texts {
			for _, size := range []int{10 << 10, 100 << 10, 1 << 20, 10 << 20} {
				text := build(size)
				b.Run(fmt.Sprintf("%s/%s/%dKB", f.name, strings.ReplaceAll(name, " ", "-"), size>>10), func(b *testing.B) {
					b.SetBytes(int64(len(text)))
					for b.Loop() {
						f.Parse(text, nil)
					}
				})
			}
		}
	}
}
