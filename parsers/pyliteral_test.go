package parsers

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPythonLiterals(t *testing.T) {
	for text, want := range map[string]string{
		`None`: `null`, `True`: `true`, `False`: `false`, ` 1 `: `1`, `-1`: `-1`, `+1`: `1`, `--1`: `1`, `1_000`: `1000`, `00`: `0`, `-0`: `0`,
		`0x1F`: `31`, `-0b101`: `-5`, `0o17`: `15`, `1.5`: `1.5`, `.5`: `0.5`, `5.`: `5.0`, `1e5`: `1e5`, `-1.E-3`: `-1.0E-3`,
		`'a'`: `"a"`, `"a'b"`: `"a'b"`, `'a\'b'`: `"a'b"`, `'''a
'b'''`: `"a\n'b"`, `"a" 'b'`: `"ab"`, `r'\n'`: `"\\n"`, `u'x'`: `"x"`, `'\x41\u00e9\U0001F600\101\q\a'`: `"Aé😀A\\q\u0007"`,
		`[]`: `[]`, `[1, 'a', None,]`: `[1, "a", null]`, `()`: `[]`, `(1,)`: `[1]`, `(1)`: `1`, `(1, 2)`: `[1, 2]`, `((1,), [2])`: `[[1], [2]]`,
		`{}`: `{}`, `{'a': 1, "b": {'c': (True,)},}`: `{"a": 1, "b": {"c": [true]}}`, `{1: 'x', None: 2, True: 3, 1.5: 4}`: `{"1": "x", "null": 2, "true": 3, "1.5": 4}`,
		`{'a': 1, 'a': 2}`: `{"a": 2}`,
	} {
		got, ok := pythonLiteral(text)
		require.True(t, ok, text)
		require.Equal(t, want, got, text)
	}
	for _, text := range []string{
		``, ` `, `x`, `true`, `null`, `f(1)`, `1 + 1`, `1j`, `inf`, `nan`, `-inf`, `1__0`, `_1`, `1_`, `012`, `0x`, `0xg`, `b'x'`, `{1, 2}`, `[1`, `[1 2]`, `(1`, `{1}`, `{'a'}`,
		`{[1]: 2}`, `'a`, `'a
b'`, `'\x4'`, `'\N{DASH}'`, `'\ud800'`, `1.5.5`, `1e`, `"a" b`, `[1] [2]`, `lambda: 1`, `'\`, `r'\`, `Truex`,
		strings.Repeat("[", 500), strings.Repeat("[", 500) + strings.Repeat("]", 500), "0x" + strings.Repeat("f", 1000),
	} {
		got, ok := pythonLiteral(text)
		require.False(t, ok, "%s gave %s", text, got)
	}
}

func FuzzPythonLiteral(f *testing.F) {
	for _, text := range []string{`{'a': (1, [2.5, None]), "b": r'\x' '''y'''}`, `0x1F`, `-1_000`, `'\u00e9\101'`, `{1: 2}`, `((1))`} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if got, ok := pythonLiteral(text); ok && !json.Valid([]byte(got)) {
			t.Fatalf("%q became %q", text, got)
		}
	})
}
