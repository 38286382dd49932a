package terminalbench

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/env"
)

func TestMisspeltKeysOfTasksAreSaidOnce(t *testing.T) {
	root := t.TempDir()
	task := "[metadata]\n[verifer]\ntimeout_sec = 5\n[environment]\n"
	for _, name := range []string{"one", "two", "three"} {
		writeTask(t, root, name, "#!/bin/sh\n", files{"task.toml": task})
	}
	writeTask(t, root, "clean", "#!/bin/sh\n", files{"task.toml": "[environment]\n"})
	writeTask(t, root, "left-out", "#!/bin/sh\n", files{"task.toml": "[agnet]\nx = 1\n[environment]\n"})
	_, e, err := resolve(t, NameTasks, "tasks="+root, "skip_tasks=left-out")
	require.NoError(t, err)
	require.NoError(t, e.Setup(t.Context()))
	notes := e.(env.Noter).Notes()
	require.Len(t, notes, 1, "%q", notes)
	require.True(t, strings.HasPrefix(notes[0], `verifer is not known and is ignored; did you mean "verifier"? (`), notes[0])
	require.Contains(t, notes[0], "one/task.toml:2 and 2 more tasks)")

	_, e, err = resolve(t, NameTasks, "tasks="+root, "task_filter=clean")
	require.NoError(t, err)
	require.NoError(t, e.Setup(t.Context()))
	require.Empty(t, e.(env.Noter).Notes())
}
