package chat

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestValidBoundsDepthWithoutRecursion(t *testing.T) {
	require.True(t, Valid([]byte(strings.Repeat("[", MaxDepth)+strings.Repeat("]", MaxDepth))))
	require.False(t, Valid([]byte(strings.Repeat("[", MaxDepth+1)+strings.Repeat("]", MaxDepth+1))))
	require.False(t, Valid([]byte(strings.Repeat(`{"a":`, 50_000_000))))
}

func FuzzValidAgreesWithTheStandardLibrary(f *testing.F) {
	for _, seed := range []string{
		``, ` `, `null`, `true`, `tru`, `-0`, `01`, `1.`, `1e5`, `1E+`, `.5`, `"a"`, `"\u12"`, `"\ud83d"`, `"\x"`, "\"\n\"", "\"\x80\"",
		`[]`, `[1,]`, `[,]`, `{}`, `{"a":1,}`, `{"a"}`, `{"a":}`, `{1:2}`, `[}`, `{]`, `[1 2]`, `{"a":[{"b":null}]} `, `{} x`, "\ufeff{}",
		`"a long string of more than eight bytes \" and an escape"`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		require.Equal(t, json.Valid(raw), Valid(raw), "%q", raw)
	})
}
