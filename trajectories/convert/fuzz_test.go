package convert

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/trajectories"
)

// FuzzDecode reads foreign records: whatever they are, they give rows that every
// target can write, or an error.
func FuzzDecode(f *testing.F) {
	files, err := filepath.Glob(filepath.Join("testdata", "golden", "*.jsonl"))
	require.NoError(f, err)
	for _, file := range files {
		content, err := os.ReadFile(file)
		require.NoError(f, err)
		for _, line := range strings.Split(strings.TrimSpace(string(content)), "\n") {
			f.Add([]byte(line))
		}
	}
	f.Add([]byte(`{"messages":[{"role":"assistant","content":null,"tool_calls":[{"id":null,"function":{"name":"","arguments":7}}]}],"score":1e999,"metadata":"{","tools":"[1]"}`))
	f.Add([]byte(`{"conversations":[{"from":"gpt","value":"<tool_call>{}</tool_call><think>"},{"from":"tool","value":"<tool_response>"}],"metadata":{"batch_num":-1}}`))
	f.Add([]byte(`{"tokens":[[1.5]],"masks":[[]],"scores":[null]}`))
	f.Add([]byte(`{"prompt":1,"chosen":{},"rejected":[{}]}`))
	f.Add([]byte(`{"messages":[],"details":"{\"step\":-1,\"usage\":{\"prompt_tokens\":\"x\"}}","outcome":"won","step":1e300}`))
	f.Add([]byte(`{"conversations":[{"from":"gpt","value":"x"}],"tampered":true,"metadata":{"batch_num":0,"tampering":"[1,{\"kind\":7,\"active\":\"yes\"},{}]"}}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		_, rows, err := (&decoder{}).decode("f.jsonl", record{text: line, number: 1})
		if err != nil {
			return
		}
		for _, r := range rows {
			b := newBuilder(Messages, features{}.all(), nil, nil, false)
			_, err := trajectories.AppendRollout(nil, r.Rollout)
			require.NoError(t, err)
			_, _, err = b.row(r)
			require.NoError(t, err)
			_, _ = newBuilder(ShareGPT, features{}.all(), toolset(r.Tools, r.names()), nil, false).shareGPT(r)
		}
	})
}

// FuzzReadConversation reads turns of any text; nothing of a readable turn may
// vanish without being reported.
func FuzzReadConversation(f *testing.F) {
	f.Add("system", "You are a function calling AI model. Here are the available tools:\n<tools>\n[{\"name\": \"f\"}]\n</tools>", "gpt", "<think>\nx\n</think>\na\n<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>")
	f.Add("gpt", "<tool_call>{\"name\":\"f\"}</tool_call>", "tool", "<tool_response>\n{\"tool_call_id\": \"1\", \"name\": \"f\", \"content\": [1]}\n</tool_response>\n<tool_response>bare</tool_response>")
	f.Add("human", "q", "function_response", "<tool_response>{}")
	f.Add("gpt", "<tool_call><tool_call></tool_call>", "other", "</tool_call>")
	f.Fuzz(func(t *testing.T, fromA, valueA, fromB, valueB string) {
		c := readConversation([]trajectories.Turn{{From: fromA, Value: valueA}, {From: fromB, Value: valueB}})
		require.GreaterOrEqual(t, len(c.messages)+len(c.lost)+boolean(c.tools != nil)+boolean(strings.TrimSpace(valueA) == "" || strings.TrimSpace(valueB) == ""), 1)
		for _, m := range c.messages {
			require.NotEmpty(t, m.Role())
		}
	})
}

func boolean(b bool) int {
	if b {
		return 1
	}
	return 0
}
