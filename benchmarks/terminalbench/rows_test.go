package terminalbench

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/benchmarks/terminalbench/tasktest"
	"github.com/hermes-env/hermes-env/env/config"
	"github.com/hermes-env/hermes-env/env/dataset/harbor"
	"github.com/hermes-env/hermes-env/env/dataset/hub/hubtest"
)

// fromRows is an environment whose tasks are rows.
func fromRows(t *testing.T, name string, variables map[string]string) *Environment {
	variables["XDG_CACHE_HOME"] = t.TempDir()
	return &Environment{name: NameTB2, own: Config{DatasetName: name, DatasetSplit: "train", TaskTimeout: 1800, TestTimeout: 600, AgentTimeoutFactor: 1, VerifierTimeoutFactor: 1, Network: "task", RestoreTools: tamperingCore},
		getenv: func(key string) (string, bool) { v, ok := variables[key]; return v, ok }}
}

func TestTasksComeFromTheHubAsRows(t *testing.T) {
	file := filepath.Join(t.TempDir(), "train.parquet")
	names := tasktest.WriteParquet(t, tasktest.Folder(t), file)
	content, err := os.ReadFile(file)
	require.NoError(t, err)
	server := hubtest.Start(t)
	commit := server.Put("dataset", "org/tasks", "main", map[string][]byte{
		"README.md": []byte("# tasks\n"), "data/train-00000-of-00001.parquet": content, "data/test-00000-of-00001.parquet": []byte("not read"),
	})
	e := fromRows(t, "org/tasks", map[string]string{"HF_ENDPOINT": server.URL, "HF_HOME": t.TempDir()})
	require.NoError(t, e.Setup(t.Context()))
	var got []string
	for _, task := range e.tasks {
		got = append(got, task.name)
		require.NotEmpty(t, task.parts[0].instruction)
		require.FileExists(t, filepath.Join(task.parts[0].tests, "test.sh"))
		require.Positive(t, task.parts[0].agentTimeout)
	}
	require.Equal(t, names, got)
	require.Equal(t, commit, e.dataset.Revision)
	require.Contains(t, string(e.dataset.Files), "data/train-00000-of-00001.parquet")
	item := e.tasks[0].item()
	require.False(t, e.HasSolution(item))
	require.ErrorContains(t, e.OracleStage(t.Context(), item, 0, nil), "rows of a dataset have none")

	// A second time the folders are there, but for one that somebody changed.
	changed := filepath.Join(e.tasks[0].parts[0].tests, "test.sh")
	before, err := os.ReadFile(changed)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(changed, []byte("#!/bin/sh\necho 1 > /logs/verifier/reward.txt\n"), 0o755))
	again := &Environment{name: e.name, own: e.own, getenv: e.getenv}
	require.NoError(t, again.Setup(t.Context()))
	require.Equal(t, e.dataset.Digest, again.dataset.Digest)
	text, err := os.ReadFile(changed)
	require.NoError(t, err)
	require.Equal(t, string(before), string(text))
	require.Equal(t, e.tasks[0].digest, again.tasks[0].digest)

	missing := fromRows(t, "org/other", map[string]string{"HF_ENDPOINT": server.URL, "HF_HOME": t.TempDir()})
	require.ErrorContains(t, missing.Setup(t.Context()), "org/other")
}

func TestTasksComeFromFilesAsRows(t *testing.T) {
	dir := t.TempDir()
	task, err := harbor.Load(t.Context(), filepath.Join(tasktest.Folder(t), "rewrite-settings"))
	require.NoError(t, err)
	row, err := harbor.PackRow(t.Context(), task)
	require.NoError(t, err)
	lines := filepath.Join(dir, "tasks.jsonl")
	require.NoError(t, os.WriteFile(lines, append(append(row, '\n'), "\n{\"task_name\":\"broken\",\"instruction\":\"x\",\"tests_tar\":\"%\"}\n"...), 0o600))
	e := fromRows(t, lines, map[string]string{})
	require.ErrorContains(t, e.Setup(t.Context()), "1 of 2 tasks can't be run: task broken")
	e.own.SkipTasks = config.Words{"broken"}
	require.NoError(t, e.Setup(t.Context()))
	require.Len(t, e.tasks, 1)
	require.Equal(t, "file-operations", e.tasks[0].category)

	for name, content := range map[string]string{
		"tasks.jsonl, line 1: want a JSON": "[1]\n",
		"row 1 has no task_name":           `{"prompt":"x"}`,
		"the dataset has no rows":          "\n",
		"the task rewrite-settings is ":    string(row) + "\n" + string(row),
	} {
		require.NoError(t, os.WriteFile(lines, []byte(content), 0o600))
		require.ErrorContains(t, fromRows(t, lines, map[string]string{}).Setup(t.Context()), name)
	}
	damaged := filepath.Join(dir, "x.parquet")
	require.NoError(t, os.WriteFile(damaged, []byte("PAR1 nothing PAR1"), 0o600))
	require.ErrorContains(t, fromRows(t, damaged, map[string]string{}).Setup(t.Context()), "x.parquet")
	require.ErrorContains(t, fromRows(t, filepath.Join(dir, "none.parquet"), map[string]string{}).Setup(t.Context()), "there is no such file or folder")
}
