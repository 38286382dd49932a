package harbor_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/env/dataset/harbor"
)

const registryText = `[
 {"name": "demo", "version": "1.0", "tasks": [{"name": "old", "path": "tasks/one"}]},
 {"name": "demo", "version": "2.0", "description": "d", "tasks": [
  {"name": "first", "git_url": "https://example.org/x.git", "git_commit_id": "` + commitID + `", "path": "tasks/one"},
  {"git_url": "https://example.org/x.git", "git_commit_id": "HEAD", "path": "tasks/two"},
  {"name": "away", "git_url": "https://example.org/other.git", "git_commit_id": "abc", "path": "tasks/away"},
  {"name": "hostile", "path": "../../etc"}]}
]`

func TestADataSetOfARegistryIsListed(t *testing.T) {
	root := t.TempDir()
	write(t, root, map[string]string{"registry.json": registryText, ".git/HEAD": "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"})
	write(t, filepath.Join(root, "tasks", "one"), simple())
	write(t, filepath.Join(root, "tasks", "two"), simple())
	write(t, filepath.Join(root, "tasks", "not-listed"), simple())
	c, err := harbor.ListDataset(t.Context(), root, "demo")
	require.NoError(t, err)
	require.Equal(t, []string{"first", "two"}, []string{c.Tasks[0].Name, c.Tasks[1].Name})
	require.Len(t, c.Tasks, 2)
	require.Len(t, c.Broken, 2)
	require.ErrorContains(t, c.Broken[0].Err, "clone https://example.org/other.git (commit abc)")
	require.ErrorContains(t, c.Broken[1].Err, "leads out")
	require.Len(t, c.Notes, 1)
	require.Contains(t, c.Notes[0].String(), commitID)
	require.NotEmpty(t, c.Digest)

	c, err = harbor.ListDataset(t.Context(), root, "demo@1.0")
	require.NoError(t, err)
	require.Equal(t, "old", c.Tasks[0].Name)
	_, err = harbor.ListDataset(t.Context(), root, "other")
	require.ErrorContains(t, err, "it has demo@1.0, demo@2.0")
}

func TestRegistriesThatCannotBeReadAreNamed(t *testing.T) {
	for name, c := range map[string]struct{ text, says string }{
		"no JSON":     {"[", "registry.json"},
		"wrong types": {`[{"name": 1}]`, "name"},
		"no name":     {`[{"version": "1"}]`, "data set 1 has no name"},
	} {
		t.Run(name, func(t *testing.T) {
			root := write(t, t.TempDir(), map[string]string{"registry.json": c.text})
			_, err := harbor.ListDataset(t.Context(), root, "x")
			require.ErrorContains(t, err, c.says)
		})
	}
	single := write(t, t.TempDir(), map[string]string{"registry.json": `{"name": "solo", "tasks": []}`})
	c, err := harbor.ListDataset(t.Context(), single, "solo")
	require.NoError(t, err)
	require.Empty(t, c.Tasks)
	_, err = harbor.ListDataset(t.Context(), t.TempDir(), "x")
	require.ErrorContains(t, err, "registry.json")
}
