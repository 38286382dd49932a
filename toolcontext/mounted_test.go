package toolcontext_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/toolcontext"
)

func TestWriteFile_ReplacesWhatAContainerHasMounted(t *testing.T) {
	tc := newContext(t, shared.provider(t))
	for _, name := range []string{"/etc/hosts", "/etc/resolv.conf"} {
		result := call(t, tc, "write_file", `{"path":"`+name+`","content":"10.0.0.1 db\n"}`)
		require.NotContains(t, result, "error")
		content, err := tc.ReadFile(context.Background(), name)
		require.NoError(t, err)
		require.Equal(t, "10.0.0.1 db\n", string(content))
	}
}

func call(t *testing.T, tc *toolcontext.Context, tool, arguments string) string {
	t.Helper()
	result, err := tc.Call(context.Background(), tool, json.RawMessage(arguments))
	require.NoError(t, err)
	return result
}
