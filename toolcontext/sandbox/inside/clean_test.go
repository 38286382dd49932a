package inside_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
)

func TestCleaningRemovesWhatIsThereAndFollowsNoLink(t *testing.T) {
	for name, setUp := range map[string]string{
		"nothing":                   "",
		"files and folders":         "mkdir -p logs/verifier/deep/er; echo 1 > logs/verifier/reward.txt; chmod 500 logs/verifier/deep",
		"a link to a directory":     "mkdir logs; ln -s ../outside logs/verifier",
		"a link above it":           "ln -s outside logs",
		"a file":                    "mkdir logs; echo 1 > logs/verifier",
		"a file above it":           "echo 1 > logs",
		"a pipe":                    "mkdir logs; mkfifo logs/verifier",
		"a link that leads nowhere": "mkdir logs; ln -s /no/where logs/verifier",
		"a link to itself":          "ln -s logs logs",
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			require.NoError(t, os.MkdirAll(filepath.Join(dir, "outside", "verifier"), 0o755))
			kept := filepath.Join(dir, "outside", "verifier", "kept")
			require.NoError(t, os.WriteFile(kept, nil, 0o600))
			client := create(t, kind{})
			r, err := client.Exec(t.Context(), sandbox.Command{Script: setUp, Dir: dir})
			require.NoError(t, err)
			require.Zero(t, r.ExitCode, r.String())
			target := filepath.Join(dir, "logs", "verifier")
			require.NoError(t, client.Clean(t.Context(), target, 0o777))
			info, err := os.Lstat(target)
			require.NoError(t, err)
			require.True(t, info.IsDir())
			require.Equal(t, fs.FileMode(0o777), info.Mode().Perm())
			left, err := os.ReadDir(target)
			require.NoError(t, err)
			require.Empty(t, left)
			require.FileExists(t, kept)
		})
	}
}

func TestRemovingLeavesAloneWhatALinkLeadsTo(t *testing.T) {
	dir := t.TempDir()
	client := create(t, kind{})
	_, err := client.Exec(t.Context(), sandbox.Command{Script: "mkdir -p real/sub; touch real/sub/kept; ln -s real link; ln -s real/sub gone", Dir: dir})
	require.NoError(t, err)
	require.NoError(t, client.Remove(t.Context(), filepath.Join(dir, "gone")))
	require.ErrorIs(t, client.Remove(t.Context(), filepath.Join(dir, "link", "sub")), sandbox.ErrInvalidCommand)
	require.FileExists(t, filepath.Join(dir, "real", "sub", "kept"))
	require.NoError(t, client.Remove(t.Context(), filepath.Join(dir, "not", "there")))
	require.NoError(t, client.Remove(t.Context(), filepath.Join(dir, "real")))
	require.NoFileExists(t, filepath.Join(dir, "real", "sub", "kept"))
	for _, bad := range []string{"/", "relative", "", "/../"} {
		require.ErrorIs(t, client.Remove(t.Context(), bad), sandbox.ErrInvalidCommand, bad)
		require.ErrorIs(t, client.Clean(t.Context(), bad, 0o755), sandbox.ErrInvalidCommand, bad)
	}
	if os.Getuid() != 0 {
		require.True(t, errors.Is(client.Clean(t.Context(), "/not-mine", 0o755), fs.ErrPermission))
	}
}
