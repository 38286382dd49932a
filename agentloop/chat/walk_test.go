package chat

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"
)

func walkSeeds() []string {
	return []string{
		`{}`, `[]`, `"x"`, `1`, `null`, ` { } `, ` [ ] `, `{"a":1}`, ` { "a" : [ 1 , {"b":"}]"} ] , "c" : "\\" , "d":"\"" } `,
		`{"a":"\\\"","b":[],"c":{},"d":-1.5e3,"e":true,"f":false,"g":null}`, `[1, "a,]", {"x":[","]}, []]`,
		`{"\u0061\n":"\ud83d\ude00 \ud83d x \ude00 \ud83d\u0041 \b\f\n\r\t\/\\\""}`, `{"":""}`, `[[[["]"]]]]`, `["\\\\","\\\\\""]`,
	}
}

// checkWalk compares with gjson on valid JSON.
func checkWalk(t *testing.T, raw []byte) {
	t.Helper()
	parsed := gjson.ParseBytes(raw)
	type member struct{ key, value string }
	var want, got []member
	if parsed.IsObject() {
		parsed.ForEach(func(key, value gjson.Result) bool {
			want = append(want, member{key.String(), value.Raw})
			return true
		})
	}
	EachMember(raw, func(key string, value []byte) bool {
		got = append(got, member{key, string(value)})
		require.True(t, json.Valid(value), "%s", value)
		return true
	})
	require.Equal(t, want, got)
	var elements, wantElements []string
	if parsed.IsArray() {
		parsed.ForEach(func(_, value gjson.Result) bool {
			wantElements = append(wantElements, value.Raw)
			return true
		})
	}
	EachElement(raw, func(value []byte) bool {
		elements = append(elements, string(value))
		if value[0] == '"' {
			var text string
			require.NoError(t, json.Unmarshal(value, &text))
			if json.Valid(value) && !hasInvalidUTF8(value) {
				require.Equal(t, text, Unquote(value))
			}
		}
		return true
	})
	require.Equal(t, wantElements, elements)
}

func hasInvalidUTF8(b []byte) bool { return string(b) != string([]rune(string(b))) }

func TestMembersAndElementsAreThoseOfTheText(t *testing.T) {
	for _, raw := range walkSeeds() {
		require.True(t, json.Valid([]byte(raw)), raw)
		checkWalk(t, []byte(raw))
	}
	n := 0
	EachMember([]byte(`{"a":1,"b":2,"c":3}`), func(string, []byte) bool { n++; return n < 2 })
	require.Equal(t, 2, n)
	n = 0
	EachElement([]byte(`[1,2,3]`), func([]byte) bool { n++; return n < 2 })
	require.Equal(t, 2, n)
}

func FuzzWalk(f *testing.F) {
	for _, raw := range walkSeeds() {
		f.Add([]byte(raw))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if Valid(raw) {
			checkWalk(t, raw)
		}
	})
}
