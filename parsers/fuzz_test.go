package parsers

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// fuzzTools have every type an argument can have, so that coercion is reached.
func fuzzTools() []Tool {
	return []Tool{
		{Name: "f", Parameters: json.RawMessage(`{"type":"object","properties":{
			"s":{"type":"string"},"i":{"type":"integer"},"n":{"type":"number"},"b":{"type":"boolean"},
			"a":{"type":"array"},"o":{"type":"object"},"u":{"anyOf":[{"type":"integer"},{"type":"null"}]},
			"x":{"type":["string","null"]},"e":{"enum":[1,"a"]},"r":{"$ref":"#/properties/i"}}}`)},
		{Name: "get_weather", Parameters: json.RawMessage(`{"properties":{"city":{"type":"string"}}}`)},
	}
}

// fuzzFormat fuzzes one format, starting from its golden inputs and from those
// of all the others, which share markers with it.
func fuzzFormat(f *testing.F, name string) {
	format, err := Lookup(name)
	require.NoError(f, err)
	seeds, err := filepath.Glob("testdata/golden/*/*.txt")
	require.NoError(f, err)
	for _, path := range seeds {
		if other := filepath.Base(filepath.Dir(path)); other != name && filepath.Base(path) != "simple.txt" {
			continue
		}
		text, err := os.ReadFile(path)
		require.NoError(f, err)
		f.Add(string(text))
	}
	for _, text := range hostileTexts() {
		f.Add(text)
	}
	tools := fuzzTools()
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 1<<14 {
			return
		}
		checkInvariants(t, format, text, nil)
		checkInvariants(t, format, text, tools)
	})
}

// hostileTexts are short forms of what has broken parsers before.
func hostileTexts() []string {
	return []string{
		"", " ", "\x00", "\xff\xfe", "{", "{{{{", "[[[[", `{"a":{"a":{"a":`, "<", "<tool_call>", "</tool_call>",
		"<tool_call><tool_call>{", "[TOOL_CALLS][TOOL_CALLS]", `[TOOL_CALLS]f{"a":"[TOOL_CALLS]"}`,
		"<function=", "<function=f><parameter=", "<function=f><parameter=s>\n\n\n", "<|python_tag|>{", `{"name":"f","parameters":{"\ud83d":"\ud83d\ude00"}}`,
		deepseekCallsBegin, deepseekCallsBegin + deepseekCallBegin, deepseekCallsBegin + deepseekCallBegin + "f" + deepseekSep,
		kimiSectionBegin + kimiCallBegin + "functions.f:0" + kimiArgsBegin, kimiSectionBegin + kimiCallBegin + "0" + kimiArgsBegin + "{}" + kimiCallEnd,
		"<\uff5cDSML\uff5cfunction_calls><\uff5cDSML\uff5cinvoke name=", "<minimax:tool_call><invoke name='f'><parameter name=\"s\">",
		"<|channel|><|start|><|message|><|end|>", "<|start|>assistant to=f<|message|>{", "[f(", "[f(a=[(", "<function_calls>f(a='", "functools[", "<|tool_call>call:f{a:[{",
		"</think>[", "```json\n[", "<tool_calls>[{", "<function_call><function_call>{}",
		"<dots_function_call>{", "<function name=\"f\"><param name=\"s\"><![CDATA[", miniMaxM3Block + miniMaxM3Invoke + "\"f\">" + miniMaxM3Mark + "<a>",
		"<|open|>tools<|sep|><|open|>call tool=\"f\"<|sep|><|open|>argument key=", "<tool_calls:x><tool_call:x>f<tool_sep:x>", "<tool_calls>[{", "<ifm|tool_call>{",
		solarOpen + "f\n<|tool_arg:start|>", cohereOpen + "[{", apertusOpen + "[{\"f\":", messageSep + gigaChat3Role + "{", "<|action_start|> <|plugin|>{",
		inklingMessage + "f" + inklingCall + "{", plamoCalls + plamoCall + plamoName + "f" + plamoNameEnd + plamoArgs, lfm2Open + "[f(", "to=user<|message|>" + museCalls,
		"<tool_call>f\n<arg_key>i</arg_key>\n<arg_value>0x1F</arg_value></tool_call>", "\u00a0<tool_call>\u3000{\"name\":\"f\"}\u3000</tool_call>",
	}
}

func FuzzParseHermes(f *testing.F)         { fuzzFormat(f, "hermes") }
func FuzzParseQwen(f *testing.F)           { fuzzFormat(f, "qwen") }
func FuzzParseLongcat(f *testing.F)        { fuzzFormat(f, "longcat") }
func FuzzParseMistral(f *testing.F)        { fuzzFormat(f, "mistral") }
func FuzzParseLlama3JSON(f *testing.F)     { fuzzFormat(f, "llama3_json") }
func FuzzParseQwen3Coder(f *testing.F)     { fuzzFormat(f, "qwen3_coder") }
func FuzzParseDeepSeekV3(f *testing.F)     { fuzzFormat(f, "deepseek_v3") }
func FuzzParseDeepSeekV31(f *testing.F)    { fuzzFormat(f, "deepseek_v3_1") }
func FuzzParseKimiK2(f *testing.F)         { fuzzFormat(f, "kimi_k2") }
func FuzzParseGLM45(f *testing.F)          { fuzzFormat(f, "glm45") }
func FuzzParseGLM47(f *testing.F)          { fuzzFormat(f, "glm47") }
func FuzzParseDeepSeekV32(f *testing.F)    { fuzzFormat(f, "deepseek_v3_2") }
func FuzzParseDeepSeekV4(f *testing.F)     { fuzzFormat(f, "deepseek_v4") }
func FuzzParseMiniMaxM2(f *testing.F)      { fuzzFormat(f, "minimax_m2") }
func FuzzParseSeedOSS(f *testing.F)        { fuzzFormat(f, "seed_oss") }
func FuzzParseStep3(f *testing.F)          { fuzzFormat(f, "step3") }
func FuzzParseLongcatXML(f *testing.F)     { fuzzFormat(f, "longcat_xml") }
func FuzzParseFunctionGemma(f *testing.F)  { fuzzFormat(f, "functiongemma") }
func FuzzParseGemma4(f *testing.F)         { fuzzFormat(f, "gemma4") }
func FuzzParseLlama4Pythonic(f *testing.F) { fuzzFormat(f, "llama4_pythonic") }
func FuzzParseOlmo3(f *testing.F)          { fuzzFormat(f, "olmo3") }
func FuzzParseGPTOSS(f *testing.F)         { fuzzFormat(f, "gpt_oss") }
func FuzzParseGranite(f *testing.F)        { fuzzFormat(f, "granite") }
func FuzzParseGranite4(f *testing.F)       { fuzzFormat(f, "granite4") }
func FuzzParseGranite20B(f *testing.F)     { fuzzFormat(f, "granite_20b_fc") }
func FuzzParseHunyuan(f *testing.F)        { fuzzFormat(f, "hunyuan_a13b") }
func FuzzParseJamba(f *testing.F)          { fuzzFormat(f, "jamba") }
func FuzzParsePhi4Mini(f *testing.F)       { fuzzFormat(f, "phi4_mini") }
func FuzzParseXLAM(f *testing.F)           { fuzzFormat(f, "xlam") }
func FuzzParseErnie45(f *testing.F)        { fuzzFormat(f, "ernie45") }
func FuzzParseDeepSeekV41(f *testing.F)    { fuzzFormat(f, "deepseek_v4_1") }
func FuzzParseGigaChat35(f *testing.F)     { fuzzFormat(f, "gigachat35") }
func FuzzParseDots(f *testing.F)           { fuzzFormat(f, "dots") }
func FuzzParseMuseGlimmer(f *testing.F)    { fuzzFormat(f, "muse_glimmer") }
func FuzzParseMiniCPM5(f *testing.F)       { fuzzFormat(f, "minicpm5") }
func FuzzParseMiMo(f *testing.F)           { fuzzFormat(f, "mimo") }
func FuzzParseMiniMaxM3(f *testing.F)      { fuzzFormat(f, "minimax_m3") }
func FuzzParseKimiK3(f *testing.F)         { fuzzFormat(f, "kimi_k3") }
func FuzzParseHyV3(f *testing.F)           { fuzzFormat(f, "hy_v3") }
func FuzzParseHyV4(f *testing.F)           { fuzzFormat(f, "hy_v4") }
func FuzzParseK2Horizon(f *testing.F)      { fuzzFormat(f, "k2_horizon") }
func FuzzParsePoolsideV1(f *testing.F)     { fuzzFormat(f, "poolside_v1") }
func FuzzParseSpark25(f *testing.F)        { fuzzFormat(f, "spark25") }
func FuzzParseIQuestQ1(f *testing.F)       { fuzzFormat(f, "iquest_q1") }
func FuzzParseSolarOpen2(f *testing.F)     { fuzzFormat(f, "solar_open2") }
func FuzzParseCohereCommand4(f *testing.F) { fuzzFormat(f, "cohere_command4") }
func FuzzParseApertus(f *testing.F)        { fuzzFormat(f, "apertus") }
func FuzzParseGigaChat3(f *testing.F)      { fuzzFormat(f, "gigachat3") }
func FuzzParseInternLM(f *testing.F)       { fuzzFormat(f, "internlm") }
func FuzzParseInkling(f *testing.F)        { fuzzFormat(f, "inkling") }
func FuzzParsePlamo3(f *testing.F)         { fuzzFormat(f, "plamo3") }
func FuzzParseLFM2(f *testing.F)           { fuzzFormat(f, "lfm2") }
