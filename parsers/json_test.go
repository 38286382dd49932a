package parsers

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNormalJSONIsPythonsStyle(t *testing.T) {
	for text, want := range map[string]string{
		` { "b" : 1 , "a" : [ 1.0 , true ] } `: `{"b": 1, "a": [1.0, true]}`,
		`[]`:                                   `[]`,
		`[ ]`:                                  `[]`,
		`{ }`:                                  `{}`,
		`"\u0041\/\u00e9\ud83d\ude00\ud83d"`:   `"A/é😀\ud83d"`,
		`"\uDE00\uD83D"`:                       `"\ude00\ud83d"`,
		`"\b\f\n\r\t\u0000\u001f\u007f\"\\"`:   "\"\\b\\f\\n\\r\\t\\u0000\\u001f\x7f\\\"\\\\\"",
		`{"a":1,"b":2,"a":3}`:                  `{"a": 3, "b": 2}`,
		`{"a":1,"\u0061":2}`:                   `{"a": 2}`,
		`{"a":{"x":1,"x":{"y":1,"y":2}},"b":0,"a":{"z":[{"k":1,"k":2}]}}`: `{"a": {"z": [{"k": 2}]}, "b": 0}`,
		`[{"a":1,"a":2},{"b":1,"b":2}]`:                                   `[{"a": 2}, {"b": 2}]`,
		`{"a":{"x":1,"x":2},"c":{"y":1,"y":{"z":3,"z":4}}}`:               `{"a": {"x": 2}, "c": {"y": {"z": 4}}}`,
		`-0`: `-0`,
	} {
		require.Equal(t, want, normalJSON(text), text)
	}
	var many, want []string
	for i := range 40 {
		key := strings.Repeat("k", i+1)
		many = append(many, `"`+key+`":1`)
		want = append(want, `"`+key+`": 2`)
	}
	object := "{" + strings.Join(many, ",") + "," + strings.ReplaceAll(strings.Join(many, ","), ":1", ":2") + "}"
	require.Equal(t, "{"+strings.Join(want, ", ")+"}", normalJSON(object))
}

func TestScannerStopsAtEveryByte(t *testing.T) {
	const text = `{"a": [1, -2.5e+3, true, false, null, "x\u00e9\"", {}, []], "b": {"c": 0}}`
	for cut := range text {
		var s jsonScanner
		require.Equal(t, scanMore, s.scan(text[:cut]))
		require.Equal(t, scanDone, s.scan(text+" rest"))
		require.Equal(t, len(text), s.pos)
	}
}

func FuzzJSON(f *testing.F) {
	for _, text := range []string{`{"a": [1, -2.5e+3, true, null, "x\u00e9\"", {}]}`, `[`, `1`, `-`, `"\ud83d"`, `{"a":1,"a":2}`, `nul`, `01`, `1.`, `1e`, ` 1 `} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		valid := json.Valid([]byte(text))
		if got := validJSON(text); got != valid {
			t.Fatalf("validJSON(%q) is %v", text, got)
		}
		if !valid {
			return
		}
		normal := normalJSON(text)
		if !json.Valid([]byte(normal)) {
			t.Fatalf("%q became %q", text, normal)
		}
		if again := normalJSON(normal); again != normal {
			t.Fatalf("%q is not stable: %q", normal, again)
		}
		if got, want := decoded(t, normal), decoded(t, text); !bytes.Equal(got, want) {
			t.Fatalf("%q became %q", text, normal)
		}
	})
}

// decoded brings JSON into the standard library's own spelling.
func decoded(t *testing.T, text string) []byte {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var v any
	require.NoError(t, d.Decode(&v))
	b, err := json.Marshal(v)
	require.NoError(t, err)
	return b
}
