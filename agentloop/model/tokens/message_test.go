package tokens

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSameArguments_ComparesValuesAndNotTheirSpelling(t *testing.T) {
	for _, test := range []struct {
		a, b string
		same bool
	}{
		{`{"a": 1e3}`, `{"a": 1000.0}`, true},
		{`{"a": 1E+3}`, `{"a": 1000}`, true},
		{`{"a": 0.10}`, `{"a": 0.1}`, true},
		{`{"a": 0.1000000000000000055511}`, `{"a": 0.1}`, true},
		{`{"a": -0}`, `{"a": 0}`, true},
		{`{"a": -0.0}`, `{"a": 0}`, true},
		{`{"a": 1.0e-7}`, `{"a": 1e-07}`, true},
		{`{"a": 1e400}`, `{"a": 1e401}`, true},
		{`{"a": 1e400}`, `{"a": -1e400}`, false},
		{`{"a": 12345678901234567890123}`, `{"a": 1.2345678901234568e+22}`, true},
		{`{"a": 12345678901234567890123}`, `{"a": "1.2345678901234568e+22"}`, true},
		{`{"a": "1.2345678901234568e+22"}`, `{"a": 12345678901234567890123}`, true},
		{`{"a": 12345678901234567890123}`, `{"a": "12345678901234567890123"}`, false},
		{`{"a": 1000}`, `{"a": "1e+3"}`, false},
		{`{"a": 1e3}`, `{"a": "1e+3"}`, false},
		{`{"a": 12345678901234567890123}`, `{"a": 12345678901234567890124}`, false},
		{`{"a": 9007199254740993}`, `{"a": 9007199254740992}`, false},
		{`{"a": 1}`, `{"a": 2}`, false},
		{`{"a": 1}`, `{"a": "1"}`, false},
		{`{"a": 1}`, `{"a": true}`, false},
		{`{"a": "\u00e9\/\u0041"}`, `{"a": "é/A"}`, true},
		{`{"a": "\ud83d\ude00"}`, `{"a": "😀"}`, true},
		{`{"a": "x"}`, `{"a": "x "}`, false},
		{`{"a": 1, "b": [1, {"c": 2.50}]}`, `{"b": [1, {"c": 2.5}], "a": 1}`, true},
		{`{"a": [1, 2]}`, `{"a": [2, 1]}`, false},
		{`{"a": 1, "a": 2}`, `{"a": 2}`, true},
		{`{"a": 1, "a": 2}`, `{"a": 1}`, false},
		{`{"a": null}`, `{}`, false},
		{`null`, `{}`, true},
		{`""`, `{}`, true},
		{`[]`, `{}`, false},
		{`{"a": 1`, `{"a": 1`, true},
		{`{"a": 1`, `{"a": 1}`, false},
		{`{"a": 1} x`, `{"a": 1}`, false},
	} {
		require.Equal(t, test.same, sameArguments(test.a, test.b), "%s and %s", test.a, test.b)
		require.Equal(t, test.same, sameArguments(test.b, test.a), "%s and %s", test.b, test.a)
	}
}
