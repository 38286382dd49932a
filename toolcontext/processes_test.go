package toolcontext_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"github.com/hermes-env/hermes-env/agentloop/chat"
	"github.com/hermes-env/hermes-env/toolcontext"
)

// model calls a tool as the model does.
func model(t *testing.T, tc *toolcontext.Context, tool string, arguments map[string]any) gjson.Result {
	t.Helper()
	encoded, err := chat.Marshal(arguments)
	require.NoError(t, err)
	result, err := tc.Call(context.Background(), tool, encoded)
	require.NoError(t, err)
	return gjson.Parse(result)
}

// says waits until a background process has written text.
func says(t *testing.T, tc *toolcontext.Context, id, text string) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		v := model(t, tc, "process", map[string]any{"action": "poll", "session_id": id})
		if strings.Contains(v.Get("output_preview").String(), text) {
			return
		}
		require.True(t, v.Get("status").String() == "running" && time.Now().Before(end), "no %q in %s", text, v.Raw)
	}
}

func TestBackgroundProcessesServeTheModelAndEndWithItsPart(t *testing.T) {
	everywhere(t, func(t *testing.T, tc *toolcontext.Context) {
		// An exported variable and a directory of the session, input, and an ending.
		model(t, tc, "terminal", map[string]any{"command": "mkdir 'a b'; cd 'a b'; export GREETING=hello"})
		v := model(t, tc, "terminal", map[string]any{"command": `echo "$GREETING from $(basename "$PWD")"; read x; echo "got $x"; exit 7`, "background": true})
		id := v.Get("session_id").String()
		says(t, tc, id, "hello from a b\n")
		require.EqualValues(t, 5, model(t, tc, "process", map[string]any{"action": "submit", "session_id": id, "data": "word"}).Get("bytes_written").Int())
		v = model(t, tc, "process", map[string]any{"action": "wait", "session_id": id, "timeout": 30})
		require.Equal(t, "exited 7", v.Get("status").String()+" "+v.Get("exit_code").Raw)
		require.Contains(t, v.Get("output").String(), "got word")

		v = model(t, tc, "terminal", map[string]any{"command": `[ -t 0 ] && echo "on a terminal"; cat`, "background": true, "pty": true})
		require.False(t, v.Get("pty_note").Exists(), v.Raw)
		id = v.Get("session_id").String()
		says(t, tc, id, "on a terminal\n")
		require.Equal(t, "killed", model(t, tc, "process_manage", map[string]any{"action": "kill", "session_id": id}).Get("status").String())

		// What is left when the model's part ends is gone, with what it started.
		var pids []string
		for range 3 {
			v = model(t, tc, "terminal", map[string]any{"command": "sh -c 'sleep 600; :' & echo up; sleep 600", "background": true})
			says(t, tc, v.Get("session_id").String(), "up")
			pids = append(pids, v.Get("pid").String())
		}
		require.Len(t, model(t, tc, "process", map[string]any{"action": "list"}).Get("processes").Array(), 5)
		require.NoError(t, tc.Seal(t.Context()))
		for _, pid := range pids {
			require.Equal(t, "gone", sh(t, tc, fmt.Sprintf("kill -0 %s 2>/dev/null || echo gone", pid)))
		}
		require.Equal(t, `{"processes":[]}`, model(t, tc, "process", map[string]any{"action": "list"}).Raw)

		// A verifier has processes of its own, outside the model's session.
		raw, err := tc.CallTool(t.Context(), "terminal", map[string]any{"command": `echo "[$GREETING]"; sleep 600`, "background": true})
		require.NoError(t, err)
		id = gjson.Get(raw, "session_id").String()
		says(t, tc, id, "[]\n")
		require.NoError(t, tc.Cleanup(t.Context()))
		_, err = tc.Call(t.Context(), "process", json.RawMessage(`{"action":"poll","session_id":"`+id+`"}`))
		require.True(t, toolcontext.IsInfrastructure(err), "%v", err)
	})
}
