package tasktest_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"
	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/agentloop/model/replay"
	"github.com/hermes-env/hermes-env/benchmarks/terminalbench/tasktest"
	"github.com/hermes-env/hermes-env/env/dataset/harbor"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox/docker/dockertest"
)

func TestEveryTaskIsInOrder(t *testing.T) {
	for _, folder := range []string{tasktest.Folder(t), tasktest.BrokenFolder(t)} {
		list, err := harbor.List(t.Context(), folder)
		require.NoError(t, err)
		require.Empty(t, list.Broken)
		for _, task := range list.Tasks {
			require.Empty(t, task.Notes, task.Name)
			require.NotEmpty(t, task.Config.Metadata.Category, task.Name)
			require.NotEmpty(t, task.Config.Metadata.Difficulty, task.Name)
			require.Positive(t, task.Config.Agent.Timeout, task.Name)
			require.Positive(t, task.Config.Verifier.Timeout, task.Name)
			require.Equal(t, task.Name != "no-solution", task.HasSolution, task.Name)
			require.True(t, task.HasDockerfile, task.Name)
		}
	}
	sound, err := harbor.List(t.Context(), tasktest.Folder(t))
	require.NoError(t, err)
	require.Len(t, sound.Tasks, 12)
}

func TestScriptsArePortableAndNeedNoNetwork(t *testing.T) {
	for _, folder := range []string{tasktest.Folder(t), tasktest.BrokenFolder(t)} {
		require.NoError(t, filepath.Walk(folder, func(path string, info os.FileInfo, err error) error {
			if err != nil || info.IsDir() || !strings.HasSuffix(path, ".sh") {
				return err
			}
			text, err := os.ReadFile(path)
			require.NoError(t, err)
			require.True(t, strings.HasPrefix(string(text), "#!/bin/sh\n"), path)
			require.NotZero(t, info.Mode()&0o111, "%s is executable", path)
			for _, tool := range []string{"curl", "apt-get", "pip", "https://"} {
				require.NotContains(t, string(text), tool, path)
			}
			return nil
		}))
	}
}

func TestTheParquetFileHasTheRowsOfADataset(t *testing.T) {
	path := filepath.Join(t.TempDir(), "data", "train-00000-of-00001.parquet")
	names := tasktest.WriteParquet(t, tasktest.Folder(t), path)
	require.Len(t, names, 11)
	require.NotContains(t, names, "two-steps")
	rows, err := parquet.ReadFile[struct {
		TaskName       string `parquet:"task_name"`
		EnvironmentTar string `parquet:"environment_tar"`
		TestSh         string `parquet:"test_sh"`
	}](path)
	require.NoError(t, err)
	require.Len(t, rows, len(names))
	for i, r := range rows {
		require.Equal(t, names[i], r.TaskName)
		require.NotEmpty(t, r.EnvironmentTar)
		require.Contains(t, r.TestSh, "/logs/verifier/reward.")
	}
}

func TestTheBaseImagesAreMadeOnce(t *testing.T) {
	tasktest.MakeImages(t)
	created := func() string {
		return dockertest.Command(t, "image", "inspect", "-f", "{{.Id}} {{.Created}}", "hermes-env-demo:busybox", "hermes-env-demo:git")
	}
	before := created()
	tasktest.MakeImages(t)
	require.Equal(t, before, created())
}

func TestTheReplayScriptKnowsEveryTask(t *testing.T) {
	text, err := os.ReadFile(tasktest.ReplayScript(t))
	require.NoError(t, err)
	script, err := replay.Parse("replay.yaml", text)
	require.NoError(t, err)
	list, err := harbor.List(t.Context(), tasktest.Folder(t))
	require.NoError(t, err)
	prompts := map[string]string{}
	for _, task := range list.Tasks {
		for _, step := range task.Steps {
			prompts[task.Name+"/"+step.Name] = step.Instruction
		}
		if len(task.Steps) == 0 {
			prompts[task.Name] = task.Instruction
		}
	}
	require.Len(t, script.Conversations, len(prompts))
	for name, prompt := range prompts {
		matches := 0
		for _, c := range script.Conversations {
			if strings.Contains(prompt, c.Match.Contains) {
				matches++
			}
		}
		require.Equal(t, 1, matches, name)
	}
}
