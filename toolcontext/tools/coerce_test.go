package tools

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"github.com/hermes-env/hermes-env/agentloop/chat"
)

const coercionSchema = `{"type":"object","properties":{
	"int":{"type":"integer"},"num":{"type":"number"},"bool":{"type":"boolean"},"text":{"type":"string"},
	"list":{"type":"array","items":{"type":"object","properties":{"tags":{"type":"array","items":{"type":"string"}},"n":{"type":"integer"}}}},
	"object":{"type":"object","properties":{"inner":{"type":"array"},"s":{"type":"string"},"any":{"anyOf":[{"type":"string"},{"type":"object","properties":{"deep":{"type":"array"}}}]}}},
	"maybe":{"type":["integer","null"]},"nullable":{"type":"string","nullable":true},"mixed":{"type":["string","integer"]},
	"branch":{"anyOf":[{"type":"array","items":{"type":"object"}},{"type":"null"}]},"free":{"description":"no type"},
	"dotted.key":{"type":"integer"}
}}`

func TestArgumentsAreCoercedByTheRulesModelsAreTrainedOn(t *testing.T) {
	s := compileSchema([]byte(coercionSchema))
	for _, c := range []struct{ name, in, want string }{
		{"digits", `{"int":"42"}`, `{"int":42}`},
		{"digits with spaces", `{"int":" 42\n"}`, `{"int":42}`},
		{"an integral float", `{"int":"42.0","num":"4.2e1"}`, `{"int":42,"num":42}`},
		{"a fraction stays text for an integer", `{"int":"4.5","num":"4.5"}`, `{"int":"4.5","num":4.5}`},
		{"underscores", `{"int":"1_000","num":"_1"}`, `{"int":1000,"num":"_1"}`},
		{"no hexadecimal, no infinity, no nan", `{"int":"0x10","num":"inf","maybe":"NaN"}`, `{"int":"0x10","num":"inf","maybe":"NaN"}`},
		{"overflow", `{"num":"1e999"}`, `{"num":"1e999"}`},
		{"no digit of a long integer is lost", `{"int":"12345678901234567890123"}`, `{"int":12345678901234567890123}`},
		{"a point at either end", `{"num":".5","int":"5."}`, `{"num":0.5,"int":5}`},
		{"signs", `{"int":"-7","num":"+7"}`, `{"int":-7,"num":7}`},
		{"not a number", `{"int":"ten","num":""}`, `{"int":"ten","num":""}`},
		{"booleans by name only", `{"bool":" TRUE "}`, `{"bool":true}`},
		{"no booleans by number", `{"bool":"1"}`, `{"bool":"1"}`},
		{"a number is not made a boolean", `{"bool":1}`, `{"bool":1}`},
		{"a number is not made text", `{"text":42}`, `{"text":42}`},
		{"text stays text", `{"text":"42"}`, `{"text":"42"}`},
		{"a list as text", `{"list":"[{\"n\":1}]"}`, `{"list":[{"n":1}]}`},
		{"a list decoded from text is not walked", `{"list":"[{\"tags\":\"[1]\"}]"}`, `{"list":[{"tags":"[1]"}]}`},
		{"other text is wrapped", `{"list":"x"}`, `{"list":["x"]}`},
		{"broken JSON is wrapped", `{"list":"[1,"}`, `{"list":["[1,"]}`},
		{"an object is wrapped", `{"list":{"n":1}}`, `{"list":[{"n":1}]}`},
		{"a number is wrapped", `{"list":5}`, `{"list":[5]}`},
		{"null stays null", `{"list":null}`, `{"list":null}`},
		{"containers inside a list", `{"list":[{"tags":"[\"a\"]","n":"1"}]}`, `{"list":[{"tags":["a"],"n":"1"}]}`},
		{"an item as text", `{"list":["{\"n\":1}"]}`, `{"list":[{"n":1}]}`},
		{"an object as text is walked", `{"object":"{\"inner\":\"[1]\",\"s\":\"[1]\"}"}`, `{"object":{"inner":[1],"s":"[1]"}}`},
		{"an object in a branch", `{"object":{"any":"{\"deep\":\"[2]\"}"}}`, `{"object":{"any":{"deep":[2]}}}`},
		{"an array where an object is wanted", `{"object":"[1]"}`, `{"object":"[1]"}`},
		{"null by name", `{"maybe":"NULL","nullable":" null "}`, `{"maybe":null,"nullable":null}`},
		{"the first type that changes anything wins", `{"mixed":"42","maybe":"7"}`, `{"mixed":42,"maybe":7}`},
		{"a nullable branch", `{"branch":"null"}`, `{"branch":null}`},
		{"unknown keys and untyped properties", `{"other":"42","free":"42"}`, `{"other":"42","free":"42"}`},
		{"a key with a dot", `{"dotted.key":"1"}`, `{"dotted.key":1}`},
		{"order and spelling of the rest stay", `{"text":"é<","int":1.50,"z":[ 1 ]}`, `{"text":"é<","int":1.50,"z":[ 1 ]}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			args, err := chat.ParseObject([]byte(c.in))
			require.NoError(t, err)
			require.Equal(t, c.want, string(coerceArguments(s, args).Append(nil)))
		})
	}
}

func TestArgumentsWithoutASchemaAreLeftAlone(t *testing.T) {
	args := chat.Object{{Key: "a", Value: json.RawMessage(`"1"`)}}
	for _, schema := range []string{``, `{}`, `{"type":"object"}`, `{"properties":[]}`} {
		require.Equal(t, args, coerceArguments(compileSchema([]byte(schema)), args))
	}
}

func FuzzCoercionKeepsArgumentsValid(f *testing.F) {
	f.Add(coercionSchema, `{"int":"42","list":["{}"],"object":"{\"inner\":\"[1]\"}"}`)
	f.Add(`{"properties":{"a":{"type":["array","null"],"items":{"anyOf":[{"type":"object"}]}}}}`, `{"a":"[[[[]]]]"}`)
	f.Add(`{"properties":{"a":{"type":"array","items":{"type":"array"}}}}`, `{"a":`+strings.Repeat("[", 40)+strings.Repeat("]", 40)+`}`)
	f.Fuzz(func(t *testing.T, schema, arguments string) {
		if !gjson.Valid(schema) {
			return
		}
		args, err := chat.ParseObject([]byte(arguments))
		if err != nil {
			return
		}
		coerced := coerceArguments(compileSchema([]byte(schema)), args)
		require.Len(t, coerced, len(args))
		require.True(t, gjson.ValidBytes(coerced.Append(nil)))
		for i := range args {
			require.Equal(t, args[i].Key, coerced[i].Key)
		}
	})
}

func TestSanitiseTakesStructureOutOfErrors(t *testing.T) {
	for in, want := range map[string]string{
		"plain":                                "[TOOL_ERROR] plain",
		"a </tool_call><System>b</RESPONSE> c": "[TOOL_ERROR] a b c",
		"```json\n{\"a\":1}\n```":              "[TOOL_ERROR] {\"a\":1}",
		"x<![CDATA[ hidden\n ]]>y":             "[TOOL_ERROR] xy",
		"<tool_<tool_call>call>nested":         "[TOOL_ERROR] nested",
		"<unrelated> stays":                    "[TOOL_ERROR] <unrelated> stays",
		strings.Repeat("é", 3000):              "[TOOL_ERROR] " + strings.Repeat("é", 1997) + "...",
		strings.Repeat("é", 2000):              "[TOOL_ERROR] " + strings.Repeat("é", 2000),
	} {
		require.Equal(t, want, sanitise(in))
	}
}

func TestDeepNestingInTextIsNoReasonToDie(t *testing.T) {
	deep := strings.Repeat("[", 9_000_000) // a recursive check would exhaust the stack
	schema := json.RawMessage(`{"type":"object","properties":{"x":{"type":"array"}}}`)
	registry, err := NewRegistry(Tool{Name: "f", Toolset: "t", Parameters: schema, Handler: func(_ context.Context, c *Call) (string, error) { return "{}", nil }})
	require.NoError(t, err)
	_, err = registry.Call(t.Context(), NewState(nil, Options{}), "f", json.RawMessage(`{"x":"`+deep+`"}`))
	require.NoError(t, err)
}
