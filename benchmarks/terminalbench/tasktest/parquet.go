package tasktest

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/parquet-go/parquet-go"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"github.com/hermes-env/hermes-env/env/dataset/harbor"
)

// row has the columns of the Terminal-Bench datasets on Hugging Face.
type row struct {
	TaskName        string   `parquet:"task_name"`
	Instruction     string   `parquet:"instruction"`
	DockerImage     *string  `parquet:"docker_image,optional"`
	Category        string   `parquet:"category"`
	Difficulty      string   `parquet:"difficulty"`
	Tags            string   `parquet:"tags"`
	AgentTimeout    *float64 `parquet:"agent_timeout_sec,optional"`
	TestTimeout     float64  `parquet:"test_timeout_sec"`
	EnvironmentTar  string   `parquet:"environment_tar"`
	TestsTar        string   `parquet:"tests_tar"`
	TestSh          string   `parquet:"test_sh"`
	UnrelatedColumn string   `parquet:"custom_docker_compose"` // datasets have columns nobody knows of
}

// WriteParquet writes the tasks of a folder that fit into rows as a Parquet file, in
// the form of the Terminal-Bench datasets, and returns their names. Solutions are not
// in it, nor are tasks of several steps.
func WriteParquet(t testing.TB, folder, path string) []string {
	t.Helper()
	var names []string
	var rows []row
	entries, err := os.ReadDir(folder)
	require.NoError(t, err)
	for _, entry := range entries {
		task, err := harbor.Load(context.Background(), filepath.Join(folder, entry.Name()))
		require.NoError(t, err)
		if len(task.Steps) > 0 {
			continue
		}
		packed, err := harbor.PackRow(context.Background(), task)
		require.NoError(t, err)
		get := func(name string) gjson.Result { return gjson.GetBytes(packed, name) }
		r := row{
			TaskName: get("task_name").String(), Instruction: get("instruction").String(), Category: get("category").String(),
			Difficulty: get("difficulty").String(), Tags: get("tags").String(), TestTimeout: get("test_timeout_sec").Float(),
			EnvironmentTar: get("environment_tar").String(), TestsTar: get("tests_tar").String(), TestSh: get("test_sh").String(),
		}
		if image := get("docker_image"); image.String() != "" {
			r.DockerImage = new(image.String())
		}
		if limit := get("agent_timeout_sec"); limit.Exists() && limit.Type != gjson.Null {
			r.AgentTimeout = new(limit.Float())
		}
		names, rows = append(names, r.TaskName), append(rows, r)
	}
	require.NotEmpty(t, rows)
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, parquet.WriteFile(path, rows, parquet.Compression(&parquet.Zstd)))
	return names
}
