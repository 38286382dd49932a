package prompts

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/agentloop/chat"
)

func FuzzMessagesOfARow(f *testing.F) {
	for _, seed := range []string{
		`{"m":[{"role":"user","content":"x"}]}`, `{"m":"[{\"from\":\"human\",\"value\":\"x\"}]"}`, `{"m":[{"role":"system"}]}`, `{"m":[1]}`, `{"m":{}}`,
		`{"m":[{"role":"user","content":[{"type":"text","text":"x"}]},{"role":"assistant","content":null,"tool_calls":[{}]}]}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, row string) {
		if !chat.Valid([]byte(row)) {
			return
		}
		list, err := rowMessages([]byte(row), "m")
		if err != nil {
			return
		}
		last := list[len(list)-1]
		require.Equal(t, chat.RoleUser, last.Role())
		require.NotEmpty(t, strings.TrimSpace(last.Text()))
		require.True(t, chat.Valid(chat.AppendMessages(nil, list)))
	})
}

func FuzzFilesOfARow(f *testing.F) {
	for _, seed := range []string{
		`{"f":{"a":"x","b/c":{"base64":"eA=="},"~/d":{"content":"y","executable":true},"/e":{"path":"z"}}}`, `{"f":{"../a":"x"}}`, `{"f":{"a/../../b":"x"}}`,
		`{"f":{"~/../x":"x"}}`, `{"f":{"//x":"x"}}`, `{"f":{"":"x"}}`, `{"f":[1]}`, `{"f":{"a":{"path":"/etc/passwd"}}}`, `{"f":{"a":{"path":"../../etc/passwd"}}}`,
	} {
		f.Add(seed)
	}
	root := f.TempDir()
	f.Fuzz(func(t *testing.T, row string) {
		if !chat.Valid([]byte(row)) {
			return
		}
		files, err := rowFiles([]byte(row), "f", root)
		if err != nil {
			return
		}
		for _, file := range files {
			inside := strings.TrimPrefix(strings.TrimPrefix(file.path, "~/"), "/")
			require.True(t, filepath.IsLocal(inside), file.path)
		}
		_, err = archives(files)
		require.NoError(t, err)
	})
}
