package terminalbench

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/env/dataset/harbor"
)

func TestWhatATaskWantsKeptIsInTheRunDirectory(t *testing.T) {
	b := newBench(t)
	writeTask(t, b.root, "kept", "#!/bin/sh\necho 42 > answer; mkdir -p out/skip; echo a > out/a; echo b > out/skip/b; echo c > out/c.log; ln -s /etc/passwd out/link; echo note > /logs/artifacts/note; head -c 3000000 /dev/zero > big\n", files{
		"task.toml": "artifacts = [\"/work/answer\", { source = \"/work/out\", destination = \"results/of/it\", exclude = [\"skip\", \"*.log\"] }, \"/work/missing\", \"/work/big\"]\n[environment]\n",
	})
	r := b.run()["kept"]
	require.Equal(t, "1", outcome(r), "%s", r.Metadata)
	dir := filepath.Join(b.dir, "artifacts", r.ID)
	for file, want := range map[string]string{"work/answer": "42\n", "results/of/it/a": "a\n", "note": "note\n"} {
		content, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(file)))
		require.NoError(t, err, "%s", r.Metadata)
		require.Equal(t, want, string(content))
	}
	for _, file := range []string{"results/of/it/skip", "results/of/it/c.log", "results/of/it/link"} {
		require.NoFileExists(t, filepath.Join(dir, filepath.FromSlash(file)))
	}
	kept := verifierOf(r).Get("artifacts")
	require.Equal(t, `["/logs/artifacts","/work/answer","/work/out","/work/missing","/work/big"]`, kept.Get("#.source").Raw)
	require.Equal(t, "it is not there", kept.Get("3.problem").String())
	require.NotEmpty(t, kept.Get("4.problem").String(), "more than the limit")
	require.Empty(t, kept.Get("2.problem").String())
	require.Equal(t, "artifacts/"+r.ID+"/work/answer", kept.Get("1.file").String())
}

func TestExcludedArtifactsAreThoseAPatternNames(t *testing.T) {
	for name, want := range map[string]bool{"a": false, "skip": true, "skip/b": true, "deep/skip/b": true, "x.log": true, "deep/x.log": true, "": false, "skipped": false} {
		require.Equal(t, want, excluded(name, harbor.Artifact{Exclude: []string{"skip/", "*.log"}}.Exclude), name)
	}
}
