package parsers

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDecodeToolsKnowsTheUsualShapes(t *testing.T) {
	want := []Tool{{Name: "f", Description: "d", Parameters: json.RawMessage(`{"z": 1, "a":2}`)}}
	for _, text := range []string{
		`[{"type": "function", "function": {"name": "f", "description": "d", "parameters": {"z": 1, "a":2}}}]`,
		`[{"name": "f", "description": "d", "parameters": {"z": 1, "a":2}}]`,
		`[{"name": "f", "description": "d", "input_schema": {"z": 1, "a":2}}]`,
		` {"model": "m", "tools": [{"function": {"name": "f", "description": "d", "parameters": {"z": 1, "a":2}}}]}`,
	} {
		got, err := DecodeTools([]byte(text))
		require.NoError(t, err, text)
		require.Equal(t, want, got, "the schema keeps its bytes")
	}
	none, err := DecodeTools([]byte(`[]`))
	require.NoError(t, err)
	require.Empty(t, none)
	bare, err := DecodeTools([]byte(`[{"name": "f"}, {"name": "g", "parameters": null}]`))
	require.NoError(t, err)
	require.Len(t, bare, 2)
}

func TestDecodeToolsSaysWhatIsWrong(t *testing.T) {
	for text, message := range map[string]string{
		``:                                  "want a JSON array of tools",
		`"f"`:                               "want a JSON array of tools",
		`[1]`:                               "want a JSON array of tools",
		`{}`:                                `no "tools"`,
		`{"tools": 1}`:                      "decode tools",
		`[{"name": "f"}, {}]`:               "tool 1 has no name",
		`[{"function": {"parameters":{}}}]`: "tool 0 has no name",
		`[{"name": "f", "parameters": 3}]`:  "the parameters of tool 0 (f) are not a JSON schema object",
	} {
		_, err := DecodeTools([]byte(text))
		require.ErrorContains(t, err, message, text)
	}
}
